//! Queries that differ only in their constants are parsed once.
//!
//! ```text
//! text → text with parameters, constants → kept algebra with parameters → algebra with the constants → Query
//! ```
//!
//! Programs send the same few queries with other constants, and parsing takes as long as planning. The text with parameters in
//! place of IRIs, strings and whole numbers is the key of the algebra that is kept. Constants that the parser itself uses stay
//! in the key: prefixes, datatypes, functions, datasets, LIMIT. A text whose algebra is not kept is parsed as any other. So
//! is each text with an error, because the error names places. Neither plans nor results are kept.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode};
use pythia_rdf::is_iri;
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use spargebra::term::{GroundTerm, GroundTriple, NamedNodePattern, TermPattern, TriplePattern};

use crate::aggregates;
use crate::charge::Charge;
use crate::error::SparqlError;
use crate::parser::may_need_rewriting;
use crate::query::Query;
use crate::size::{FREE_BYTES, text_tree_bytes};
use crate::token::{Kind, Token, tokens};
use crate::validate::{each_part, expressions_mut, pattern_of, visit_all};

/// Limit on the length of a text, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Limit on the length of a key, in bytes.
const KEY_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;
/// Limit on the bytes of constants in the algebra, which may have a constant of the text many times.
const FILLED_BYTES_MAX: usize = 16 << 10;
/// Limit on the number of different constants of a text. They are searched one after the other.
const CONSTANTS_MAX: usize = 64;
/// Limit on the number of kept queries. Each takes [`FREE_BYTES`] and [`KEY_BYTES_MAX`] at most.
const KEPT_MAX: usize = 128;
/// Limit on the number of keys of which only the hash is kept, because they came once.
const ONCE_MAX: usize = 4096;

/// Parses queries, and keeps the algebra of texts that come again with other constants.
#[derive(Debug, Default)]
pub struct ParameterizedQueries {
    parameters: Parameters,
    hasher: RandomState,
    kept: Mutex<Kept>,
}

/// The algebra by the text with parameters.
#[derive(Debug, Default)]
struct Kept {
    queries: HashMap<String, Entry>,
    /// Hashes of the keys that came once.
    once: HashSet<u64>,
    /// Number of texts that came, as a clock.
    now: u64,
}

#[derive(Debug)]
struct Entry {
    /// `None` if the text has an error or a form for which the algebra is not enough.
    algebra: Option<Arc<spargebra::Query>>,
    last_used: u64,
}

/// The result of a look-up among the kept queries.
enum Found {
    Algebra(Arc<spargebra::Query>),
    /// Came before, and is not kept.
    Again,
    Nothing,
}

/// A text with parameters in place of its constants.
struct Parameterized<'t> {
    key: String,
    /// The bytes of the base IRI and its separator, before the text.
    text_from: usize,
    constants: Vec<Constant<'t>>,
}

/// An IRI, a string or a whole number, as it is written between its delimiters.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Constant<'t> {
    kind: Kind,
    text: &'t str,
}

/// The names of parameters: a number that no text can know, and the number of the constant.
#[derive(Debug)]
struct Parameters {
    secret: String,
}

impl ParameterizedQueries {
    /// Parses a query like [`Query::parse_within`].
    ///
    /// # Errors
    /// Those of [`Query::parse_within`].
    pub fn parse_within(
        &self,
        text: &str,
        base: Option<&str>,
        charge: Box<dyn Charge>,
    ) -> Result<Query, SparqlError> {
        charge.check()?;
        let Some(read) = self.parameters.read(text, base) else {
            return Query::parse_within(text, base, charge);
        };
        match self.find(&read.key) {
            Found::Algebra(algebra) => {
                if let Some(filled) = self.parameters.fill(&algebra, &read.constants) {
                    return Ok(filled.into());
                }
            }
            Found::Again => {
                let algebra = self.parse_to_keep(&read, base);
                self.keep(read.key, algebra);
            }
            Found::Nothing => {}
        }
        Query::parse_within(text, base, charge)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic leaves nothing half done that matters here.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &str) -> Found {
        let mut kept = self.kept();
        kept.now += 1;
        let now = kept.now;
        if let Some(entry) = kept.queries.get_mut(key) {
            entry.last_used = now;
            return entry.algebra.clone().map_or(Found::Nothing, Found::Algebra);
        }
        if kept.once.len() >= ONCE_MAX {
            kept.once.clear();
        }
        match kept.once.insert(self.hasher.hash_one(key)) {
            true => Found::Nothing,
            false => Found::Again,
        }
    }

    /// Parses a text with parameters. Returns `None` if the result does not hold for all constants.
    fn parse_to_keep(
        &self,
        read: &Parameterized<'_>,
        base: Option<&str>,
    ) -> Option<spargebra::Query> {
        let text = &read.key[read.text_from..];
        let asks_others = text.to_ascii_lowercase().contains("service");
        // An escape may hide anything.
        let is_plain = !asks_others && !text.contains('\\') && !is_special(&read.key);
        if !is_plain || text_tree_bytes(text, base) + FILLED_BYTES_MAX > FREE_BYTES {
            return None;
        }
        let algebra = Query::parse(text, base).ok()?.algebra;
        let filled = self.parameters.fill(&algebra, &read.constants)?;
        let is_filled = !filled.to_sse().contains(&self.parameters.secret);
        is_filled.then_some(algebra)
    }

    fn keep(&self, key: String, algebra: Option<spargebra::Query>) {
        let mut kept = self.kept();
        if kept.queries.len() >= KEPT_MAX {
            let entries = kept.queries.iter();
            let oldest = entries.min_by_key(|(_, entry)| entry.last_used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                kept.queries.remove(&oldest);
            }
        }
        let entry = Entry {
            algebra: algebra.map(Arc::new),
            last_used: kept.now,
        };
        kept.queries.insert(key, entry);
    }
}

impl Default for Parameters {
    fn default() -> Self {
        let secret = RandomState::new().hash_one("parameters");
        Self {
            secret: format!("1{secret:020}"),
        }
    }
}

impl Parameters {
    /// Reads a text. Returns `None` if it is too long, or if its constants are too many or not plain.
    fn read<'t>(&self, text: &'t str, base: Option<&str>) -> Option<Parameterized<'t>> {
        // No such base is valid, but its key could be that of a valid one.
        let is_odd = base.is_some_and(|base| base.is_empty() || base.contains('\n'));
        if text.len() > TEXT_BYTES_MAX || is_odd {
            return None;
        }
        let base = base.unwrap_or_default();
        let mut key = String::with_capacity(base.len() + 1 + text.len() + CONSTANTS_MAX);
        key.extend([base, "\n"]);
        let text_from = key.len();
        let mut constants = Vec::new();
        // The text up to this byte is in the key.
        let mut copied = 0;
        let mut is_prologue = true;
        let mut before: [Option<Token<'t>>; 2] = [None, None];
        let mut tokens = tokens(text).peekable();
        while let Some(token) = tokens.next() {
            is_prologue &= !starts_query(&token);
            let next = tokens.peek().map(|next| next.text);
            if !is_prologue && let Some(constant) = constant(&token, next, before) {
                let known = constants.iter().position(|known| *known == constant);
                let number = known.unwrap_or(constants.len());
                if known.is_none() {
                    constants.push(constant);
                }
                if constants.len() > CONSTANTS_MAX {
                    return None;
                }
                key.push_str(&text[copied..token.start]);
                self.write(constant.kind, number, &mut key);
                copied = token.end;
            }
            before = [before[1], Some(token)];
        }
        key.push_str(&text[copied..]);
        let is_plain = |constant: &Constant<'_>| match constant.kind {
            Kind::Iri => !is_special(constant.text) && is_iri(constant.text),
            _ => !is_special(constant.text),
        };
        if key.len() > KEY_BYTES_MAX || !constants.iter().all(is_plain) {
            return None;
        }
        Some(Parameterized {
            key,
            text_from,
            constants,
        })
    }

    /// Writes a parameter.
    fn write(&self, kind: Kind, number: usize, text: &mut String) {
        match kind {
            Kind::Iri => text.extend(["<", IRI]),
            Kind::String => text.push('"'),
            _ => {}
        }
        text.push_str(&self.secret);
        // Two digits, because constants are at most [`CONSTANTS_MAX`].
        let digits = [number / 10, number % 10];
        text.extend(digits.map(|digit| char::from(b'0' + digit as u8)));
        match kind {
            Kind::Iri => text.push('>'),
            Kind::String => text.push('"'),
            _ => {}
        }
    }

    /// Returns the constant that a parameter of the algebra stands for.
    fn constant<'t>(&self, name: &str, constants: &[Constant<'t>]) -> Option<Constant<'t>> {
        let number = name.strip_prefix(&*self.secret)?.parse().ok()?;
        constants.get::<usize>(number).copied()
    }

    /// Puts constants in the places of parameters. Returns `None` if they take too much memory, or if aggregates become equal,
    /// which the parser computes once.
    fn fill(
        &self,
        algebra: &spargebra::Query,
        constants: &[Constant<'_>],
    ) -> Option<spargebra::Query> {
        let mut filled = algebra.clone();
        let mut filler = Filler {
            parameters: self,
            constants,
            bytes: 0,
        };
        if let spargebra::Query::Construct { template, .. } = &mut filled {
            template.iter_mut().for_each(|triple| filler.triple(triple));
        }
        let (mut has_groups, mut are_equal) = (false, false);
        visit_all(pattern_of(&mut filled), &mut |pattern| {
            filler.pattern(pattern);
            has_groups |= matches!(pattern, GraphPattern::Group { .. });
        });
        if has_groups {
            visit_all(pattern_of(&mut filled), &mut |pattern| {
                are_equal |= has_equal_aggregates(pattern);
            });
        }
        (filler.bytes <= FILLED_BYTES_MAX && !are_equal).then_some(filled)
    }
}

/// The start of the IRI of a parameter. It is one where the parser might take `<` for a comparison: no name has two slashes.
const IRI: &str = "http://parameter/";

/// Returns whether a text may have a form for which parsing takes more than the library, wherever it is in the query.
fn is_special(text: &str) -> bool {
    may_need_rewriting(text)
        || aggregates::may_be_called(text)
        || text.contains(aggregates::MARK_CHARACTER)
}

/// Returns whether a pattern computes the same aggregate twice.
fn has_equal_aggregates(pattern: &GraphPattern) -> bool {
    let GraphPattern::Group { aggregates, .. } = pattern else {
        return false;
    };
    let others = |place: usize| aggregates[..place].iter().map(|(_, other)| other);
    let mut aggregates = aggregates.iter().enumerate();
    aggregates.any(|(place, (_, aggregate))| others(place).any(|other| other == aggregate))
}

/// Returns whether a token is the first after the prologue.
fn starts_query(token: &Token<'_>) -> bool {
    const FORMS: [&str; 4] = ["SELECT", "ASK", "CONSTRUCT", "DESCRIBE"];
    token.kind == Kind::Word
        && FORMS
            .iter()
            .any(|form| token.text.eq_ignore_ascii_case(form))
}

/// Returns the constant that a token is, if a parameter may take its place.
fn constant<'t>(
    token: &Token<'t>,
    next: Option<&str>,
    before: [Option<Token<'t>>; 2],
) -> Option<Constant<'t>> {
    let [earlier, last] = before.map(|token| token.map_or("", |token| token.text));
    let follows = |words: &[&str]| words.iter().any(|word| last.eq_ignore_ascii_case(word));
    let is_free = match token.kind {
        // The scheme makes it absolute, and its slashes tell it from a comparison. Functions, datatypes and datasets are not free.
        Kind::Iri => {
            let has_scheme = ["<http://", "<https://"]
                .iter()
                .any(|start| token.text.starts_with(start));
            let is_odd = token.text.contains("/.") || token.text.contains(['[', '\\']);
            has_scheme && !is_odd && next != Some("(") && !follows(&["^^", "FROM", "NAMED"])
        }
        // Strings with escapes, long ones and the separator of GROUP_CONCAT are not free.
        Kind::String => {
            let is_long = token.text.starts_with("\"\"\"") || token.text.starts_with("'''");
            let is_separator = last == "=" && earlier.eq_ignore_ascii_case("separator");
            !is_long && !token.text.contains('\\') && !is_separator
        }
        // Signs may belong to the number.
        Kind::Integer => !follows(&["+", "-", "LIMIT", "OFFSET"]),
        _ => false,
    };
    let text = match token.kind {
        Kind::Iri | Kind::String => &token.text[1..token.text.len() - 1],
        _ => token.text,
    };
    is_free.then_some(Constant {
        kind: token.kind,
        text,
    })
}

/// Puts constants in the places of parameters.
struct Filler<'p, 't> {
    parameters: &'p Parameters,
    constants: &'p [Constant<'t>],
    /// The bytes of the constants that were put in.
    bytes: usize,
}

impl Filler<'_, '_> {
    fn pattern(&mut self, pattern: &mut GraphPattern) {
        match pattern {
            GraphPattern::Bgp { patterns } => patterns.iter_mut().for_each(|p| self.triple(p)),
            GraphPattern::Path {
                subject,
                path,
                object,
            } => {
                self.term(subject);
                self.path(path);
                self.term(object);
            }
            GraphPattern::Graph { name, .. } => self.name(name),
            GraphPattern::Values { bindings, .. } => {
                let terms = bindings.iter_mut().flatten().flatten();
                terms.for_each(|term| self.ground(term));
            }
            _ => {}
        }
        for expression in expressions_mut(pattern) {
            each_part(expression, &mut |part| match part {
                Expression::NamedNode(node) => self.node(node),
                Expression::Literal(literal) => self.literal(literal),
                _ => {}
            });
        }
    }

    fn triple(&mut self, triple: &mut TriplePattern) {
        self.term(&mut triple.subject);
        self.name(&mut triple.predicate);
        self.term(&mut triple.object);
    }

    fn term(&mut self, term: &mut TermPattern) {
        match term {
            TermPattern::NamedNode(node) => self.node(node),
            TermPattern::Literal(literal) => self.literal(literal),
            TermPattern::Triple(triple) => self.triple(triple),
            TermPattern::BlankNode(_) | TermPattern::Variable(_) => {}
        }
    }

    fn name(&mut self, name: &mut NamedNodePattern) {
        if let NamedNodePattern::NamedNode(node) = name {
            self.node(node);
        }
    }

    fn ground(&mut self, term: &mut GroundTerm) {
        match term {
            GroundTerm::NamedNode(node) => self.node(node),
            GroundTerm::Literal(literal) => self.literal(literal),
            GroundTerm::Triple(triple) => {
                let GroundTriple {
                    subject,
                    predicate,
                    object,
                } = &mut **triple;
                self.node(subject);
                self.node(predicate);
                self.ground(object);
            }
        }
    }

    fn path(&mut self, path: &mut PropertyPathExpression) {
        use PropertyPathExpression as P;
        match path {
            P::NamedNode(node) => self.node(node),
            P::Reverse(inner)
            | P::ZeroOrMore(inner)
            | P::OneOrMore(inner)
            | P::ZeroOrOne(inner) => {
                self.path(inner);
            }
            P::Sequence(left, right) | P::Alternative(left, right) => {
                self.path(left);
                self.path(right);
            }
            P::NegatedPropertySet(nodes) => nodes.iter_mut().for_each(|node| self.node(node)),
        }
    }

    fn node(&mut self, node: &mut NamedNode) {
        let name = node.as_str().strip_prefix(IRI).unwrap_or_default();
        if let Some(iri) = self.take(name, |kind| kind == Kind::Iri) {
            *node = NamedNode::new_unchecked(iri);
        }
    }

    /// Returns the constant of a parameter if it is of a kind, while there is memory.
    fn take(&mut self, name: &str, is_kind: impl Fn(Kind) -> bool) -> Option<&str> {
        let constant = self.parameters.constant(name, self.constants);
        let constant = constant.filter(|constant| is_kind(constant.kind))?;
        self.bytes += constant.text.len();
        (self.bytes <= FILLED_BYTES_MAX).then_some(constant.text)
    }

    fn literal(&mut self, literal: &mut Literal) {
        let Some(value) = self.take(literal.value(), |kind| kind != Kind::Iri) else {
            return;
        };
        *literal = match (literal.language(), literal.direction()) {
            (Some(language), None) => {
                Literal::new_language_tagged_literal_unchecked(value, language)
            }
            (Some(language), Some(direction)) => {
                Literal::new_directional_language_tagged_literal_unchecked(
                    value, language, direction,
                )
            }
            (None, _) if literal.datatype() == xsd::STRING => Literal::new_simple_literal(value),
            (None, _) => Literal::new_typed_literal(value, literal.datatype()),
        };
    }
}

#[cfg(test)]
mod tests;

//! Completion of a query that is being written: `POST /complete`.
//!
//! The triples around the cursor are evaluated with a variable in place of the typed text. A sample of their
//! solutions shows which predicates, classes or nodes can follow, and how often. Where the sample is empty,
//! statistics are used.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use oxrdf::{NamedNode, Term};
use pythia::completion::{CompletionContext, Expected, SOUGHT};
use pythia::ids::{QuadPattern, TermId};
use pythia::{Database, GraphRules, QueryError, well_known_prefixes};
use serde::{Deserialize, Serialize};

use super::find::find_ids;
use super::labels::labels;
use super::reader::{Limits, Reader};
use super::void::{classes, graphs, properties};
use super::words::{self, Kind, Match, TypedText};

/// Limit on the solutions in a sample.
const SAMPLE: usize = 10_000;
/// Limit on the distinct terms taken from a sample.
const TERMS: usize = 500;
/// Time limit of one pattern.
const PATTERN_TIME: Duration = Duration::from_millis(200);
/// Time limit for counting over the whole dataset.
const STATISTICS_TIME: Duration = Duration::from_millis(300);
/// Limit on the instances of a class that are counted one by one.
const COUNTED: u64 = 10_000;
/// Limit on the things found by name that are tried.
const NAMED: usize = 60;
/// Default and maximum number of suggestions.
const USUAL: usize = 20;
const MOST: usize = 200;

/// A completion request.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    query: String,
    /// In UTF-16 code units.
    cursor: usize,
    limit: Option<usize>,
}

/// The suggestions for a part of the text.
#[derive(Debug, Serialize)]
pub(super) struct Completion {
    /// In UTF-16 code units.
    from: usize,
    to: usize,
    items: Vec<Suggestion>,
}

/// Completes queries on a database, for programs that are no server.
pub struct Completer {
    database: Arc<Database>,
}

/// The suggestions for a part of a text.
pub struct Completions {
    /// The part, in bytes.
    pub span: Range<usize>,
    /// What may stand there, the most likely first.
    pub items: Vec<Suggestion>,
}

impl Completer {
    /// Completes with the terms of this database.
    pub fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Returns what may follow at a position of a text, in bytes, within a limit of time.
    ///
    /// # Errors
    /// [`QueryError::Timeout`], and errors of the store.
    pub fn complete(
        &self,
        text: &str,
        cursor: usize,
        time: Duration,
    ) -> Result<Completions, QueryError> {
        let database = Arc::clone(&self.database);
        let reader = Reader::new(database, GraphRules::all(), time, Arc::default());
        suggestions(&reader, text, cursor, USUAL)
    }
}

/// A suggestion.
#[derive(Clone, Debug, Serialize)]
pub struct Suggestion {
    /// The text to insert.
    pub insert: String,
    pub(super) iri: Option<String>,
    /// A name of the thing that it inserts.
    pub label: Option<String>,
    pub(super) kind: Kind,
    pub(super) count: Option<u64>,
    /// The prefix declaration that the suggestion needs.
    pub(super) prefix: Option<Prefix>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Prefix {
    pub(super) name: String,
    pub(super) iri: String,
}

/// A term that may follow, and its frequency.
struct Candidate {
    term: Term,
    count: Option<u64>,
}

/// Returns the suggestions at the cursor.
pub(super) fn complete(reader: &Reader, request: &Request) -> Result<Completion, QueryError> {
    let text = &request.query;
    let cursor = byte_of(text, request.cursor);
    let limit = request.limit.unwrap_or(USUAL).min(MOST);
    let found = suggestions(reader, text, cursor, limit)?;
    let units = |bytes: usize| text[..bytes].encode_utf16().count();
    Ok(Completion {
        from: units(found.span.start),
        to: units(found.span.end),
        items: found.items,
    })
}

/// Returns at most this many suggestions.
fn suggestions(
    reader: &Reader,
    text: &str,
    cursor: usize,
    limit: usize,
) -> Result<Completions, QueryError> {
    let place = CompletionContext::at(text, cursor);
    let mut items = match place.typed.starts_with(['?', '$']) && place.expected != Expected::Nothing
    {
        true => words::variables(&place),
        false => suggest(reader, &place, limit)?,
    };
    items.truncate(limit);
    Ok(Completions {
        span: place.span,
        items,
    })
}

/// Converts an offset in UTF-16 code units to bytes; offsets past the end give the end.
fn byte_of(text: &str, units: usize) -> usize {
    let mut passed = 0;
    for (byte, c) in text.char_indices() {
        if passed >= units {
            return byte;
        }
        passed += c.len_utf16();
    }
    text.len()
}

fn suggest(
    reader: &Reader,
    place: &CompletionContext,
    limit: usize,
) -> Result<Vec<Suggestion>, QueryError> {
    let mut items = match place.expected {
        Expected::Nothing | Expected::PrefixName | Expected::Clause | Expected::Expression => {
            Vec::new()
        }
        Expected::Projection | Expected::AfterTriple => Vec::new(),
        Expected::Graph => {
            let mut known = graphs(reader)?;
            known.sort_by_key(|(_, quads)| std::cmp::Reverse(*quads));
            listed(reader, place, &known, Kind::Graph)?
        }
        Expected::Predicate => predicates(reader, place, limit)?,
        Expected::Class => of_type(reader, place, limit)?,
        Expected::Object | Expected::Subject => nodes(reader, place, limit)?,
    };
    let words = words::words(place);
    // A typed keyword is meant as such; elsewhere keywords come after the terms.
    match place.expected {
        Expected::Subject if place.typed.is_empty() => {
            items.splice(0..0, words);
        }
        _ => items.extend(words),
    }
    Ok(items)
}

fn predicates(
    reader: &Reader,
    place: &CompletionContext,
    limit: usize,
) -> Result<Vec<Suggestion>, QueryError> {
    let found = around(reader, place)?;
    let mut items = items(reader, place, found, Kind::Predicate)?;
    if items.len() < limit {
        let known = match properties(&reader.within(STATISTICS_TIME)) {
            Err(QueryError::Timeout) => Vec::new(),
            known => known?,
        };
        let more = listed(reader, place, &known, Kind::Predicate)?;
        // Predicates from the query's own solutions come first, with their counts.
        add(&mut items, more);
    }
    Ok(items)
}

fn of_type(
    reader: &Reader,
    place: &CompletionContext,
    limit: usize,
) -> Result<Vec<Suggestion>, QueryError> {
    let found = around(reader, place)?;
    let mut items = items(reader, place, found, Kind::Class)?;
    if items.len() < limit {
        let reader_of_all = reader.within(STATISTICS_TIME);
        let count = |pattern: &QuadPattern| reader_of_all.estimate(pattern, COUNTED);
        let (known, _) = classes(&reader_of_all, count)?;
        add(&mut items, listed(reader, place, &known, Kind::Class)?);
    }
    Ok(items)
}

fn nodes(
    reader: &Reader,
    place: &CompletionContext,
    limit: usize,
) -> Result<Vec<Suggestion>, QueryError> {
    let found = around(reader, place)?;
    let mut items = items(reader, place, found, Kind::Node)?;
    if items.len() < limit && !place.typed.is_empty() {
        let named = by_name(reader, place)?;
        add(&mut items, named);
    }
    Ok(items)
}

/// Appends suggestions that are not in the list yet.
fn add(items: &mut Vec<Suggestion>, more: Vec<Suggestion>) {
    let known: HashSet<String> = items.iter().map(|item| item.insert.clone()).collect();
    items.extend(
        more.into_iter()
            .filter(|item| !known.contains(&item.insert)),
    );
}

/// Returns the terms that the surrounding triples allow in this place, the most frequent first.
fn around(reader: &Reader, place: &CompletionContext) -> Result<Vec<Candidate>, QueryError> {
    // Patterns of variables only say nothing that statistics do not say better.
    let patterns = place.samples.iter().chain(&place.patterns);
    for pattern in patterns.filter(|pattern| pattern.contains(['<', '"', '\''])) {
        let counts = sample(reader, place, pattern)?;
        if !counts.is_empty() {
            let mut found: Vec<(Term, u64)> = counts.into_iter().collect();
            found.sort_by(|(a, a_count), (b, b_count)| {
                let order = b_count.cmp(a_count);
                order.then_with(|| a.to_string().cmp(&b.to_string()))
            });
            found.truncate(TERMS);
            let found = found.into_iter().map(|(term, count)| Candidate {
                term,
                count: Some(count),
            });
            return Ok(found.collect());
        }
    }
    Ok(Vec::new())
}

/// Counts the values of the sought variable in the solutions that are found in time.
fn sample(
    reader: &Reader,
    place: &CompletionContext,
    pattern: &str,
) -> Result<HashMap<Term, u64>, QueryError> {
    let query = format!("{}SELECT ?{SOUGHT} {{ {pattern} }}", base(place));
    let limits = Limits {
        time: PATTERN_TIME,
        rows: SAMPLE,
    };
    let mut counts = HashMap::new();
    let outcome = reader.each(&query, limits, |solution| {
        if let Some(term) = solution.get(SOUGHT) {
            *counts.entry(term.clone()).or_default() += 1;
        }
    });
    tolerated(reader, outcome)?;
    Ok(counts)
}

fn base(place: &CompletionContext) -> String {
    match &place.base {
        Some(base) => format!("BASE <{base}> "),
        None => String::new(),
    }
}

/// Ignores errors of a query that is only half written, except errors of the store.
fn tolerated(reader: &Reader, outcome: Result<(), QueryError>) -> Result<(), QueryError> {
    match outcome {
        Err(QueryError::Store(error)) => Err(error.into()),
        // The request's own time limit and cancellation still count.
        _ => reader.check(),
    }
}

/// Finds nodes by name; those that fit the query come first.
fn by_name(reader: &Reader, place: &CompletionContext) -> Result<Vec<Suggestion>, QueryError> {
    let ids = find_ids(reader, &place.typed, NAMED)?;
    let terms = reader.snapshot.decode(&ids)?;
    let mut fitting = HashSet::new();
    if let Some(pattern) = place.patterns.first() {
        let values: Vec<String> = terms.iter().map(Term::to_string).collect();
        let query = format!(
            "{}SELECT DISTINCT ?{SOUGHT} {{ VALUES ?{SOUGHT} {{ {} }} {pattern} }}",
            base(place),
            values.join(" ")
        );
        let limits = Limits {
            time: PATTERN_TIME,
            rows: NAMED,
        };
        let outcome = reader.each(&query, limits, |solution| {
            fitting.extend(solution.get(SOUGHT).cloned());
        });
        tolerated(reader, outcome)?;
    }
    let names = labels(reader, &ids)?;
    let written = TypedText::of(place);
    let mut found: Vec<(bool, Suggestion)> = Vec::new();
    for (id, term) in ids.iter().zip(terms) {
        let is_fitting = fitting.contains(&term);
        let item = written.item(&term, names.get(id).cloned(), None, Kind::Node);
        found.push((is_fitting, item));
    }
    found.sort_by_key(|(is_fitting, _)| !is_fitting);
    Ok(found.into_iter().map(|(_, item)| item).collect())
}

/// Makes suggestions from terms with known ids and counts.
fn listed(
    reader: &Reader,
    place: &CompletionContext,
    known: &[(TermId, u64)],
    kind: Kind,
) -> Result<Vec<Suggestion>, QueryError> {
    let known = &known[..known.len().min(TERMS)];
    let ids: Vec<TermId> = known.iter().map(|(id, _)| *id).collect();
    let terms = reader.snapshot.decode(&ids)?.into_iter();
    let candidates = terms.zip(known).map(|(term, (_, count))| Candidate {
        term,
        count: Some(*count),
    });
    items(reader, place, candidates.collect(), kind)
}

/// Returns suggestions for the candidates that match the typed text, the best first.
fn items(
    reader: &Reader,
    place: &CompletionContext,
    candidates: Vec<Candidate>,
    kind: Kind,
) -> Result<Vec<Suggestion>, QueryError> {
    let mut ids = Vec::new();
    for candidate in &candidates {
        ids.push(match candidate.term {
            Term::NamedNode(_) => reader.resolve(&candidate.term)?,
            _ => None,
        });
    }
    let known: Vec<TermId> = ids.iter().flatten().copied().collect();
    let names = labels(reader, &known)?;
    let written = TypedText::of(place);
    let mut found: Vec<(Match, Suggestion)> = Vec::new();
    for (candidate, id) in candidates.iter().zip(ids) {
        // Blank nodes cannot be written in a query.
        if matches!(candidate.term, Term::BlankNode(_)) {
            continue;
        }
        let label = id.and_then(|id| names.get(&id).cloned());
        if let Some(matched) = written.matches(&candidate.term, label.as_deref()) {
            let item = written.item(&candidate.term, label, candidate.count, kind);
            found.push((matched, item));
        }
    }
    // A stable sort: candidates with the same kind of match keep the order of their counts.
    found.sort_by_key(|(matched, _)| *matched);
    Ok(found.into_iter().map(|(_, item)| item).collect())
}

impl TypedText<'_> {
    fn item(
        &self,
        term: &Term,
        label: Option<String>,
        count: Option<u64>,
        kind: Kind,
    ) -> Suggestion {
        let (insert, prefix) = self.write(term, kind);
        Suggestion {
            insert,
            iri: match term {
                Term::NamedNode(node) => Some(node.as_str().to_owned()),
                _ => None,
            },
            label,
            kind,
            count,
            prefix,
        }
    }

    /// Writes a term as the query would, with the prefix declaration that this needs.
    fn write(&self, term: &Term, kind: Kind) -> (String, Option<Prefix>) {
        match term {
            Term::NamedNode(node)
                if kind == Kind::Predicate
                    && node.as_ref() == oxrdf::vocab::rdf::TYPE
                    && !self.is_name() =>
            {
                ("a".to_owned(), None)
            }
            Term::NamedNode(node) => self.name(node),
            term => (term.to_string(), None),
        }
    }

    fn name(&self, node: &NamedNode) -> (String, Option<Prefix>) {
        let iri = node.as_str();
        let in_full = || (format!("<{iri}>"), None);
        if self.typed().starts_with('<') {
            return in_full();
        }
        let declared = self.prefixes().iter();
        let declared = declared.map(|(name, iri)| (name.as_str(), iri.as_str()));
        if let Some((name, local)) = words::shortest(iri, declared) {
            return (format!("{name}:{local}"), None);
        }
        let is_free = |name: &str| self.prefixes().iter().all(|(known, _)| known != name);
        let known = well_known_prefixes().iter().copied();
        match words::shortest(iri, known.filter(|(name, _)| is_free(name))) {
            Some((name, local)) => {
                let prefix = Prefix {
                    name: name.to_owned(),
                    iri: iri[..iri.len() - local.len()].to_owned(),
                };
                (format!("{name}:{local}"), Some(prefix))
            }
            None => in_full(),
        }
    }
}

//! SPARQL's built-in functions for one row: arguments are bound, and `None` is an error.
//!
//! Functions of values ([`test`], [`call`]) do not see a term's lexical form. Those that need it
//! ([`call_with_terms`]: `STR`, `DATATYPE`, `OBJECT`, …) get the terms.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use oxiri::Iri;
use oxrdf::vocab::{rdf, xsd};
use oxrdf::{BaseDirection, Literal, LiteralRef, NamedOrBlankNodeRef, Term, TermRef, Triple};
use pythia_rdf::inline::CalendarFields;
use pythia_rdf::language::recommended_form;
use pythia_rdf::{TermId, TermKind};
use rand::Rng;
use rand::rngs::StdRng;
use rustc_hash::{FxHashMap, FxHasher};
use spargebra::algebra::Function;

use super::column::Cell;
use super::compare::{FALSE, TRUE, Truth};
use super::context::EvaluationContext;
use super::decoded::AnyTerm;
use super::digest;
use super::exact;
use super::node::Call;
use super::number::{Arithmetic, Number};
use super::pattern::{Pattern, TooLong};
use super::temporal::Component;
use super::text::{self, Text};
use super::value::Value;

/// State of calls, kept between the rows of a batch.
#[derive(Default)]
pub(crate) struct CallState {
    /// Compiled patterns that are not constant, by pattern and flags.
    patterns: FxHashMap<(String, String), Option<Pattern>>,
    random: Option<StdRng>,
    /// Set if the text of a call would be too large for memory.
    pub(crate) too_long: bool,
}

impl CallState {
    /// The most patterns kept for one batch. Further ones are compiled for each row.
    const PATTERNS_MAX: usize = 64;

    fn pattern(&mut self, pattern: &str, flags: &str) -> Option<Pattern> {
        let key = (pattern.to_owned(), flags.to_owned());
        if let Some(known) = self.patterns.get(&key) {
            return known.clone();
        }
        let compiled = Pattern::compile(pattern, flags);
        if self.patterns.len() < Self::PATTERNS_MAX {
            self.patterns.insert(key, compiled.clone());
        }
        compiled
    }

    fn random(&mut self, context: &EvaluationContext) -> &mut StdRng {
        self.random.get_or_insert_with(|| context.random())
    }
}

/// Adds, subtracts, multiplies or divides numbers, or dates and durations as in XPath.
pub(crate) fn arithmetic(
    operator: Arithmetic,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Option<Value<'static>> {
    use Arithmetic as O;
    use Value as V;
    Some(match (left, right) {
        (V::Number(a), V::Number(b)) => match a.apply(operator, *b) {
            Some(number) => number.into(),
            None => exact::arithmetic(operator, left, right)?,
        },
        (V::Exact(_), V::Exact(_) | V::Number(_)) | (V::Number(_), V::Exact(_)) => {
            exact::arithmetic(operator, left, right)?
        }
        (V::Duration(a), V::Duration(b)) => match operator {
            O::Add => a.checked_add(*b)?.into(),
            O::Subtract => a.checked_sub(*b)?.into(),
            O::Multiply | O::Divide => return None,
        },
        (V::Temporal(a), V::Duration(b)) => match operator {
            O::Add => a.add_duration(*b)?.into(),
            O::Subtract => a.subtract_duration(*b)?.into(),
            O::Multiply | O::Divide => return None,
        },
        (V::Duration(a), V::Temporal(b)) if operator == O::Add => b.add_duration(*a)?.into(),
        (V::Temporal(a), V::Temporal(b)) if operator == O::Subtract => {
            V::Duration(super::temporal::AnyDuration::DayTime(a.subtract(*b)?))
        }
        _ => return None,
    })
}

/// Returns the result of a test if the kind of its only argument decides it.
pub(crate) fn test_kind(function: &Function, kind: TermKind) -> Option<Truth> {
    use TermKind as K;
    if matches!(kind, K::Nothing | K::Computed) {
        return None;
    }
    let outcome = match function {
        Function::IsIri => kind == K::Iri,
        Function::IsBlank => kind == K::BlankNode,
        Function::IsLiteral => kind.is_literal(),
        Function::IsTriple => kind == K::Triple,
        Function::IsNumeric if kind == K::TypedLiteral => return None,
        Function::IsNumeric => matches!(
            kind,
            K::Integer | K::DerivedInteger | K::Decimal | K::Double | K::Float
        ),
        Function::HasLang => kind == K::LangString,
        Function::HasLangDir if kind == K::LangString => return None,
        Function::HasLangDir => false,
        _ => return None,
    };
    Some(if outcome { TRUE } else { FALSE })
}

/// Returns whether a function fails for every argument of a dictionary kind, so that its text need not be
/// fetched.
pub(crate) fn refuses_kind(function: &Function, kind: TermKind) -> bool {
    use Function as F;
    use TermKind as K;
    let takes: &[K] = match function {
        F::SubStr => &[K::String, K::LangString, K::TypedLiteral],
        F::StrLen
        | F::UCase
        | F::LCase
        | F::EncodeForUri
        | F::Contains
        | F::StrStarts
        | F::StrEnds
        | F::StrBefore
        | F::StrAfter
        | F::Concat
        | F::Regex
        | F::Replace => &[K::String, K::LangString],
        F::LangMatches
        | F::Md5
        | F::Sha1
        | F::Sha256
        | F::Sha384
        | F::Sha512
        | F::StrLang
        | F::StrLangDir => &[K::String],
        F::Abs
        | F::Ceil
        | F::Floor
        | F::Round
        | F::Year
        | F::Month
        | F::Day
        | F::Hours
        | F::Minutes
        | F::Seconds
        | F::Timezone
        | F::Tz => &[K::TypedLiteral],
        F::Iri => &[K::String, K::Iri],
        _ => return false,
    };
    kind.is_dictionary() && !takes.contains(&kind)
}

/// Evaluates a function that returns a boolean.
pub(crate) fn test(call: &Call, arguments: &[Value<'_>], state: &mut CallState) -> Option<bool> {
    use Function as F;
    Some(match (&call.function, arguments) {
        (F::IsIri, [value]) => matches!(value, Value::NamedNode(_)),
        (F::IsBlank, [value]) => matches!(value, Value::BlankNode(_)),
        (F::IsLiteral, [value]) => value.is_literal(),
        (F::IsNumeric, [value]) => value.is_numeric(),
        (F::IsTriple, [value]) => matches!(value, Value::Triple(_)),
        (F::HasLang, [value]) => matches!(value, Value::LangString { .. }),
        (F::HasLangDir, [Value::LangString { direction, .. }]) => direction.is_some(),
        (F::HasLangDir, [_]) => false,
        (F::LangMatches, [tag, range]) => {
            text::language_matches(tag.as_simple_string()?, range.as_simple_string()?)
        }
        (F::Contains, [a, b]) => {
            let (a, b) = text::compatible(a, b)?;
            a.text.contains(b)
        }
        (F::StrStarts, [a, b]) => {
            let (a, b) = text::compatible(a, b)?;
            a.text.starts_with(b)
        }
        (F::StrEnds, [a, b]) => {
            let (a, b) = text::compatible(a, b)?;
            a.text.ends_with(b)
        }
        (F::Regex, [text, pattern, flags @ ..]) => {
            let text = Text::of(text)?;
            match &call.pattern {
                Some(pattern) => pattern.as_ref()?.is_match(text.text),
                None => dynamic_pattern(pattern, flags, state)?.is_match(text.text),
            }
        }
        _ => return None,
    })
}

fn dynamic_pattern(
    pattern: &Value<'_>,
    flags: &[Value<'_>],
    state: &mut CallState,
) -> Option<Pattern> {
    let flags = match flags {
        [] => "",
        [flags, ..] => flags.as_simple_string()?,
    };
    state.pattern(pattern.as_simple_string()?, flags)
}

/// Evaluates a function of values.
pub(crate) fn call(
    call: &Call,
    arguments: &[Value<'_>],
    context: &EvaluationContext,
    state: &mut CallState,
) -> Option<Value<'static>> {
    use Function as F;
    Some(match (&call.function, arguments) {
        (F::Abs | F::Ceil | F::Floor | F::Round, [value]) => round(&call.function, value)?,
        (F::Rand, []) => {
            let value: f64 = state.random(context).random();
            Value::Number(Number::Double(value.into()))
        }
        (F::Now, []) => super::temporal::Temporal::DateTime(context.now()).into(),
        (F::BNode, []) => random_blank_node(state.random(context)),
        (F::Uuid, []) => {
            let uuid = text::uuid(state.random(context).random());
            Value::NamedNode(format!("urn:uuid:{uuid}").into())
        }
        (F::StrUuid, []) => text::uuid(state.random(context).random()).into(),
        (F::Iri, [value]) => iri(value, context)?,
        (F::Replace, [source, pattern, replacement, flags @ ..]) => {
            let source = Text::of(source)?;
            let replacement = replacement.as_simple_string()?;
            let bytes_max = context.governor().text_bytes_max();
            let replaced = match &call.pattern {
                Some(pattern) => pattern
                    .as_ref()?
                    .replace(source.text, replacement, bytes_max),
                None => {
                    let pattern = dynamic_pattern(pattern, flags, state)?;
                    pattern.replace(source.text, replacement, bytes_max)
                }
            };
            match replaced? {
                Ok(text) => source.with_text(text),
                Err(TooLong) => {
                    state.too_long = true;
                    return None;
                }
            }
        }
        (
            F::Year | F::Month | F::Day | F::Hours | F::Minutes | F::Seconds | F::Timezone | F::Tz,
            [value],
        ) => calendar(&call.function, value)?,
        (F::Md5 | F::Sha1 | F::Sha256 | F::Sha384 | F::Sha512, [value]) => {
            digest::hex_digest(&call.function, value.as_simple_string()?)?.into()
        }
        (F::Concat, texts) => {
            let bytes = texts
                .iter()
                .filter_map(Text::of)
                .map(|text| text.text.len());
            if bytes.sum::<usize>() > context.governor().text_bytes_max() {
                state.too_long = true;
                return None;
            }
            text::call(&F::Concat, texts)?
        }
        (function, arguments) => text::call(function, arguments)?,
    })
}

/// Returns a function that gives a number for a number; its result is `None` if it may be too long for a [`Number`].
pub(super) fn of_numbers(function: &Function) -> Option<fn(Number) -> Option<Number>> {
    Some(match function {
        Function::Abs => Number::abs,
        Function::Ceil => Number::ceil,
        Function::Floor => Number::floor,
        Function::Round => Number::round,
        _ => return None,
    })
}

/// Returns a function that gives an integer for a date, dateTime or year; its result is `None` if the type has no such
/// field.
pub(super) fn of_calendar(function: &Function) -> Option<fn(CalendarFields) -> Option<i64>> {
    Some(match function {
        Function::Year => |fields| Some(fields.year),
        Function::Month => |fields| fields.date.map(|(month, _)| month),
        Function::Day => |fields| fields.date.map(|(_, day)| day),
        Function::Hours => |fields| fields.time.map(|(hour, _)| hour),
        Function::Minutes => |fields| fields.time.map(|(_, minute)| minute),
        _ => return None,
    })
}

/// Evaluates `ABS`, `CEIL`, `FLOOR` or `ROUND`.
fn round(function: &Function, value: &Value<'_>) -> Option<Value<'static>> {
    let apply = of_numbers(function)?;
    let rounded = value.as_number().and_then(apply);
    match rounded {
        Some(number) => Some(number.into()),
        None => exact::round(function, value),
    }
}

fn calendar(function: &Function, value: &Value<'_>) -> Option<Value<'static>> {
    let Value::Temporal(value) = value else {
        return None;
    };
    let component = match function {
        Function::Year => Component::Year,
        Function::Month => Component::Month,
        Function::Day => Component::Day,
        Function::Hours => Component::Hours,
        Function::Minutes => Component::Minutes,
        Function::Seconds => {
            return Some(Number::Decimal(value.seconds()?).into());
        }
        Function::Timezone => {
            let timezone = value.timezone()?;
            return Some(super::temporal::AnyDuration::DayTime(timezone).into());
        }
        Function::Tz => {
            let offset = value.timezone_offset();
            return Some(
                offset
                    .map_or_else(String::new, |offset| offset.to_string())
                    .into(),
            );
        }
        _ => return None,
    };
    Some(Number::Integer(value.component(component)?).into())
}

/// Evaluates `IRI`: resolves a string against the query's base.
fn iri(value: &Value<'_>, context: &EvaluationContext) -> Option<Value<'static>> {
    Some(match value {
        Value::NamedNode(iri) => Value::NamedNode(iri.clone().into_owned().into()),
        Value::String(text) => {
            let iri = match context.base_iri() {
                Some(base) => base.resolve(text),
                None => Iri::parse(text.clone().into_owned()),
            };
            Value::NamedNode(iri.ok()?.into_inner().into())
        }
        _ => return None,
    })
}

fn random_blank_node(random: &mut StdRng) -> Value<'static> {
    let unique: u128 = random.random();
    blank_node(unique)
}

/// Returns a blank node with a globally unique label: a letter and 128 bits in hexadecimal.
fn blank_node(unique: u128) -> Value<'static> {
    Value::BlankNode(format!("b{unique:032x}").into())
}

/// Returns a hash that identifies a solution of a query, for `BNODE(text)`.
pub(crate) fn solution_hash(seed: u64, ids: impl Iterator<Item = TermId>) -> u64 {
    let mut hasher = FxHasher::default();
    seed.hash(&mut hasher);
    for (position, id) in ids.enumerate().filter(|(_, id)| id.is_bound()) {
        (position, id.0).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the blank node of a text within a solution.
pub(crate) fn scoped_blank_node(solution: u64, text: &str) -> Value<'static> {
    let digest = digest::sha256(&[&solution.to_le_bytes(), text.as_bytes()]);
    let mut unique = [0; 16];
    unique.copy_from_slice(&digest[..16]);
    blank_node(u128::from_le_bytes(unique))
}

/// Returns whether a function depends on the lexical form of its arguments.
pub(crate) fn is_term_function(function: &Function) -> bool {
    matches!(
        function,
        Function::Str
            | Function::Lang
            | Function::LangDir
            | Function::Datatype
            | Function::StrDt
            | Function::Triple
            | Function::Subject
            | Function::Predicate
            | Function::Object
    )
}

/// Returns the result of such a function with one argument if the argument's kind decides it.
fn term_of_kind(function: &Function, kind: TermKind) -> Option<Cell> {
    use Function as F;
    use TermKind as K;
    let cell = |value: Value<'static>| Some(Cell::Value(value));
    match (function, kind) {
        (_, K::Nothing | K::Computed) => None,
        (F::Str, K::BlankNode | K::Triple)
        | (F::Lang | F::LangDir | F::Datatype, K::BlankNode | K::Iri | K::Triple) => {
            Some(Cell::Error)
        }
        (F::Subject | F::Predicate | F::Object, kind) if kind != K::Triple => Some(Cell::Error),
        (F::Lang | F::LangDir, kind) if kind != K::LangString => {
            cell(Value::String(Cow::Borrowed("")))
        }
        (F::Datatype, kind) => {
            let datatype = match kind {
                K::String => xsd::STRING,
                K::Boolean => xsd::BOOLEAN,
                K::Integer => xsd::INTEGER,
                K::Decimal => xsd::DECIMAL,
                K::Double => xsd::DOUBLE,
                K::Float => xsd::FLOAT,
                K::Date => xsd::DATE,
                K::DateTime => xsd::DATE_TIME,
                K::GYear => xsd::G_YEAR,
                _ => return None,
            };
            cell(Value::NamedNode(Cow::Borrowed(datatype.as_str())))
        }
        _ => None,
    }
}

/// Evaluates a function of terms.
pub(crate) fn call_with_terms(function: &Function, terms: &[AnyTerm<'_>]) -> Cell {
    use Function as F;
    match (function, terms) {
        (F::Str, [term]) => spelling(term.as_ref())
            .map(|text| Value::from(text.to_owned()))
            .into(),
        (F::Lang | F::LangDir | F::Datatype, [term]) => match term.as_ref() {
            TermRef::Literal(literal) => literal_part(function, literal).into(),
            _ => Cell::Error,
        },
        (F::StrDt, [lexical, datatype]) => {
            typed_literal(lexical.as_ref(), datatype.as_ref()).into()
        }
        (F::Triple, [subject, predicate, object]) => {
            triple(subject.as_ref(), predicate.as_ref(), object.as_ref()).into()
        }
        (F::Subject | F::Predicate | F::Object, [term]) => match term.as_ref() {
            TermRef::Triple(triple) => triple_part(function, triple).into(),
            _ => Cell::Error,
        },
        _ => Cell::Error,
    }
}

/// Returns the result of a function of terms with one argument if the argument's id decides it.
pub(crate) fn term_of_id(function: &Function, id: TermId) -> Option<Cell> {
    match (function, id.kind()) {
        (Function::Str, TermKind::String) => Some(Cell::Id(id)),
        (function, kind) => term_of_kind(function, kind),
    }
}

/// Returns whether a function returns its argument unchanged.
pub(crate) fn is_itself(function: &Function, term: TermRef<'_>) -> bool {
    match term {
        TermRef::Literal(literal) => {
            matches!(function, Function::Str) && literal.datatype() == xsd::STRING
        }
        _ => false,
    }
}

/// Returns the result of `STR`; `None` for blank nodes and triple terms.
pub(crate) fn spelling(term: TermRef<'_>) -> Option<&str> {
    match term {
        TermRef::NamedNode(node) => Some(node.as_str()),
        TermRef::Literal(literal) => Some(literal.value()),
        TermRef::BlankNode(_) | TermRef::Triple(_) => None,
    }
}

fn literal_part(function: &Function, literal: LiteralRef<'_>) -> Option<Value<'static>> {
    Some(match function {
        Function::Lang => {
            let language = recommended_form(literal.language().unwrap_or_default());
            language.into_owned().into()
        }
        Function::LangDir => {
            let direction = match literal.direction() {
                Some(BaseDirection::Ltr) => "ltr",
                Some(BaseDirection::Rtl) => "rtl",
                None => "",
            };
            Value::String(direction.into())
        }
        Function::Datatype => Value::NamedNode(literal.datatype().as_str().to_owned().into()),
        _ => return None,
    })
}

/// Evaluates `STRDT`, which cannot make a language-tagged string (§17.4.2.10).
fn typed_literal(lexical: TermRef<'_>, datatype: TermRef<'_>) -> Option<Term> {
    let (TermRef::Literal(lexical), TermRef::NamedNode(datatype)) = (lexical, datatype) else {
        return None;
    };
    if lexical.datatype() != xsd::STRING
        || datatype == rdf::LANG_STRING
        || datatype == rdf::DIR_LANG_STRING
    {
        return None;
    }
    Some(Literal::new_typed_literal(lexical.value(), datatype).into())
}

fn triple(subject: TermRef<'_>, predicate: TermRef<'_>, object: TermRef<'_>) -> Option<Term> {
    let subject: NamedOrBlankNodeRef<'_> = match subject {
        TermRef::NamedNode(node) => node.into(),
        TermRef::BlankNode(node) => node.into(),
        TermRef::Literal(_) | TermRef::Triple(_) => return None,
    };
    let TermRef::NamedNode(predicate) = predicate else {
        return None;
    };
    Some(Triple::new(subject, predicate, object).into())
}

fn triple_part(function: &Function, triple: &Triple) -> Option<Term> {
    Some(match function {
        Function::Subject => triple.subject.clone().into(),
        Function::Predicate => triple.predicate.clone().into(),
        Function::Object => triple.object.clone(),
        _ => return None,
    })
}

//! The ids that can make a filter true: sorted ranges of ids that a scan may be limited to.
//!
//! The ranges are a superset, so the filter is still needed. Terms of other kinds that may satisfy it (a
//! number too large for an id, a date without timezone) are in ranges of their own.

use std::ops::Range;

use oxrdf::vocab::xsd;
use pythia_rdf::{TermId, TermKind};
use pythia_store::statistics::KindSet;
use spargebra::algebra::Function;

use super::compare::{Comparison, FALSE, TRUE};
use super::function::test_kind;
use super::id_range::{IdRanges, STRETCH_SHIFT};
use super::node::{Call, ConstantComparison, IdStrategy, Node, is_predicate};
use super::number::Number;
use super::value::Value;
use crate::error::QueryError;

/// Sorted ranges of ids that do not touch each other.
pub type IdSet = Vec<Range<u64>>;

/// Returns ids of a dictionary kind, in two ranges that contain all ids whose keys start with some bytes.
pub type PrefixIds<'a> = &'a dyn Fn(TermKind, &[u8]) -> Result<[Range<u64>; 2], QueryError>;

/// Returns the ids of `column`, which holds terms of these kinds, for which the node may be true; `None` if
/// that is possible for all.
pub(crate) fn may_be_true(
    node: &Node,
    column: usize,
    kinds: KindSet,
    ids: PrefixIds<'_>,
) -> Result<Option<IdSet>, QueryError> {
    Ok(match node {
        Node::And(children) => {
            let mut all: Option<IdSet> = None;
            for child in children {
                let Some(set) = may_be_true(child, column, kinds, ids)? else {
                    continue;
                };
                all = Some(match all {
                    Some(before) => intersection(&before, &set),
                    None => set,
                });
            }
            all
        }
        Node::Or(children) => {
            let mut any = IdSet::new();
            for child in children {
                let Some(set) = may_be_true(child, column, kinds, ids)? else {
                    return Ok(None);
                };
                any.extend(set);
            }
            Some(normal(any))
        }
        Node::CompareConstant(comparison) if comparison.column == column => {
            compared(comparison, kinds)
        }
        Node::InIris(found, iris) if *found == column => {
            Some(normal(iris.iter().map(|&id| id..id + 1).collect()))
        }
        Node::Call(call) => match prefix_test(call, column) {
            Some((prefix, of_str)) => Some(starting_with(&prefix, of_str, ids)?),
            None => of_kinds(node, column, kinds),
        },
        Node::Compare(Comparison::Equal, sides) => match start_of_text(sides, column) {
            Some((text, of_str)) => Some(starting_with(text, of_str, ids)?),
            None => of_kinds(node, column, kinds),
        },
        _ => of_kinds(node, column, kinds),
    })
}

/// Returns the text with which the column's text starts, or `STR` of the column, if that or a part from its start is to
/// equal a constant.
fn start_of_text(sides: &(Node, Node), column: usize) -> Option<(&str, bool)> {
    let (call, constant) = compared_call(sides)?;
    let Value::String(text) = constant else {
        return None;
    };
    let is_column = |node: &Node| matches!(node, Node::Variable(found) if *found == column);
    let is_str = |call: &Call| {
        call.function == Function::Str && matches!(&call.arguments[..], [of] if is_column(of))
    };
    let is_first = |node: &Node| match node {
        Node::Constant(constant) => {
            matches!(constant.value, Value::Number(Number::Integer(place)) if i64::from(place) == 1)
        }
        _ => false,
    };
    let of_str = match (&call.function, &call.arguments[..]) {
        (Function::SubStr, [of, place, ..]) if is_first(place) => match of {
            Node::Call(of) if is_str(of) => true,
            of if is_column(of) => false,
            _ => return None,
        },
        _ if is_str(call) => true,
        _ => return None,
    };
    (!text.is_empty() && !text.contains('\0')).then_some((text, of_str))
}

/// Returns all ids of the kinds for which a test of the column's kind, datatype or language may be true.
fn of_kinds(node: &Node, column: usize, kinds: KindSet) -> Option<IdSet> {
    let is_column =
        |call: &Call| matches!(call.arguments[..], [Node::Variable(found)] if found == column);
    let those = |may_pass: &dyn Fn(TermKind) -> bool| {
        let passing = kinds.iter().filter(|kind| may_pass(*kind));
        normal(passing.map(all_of).collect())
    };
    match node {
        Node::Call(call) if is_column(call) && is_predicate(&call.function) => {
            Some(those(&|kind| {
                test_kind(&call.function, kind) != Some(FALSE)
            }))
        }
        Node::Not(inner) => match &**inner {
            Node::Call(call) if is_column(call) && is_predicate(&call.function) => {
                Some(those(&|kind| test_kind(&call.function, kind) != Some(TRUE)))
            }
            _ => None,
        },
        Node::Compare(operator, sides) => {
            let (call, constant) = compared_call(sides).filter(|(call, _)| is_column(call))?;
            if let (Function::Year, Value::Number(Number::Integer(year))) =
                (&call.function, constant)
            {
                let operator = match &sides.0 {
                    Node::Constant(_) => operator.mirrored(),
                    _ => *operator,
                };
                return in_years(operator, (*year).into(), kinds);
            }
            let is_equal = match operator {
                Comparison::Equal => true,
                Comparison::NotEqual => false,
                _ => return None,
            };
            match (&call.function, constant) {
                (Function::Datatype, Value::NamedNode(datatype)) => {
                    Some(those(&|kind| match is_equal {
                        true => may_have_datatype(kind, datatype),
                        false => kind.is_literal() && !always_has_datatype(kind, datatype),
                    }))
                }
                (Function::Lang, Value::String(tag)) => Some(those(&|kind| {
                    let is_tagged = kind == TermKind::LangString;
                    let may_pass = match is_equal {
                        true => is_tagged != tag.is_empty(),
                        false => is_tagged || !tag.is_empty(),
                    };
                    kind.is_literal() && may_pass
                })),
                _ => None,
            }
        }
        Node::Call(call) if call.function == Function::LangMatches => match &call.arguments[..] {
            // The language of other terms is empty, which matches the empty range only.
            [Node::Call(lang), Node::Constant(range)]
                if lang.function == Function::Lang
                    && is_column(lang)
                    && matches!(&range.value, Value::String(range) if !range.is_empty()) =>
            {
                Some(those(&|kind| kind == TermKind::LangString))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a test of a term's kind passes, or does not pass, for all terms of these kinds.
pub fn always(passes: bool, function: &Function, kinds: KindSet) -> bool {
    let outcome = if passes { TRUE } else { FALSE };
    (kinds.iter()).all(|kind| test_kind(function, kind) == Some(outcome))
}

/// Returns the call and the constant that are compared.
fn compared_call(sides: &(Node, Node)) -> Option<(&Call, &Value<'static>)> {
    match sides {
        (Node::Call(call), Node::Constant(constant))
        | (Node::Constant(constant), Node::Call(call)) => Some((call, &constant.value)),
        _ => None,
    }
}

/// Returns whether all terms of a kind have this datatype.
fn always_has_datatype(kind: TermKind, datatype: &str) -> bool {
    kind == TermKind::String && datatype == xsd::STRING.as_str()
}

fn may_have_datatype(kind: TermKind, datatype: &str) -> bool {
    use TermKind as K;
    let inline = [
        (K::Boolean, xsd::BOOLEAN),
        (K::Integer, xsd::INTEGER),
        (K::Decimal, xsd::DECIMAL),
        (K::Double, xsd::DOUBLE),
        (K::Float, xsd::FLOAT),
        (K::Date, xsd::DATE),
        (K::DateTime, xsd::DATE_TIME),
        (K::GYear, xsd::G_YEAR),
    ];
    let is_text = datatype == xsd::STRING.as_str();
    let is_tagged = datatype.starts_with("http://www.w3.org/1999/02/22-rdf-syntax-ns#");
    let found = inline.iter().find(|(_, of)| of.as_str() == datatype);
    match kind {
        K::String => is_text,
        K::LangString => is_tagged,
        // Forms that do not fit in an id, and all other datatypes.
        K::TypedLiteral => !is_text,
        K::DerivedInteger => found.is_none() && !is_text && !is_tagged,
        _ => found.is_some_and(|(inline, _)| *inline == kind),
    }
}

fn compared(comparison: &ConstantComparison, kinds: KindSet) -> Option<IdSet> {
    let ConstantComparison {
        operator, constant, ..
    } = comparison;
    let one = constant.id.0..constant.id.0 + 1;
    match &comparison.strategy {
        _ if *operator == Comparison::NotEqual => None,
        IdStrategy::SameId => Some(vec![one]),
        IdStrategy::Ranges(ranges) => Some(in_ranges(ranges, &constant.value, kinds)),
        // A string equals only itself.
        IdStrategy::Each => match (operator, &constant.value) {
            (Comparison::Equal, Value::String(_)) => Some(vec![one]),
            _ => None,
        },
    }
}

fn in_ranges(ranges: &IdRanges, constant: &Value<'_>, kinds: KindSet) -> IdSet {
    use TermKind as K;
    let (ordered, others): (&[K], &[K]) = match constant {
        Value::Number(_) => (
            &[K::Integer, K::DerivedInteger, K::Decimal],
            &[K::TypedLiteral, K::Double, K::Float],
        ),
        _ => (&[K::Date, K::DateTime, K::GYear], &[K::TypedLiteral]),
    };
    let there = |kind: &&K| kinds.contains(**kind);
    let mut set: IdSet = others
        .iter()
        .filter(there)
        .map(|&kind| all_of(kind))
        .collect();
    let between = ranges.between.unwrap_or(TRUE);
    for kind in ordered.iter().filter(there) {
        let Range { start, end } = all_of(*kind);
        for stretch in start >> STRETCH_SHIFT..((end - 1) >> STRETCH_SHIFT) + 1 {
            let (first, after) = (stretch << STRETCH_SHIFT, (stretch + 1) << STRETCH_SHIFT);
            let Some(bounds) = ranges.bounds(stretch) else {
                set.push(first..after);
                continue;
            };
            let lower = bounds.lower.clamp(first, after);
            let upper = bounds.upper.clamp(lower, after);
            let parts = [
                (ranges.less, first..lower),
                (between, lower..upper),
                (ranges.greater, upper..after),
            ];
            let accepted = parts.into_iter().filter(|(truth, _)| *truth == TRUE);
            set.extend(accepted.map(|(_, ids)| ids));
        }
    }
    normal(set)
}

/// Returns the ids of terms of these kinds whose year may compare to a constant like this.
fn in_years(operator: Comparison, year: i64, kinds: KindSet) -> Option<IdSet> {
    let (from, to) = match operator {
        Comparison::Equal => (Some(year), Some(year + 1)),
        Comparison::Less => (None, Some(year)),
        Comparison::LessOrEqual => (None, Some(year + 1)),
        Comparison::Greater => (Some(year + 1), None),
        Comparison::GreaterOrEqual => (Some(year), None),
        Comparison::NotEqual => return None,
    };
    let mut all: Option<IdSet> = None;
    for (year, operator) in [(from, Comparison::GreaterOrEqual), (to, Comparison::Less)] {
        let Some(year) = year else {
            continue;
        };
        if !(1..9999).contains(&year) {
            return None;
        }
        let first = format!("{year:04}-01-01");
        let literals = [
            (xsd::DATE, first.clone()),
            (xsd::DATE_TIME, format!("{first}T00:00:00")),
        ];
        // Each restricts its own kind. The bounds of an id allow for every timezone.
        for (datatype, lexical) in literals {
            let first = Value::from_typed(&lexical, datatype.as_str());
            let set = in_ranges(&IdRanges::new(operator, &first)?, &first, kinds);
            all = Some(match all {
                Some(before) => intersection(&before, &set),
                None => set,
            });
        }
    }
    all
}

/// Returns all ids of a kind.
pub fn all_of(kind: TermKind) -> Range<u64> {
    let first = TermId::new(kind, 0).0;
    first..TermId::new(kind, TermId::PAYLOAD_MAX).0 + 1
}

/// Returns the constant prefix that a call requires of the column's text, and whether it applies to `STR`
/// of the column.
fn prefix_test(call: &Call, column: usize) -> Option<(String, bool)> {
    let (text, constant) = match (&call.function, &call.arguments[..]) {
        (Function::StrStarts | Function::Regex, [text, Node::Constant(constant)]) => {
            (text, constant)
        }
        _ => return None,
    };
    let Value::String(argument) = &constant.value else {
        return None;
    };
    let of_str = match text {
        Node::Variable(found) if *found == column => false,
        Node::Call(inner) => match (&inner.function, &inner.arguments[..]) {
            (Function::Str, [Node::Variable(found)]) if *found == column => true,
            _ => return None,
        },
        _ => return None,
    };
    let prefix = match call.function {
        Function::Regex => literal_prefix(argument)?,
        _ => argument.to_string(),
    };
    // Keys of some kinds encode NUL differently.
    (!prefix.is_empty() && !prefix.contains('\0')).then_some((prefix, of_str))
}

/// Returns the text that every match of a regular expression starts with, at the start of the subject.
fn literal_prefix(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix('^')?;
    if rest.contains('|') {
        return None;
    }
    let special = |c: char| "\\^$.|?*+()[]{}".contains(c);
    let end = rest.find(special).unwrap_or(rest.len());
    let mut prefix = rest[..end].to_owned();
    // A repeated character may occur zero times.
    if rest[end..].starts_with(['?', '*', '+', '{']) {
        prefix.pop();
    }
    Some(prefix)
}

fn starting_with(prefix: &str, of_str: bool, ids: PrefixIds<'_>) -> Result<IdSet, QueryError> {
    use TermKind as K;
    let mut set = IdSet::new();
    let kinds: &[K] = if of_str {
        &[K::Iri, K::String, K::LangString, K::TypedLiteral]
    } else {
        &[K::String, K::LangString]
    };
    for &kind in kinds {
        set.extend(ids(kind, prefix.as_bytes())?);
    }
    if of_str {
        // The text of an inline value does not follow the order of ids.
        set.push(all_of(K::Boolean).start..all_of(K::Triple).start);
    }
    Ok(normal(set))
}

/// Returns the same ids as sorted ranges that do not touch.
pub fn normal(mut ranges: IdSet) -> IdSet {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut set: IdSet = Vec::with_capacity(ranges.len());
    for range in ranges {
        match set.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => set.push(range),
        }
    }
    set
}

/// Returns the ids that are in both sets.
pub fn intersection(a: &[Range<u64>], b: &[Range<u64>]) -> IdSet {
    let mut set = IdSet::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let both = a[i].start.max(b[j].start)..a[i].end.min(b[j].end);
        if !both.is_empty() {
            set.push(both);
        }
        if a[i].end < b[j].end {
            i += 1;
        } else {
            j += 1;
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use oxrdf::NamedNodeRef;

    use super::*;

    #[test]
    fn sets_are_merged_and_cut() {
        assert_eq!(normal(vec![5..7, 1..3, 3..4, 9..9]), [1..4, 5..7]);
        assert_eq!(
            intersection(&[1..4, 5..9], &[2..6, 8..20]),
            [2..4, 5..6, 8..9]
        );
    }

    #[test]
    fn a_pattern_has_a_prefix_only_where_every_match_has() {
        let prefix = |pattern| literal_prefix(pattern);
        assert_eq!(prefix("^abc").as_deref(), Some("abc"));
        assert_eq!(prefix("^abc.*d").as_deref(), Some("abc"));
        assert_eq!(prefix("^abc?d").as_deref(), Some("ab"));
        assert_eq!(prefix("^ab{0,2}").as_deref(), Some("a"));
        assert_eq!(prefix("^ab\\.c").as_deref(), Some("ab"));
        assert_eq!(prefix("abc"), None);
        assert_eq!(prefix("^abc|d"), None);
        assert_eq!(prefix("^(abc|d)"), None);
    }

    #[test]
    fn years_restrict_dates_and_times_alone() {
        let kinds = [
            TermKind::Date,
            TermKind::DateTime,
            TermKind::TypedLiteral,
            TermKind::Integer,
        ];
        let kinds = KindSet(kinds.iter().map(|kind| 1 << *kind as u32).sum());
        let id = |lexical: &str, datatype: NamedNodeRef<'_>| {
            Value::from_typed(lexical, datatype.as_str())
                .to_inline()
                .unwrap()
                .0
        };
        let has = |operator, id: u64| {
            let set = in_years(operator, 1999, kinds).unwrap();
            set.iter().any(|range| range.contains(&id))
        };
        for (lexical, datatype) in [
            ("1999-06-01", xsd::DATE),
            ("1999-01-01+14:00", xsd::DATE),
            ("1999-12-31-14:00", xsd::DATE),
            ("1999-12-31T23:59:59", xsd::DATE_TIME),
            ("1999-12-31T23:59:59-14:00", xsd::DATE_TIME),
        ] {
            assert!(has(Comparison::Equal, id(lexical, datatype)), "{lexical}");
            assert!(
                has(Comparison::LessOrEqual, id(lexical, datatype)),
                "{lexical}"
            );
            assert!(
                has(Comparison::GreaterOrEqual, id(lexical, datatype)),
                "{lexical}"
            );
        }
        for (lexical, datatype) in [
            ("1998-06-01", xsd::DATE),
            ("2000-06-01T00:00:00", xsd::DATE_TIME),
        ] {
            assert!(!has(Comparison::Equal, id(lexical, datatype)), "{lexical}");
        }
        assert!(has(Comparison::Less, id("1998-12-31", xsd::DATE)));
        assert!(!has(Comparison::Less, id("1999-02-01", xsd::DATE)));
        assert!(has(Comparison::Greater, id("2000-01-01Z", xsd::DATE)));
        assert!(!has(Comparison::Greater, id("1999-02-01", xsd::DATE)));
        assert!(has(Comparison::Equal, all_of(TermKind::TypedLiteral).start));
        assert!(!has(Comparison::Equal, all_of(TermKind::Integer).start));
        assert!(in_years(Comparison::Equal, 12_000, kinds).is_none());
    }
}

//! Aggregates that SPARQL does not define. A query calls them by IRI.
//!
//! The parser library takes the call of a known aggregate with one argument, but not with `DISTINCT`. So the text that it
//! gets has [`MARK`] in the place of the word, and [`take_mark`] finds it in the algebra.

use std::collections::HashSet;

use oxrdf::{Literal, NamedNode};
use spargebra::SparqlParser;
use spargebra::algebra::Expression;

use crate::suggest;
use crate::token::{Kind, tokens};

/// The namespace of the aggregates of Apache Jena.
const JENA: &str = "http://jena.apache.org/ARQ/function/aggregate#";
/// The namespace of aggregates for which Jena has no IRI.
const OWN: &str = "urn:pythia:aggregate#";
/// A word in both namespaces. A text without it calls none of the aggregates.
const WORD: &str = "aggregate";
/// The start of a percentile's name; a number follows.
const PERCENTILE: &str = "percentile-";

const NAMED: [(&str, &str, Statistic); 8] = [
    (JENA, "stdev", Statistic::Deviation(Divisor::Sample)),
    (JENA, "stdev_samp", Statistic::Deviation(Divisor::Sample)),
    (JENA, "stdev_pop", Statistic::Deviation(Divisor::Population)),
    (JENA, "variance", Statistic::Variance(Divisor::Sample)),
    (JENA, "var_samp", Statistic::Variance(Divisor::Sample)),
    (JENA, "var_pop", Statistic::Variance(Divisor::Population)),
    (OWN, "median", Statistic::Percentile(Percent::HALF)),
    (OWN, "mode", Statistic::Mode),
];

/// The result of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The mean square of the distances from the mean.
    Variance(Divisor),
    /// The square root of the variance.
    Deviation(Divisor),
    /// The number below which this part of the numbers lies; between two numbers, it is interpolated.
    Percentile(Percent),
    /// The most frequent term.
    Mode,
}

/// The divisor of a variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The count less one: the numbers are a sample.
    Sample,
    /// The count: the numbers are all that there are.
    Population,
}

/// A number from 0 to 100 with up to nine decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u64);

impl Percent {
    const PLACES: usize = 9;
    const HALF: Self = Self(Self::WHOLE / 2);
    /// The parts in 100 %.
    pub const WHOLE: u64 = 100 * 10_u64.pow(Self::PLACES as u32);

    /// Returns the parts, of [`Self::WHOLE`].
    pub fn parts(self) -> u64 {
        self.0
    }

    /// Parses `digits[.digits]`.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| {
            let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
            all_digits && !digits.is_empty()
        };
        let fits = whole.len() <= 3 && fraction.len() <= Self::PLACES;
        if !is_number(whole) || !is_number(fraction) || !fits {
            return None;
        }
        let places = Self::PLACES;
        let parts: u64 = format!("{whole}{fraction:0<places$}").parse().ok()?;
        (parts <= Self::WHOLE).then_some(Self(parts))
    }
}

impl Statistic {
    /// Returns the aggregate with this IRI, if there is one.
    pub fn named(iri: &str) -> Option<Self> {
        if let Some(percent) = iri
            .strip_prefix(OWN)
            .and_then(|n| n.strip_prefix(PERCENTILE))
        {
            return Percent::parse(percent).map(Self::Percentile);
        }
        let is_iri = |(namespace, name, _): &&(&str, &str, Self)| {
            iri.strip_prefix(namespace)
                .is_some_and(|rest| rest == *name)
        };
        NAMED
            .iter()
            .find(is_iri)
            .map(|(_, _, statistic)| *statistic)
    }
}

/// Returns the names of the aggregates, in full, with a percentile as an example.
fn aggregate_iris() -> impl Iterator<Item = String> {
    let named = NAMED
        .iter()
        .map(|(namespace, name, _)| format!("{namespace}{name}"));
    named.chain(std::iter::once(format!("{OWN}{PERCENTILE}95")))
}

/// The names of XPath's mathematical functions.
const MATHEMATICAL: [&str; 14] = [
    "acos", "asin", "atan", "atan2", "cos", "exp", "exp10", "log", "log10", "pi", "pow", "sin",
    "sqrt", "tan",
];

/// Returns the IRIs of the functions and aggregates that are called by IRI.
pub fn called_iris() -> impl Iterator<Item = String> {
    let start = suggest::prefix_iri("math").expect("a well-known prefix");
    let mathematical = MATHEMATICAL
        .iter()
        .map(move |name| format!("{start}{name}"));
    aggregate_iris().chain(mathematical)
}

/// Returns whether a text may call one of the aggregates.
pub(crate) fn may_be_called(text: &str) -> bool {
    text.contains(WORD)
}

/// Lets the parser library know the aggregates that a text may call.
pub(crate) fn for_text(parser: SparqlParser, text: &str) -> SparqlParser {
    if !may_be_called(text) {
        return parser;
    }
    let mut iris: HashSet<String> = aggregate_iris().collect();
    if text.contains(PERCENTILE.trim_end_matches('-')) {
        // The number ends a name, whatever its prefix stands for.
        let names = tokens(text).filter(|token| matches!(token.kind, Kind::Iri | Kind::Name));
        let numbers = names.filter_map(|token| {
            let name = token.text.trim_end_matches('>');
            let start = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            let number = &name[start.len()..];
            Percent::parse(number).map(|_| number)
        });
        iris.extend(numbers.map(|number| format!("{OWN}{PERCENTILE}{number}")));
    }
    iris.into_iter().fold(parser, |parser, iri| {
        parser.with_custom_aggregate_function(NamedNode::new_unchecked(iri))
    })
}

/// Returns the message for a call of an IRI in the aggregates' namespaces that is none of them.
pub(crate) fn unknown(iri: &str) -> Option<String> {
    let name = [JENA, OWN]
        .iter()
        .find_map(|start| iri.strip_prefix(start))?;
    if Statistic::named(iri).is_some() {
        return None;
    }
    let percent = name.strip_prefix(PERCENTILE);
    let meant = match percent.and_then(Percent::parse) {
        Some(_) => Some(format!("{OWN}{name}")),
        None => named_like(name),
    };
    let hint = match (meant, percent.is_some() || name == "percentile") {
        (Some(meant), _) => format!("did you mean <{meant}>?"),
        (None, true) => format!(
            "a percentile has a number from 0 to 100 in its name, with up to {} decimal places: <{OWN}{PERCENTILE}95>",
            Percent::PLACES
        ),
        (None, false) => "docs/sparql.md lists the aggregates".to_owned(),
    };
    Some(format!("<{iri}> is not an aggregate; {hint}"))
}

/// Returns the aggregate whose name resembles this one.
fn named_like(name: &str) -> Option<String> {
    let upper: Vec<String> = NAMED
        .iter()
        .map(|(_, name, _)| name.to_ascii_uppercase())
        .collect();
    let meant = suggest::nearest(name, upper.iter().map(String::as_str))?;
    let at = upper.iter().position(|name| name == meant)?;
    let (namespace, name, _) = NAMED[at];
    Some(format!("{namespace}{name}"))
}

/// The text that stands for `DISTINCT`, of the same length: it makes the argument a disjunction whose first operand is a
/// noncharacter.
pub(crate) const MARK: &str = "'\u{FDD0}'|| ";
/// The character of [`MARK`], which stands for no character.
pub(crate) const MARK_CHARACTER: char = '\u{FDD0}';
const _: () = assert!(MARK.len() == "DISTINCT".len());

/// Returns whether [`MARK`] stands before an argument.
pub(crate) fn is_marked(argument: &Expression) -> bool {
    let mut first = argument;
    while let Expression::Or(left, _) = first {
        first = left;
    }
    let is_or = matches!(argument, Expression::Or(..));
    is_or && matches!(first, Expression::Literal(literal) if is_mark(literal))
}

fn is_mark(literal: &Literal) -> bool {
    literal.value() == "\u{FDD0}"
}

/// Takes [`MARK`] away from an argument. Returns whether there was one.
pub(crate) fn take_mark(argument: &mut Expression) -> bool {
    if !is_marked(argument) {
        return false;
    }
    let mut part = argument;
    loop {
        let whole = std::mem::replace(part, Literal::from(false).into());
        let Expression::Or(left, right) = whole else {
            unreachable!("the mark is the first operand of a disjunction");
        };
        if matches!(*left, Expression::Literal(_)) {
            *part = *right;
            return true;
        }
        *part = Expression::Or(left, right);
        let Expression::Or(left, _) = part else {
            unreachable!("it was put back");
        };
        part = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_their_number_in_the_name() {
        let parts = |name: &str| match Statistic::named(&format!("{OWN}{name}")) {
            Some(Statistic::Percentile(percent)) => Some(percent.parts()),
            _ => None,
        };
        assert_eq!(parts("percentile-0"), Some(0));
        assert_eq!(parts("percentile-99.9"), Some(99_900_000_000));
        assert_eq!(parts("percentile-0.000000001"), Some(1));
        assert_eq!(parts("percentile-100"), Some(Percent::WHOLE));
        assert_eq!(parts("percentile-50"), parts("median"));
        for wrong in [
            "percentile-",
            "percentile-100.1",
            "percentile-101",
            "percentile--1",
            "percentile-1e1",
            "percentile-+5",
            "percentile-.5",
            "percentile-5.",
            "percentile-0.0000000001",
            "percentile",
            "percentile95",
            "Median",
        ] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
        assert_eq!(Statistic::named(&format!("{JENA}median")), None);
        assert_eq!(Statistic::named("urn:pythia:plan#sumState"), None);
    }

    #[test]
    fn unknown_aggregates_are_named_with_what_was_meant() {
        for (iri, hint) in [
            (
                format!("{JENA}stdv"),
                "did you mean <http://jena.apache.org/ARQ/function/aggregate#stdev>?",
            ),
            (
                format!("{JENA}median"),
                "did you mean <urn:pythia:aggregate#median>?",
            ),
            (
                format!("{JENA}percentile-5"),
                "did you mean <urn:pythia:aggregate#percentile-5>?",
            ),
            (format!("{OWN}percentile-105"), "a number from 0 to 100"),
            (format!("{OWN}skewness"), "docs/sparql.md"),
        ] {
            let message = unknown(&iri).expect("a message");
            assert!(
                message.contains(hint) && message.contains(&iri),
                "{message}"
            );
        }
        for known in aggregate_iris().chain(["http://e/stdv".to_owned()]) {
            assert!(unknown(&known).is_none(), "{known}");
        }
    }
}

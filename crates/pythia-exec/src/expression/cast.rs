//! Casts to XSD types: `xsd:integer(…)` and others (SPARQL 1.1 §17.5, XPath F&O §19).

use std::fmt::{Display, LowerExp};

use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNodeRef, Term};
use oxsdatatypes::{Double, Float};
use pythia_rdf::inline::DERIVED_INTEGERS;

use super::column::Cell;
use super::exact::{self, Exact};
use super::number::Number;
use super::temporal::{AnyDuration, Temporal};
use super::value::{
    Value, WHITE_SPACE, integer_range, parse_boolean, parse_double, parse_float, saturated,
};

/// The target types whose values have canonical terms of that type.
const TARGETS: [NamedNodeRef<'static>; 17] = [
    xsd::STRING,
    xsd::BOOLEAN,
    xsd::INTEGER,
    xsd::DECIMAL,
    xsd::FLOAT,
    xsd::DOUBLE,
    xsd::DATE_TIME,
    xsd::DATE,
    xsd::TIME,
    xsd::G_YEAR,
    xsd::G_YEAR_MONTH,
    xsd::G_MONTH,
    xsd::G_MONTH_DAY,
    xsd::G_DAY,
    xsd::DURATION,
    xsd::YEAR_MONTH_DURATION,
    xsd::DAY_TIME_DURATION,
];

/// Returns the type that a function of this name casts to, if it is a cast.
pub(crate) fn target(name: &str) -> Option<NamedNodeRef<'static>> {
    let derived = DERIVED_INTEGERS.iter().map(|(datatype, ..)| *datatype);
    let mut targets = TARGETS.into_iter().chain(derived);
    targets.find(|target| target.as_str() == name)
}

/// Casts a value.
pub(crate) fn cast(value: Value<'_>, target: NamedNodeRef<'_>) -> Cell {
    // Values of derived types are plain integers, so the result must be a literal of the type.
    if DERIVED_INTEGERS
        .iter()
        .any(|(derived, ..)| *derived == target)
    {
        return to_derived(&value, target).into();
    }
    let outcome = match target {
        xsd::STRING => to_string(value).map(Value::from),
        xsd::BOOLEAN => to_boolean(&value).map(Value::Boolean),
        xsd::INTEGER | xsd::DECIMAL | xsd::FLOAT | xsd::DOUBLE => to_number(&value, target),
        _ => to_calendar(&value, target),
    };
    outcome.into()
}

/// Casts the `xsd:string` of a value, without copying a text.
pub(crate) fn cast_string_of(value: Value<'_>, target: NamedNodeRef<'_>) -> Cell {
    match value {
        Value::String(text) | Value::Other { lexical: text, .. } => {
            cast(Value::String(text), target)
        }
        other => match to_string(other) {
            Some(text) => cast(Value::from(text), target),
            None => Cell::Error,
        },
    }
}

/// Returns a literal of a type derived from `xsd:integer` if the number is in its range.
fn to_derived(value: &Value<'_>, target: NamedNodeRef<'_>) -> Option<Term> {
    let name = target.as_str().rsplit('#').next()?;
    let Term::Literal(integer) = to_number(value, xsd::INTEGER)?.into_term() else {
        return None;
    };
    let in_range = integer_range(name)?.contains(&saturated(integer.value())?);
    in_range.then(|| Literal::new_typed_literal(integer.value(), target).into())
}

fn to_string(value: Value<'_>) -> Option<String> {
    if let Value::Number(number) = value {
        match number {
            Number::Float(v) => return Some(floating_to_string(f32::from(v), &v)),
            Number::Double(v) => return Some(floating_to_string(f64::from(v), &v)),
            Number::Integer(_) | Number::Decimal(_) => {}
        }
    }
    match value.into_term() {
        oxrdf::Term::NamedNode(node) => Some(node.into_string()),
        oxrdf::Term::Literal(literal) => Some(literal.destruct().0),
        oxrdf::Term::BlankNode(_) | oxrdf::Term::Triple(_) => None,
    }
}

/// Formats a float or double as a string (XPath F&O §19.1.2.2): from a millionth to a million as a decimal,
/// otherwise with one digit before the point, at least one behind it, and an exponent.
fn floating_to_string(value: impl LowerExp, plain: &impl Display) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        // An infinity or NaN.
        return plain.to_string();
    };
    if matches!(exponent.parse(), Ok(-6..=5)) {
        return plain.to_string();
    }
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// Returns a string without surrounding whitespace, which a cast ignores.
fn trimmed<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    let text = value.as_simple_string()?;
    Some(text.trim_matches(WHITE_SPACE))
}

fn to_boolean(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Boolean(value) => Some(*value),
        Value::Number(_) | Value::Exact(_) => value.effective_boolean(),
        _ => parse_boolean(trimmed(value)?),
    }
}

fn to_number(value: &Value<'_>, target: NamedNodeRef<'_>) -> Option<Value<'static>> {
    let number = match value {
        Value::Number(number) => *number,
        Value::Exact(exact) => return exact_to_number(exact, target),
        Value::Boolean(value) => Number::from_i64((*value).into()),
        _ => return parse_number(trimmed(value)?, target),
    };
    match target {
        xsd::INTEGER => exact::to_integer(number),
        xsd::DECIMAL => exact::to_decimal(number),
        xsd::FLOAT => Some(Number::Float(number.to_float()).into()),
        _ => Some(Number::Double(number.to_double()).into()),
    }
}

fn exact_to_number(exact: &Exact, target: NamedNodeRef<'_>) -> Option<Value<'static>> {
    match target {
        xsd::INTEGER => exact.to_integer(),
        xsd::DECIMAL => exact.to_decimal(),
        xsd::FLOAT => Some(Number::Float(exact.to_float()).into()),
        _ => Some(Number::Double(exact.to_double()).into()),
    }
}

fn parse_number(text: &str, target: NamedNodeRef<'_>) -> Option<Value<'static>> {
    Some(match target {
        xsd::INTEGER => Exact::parse_integer(text)?,
        xsd::DECIMAL => Exact::parse_decimal(text)?,
        xsd::FLOAT => Number::Float(Float::from(parse_float(text)?)).into(),
        _ => Number::Double(Double::from(parse_double(text)?)).into(),
    })
}

fn to_calendar(value: &Value<'_>, target: NamedNodeRef<'_>) -> Option<Value<'static>> {
    match value {
        Value::Temporal(value) => value.cast(target).map(Value::Temporal),
        Value::Duration(value) => value.cast(target).map(Value::Duration),
        _ => {
            let text = trimmed(value)?;
            Temporal::parse(text, target.as_str())
                .map(Value::Temporal)
                .or_else(|| AnyDuration::parse(text, target.as_str()).map(Value::Duration))
        }
    }
}

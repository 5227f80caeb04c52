//! Casts to XSD's types: `xsd:integer(…)` and its kin (SPARQL 1.1 §17.5, XPath F&O §19).

use oxrdf::NamedNodeRef;
use oxrdf::vocab::xsd;
use oxsdatatypes::{Decimal, Double, Float, Integer};

use super::number::Number;
use super::temporal::{AnyDuration, Temporal};
use super::value::{Value, parse_boolean, parse_double, parse_float};

/// The types that can be cast to.
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

/// The type a function of this name casts to, if it is a cast.
pub(crate) fn target(name: &str) -> Option<NamedNodeRef<'static>> {
    TARGETS.into_iter().find(|target| target.as_str() == name)
}

/// Casts a value; `None` is an error.
pub(crate) fn cast(value: Value<'_>, target: NamedNodeRef<'_>) -> Option<Value<'static>> {
    match target {
        xsd::STRING => to_string(value).map(Value::from),
        xsd::BOOLEAN => to_boolean(&value).map(Value::Boolean),
        xsd::INTEGER | xsd::DECIMAL | xsd::FLOAT | xsd::DOUBLE => {
            to_number(&value, target).map(Value::Number)
        }
        _ => to_calendar(&value, target),
    }
}

fn to_string(value: Value<'_>) -> Option<String> {
    match value.into_term() {
        oxrdf::Term::NamedNode(node) => Some(node.into_string()),
        oxrdf::Term::Literal(literal) => Some(literal.destruct().0),
        oxrdf::Term::BlankNode(_) | oxrdf::Term::Triple(_) => None,
    }
}

/// The text of a string without the whitespace around it, which a cast ignores.
fn trimmed<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    let text = value.as_simple_string()?;
    Some(text.trim_matches([' ', '\t', '\r', '\n']))
}

fn to_boolean(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Boolean(value) => Some(*value),
        Value::Number(number) => Some(number.to_bool()),
        _ => parse_boolean(trimmed(value)?),
    }
}

fn to_number(value: &Value<'_>, target: NamedNodeRef<'_>) -> Option<Number> {
    let number = match value {
        Value::Number(number) => *number,
        Value::Boolean(value) => Number::from_i64((*value).into()),
        _ => return parse_number(trimmed(value)?, target),
    };
    Some(match target {
        xsd::INTEGER => Number::Integer(number.to_integer()?),
        xsd::DECIMAL => Number::Decimal(number.to_decimal()?),
        xsd::FLOAT => Number::Float(number.to_float()),
        _ => Number::Double(number.to_double()),
    })
}

fn parse_number(text: &str, target: NamedNodeRef<'_>) -> Option<Number> {
    Some(match target {
        xsd::INTEGER => Number::Integer(text.parse::<Integer>().ok()?),
        xsd::DECIMAL => Number::Decimal(text.parse::<Decimal>().ok()?),
        xsd::FLOAT => Number::Float(Float::from(parse_float(text)?)),
        _ => Number::Double(Double::from(parse_double(text)?)),
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

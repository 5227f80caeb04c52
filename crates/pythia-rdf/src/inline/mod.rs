//! Literals held inside their ids: small values whose exact lexical form can be recovered from the id.
//!
//! A literal is inlined only if the id renders to the same characters; all others, such as `"01"` or `"+1"`, go to
//! the dictionary. Payloads:
//!
//! | kind | payload, high bits first | ids order like values |
//! |---|---|---|
//! | boolean | 0 or 1 | yes |
//! | integer | value + 2^55 | yes |
//! | derived integer | type 4, value + 2^51 52 | within a type |
//! | decimal | fraction digits 4, mantissa + 2^51 52 | among equal fraction digits |
//! | double, float | the number as it is written, see `number.rs` | no |
//! | date | minute of its start (UTC) + bias 49, timezone 7 | yes |
//! | dateTime | second (UTC) + bias 39, fraction × timezone 17 | yes |
//! | gYear | year + bias 49, timezone 7 | yes |
//!
//! In the order of dates, a missing timezone counts as UTC. A year, date or dateTime is inlined only if it exists
//! in the calendar, and a derived integer only if its type allows the value. So inlined literals are well-typed.

mod number;
mod time;

use std::cmp::Ordering;

use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNodeRef};
use oxsdatatypes::{Date, DateTime, GYear};

use crate::id::{TermId, TermKind};
pub use number::DERIVED_INTEGERS;

/// The typed value of an inline id.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum InlineValue {
    /// `xsd:boolean`.
    Boolean(bool),
    /// `xsd:integer` or a type derived from it; see [`inline_datatype`].
    Integer(i64),
    /// `xsd:decimal`: mantissa / 10^scale.
    Decimal {
        /// The digits, including the fraction.
        mantissa: i64,
        /// The number of digits after the point, at most 15.
        scale: u8,
    },
    /// `xsd:double`.
    Double(f64),
    /// `xsd:float`.
    Float(f32),
    /// `xsd:date`.
    Date(Date),
    /// `xsd:dateTime`.
    DateTime(DateTime),
    /// `xsd:gYear`.
    GYear(GYear),
}

const XSD: &[u8] = b"http://www.w3.org/2001/XMLSchema#";

/// Returns the id that holds this literal, if an id can hold exactly this lexical form and datatype.
pub fn inline_literal(lexical: &str, datatype_iri: &str) -> Option<TermId> {
    inline_bytes(lexical.as_bytes(), datatype_iri.as_bytes())
}

/// Like [`inline_literal`], for text that may not be UTF-8. Inlined forms are ASCII.
pub(crate) fn inline_bytes(lexical: &[u8], datatype: &[u8]) -> Option<TermId> {
    let name = datatype.strip_prefix(XSD)?;
    let (kind, payload) = match name {
        b"integer" => (TermKind::Integer, number::parse_integer(lexical)?),
        b"decimal" => (TermKind::Decimal, number::parse_decimal(lexical)?),
        b"double" => (TermKind::Double, number::parse_floating(lexical)?),
        b"float" => (TermKind::Float, number::parse_floating(lexical)?),
        b"date" => (TermKind::Date, time::parse_date(lexical)?),
        b"dateTime" => (TermKind::DateTime, time::parse_date_time(lexical)?),
        b"gYear" => (TermKind::GYear, time::parse_year(lexical)?),
        b"boolean" => {
            let payload = match lexical {
                b"false" => 0,
                b"true" => 1,
                _ => return None,
            };
            (TermKind::Boolean, payload)
        }
        _ => (
            TermKind::DerivedInteger,
            number::parse_derived(name, lexical)?,
        ),
    };
    Some(TermId::new(kind, payload))
}

/// Returns the id of an `xsd:integer`, if it fits.
pub fn inline_integer(value: i64) -> Option<TermId> {
    number::integer_payload(value).map(|payload| TermId::new(TermKind::Integer, payload))
}

/// Returns the id of an `xsd:boolean`.
pub fn inline_boolean(value: bool) -> TermId {
    TermId::new(TermKind::Boolean, u64::from(value))
}

/// Returns the literal in an inline id. `None` for ids of other kinds and payloads that no literal has.
pub fn inline_to_literal(id: TermId) -> Option<Literal> {
    let mut lexical = String::new();
    inline_lexical(id, &mut lexical)?;
    Some(Literal::new_typed_literal(lexical, inline_datatype(id)?))
}

/// Appends the lexical form of an inline id. Returns `None`, perhaps with `out` extended, if it has none.
pub fn inline_lexical(id: TermId, out: &mut String) -> Option<()> {
    let payload = id.payload();
    match id.kind() {
        TermKind::Boolean => out.push_str(match payload {
            0 => "false",
            1 => "true",
            _ => return None,
        }),
        TermKind::Integer => number::write_integer(number::integer(payload), out),
        TermKind::DerivedInteger => number::write_integer(number::derived(payload)?.1, out),
        TermKind::Decimal => number::write_decimal(payload, out),
        TermKind::Double | TermKind::Float => number::write_floating(payload, out)?,
        TermKind::Date => time::write_date(payload, out)?,
        TermKind::DateTime => time::write_date_time(payload, out)?,
        TermKind::GYear => time::write_year(payload, out)?,
        _ => return None,
    }
    Some(())
}

/// Returns the datatype of an inline id.
pub fn inline_datatype(id: TermId) -> Option<NamedNodeRef<'static>> {
    Some(match id.kind() {
        TermKind::Boolean => xsd::BOOLEAN,
        TermKind::Integer => xsd::INTEGER,
        TermKind::DerivedInteger => number::derived(id.payload())?.0,
        TermKind::Decimal => xsd::DECIMAL,
        TermKind::Double => xsd::DOUBLE,
        TermKind::Float => xsd::FLOAT,
        TermKind::Date => xsd::DATE,
        TermKind::DateTime => xsd::DATE_TIME,
        TermKind::GYear => xsd::G_YEAR,
        _ => return None,
    })
}

/// Year, date and time of day, as far as a type has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarFields {
    /// Year; 0 is 1 BCE.
    pub year: i64,
    /// Month and day, from 1.
    pub date: Option<(i64, i64)>,
    /// Hour and minute.
    pub time: Option<(i64, i64)>,
}

/// Returns the value of an inline id, without going through text.
pub fn inline_value(id: TermId) -> Option<InlineValue> {
    let payload = id.payload();
    Some(match id.kind() {
        TermKind::Boolean => InlineValue::Boolean(payload == 1),
        TermKind::Integer => InlineValue::Integer(number::integer(payload)),
        TermKind::DerivedInteger => InlineValue::Integer(number::derived(payload)?.1),
        TermKind::Decimal => {
            let (mantissa, scale) = number::decimal(payload);
            InlineValue::Decimal { mantissa, scale }
        }
        TermKind::Double => InlineValue::Double(number::double(payload)?),
        TermKind::Float => InlineValue::Float(number::float(payload)?),
        TermKind::Date => InlineValue::Date(time::date(payload)?),
        TermKind::DateTime => InlineValue::DateTime(time::date_time(payload)?),
        TermKind::GYear => InlineValue::GYear(time::year(payload)?),
        _ => return None,
    })
}

/// Compares the instants at which two dates, or two dateTimes, begin, without reading them: no timezone counts as UTC.
/// Returns `None` for equal instants, and for ids of other kinds.
pub fn compare_instants(a: TermId, b: TermId) -> Option<Ordering> {
    let below_instant = match (a.kind(), b.kind()) {
        (TermKind::Date, TermKind::Date) => time::ZONE_BITS,
        (TermKind::DateTime, TermKind::DateTime) => time::SECOND_SHIFT,
        _ => return None,
    };
    let instant = |id: TermId| id.payload() >> below_instant;
    Some(instant(a).cmp(&instant(b))).filter(|order| order.is_ne())
}

/// Returns the fields of an inline date, dateTime or year in its own timezone; `None` for ids of other kinds.
pub fn calendar_fields(id: TermId) -> Option<CalendarFields> {
    let payload = id.payload();
    match id.kind() {
        TermKind::Date => time::date_fields(payload),
        TermKind::DateTime => time::date_time_fields(payload),
        TermKind::GYear => time::year_fields(payload),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

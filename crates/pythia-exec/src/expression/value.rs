//! Values of terms, as the evaluator uses them.
//!
//! A [`Value`] borrows its text where possible, so reading a decoded term copies nothing. It does not keep
//! the lexical form of a typed literal (`"01"^^xsd:integer` is the integer 1, and so is `"1"^^xsd:byte`).
//! Code that must return a term unchanged keeps its id or the [`oxrdf::Term`]; only computed values are
//! turned back into terms, in canonical form.

use std::borrow::Cow;
use std::num::IntErrorKind;

use oxrdf::vocab::{rdf, xsd};
use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, NamedNodeRef, Term, Triple};
use oxsdatatypes::Decimal;
use pythia_rdf::inline::{InlineValue, inline_literal, inline_value};
use pythia_rdf::{TermId, TermKind};

use super::exact::Exact;
use super::number::Number;
use super::temporal::{AnyDuration, Temporal};

/// The value of a term.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// An IRI.
    NamedNode(Cow<'a, str>),
    /// A blank node, by label.
    BlankNode(Cow<'a, str>),
    /// An `xsd:string`.
    String(Cow<'a, str>),
    /// A language-tagged string.
    LangString {
        /// The text.
        text: Cow<'a, str>,
        /// The language tag, in lower case.
        language: Cow<'a, str>,
        /// The base direction (RDF 1.2).
        direction: Option<BaseDirection>,
    },
    /// An `xsd:boolean`.
    Boolean(bool),
    /// A number of any of the four types.
    Number(Number),
    /// An integer or decimal that is too long for [`Self::Number`].
    Exact(Box<Exact>),
    /// A date, a time or a part of one.
    Temporal(Temporal),
    /// A duration.
    Duration(AnyDuration),
    /// A literal of an unknown datatype, or whose lexical form is not in its datatype.
    Other {
        /// The lexical form.
        lexical: Cow<'a, str>,
        /// The datatype's IRI.
        datatype: Cow<'a, str>,
    },
    /// A triple term (RDF 1.2).
    Triple(Cow<'a, Triple>),
}

impl<'a> Value<'a> {
    /// Returns the value of an inline id; `None` for ids of other kinds. Reads no text.
    pub fn from_inline(id: TermId) -> Option<Self> {
        if let Some(number) = Number::from_inline(id) {
            return Some(Self::Number(number));
        }
        Some(match inline_value(id)? {
            InlineValue::Boolean(value) => Self::Boolean(value),
            InlineValue::Date(value) => Self::Temporal(Temporal::Date(value)),
            InlineValue::DateTime(value) => Self::Temporal(Temporal::DateTime(value)),
            InlineValue::GYear(value) => Self::Temporal(Temporal::GYear(value)),
            _ => return None,
        })
    }

    /// Returns the value of a term, borrowing its text.
    pub fn from_term(term: &'a Term) -> Self {
        match term {
            Term::NamedNode(node) => Self::NamedNode(Cow::Borrowed(node.as_str())),
            Term::BlankNode(node) => Self::BlankNode(Cow::Borrowed(node.as_str())),
            Term::Literal(literal) => Self::from_literal(literal),
            Term::Triple(triple) => Self::Triple(Cow::Borrowed(triple)),
        }
    }

    /// Returns the value of a literal, borrowing its text.
    pub fn from_literal(literal: &'a Literal) -> Self {
        if let Some(language) = literal.language() {
            return Self::LangString {
                text: Cow::Borrowed(literal.value()),
                language: Cow::Borrowed(language),
                direction: literal.direction(),
            };
        }
        // The datatype is borrowed from the literal, though its accessor's type hides that.
        let (lexical, datatype) = (literal.value(), literal.datatype());
        if datatype == xsd::STRING {
            return Self::String(Cow::Borrowed(lexical));
        }
        Self::from_typed(lexical, datatype.as_str())
    }

    /// Returns the value of a literal with a datatype other than `xsd:string`, borrowing its text.
    pub fn from_typed(lexical: &'a str, datatype: &'a str) -> Self {
        parse_typed(lexical, datatype).unwrap_or(Self::Other {
            lexical: Cow::Borrowed(lexical),
            datatype: Cow::Borrowed(datatype),
        })
    }

    /// Returns the same value, borrowed.
    pub fn borrow(&'a self) -> Self {
        match self {
            Self::NamedNode(iri) => Self::NamedNode(Cow::Borrowed(iri)),
            Self::BlankNode(label) => Self::BlankNode(Cow::Borrowed(label)),
            Self::String(text) => Self::String(Cow::Borrowed(text)),
            Self::LangString {
                text,
                language,
                direction,
            } => Self::LangString {
                text: Cow::Borrowed(text),
                language: Cow::Borrowed(language),
                direction: *direction,
            },
            Self::Boolean(value) => Self::Boolean(*value),
            Self::Number(value) => Self::Number(*value),
            Self::Exact(value) => Self::Exact(value.clone()),
            Self::Temporal(value) => Self::Temporal(*value),
            Self::Duration(value) => Self::Duration(*value),
            Self::Other { lexical, datatype } => Self::Other {
                lexical: Cow::Borrowed(lexical),
                datatype: Cow::Borrowed(datatype),
            },
            Self::Triple(triple) => Self::Triple(Cow::Borrowed(triple)),
        }
    }

    /// Returns the same value, owning its text.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::NamedNode(iri) => Value::NamedNode(Cow::Owned(iri.into_owned())),
            Self::BlankNode(label) => Value::BlankNode(Cow::Owned(label.into_owned())),
            Self::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Self::LangString {
                text,
                language,
                direction,
            } => Value::LangString {
                text: Cow::Owned(text.into_owned()),
                language: Cow::Owned(language.into_owned()),
                direction,
            },
            Self::Boolean(value) => Value::Boolean(value),
            Self::Number(value) => Value::Number(value),
            Self::Exact(value) => Value::Exact(value),
            Self::Temporal(value) => Value::Temporal(value),
            Self::Duration(value) => Value::Duration(value),
            Self::Other { lexical, datatype } => Value::Other {
                lexical: Cow::Owned(lexical.into_owned()),
                datatype: Cow::Owned(datatype.into_owned()),
            },
            Self::Triple(triple) => Value::Triple(Cow::Owned(triple.into_owned())),
        }
    }

    /// Returns the canonical term of the value.
    pub fn into_term(self) -> Term {
        match self {
            Self::NamedNode(iri) => NamedNode::new_unchecked(iri).into(),
            Self::BlankNode(label) => BlankNode::new_unchecked(label).into(),
            Self::Triple(triple) => triple.into_owned().into(),
            Self::String(text) => Literal::new_simple_literal(text).into(),
            Self::LangString {
                text,
                language,
                direction: None,
            } => Literal::new_language_tagged_literal_unchecked(text, language).into(),
            Self::LangString {
                text,
                language,
                direction: Some(direction),
            } => Literal::new_directional_language_tagged_literal_unchecked(
                text, language, direction,
            )
            .into(),
            Self::Boolean(value) => Literal::from(value).into(),
            Self::Number(value) => {
                let (lexical, datatype) = number_lexical(value);
                Literal::new_typed_literal(lexical, datatype).into()
            }
            Self::Exact(value) => {
                let datatype = if value.is_integer() {
                    xsd::INTEGER
                } else {
                    xsd::DECIMAL
                };
                Literal::new_typed_literal(value.to_string(), datatype).into()
            }
            Self::Temporal(value) => value.to_literal().into(),
            Self::Duration(value) => value.to_literal().into(),
            Self::Other { lexical, datatype } => {
                Literal::new_typed_literal(lexical, NamedNode::new_unchecked(datatype)).into()
            }
        }
    }

    /// Returns the inline id of the value's canonical term, if it fits.
    pub fn to_inline(&self) -> Option<TermId> {
        if let Self::Number(Number::Decimal(value)) = self
            && let Some(id) = inline_decimal(*value)
        {
            return Some(id);
        }
        let (lexical, datatype) = match self {
            Self::Boolean(true) => return inline_literal("true", xsd::BOOLEAN.as_str()),
            Self::Boolean(false) => return inline_literal("false", xsd::BOOLEAN.as_str()),
            Self::Number(Number::Integer(value)) => return inline_integer((*value).into()),
            Self::Number(number) => number_lexical(*number),
            Self::Temporal(Temporal::Date(v)) => (v.to_string(), xsd::DATE),
            Self::Temporal(Temporal::DateTime(v)) => (v.to_string(), xsd::DATE_TIME),
            Self::Temporal(Temporal::GYear(v)) => (v.to_string(), xsd::G_YEAR),
            _ => return None,
        };
        inline_literal(&lexical, datatype.as_str())
    }

    /// Makes the integer `value`.
    pub fn integer(value: i64) -> Self {
        Self::Number(Number::from_i64(value))
    }

    /// Returns whether this is a literal.
    pub fn is_literal(&self) -> bool {
        !matches!(
            self,
            Self::NamedNode(_) | Self::BlankNode(_) | Self::Triple(_)
        )
    }

    /// Returns whether this is a number.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Exact(_))
    }

    /// Returns the number, if this is one that is not too long.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text of an `xsd:string`.
    pub fn as_simple_string(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the effective boolean value (SPARQL 1.1 §17.2.2); `None` is a type error.
    pub fn effective_boolean(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::String(text) => Some(!text.is_empty()),
            Self::Number(number) => Some(number.to_bool()),
            // Zero always fits into a `Number`.
            Self::Exact(_) => Some(true),
            _ => None,
        }
    }

    /// Returns the datatype of a computed value; `None` if it is not a literal.
    pub fn datatype(&self) -> Option<NamedNodeRef<'_>> {
        Some(match self {
            Self::NamedNode(_) | Self::BlankNode(_) | Self::Triple(_) => return None,
            Self::String(_) => xsd::STRING,
            Self::LangString {
                direction: None, ..
            } => rdf::LANG_STRING,
            Self::LangString { .. } => rdf::DIR_LANG_STRING,
            Self::Boolean(_) => xsd::BOOLEAN,
            Self::Exact(value) if value.is_integer() => xsd::INTEGER,
            Self::Exact(_) => xsd::DECIMAL,
            Self::Number(Number::Integer(_)) => xsd::INTEGER,
            Self::Number(Number::Decimal(_)) => xsd::DECIMAL,
            Self::Number(Number::Float(_)) => xsd::FLOAT,
            Self::Number(Number::Double(_)) => xsd::DOUBLE,
            Self::Temporal(value) => value.datatype(),
            Self::Duration(value) => value.datatype(),
            Self::Other { datatype, .. } => NamedNodeRef::new_unchecked(datatype),
        })
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<Number> for Value<'_> {
    fn from(value: Number) -> Self {
        Self::Number(value)
    }
}

impl From<Temporal> for Value<'_> {
    fn from(value: Temporal) -> Self {
        Self::Temporal(value)
    }
}

impl From<AnyDuration> for Value<'_> {
    fn from(value: AnyDuration) -> Self {
        Self::Duration(value)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(Cow::Owned(text))
    }
}

impl From<Term> for Value<'static> {
    fn from(term: Term) -> Self {
        match term {
            Term::NamedNode(node) => Self::NamedNode(Cow::Owned(node.into_string())),
            Term::BlankNode(node) => Self::BlankNode(Cow::Owned(node.into_string())),
            Term::Triple(triple) => Self::Triple(Cow::Owned(*triple)),
            Term::Literal(literal) => {
                let (text, datatype, language, direction) = literal.destruct();
                match (datatype, language) {
                    (_, Some(language)) => Self::LangString {
                        text: Cow::Owned(text),
                        language: Cow::Owned(language),
                        direction,
                    },
                    (None, None) => Self::String(Cow::Owned(text)),
                    (Some(datatype), None) => {
                        parse_typed(&text, datatype.as_str()).unwrap_or_else(|| Self::Other {
                            lexical: Cow::Owned(text),
                            datatype: Cow::Owned(datatype.into_string()),
                        })
                    }
                }
            }
        }
    }
}

/// Returns the id of an `xsd:integer` that fits. Ids of integers are consecutive, like the integers.
fn inline_integer(value: i64) -> Option<TermId> {
    /// The payload of 0.
    const ZERO: i64 = 1 << (TermId::PAYLOAD_BITS - 1);
    let payload = u64::try_from(value.checked_add(ZERO)?).ok()?;
    (payload <= TermId::PAYLOAD_MAX).then(|| TermId::new(TermKind::Integer, payload))
}

/// Returns the id of the canonical form of an `xsd:decimal` of up to three fraction digits; others are
/// converted through their text. The payload is the number of fraction digits and the mantissa.
fn inline_decimal(value: Decimal) -> Option<TermId> {
    const THOUSANDTH: i128 = 1_000_000_000_000_000;
    const MANTISSA_BITS: u32 = 52;
    const ZERO: i64 = 1 << (MANTISSA_BITS - 1);
    let scaled = i128::from_be_bytes(value.to_be_bytes());
    let mut mantissa = i64::try_from(scaled / THOUSANDTH).ok()?;
    if i128::from(mantissa) * THOUSANDTH != scaled {
        return None;
    }
    let mut digits = 3;
    while digits > 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        digits -= 1;
    }
    if !(-ZERO..ZERO).contains(&mantissa) {
        return None;
    }
    let payload = u64::try_from(mantissa + ZERO).ok()?;
    Some(TermId::new(
        TermKind::Decimal,
        digits << MANTISSA_BITS | payload,
    ))
}

/// Returns the canonical lexical form and datatype of a number.
fn number_lexical(number: Number) -> (String, NamedNodeRef<'static>) {
    match number {
        Number::Integer(v) => (v.to_string(), xsd::INTEGER),
        Number::Decimal(v) => (v.to_string(), xsd::DECIMAL),
        Number::Float(v) => (v.to_string(), xsd::FLOAT),
        Number::Double(v) => (v.to_string(), xsd::DOUBLE),
    }
}

/// XML's white space, which all datatypes known to [`parse_typed`] ignore around a lexical form: their
/// `whiteSpace` facet is `collapse` (XSD 1.1 §4.3.6), and none has white space inside.
pub(crate) const WHITE_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// Parses a typed literal; `None` if its datatype is unknown or the lexical form is invalid.
fn parse_typed(lexical: &str, datatype: &str) -> Option<Value<'static>> {
    let name = datatype.strip_prefix("http://www.w3.org/2001/XMLSchema#")?;
    let lexical = lexical.trim_matches(WHITE_SPACE);
    Some(match name {
        "boolean" => Value::Boolean(parse_boolean(lexical)?),
        "decimal" => match lexical.parse() {
            Ok(value) => Number::Decimal(value).into(),
            Err(_) => Exact::parse_decimal(lexical)?,
        },
        "double" => Value::Number(Number::Double(parse_double(lexical)?.into())),
        "float" => Value::Number(Number::Float(parse_float(lexical)?.into())),
        "date" | "dateTime" | "dateTimeStamp" | "time" | "gYear" | "gYearMonth" | "gMonth"
        | "gMonthDay" | "gDay" => Value::Temporal(Temporal::parse(lexical, datatype)?),
        "duration" | "yearMonthDuration" | "dayTimeDuration" => {
            Value::Duration(AnyDuration::parse(lexical, datatype)?)
        }
        _ => {
            let range = integer_range(name)?;
            if !range.contains(&saturated(lexical)?) {
                return None;
            }
            match lexical.parse() {
                Ok(value) => Value::integer(value),
                Err(_) => Exact::parse_integer(lexical)?,
            }
        }
    })
}

/// Returns the value space of `xsd:integer` or a type derived from it.
pub(crate) fn integer_range(name: &str) -> Option<std::ops::RangeInclusive<i128>> {
    Some(match name {
        "integer" => i128::MIN..=i128::MAX,
        "long" => i64::MIN.into()..=i64::MAX.into(),
        "int" => i32::MIN.into()..=i32::MAX.into(),
        "short" => i16::MIN.into()..=i16::MAX.into(),
        "byte" => i8::MIN.into()..=i8::MAX.into(),
        "unsignedLong" => 0..=u64::MAX.into(),
        "unsignedInt" => 0..=u32::MAX.into(),
        "unsignedShort" => 0..=u16::MAX.into(),
        "unsignedByte" => 0..=u8::MAX.into(),
        "nonNegativeInteger" => 0..=i128::MAX,
        "positiveInteger" => 1..=i128::MAX,
        "nonPositiveInteger" => i128::MIN..=0,
        "negativeInteger" => i128::MIN..=-1,
        _ => return None,
    })
}

/// Parses an integer; saturates if it is too large.
pub(crate) fn saturated(lexical: &str) -> Option<i128> {
    match lexical.parse() {
        Ok(value) => Some(value),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i128::MAX),
            IntErrorKind::NegOverflow => Some(i128::MIN),
            _ => None,
        },
    }
}

/// Parses an `xsd:boolean`.
pub(crate) fn parse_boolean(lexical: &str) -> Option<bool> {
    match lexical {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Parses an `xsd:double`.
pub(crate) fn parse_double(lexical: &str) -> Option<f64> {
    is_floating_form(lexical).then(|| lexical.parse().ok())?
}

/// Parses an `xsd:float`.
pub(crate) fn parse_float(lexical: &str) -> Option<f32> {
    is_floating_form(lexical).then(|| lexical.parse().ok())?
}

/// Returns whether a text that Rust parses as a float is also valid in XSD: Rust also accepts `infinity`,
/// `nan` and other capitalizations of `INF` and `NaN`.
fn is_floating_form(lexical: &str) -> bool {
    matches!(lexical, "INF" | "+INF" | "-INF" | "NaN")
        || lexical
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(lexical: &str, datatype: NamedNodeRef<'_>) -> Value<'static> {
        Term::from(Literal::new_typed_literal(lexical, datatype)).into()
    }

    #[test]
    fn typed_literals_have_values_and_canonical_forms() {
        for (lexical, datatype, canonical) in [
            ("01", xsd::INTEGER, "1"),
            ("1.50", xsd::DECIMAL, "1.5"),
            ("1", xsd::BOOLEAN, "true"),
            ("1e0", xsd::DOUBLE, "1"),
            ("INF", xsd::DOUBLE, "INF"),
            ("2024-02-29Z", xsd::DATE, "2024-02-29Z"),
            ("P12M", xsd::YEAR_MONTH_DURATION, "P1Y"),
        ] {
            let Term::Literal(literal) = typed(lexical, datatype).into_term() else {
                panic!("{lexical} became another kind of term");
            };
            assert_eq!((literal.value(), literal.datatype()), (canonical, datatype));
        }
    }

    #[test]
    fn integers_become_ids_as_their_texts_do() {
        const EDGE: i64 = 1 << 55;
        for value in [
            0,
            1,
            -1,
            EDGE - 1,
            EDGE,
            -EDGE,
            -EDGE - 1,
            i64::MAX,
            i64::MIN,
        ] {
            let expected = inline_literal(&value.to_string(), xsd::INTEGER.as_str());
            assert_eq!(Value::integer(value).to_inline(), expected, "{value}");
        }
    }

    #[test]
    fn decimals_become_ids_as_their_texts_do() {
        for text in [
            "0",
            "1.5",
            "-0.25",
            "0.001",
            "0.0001",
            "100",
            "-7.125",
            "2251799813685247",
            "2251799813685248",
            "-2251799813685248",
            "225179981368524.7",
            "999999999999.999",
            "123456789012345678.5",
        ] {
            let value: Decimal = text.parse().expect("a decimal");
            let expected = inline_literal(&value.to_string(), xsd::DECIMAL.as_str());
            assert_eq!(
                Value::from(Number::Decimal(value)).to_inline(),
                expected,
                "{text}"
            );
            if let Some(id) = inline_decimal(value) {
                assert_eq!(Some(id), expected, "{text}");
            }
        }
    }

    #[test]
    fn ill_typed_literals_keep_their_text() {
        for (lexical, datatype) in [
            ("abc", xsd::INTEGER),
            ("300", xsd::BYTE),
            ("infinity", xsd::DOUBLE),
            ("nan", xsd::FLOAT),
            ("TRUE", xsd::BOOLEAN),
            ("2024-02-30", xsd::DATE),
            ("2024-02-28T00:00:00", xsd::DATE_TIME_STAMP),
        ] {
            let value = typed(lexical, datatype);
            assert!(matches!(value, Value::Other { .. }), "{lexical}: {value:?}");
            assert_eq!(
                value.into_term(),
                Literal::new_typed_literal(lexical, datatype).into()
            );
        }
    }

    #[test]
    fn effective_boolean_values() {
        assert_eq!(Value::from(String::new()).effective_boolean(), Some(false));
        assert_eq!(Value::integer(0).effective_boolean(), Some(false));
        assert_eq!(typed("NaN", xsd::DOUBLE).effective_boolean(), Some(false));
        assert_eq!(typed("2024-01-01", xsd::DATE).effective_boolean(), None);
        assert_eq!(typed("abc", xsd::INTEGER).effective_boolean(), None);
    }
}

//! Literals as native values, for which Arrow and Parquet have a type.
//!
//! A value is native only if it is exact: an integer of 64 bits, a decimal of 38 digits, a date or time
//! without time zone (or in UTC) between the years 1 and 9999, to the microsecond. All other values stay
//! text.

use chrono::NaiveDate;
use oxrdf::NamedNodeRef;
use oxrdf::vocab::xsd;
use pythia_rdf::inline::DERIVED_INTEGERS;

/// Digits of a 128-bit decimal.
pub(super) const DECIMAL_DIGITS_MAX: u8 = 38;

/// A value with a native type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Native {
    Boolean(bool),
    Integer(i64),
    Decimal(Decimal),
    Float(f32),
    Double(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00:00, and whether the time is in UTC.
    DateTime(i64, bool),
}

/// `mantissa` / 10^`scale`, with the smallest possible `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decimal {
    pub(super) mantissa: i128,
    pub(super) scale: u8,
    /// Number of digits before the point.
    pub(super) whole_digits: u8,
}

/// Returns the native value of a literal, if it has one.
pub(super) fn native(lexical: &str, datatype: NamedNodeRef<'_>) -> Option<Native> {
    match datatype {
        xsd::BOOLEAN => match lexical {
            "true" | "1" => Some(Native::Boolean(true)),
            "false" | "0" => Some(Native::Boolean(false)),
            _ => None,
        },
        xsd::DECIMAL => decimal(lexical).map(Native::Decimal),
        xsd::DOUBLE => {
            let value = special(lexical).or_else(|| number(lexical)?.parse().ok())?;
            Some(Native::Double(value))
        }
        xsd::FLOAT => {
            let special = special(lexical).map(|value| value as f32);
            Some(Native::Float(
                special.or_else(|| number(lexical)?.parse().ok())?,
            ))
        }
        xsd::DATE => date(lexical).map(Native::Date),
        xsd::DATE_TIME => {
            let (text, utc) = match lexical.strip_suffix('Z') {
                Some(text) => (text, true),
                None => (lexical, false),
            };
            Some(Native::DateTime(date_time(text)?, utc))
        }
        datatype if is_integer(datatype) => lexical.parse().ok().map(Native::Integer),
        _ => None,
    }
}

/// Returns whether a datatype is `xsd:integer` or derived from it.
fn is_integer(datatype: NamedNodeRef<'_>) -> bool {
    let mut derived = DERIVED_INTEGERS.iter();
    datatype == xsd::INTEGER || derived.any(|(derived, ..)| *derived == datatype)
}

fn special(lexical: &str) -> Option<f64> {
    match lexical {
        "INF" | "+INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ => None,
    }
}

/// Returns the text unless it is a word that Rust parses as a number and XSD does not.
fn number(lexical: &str) -> Option<&str> {
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    lexical.bytes().all(is_number).then_some(lexical)
}

fn decimal(lexical: &str) -> Option<Decimal> {
    let (negative, digits) = match lexical.as_bytes().first()? {
        b'-' => (true, &lexical[1..]),
        b'+' => (false, &lexical[1..]),
        _ => (false, lexical),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let (whole, fraction) = (
        whole.trim_start_matches('0'),
        fraction.trim_end_matches('0'),
    );
    if whole.len() + fraction.len() > usize::from(DECIMAL_DIGITS_MAX) {
        return None;
    }
    let digit = |value: i128, byte: u8| value * 10 + i128::from(byte - b'0');
    let mantissa = whole.bytes().chain(fraction.bytes()).fold(0, digit);
    Some(Decimal {
        mantissa: if negative { -mantissa } else { mantissa },
        scale: fraction.len() as u8,
        whole_digits: whole.len() as u8,
    })
}

fn date(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (
        digits(&bytes[..4])?,
        digits(&bytes[5..7])?,
        digits(&bytes[8..])?,
    );
    let date = NaiveDate::from_ymd_opt(year, month.cast_unsigned(), day.cast_unsigned())?;
    (year > 0).then(|| date.to_epoch_days())
}

fn date_time(text: &str) -> Option<i64> {
    let (day, time) = text.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let time = time.as_bytes();
    if time.len() != 8 || time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (
        digits(&time[..2])?,
        digits(&time[3..5])?,
        digits(&time[6..])?,
    );
    let kept = fraction.trim_end_matches('0');
    if hour > 23 || minute > 59 || second > 59 || fraction.is_empty() || kept.len() > 6 {
        return None;
    }
    let micros = format!("{kept:0<6}");
    let seconds = i64::from(date(day)?) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    Some(seconds * 1_000_000 + i64::from(digits(micros.as_bytes())?))
}

/// Parses a number of up to nine digits.
fn digits(bytes: &[u8]) -> Option<i32> {
    bytes.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit()
            .then(|| value * 10 + i32::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_values_are_native() {
        let decimal = |mantissa, scale, whole_digits| {
            Some(Native::Decimal(Decimal {
                mantissa,
                scale,
                whole_digits,
            }))
        };
        for (lexical, datatype, expected) in [
            ("true", xsd::BOOLEAN, Some(Native::Boolean(true))),
            ("-42", xsd::INTEGER, Some(Native::Integer(-42))),
            (
                "9223372036854775807",
                xsd::UNSIGNED_LONG,
                Some(Native::Integer(i64::MAX)),
            ),
            ("9223372036854775808", xsd::INTEGER, None),
            ("1.50", xsd::DECIMAL, decimal(15, 1, 1)),
            ("-0.001", xsd::DECIMAL, decimal(-1, 3, 0)),
            (".5", xsd::DECIMAL, decimal(5, 1, 0)),
            ("007.", xsd::DECIMAL, decimal(7, 0, 1)),
            (".", xsd::DECIMAL, None),
            ("1e3", xsd::DECIMAL, None),
            (
                "123456789012345678901234567890123456789",
                xsd::DECIMAL,
                None,
            ),
            ("1e3", xsd::DOUBLE, Some(Native::Double(1000.0))),
            ("-INF", xsd::DOUBLE, Some(Native::Double(f64::NEG_INFINITY))),
            ("inf", xsd::DOUBLE, None),
            ("0.1", xsd::FLOAT, Some(Native::Float(0.1))),
            ("1970-01-01", xsd::DATE, Some(Native::Date(0))),
            ("2000-02-29", xsd::DATE, Some(Native::Date(11_016))),
            ("0001-01-01", xsd::DATE, Some(Native::Date(-719_162))),
            ("9999-12-31", xsd::DATE, Some(Native::Date(2_932_896))),
            ("1900-02-29", xsd::DATE, None),
            ("2000-01-01Z", xsd::DATE, None),
            (
                "1970-01-01T00:00:01.5",
                xsd::DATE_TIME,
                Some(Native::DateTime(1_500_000, false)),
            ),
            (
                "1969-12-31T23:59:59Z",
                xsd::DATE_TIME,
                Some(Native::DateTime(-1_000_000, true)),
            ),
            ("1970-01-01T00:00:00.1234567", xsd::DATE_TIME, None),
            ("1970-01-01T24:00:00", xsd::DATE_TIME, None),
            ("1970-01-01T00:00:00+02:00", xsd::DATE_TIME, None),
            ("P1D", xsd::DURATION, None),
        ] {
            assert_eq!(native(lexical, datatype), expected, "{lexical} {datatype}");
        }
    }
}

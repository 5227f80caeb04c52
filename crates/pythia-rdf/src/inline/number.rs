//! Numbers as payloads.
//!
//! A double or float is kept in its written form, `[-]digits[.digits][e[-]digits]`, because its binary value does
//! not fit and does not determine the lexical form:
//!
//! | bits | 1 | 2 | 8 | 4 | 41 |
//! |---|---|---|---|---|---|
//! | | negative | 0 no exponent, 1 `e`, 2 `E`, 3 special | exponent + 128 | fraction digits | mantissa |
//!
//! Special mantissas: 0 `INF` (negative: `-INF`), 1 `NaN`.

use oxrdf::NamedNodeRef;
use oxrdf::vocab::xsd;

/// The types derived from `xsd:integer`, in the order of their numbers in payloads, with the ranges of their
/// values.
pub const DERIVED_INTEGERS: [(NamedNodeRef<'static>, i64, i64); 12] = [
    (xsd::LONG, i64::MIN, i64::MAX),
    (xsd::INT, i32::MIN as i64, i32::MAX as i64),
    (xsd::SHORT, i16::MIN as i64, i16::MAX as i64),
    (xsd::BYTE, i8::MIN as i64, i8::MAX as i64),
    (xsd::NON_NEGATIVE_INTEGER, 0, i64::MAX),
    (xsd::POSITIVE_INTEGER, 1, i64::MAX),
    (xsd::UNSIGNED_LONG, 0, i64::MAX),
    (xsd::UNSIGNED_INT, 0, u32::MAX as i64),
    (xsd::UNSIGNED_SHORT, 0, u16::MAX as i64),
    (xsd::UNSIGNED_BYTE, 0, u8::MAX as i64),
    (xsd::NON_POSITIVE_INTEGER, i64::MIN, 0),
    (xsd::NEGATIVE_INTEGER, i64::MIN, -1),
];

const INTEGER_BIAS: i64 = 1 << 55;
const SMALL_BIAS: i64 = 1 << 51;
const SMALL_BITS: u32 = 52;

/// Returns value + bias, if it is not negative and below twice the bias.
fn biased(value: i64, bias: i64) -> Option<u64> {
    (-bias..bias)
        .contains(&value)
        .then(|| (value + bias) as u64)
}

/// Reads at most 18 digits without a superfluous leading zero.
fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 || (text[0] == b'0' && text.len() > 1) {
        return None;
    }
    plain_digits(text)
}

fn plain_digits(text: &[u8]) -> Option<i64> {
    let mut value = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(value)
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

/// Reads a canonical integer: no plus, no leading zeros, no negative zero.
fn canonical_integer(lexical: &[u8]) -> Option<i64> {
    let (negative, text) = split_sign(lexical);
    let value = digits(text)?;
    match (negative, value) {
        (true, 0) => None,
        (true, value) => Some(-value),
        (false, value) => Some(value),
    }
}

pub(super) fn parse_integer(lexical: &[u8]) -> Option<u64> {
    integer_payload(canonical_integer(lexical)?)
}

pub(super) fn integer_payload(value: i64) -> Option<u64> {
    biased(value, INTEGER_BIAS)
}

pub(super) fn integer(payload: u64) -> i64 {
    payload as i64 - INTEGER_BIAS
}

pub(super) fn parse_derived(type_name: &[u8], lexical: &[u8]) -> Option<u64> {
    let (number, (_, min, max)) =
        DERIVED_INTEGERS
            .iter()
            .enumerate()
            .find(|(_, (iri, _, _))| {
                iri.as_str().as_bytes().strip_prefix(super::XSD) == Some(type_name)
            })?;
    let value = canonical_integer(lexical)?;
    if !(*min..=*max).contains(&value) {
        return None;
    }
    Some((number as u64) << SMALL_BITS | biased(value, SMALL_BIAS)?)
}

/// Returns the type and value of a derived integer's payload.
pub(super) fn derived(payload: u64) -> Option<(NamedNodeRef<'static>, i64)> {
    let (iri, _, _) = DERIVED_INTEGERS.get((payload >> SMALL_BITS) as usize)?;
    Some((*iri, small(payload)))
}

fn small(payload: u64) -> i64 {
    (payload & ((1 << SMALL_BITS) - 1)) as i64 - SMALL_BIAS
}

pub(super) fn write_integer(value: i64, out: &mut String) {
    use std::fmt::Write;
    write!(out, "{value}").expect("strings take all text");
}

/// Reads the digits of a number with a point: the mantissa, and how many of its digits follow the point.
fn point_number(text: &[u8]) -> Option<(i64, usize)> {
    match memchr::memchr(b'.', text) {
        None => Some((digits(text)?, 0)),
        Some(point) => {
            let (whole, fraction) = (&text[..point], &text[point + 1..]);
            if fraction.is_empty() || fraction.len() > 15 || text.len() > 19 {
                return None;
            }
            let scale = 10_i64.pow(fraction.len() as u32);
            let mantissa = digits(whole)?
                .checked_mul(scale)?
                .checked_add(plain_digits(fraction)?)?;
            Some((mantissa, fraction.len()))
        }
    }
}

pub(super) fn parse_decimal(lexical: &[u8]) -> Option<u64> {
    let (negative, text) = split_sign(lexical);
    let (mantissa, scale) = point_number(text)?;
    if negative && mantissa == 0 {
        return None;
    }
    let value = if negative { -mantissa } else { mantissa };
    Some((scale as u64) << SMALL_BITS | biased(value, SMALL_BIAS)?)
}

pub(super) fn decimal(payload: u64) -> (i64, u8) {
    (small(payload), (payload >> SMALL_BITS) as u8)
}

pub(super) fn write_decimal(payload: u64, out: &mut String) {
    let (mantissa, scale) = decimal(payload);
    if mantissa < 0 {
        out.push('-');
    }
    write_point_number(mantissa.unsigned_abs(), usize::from(scale), out);
}

fn write_point_number(mantissa: u64, scale: usize, out: &mut String) {
    use std::fmt::Write;
    let power = 10_u64.pow(scale as u32);
    write!(out, "{}", mantissa / power).expect("strings take all text");
    if scale > 0 {
        write!(out, ".{:0scale$}", mantissa % power).expect("strings take all text");
    }
}

const MANTISSA_BITS: u32 = 41;
const SCALE_SHIFT: u32 = MANTISSA_BITS;
const EXPONENT_SHIFT: u32 = SCALE_SHIFT + 4;
const STYLE_SHIFT: u32 = EXPONENT_SHIFT + 8;
const SIGN_SHIFT: u32 = STYLE_SHIFT + 2;
const EXPONENT_BIAS: i64 = 128;
const STYLE_PLAIN: u64 = 0;
const STYLE_LOWER: u64 = 1;
const STYLE_UPPER: u64 = 2;
const STYLE_SPECIAL: u64 = 3;

pub(super) fn parse_floating(lexical: &[u8]) -> Option<u64> {
    let special =
        |negative: u64, which| Some(negative << SIGN_SHIFT | STYLE_SPECIAL << STYLE_SHIFT | which);
    match lexical {
        b"INF" => return special(0, 0),
        b"-INF" => return special(1, 0),
        b"NaN" => return special(0, 1),
        _ => {}
    }
    let (negative, text) = split_sign(lexical);
    let (text, style, exponent) = match memchr::memchr2(b'e', b'E', text) {
        None => (text, STYLE_PLAIN, 0),
        Some(at) => {
            let style = if text[at] == b'e' {
                STYLE_LOWER
            } else {
                STYLE_UPPER
            };
            (&text[..at], style, canonical_integer(&text[at + 1..])?)
        }
    };
    let (mantissa, scale) = point_number(text)?;
    if mantissa >> MANTISSA_BITS != 0 {
        return None;
    }
    Some(
        u64::from(negative) << SIGN_SHIFT
            | style << STYLE_SHIFT
            | biased(exponent, EXPONENT_BIAS)? << EXPONENT_SHIFT
            | (scale as u64) << SCALE_SHIFT
            | mantissa as u64,
    )
}

/// A floating-point number in its written form.
struct Floating {
    negative: bool,
    style: u64,
    exponent: i64,
    scale: usize,
    mantissa: u64,
}

impl Floating {
    fn from_payload(payload: u64) -> Self {
        Self {
            negative: payload >> SIGN_SHIFT == 1,
            style: payload >> STYLE_SHIFT & 3,
            exponent: (payload >> EXPONENT_SHIFT & 0xff) as i64 - EXPONENT_BIAS,
            scale: (payload >> SCALE_SHIFT & 0xf) as usize,
            mantissa: payload & ((1 << MANTISSA_BITS) - 1),
        }
    }

    fn write(&self, out: &mut String) -> Option<()> {
        if self.style == STYLE_SPECIAL {
            out.push_str(match (self.negative, self.mantissa) {
                (false, 0) => "INF",
                (true, 0) => "-INF",
                (false, 1) => "NaN",
                _ => return None,
            });
            return Some(());
        }
        if self.negative {
            out.push('-');
        }
        write_point_number(self.mantissa, self.scale, out);
        if self.style != STYLE_PLAIN {
            out.push(if self.style == STYLE_LOWER { 'e' } else { 'E' });
            write_integer(self.exponent, out);
        }
        Some(())
    }

    /// Returns the power of ten by which the mantissa is multiplied.
    fn power(&self) -> i64 {
        self.exponent - self.scale as i64
    }
}

pub(super) fn write_floating(payload: u64, out: &mut String) -> Option<()> {
    Floating::from_payload(payload).write(out)
}

pub(super) fn double(payload: u64) -> Option<f64> {
    let number = Floating::from_payload(payload);
    if number.style == STYLE_SPECIAL {
        return special(&number);
    }
    // Mantissa and power of ten are exact doubles, so one operation rounds once, as parsing would.
    let magnitude = number.mantissa as f64;
    let power = number.power();
    let value = match power {
        0..=22 => magnitude * POWERS[power as usize],
        -22..=-1 => magnitude / POWERS[-power as usize],
        _ => return text_of(&number)?.parse().ok(),
    };
    Some(if number.negative { -value } else { value })
}

pub(super) fn float(payload: u64) -> Option<f32> {
    let number = Floating::from_payload(payload);
    if number.style == STYLE_SPECIAL {
        return special(&number).map(|value| value as f32);
    }
    let power = number.power();
    if number.mantissa >> 24 != 0 || !(-10..=10).contains(&power) {
        return text_of(&number)?.parse().ok();
    }
    let magnitude = number.mantissa as f32;
    let factor = POWERS[power.unsigned_abs() as usize] as f32;
    let value = if power < 0 {
        magnitude / factor
    } else {
        magnitude * factor
    };
    Some(if number.negative { -value } else { value })
}

fn special(number: &Floating) -> Option<f64> {
    match (number.negative, number.mantissa) {
        (false, 0) => Some(f64::INFINITY),
        (true, 0) => Some(f64::NEG_INFINITY),
        (false, 1) => Some(f64::NAN),
        _ => None,
    }
}

fn text_of(number: &Floating) -> Option<String> {
    let mut text = String::new();
    number.write(&mut text)?;
    Some(text)
}

/// The powers of ten that doubles hold exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

//! Integers and decimals of any size, for values that do not fit into [`Number`]: beyond 64 bits of an
//! integer, 18 fraction digits or about 20 integer digits of a decimal.
//!
//! XSD bounds neither type. Sums, differences and products are exact. A quotient has as many fraction
//! digits as the operands, but at least 18. A number of more than [`DIGITS_MAX`] digits is an overflow, so
//! that repeated squaring cannot fill the memory.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, Sign};
use oxsdatatypes::{Decimal, Double, Float};
use spargebra::algebra::Function;

use super::number::{Arithmetic, Number, double_order_bits};
use super::value::Value;

/// The most digits; longer numbers are errors.
const DIGITS_MAX: u64 = 10_000;
/// The fraction digits of a [`Decimal`].
const DECIMAL_DIGITS: u32 = 18;

/// An integer or decimal. Inside a [`Value`] it never fits into a [`Number`].
#[derive(Clone, Debug)]
pub struct Exact {
    /// The value times 10^`scale`.
    mantissa: BigInt,
    scale: u32,
    is_integer: bool,
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

impl Exact {
    /// Converts to a value of the smallest form; `None` if it is too long.
    fn into_value(mut self) -> Option<Value<'static>> {
        // 3.33 bits a digit.
        if self.mantissa.bits() > DIGITS_MAX * 10 / 3 || u64::from(self.scale) > DIGITS_MAX {
            return None;
        }
        self.strip_zeros();
        if self.is_integer {
            return Some(match i64::try_from(&self.mantissa) {
                Ok(value) => Value::integer(value),
                Err(_) => Value::Exact(Box::new(self)),
            });
        }
        let small = i128::try_from(&self.mantissa)
            .ok()
            .and_then(|mantissa| Decimal::new(mantissa, self.scale).ok());
        Some(match small {
            Some(value) => Number::Decimal(value).into(),
            None => Value::Exact(Box::new(self)),
        })
    }

    /// Strips trailing zeros of the fraction. Strips half of the possible zeros at a time, so that a long
    /// number is divided only a few times.
    fn strip_zeros(&mut self) {
        let Some(twos) = self.mantissa.trailing_zeros() else {
            // 0.
            self.scale = 0;
            return;
        };
        // A multiple of 10ⁿ is also one of 2ⁿ.
        let most = u32::try_from(twos).unwrap_or(u32::MAX).min(self.scale);
        let mut count = most.checked_ilog2().map_or(0, |log| 1 << log);
        while count > 0 {
            let unit = power_of_ten(count);
            if self.scale >= count && (&self.mantissa % &unit) == BigInt::ZERO {
                self.mantissa /= unit;
                self.scale -= count;
            }
            count /= 2;
        }
    }

    /// Returns the memory of the number in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.mantissa.bits().div_ceil(8) as usize
    }

    /// Parses an integer; `None` if the text is not one.
    pub(crate) fn parse_integer(text: &str) -> Option<Value<'static>> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Self::from_digits(text, 0, true)
    }

    /// Parses a decimal; `None` if the text is not one.
    pub(crate) fn parse_decimal(text: &str) -> Option<Value<'static>> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let scale = u32::try_from(fraction.len()).ok()?;
        Self::from_digits(&text.replacen('.', "", 1), scale, false)
    }

    fn from_digits(text: &str, scale: u32, is_integer: bool) -> Option<Value<'static>> {
        if text.len() as u64 > DIGITS_MAX {
            return None;
        }
        let mantissa = text.parse().ok()?;
        let exact = Self {
            mantissa,
            scale,
            is_integer,
        };
        exact.into_value()
    }

    /// Converts a number exactly; `None` for floating-point numbers.
    fn from_number(number: Number) -> Option<Self> {
        Some(match number {
            Number::Integer(value) => Self {
                mantissa: i64::from(value).into(),
                scale: 0,
                is_integer: true,
            },
            Number::Decimal(value) => Self {
                mantissa: i128::from_be_bytes(value.to_be_bytes()).into(),
                scale: DECIMAL_DIGITS,
                is_integer: false,
            },
            Number::Float(_) | Number::Double(_) => return None,
        })
    }

    /// Converts a number exactly; `None` for NaN and infinities.
    fn from_any(number: Number) -> Option<Self> {
        match number {
            Number::Integer(_) | Number::Decimal(_) => Self::from_number(number),
            Number::Float(_) | Number::Double(_) => Self::from_floating(number.to_double().into()),
        }
    }

    /// Returns the exact value of a floating-point number; `None` if it is not finite.
    fn from_floating(value: f64) -> Option<Self> {
        const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
        if !value.is_finite() {
            return None;
        }
        let bits = value.to_bits();
        let exponent = (bits >> FRACTION_BITS) as i32 & 0x7ff;
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        // Subnormal numbers have the exponent of the smallest normal ones, without the leading bit.
        let leading = u64::from(exponent != 0) << FRACTION_BITS;
        let magnitude = leading | fraction;
        // The value is `odd` × 2^`power`.
        let zeros = if magnitude == 0 {
            0
        } else {
            magnitude.trailing_zeros()
        };
        let odd = BigInt::from(magnitude >> zeros);
        let odd = if value.is_sign_negative() { -odd } else { odd };
        let power = exponent.max(1) - 1075 + zeros as i32;
        let (mantissa, scale) = match u32::try_from(power) {
            Ok(power) => (odd << power, 0),
            // 2⁻ⁿ is 5ⁿ × 10⁻ⁿ.
            Err(_) => (
                odd * BigInt::from(5).pow(power.unsigned_abs()),
                power.unsigned_abs(),
            ),
        };
        Some(Self {
            mantissa,
            scale,
            is_integer: false,
        })
    }

    /// Returns the number in a value; `None` for floating-point numbers and other types.
    fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Number(number) => Self::from_number(*number),
            Value::Exact(exact) => Some((**exact).clone()),
            _ => None,
        }
    }

    /// Returns whether the type is an integer.
    pub(crate) fn is_integer(&self) -> bool {
        self.is_integer
    }

    /// Returns the nearest double.
    pub(crate) fn to_double(&self) -> Double {
        let text = format!("{}e-{}", self.mantissa, self.scale);
        let value: f64 = text.parse().expect("a floating-point form");
        value.into()
    }

    /// Returns the nearest float.
    pub(crate) fn to_float(&self) -> Float {
        let text = format!("{}e-{}", self.mantissa, self.scale);
        let value: f32 = text.parse().expect("a floating-point form");
        value.into()
    }

    /// Casts to integer by truncating the fraction.
    pub(crate) fn to_integer(&self) -> Option<Value<'static>> {
        let exact = Self {
            mantissa: &self.mantissa / power_of_ten(self.scale),
            scale: 0,
            is_integer: true,
        };
        exact.into_value()
    }

    /// Casts to decimal.
    pub(crate) fn to_decimal(&self) -> Option<Value<'static>> {
        let exact = Self {
            is_integer: false,
            ..self.clone()
        };
        exact.into_value()
    }

    /// Returns the mantissas of two numbers at a common scale, and that scale.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, u32) {
        let scale = self.scale.max(other.scale);
        let at_scale = |number: &Self| &number.mantissa * power_of_ten(scale - number.scale);
        (at_scale(self), at_scale(other), scale)
    }

    fn apply(&self, operator: Arithmetic, other: &Self) -> Option<Value<'static>> {
        let (a, b, scale) = self.aligned(other);
        let (mantissa, scale) = match operator {
            Arithmetic::Add => (a + b, scale),
            Arithmetic::Subtract => (a - b, scale),
            Arithmetic::Multiply => (&self.mantissa * &other.mantissa, self.scale + other.scale),
            Arithmetic::Divide => {
                if b.sign() == Sign::NoSign {
                    return None;
                }
                let digits = scale.max(DECIMAL_DIGITS);
                (a * power_of_ten(digits) / b, digits)
            }
        };
        let exact = Self {
            mantissa,
            scale,
            is_integer: self.is_integer && other.is_integer && operator != Arithmetic::Divide,
        };
        exact.into_value()
    }

    /// Evaluates `ABS`, `CEIL`, `FLOOR` or `ROUND`, which rounds halves up.
    fn round(&self, function: &Function) -> Option<Value<'static>> {
        let unit = power_of_ten(self.scale);
        let floor = |mantissa: BigInt| {
            let cut = &mantissa / &unit;
            let is_below = mantissa.sign() == Sign::Minus && (&mantissa % &unit) != BigInt::ZERO;
            if is_below { cut - 1 } else { cut }
        };
        let (mantissa, scale) = match function {
            Function::Abs => (BigInt::from(self.mantissa.magnitude().clone()), self.scale),
            Function::Floor => (floor(self.mantissa.clone()), 0),
            Function::Ceil => (-floor(-&self.mantissa), 0),
            Function::Round => (floor(&self.mantissa + &unit / 2), 0),
            _ => return None,
        };
        let exact = Self {
            mantissa,
            scale,
            is_integer: self.is_integer,
        };
        exact.into_value()
    }

    /// Returns the sort key of `ORDER BY`: the nearest double, then the difference between the number and
    /// [that double's decimal](decimal_units) in units of 10⁻¹⁸, then the digits below those.
    pub(crate) fn order_key(&self) -> (u64, i128, String) {
        let double = f64::from(self.to_double());
        let scale = self.scale.max(DECIMAL_DIGITS);
        let unit = power_of_ten(scale - DECIMAL_DIGITS);
        let exact = &self.mantissa * power_of_ten(scale - self.scale);
        let (mut units, mut digits) = (&exact / &unit, exact % &unit);
        if digits.sign() == Sign::Minus {
            units -= 1;
            digits += &unit;
        }
        let (above, mut text) = order_units(&(units - decimal_units(double)));
        let width = (scale - DECIMAL_DIGITS) as usize;
        let digits = format!("{:0>width$}", digits.to_string());
        text.push_str(digits.trim_end_matches('0'));
        (double_order_bits(double), above, text)
    }
}

impl fmt::Display for Exact {
    /// Writes the canonical lexical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa.sign() == Sign::Minus {
            "-"
        } else {
            ""
        };
        let scale = self.scale as usize;
        let digits = self.mantissa.magnitude().to_string();
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// Splits an integer into a number and a text that sort like it. If it exceeds 128 bits, the number is the
/// least or largest one, and the text is its digits preceded by their count, all inverted if it is
/// negative.
fn order_units(units: &BigInt) -> (i128, String) {
    let short = i128::try_from(units).ok();
    if let Some(units) = short.filter(|units| !matches!(*units, i128::MIN | i128::MAX)) {
        return (units, String::new());
    }
    let digits = units.magnitude().to_string();
    let text = format!("{:05}{digits}", digits.len());
    if units.sign() != Sign::Minus {
        return (i128::MAX, text);
    }
    let inverted = text.bytes().map(|digit| char::from(b'9' - (digit - b'0')));
    (i128::MIN, inverted.collect())
}

/// Returns a double's position among the integers and decimals whose nearest double it is, in units of
/// 10⁻¹⁸: the shortest decimal that is written for it. So it ties with each number of up to 15 digits that
/// `=` considers equal to it. An infinity is beyond all of them.
pub(crate) fn decimal_units(double: f64) -> BigInt {
    if !double.is_finite() {
        let beyond = power_of_ten(DIGITS_MAX as u32 + 2 * DECIMAL_DIGITS);
        return if double > 0.0 { beyond } else { -beyond };
    }
    units_of(&double.to_string())
}

/// Parses a decimal in units of 10⁻¹⁸; truncates digits below.
fn units_of(text: &str) -> BigInt {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.chars().chain(std::iter::repeat('0'));
    let digits = whole.chars().chain(fraction.take(DECIMAL_DIGITS as usize));
    digits.collect::<String>().parse().expect("digits")
}

/// Returns a number in units of 10⁻¹⁸, a floating-point one as the shortest decimal that is written for it;
/// `None` for NaN, infinities and values beyond 128 bits.
pub(crate) fn written_units(number: Number) -> Option<i128> {
    match number {
        Number::Integer(_) | Number::Decimal(_) => {
            let decimal = number.to_decimal()?;
            Some(i128::from_be_bytes(decimal.to_be_bytes()))
        }
        Number::Float(value) if f32::from(value).is_finite() => {
            i128::try_from(units_of(&f32::from(value).to_string())).ok()
        }
        Number::Double(value) if value.is_finite() => {
            i128::try_from(units_of(&f64::from(value).to_string())).ok()
        }
        Number::Float(_) | Number::Double(_) => None,
    }
}

/// Casts a number to integer by truncating its fraction (XPath F&O §19.1.2.4); `None` for NaN and
/// infinities.
pub(crate) fn to_integer(number: Number) -> Option<Value<'static>> {
    match number.to_integer() {
        Some(short) => Some(Number::Integer(short).into()),
        None => Exact::from_any(number)?.to_integer(),
    }
}

/// Casts a number to decimal (XPath F&O §19.1.2.3). Decimals can hold the digits of every double, so the
/// nearest one is its exact value; `None` for NaN and infinities.
pub(crate) fn to_decimal(number: Number) -> Option<Value<'static>> {
    match number.to_decimal() {
        Some(short) => Some(Number::Decimal(short).into()),
        None => Exact::from_any(number)?.to_decimal(),
    }
}

/// Computes with two numbers if at least one of them, or the result, is too large for [`Number`].
pub(crate) fn arithmetic(
    operator: Arithmetic,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Option<Value<'static>> {
    if let (Some(left), Some(right)) = (Exact::of(left), Exact::of(right)) {
        return left.apply(operator, &right);
    }
    let (left, right) = floating(left, right)?;
    Some(left.apply(operator, right)?.into())
}

/// Evaluates `ABS`, `CEIL`, `FLOOR` or `ROUND` of such a number.
pub(crate) fn round(function: &Function, value: &Value<'_>) -> Option<Value<'static>> {
    Exact::of(value)?.round(function)
}

/// Negates such a number.
pub(crate) fn negate(value: &Value<'_>) -> Option<Value<'static>> {
    let exact = Exact::of(value)?;
    let negated = Exact {
        mantissa: -exact.mantissa,
        ..exact
    };
    negated.into_value()
}

/// Compares two numbers of which one is an [`Exact`]. The outer `None` means that one is not a number; the
/// inner one is for NaN.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    if let (Some(left), Some(right)) = (Exact::of(left), Exact::of(right)) {
        let (a, b, _) = left.aligned(&right);
        return Some(Some(a.cmp(&b)));
    }
    let (left, right) = floating(left, right)?;
    Some(left.partial_cmp(&right))
}

/// Promotes two numbers, one of which is a float or double, to that type.
fn floating(left: &Value<'_>, right: &Value<'_>) -> Option<(Number, Number)> {
    let promote = |value: &Value<'_>, other: &Value<'_>| match (value, other) {
        (Value::Number(number), _) => Some(*number),
        (Value::Exact(exact), Value::Number(Number::Float(_))) => {
            Some(Number::Float(exact.to_float()))
        }
        (Value::Exact(exact), _) => Some(Number::Double(exact.to_double())),
        _ => None,
    };
    Some((promote(left, right)?, promote(right, left)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Value<'static> {
        Exact::parse_decimal(text).expect("a decimal")
    }

    fn integer(text: &str) -> Value<'static> {
        Exact::parse_integer(text).expect("an integer")
    }

    fn text(value: Option<Value<'_>>) -> String {
        value.map_or("error".to_owned(), |value| value.into_term().to_string())
    }

    fn lexical(value: Option<Value<'_>>) -> String {
        let text = text(value);
        text.split('"').nth(1).unwrap_or(&text).to_owned()
    }

    #[test]
    fn what_fits_is_a_number() {
        assert!(matches!(integer("12"), Value::Number(Number::Integer(_))));
        assert!(matches!(decimal("1.50"), Value::Number(Number::Decimal(_))));
        assert!(matches!(integer("9223372036854775808"), Value::Exact(_)));
        assert!(matches!(decimal("0.1234567890123456789"), Value::Exact(_)));
        for wrong in ["", "+", ".", "1e3", "1.2.3", " 1", "--1"] {
            assert!(Exact::parse_decimal(wrong).is_none(), "{wrong}");
            assert!(Exact::parse_integer(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn zeros_at_the_end_go_however_many_there_are() {
        for digits in [0, 1, 2, 7, 63, 64, 65, 1000, 9000] {
            for last in [1_u64, 5, 2, 8, 1 << 40, 12_345_678_901_234_567_891] {
                let last = if last.is_multiple_of(10) {
                    last + 1
                } else {
                    last
                };
                for fraction in [digits, digits + 3, digits / 2] {
                    let mut exact = Exact {
                        mantissa: BigInt::from(last) * power_of_ten(digits),
                        scale: fraction,
                        is_integer: false,
                    };
                    exact.strip_zeros();
                    let gone = digits.min(fraction);
                    assert_eq!(exact.scale, fraction - gone);
                    assert_eq!(
                        exact.mantissa,
                        BigInt::from(last) * power_of_ten(digits - gone)
                    );
                }
            }
        }
        let mut zero = Exact {
            mantissa: BigInt::ZERO,
            scale: 9000,
            is_integer: false,
        };
        zero.strip_zeros();
        assert_eq!((zero.mantissa, zero.scale), (BigInt::ZERO, 0));
    }

    #[test]
    fn arithmetic_is_exact() {
        use Arithmetic as O;
        let apply =
            |operator, a: &str, b: &str| lexical(arithmetic(operator, &decimal(a), &decimal(b)));
        assert_eq!(
            apply(O::Add, "99999999999999999999999", "0.5"),
            "99999999999999999999999.5"
        );
        assert_eq!(
            apply(O::Multiply, "-0.0000000001", "0.00000000001"),
            "-0.000000000000000000001"
        );
        assert_eq!(
            apply(
                O::Subtract,
                "100000000000000000000000.5",
                "100000000000000000000000"
            ),
            "0.5"
        );
        assert_eq!(
            apply(O::Divide, "100000000000000000000000", "3"),
            "33333333333333333333333.333333333333333333"
        );
        assert_eq!(apply(O::Divide, "100000000000000000000000", "0"), "error");
        let sum = arithmetic(O::Add, &Value::integer(i64::MAX), &Value::integer(1));
        assert_eq!(
            text(sum),
            "\"9223372036854775808\"^^<http://www.w3.org/2001/XMLSchema#integer>"
        );
    }

    #[test]
    fn rounding_goes_up_at_halves() {
        let large = "123456789012345678901234";
        for (function, up, down) in [
            (Function::Round, "5", "4"),
            (Function::Ceil, "5", "4"),
            (Function::Floor, "4", "5"),
        ] {
            let positive = round(&function, &decimal(&format!("{large}.5")));
            assert_eq!(lexical(positive), format!("12345678901234567890123{up}"));
            let negative = round(&function, &decimal(&format!("-{large}.5")));
            assert_eq!(lexical(negative), format!("-12345678901234567890123{down}"));
        }
    }

    #[test]
    fn squaring_without_end_is_an_error() {
        let mut value = Some(integer("12345678901234567890"));
        for _ in 0..64 {
            value = value.and_then(|value| arithmetic(Arithmetic::Multiply, &value, &value));
        }
        assert!(value.is_none());
    }

    #[test]
    fn order_keys_order_like_values() {
        let values = [
            decimal("-123456789012345678901234.5"),
            decimal("-0.1234567890123456789012345"),
            decimal("0.12345678901234567890123"),
            decimal("0.1234567890123456789012345"),
            integer("9223372036854775807"),
            integer("9223372036854775808"),
            decimal("9223372036854775808.0000000000000000000001"),
            integer("123456789012345678901234"),
            decimal("123456789012345678901234.5"),
        ];
        for pair in values.windows(2) {
            assert_eq!(
                super::super::order::compare_values(&pair[0], &pair[1]),
                Ordering::Less,
                "{pair:?}"
            );
        }
    }
}

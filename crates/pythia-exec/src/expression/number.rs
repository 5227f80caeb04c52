//! SPARQL's numbers: the four numeric types, promotion between them, and arithmetic.
//!
//! Every operation promotes its operands to the wider type (integer → decimal → float → double, XPath F&O
//! §4.2) and returns `None` for an error (overflow, division of an integer or decimal by zero).

use std::cmp::Ordering;
use std::fmt::Debug;
use std::str::FromStr;

use oxsdatatypes::{Boolean, Decimal, Double, Float, Integer};
use pythia_rdf::TermId;
use pythia_rdf::inline::{InlineValue, inline_value};

use super::exact;

/// A numeric value.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// `xsd:integer` and the types derived from it.
    Integer(Integer),
    /// `xsd:decimal`.
    Decimal(Decimal),
    /// `xsd:float`.
    Float(Float),
    /// `xsd:double`.
    Double(Double),
}

/// An arithmetic operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// Two numbers of one type.
enum Pair {
    Integers(Integer, Integer),
    Decimals(Decimal, Decimal),
    Floats(Float, Float),
    Doubles(Double, Double),
}

impl Number {
    /// Makes the integer `value`.
    pub fn from_i64(value: i64) -> Self {
        Self::Integer(value.into())
    }

    /// Returns the number in an inline id; `None` for ids of other kinds.
    pub fn from_inline(id: TermId) -> Option<Self> {
        Some(match inline_value(id)? {
            InlineValue::Integer(value) => Self::from_i64(value),
            InlineValue::Decimal { mantissa, scale } => {
                Self::Decimal(Decimal::new(mantissa.into(), scale.into()).ok()?)
            }
            InlineValue::Double(value) => Self::Double(value.into()),
            InlineValue::Float(value) => Self::Float(value.into()),
            _ => return None,
        })
    }

    fn promote(self, other: Self) -> Pair {
        use Number as N;
        match (self, other) {
            (N::Integer(a), N::Integer(b)) => Pair::Integers(a, b),
            (N::Double(a), b) => Pair::Doubles(a, b.to_double()),
            (a, N::Double(b)) => Pair::Doubles(a.to_double(), b),
            (N::Float(a), b) => Pair::Floats(a, b.to_float()),
            (a, N::Float(b)) => Pair::Floats(a.to_float(), b),
            (N::Decimal(a), N::Decimal(b)) => Pair::Decimals(a, b),
            (N::Decimal(a), N::Integer(b)) => Pair::Decimals(a, b.into()),
            (N::Integer(a), N::Decimal(b)) => Pair::Decimals(a.into(), b),
        }
    }

    /// Returns the nearest double.
    pub fn to_double(self) -> Double {
        match self {
            Self::Integer(v) => v.into(),
            Self::Decimal(v) => decimal_to_double(v),
            Self::Float(v) => v.into(),
            Self::Double(v) => v,
        }
    }

    /// Returns the nearest float.
    pub fn to_float(self) -> Float {
        match self {
            Self::Integer(v) => v.into(),
            // A conversion through double would round twice.
            Self::Decimal(v) => parse_scaled::<f32>(v).into(),
            Self::Float(v) => v,
            Self::Double(v) => v.into(),
        }
    }

    /// Casts to integer by truncating the fraction; `None` for NaN, infinities and integers beyond 64 bits.
    pub fn to_integer(self) -> Option<Integer> {
        match self {
            Self::Integer(v) => Some(v),
            Self::Decimal(v) => v.try_into().ok(),
            Self::Float(_) | Self::Double(_) => whole_part(self.to_double().into()),
        }
    }

    /// Casts to decimal if that is lossless; `None` for NaN, infinities and decimals that need an
    /// [`Exact`](super::exact::Exact).
    pub fn to_decimal(self) -> Option<Decimal> {
        match self {
            Self::Integer(v) => Some(v.into()),
            Self::Decimal(v) => Some(v),
            Self::Float(_) | Self::Double(_) => {
                let value = f64::from(self.to_double());
                let is_whole = value.fract() == 0.0;
                is_whole.then(|| whole_part(value).map(Decimal::from))?
            }
        }
    }

    /// Returns the effective boolean value: false for zero and NaN.
    pub fn to_bool(self) -> bool {
        match self {
            Self::Integer(v) => Boolean::from(v).into(),
            Self::Decimal(v) => Boolean::from(v).into(),
            Self::Float(v) => Boolean::from(v).into(),
            Self::Double(v) => Boolean::from(v).into(),
        }
    }

    /// Applies an operator. Integer division returns a decimal.
    pub fn apply(self, operator: Arithmetic, other: Self) -> Option<Self> {
        use Arithmetic as O;
        Some(match self.promote(other) {
            Pair::Integers(a, b) => match operator {
                O::Add => Self::Integer(a.checked_add(b)?),
                O::Subtract => Self::Integer(a.checked_sub(b)?),
                O::Multiply => Self::Integer(a.checked_mul(b)?),
                O::Divide => Self::Decimal(Decimal::from(a).checked_div(b)?),
            },
            Pair::Decimals(a, b) => Self::Decimal(match operator {
                O::Add => a.checked_add(b)?,
                O::Subtract => a.checked_sub(b)?,
                O::Multiply => a.checked_mul(b)?,
                O::Divide => a.checked_div(b)?,
            }),
            Pair::Floats(a, b) => Self::Float(match operator {
                O::Add => a + b,
                O::Subtract => a - b,
                O::Multiply => a * b,
                O::Divide => a / b,
            }),
            Pair::Doubles(a, b) => Self::Double(match operator {
                O::Add => a + b,
                O::Subtract => a - b,
                O::Multiply => a * b,
                O::Divide => a / b,
            }),
        })
    }

    /// Negates the number.
    pub fn negate(self) -> Option<Self> {
        Some(match self {
            Self::Integer(v) => Self::Integer(v.checked_neg()?),
            Self::Decimal(v) => Self::Decimal(v.checked_neg()?),
            Self::Float(v) => Self::Float(-v),
            Self::Double(v) => Self::Double(-v),
        })
    }

    /// Evaluates `ABS`.
    pub fn abs(self) -> Option<Self> {
        Some(match self {
            Self::Integer(v) => Self::Integer(v.checked_abs()?),
            Self::Decimal(v) => Self::Decimal(v.checked_abs()?),
            Self::Float(v) => Self::Float(v.abs()),
            Self::Double(v) => Self::Double(v.abs()),
        })
    }

    /// Evaluates `CEIL`.
    pub fn ceil(self) -> Option<Self> {
        Some(match self {
            Self::Integer(v) => Self::Integer(v),
            Self::Decimal(v) => Self::Decimal(v.checked_ceil()?),
            Self::Float(v) => Self::Float(v.ceil()),
            Self::Double(v) => Self::Double(v.ceil()),
        })
    }

    /// Evaluates `FLOOR`.
    pub fn floor(self) -> Option<Self> {
        Some(match self {
            Self::Integer(v) => Self::Integer(v),
            Self::Decimal(v) => Self::Decimal(v.checked_floor()?),
            Self::Float(v) => Self::Float(v.floor()),
            Self::Double(v) => Self::Double(v.floor()),
        })
    }

    /// Evaluates `ROUND`. Halves are rounded up, towards positive infinity.
    pub fn round(self) -> Option<Self> {
        Some(match self {
            Self::Integer(v) => Self::Integer(v),
            Self::Decimal(v) => Self::Decimal(v.checked_round()?),
            Self::Float(v) => Self::Float(v.round()),
            Self::Double(v) => Self::Double(v.round()),
        })
    }

    /// Compares by the total order of `ORDER BY`, `MIN` and `MAX`; see [`Self::order_key`].
    pub fn total_cmp(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(&b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(&b),
            (Self::Decimal(a), Self::Integer(b)) => a.cmp(&b.into()),
            (Self::Integer(a), Self::Decimal(b)) => Decimal::from(a).cmp(&b),
            _ => self.order_key().cmp(&other.order_key()),
        }
    }

    /// Returns a key that sorts numbers by value, NaN first. The `<` operator loses digits when it promotes
    /// to double; this key is a total order over all types. It is the nearest double, then the difference
    /// between an integer or decimal and [that double's decimal](exact::decimal_units), in units of 10⁻¹⁸.
    pub fn order_key(self) -> (u64, i128) {
        let double = f64::from(self.to_double());
        let rest = match self {
            Self::Integer(v) => rest_above(Decimal::from(v), double),
            Self::Decimal(v) => rest_above(v, double),
            Self::Float(_) | Self::Double(_) => 0,
        };
        (double_order_bits(double), rest)
    }
}

/// Returns the integer part of a double, if it fits into 64 bits.
fn whole_part(value: f64) -> Option<Integer> {
    /// 2^63, the first number that is too large.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    // Below the limit the conversion is exact.
    (-LIMIT..LIMIT)
        .contains(&value)
        .then(|| (value.trunc() as i64).into())
}

/// Returns a decimal in units of 10⁻¹⁸.
fn units(value: Decimal) -> i128 {
    i128::from_be_bytes(value.to_be_bytes())
}

/// Returns the nearest double. It is fast for a decimal of up to three fraction digits whose digits fit
/// into a double: a single division rounds once.
fn decimal_to_double(value: Decimal) -> Double {
    const THOUSANDTH: i128 = 1_000_000_000_000_000;
    const DIGITS_MAX: i128 = 1 << 53;
    let scaled = units(value);
    let thousandths = scaled / THOUSANDTH;
    if thousandths * THOUSANDTH == scaled && (-DIGITS_MAX..=DIGITS_MAX).contains(&thousandths) {
        return Double::from(thousandths as f64 / 1000.0);
    }
    parse_scaled::<f64>(value).into()
}

/// Returns the nearest floating-point number. Parsing rounds correctly, unlike the conversion of
/// `oxsdatatypes`, which rounds digits and quotient.
fn parse_scaled<F: FromStr<Err: Debug>>(value: Decimal) -> F {
    let text = format!("{}e-18", units(value));
    text.parse().expect("a floating-point form")
}

/// Returns the bits of a double such that unsigned order is value order; −0 is 0 and NaN comes first.
pub(crate) fn double_order_bits(value: f64) -> u64 {
    if value.is_nan() {
        return 0;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | (1 << 63)
    } else {
        !bits
    }
}

/// Returns the difference between a decimal and the decimal of its nearest double, in units of 10⁻¹⁸.
fn rest_above(exact: Decimal, double: f64) -> i128 {
    /// A number with fewer digits is the shortest form of its double.
    const DIGITS_MAX: i128 = 1_000_000_000_000_000;
    /// Not every integer beyond this limit is a double.
    const WHOLE_MAX: i128 = 1 << 53;
    const ONE: i128 = 1_000_000_000_000_000_000;
    const THOUSANDTH: i128 = ONE / 1000;
    let exact = units(exact);
    let is_short = |unit: i128, limit: i128| exact % unit == 0 && (exact / unit).abs() <= limit;
    if is_short(ONE, WHOLE_MAX) || is_short(THOUSANDTH, DIGITS_MAX - 1) || exact.abs() < DIGITS_MAX
    {
        return 0;
    }
    let above = exact - exact::decimal_units(double);
    i128::try_from(above).expect("a decimal is near its double")
}

impl PartialEq for Number {
    /// Evaluates `=`: promotes, and NaN differs from itself.
    fn eq(&self, other: &Self) -> bool {
        match self.promote(*other) {
            Pair::Integers(a, b) => a == b,
            Pair::Decimals(a, b) => a == b,
            Pair::Floats(a, b) => a == b,
            Pair::Doubles(a, b) => a == b,
        }
    }
}

impl PartialOrd for Number {
    /// Evaluates `<`: promotes, and nothing compares with NaN.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.promote(*other) {
            Pair::Integers(a, b) => a.partial_cmp(&b),
            Pair::Decimals(a, b) => a.partial_cmp(&b),
            Pair::Floats(a, b) => a.partial_cmp(&b),
            Pair::Doubles(a, b) => a.partial_cmp(&b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Number {
        Number::Decimal(text.parse().expect("a decimal"))
    }

    fn double(value: f64) -> Number {
        Number::Double(value.into())
    }

    #[test]
    fn arithmetic_promotes_to_the_wider_type() {
        let sum = Number::from_i64(1).apply(Arithmetic::Add, decimal("0.5"));
        assert!(matches!(sum, Some(Number::Decimal(v)) if v == "1.5".parse().expect("decimal")));
        let sum = decimal("0.5").apply(Arithmetic::Multiply, double(4.0));
        assert!(matches!(sum, Some(Number::Double(v)) if v == 2.0.into()));
        let quotient = Number::from_i64(1).apply(Arithmetic::Divide, Number::from_i64(4));
        assert!(matches!(quotient, Some(Number::Decimal(_))));
    }

    #[test]
    fn division_by_zero_is_an_error_only_for_exact_numbers() {
        let zero = Number::from_i64(0);
        assert!(
            Number::from_i64(1)
                .apply(Arithmetic::Divide, zero)
                .is_none()
        );
        assert!(decimal("1.5").apply(Arithmetic::Divide, zero).is_none());
        assert!(double(1.0).apply(Arithmetic::Divide, zero).is_some());
    }

    #[test]
    fn decimals_convert_to_the_nearest_double() {
        for text in [
            "0.1",
            "-12345.678",
            "9007199254740.993",
            "0.0001",
            "12345678901234567.891",
            "3",
        ] {
            let expected: f64 = text.parse().expect("a number");
            let value: Decimal = text.parse().expect("a decimal");
            assert_eq!(f64::from(decimal_to_double(value)), expected, "{text}");
            assert_eq!(decimal_to_double(value), Double::from(value), "{text}");
        }
    }

    #[test]
    fn total_order_separates_neighbours_that_round_to_one_double() {
        let a = Number::from_i64(9_007_199_254_740_992);
        let b = Number::from_i64(9_007_199_254_740_993);
        assert_eq!(a.total_cmp(b), Ordering::Less);
        assert_eq!(
            a.total_cmp(double(9_007_199_254_740_992.0)),
            Ordering::Equal
        );
        assert_eq!(
            double(f64::NAN).total_cmp(double(f64::NEG_INFINITY)),
            Ordering::Less
        );
        assert_eq!(double(-0.0).total_cmp(Number::from_i64(0)), Ordering::Equal);
        assert_eq!(decimal("-1.5").total_cmp(double(-1.25)), Ordering::Less);
    }
}

//! Rational numbers of any size, for the tests of numbers. They share no conversion with the tested code.
//! The comparison of random queries with another engine includes this file too.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg, Sub};

use num_bigint::{BigInt, Sign};

/// A fraction; its denominator is positive.
#[derive(Clone, Debug)]
pub(crate) struct Rational {
    numerator: BigInt,
    denominator: BigInt,
}

fn power(base: u32, exponent: u32) -> BigInt {
    BigInt::from(base).pow(exponent)
}

impl Rational {
    pub(crate) fn new(numerator: impl Into<BigInt>, denominator: impl Into<BigInt>) -> Self {
        let (numerator, denominator) = (numerator.into(), denominator.into());
        match denominator.sign() {
            Sign::Minus => Self::new(-numerator, -denominator),
            Sign::NoSign => panic!("divided by zero"),
            Sign::Plus => Self {
                numerator,
                denominator,
            },
        }
    }

    pub(crate) fn integer(value: impl Into<BigInt>) -> Self {
        Self::new(value, 1)
    }

    /// Parses `[+-]digits[.digits][e[+-]digits]`; `None` if the text has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text, 0_i32),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent - i32::try_from(fraction.len()).ok()?;
        let scale = power(10, exponent.unsigned_abs());
        Some(if exponent < 0 {
            Self::new(digits, scale)
        } else {
            Self::integer(digits * scale)
        })
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.numerator.sign() == Sign::NoSign
    }

    pub(crate) fn abs(&self) -> Self {
        if self.numerator.sign() == Sign::Minus {
            -self.clone()
        } else {
            self.clone()
        }
    }

    pub(crate) fn divide(&self, other: &Self) -> Self {
        Self::new(
            &self.numerator * &other.denominator,
            &self.denominator * &other.numerator,
        )
    }

    /// Returns the largest integer that is not larger.
    pub(crate) fn floor(&self) -> Self {
        let quotient = &self.numerator / &self.denominator;
        let has_rest = &quotient * &self.denominator != self.numerator;
        let below = has_rest && self.numerator.sign() == Sign::Minus;
        Self::integer(quotient - i32::from(below))
    }

    /// Returns the number truncated to `digits` fraction digits.
    pub(crate) fn truncated(&self, digits: u32) -> Self {
        let scale = power(10, digits);
        let cut = (&self.abs() * &Self::integer(scale.clone())).floor();
        let cut = Self::new(cut.numerator, scale);
        if self.numerator.sign() == Sign::Minus {
            -cut
        } else {
            cut
        }
    }

    /// Returns the number of fraction digits, if it is finite.
    pub(crate) fn fraction_digits(&self) -> Option<u32> {
        (0..1200).find(|&digits| self.truncated(digits) == *self)
    }

    /// Returns all digits; `None` if there are infinitely many.
    pub(crate) fn decimal_text(&self) -> Option<String> {
        let digits = self.fraction_digits()?;
        let scaled = (&self.abs() * &Self::integer(power(10, digits))).floor();
        let width = digits as usize + 1;
        let mut text = format!("{:0>width$}", scaled.numerator.to_string());
        if digits > 0 {
            text.insert(text.len() - digits as usize, '.');
        }
        let sign = if self.numerator.sign() == Sign::Minus {
            "-"
        } else {
            ""
        };
        Some(format!("{sign}{text}"))
    }

    /// Returns the nearest number of `bits` significant bits that is a multiple of 2^`least`. Ties are
    /// rounded to even.
    fn rounded(&self, bits: u64, least: i64) -> Self {
        if self.is_zero() {
            return self.clone();
        }
        // The unit in the last place, first estimated from the lengths of numerator and denominator.
        let length = |number: &BigInt| i64::try_from(number.bits()).expect("a short number");
        let bits = i64::try_from(bits).expect("few bits");
        let mut unit = length(&self.numerator) - length(&self.denominator) - bits - 1;
        let in_units = |unit: i64| {
            let two = power(
                2,
                u32::try_from(unit.unsigned_abs()).expect("a short number"),
            );
            if unit < 0 {
                &self.abs() * &Self::integer(two)
            } else {
                self.abs().divide(&Self::integer(two))
            }
        };
        let limit = Self::integer(power(2, u32::try_from(bits).expect("few bits")));
        unit = unit.max(least);
        while in_units(unit) >= limit {
            unit += 1;
        }
        let count = in_units(unit);
        let below = count.floor();
        let half = Self::new(1, 2);
        let up = match (&count - &below).cmp(&half) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => below.numerator.bit(0),
        };
        let count = below.numerator + i32::from(up);
        let two = power(
            2,
            u32::try_from(unit.unsigned_abs()).expect("a short number"),
        );
        let magnitude = if unit < 0 {
            Self::new(count, two)
        } else {
            Self::integer(count * two)
        };
        if self.numerator.sign() == Sign::Minus {
            -magnitude
        } else {
            magnitude
        }
    }

    /// Returns the value of the nearest double; `None` if that is an infinity.
    pub(crate) fn nearest_double(&self) -> Option<Self> {
        let nearest = self.rounded(53, -1074);
        (nearest.abs() < Self::integer(power(2, 1024))).then_some(nearest)
    }

    /// Returns the value of the nearest float; `None` if that is an infinity.
    pub(crate) fn nearest_float(&self) -> Option<Self> {
        let nearest = self.rounded(24, -149);
        (nearest.abs() < Self::integer(power(2, 128))).then_some(nearest)
    }
}

impl Neg for Rational {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(-self.numerator, self.denominator)
    }
}

impl Add for &Rational {
    type Output = Rational;

    fn add(self, other: Self) -> Rational {
        Rational::new(
            &self.numerator * &other.denominator + &other.numerator * &self.denominator,
            &self.denominator * &other.denominator,
        )
    }
}

impl Sub for &Rational {
    type Output = Rational;

    fn sub(self, other: Self) -> Rational {
        Rational::new(
            &self.numerator * &other.denominator - &other.numerator * &self.denominator,
            &self.denominator * &other.denominator,
        )
    }
}

impl Mul for &Rational {
    type Output = Rational;

    fn mul(self, other: Self) -> Rational {
        Rational::new(
            &self.numerator * &other.numerator,
            &self.denominator * &other.denominator,
        )
    }
}

impl Ord for Rational {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.numerator * &other.denominator).cmp(&(&other.numerator * &self.denominator))
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rational {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rational {}

#[test]
fn rounding_to_doubles_and_floats() {
    let number = |text: &str| Rational::parse(text).expect("a number");
    for (text, double, float) in [
        ("1", Some("1"), Some("1")),
        (
            "9007199254740993",
            Some("9007199254740992"),
            Some("9007199254740992"),
        ),
        (
            "9007199254740995",
            Some("9007199254740996"),
            Some("9007199254740992"),
        ),
        ("-16777217", Some("-16777217"), Some("-16777216")),
        ("16777219", Some("16777219"), Some("16777220")),
        ("1e-400", Some("0"), Some("0")),
        (
            "1e39",
            Some("999999999999999939709166371603178586112"),
            None,
        ),
        ("1.8e308", None, None),
    ] {
        assert_eq!(number(text).nearest_double(), double.map(number), "{text}");
        assert_eq!(number(text).nearest_float(), float.map(number), "{text}");
    }
    assert_eq!(number("-1.5").floor(), number("-2"));
    assert_eq!(number("-1.59").truncated(1), number("-1.5"));
    assert_eq!(number("0.1250").fraction_digits(), Some(3));
    for text in ["0", "-0.125", "12", "10.5"] {
        assert_eq!(number(text).decimal_text().as_deref(), Some(text));
    }
    assert_eq!(Rational::new(1, 3).decimal_text(), None);
}

//! Exact sums of floating-point numbers, rounded once at the end.
//!
//! The sum does not depend on the order of the numbers, and a sum minus some of its numbers is the sum of the others.
//! Numbers of similar size are added in 128 bits; a number that does not fit there goes to a long integer.

use std::fmt;
use std::str::FromStr;

use num_bigint::{BigInt, Sign};

/// The exponent of the smallest positive double: every double is a multiple of 2^`UNIT`.
pub(super) const UNIT: i32 = -1074;
/// Bits below the last one of the first number that the window holds, for smaller numbers.
const BITS_BELOW: i32 = 30;
/// Bits of the window that a number may use; the others are for sums.
const BITS_OF_NUMBER: u32 = 120;

/// A sum of floats and doubles.
pub(super) type FloatingSum = BinarySum<UNIT>;

/// A sum of multiples of 2^`UNIT`.
#[derive(Clone, Debug, Default)]
pub(super) struct BinarySum<const UNIT: i32> {
    /// The sum of the numbers in the window, as a multiple of 2^`exponent`.
    window: i128,
    exponent: i32,
    /// The sum of the other finite numbers, as a multiple of 2^`UNIT`.
    long: Option<Box<BigInt>>,
    nans: i64,
    infinities: i64,
    negative_infinities: i64,
}

impl<const UNIT: i32> BinarySum<UNIT> {
    /// Adds `mantissa` times 2^`exponent`, which is a multiple of 2^`UNIT`.
    pub(super) fn add_multiple(&mut self, mantissa: i64, exponent: i32) {
        if mantissa == 0 {
            return;
        }
        if self.window == 0 {
            self.exponent = (exponent - BITS_BELOW).max(UNIT);
        }
        let fits = |shift: u32| mantissa.unsigned_abs().ilog2() + shift < BITS_OF_NUMBER;
        let shift = u32::try_from(exponent - self.exponent).ok();
        let Some(shift) = shift.filter(|&shift| fits(shift)) else {
            return self.add_long(BigInt::from(mantissa) << (exponent - UNIT));
        };
        let number = i128::from(mantissa) << shift;
        match self.window.checked_add(number) {
            Some(window) => self.window = window,
            None => {
                self.add_long(BigInt::from(self.window) << (self.exponent - UNIT));
                self.window = number;
            }
        }
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &Self) {
        self.nans += other.nans;
        self.infinities += other.infinities;
        self.negative_infinities += other.negative_infinities;
        if let Some(long) = &other.long {
            self.add_long((**long).clone());
        }
        if other.window == 0 {
            return;
        }
        if self.window == 0 {
            (self.window, self.exponent) = (other.window, other.exponent);
            return;
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned = aligned(self.window, self.exponent - exponent)
            .zip(aligned(other.window, other.exponent - exponent))
            .and_then(|(own, other)| own.checked_add(other));
        match aligned {
            Some(window) => (self.window, self.exponent) = (window, exponent),
            None => self.add_long(BigInt::from(other.window) << (other.exponent - UNIT)),
        }
    }

    fn add_long(&mut self, number: BigInt) {
        **self.long.get_or_insert_default() += number;
    }

    /// Returns the sum of the finite numbers, as a multiple of 2^`UNIT`.
    pub(super) fn finite(&self) -> BigInt {
        let window = match self.window {
            0 => BigInt::ZERO,
            window => BigInt::from(window) << (self.exponent - UNIT),
        };
        match &self.long {
            Some(long) => window + &**long,
            None => window,
        }
    }

    /// Returns the memory of the long integer in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let long = self.long.as_ref();
        long.map_or(0, |long| {
            size_of::<BigInt>() + long.bits().div_ceil(8) as usize
        })
    }
}

impl FloatingSum {
    /// Adds a number.
    pub(super) fn add(&mut self, value: f64) {
        if value.is_nan() {
            self.nans += 1;
        } else if value == f64::INFINITY {
            self.infinities += 1;
        } else if value == f64::NEG_INFINITY {
            self.negative_infinities += 1;
        } else {
            let (mantissa, exponent) = parts(value);
            self.add_multiple(mantissa, exponent);
        }
    }

    /// Returns whether all numbers are finite.
    pub(super) fn is_finite(&self) -> bool {
        self.special().is_none()
    }

    /// Returns this sum without the numbers of another sum, `times` over.
    pub(super) fn without(&self, other: &Self, times: i64) -> Self {
        let finite = (self.finite() - other.finite()) * times;
        let rest = |own: i64, other: i64| own.saturating_sub(other).saturating_mul(times);
        Self {
            window: 0,
            exponent: 0,
            long: Some(Box::new(finite)),
            nans: rest(self.nans, other.nans),
            infinities: rest(self.infinities, other.infinities),
            negative_infinities: rest(self.negative_infinities, other.negative_infinities),
        }
    }

    /// Returns the nearest double.
    pub(super) fn to_double(&self) -> f64 {
        self.special()
            .unwrap_or_else(|| round_to_double(&self.finite(), UNIT))
    }

    /// Returns the nearest float.
    pub(super) fn to_float(&self) -> f32 {
        const SMALLEST: i32 = -149;
        let below = (SMALLEST - UNIT) as u64;
        let value = self
            .special()
            .unwrap_or_else(|| round(&self.finite(), UNIT, (24, below)));
        // Exact, or beyond the range of floats.
        value as f32
    }

    fn special(&self) -> Option<f64> {
        match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => None,
            (0, _, 0) => Some(f64::INFINITY),
            (0, 0, _) => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }
}

/// Returns a number times 2^`shift`, unless that takes more bits than a number may use.
fn aligned(number: i128, shift: i32) -> Option<i128> {
    let bits = i128::BITS - number.unsigned_abs().leading_zeros();
    (bits + shift.unsigned_abs() <= BITS_OF_NUMBER).then(|| number << shift)
}

/// Splits a finite number into a mantissa and the exponent of its last bit.
pub(super) fn parts(value: f64) -> (i64, i32) {
    const FRACTION_BITS: u32 = 52;
    let bits = value.to_bits();
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let biased = (bits >> FRACTION_BITS & 0x7ff) as i32;
    let (mantissa, exponent) = match biased {
        0 => (fraction, UNIT),
        biased => (fraction | 1 << FRACTION_BITS, UNIT + biased - 1),
    };
    let mantissa = mantissa as i64;
    let mantissa = if value < 0.0 { -mantissa } else { mantissa };
    (mantissa, exponent)
}

/// Returns the double nearest to `number` times 2^`unit`, which is 2^[`UNIT`] or smaller.
pub(super) fn round_to_double(number: &BigInt, unit: i32) -> f64 {
    round(number, unit, (53, (UNIT - unit) as u64))
}

/// Rounds a multiple of 2^`unit` to `significant` bits, and to a multiple of 2^(`unit` + `below`); halves to even.
fn round(number: &BigInt, unit: i32, (significant, below): (u64, u64)) -> f64 {
    let magnitude = number.magnitude();
    let cut = magnitude.bits().saturating_sub(significant).max(below);
    let mut rounded = magnitude >> cut;
    if cut > 0 {
        let half = magnitude.bit(cut - 1);
        let more = magnitude
            .trailing_zeros()
            .is_some_and(|zeros| zeros < cut - 1);
        if half && (more || rounded.bit(0)) {
            rounded += 1_u32;
        }
    }
    let digits = u64::try_from(&rounded).expect("at most one more than the significant bits");
    let exponent = cut as i32 + unit;
    // Two steps, because a power of two may be out of range where the product is not.
    let half = exponent / 2;
    let value = digits as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half);
    if number.sign() == Sign::Minus {
        -value
    } else {
        value
    }
}

impl fmt::Display for FloatingSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nans, up, down) = (self.nans, self.infinities, self.negative_infinities);
        let (window, exponent) = (self.window, self.exponent);
        write!(f, "{nans} {up} {down} {window} {exponent}")?;
        match &self.long {
            Some(long) => write!(f, " {:x}", **long),
            None => Ok(()),
        }
    }
}

impl FromStr for FloatingSum {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        fn next<'t, T: FromStr>(words: &mut impl Iterator<Item = &'t str>) -> Result<T, ()> {
            words.next().and_then(|word| word.parse().ok()).ok_or(())
        }
        let mut words = text.split(' ');
        let words = &mut words;
        let (nans, infinities, negative_infinities) = (next(words)?, next(words)?, next(words)?);
        let (window, exponent) = (next(words)?, next(words)?);
        // Any query may call the functions that read such texts.
        if !(UNIT..=f64::MAX_EXP).contains(&exponent) {
            return Err(());
        }
        Ok(Self {
            nans,
            infinities,
            negative_infinities,
            window,
            exponent,
            long: match words.next() {
                None => None,
                Some(long) => {
                    let long = BigInt::parse_bytes(long.as_bytes(), 16).ok_or(())?;
                    Some(Box::new(long))
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: impl IntoIterator<Item = f64>) -> FloatingSum {
        let mut sum = FloatingSum::default();
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }

    #[test]
    fn one_number_is_its_own_sum() {
        let numbers = [
            0.1,
            -1.5,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            -4.9e-320,
            1e300,
        ];
        for value in numbers {
            assert_eq!(sum([value]).to_double(), value);
        }
        for value in [0.1_f32, f32::MAX, 1e-45, -3e38, 1.5e-40] {
            assert_eq!(sum([value.into()]).to_float(), value);
        }
        assert_eq!(sum([]).to_double(), 0.0);
    }

    #[test]
    fn sums_are_rounded_once() {
        assert_eq!(sum([1e16, 1.0, 1.0]).to_double(), 1e16 + 2.0);
        assert_eq!(sum([1e300, 1.0, -1e300]).to_double(), 1.0);
        assert_eq!(sum([f64::MAX, f64::MAX, -f64::MAX]).to_double(), f64::MAX);
        assert_eq!(sum([f64::MAX, f64::MAX]).to_double(), f64::INFINITY);
        // 2^24 + 1 is between two floats, of which the first is even; a little more is nearer to the second.
        assert_eq!(sum([16_777_216.0, 1.0]).to_float(), 16_777_216.0);
        assert_eq!(sum([16_777_216.0, 1.0, 1e-30]).to_float(), 16_777_218.0);
        assert_eq!(sum([f32::MAX.into(), 1e38]).to_float(), f32::INFINITY);
    }

    #[test]
    fn infinities_and_nans_go_where_they_came_from() {
        let all = sum([1.0, f64::INFINITY, f64::NAN, f64::NEG_INFINITY]);
        assert!(all.to_double().is_nan());
        let rest = all.without(&sum([f64::NAN, f64::NEG_INFINITY]), 1);
        assert_eq!(rest.to_double(), f64::INFINITY);
        assert_eq!(rest.without(&sum([f64::INFINITY]), 1).to_double(), 1.0);
    }

    proptest! {
        #[test]
        fn a_sum_without_some_numbers_is_the_sum_of_the_others(
            own in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO, 0..20),
            others in prop::collection::vec(-1e6_f64..1e6, 0..20),
        ) {
            let all = sum(own.iter().chain(&others).copied());
            let backwards = sum(others.iter().rev().chain(own.iter().rev()).copied());
            prop_assert_eq!(all.to_double().to_bits(), backwards.to_double().to_bits());
            let rest = all.without(&sum(own.iter().copied()), 1);
            prop_assert_eq!(rest.to_double(), sum(others.iter().copied()).to_double());
            let twice = all.without(&FloatingSum::default(), 2);
            prop_assert_eq!(twice.to_double(), all.to_double() * 2.0);
            let read: FloatingSum = all.to_string().parse().expect("its own text");
            prop_assert_eq!(read.to_double(), all.to_double());
            for mut merged in [FloatingSum::default(), sum([1e-300]), sum([1.5]), sum([1e300])] {
                let before = merged.clone();
                merged.merge(&read);
                prop_assert_eq!(merged.finite(), before.finite() + all.finite());
            }
        }

        #[test]
        fn a_sum_of_two_is_that_of_the_processor(a in prop::num::f64::ANY, b in prop::num::f64::ANY) {
            let (ours, theirs) = (sum([a, b]).to_double(), a + b);
            prop_assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{} {}", ours, theirs);
        }

        #[test]
        fn a_sum_of_two_floats_is_that_of_the_processor(a in prop::num::f32::ANY, b in prop::num::f32::ANY) {
            let (ours, theirs) = (sum([a.into(), b.into()]).to_float(), a + b);
            prop_assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{} {}", ours, theirs);
        }
    }
}

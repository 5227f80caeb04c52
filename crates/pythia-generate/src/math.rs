//! Exponential, logarithm and the half-normal distribution, from exactly rounded operations only.
//!
//! The functions of the standard library come from the platform's C library and may differ in the last bit; generated
//! data must not.

use std::f64::consts::{LN_2, LN_10};
use std::sync::LazyLock;

/// Returns e to the power of `x`, for results that are normal numbers.
pub(crate) fn exp(x: f64) -> f64 {
    let doublings = (x / LN_2).round();
    let rest = x - doublings * LN_2;
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..18 {
        term *= rest / f64::from(n);
        sum += term;
    }
    // In two steps: the power of two alone may leave the range of normal numbers.
    let half = (doublings / 2.0).floor();
    sum * power_of_two(half) * power_of_two(doublings - half)
}

fn power_of_two(exponent: f64) -> f64 {
    let biased = (exponent + 1023.0).clamp(0.0, 2046.0);
    f64::from_bits((biased as u64) << 52)
}

/// Returns the natural logarithm of a positive normal number.
pub(crate) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1))
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let mut power = ratio;
    let mut sum = 0.0;
    for n in 0..14 {
        sum += power / f64::from(2 * n + 1);
        power *= square;
    }
    exponent * LN_2 + 2.0 * sum
}

/// Returns the decimal logarithm of a positive number.
pub(crate) fn log10(x: f64) -> f64 {
    ln(x) / LN_10
}

/// Returns `base` (positive) to the power of `exponent`.
pub(crate) fn pow(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

const QUANTILE_STEPS: usize = 2048;

/// Quantiles of the normal distribution's upper half, cut off at two standard deviations and
/// scaled to `0.0..1.0`.
static HALF_NORMAL: LazyLock<Vec<f64>> = LazyLock::new(|| {
    const STEPS: usize = 1 << 14;
    let density = |x: f64| exp(-2.0 * x * x);
    let mut cumulative = Vec::with_capacity(STEPS + 1);
    cumulative.push(0.0);
    for step in 0..STEPS {
        let middle = (step as f64 + 0.5) / STEPS as f64;
        cumulative.push(cumulative[step] + density(middle));
    }
    let total = cumulative[STEPS];
    let mut at = 0;
    (0..=QUANTILE_STEPS)
        .map(|quantile| {
            let wanted = total * quantile as f64 / QUANTILE_STEPS as f64;
            while at + 1 < STEPS && cumulative[at + 1] <= wanted {
                at += 1;
            }
            let inside = (wanted - cumulative[at]) / (cumulative[at + 1] - cumulative[at]);
            ((at as f64 + inside) / STEPS as f64).min(1.0)
        })
        .collect()
});

/// The half-normal distribution on `0.0..1.0` with standard deviation 1/2, cut off at 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfNormal {
    quantiles: &'static [f64],
}

impl HalfNormal {
    pub(crate) fn new() -> Self {
        Self {
            quantiles: &HALF_NORMAL,
        }
    }

    /// Returns the value, below 1, below which the given share (`0.0..1.0`) of the distribution lies.
    #[inline]
    pub(crate) fn quantile(self, share: f64) -> f64 {
        let position = share * QUANTILE_STEPS as f64;
        let index = position as usize;
        let below = self.quantiles[index];
        let above = self.quantiles[index + 1];
        let value = below + (above - below) * (position - index as f64);
        value.min(1.0 - f64::EPSILON)
    }

    /// Returns the share of the distribution below `value` (`0.0..=1.0`).
    pub(crate) fn share_below(self, value: f64) -> f64 {
        let index = self
            .quantiles
            .partition_point(|&quantile| quantile <= value)
            .clamp(1, QUANTILE_STEPS);
        let (below, above) = (self.quantiles[index - 1], self.quantiles[index]);
        let inside = ((value - below) / (above - below)).clamp(0.0, 1.0);
        ((index - 1) as f64 + inside) / QUANTILE_STEPS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(left: f64, right: f64) {
        assert!(
            (left - right).abs() <= 1e-13 * right.abs().max(1.0),
            "{left} is not {right}"
        );
    }

    #[test]
    fn functions_agree_with_the_standard_library() {
        for x in [-300.0, -20.5, -1.0, -0.1, 0.0, 0.3, 1.0, 2.5, 50.0] {
            assert_close(exp(x) / x.exp(), 1.0);
        }
        for x in [1e-300, 1e-9, 0.5, 0.99, 1.0, 1.4, 1.5, 2.0, 1000.0, 1e18] {
            assert_close(ln(x), x.ln());
            assert_close(log10(x), x.log10());
        }
        assert_close(pow(2.0, 10.0) / 1024.0, 1.0);
    }

    #[test]
    fn half_normal_has_the_quantiles_of_the_normal_distribution() {
        let half = HalfNormal::new();
        // A share of 0.6826895 / 0.9544997 lies within one of the two standard deviations.
        assert!((half.quantile(0.682_689_5 / 0.954_499_7) - 0.5).abs() < 1e-4);
        assert!(half.quantile(0.0).abs() < 1e-12);
        assert!(half.quantile(1.0 - f64::EPSILON) < 1.0);
        for share in [0.0, 0.1, 0.25, 0.5, 0.9, 0.999] {
            assert!((half.share_below(half.quantile(share)) - share).abs() < 1e-9);
        }
        assert_close(half.share_below(1.0), 1.0);
    }
}

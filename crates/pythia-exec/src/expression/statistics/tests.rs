use std::sync::Arc;

use num_bigint::BigInt;
use proptest::prelude::*;
use pythia_sparql::Statistic;

use super::*;
use crate::expression::rational::Rational;
use crate::limits::governor::Governor;

const BOTH: [Divisor; 2] = [Divisor::Sample, Divisor::Population];

fn double(value: f64) -> Value<'static> {
    crate::expression::Number::Double(value.into()).into()
}

fn moments(numbers: &[f64]) -> Moments {
    let mut moments = Moments::default();
    for number in numbers {
        moments.add(Some(&double(*number)));
    }
    moments
}

fn held() -> Held {
    Held::new(&Arc::new(Governor::unlimited()))
}

fn tally(numbers: &[f64]) -> Tally {
    let (mut tally, mut held) = (Tally::default(), held());
    for number in numbers {
        tally.add(Some(key_of(*number)), &mut held).expect("memory");
    }
    tally
}

fn percentile(percent: &str, numbers: &[f64]) -> Option<f64> {
    let iri = format!("urn:pythia:aggregate#percentile-{percent}");
    let Some(Statistic::Percentile(percent)) = Statistic::named(&iri) else {
        panic!("{iri} is no percentile")
    };
    tally(numbers).percentile(percent)
}

/// The fraction that a finite double is.
fn exactly(number: f64) -> Rational {
    let (mantissa, exponent) = floating::parts(number);
    let power = BigInt::from(1) << exponent.unsigned_abs();
    match exponent < 0 {
        true => Rational::new(mantissa, power),
        false => Rational::integer(BigInt::from(mantissa) * power),
    }
}

/// The variance by its definition, in exact arithmetic.
fn exact_variance(numbers: &[f64], degrees: usize) -> Rational {
    let numbers: Vec<Rational> = numbers.iter().copied().map(exactly).collect();
    let sum = |terms: &mut dyn Iterator<Item = Rational>| {
        terms.fold(Rational::integer(0), |sum, term| &sum + &term)
    };
    let count = Rational::integer(numbers.len());
    let mean = sum(&mut numbers.iter().cloned()).divide(&count);
    let mut squares = numbers.iter().map(|number| {
        let distance = number - &mean;
        &distance * &distance
    });
    sum(&mut squares).divide(&Rational::integer(degrees))
}

#[test]
fn variances_of_few_numbers() {
    let variance = |numbers: &[f64]| BOTH.map(|divisor| moments(numbers).variance(divisor, false));
    assert_eq!(variance(&[]), [None, None]);
    assert_eq!(variance(&[3.0]), [None, Some(0.0)]);
    assert_eq!(variance(&[0.1, 0.1, 0.1]), [Some(0.0), Some(0.0)]);
    assert_eq!(
        variance(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
        [Some(32.0 / 7.0), Some(4.0)]
    );
    assert_eq!(variance(&[-0.0, 0.0]), [Some(0.0), Some(0.0)]);
    let root =
        moments(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).variance(Divisor::Population, true);
    assert_eq!(root, Some(2.0));
}

#[test]
fn variances_of_extreme_numbers_are_exact() {
    let population =
        |numbers: &[f64], is_root| moments(numbers).variance(Divisor::Population, is_root);
    // A large mean does not hide small distances.
    assert_eq!(population(&[1e15, 1e15 + 2.0], false), Some(1.0));
    // The variance is out of range, and its root is not.
    assert_eq!(population(&[-1e300, 1e300], false), Some(f64::INFINITY));
    assert_eq!(population(&[-1e300, 1e300], true), Some(1e300));
    assert_eq!(population(&[f64::MAX, -f64::MAX], true), Some(f64::MAX));
    assert_eq!(population(&[0.0, 1e-323], false), Some(0.0));
    assert_eq!(population(&[0.0, 1e-323], true), Some(5e-324));
    assert!(
        population(&[1.0, f64::INFINITY], false)
            .expect("a number")
            .is_nan()
    );
    assert!(
        population(&[1.0, f64::NAN], true)
            .expect("a number")
            .is_nan()
    );
}

#[test]
fn percentiles_are_interpolated() {
    let numbers = [40.0, 15.0, 50.0, 20.0, 35.0];
    for (percent, expected) in [
        ("0", 15.0),
        ("25", 20.0),
        ("40", 29.0),
        ("50", 35.0),
        ("100", 50.0),
        ("99.5", 49.8),
    ] {
        assert_eq!(percentile(percent, &numbers), Some(expected), "{percent}");
    }
    assert_eq!(percentile("50", &[]), None);
    assert_eq!(percentile("50", &[3.0]), Some(3.0));
    assert_eq!(percentile("50", &[1.0, 2.0]), Some(1.5));
    assert_eq!(percentile("75", &[7.0, 7.0, 7.0, 7.0, 1.0]), Some(7.0));
    // The middle is in range although the distance is not.
    assert_eq!(percentile("50", &[-f64::MAX, f64::MAX]), Some(0.0));
    assert_eq!(
        percentile("50", &[f64::MAX, f64::MAX.next_down()]),
        Some(f64::MAX.next_down())
    );
    assert_eq!(percentile("50", &[1.0, f64::INFINITY]), Some(f64::INFINITY));
    assert_eq!(
        percentile("25", &[f64::NEG_INFINITY, 1.0, 2.0]),
        Some(f64::NEG_INFINITY)
    );
    let infinities = [f64::NEG_INFINITY, f64::INFINITY];
    assert!(percentile("50", &infinities).expect("a number").is_nan());
    assert_eq!(percentile("0", &infinities), Some(f64::NEG_INFINITY));
    assert!(
        percentile("0", &[1.0, -f64::NAN])
            .expect("a number")
            .is_nan()
    );
}

#[test]
fn few_values_take_little_memory_however_often_they_occur() {
    let (mut tally, mut held) = (Tally::default(), held());
    for row in 0..100_000_u64 {
        tally
            .add(Some(key_of((row * 7 % 10) as f64)), &mut held)
            .expect("memory");
    }
    assert!(held.bytes() < 1000, "{}", held.bytes());
    assert_eq!(
        held.bytes(),
        tally.counts.capacity() * size_of::<(u64, u64)>()
    );
    let half = Statistic::named("urn:pythia:aggregate#median");
    let Some(Statistic::Percentile(half)) = half else {
        panic!("a median is a percentile")
    };
    assert_eq!(tally.percentile(half), Some(4.5));
}

#[test]
fn memory_is_charged_before_it_is_taken() {
    let governor = Arc::new(Governor::with_memory(1 << 20));
    let (mut tally, mut held) = (Tally::default(), Held::new(&governor));
    let failed = (0..1 << 20).find_map(|key| tally.add(Some(key), &mut held).err());
    assert!(matches!(failed, Some(QueryError::Memory(_))), "{failed:?}");
    assert!(tally.counts.capacity() * size_of::<(u64, u64)>() <= 1 << 20);
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    let any = prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO;
    let short = (-1000_i32..1000).prop_map(|cents| f64::from(cents) / 100.0);
    prop_oneof![
        prop::collection::vec(-1e3_f64..1e3, 1..30),
        prop::collection::vec(short, 1..30),
        prop::collection::vec(any, 1..6),
    ]
}

proptest! {
    #[test]
    fn variances_are_the_nearest_doubles_in_any_order(numbers in numbers()) {
        for (divisor, degrees) in BOTH.into_iter().zip([numbers.len() - 1, numbers.len()]) {
            let found = moments(&numbers).variance(divisor, false);
            if degrees == 0 {
                prop_assert_eq!(found, None);
                continue;
            }
            let backwards: Vec<f64> = numbers.iter().rev().copied().collect();
            prop_assert_eq!(moments(&backwards).variance(divisor, false), found);
            let expected = exact_variance(&numbers, degrees);
            match expected.nearest_double() {
                Some(nearest) => prop_assert_eq!(exactly(found.expect("a number")), nearest),
                None => prop_assert_eq!(found, Some(f64::INFINITY)),
            }
            // No double is nearer to the root: those halfway to the next ones are on either side.
            let root = moments(&numbers).variance(divisor, true).expect("a number");
            let halfway = |other: f64| (&exactly(root) + &exactly(other)).divide(&Rational::integer(2));
            let (below, above) = (halfway(root.next_down()), halfway(root.next_up()));
            prop_assert!(root == 0.0 || &below * &below <= expected);
            prop_assert!(&above * &above >= expected);
        }
    }

    #[test]
    fn variances_agree_with_two_passes(numbers in prop::collection::vec(-1e3_f64..1e3, 2..200)) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let found = moments(&numbers).variance(Divisor::Sample, false).expect("a number");
        let expected = squares / (count - 1.0);
        prop_assert!((found - expected).abs() <= 1e-9 * expected, "{} {}", found, expected);
    }

    #[test]
    fn percentiles_agree_with_sorted_numbers(
        mut numbers in prop::collection::vec((-50_i32..50).prop_map(|n| f64::from(n) / 4.0), 1..60),
        percent in 0_u32..=100,
    ) {
        let found = percentile(&percent.to_string(), &numbers).expect("a number");
        numbers.sort_by(f64::total_cmp);
        let rank = (numbers.len() - 1) as f64 * f64::from(percent) / 100.0;
        let (low, high) = (numbers[rank.floor() as usize], numbers[rank.ceil() as usize]);
        let expected = low + (high - low) * rank.fract();
        prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
    }

    #[test]
    fn keys_sort_like_numbers(a in prop::num::f64::ANY, b in prop::num::f64::ANY) {
        let [a, b] = [a, b].map(|number| if number.is_nan() { f64::NAN } else { number });
        prop_assert_eq!(key_of(a).cmp(&key_of(b)), a.total_cmp(&b));
        prop_assert_eq!(number_of(key_of(a)).to_bits(), a.to_bits());
    }
}

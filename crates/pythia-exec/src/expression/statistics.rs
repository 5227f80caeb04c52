//! States of the statistical aggregates: the moments of a group's numbers, or the count of each value.
//!
//! Their results are those of exact arithmetic on the numbers as doubles, rounded once. So they do not depend on the order
//! of the rows.

use num_bigint::{BigInt, BigUint};
use pythia_rdf::TermId;
use pythia_sparql::{Divisor, Percent};

use super::column::Column;
use super::context::EvaluationContext;
use super::decoded::Decoded;
use super::exact_sum::to_double;
use super::floating::{self, BinarySum, FloatingSum};
use super::order::{compare_ids, compare_values};
use super::value::Value;
use crate::error::QueryError;
use crate::limits::governor::Held;

/// The exponent of the square of the smallest positive double.
const SQUARE_UNIT: i32 = 2 * floating::UNIT;
/// Bits of the lower part of a square.
const LOW_BITS: u32 = 53;

/// The count, the sum and the sum of the squares of numbers.
#[derive(Clone, Default)]
pub(super) struct Moments {
    count: u64,
    has_error: bool,
    sum: FloatingSum,
    /// The sums of the upper and the lower bits of the squares. Each has numbers of similar size, which are added fast.
    squares: [BinarySum<SQUARE_UNIT>; 2],
}

impl Moments {
    /// Adds a value; one that is no number is an error.
    pub(super) fn add(&mut self, value: Option<&Value<'_>>) {
        let Some(number) = value.and_then(to_double) else {
            self.has_error = true;
            return;
        };
        self.count += 1;
        self.sum.add(number);
        if number.is_finite() && number != 0.0 {
            let (mantissa, exponent) = floating::parts(number);
            let square = u128::from(mantissa.unsigned_abs()).pow(2);
            let (high, low) = (square >> LOW_BITS, square & ((1 << LOW_BITS) - 1));
            let [highs, lows] = &mut self.squares;
            highs.add_multiple(high as i64, 2 * exponent + LOW_BITS as i32);
            lows.add_multiple(low as i64, 2 * exponent);
        }
    }

    /// Returns the variance, or its root; `None` after an error, or if there are too few numbers.
    pub(super) fn variance(&self, divisor: Divisor, is_root: bool) -> Option<f64> {
        let degrees = match divisor {
            Divisor::Sample => self.count.checked_sub(1)?,
            Divisor::Population => self.count,
        };
        if self.has_error || degrees == 0 {
            return None;
        }
        if !self.sum.is_finite() {
            return Some(f64::NAN);
        }
        // (n Σx² - (Σx)²) / (n degrees), in units of 2^SQUARE_UNIT. It is never negative.
        let squares = self.squares[0].finite() + self.squares[1].finite();
        let numerator = squares * self.count - self.sum.finite().pow(2);
        let divisor = BigUint::from(self.count) * degrees;
        Some(match is_root {
            false => quotient(&numerator, &divisor, SQUARE_UNIT),
            true => root(numerator.magnitude(), &divisor),
        })
    }

    /// Returns the memory of long numbers in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let [high, low] = &self.squares;
        self.sum.memory_bytes() + high.memory_bytes() + low.memory_bytes()
    }
}

/// Bits of a quotient or a root: more than a double has, so that one more bit decides how it is rounded.
const QUOTIENT_BITS: u64 = 64;

/// Returns the double nearest to a fraction times 2^`unit`.
fn quotient(numerator: &BigInt, divisor: &BigUint, unit: i32) -> f64 {
    let missing = (divisor.bits() + QUOTIENT_BITS).saturating_sub(numerator.bits());
    let shifted = numerator.magnitude() << missing;
    let quotient = &shifted / divisor;
    let has_rest = &quotient * divisor != shifted;
    let quotient = with_rest(quotient, has_rest);
    let quotient = BigInt::from_biguint(numerator.sign(), quotient);
    floating::round_to_double(&quotient, unit - missing as i32 - 1)
}

/// Returns the double nearest to the root of a fraction times 2^[`SQUARE_UNIT`].
fn root(numerator: &BigUint, divisor: &BigUint) -> f64 {
    let missing = (divisor.bits() + 2 * QUOTIENT_BITS).saturating_sub(numerator.bits());
    let missing = missing.next_multiple_of(2);
    let shifted = numerator << missing;
    let root = (&shifted / divisor).sqrt();
    let has_rest = &root * &root * divisor != shifted;
    let root = BigInt::from(with_rest(root, has_rest));
    floating::round_to_double(&root, (SQUARE_UNIT - missing as i32) / 2 - 1)
}

/// Appends a bit that is set if digits were cut off.
fn with_rest(number: BigUint, has_rest: bool) -> BigUint {
    (number << 1_u32) + u32::from(has_rest)
}

/// The count of each value of a group.
#[derive(Clone, Default)]
pub(super) struct Tally {
    /// Keys with counts. A key may occur more than once until the next merge.
    counts: Vec<(u64, u64)>,
    has_error: bool,
}

impl Tally {
    /// Adds the key of a value; `None` is an error.
    pub(super) fn add(&mut self, key: Option<u64>, held: &mut Held) -> Result<(), QueryError> {
        let Some(key) = key else {
            self.has_error = true;
            return Ok(());
        };
        if let Some((last, count)) = self.counts.last_mut()
            && *last == key
        {
            *count += 1;
            return Ok(());
        }
        if self.counts.len() == self.counts.capacity() {
            self.make_room(held)?;
        }
        self.counts.push((key, 1));
        Ok(())
    }

    /// Merges equal keys, and makes the list longer if it stays more than half full.
    fn make_room(&mut self, held: &mut Held) -> Result<(), QueryError> {
        const FIRST: usize = 4;
        const ENTRY_BYTES: usize = size_of::<(u64, u64)>();
        held.check()?;
        self.merge();
        let capacity = self.counts.capacity();
        if self.counts.len() * 2 < capacity {
            return Ok(());
        }
        // The list is copied, so both exist for a moment.
        let more = (2 * capacity).max(FIRST);
        held.add(more * ENTRY_BYTES)?;
        self.counts.reserve_exact(more - self.counts.len());
        held.set(held.bytes() - capacity * ENTRY_BYTES)
    }

    /// Sorts the keys and adds the counts of equal ones.
    fn merge(&mut self) {
        self.counts.sort_unstable();
        self.counts.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
    }

    /// Returns a percentile of numbers; `None` after an error or without numbers.
    pub(super) fn percentile(&mut self, percent: Percent) -> Option<f64> {
        self.merge();
        let (largest, _) = self.counts.last()?;
        if self.has_error {
            return None;
        }
        // NaN has the largest key.
        let largest = number_of(*largest);
        if largest.is_nan() {
            return Some(largest);
        }
        let count: u64 = self.counts.iter().map(|(_, count)| count).sum();
        let whole = u128::from(Percent::WHOLE);
        let rank = u128::from(count - 1) * u128::from(percent.parts());
        let (below, part) = ((rank / whole) as u64, (rank % whole) as u64);
        let low = self.at_rank(below);
        let high = if part == 0 {
            low
        } else {
            self.at_rank(below + 1)
        };
        Some(between(low, high, part))
    }

    /// Returns the number at a place of the sorted numbers.
    fn at_rank(&self, rank: u64) -> f64 {
        let mut before = 0;
        let reaches = |(_, count): &&(u64, u64)| {
            before += count;
            before > rank
        };
        let (key, _) = self
            .counts
            .iter()
            .find(reaches)
            .expect("a rank below the count");
        number_of(*key)
    }

    /// Returns the most frequent keys, without an order; none after an error.
    pub(super) fn most_frequent(&mut self) -> impl Iterator<Item = u64> {
        self.merge();
        let most = self.counts.iter().map(|(_, count)| *count).max();
        let most = most.filter(|_| !self.has_error);
        let is_most = move |(key, count): &(u64, u64)| (Some(*count) == most).then_some(*key);
        self.counts.iter().filter_map(is_most)
    }
}

/// Returns the number at `part` of [`Percent::WHOLE`] of the way from one number to another.
fn between(low: f64, high: f64, part: u64) -> f64 {
    if low == high {
        return low;
    }
    if !low.is_finite() || !high.is_finite() {
        let part = part as f64 / Percent::WHOLE as f64;
        return low * (1.0 - part) + high * part;
    }
    let [low, high] = [low, high].map(|number| {
        let (mantissa, exponent) = floating::parts(number);
        BigInt::from(mantissa) << (exponent - floating::UNIT)
    });
    let weighted = low * (Percent::WHOLE - part) + high * part;
    quotient(&weighted, &Percent::WHOLE.into(), floating::UNIT)
}

const SIGN: u64 = 1 << 63;

/// Returns a key that sorts like the number, NaN last.
pub(super) fn key_of(number: f64) -> u64 {
    let bits = if number.is_nan() { f64::NAN } else { number }.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn number_of(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
}

/// Returns the most frequent term as an id, 0 if there is none. Of several, it is the first in the order of `ORDER BY`; of
/// those with the same place there, the first by spelling.
pub(super) fn mode(tally: &mut Tally, context: &EvaluationContext) -> Result<u64, QueryError> {
    const TERMS: usize = 4096;
    let mut candidates = tally.most_frequent();
    let mut best = 0;
    loop {
        context.check()?;
        let before = (best != 0).then_some(best);
        let part: Vec<u64> = before
            .into_iter()
            .chain(candidates.by_ref().take(TERMS))
            .collect();
        match part[..] {
            [] => return Ok(0),
            [only] if before.is_some() => return Ok(only),
            _ => best = smallest(&part, context)?,
        }
    }
}

/// Returns the smallest of at least one term.
fn smallest(ids: &[u64], context: &EvaluationContext) -> Result<u64, QueryError> {
    let by_id = |a: usize, b: usize| compare_ids(TermId(ids[a]), TermId(ids[b]), context);
    let column = Column::Ids(ids.into());
    let mut decoded = Decoded::default();
    if (1..ids.len()).any(|row| by_id(0, row).is_none()) {
        decoded.require(context, &[&column], |_, _| true)?;
    }
    let value = |row| column.value(row, &decoded).expect("a term");
    let term = |row| {
        let term = column.term(row, &decoded).expect("a term");
        term.as_ref().to_string()
    };
    let mut first = 0;
    for row in 1..ids.len() {
        let ordering =
            by_id(row, first).unwrap_or_else(|| compare_values(&value(row), &value(first)));
        if ordering.then_with(|| term(row).cmp(&term(first))).is_lt() {
            first = row;
        }
    }
    Ok(ids[first])
}

#[cfg(test)]
mod tests;

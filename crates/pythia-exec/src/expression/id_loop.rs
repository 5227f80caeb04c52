//! The hot loops of filters over raw ids: they read no text, have no branches per row where the kinds allow
//! it, and write one byte of truth for eight bytes of id.

use pythia_rdf::TermId;
use rustc_hash::FxHashSet;

use super::compare::{Comparison, ERROR, FALSE, TRUE, Truth, truth};
use super::context::EvaluationContext;
use super::decoded::Decoded;
use super::id_range::{IdRanges, STRETCH_SHIFT};
use super::node::{ConstantComparison, IdStrategy};
use super::number::Number;
use crate::error::QueryError;

/// The value of a row that is not decided yet, while a loop runs.
const UNDECIDED: Truth = 3;

/// Evaluates `BOUND`.
pub(crate) fn bound(ids: &[u64]) -> Vec<Truth> {
    ids.iter()
        .map(|&id| if id == 0 { FALSE } else { TRUE })
        .collect()
}

/// Evaluates `IN` with a list of IRIs, by id.
pub(crate) fn in_set(ids: &[u64], set: &FxHashSet<u64>) -> Vec<Truth> {
    /// The most IRIs for which comparing with all is faster than hashing.
    const LINEAR_MAX: usize = 8;
    if set.len() <= LINEAR_MAX {
        let wanted: Vec<u64> = set.iter().copied().collect();
        let found = |id: u64| wanted.iter().fold(false, |found, &w| found | (w == id));
        return ids.iter().map(|&id| same(found(id), id)).collect();
    }
    ids.iter().map(|&id| same(set.contains(&id), id)).collect()
}

/// Returns the truth of an equality of terms, which is an error if the id is unbound.
#[inline]
fn same(equal: bool, id: u64) -> Truth {
    let unequal = if id == 0 { ERROR } else { FALSE };
    if equal { TRUE } else { unequal }
}

/// Compares a column with a constant.
pub(crate) fn compare_constant(
    ids: &[u64],
    comparison: &ConstantComparison,
    context: &EvaluationContext,
    decoded: &mut Decoded,
) -> Result<Vec<Truth>, QueryError> {
    let constant = comparison.constant.id.0;
    let mut result = match &comparison.strategy {
        IdStrategy::SameId if comparison.operator == Comparison::Equal => {
            return Ok(ids.iter().map(|&id| same(id == constant, id)).collect());
        }
        IdStrategy::SameId => {
            let differs = |&id: &u64| TRUE - same(id == constant, id);
            return Ok(ids.iter().map(differs).collect());
        }
        IdStrategy::Ranges(ranges) => in_ranges(ids, ranges),
        IdStrategy::Each => vec![UNDECIDED; ids.len()],
    };
    decide_rest(ids, &mut result, comparison, context, decoded)?;
    Ok(result)
}

/// Compares ids with the bounds of their stretches.
fn in_ranges(ids: &[u64], ranges: &IdRanges) -> Vec<Truth> {
    /// Number of rows tested together. Mostly they belong to one stretch.
    const ROWS: usize = 128;
    let (less, greater) = (ranges.less, ranges.greater);
    let between = ranges.between.unwrap_or(UNDECIDED);
    let mut result = vec![UNDECIDED; ids.len()];
    for (ids, result) in ids.chunks(ROWS).zip(result.chunks_mut(ROWS)) {
        let stretch = ids[0] >> STRETCH_SHIFT;
        let differing = ids
            .iter()
            .fold(0, |bits, id| bits | (id >> STRETCH_SHIFT ^ stretch));
        if differing == 0 {
            let Some(bounds) = ranges.bounds(stretch) else {
                continue;
            };
            for (&id, truth) in ids.iter().zip(result) {
                let not_less = if id >= bounds.upper { greater } else { between };
                *truth = if id < bounds.lower { less } else { not_less };
            }
            continue;
        }
        for (&id, truth) in ids.iter().zip(result) {
            if let Some(bounds) = ranges.bounds(id >> STRETCH_SHIFT) {
                let not_less = if id >= bounds.upper { greater } else { between };
                *truth = if id < bounds.lower { less } else { not_less };
            }
        }
    }
    result
}

/// Decides the remaining rows: by id where possible, otherwise by value.
fn decide_rest(
    ids: &[u64],
    result: &mut [Truth],
    comparison: &ConstantComparison,
    context: &EvaluationContext,
    decoded: &mut Decoded,
) -> Result<(), QueryError> {
    let ConstantComparison {
        operator,
        constant,
        kind,
        ..
    } = comparison;
    let number = constant.value.as_number();
    let mut open = Vec::new();
    for (row, (&id, result)) in ids.iter().zip(result.iter_mut()).enumerate() {
        if *result != UNDECIDED {
            continue;
        }
        let id = TermId(id);
        if let Some(constant) = number
            && let Some(value) = Number::from_inline(id)
        {
            *result = truth(Some(operator.apply_numbers(value, constant)));
            continue;
        }
        match operator.decide_kinds((id, id.kind()), (constant.id, *kind)) {
            Some(truth) => *result = truth,
            None => open.push(row),
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    let wanted = open.iter().map(|&row| TermId(ids[row]));
    decoded.add(
        context,
        wanted.filter(|id| !id.kind().is_inline()).collect(),
    )?;
    for row in open {
        let value = decoded.value(TermId(ids[row]));
        result[row] = truth(value.and_then(|value| operator.apply(&value, &constant.value)));
    }
    Ok(())
}

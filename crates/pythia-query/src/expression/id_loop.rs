//! The loops over raw ids that filters spend their time in: no text, no branches per row where
//! the kinds allow, one byte of truth out for eight bytes of id in.

use pythia_rdf::TermId;
use rustc_hash::FxHashSet;

use super::column::Decoded;
use super::compare::{Comparison, ERROR, FALSE, TRUE, Truth, truth};
use super::context::EvaluationContext;
use super::node::{ConstantComparison, IdStrategy, KindRange};
use crate::error::QueryError;

/// `BOUND`.
pub(crate) fn bound(ids: &[u64]) -> Vec<Truth> {
    ids.iter().map(|&id| if id == 0 { FALSE } else { TRUE }).collect()
}

/// `IN` a list of IRIs, by id.
pub(crate) fn in_set(ids: &[u64], set: &FxHashSet<u64>) -> Vec<Truth> {
    /// Up to this many, comparing with all is faster than hashing.
    const LINEAR_MAX: usize = 8;
    if set.len() <= LINEAR_MAX {
        let wanted: Vec<u64> = set.iter().copied().collect();
        let found = |id: u64| wanted.iter().fold(false, |found, &w| found | (w == id));
        return ids.iter().map(|&id| same(found(id), id)).collect();
    }
    ids.iter().map(|&id| same(set.contains(&id), id)).collect()
}

/// The truth of an equality of terms, which is an error where the id is unbound.
#[inline]
fn same(equal: bool, id: u64) -> Truth {
    let unequal = if id == 0 { ERROR } else { FALSE };
    if equal { TRUE } else { unequal }
}

/// A column against a constant.
pub(crate) fn compare_constant(
    ids: &[u64],
    comparison: &ConstantComparison,
    context: &EvaluationContext,
    decoded: &mut Decoded,
) -> Result<Vec<Truth>, QueryError> {
    let constant = comparison.constant.id.0;
    match &comparison.strategy {
        IdStrategy::SameId if comparison.operator == Comparison::Equal => {
            Ok(ids.iter().map(|&id| same(id == constant, id)).collect())
        }
        IdStrategy::SameId => {
            let differs = |&id: &u64| TRUE - same(id == constant, id);
            Ok(ids.iter().map(differs).collect())
        }
        IdStrategy::Range(range) => {
            let mut undecided = Vec::new();
            let mut result = Vec::with_capacity(ids.len());
            result.extend(ids.iter().enumerate().map(|(row, &id)| {
                let decided = if TermId(id).kind_number() == range.kind {
                    in_range(id, range)
                } else {
                    None
                };
                decided
                    .or_else(|| comparison.operator.decide(TermId(id), comparison.constant.id))
                    .unwrap_or_else(|| {
                        undecided.push(row);
                        ERROR
                    })
            }));
            decide_values(ids, &undecided, &mut result, comparison, context, decoded)?;
            Ok(result)
        }
        IdStrategy::Each => {
            let mut undecided = Vec::new();
            let mut result = Vec::with_capacity(ids.len());
            result.extend(ids.iter().enumerate().map(|(row, &id)| {
                let decided = comparison.operator.decide(TermId(id), comparison.constant.id);
                decided.unwrap_or_else(|| {
                    undecided.push(row);
                    ERROR
                })
            }));
            decide_values(ids, &undecided, &mut result, comparison, context, decoded)?;
            Ok(result)
        }
    }
}

#[inline]
fn in_range(id: u64, range: &KindRange) -> Option<Truth> {
    if id < range.lower {
        Some(range.less)
    } else if id >= range.upper {
        Some(range.greater)
    } else {
        range.between
    }
}

/// Decides rows by value.
fn decide_values(
    ids: &[u64],
    rows: &[usize],
    result: &mut [Truth],
    comparison: &ConstantComparison,
    context: &EvaluationContext,
    decoded: &mut Decoded,
) -> Result<(), QueryError> {
    let ConstantComparison { operator, constant, .. } = comparison;
    let wanted = rows.iter().map(|&row| TermId(ids[row]));
    decoded.add(context, wanted.filter(|id| !id.kind().is_inline()).collect())?;
    for &row in rows {
        let value = decoded.value(TermId(ids[row]));
        result[row] = truth(value.and_then(|value| operator.apply(&value, &constant.value)));
    }
    Ok(())
}

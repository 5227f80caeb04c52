//! Counts equal solutions inside a pipeline of whose solutions only the number is used.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_rdf::inline::inline_integer;

use super::batch::Batch;
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::expression::aggregate::solutions::number;
use crate::plan::slots::Slots;

/// Replaces runs of solutions that are equal in the live slots by one, with their number.
pub(crate) struct EarlyCount {
    input: Fed,
    /// The slot of the number. If it is bound already, numbers are added.
    slot: usize,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
}

impl EarlyCount {
    pub(crate) fn new(
        input: Fed,
        slot: usize,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            slot,
            live,
            context,
        }
    }
}

impl RowSource for EarlyCount {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            if batch.rows > 0 {
                return Ok(Some(counted(batch, self.slot, &self.live)));
            }
        }
        Ok(None)
    }
}

/// Solutions that have matches, each once, with the number of solutions that it stands for.
#[derive(Default)]
pub(super) struct CountedRows {
    rows: Vec<u32>,
    numbers: Vec<u64>,
}

impl CountedRows {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row of a batch with the number of its matches. `slot` has the number of solutions that the row stands for, if
    /// that is not one. A number too large for an id is left in several rows.
    pub(super) fn add(&mut self, batch: &Batch, row: usize, slot: usize, matches: usize) {
        let before = batch.columns[slot].get(row).map_or(1, |id| number(*id));
        let all = before.checked_mul(matches as u64).and_then(id_of);
        let (rows, number) = match all {
            Some(all) => (matches.min(1), all.0),
            None => (matches, id_of(before).expect("it was an id").0),
        };
        self.rows.extend(std::iter::repeat_n(row as u32, rows));
        self.numbers.extend(std::iter::repeat_n(number, rows));
    }

    /// Returns the rows, which are of this batch; `None` if there are none.
    pub(super) fn gather(self, batch: &Batch, slot: usize, live: &Slots) -> Option<Batch> {
        (!self.rows.is_empty()).then(|| {
            let mut gathered = batch.gather(&self.rows, live);
            gathered.columns[slot] = self.numbers;
            gathered
        })
    }
}

/// Returns one row of each run of equal rows, with the number of solutions in a slot. A number too large for an id is left in
/// several rows.
fn counted(mut batch: Batch, slot: usize, live: &Slots) -> Batch {
    let before = std::mem::take(&mut batch.columns[slot]);
    let columns: Vec<&[u64]> = (live.iter())
        .map(|live| batch.columns[live].as_slice())
        .filter(|column| !column.is_empty())
        .collect();
    let mut starts = starts_of_runs(&columns, batch.rows);
    let numbers = match before.is_empty() {
        true => lengths(&starts, batch.rows),
        false => sums(&before, &mut starts),
    };
    let id = |number: u64| {
        id_of(number)
            .expect("sums are checked, lengths are small")
            .0
    };
    let numbers = numbers.into_iter().map(id).collect();
    let mut counted = batch.pick(&starts, live);
    counted.columns[slot] = numbers;
    counted
}

/// Returns the first rows of runs of rows that are equal in all columns.
fn starts_of_runs(columns: &[&[u64]], rows: usize) -> Vec<u32> {
    let mut differs = vec![0_u8; rows];
    differs[0] = 1;
    // Neither of the loops has a branch: neighbours are compared several at once.
    for column in columns {
        for (differs, pair) in differs[1..].iter_mut().zip(column.windows(2)) {
            *differs |= u8::from(pair[0] != pair[1]);
        }
    }
    let mut starts = vec![0; rows];
    let mut found = 0;
    for (row, differs) in (0..).zip(&differs) {
        starts[found] = row;
        found += usize::from(*differs);
    }
    starts.truncate(found);
    starts
}

/// Returns the number of rows of each run.
fn lengths(starts: &[u32], rows: usize) -> Vec<u64> {
    let ends = starts[1..].iter().copied().chain([rows as u32]);
    let runs = starts.iter().zip(ends);
    runs.map(|(start, end)| u64::from(end - start)).collect()
}

/// Returns the sum of each run's numbers. A run whose sum is too large for an id is divided.
fn sums(numbers: &[u64], starts: &mut Vec<u32>) -> Vec<u64> {
    let runs = std::mem::take(starts);
    let mut sums: Vec<u64> = Vec::with_capacity(runs.len());
    let ends = runs[1..].iter().copied().chain([numbers.len() as u32]);
    for (start, end) in runs.iter().zip(ends) {
        let mut sum = None;
        for row in *start..end {
            let added = number(numbers[row as usize]);
            sum = match sum {
                Some(sum) if id_of(sum + added).is_some() => Some(sum + added),
                before => {
                    sums.extend(before);
                    starts.push(row);
                    Some(added)
                }
            };
        }
        sums.extend(sum);
    }
    sums
}

/// Returns the id of a number of solutions; `None` if it is too large.
fn id_of(number: u64) -> Option<TermId> {
    i64::try_from(number).ok().and_then(inline_integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(batch: &Batch, slot: usize) -> Vec<u64> {
        let ids = batch.columns[slot].iter();
        ids.map(|id| number(*id)).collect()
    }

    #[test]
    fn runs_become_one_row_with_their_number() {
        let mut batch = Batch::empty(4);
        batch.rows = 6;
        batch.columns[0] = vec![7, 7, 7, 8, 7, 7];
        batch.columns[1] = vec![1, 2, 3, 4, 5, 6];
        batch.columns[2] = vec![9, 9, 3, 3, 3, 3];
        let live = Slots::from_iter([0, 2, 3]);
        let first = counted(batch, 3, &live);
        assert_eq!(first.columns[0], [7, 7, 8, 7]);
        assert_eq!(first.columns[2], [9, 3, 3, 3]);
        assert_eq!(numbers(&first, 3), [2, 1, 1, 2]);
        let second = counted(first, 3, &Slots::from_iter([0, 3]));
        assert_eq!(second.columns[0], [7, 8, 7]);
        assert_eq!(numbers(&second, 3), [3, 1, 2]);
        let all = counted(second, 3, &Slots::from_iter([3]));
        assert_eq!((all.rows, numbers(&all, 3)), (1, vec![6]));
    }

    #[test]
    fn matches_are_counted_once_for_each_row() {
        let mut batch = Batch::empty(2);
        batch.rows = 3;
        batch.columns[0] = vec![7, 8, 9];
        let live = Slots::from_iter([0, 1]);
        let mut first = CountedRows::default();
        [3, 0, 5]
            .into_iter()
            .enumerate()
            .for_each(|(row, matches)| first.add(&batch, row, 1, matches));
        let first = first.gather(&batch, 1, &live).unwrap();
        assert_eq!(
            (first.columns[0].as_slice(), numbers(&first, 1)),
            (&[7, 9][..], vec![3, 5])
        );
        let mut second = CountedRows::default();
        second.add(&first, 1, 1, 4);
        let second = second.gather(&first, 1, &live).unwrap();
        assert_eq!(
            (second.columns[0].as_slice(), numbers(&second, 1)),
            (&[9][..], vec![20])
        );
        assert!(CountedRows::default().gather(&second, 1, &live).is_none());
    }

    #[test]
    fn matches_too_many_for_an_id_stay_apart() {
        let most = (0..63).rev().find_map(|bit| id_of(1 << bit)).unwrap();
        let mut batch = Batch::empty(1);
        batch.rows = 1;
        batch.columns[0] = vec![most.0];
        let mut counted = CountedRows::default();
        counted.add(&batch, 0, 0, 4);
        let counted = counted.gather(&batch, 0, &Slots::from_iter([0])).unwrap();
        let sum: u64 = numbers(&counted, 0).iter().sum();
        assert_eq!(sum, 4 * number(most.0));
    }

    #[test]
    fn numbers_that_no_id_holds_stay_apart() {
        let most = (0..63).rev().find_map(|bit| id_of(1 << bit)).unwrap();
        let mut batch = Batch::empty(1);
        batch.rows = 5;
        batch.columns[0] = vec![most.0; 5];
        let live = Slots::from_iter([0]);
        let again = counted(counted(batch, 0, &live), 0, &live);
        let sum: u64 = numbers(&again, 0).iter().sum();
        assert_eq!(sum, 5 * number(most.0));
        assert!((2..=5).contains(&again.rows));
    }
}

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
    let mut starts: Vec<u32> = Vec::new();
    let mut numbers: Vec<u64> = Vec::new();
    for row in 0..batch.rows {
        let added = before.get(row).map_or(1, |id| number(*id));
        let is_equal = row > 0 && columns.iter().all(|ids| ids[row] == ids[row - 1]);
        match numbers.last_mut() {
            Some(number) if is_equal && id_of(*number + added).is_some() => *number += added,
            _ => {
                starts.push(row as u32);
                numbers.push(added);
            }
        }
    }
    for number in &mut numbers {
        *number = id_of(*number)
            .expect("each number was checked when it grew")
            .0;
    }
    if starts.len() < batch.rows {
        batch = batch.gather(&starts, live);
    }
    batch.columns[slot] = numbers;
    batch
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

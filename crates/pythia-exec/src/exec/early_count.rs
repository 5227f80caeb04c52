//! Counts equal solutions inside a pipeline of whose solutions only the number is used.

use std::sync::Arc;

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

/// Returns one row of each run of equal rows, with the number of solutions in a slot.
fn counted(mut batch: Batch, slot: usize, live: &Slots) -> Batch {
    let before = std::mem::take(&mut batch.columns[slot]);
    let columns: Vec<&[u64]> = (live.iter())
        .map(|live| batch.columns[live].as_slice())
        .filter(|column| !column.is_empty())
        .collect();
    let starts_run = |&row: &usize| columns.iter().any(|ids| ids[row] != ids[row - 1]);
    let mut starts: Vec<u32> = vec![0];
    starts.extend((1..batch.rows).filter(starts_run).map(|row| row as u32));
    let ends = starts[1..].iter().copied().chain([batch.rows as u32]);
    let numbers = starts.iter().zip(ends).map(|(&start, end)| {
        let number = match before.get(start as usize..end as usize) {
            Some(numbers) => numbers.iter().map(|id| number(*id)).sum::<u64>(),
            None => u64::from(end - start),
        };
        let id = i64::try_from(number).ok().and_then(inline_integer);
        id.expect("fewer solutions than an id counts").0
    });
    let numbers: Vec<u64> = numbers.collect();
    if starts.len() < batch.rows {
        batch = batch.gather(&starts, live);
    }
    batch.columns[slot] = numbers;
    batch
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
}

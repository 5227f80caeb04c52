//! Rows that wait until an operation may make changes: in memory while it lasts, then in a temporary file.

use std::sync::Arc;

use super::{BATCH_ROWS, Row};
use pythia_exec::error::QueryError;
use pythia_exec::limits::governor::{Governor, Share};
use pythia_exec::limits::spill::file::SpillFile;
use pythia_exec::limits::spill::rows::{RowStore, RowWriter};

const WIDTH: usize = 4;
/// Number of rows for which memory is reserved at a time.
const ROOM_ROWS: usize = 1024;

/// Quads in order of arrival.
#[derive(Debug)]
pub(super) struct Rows {
    share: Share,
    kept: RowStore,
    /// Number of further rows for which memory is reserved.
    room: usize,
    file: Option<RowWriter>,
}

impl Rows {
    pub(super) fn new(governor: &Arc<Governor>) -> Self {
        Self {
            share: Share::new(governor),
            kept: RowStore::new(WIDTH),
            room: 0,
            file: None,
        }
    }

    pub(super) fn push(&mut self, row: &Row) -> Result<(), QueryError> {
        if self.file.is_none() && self.room == 0 {
            if self.share.fits(self.kept.bytes_with(ROOM_ROWS)) {
                self.room = ROOM_ROWS;
            } else {
                let block_bytes = self.share.block_bytes();
                self.share
                    .require(self.kept.bytes_with(0) + 2 * block_bytes)?;
                let file = SpillFile::create(self.share.governor().spill())?;
                self.file = Some(RowWriter::new(&file, WIDTH, block_bytes));
            }
        }
        match &mut self.file {
            Some(file) => file.push(row),
            None => {
                self.kept.push(row);
                self.room -= 1;
                Ok(())
            }
        }
    }

    /// Calls `each` with all rows, some at a time.
    pub(super) fn drain(
        self,
        mut each: impl FnMut(&[Row]) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let governor = Arc::clone(self.share.governor());
        let mut batch: Vec<Row> = Vec::new();
        for first in (0..self.kept.len()).step_by(BATCH_ROWS) {
            governor.check()?;
            let end = (first + BATCH_ROWS).min(self.kept.len());
            batch.clear();
            batch.extend((first..end).map(|row| as_row(self.kept.row(row))));
            each(&batch)?;
        }
        let Some(file) = self.file else {
            return Ok(());
        };
        let mut reader = file.finish()?.reader();
        let mut ids = Vec::new();
        while reader.next_rows(&mut ids)? > 0 {
            governor.check()?;
            batch.clear();
            batch.extend(ids.chunks_exact(WIDTH).map(as_row));
            each(&batch)?;
        }
        Ok(())
    }
}

fn as_row(ids: &[u64]) -> Row {
    ids.try_into().expect("a row's width")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pythia_exec::limits::governor::MemoryBudget;
    use pythia_exec::limits::spill::SpillSpace;

    #[test]
    fn rows_come_back_in_order_from_memory_and_file() {
        for budget in [60 << 10, 1 << 30] {
            let process = Arc::new(MemoryBudget::new(budget));
            let space = Arc::new(SpillSpace::default());
            let governor = Arc::new(Governor::new(
                Arc::default(),
                None,
                &process,
                budget,
                Arc::clone(&space),
            ));
            let mut rows = Rows::new(&governor);
            for n in 0..50_000 {
                rows.push(&[n, n + 1, 7, n * n]).unwrap();
            }
            assert_eq!(space.used() > 0, budget < 1 << 20);
            let mut next = 0;
            rows.drain(|batch| {
                for row in batch {
                    assert_eq!(*row, [next, next + 1, 7, next * next]);
                    next += 1;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(next, 50_000);
            drop(governor);
            assert_eq!((space.used(), process.used()), (0, 0));
        }
    }
}

//! Writing the rows of a load that replaces graphs: in each order, the sorted rows of the load are compared with those
//! that the snapshot has of these graphs. Rows of the load alone are added, rows of the snapshot alone are removed.

use std::cmp::Ordering;

use crate::StoreError;
use crate::delta::device::{RunOrderWriter, WrittenOrder};
use crate::load::LoadError;
use crate::load::orders::RowSink;
use crate::snapshot::WholeGraphRows;

/// Ids of a row, in its order.
type OrderedRow = [u64; 4];

/// A writer of an order of a load's run.
pub(super) struct ReplacingOrderWriter {
    run: RunOrderWriter,
    /// The rows of replaced graphs that come next, and the first of them; `None` if nothing is replaced.
    old: Option<OldRows>,
}

struct OldRows {
    rows: WholeGraphRows,
    next: Next,
}

enum Next {
    /// Nothing was read yet.
    Unknown,
    Row(OrderedRow),
    End,
}

impl ReplacingOrderWriter {
    pub(super) fn new(run: RunOrderWriter, replaced: Option<WholeGraphRows>) -> Self {
        let next = Next::Unknown;
        Self {
            run,
            old: replaced.map(|rows| OldRows { rows, next }),
        }
    }
}

impl OldRows {
    /// Returns the next row.
    fn peek(&mut self) -> Result<Option<OrderedRow>, StoreError> {
        if matches!(self.next, Next::Unknown) {
            self.next = match self.rows.next().transpose()? {
                Some(row) => Next::Row(row),
                None => Next::End,
            };
        }
        Ok(match self.next {
            Next::Row(row) => Some(row),
            Next::Unknown | Next::End => None,
        })
    }

    fn skip(&mut self) {
        self.next = Next::Unknown;
    }
}

impl RowSink for ReplacingOrderWriter {
    type Sealed = WrittenOrder;

    #[inline]
    fn row(&mut self, ids: OrderedRow) -> Result<(), LoadError> {
        if let Some(old) = &mut self.old {
            while let Some(before) = old.peek()? {
                match before.cmp(&ids) {
                    Ordering::Less => self.run.push(before, false)?,
                    // It stays.
                    Ordering::Equal => {
                        old.skip();
                        return Ok(());
                    }
                    Ordering::Greater => break,
                }
                old.skip();
            }
        }
        Ok(self.run.push(ids, true)?)
    }

    fn seal(mut self) -> Result<WrittenOrder, LoadError> {
        if let Some(old) = &mut self.old {
            while let Some(row) = old.peek()? {
                self.run.push(row, false)?;
                old.skip();
            }
        }
        Ok(self.run.finish()?)
    }
}

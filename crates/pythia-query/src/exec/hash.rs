//! Joining with a pattern whose matches are held in memory, keyed by one slot.

use std::sync::Arc;

use hashbrown::HashMap;
use pythia_store::Order;
use rustc_hash::FxBuildHasher;

use super::batch::{Batch, Cursor, OUTPUT_ROWS};
use super::context::QueryContext;
use super::pipeline::RowSource;
use super::scan::{ScanColumns, sorted_slot};
use super::step::SlotPattern;
use crate::error::QueryError;

/// Bytes of memory one match costs at most, for the query's budget.
const BYTES_PER_MATCH: usize = 48;

/// The matches of a pattern in key order, and where each key's run of them starts.
struct Table {
    runs: HashMap<u64, (u32, u32), FxBuildHasher>,
    columns: Vec<Vec<u64>>,
}

/// Joins solutions with a pattern by looking their key up in a table of all its matches.
///
/// The table is read once, in an order sorted by the key, the first time a solution arrives.
pub(crate) struct HashScan {
    input: Box<dyn RowSource>,
    columns: ScanColumns,
    order: Order,
    key: usize,
    live: Vec<usize>,
    context: Arc<QueryContext>,
    table: Option<Table>,
    current: Cursor,
    once: bool,
}

impl HashScan {
    pub(crate) fn new(
        input: Box<dyn RowSource>,
        pattern: SlotPattern,
        order: Order,
        live: Vec<usize>,
        context: Arc<QueryContext>,
    ) -> Self {
        let key = sorted_slot(&pattern, order).expect("the planner joins by a variable");
        Self {
            input,
            columns: ScanColumns::new(&pattern, &[key], &live),
            order,
            key,
            live,
            context,
            table: None,
            current: Cursor::default(),
            once: false,
        }
    }

    /// Stops at each solution's first match, if `once`.
    pub(crate) fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    fn build(&self) -> Result<Table, QueryError> {
        let mut scan = self.columns.open(self.order, &self.context)?;
        let key = self.columns.column_of(self.key);
        let mut columns: Vec<Vec<u64>> = vec![Vec::new(); self.columns.slots.len()];
        while let Some(found) = scan.next()? {
            self.context.check()?;
            self.context.reserve(found.rows * BYTES_PER_MATCH)?;
            for (column, found) in columns.iter_mut().zip(&found.columns) {
                column.extend_from_slice(found);
            }
        }
        let keys = &columns[key];
        let mut runs = HashMap::with_hasher(FxBuildHasher);
        let mut start = 0;
        while start < keys.len() {
            let length = keys[start..]
                .iter()
                .take_while(|k| **k == keys[start])
                .count();
            runs.insert(keys[start], (start as u32, (start + length) as u32));
            start += length;
        }
        Ok(Table { runs, columns })
    }
}

impl RowSource for HashScan {
    fn feed(&mut self, batch: Batch) {
        self.input.feed(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            if !self.current.has_rows() {
                let Some(batch) = self.input.next()? else {
                    return Ok(None);
                };
                self.current = Cursor::over(batch);
            }
            self.context.check()?;
            if self.table.is_none() {
                self.table = Some(self.build()?);
            }
            let table = self.table.as_ref().expect("built above");
            let Cursor { batch, row } = &mut self.current;
            let mut rows = Vec::new();
            let mut matches = Vec::new();
            while *row < batch.rows && rows.len() < OUTPUT_ROWS {
                if let Some(&(from, to)) = table.runs.get(&batch.value(self.key, *row)) {
                    let to = if self.once { from + 1 } else { to };
                    rows.extend(std::iter::repeat_n(*row as u32, (to - from) as usize));
                    matches.extend(from..to);
                }
                *row += 1;
            }
            if rows.is_empty() {
                continue;
            }
            let mut out = batch.gather(&rows, &self.live);
            for (column, &slot) in table.columns.iter().zip(&self.columns.slots) {
                if slot != self.key {
                    out.columns[slot] = matches.iter().map(|&m| column[m as usize]).collect();
                }
            }
            return Ok(Some(out));
        }
    }
}

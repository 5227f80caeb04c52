//! Filters that read the text of terms.
//!
//! Solutions come in the order of their index, and their texts are anywhere in the dictionary. So batches
//! are kept until there are many solutions. These are tested in the order of their ids, so that the
//! dictionary is read from front to back and each page once, and are returned in input order. The first
//! batch is tested alone, because a few solutions may be enough.

use std::collections::VecDeque;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::batch::Batch;
use super::context::QueryContext;
use super::filter::rows_where;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Working;
use crate::plan::expression::SlotExpression;
use crate::plan::slots::Slots;

/// The most solutions that are tested together.
const ROWS_MAX: usize = 1 << 18;
/// Factor by which the number of kept solutions grows each time.
const GROWTH: usize = 4;
/// Kept solutions may take one part in this many of the remaining memory.
const MEMORY_SHARE: usize = 8;

/// Keeps solutions for which an expression that reads texts is true.
pub(crate) struct TextFilter {
    input: Fed,
    expression: SlotExpression,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    /// Solutions to be tested, and their number.
    kept: Vec<Batch>,
    kept_rows: usize,
    /// Number of kept solutions that triggers a test.
    enough: usize,
    has_ended: bool,
    /// Tested solutions, and the rows for which the expression is true.
    tested: VecDeque<(Batch, Vec<u32>)>,
}

impl TextFilter {
    pub(crate) fn new(
        input: Fed,
        expression: SlotExpression,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            expression,
            live,
            context,
            kept: Vec::new(),
            kept_rows: 0,
            enough: 1,
            has_ended: false,
            tested: VecDeque::new(),
        }
    }

    /// Returns whether the kept solutions are to be tested now.
    fn is_enough(&self) -> bool {
        let has_rows = self.kept_rows > 0;
        let row_bytes = self.live.len().max(1) * size_of::<u64>();
        let room = self.context.governor().memory_left() / MEMORY_SHARE;
        has_rows && (self.has_ended || self.kept_rows >= self.enough.min(room / row_bytes))
    }

    /// Tests the kept solutions in the order of their ids.
    fn test(&mut self) -> Result<(), QueryError> {
        let batches = std::mem::take(&mut self.kept);
        let count = std::mem::take(&mut self.kept_rows);
        self.enough = (count * GROWTH).min(ROWS_MAX);
        let slots = &self.expression.slots;
        let width = batches.first().map_or(0, |batch| batch.columns.len());
        let mut working = Working::new(self.context.governor());
        working.set(count * (size_of::<(u64, u32, u32)>() + slots.len() * size_of::<u64>()))?;
        let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(count);
        for (number, batch) in batches.iter().enumerate() {
            let rows = 0..batch.rows;
            order.extend(rows.map(|row| (self.key(batch, row), number as u32, row as u32)));
        }
        order.sort_unstable();
        let zeros = vec![0; count];
        let mut columns: Vec<Vec<u64>> = vec![Vec::new(); width];
        for &slot in slots {
            let ids = order
                .iter()
                .map(|&(_, number, row)| batches[number as usize].value(slot, row as usize));
            columns[slot] = ids.collect();
        }
        let views: Vec<&[u64]> = columns
            .iter()
            .map(|column| {
                if column.is_empty() {
                    &zeros[..]
                } else {
                    &column[..]
                }
            })
            .collect();
        let evaluation = &self.context.evaluation;
        let found = self
            .expression
            .compiled()
            .filter(&views, count, evaluation)?;
        let mut keep: Vec<Vec<bool>> = batches.iter().map(|b| vec![false; b.rows]).collect();
        for ((_, number, row), found) in order.into_iter().zip(found) {
            keep[number as usize][row as usize] = found;
        }
        let rows = keep.iter().map(|keep| rows_where(keep));
        self.tested.extend(batches.into_iter().zip(rows));
        Ok(())
    }

    /// Returns a solution's sort key: the first of its terms that must be looked up.
    fn key(&self, batch: &Batch, row: usize) -> u64 {
        let slots = self.expression.slots.iter();
        let mut ids = slots.map(|&slot| TermId(batch.value(slot, row)));
        let found = ids.find(|id| id.is_bound() && id.kind().is_dictionary());
        found.map_or(0, |id| id.0)
    }
}

impl RowSource for TextFilter {
    fn begin(&mut self) {
        self.has_ended = false;
        self.enough = 1;
        self.kept.clear();
        self.kept_rows = 0;
        self.tested.clear();
    }

    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn end(&mut self) {
        self.has_ended = true;
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        if let Some(batch) = self.input.take() {
            self.kept_rows += batch.rows;
            self.kept.push(batch);
        }
        loop {
            self.context.check()?;
            while let Some((batch, rows)) = self.tested.pop_front() {
                if !rows.is_empty() {
                    return Ok(Some(batch.gather(&rows, &self.live)));
                }
            }
            if !self.is_enough() {
                return Ok(None);
            }
            self.test()?;
        }
    }
}

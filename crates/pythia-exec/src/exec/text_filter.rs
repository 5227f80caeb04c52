//! Filters that read the text of terms.
//!
//! Solutions come in the order of their index, and their texts are anywhere in the dictionary. So batches
//! are kept until there are many solutions. These are tested in the order of their ids, so that the
//! dictionary is read from front to back and each page once, and are returned in input order. The first
//! batch is tested alone, because a few solutions may be enough.

use std::collections::VecDeque;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_sparql::scope::draws;

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
        let width = batches.first().map_or(0, |batch| batch.columns.len());
        let slots = &self.expression.slots;
        let mut working = Working::new(self.context.governor());
        working.set(count * slots.len() * size_of::<u64>())?;
        let mut columns: Vec<Vec<u64>> = vec![Vec::new(); width];
        for &slot in slots {
            let ids = (batches.iter()).flat_map(|b| (0..b.rows).map(move |row| b.value(slot, row)));
            columns[slot] = ids.collect();
        }
        let columns: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
        let keep = true_in_order_of_terms(&self.expression, &columns, count, &self.context)?;
        let mut keep = &keep[..];
        for batch in batches {
            let (of_batch, others) = keep.split_at(batch.rows);
            keep = others;
            self.tested.push_back((batch, rows_where(of_batch)));
        }
        Ok(())
    }
}

/// Returns for which rows an expression is true. The rows are tested in the order of their terms, and equal ones once. A
/// column that the expression does not read may be empty.
pub(super) fn true_in_order_of_terms(
    expression: &SlotExpression,
    columns: &[&[u64]],
    rows: usize,
    context: &QueryContext,
) -> Result<Vec<bool>, QueryError> {
    let slots = &expression.slots;
    let mut working = Working::new(context.governor());
    working.set(
        rows * (size_of::<(u64, u32)>() + size_of::<u32>() + slots.len() * size_of::<u64>()),
    )?;
    // The key is the first term that must be looked up.
    let key = |row: usize| {
        let mut ids = slots.iter().map(|&slot| TermId(columns[slot][row]));
        let found = ids.find(|id| id.is_bound() && id.kind().is_dictionary());
        found.map_or(0, |id| id.0)
    };
    let mut order: Vec<(u64, u32)> = (0..rows).map(|row| (key(row), row as u32)).collect();
    order.sort_unstable();
    let draws_lots = draws(&expression.source.expression);
    let is_equal = |a: u32, b: u32| {
        let mut columns = slots.iter().map(|&slot| columns[slot]);
        !draws_lots && columns.all(|column| column[a as usize] == column[b as usize])
    };
    let mut different: Vec<u32> = Vec::new();
    let mut place: Vec<u32> = vec![0; rows];
    for &(_, row) in &order {
        if different.last().is_none_or(|last| !is_equal(*last, row)) {
            different.push(row);
        }
        place[row as usize] = different.len() as u32 - 1;
    }
    let mut tested: Vec<Vec<u64>> = vec![Vec::new(); columns.len()];
    for &slot in slots {
        tested[slot] = (different.iter())
            .map(|&row| columns[slot][row as usize])
            .collect();
    }
    let zeros = vec![0; different.len()];
    let views = tested.iter().map(|column| match column.is_empty() {
        true => &zeros[..],
        false => &column[..],
    });
    let views: Vec<&[u64]> = views.collect();
    let compiled = expression.compiled();
    let found = compiled.filter_sorted(&views, different.len(), &context.evaluation)?;
    Ok(place
        .into_iter()
        .map(|place| found[place as usize])
        .collect())
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
                    return Ok(Some(batch.pick(&rows, &self.live)));
                }
            }
            if !self.is_enough() {
                return Ok(None);
            }
            self.test()?;
        }
    }
}

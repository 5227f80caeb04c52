//! Filters and BIND inside a pipeline.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::plan::expression::SlotExpression;
use crate::plan::slots::Slots;

/// Keeps solutions for which an expression is true.
pub(crate) struct Filter {
    input: Fed,
    expression: SlotExpression,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    zeros: Vec<u64>,
}

impl Filter {
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
            zeros: Vec::new(),
        }
    }
}

impl RowSource for Filter {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            let columns = batch.full_columns(&mut self.zeros);
            let keep = self.expression.compiled().filter(
                &columns,
                batch.rows,
                &self.context.evaluation,
            )?;
            let rows = rows_where(&keep);
            if !rows.is_empty() {
                return Ok(Some(batch.pick(&rows, &self.live)));
            }
        }
        Ok(None)
    }
}

/// Keeps solutions in which two slots hold the same term.
pub(crate) struct Equal {
    input: Fed,
    a: usize,
    b: usize,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
}

impl Equal {
    pub(crate) fn new(
        input: Fed,
        a: usize,
        b: usize,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            a,
            b,
            live,
            context,
        }
    }
}

impl RowSource for Equal {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            let rows: Vec<u32> = (0..batch.rows)
                .filter(|&row| batch.value(self.a, row) == batch.value(self.b, row))
                .map(|row| row as u32)
                .collect();
            if !rows.is_empty() {
                return Ok(Some(batch.pick(&rows, &self.live)));
            }
        }
        Ok(None)
    }
}

/// Binds a slot to an expression's value; an error leaves it unbound.
pub(crate) struct Bind {
    input: Fed,
    slot: usize,
    expression: SlotExpression,
    context: Arc<QueryContext>,
    zeros: Vec<u64>,
}

impl Bind {
    pub(crate) fn new(
        input: Fed,
        slot: usize,
        expression: SlotExpression,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            slot,
            expression,
            context,
            zeros: Vec::new(),
        }
    }
}

impl RowSource for Bind {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        let Some(mut batch) = self.input.take() else {
            return Ok(None);
        };
        self.context.check()?;
        let columns = batch.full_columns(&mut self.zeros);
        let ids = self.expression.compiled().evaluate_ids(
            &columns,
            batch.rows,
            &self.context.evaluation,
        )?;
        batch.columns[self.slot] = ids;
        Ok(Some(batch))
    }
}

/// Returns the row numbers at which `keep` is true.
pub(crate) fn rows_where(keep: &[bool]) -> Vec<u32> {
    keep.iter()
        .enumerate()
        .filter(|(_, keep)| **keep)
        .map(|(row, _)| row as u32)
        .collect()
}

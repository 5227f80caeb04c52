//! ORDER BY, in memory: all solutions, or only as many as a LIMIT lets through.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;

use super::batch::{BATCH_ROWS, id_columns, record_batch};
use super::context::QueryContext;
use super::operator::{Operator, Solutions, pull, solutions};
use super::step::SlotExpression;
use crate::error::QueryError;
use crate::expression::order::{KeyScope, SortColumn, SortKeys};

/// With a LIMIT, the rows held are cut back to the best once there are this many times as many.
const SLACK: usize = 4;

/// Sorts solutions; equal ones stay in the order they came in.
#[derive(Debug, Clone)]
pub(crate) struct Sort {
    /// What to order by, the most significant first.
    pub(crate) keys: Vec<SortBy>,
    /// How many of the first solutions are wanted.
    pub(crate) limit: Option<usize>,
}

/// One thing to order by.
#[derive(Debug, Clone)]
pub(crate) struct SortBy {
    pub(crate) expression: SlotExpression,
    pub(crate) descending: bool,
}

impl Operator for Sort {
    fn name(&self) -> &'static str {
        "Sort"
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for key in &self.keys {
            let order = if key.descending { "desc" } else { "asc" };
            write!(f, "{order}({:?}) ", key.expression)?;
        }
        match self.limit {
            Some(limit) => write!(f, "first {limit}"),
            None => Ok(()),
        }
    }

    fn passes_solutions(&self) -> bool {
        self.limit.is_none()
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let sorter = Sorter {
            sort: self.clone(),
            held: vec![Vec::new(); schema.fields().len()],
            rows: 0,
            order: None,
            schema: Arc::clone(&schema),
            context,
        };
        let state = (inputs.remove(0), sorter);
        solutions(
            schema,
            stream::try_unfold(state, |(mut input, mut sorter)| async move {
                if sorter.order.is_none() {
                    while let Some(batch) = pull(&mut input).await? {
                        sorter.add(&batch)?;
                    }
                    let order = sorter.sorted()?;
                    sorter.order = Some((order, 0));
                }
                Ok(sorter.next()?.map(|batch| (batch, (input, sorter))))
            }),
        )
    }
}

struct Sorter {
    sort: Sort,
    held: Vec<Vec<u64>>,
    rows: usize,
    /// The held rows in order, and how many were given.
    order: Option<(Vec<u32>, usize)>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Sorter {
    fn add(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        self.context.check()?;
        let rows = batch.num_rows();
        if self.sort.limit.is_none() {
            self.context.reserve(rows * (self.held.len() * 8 + 32))?;
        }
        for (held, column) in self.held.iter_mut().zip(id_columns(batch)) {
            held.extend_from_slice(column);
        }
        self.rows += rows;
        if let Some(limit) = self.sort.limit
            && self.rows >= limit.saturating_mul(SLACK).max(BATCH_ROWS * SLACK)
        {
            let best = self.sorted()?;
            for held in &mut self.held {
                *held = best.iter().map(|&row| held[row as usize]).collect();
            }
            self.rows = best.len();
        }
        Ok(())
    }

    /// The held rows in order, no more than the limit.
    fn sorted(&self) -> Result<Vec<u32>, QueryError> {
        let columns: Vec<&[u64]> = self.held.iter().map(Vec::as_slice).collect();
        let keys = self
            .sort
            .keys
            .iter()
            .map(|key| {
                key.expression
                    .compiled
                    .evaluate_ids(&columns, self.rows, &self.context.evaluation)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let columns: Vec<SortColumn<'_>> = keys
            .iter()
            .zip(&self.sort.keys)
            .map(|(ids, key)| SortColumn {
                ids,
                descending: key.descending,
            })
            .collect();
        let keys = SortKeys::build(
            &columns,
            self.rows,
            KeyScope::ThisCall,
            &self.context.evaluation,
        )?;
        let mut order = keys.order();
        order.truncate(self.sort.limit.unwrap_or(usize::MAX));
        Ok(order)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let (order, given) = self.order.as_mut().expect("set before rows are given");
        let rows = &order[*given..(*given + BATCH_ROWS).min(order.len())];
        if rows.is_empty() {
            return Ok(None);
        }
        let columns = self
            .held
            .iter()
            .map(|held| rows.iter().map(|&row| held[row as usize]).collect())
            .collect();
        *given += rows.len();
        Ok(Some(record_batch(&self.schema, columns, rows.len())?))
    }
}

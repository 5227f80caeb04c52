//! Joins of independently evaluated inputs: inner join, left join and MINUS. They hash the variables bound
//! on both sides and check SPARQL compatibility on the others ([`matching`]).
//!
//! The right input is held in memory, and several threads match the left one with it ([`in_memory`]). If it does not
//! fit, both inputs are partitioned by their keys and joined one partition at a time ([`spilled`]). Left solutions of an inner join
//! that a filter shows to have no match are dropped before that ([`key_filter`]).

mod in_memory;
mod key_filter;
mod matching;
mod spilled;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use self::in_memory::{InMemory, joined};
use self::key_filter::{KeyFilter, OpenKeyFilter};
use self::matching::{Matching, Side, Table};
use self::spilled::{Partitioned, Spilled};
use super::batch::{BATCH_ROWS, id_columns};
use super::context::QueryContext;
use super::pieces::{FedPieces, Input};
use super::solutions::{Execute, NextBatch, Solutions, pull, solutions_of};
use crate::error::QueryError;
use crate::limits::governor::Share;
use crate::limits::spill::rows::RowRun;
use crate::plan::operators::HashJoin;

impl Execute for HashJoin {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let right = inputs.pop().expect("a join has two inputs");
        let left = inputs.pop().expect("a join has two inputs");
        let joiner = Joiner {
            right_width: right.schema().fields().len(),
            left_width: left.schema().fields().len(),
            phase: Phase::Start(left, right),
            share: Share::new(context.governor()),
            matching: Arc::new(Matching::new(
                self.clone(),
                Arc::clone(&schema),
                Arc::clone(&context),
            )),
            context,
        };
        solutions_of(schema, joiner)
    }
}

struct Joiner {
    /// Dropped before the memory that it uses is given back.
    phase: Phase,
    share: Share,
    matching: Arc<Matching>,
    left_width: usize,
    right_width: usize,
    context: Arc<QueryContext>,
}

enum Phase {
    /// Neither input was read.
    Start(Solutions, Solutions),
    /// The right input is in memory, and left solutions are matched as they come.
    Memory(Box<FedPieces<InMemory>>),
    /// Both inputs are in files.
    Files(Box<Spilled>),
    Done,
}

impl NextBatch for Joiner {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if let Phase::Start(..) = self.phase {
            let Phase::Start(left, right) = std::mem::replace(&mut self.phase, Phase::Done) else {
                unreachable!("matched above");
            };
            self.phase = self.start(left, right).await?;
        }
        match &mut self.phase {
            Phase::Memory(joined) => joined.next().await,
            Phase::Files(spilled) => spilled.next(&self.matching, &mut self.share),
            Phase::Start(..) | Phase::Done => Ok(None),
        }
    }
}

impl Joiner {
    /// Reads the right input, unless it is not needed because there are no left solutions: then its errors are not seen either. The
    /// first left solutions, and what is held to compute them, wait meanwhile. If the right input does not fit into memory, also
    /// partitions the left one.
    async fn start(&mut self, left: Solutions, right: Solutions) -> Result<Phase, QueryError> {
        let left = match self.matching.wants_matches() {
            true => left,
            false => match begun(left).await? {
                Some(left) => left,
                None => return Ok(Phase::Done),
            },
        };
        let mut table = Table::new(self.right_width, 0);
        let mut partitioned: Option<(Partitioned, OpenKeyFilter)> = None;
        let mut right = right;
        while let Some(batch) = pull(&mut right).await? {
            let columns = id_columns(&batch);
            for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                self.context.check()?;
                let rows = start..(start + BATCH_ROWS).min(batch.num_rows());
                if partitioned.is_none() && !self.share.fits(table.bytes_with(rows.len())) {
                    partitioned = Some(self.partition_table(&mut table)?);
                }
                let Some((partitioned, filter)) = &mut partitioned else {
                    table.push(&columns, rows);
                    continue;
                };
                partitioned.push(&self.matching, &columns, rows, |hash| {
                    filter.add(hash);
                    true
                })?;
            }
        }
        drop(right);
        let Some((right, filter)) = partitioned else {
            if table.len() == 0 && self.matching.wants_matches() {
                return Ok(Phase::Done);
            }
            table.index(&self.matching);
            let left = Input {
                solutions: left,
                slots: (0..self.left_width).collect(),
                width: self.left_width,
            };
            let joined = joined(left, table, &self.matching, &self.context);
            return Ok(Phase::Memory(Box::new(joined)));
        };
        drop(table);
        let right = right.finish()?;
        let left = self.partition_left(left, filter.finish()).await?;
        self.share.require(0)?;
        Ok(Phase::Files(Box::new(Spilled::new(
            left,
            right,
            (self.left_width, self.right_width),
            &self.matching,
        ))))
    }

    /// Moves the right solutions read so far into partitions, and begins a filter of all.
    fn partition_table(
        &mut self,
        table: &mut Table,
    ) -> Result<(Partitioned, OpenKeyFilter), QueryError> {
        let full = std::mem::replace(table, Table::new(self.right_width, 0));
        // The table's index is charged and was not made.
        let mut filter = OpenKeyFilter::new(&self.matching, &self.share, full.index_bytes());
        let mut partitioned = Partitioned::new(&mut self.share, self.right_width, Side::Right, 0)?;
        for row in 0..full.len() {
            if row.is_multiple_of(BATCH_ROWS) {
                self.context.check()?;
            }
            filter.add(partitioned.push_row(&self.matching, full.row(row))?);
        }
        drop(full);
        partitioned.settle(&mut self.share)?;
        filter.charge();
        Ok((partitioned, filter))
    }

    /// Partitions the left solutions that may have a match.
    async fn partition_left(
        &mut self,
        mut left: Solutions,
        mut filter: KeyFilter,
    ) -> Result<Vec<RowRun>, QueryError> {
        let mut partitioned = Partitioned::new(&mut self.share, self.left_width, Side::Left, 0)?;
        while let Some(batch) = pull(&mut left).await? {
            let columns = id_columns(&batch);
            for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                self.context.check()?;
                let rows = start..(start + BATCH_ROWS).min(batch.num_rows());
                partitioned.push(&self.matching, &columns, rows, |hash| {
                    filter.may_match(hash)
                })?;
            }
        }
        partitioned.finish()
    }
}

/// Returns solutions whose first are computed, or `None` if there are none.
async fn begun(mut solutions: Solutions) -> Result<Option<Solutions>, QueryError> {
    let schema = solutions.schema();
    while let Some(batch) = pull(&mut solutions).await? {
        if batch.num_rows() > 0 {
            let all = stream::iter([Ok(batch)]).chain(solutions);
            return Ok(Some(Box::pin(RecordBatchStreamAdapter::new(schema, all))));
        }
    }
    Ok(None)
}

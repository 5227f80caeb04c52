//! GROUP BY and aggregates.
//!
//! Groups are held in memory until their share is used up. From then on, solutions of known groups are
//! still added to them; all others are deferred to partitions of a file by their key. Each partition is
//! then grouped in the same way.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;

use super::batch::{BATCH_ROWS, id_columns, record_batch};
use super::context::QueryContext;
use super::solutions::{Execute, Solutions, pull, solutions};
use crate::error::QueryError;
use crate::expression::aggregate::{Accumulator, CompiledAggregate};
use crate::limits::governor::Share;
use crate::limits::spill::partition::Partitions;
use crate::limits::spill::rows::RowRun;
use crate::limits::spill::table::RowSet;
use crate::plan::operators::Aggregation;

impl Execute for Aggregation {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let input = inputs.remove(0);
        let grouping = Grouping {
            width: input.schema().fields().len(),
            share: Share::new(context.governor()),
            aggregation: self.clone(),
            put_off: Vec::new(),
            done: None,
            schema: Arc::clone(&schema),
            context,
        };
        solutions(
            schema,
            stream::try_unfold((Some(input), grouping), |(mut input, mut grouping)| async {
                if let Some(input) = input.take() {
                    grouping.fold_input(input).await?;
                }
                Ok(grouping.next()?.map(|batch| (batch, (input, grouping))))
            }),
        )
    }
}

struct Grouping {
    aggregation: Aggregation,
    /// Columns of the input.
    width: usize,
    share: Share,
    /// Partitions to be grouped, and how often their rows were deferred.
    put_off: Vec<(u32, RowRun)>,
    /// A finished pass, and the number of its groups that were returned.
    done: Option<(Pass, usize)>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Grouping {
    async fn fold_input(&mut self, mut input: Solutions) -> Result<(), QueryError> {
        let mut pass = Pass::new(&self.aggregation, self.width, 0);
        while let Some(batch) = pull(&mut input).await? {
            pass.add(&id_columns(&batch), batch.num_rows(), self)?;
        }
        self.finish(pass)
    }

    /// Returns the next groups.
    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some((pass, given)) = &mut self.done {
                let width = self.schema.fields().len();
                let most = self.context.governor().batch_rows(width);
                // Few groups may be enough. Several threads make the results of many.
                let next = BATCH_ROWS.max(4 * *given).min(most);
                let groups = *given..(*given + next).min(pass.groups.len());
                if !groups.is_empty() {
                    *given = groups.end;
                    return Ok(Some(pass.outcomes(groups, &self.schema, &self.context)?));
                }
                self.done = None;
                self.share.require(0)?;
            }
            let Some((level, run)) = self.put_off.pop() else {
                return Ok(None);
            };
            self.fold_run(level, &run)?;
        }
    }

    fn fold_run(&mut self, level: u32, run: &RowRun) -> Result<(), QueryError> {
        let mut pass = Pass::new(&self.aggregation, self.width, level);
        let (mut reader, mut rows) = (run.reader(), Vec::new());
        loop {
            let count = reader.next_rows(&mut rows)?;
            if count == 0 {
                return self.finish(pass);
            }
            let cells = |column| rows.iter().skip(column).step_by(self.width).copied();
            let columns: Vec<Vec<u64>> = (0..self.width).map(|c| cells(c).collect()).collect();
            let columns: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
            pass.add(&columns, count, self)?;
        }
    }

    /// Ends a pass: makes its groups available and queues its deferred partitions.
    fn finish(&mut self, mut pass: Pass) -> Result<(), QueryError> {
        if let Some(partitions) = pass.partitions.take() {
            let runs = partitions.finish()?.into_iter().filter(|r| r.rows() > 0);
            let next = pass.level + 1;
            self.put_off.extend(runs.map(|run| (next, run)));
        }
        let count = pass.groups.len();
        for accumulator in &mut pass.accumulators {
            accumulator.finish(count, &self.context.evaluation)?;
        }
        self.done = Some((pass, 0));
        Ok(())
    }
}

/// One pass over solutions: the groups that fit into memory.
struct Pass {
    keys: Vec<Option<usize>>,
    width: usize,
    level: u32,
    /// The groups' keys, ordered by group number.
    groups: RowSet,
    accumulators: Vec<Accumulator>,
    partitions: Option<Partitions>,
}

impl Pass {
    fn new(aggregation: &Aggregation, width: usize, level: u32) -> Self {
        let mut groups = RowSet::new(aggregation.keys.len(), level);
        if aggregation.keys.is_empty() {
            groups.insert(groups.hash(&[]), &[]);
        }
        Self {
            keys: aggregation.keys.clone(),
            width,
            level,
            groups,
            accumulators: CompiledAggregate::accumulators(aggregation.aggregates.compiled()),
            partitions: None,
        }
    }

    fn outcomes(
        &mut self,
        groups: Range<usize>,
        schema: &SchemaRef,
        context: &QueryContext,
    ) -> Result<RecordBatch, QueryError> {
        let mut columns = self.groups.rows().columns(groups.clone());
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.outcomes(groups.clone(), &context.evaluation)?);
        }
        Ok(record_batch(schema, columns, groups.len())?)
    }

    /// Adds solutions in parts of [`BATCH_ROWS`].
    fn add(
        &mut self,
        columns: &[&[u64]],
        rows: usize,
        grouping: &mut Grouping,
    ) -> Result<(), QueryError> {
        for start in (0..rows).step_by(BATCH_ROWS) {
            grouping.context.check()?;
            let end = (start + BATCH_ROWS).min(rows);
            let part: Vec<&[u64]> = columns.iter().map(|column| &column[start..end]).collect();
            self.add_part(&part, end - start, grouping)?;
        }
        Ok(())
    }

    fn add_part(
        &mut self,
        columns: &[&[u64]],
        rows: usize,
        grouping: &mut Grouping,
    ) -> Result<(), QueryError> {
        let (taken, numbers) = self.number(columns, rows, grouping)?;
        let context = &grouping.context.evaluation;
        let mut picked: Vec<Vec<u64>> = Vec::new();
        let mut views = columns.to_vec();
        if taken.len() < rows {
            let pick = |column: &&[u64]| taken.iter().map(|&row| column[row as usize]).collect();
            picked.extend(columns.iter().map(pick));
            views = picked.iter().map(Vec::as_slice).collect();
        }
        for accumulator in &mut self.accumulators {
            accumulator.update(&numbers, self.groups.len(), &views, context)?;
        }
        Ok(())
    }

    /// Returns the rows whose groups are in memory, and the numbers of these groups. Defers the others.
    fn number(
        &mut self,
        columns: &[&[u64]],
        rows: usize,
        grouping: &mut Grouping,
    ) -> Result<(Vec<u32>, Vec<u32>), QueryError> {
        let mut taken = Vec::with_capacity(rows);
        let mut numbers: Vec<u32> = Vec::with_capacity(rows);
        let mut key = vec![0; self.keys.len()];
        let mut row_ids = vec![0; self.width];
        let mut room = 0;
        let keys = self.keys.iter().flatten();
        let keys: Vec<&[u64]> = keys.map(|&column| columns[column]).collect();
        let mut run = 0..0;
        while run.end < rows {
            // Solutions often come in runs of one key.
            run = run_of(&keys, run.end, rows);
            for (value, column) in key.iter_mut().zip(&self.keys) {
                *value = column.map_or(0, |column| columns[column][run.start]);
            }
            let hash = self.groups.hash(&key);
            let number = match self.groups.find(hash, &key) {
                Some(number) => Some(number),
                None if self.has_room(&mut room, grouping)? => {
                    room -= 1;
                    Some(self.groups.insert_new(hash, &key))
                }
                None => None,
            };
            if let Some(number) = number {
                numbers.extend(std::iter::repeat_n(number, run.len()));
                taken.extend(run.start as u32..run.end as u32);
            } else if let Some(partitions) = &mut self.partitions {
                for row in run.clone() {
                    for (id, column) in row_ids.iter_mut().zip(columns) {
                        *id = column[row];
                    }
                    partitions.push(hash, &row_ids)?;
                }
            }
        }
        Ok((taken, numbers))
    }

    /// Returns whether a group can be added. If not, there are partitions from now on.
    fn has_room(&mut self, room: &mut usize, grouping: &mut Grouping) -> Result<bool, QueryError> {
        /// Number of groups for which memory is reserved at a time.
        const ROOM: usize = 64;
        if self.partitions.is_some() || *room > 0 {
            return Ok(*room > 0);
        }
        let bytes = self.memory_bytes(ROOM);
        if grouping.share.fits(bytes) {
            *room = ROOM;
            return Ok(true);
        }
        if self.groups.len() == 0 {
            // Without a group in memory, every row would be deferred forever.
            grouping.share.require(bytes)?;
            *room = ROOM;
            return Ok(true);
        }
        let bytes = self.memory_bytes(0) + grouping.share.buffer_bytes();
        grouping.share.require(bytes)?;
        self.partitions = Some(Partitions::create(&grouping.share, self.width)?);
        Ok(false)
    }

    /// Returns the bytes of the groups after adding `more`.
    fn memory_bytes(&self, more: usize) -> usize {
        let count = self.groups.len() + more;
        let accumulators = self.accumulators.iter().map(|a| a.memory_bytes(count));
        self.groups.bytes_with(more) + accumulators.sum::<usize>()
    }
}

/// Returns the rows, from `start` on, that have the key of the first.
fn run_of(keys: &[&[u64]], start: usize, rows: usize) -> Range<usize> {
    let is_same = |row: &usize| keys.iter().all(|column| column[*row] == column[start]);
    start..start + 1 + (start + 1..rows).take_while(is_same).count()
}

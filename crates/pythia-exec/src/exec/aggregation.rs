//! GROUP BY and aggregates.
//!
//! ```text
//! solutions → parts by the hash of the key → groups of each part, on any thread → groups in the order of their first solutions
//! ```
//!
//! All solutions of a group are in one part, in their order: results do not depend on the number of threads, not even sums of
//! floats. Few solutions and those of few groups are one part. So are solutions that come sorted by the key, unless an aggregate
//! has DISTINCT, whose set takes most of the time.
//!
//! Groups are held in memory until their share is used up. From then on, solutions of known groups are
//! still added to them; all others are deferred to partitions of a file by their key. Each partition is
//! then grouped in the same way.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;
use parking_lot::Mutex;

use super::batch::{BATCH_ROWS, gather, id_columns, record_batch};
use super::context::QueryContext;
use super::groups::{GroupMemory, Groups, Numbered};
use super::solutions::{Execute, Solutions, pull, solutions};
use crate::error::QueryError;
use crate::expression::aggregate::CompiledAggregate;
use crate::limits::exchange::{PARTS, Parted, ROWS_MIN};
use crate::limits::fork::fork;
use crate::limits::governor::Working;
use crate::limits::spill::partition::Partitions;
use crate::limits::spill::rows::RowRun;
use crate::limits::spill::table::hash_ids;
use crate::plan::operators::Aggregation;

/// Maximum number of solutions that are added together.
const TOGETHER_ROWS: usize = 1 << 16;
/// Largest share of the first solutions that one part may have, as one in this many: with more, groups are too few to be divided
/// evenly. Adding to few groups takes little time, and all cores evaluate arguments.
const PART_MAX: usize = 5;

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
            memory: GroupMemory::new(context.governor()),
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
    memory: GroupMemory,
    /// Partitions to be grouped, and how often their rows were deferred.
    put_off: Vec<(u32, RowRun)>,
    done: Option<Done>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Grouping {
    async fn fold_input(&mut self, mut input: Solutions) -> Result<(), QueryError> {
        let mut next = pull(&mut input).await?;
        self.memory.open_sets(&self.aggregation);
        let together = self.rows_together();
        let mut pass = Pass::new(0, self.width, together);
        let mut waiting = Waiting::new(&self.context);
        while let Some(batch) = next {
            waiting.push(batch)?;
            if waiting.rows >= together {
                waiting.add_to(&mut pass, self)?;
            }
            next = pull(&mut input).await?;
        }
        waiting.add_to(&mut pass, self)?;
        self.finish(pass)
    }

    /// Returns the number of solutions that several threads work on together; 1 if only one thread may.
    fn rows_together(&self) -> usize {
        let aggregates = self.aggregation.aggregates.compiled();
        let rows = self.context.governor().batch_rows(self.width);
        let rows = rows.min(TOGETHER_ROWS);
        let is_divisible = !self.aggregation.keys.is_empty()
            && !aggregates.iter().any(CompiledAggregate::draws)
            && self.memory.is_divisible()
            && rows >= ROWS_MIN;
        if is_divisible { rows } else { 1 }
    }

    /// Returns whether rows come sorted by their keys, and take less time to add than to divide: a group is the last one or new.
    fn are_sorted(&self, batches: &[Rows<'_>]) -> bool {
        let mut aggregates = self.aggregation.aggregates.compiled().iter();
        if aggregates.any(CompiledAggregate::is_distinct) {
            return false;
        }
        let keys: Vec<usize> = self.aggregation.keys.iter().flatten().copied().collect();
        let keys = keys.as_slice();
        let rows = batches.iter().flat_map(|batch| {
            let cells =
                move |row: usize| keys.iter().map(move |&column| batch.columns[column][row]);
            (0..batch.count).map(cells)
        });
        rows.is_sorted_by(|before, after| before.clone().le(after.clone()))
    }

    /// Returns the next groups.
    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(done) = &mut self.done {
                if let Some(batch) = done.next(&self.schema, &self.context)? {
                    return Ok(Some(batch));
                }
                self.done = None;
            }
            let Some((level, run)) = self.put_off.pop() else {
                return Ok(None);
            };
            self.fold_run(level, &run)?;
        }
    }

    fn fold_run(&mut self, level: u32, run: &RowRun) -> Result<(), QueryError> {
        let mut pass = Pass::new(level, self.width, 1);
        let (mut reader, mut rows) = (run.reader(), Vec::new());
        loop {
            let count = reader.next_rows(&mut rows)?;
            if count == 0 {
                return self.finish(pass);
            }
            let cells = |column| rows.iter().skip(column).step_by(self.width).copied();
            let columns: Vec<Vec<u64>> = (0..self.width).map(|c| cells(c).collect()).collect();
            pass.add(&[Rows::new(&columns, count)], self)?;
        }
    }

    /// Ends a pass: makes its groups available and queues its deferred partitions.
    fn finish(&mut self, mut pass: Pass) -> Result<(), QueryError> {
        if let Some(partitions) = pass.partitions.take() {
            let runs = partitions.finish()?.into_iter().filter(|r| r.rows() > 0);
            let next = pass.level + 1;
            self.put_off.extend(runs.map(|run| (next, run)));
            self.memory.share().require(0)?;
        }
        // There is a group without solutions if there are no keys.
        pass.start(&[], self);
        let parts = &pass.parts;
        fork(self.context.cores(), parts.len(), |part| {
            parts[part].lock().finish(&self.context)
        })?;
        if self.put_off.is_empty() {
            self.memory.close_sets();
        }
        self.done = Some(Done::new(pass.parts));
        Ok(())
    }
}

/// Solutions that are added together.
struct Waiting {
    batches: Vec<RecordBatch>,
    rows: usize,
    memory: Working,
}

impl Waiting {
    fn new(context: &QueryContext) -> Self {
        Self {
            batches: Vec::new(),
            rows: 0,
            memory: Working::new(context.governor()),
        }
    }

    fn push(&mut self, batch: RecordBatch) -> Result<(), QueryError> {
        self.rows += batch.num_rows();
        self.memory
            .set(self.rows * batch.num_columns() * size_of::<u64>())?;
        self.batches.push(batch);
        Ok(())
    }

    fn add_to(&mut self, pass: &mut Pass, grouping: &mut Grouping) -> Result<(), QueryError> {
        let batches = self.batches.iter();
        let rows: Vec<Rows<'_>> = batches
            .map(|batch| Rows {
                columns: id_columns(batch),
                count: batch.num_rows(),
            })
            .collect();
        pass.add(&rows, grouping)?;
        self.batches.clear();
        self.rows = 0;
        self.memory.clear();
        Ok(())
    }
}

/// Rows by column.
struct Rows<'c> {
    columns: Vec<&'c [u64]>,
    count: usize,
}

impl<'c> Rows<'c> {
    fn new(columns: &'c [Vec<u64>], count: usize) -> Self {
        Self {
            columns: columns.iter().map(Vec::as_slice).collect(),
            count,
        }
    }

    /// Divides the rows by their keys.
    fn parted(&self, aggregation: &Aggregation) -> Parted {
        let keys = aggregation.keys.iter().flatten();
        let keys: Vec<&[u64]> = keys.map(|&column| self.columns[column]).collect();
        Parted::of(&keys, self.count)
    }

    /// Returns some rows, by column.
    fn gather(&self, rows: &[u32]) -> Vec<Vec<u64>> {
        let columns = self.columns.iter();
        columns.map(|column| gather(column, rows)).collect()
    }
}

/// One pass over solutions: the groups that fit into memory.
struct Pass {
    level: u32,
    width: usize,
    /// The groups, divided by their key if there are many solutions. None before the first solutions.
    parts: Vec<Mutex<Groups>>,
    partitions: Option<Partitions>,
    /// Number of solutions up to now.
    rows: u64,
    /// Number of first solutions that are worth dividing; 1 if they must not be.
    together: usize,
}

impl Pass {
    fn new(level: u32, width: usize, together: usize) -> Self {
        Self {
            level,
            width,
            together,
            parts: Vec::new(),
            partitions: None,
            rows: 0,
        }
    }

    /// Makes the parts, if these are the first solutions.
    fn start(&mut self, batches: &[Rows<'_>], grouping: &Grouping) {
        if !self.parts.is_empty() {
            return;
        }
        let rows: usize = batches.iter().map(|batch| batch.count).sum();
        let is_alone = self.together == 1
            || rows < self.together
            || grouping.are_sorted(batches)
            || largest_part(batches, &grouping.aggregation) > rows / PART_MAX;
        let count = if is_alone { 1 } else { PARTS };
        let groups = |_| {
            Mutex::new(Groups::new(
                &grouping.aggregation,
                self.width,
                self.level,
                &grouping.memory,
                count,
            ))
        };
        self.parts = (0..count).map(groups).collect();
    }

    /// Adds solutions.
    fn add(&mut self, batches: &[Rows<'_>], grouping: &mut Grouping) -> Result<(), QueryError> {
        self.start(batches, grouping);
        let deferred = match self.parts.as_mut_slice() {
            [groups] => add_all(groups.get_mut(), batches, self.rows, &grouping.context)?,
            parts => add_parted(parts, batches, self.rows, grouping)?,
        };
        for (batch, deferred) in batches.iter().zip(deferred) {
            self.defer(batch, deferred, grouping)?;
        }
        self.rows += batches.iter().map(|batch| batch.count as u64).sum::<u64>();
        Ok(())
    }

    /// Puts rows off until the groups in memory are finished.
    fn defer(
        &mut self,
        batch: &Rows<'_>,
        mut rows: Vec<u32>,
        grouping: &mut Grouping,
    ) -> Result<(), QueryError> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.partitions.is_none() {
            let share = grouping.memory.share();
            share.require(share.buffer_bytes())?;
            self.partitions = Some(Partitions::create(share, self.width)?);
        }
        let partitions = self.partitions.as_mut().expect("made before");
        rows.sort_unstable();
        let keys = &grouping.aggregation.keys;
        let mut ids = vec![0; self.width];
        for row in rows {
            for (id, column) in ids.iter_mut().zip(&batch.columns) {
                *id = column[row as usize];
            }
            let key = keys
                .iter()
                .map(|column| column.map_or(0, |column| ids[column]));
            partitions.push(hash_ids(key, self.level), &ids)?;
        }
        Ok(())
    }
}

/// Returns the number of rows of the part that has most of them.
fn largest_part(batches: &[Rows<'_>], aggregation: &Aggregation) -> usize {
    let mut rows = [0; PARTS];
    for batch in batches {
        let parted = batch.parted(aggregation);
        for (part, rows) in rows.iter_mut().enumerate() {
            *rows += parted.rows(part).len();
        }
    }
    rows.into_iter().max().unwrap_or(0)
}

/// Adds solutions to the groups of all keys, and returns the deferred rows of each batch.
fn add_all(
    groups: &mut Groups,
    batches: &[Rows<'_>],
    mut start: u64,
    context: &QueryContext,
) -> Result<Vec<Vec<u32>>, QueryError> {
    let mut deferred = Vec::with_capacity(batches.len());
    for batch in batches {
        let numbers: Vec<u32> = (0..batch.count as u32).collect();
        let solutions = Numbered {
            columns: batch.columns.clone(),
            start,
            numbers: &numbers,
        };
        deferred.push(groups.add(&solutions, context)?);
        start += batch.count as u64;
    }
    Ok(deferred)
}

/// Adds solutions to the groups of their keys on all free cores, and returns the deferred rows of each batch.
fn add_parted(
    parts: &[Mutex<Groups>],
    batches: &[Rows<'_>],
    start: u64,
    grouping: &Grouping,
) -> Result<Vec<Vec<u32>>, QueryError> {
    let (context, cores) = (&*grouping.context, grouping.context.cores());
    let parted = fork(cores, batches.len(), |batch| {
        Ok(batches[batch].parted(&grouping.aggregation))
    })?;
    let of_parts = fork(cores, parts.len(), |part| {
        let mut groups = parts[part].lock();
        let mut start = start;
        let mut deferred = Vec::with_capacity(batches.len());
        for (batch, parted) in batches.iter().zip(&parted) {
            let numbers = parted.rows(part);
            let columns = batch.gather(numbers);
            let solutions = Numbered {
                columns: columns.iter().map(Vec::as_slice).collect(),
                start,
                numbers,
            };
            deferred.push(groups.add(&solutions, context)?);
            start += batch.count as u64;
        }
        Ok(deferred)
    })?;
    let mut deferred = vec![Vec::new(); batches.len()];
    for of_part in of_parts {
        for (all, more) in deferred.iter_mut().zip(of_part) {
            all.extend(more);
        }
    }
    Ok(deferred)
}

/// The groups of a finished pass.
struct Done {
    parts: Vec<Mutex<Groups>>,
    /// Number of groups of each part that were returned.
    given: Vec<usize>,
}

impl Done {
    fn new(parts: Vec<Mutex<Groups>>) -> Self {
        let given = vec![0; parts.len()];
        Self { parts, given }
    }

    /// Returns the next groups, in the order of their first solutions.
    fn next(
        &mut self,
        schema: &SchemaRef,
        context: &QueryContext,
    ) -> Result<Option<RecordBatch>, QueryError> {
        let most = context.governor().batch_rows(schema.fields().len());
        let given: usize = self.given.iter().sum();
        // Few groups may be enough. Several threads make the results of many.
        let order = self.take(BATCH_ROWS.max(4 * given).min(most));
        if order.is_empty() {
            return Ok(None);
        }
        let (parts, given) = (&self.parts, &self.given);
        let outcomes = fork(context.cores(), parts.len(), |part| {
            let count = order.iter().filter(|of| usize::from(**of) == part).count();
            let groups = given[part] - count..given[part];
            parts[part].lock().outcomes(groups, context)
        })?;
        let columns = match outcomes.len() {
            1 => outcomes.into_iter().flatten().collect(),
            _ => merged(&outcomes, &order, schema.fields().len()),
        };
        Ok(Some(record_batch(schema, columns, order.len())?))
    }

    /// Takes up to `most` groups, and returns their parts in the order of their first solutions.
    fn take(&mut self, most: usize) -> Vec<u8> {
        let mut order = Vec::new();
        if let [groups] = self.parts.as_mut_slice() {
            let count = (groups.get_mut().len() - self.given[0]).min(most);
            self.given[0] += count;
            return vec![0; count];
        }
        let groups: Vec<_> = self.parts.iter_mut().map(Mutex::get_mut).collect();
        let first = |part: usize, group: usize| groups[part].first(group).unwrap_or(u64::MAX);
        let mut firsts: Vec<u64> = (0..groups.len())
            .map(|part| first(part, self.given[part]))
            .collect();
        while order.len() < most {
            let parts = firsts.iter().enumerate();
            let (part, &least) = parts.min_by_key(|(_, first)| **first).expect("parts");
            if least == u64::MAX {
                break;
            }
            order.push(part as u8);
            self.given[part] += 1;
            firsts[part] = first(part, self.given[part]);
        }
        order
    }
}

/// Merges the rows of parts in an order of parts.
fn merged(parts: &[Vec<Vec<u64>>], order: &[u8], width: usize) -> Vec<Vec<u64>> {
    let column = |column: usize| {
        let mut cells: Vec<_> = parts.iter().map(|part| part[column].iter()).collect();
        let cells = order
            .iter()
            .filter_map(|&part| cells[usize::from(part)].next());
        cells.copied().collect()
    };
    (0..width).map(column).collect()
}

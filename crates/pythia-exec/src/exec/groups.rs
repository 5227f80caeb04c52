//! Groups of solutions in memory, with the state of their aggregates.

use std::ops::Range;
use std::sync::Arc;

use super::batch::{BATCH_ROWS, gather};
use super::context::QueryContext;
use crate::error::QueryError;
use crate::expression::aggregate::{Accumulator, CompiledAggregate};
use crate::limits::exchange::PARTS_BYTES_MIN;
use crate::limits::governor::{Governor, Share};
use crate::limits::spill::table::RowSet;
use crate::plan::operators::Aggregation;

/// Number of groups for which memory is reserved at a time.
const ROOM: usize = 64;

/// Some solutions of an input, by column, with their numbers in the input.
pub(super) struct Numbered<'c> {
    pub(super) columns: Vec<&'c [u64]>,
    /// The number of the first of the solutions that the numbers below count from.
    pub(super) start: u64,
    /// The number of each solution, from the start on.
    pub(super) numbers: &'c [u32],
}

impl<'c> Numbered<'c> {
    fn slice(&self, rows: Range<usize>) -> Self {
        let columns = self.columns.iter();
        Self {
            columns: columns.map(|column| &column[rows.clone()]).collect(),
            start: self.start,
            numbers: &self.numbers[rows],
        }
    }
}

/// The memory of groups, which all parts of an aggregation have in common.
pub(super) struct GroupMemory {
    /// The share of keys and of aggregates without their sets.
    groups: Share,
    /// The share of each aggregate's set, if it has DISTINCT. None before the first solutions and after the last ones, so that
    /// the operators below and above have larger shares.
    sets: Vec<Option<Share>>,
}

impl GroupMemory {
    pub(super) fn new(governor: &Arc<Governor>) -> Self {
        Self {
            groups: Share::new(governor),
            sets: Vec::new(),
        }
    }

    /// Makes the shares of the sets.
    pub(super) fn open_sets(&mut self, aggregation: &Aggregation) {
        let set = |aggregate: &CompiledAggregate| {
            let is_distinct = aggregate.is_distinct();
            is_distinct.then(|| Share::new(self.groups.governor()))
        };
        let aggregates = aggregation.aggregates.compiled().iter();
        self.sets = aggregates.map(set).collect();
    }

    /// Gives the shares of the sets back: there are no more solutions.
    pub(super) fn close_sets(&mut self) {
        self.sets.clear();
    }

    /// Returns the share of the groups, for what is not in a part.
    pub(super) fn share(&mut self) -> &mut Share {
        &mut self.groups
    }

    /// Returns whether there is enough memory to divide the sets of DISTINCT.
    pub(super) fn is_divisible(&self) -> bool {
        let mut sets = self.sets.iter().flatten();
        sets.all(|share| share.limit() >= PARTS_BYTES_MIN)
    }
}

/// Groups, as far as there is memory for them. All solutions of a group come to the same one.
pub(super) struct Groups {
    keys: Vec<Option<usize>>,
    /// The groups' keys, ordered by group number.
    rows: RowSet,
    /// The number of the first solution of each group, if there are others.
    firsts: Vec<u64>,
    accumulators: Vec<Accumulator>,
    share: Share,
    /// Number of groups that can be added before more memory must be reserved.
    room: usize,
    /// True once there is no memory for more groups.
    is_full: bool,
    /// True if these are the groups of all keys. Then the first group is added even if there is no memory for it: without it,
    /// every solution would be deferred forever.
    is_alone: bool,
}

impl Groups {
    /// Makes groups without solutions, which have this many columns, at a level of partitions. They are one of `parts`.
    pub(super) fn new(
        aggregation: &Aggregation,
        columns: usize,
        level: u32,
        memory: &GroupMemory,
        parts: usize,
    ) -> Self {
        let of_set = |place: usize| {
            let share = memory.sets[place].as_ref();
            share.expect("made for DISTINCT").writer(parts)
        };
        let aggregates = aggregation.aggregates.compiled();
        let mut groups = Self {
            keys: aggregation.keys.clone(),
            rows: RowSet::new(aggregation.keys.len(), level),
            firsts: Vec::new(),
            accumulators: CompiledAggregate::accumulators(aggregates, columns, of_set),
            share: memory.groups.part(),
            room: 0,
            is_full: false,
            is_alone: parts == 1,
        };
        if aggregation.keys.is_empty() {
            groups.insert(groups.rows.hash(&[]), &[], 0);
        }
        groups
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of the first solution of a group.
    pub(super) fn first(&self, group: usize) -> Option<u64> {
        self.firsts.get(group).copied()
    }

    fn insert(&mut self, hash: u64, key: &[u64], first: u64) -> u32 {
        if !self.is_alone {
            self.firsts.push(first);
        }
        self.rows.insert_new(hash, key)
    }

    /// Adds solutions, and returns the numbers of those for whose groups there is no memory.
    pub(super) fn add(
        &mut self,
        solutions: &Numbered<'_>,
        context: &QueryContext,
    ) -> Result<Vec<u32>, QueryError> {
        let mut deferred = Vec::new();
        let rows = solutions.numbers.len();
        for start in (0..rows).step_by(BATCH_ROWS) {
            context.check()?;
            let part = solutions.slice(start..(start + BATCH_ROWS).min(rows));
            self.add_part(&part, &mut deferred, context)?;
        }
        Ok(deferred)
    }

    fn add_part(
        &mut self,
        solutions: &Numbered<'_>,
        deferred: &mut Vec<u32>,
        context: &QueryContext,
    ) -> Result<(), QueryError> {
        let (taken, groups) = self.number(solutions, deferred)?;
        let mut picked: Vec<Vec<u64>> = Vec::new();
        let mut columns = solutions.columns.clone();
        if taken.len() < solutions.numbers.len() {
            picked.extend(columns.iter().map(|column| gather(column, &taken)));
            columns = picked.iter().map(Vec::as_slice).collect();
        }
        for accumulator in &mut self.accumulators {
            accumulator.update(&groups, self.rows.len(), &columns, &context.evaluation)?;
        }
        Ok(())
    }

    /// Returns the solutions whose groups are in memory, and the numbers of these groups. Defers the others.
    fn number(
        &mut self,
        solutions: &Numbered<'_>,
        deferred: &mut Vec<u32>,
    ) -> Result<(Vec<u32>, Vec<u32>), QueryError> {
        let rows = solutions.numbers.len();
        let mut taken = Vec::with_capacity(rows);
        let mut groups: Vec<u32> = Vec::with_capacity(rows);
        let mut key = vec![0; self.keys.len()];
        let places = self.keys.clone();
        let varying: Vec<&[u64]> = (places.iter().flatten())
            .map(|&column| solutions.columns[column])
            .collect();
        let mut run = 0..0;
        while run.end < rows {
            // Solutions often come in runs of one key.
            run = run_of(&varying, run.end, rows);
            for (value, column) in key.iter_mut().zip(&places) {
                *value = column.map_or(0, |column| solutions.columns[column][run.start]);
            }
            let hash = self.rows.hash(&key);
            let group = match self.rows.find(hash, &key) {
                Some(group) => Some(group),
                None if self.has_room()? => {
                    self.room -= 1;
                    let number = solutions.numbers[run.start];
                    Some(self.insert(hash, &key, solutions.start + u64::from(number)))
                }
                None => None,
            };
            match group {
                Some(group) => {
                    groups.extend(std::iter::repeat_n(group, run.len()));
                    taken.extend(run.start as u32..run.end as u32);
                }
                None => deferred.extend_from_slice(&solutions.numbers[run.clone()]),
            }
        }
        Ok((taken, groups))
    }

    /// Returns whether a group can be added. Once it cannot, no other can.
    fn has_room(&mut self) -> Result<bool, QueryError> {
        if self.is_full || self.room > 0 {
            return Ok(!self.is_full);
        }
        let bytes = self.memory_bytes(ROOM);
        if !self.share.fits(bytes) {
            if self.len() > 0 || !self.is_alone {
                self.share.require(self.memory_bytes(0))?;
                self.is_full = true;
                return Ok(false);
            }
            self.share.require(bytes)?;
        }
        self.room = ROOM;
        Ok(true)
    }

    /// Returns the bytes of the groups after adding `more`.
    fn memory_bytes(&self, more: usize) -> usize {
        let count = self.len() + more;
        let accumulators = self.accumulators.iter().map(|a| a.memory_bytes(count));
        let firsts = match self.is_alone {
            true => 0,
            // While a vector grows, the old one and the new one exist.
            false => 3 * count.max(self.firsts.capacity()) * size_of::<u64>(),
        };
        self.rows.bytes_with(more) + firsts + accumulators.sum::<usize>()
    }

    /// Ends the solutions.
    pub(super) fn finish(&mut self, context: &QueryContext) -> Result<(), QueryError> {
        let count = self.len();
        let mut accumulators = self.accumulators.iter_mut();
        accumulators.try_for_each(|accumulator| accumulator.finish(count, &context.evaluation))
    }

    /// Returns the keys and the results of some groups, by column. Each group may be requested only once.
    pub(super) fn outcomes(
        &mut self,
        groups: Range<usize>,
        context: &QueryContext,
    ) -> Result<Vec<Vec<u64>>, QueryError> {
        let mut columns = self.rows.rows().columns(groups.clone());
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.outcomes(groups.clone(), &context.evaluation)?);
        }
        Ok(columns)
    }
}

/// Returns the rows, from `start` on, that have the key of the first.
fn run_of(keys: &[&[u64]], start: usize, rows: usize) -> Range<usize> {
    let is_same = |row: &usize| keys.iter().all(|column| column[*row] == column[start]);
    start..start + 1 + (start + 1..rows).take_while(is_same).count()
}

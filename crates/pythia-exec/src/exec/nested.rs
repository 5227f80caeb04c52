//! OPTIONAL and UNION inside a pipeline: inner pipelines fed with the outer one's solutions.

use std::sync::Arc;

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::pipeline::build;
use super::row_source::{Fed, Pipeline, RowSource};
use super::siblings::Siblings;
use crate::error::QueryError;
use crate::plan::slots::Slots;
use crate::plan::step::{Step, StepKind};

/// Number of solutions that the inner pipeline of an OPTIONAL is fed at once.
const SEED_ROWS: usize = 2048;
/// Minimum number of solutions that all branches of a UNION are fed at once.
const SEED_ROWS_MIN: usize = 64;

/// Left join: extends solutions by those of the inner pipeline, or keeps them unchanged if there are none. Solutions stay in
/// order, unless the inner steps change it.
pub(crate) struct Optional {
    input: Fed,
    inner: Pipeline,
    /// An extra slot at the end, in which inner solutions carry the row that they came from.
    row_slot: usize,
    /// Whether inner solutions come in the order of these rows.
    is_ordered: bool,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Batch,
    position: usize,
    /// Rows `start..position` of the current batch are in the inner pipeline. `matched` marks those with a
    /// match.
    start: usize,
    matched: Vec<bool>,
    /// Number of those rows that were returned if they have no match.
    settled: usize,
    running: bool,
}

impl Optional {
    pub(crate) fn new(
        input: Fed,
        steps: &[Step],
        width: usize,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
        siblings: &Arc<Siblings>,
    ) -> Self {
        let row_slot = width + depth(steps);
        Self {
            input,
            is_ordered: keep_order(steps),
            inner: build(&carrying(steps, row_slot), width, &context, siblings),
            row_slot,
            live,
            context,
            current: Batch::default(),
            position: 0,
            start: 0,
            matched: Vec::new(),
            settled: 0,
            running: false,
        }
    }

    fn feed_inner(&mut self) {
        self.start = self.position;
        let most = self.context.governor().batch_rows(self.live.len());
        self.position = (self.start + SEED_ROWS.min(most)).min(self.current.rows);
        let seed = self.current.slice(self.start, self.position);
        (self.matched, self.settled) = (vec![false; seed.rows], 0);
        self.running = true;
        self.inner.feed(numbered(seed, self.row_slot));
    }

    /// Returns inner solutions, between them the rows without a match that come before the last of them.
    fn join(&mut self, mut found: Batch) -> Batch {
        let numbers = std::mem::take(&mut found.columns[self.row_slot]);
        let mut order: Vec<(u32, u32)> = Vec::with_capacity(2 * numbers.len());
        for (place, &row) in numbers.iter().enumerate() {
            let row = row as usize - 1;
            self.matched[row] = true;
            if self.is_ordered {
                debug_assert!(row + 1 >= self.settled, "inner solutions are in order");
                order.extend((self.settled..row).map(|row| (1, (self.start + row) as u32)));
                order.push((0, place as u32));
                self.settled = row + 1;
            }
        }
        let width = self.current.columns.len();
        found.columns.truncate(width);
        match order.len() > found.rows {
            true => interleaved(&[&found, &self.current], &order, width, &self.live),
            false => found,
        }
    }

    /// Returns the fed rows without a match in the inner pipeline that were not returned.
    fn unmatched(&mut self) -> Option<Batch> {
        self.running = false;
        let rows = self.settled..self.matched.len();
        let rows = rows.filter(|row| !self.matched[*row]);
        let rows: Vec<u32> = rows.map(|row| (self.start + row) as u32).collect();
        (!rows.is_empty()).then(|| self.current.gather(&rows, &self.live))
    }
}

impl RowSource for Optional {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if self.running {
                match self.inner.next()? {
                    Some(found) => return Ok(Some(self.join(found))),
                    None => {
                        let unmatched = self.unmatched();
                        if self.position == self.current.rows {
                            self.current = Batch::default();
                            self.position = 0;
                        }
                        if unmatched.is_some() {
                            return Ok(unmatched);
                        }
                    }
                }
            } else if self.position < self.current.rows {
                self.feed_inner();
            } else {
                match self.input.take() {
                    Some(batch) => {
                        self.current = batch;
                        self.position = 0;
                    }
                    None => return Ok(None),
                }
            }
        }
    }
}

/// Returns whether the solutions of steps come in the order of the solutions that they are fed.
fn keep_order(steps: &[Step]) -> bool {
    steps.iter().all(|step| match &step.kind {
        StepKind::Optional(inner) => keep_order(inner),
        StepKind::Union(branches) => branches.iter().all(|steps| keep_order(steps)),
        // Rows that start at the same node are searched for together.
        StepKind::Path(_) => false,
        _ => true,
    })
}

/// Returns how many levels of OPTIONAL and UNION are nested in the steps. Each level numbers rows in a slot of its own.
fn depth(steps: &[Step]) -> usize {
    let depths = steps.iter().map(|step| match &step.kind {
        StepKind::Optional(inner) => 1 + depth(inner),
        StepKind::Union(branches) => 1 + depth_of(branches),
        _ => 0,
    });
    depths.max().unwrap_or(0)
}

fn depth_of(branches: &[Vec<Step>]) -> usize {
    let depths = branches.iter().map(|steps| depth(steps));
    depths.max().unwrap_or(0)
}

/// Numbers the rows of a batch, from 1 on because 0 reads as unbound.
fn numbered(mut batch: Batch, slot: usize) -> Batch {
    make_room(&mut batch, slot);
    batch.columns[slot] = (1..=batch.rows as u64).collect();
    batch
}

/// Adds columns up to that of a slot.
fn make_room(batch: &mut Batch, slot: usize) {
    let columns = batch.columns.len().max(slot + 1);
    batch.columns.resize(columns, Vec::new());
}

/// Returns these steps, each with a slot more that is live.
fn carrying(steps: &[Step], slot: usize) -> Vec<Step> {
    let mut steps = steps.to_vec();
    keep_live(&mut steps, slot);
    steps
}

/// Adds a slot to the live slots of every step.
fn keep_live(steps: &mut [Step], slot: usize) {
    for step in steps {
        Arc::make_mut(&mut step.live).insert(slot);
        match &mut step.kind {
            StepKind::Optional(inner) => keep_live(inner, slot),
            StepKind::Union(branches) => {
                for branch in branches {
                    keep_live(branch, slot);
                }
            }
            _ => {}
        }
    }
}

/// Returns rows of several batches in this order, each given by its batch and its place there. A batch without rows may have
/// no columns.
fn interleaved(batches: &[&Batch], order: &[(u32, u32)], width: usize, live: &Slots) -> Batch {
    let mut out = Batch::empty(width);
    out.rows = order.len();
    let rows = batches.iter().map(|batch| batch.rows).max();
    let unbound = vec![0; rows.unwrap_or(0)];
    for slot in live.iter() {
        let columns = batches.iter().map(|batch| batch.columns.get(slot));
        let mut columns: Vec<&[u64]> = columns
            .map(|column| column.map_or(&[][..], Vec::as_slice))
            .collect();
        if columns.iter().all(|column| column.is_empty()) {
            continue;
        }
        for column in columns.iter_mut().filter(|column| column.is_empty()) {
            *column = &unbound;
        }
        let cells = order.iter();
        let cells = cells.map(|&(batch, row)| columns[batch as usize][row as usize]);
        out.columns[slot] = cells.collect();
    }
    out
}

/// Returns the solutions of each branch, for each solution of the input; for each batch of it, if the steps of a branch change
/// the order of solutions.
pub(crate) struct Union {
    input: Fed,
    branches: Vec<Pipeline>,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Batch,
    /// Number of its columns.
    width: usize,
    /// Number of its rows that were fed to all branches, or are being fed to one after the other.
    position: usize,
    /// The running branch, if they run one after the other; otherwise `branches.len()`.
    running: usize,
    /// An extra slot at the end, in which solutions carry the row that they came from, if branches keep the order of rows.
    row_slot: Option<usize>,
    /// The merge of all branches' solutions for several rows.
    merge: Option<BranchMerge>,
}

impl Union {
    pub(crate) fn new(
        input: Fed,
        branches: &[Vec<Step>],
        width: usize,
        live: Arc<Slots>,
        context: &Arc<QueryContext>,
        siblings: &Arc<Siblings>,
    ) -> Self {
        let is_ordered = branches.iter().all(|steps| keep_order(steps));
        let row_slot = is_ordered.then(|| width + depth_of(branches));
        let pipeline = |steps: &Vec<Step>| match row_slot {
            Some(slot) => build(&carrying(steps, slot), width, context, siblings),
            None => build(steps, width, context, siblings),
        };
        let branches: Vec<Pipeline> = branches.iter().map(pipeline).collect();
        Self {
            input,
            running: branches.len(),
            branches,
            live,
            context: Arc::clone(context),
            current: Batch::default(),
            width: 0,
            position: 0,
            row_slot,
            merge: None,
        }
    }

    /// Feeds the next rows of the current batch: several to all branches, if these keep the order of rows; otherwise the whole
    /// batch to one branch after the other.
    fn begin_rows(&mut self) {
        self.width = self.current.columns.len();
        // Copies for all branches together take no more than one batch.
        let most = self.context.governor().batch_rows(self.live.len());
        let most = (most / self.branches.len().max(1)).max(SEED_ROWS_MIN);
        let rows = self.position..(self.position + most).min(self.current.rows);
        let is_single = self.current.rows == 1;
        match self.row_slot {
            Some(slot) if !is_single => {
                let seed = match rows.len() == self.current.rows {
                    true => std::mem::take(&mut self.current),
                    false => self.current.slice(rows.start, rows.end),
                };
                let seed = numbered(seed, slot);
                let merge = BranchMerge::new(seed.rows, self.branches.len(), slot, self.width);
                if let Some((last, others)) = self.branches.split_last_mut() {
                    others.iter_mut().for_each(|other| other.feed(seed.copy()));
                    last.feed(seed);
                }
                self.merge = Some(merge);
                self.position = rows.end;
            }
            slot => {
                if let Some(slot) = slot {
                    // A single row needs no number.
                    make_room(&mut self.current, slot);
                }
                self.position = self.current.rows;
                self.running = 0;
                self.feed_branch();
            }
        }
    }

    /// Feeds the current batch to the running branch.
    fn feed_branch(&mut self) {
        if self.running < self.branches.len() {
            let batch = match self.running + 1 == self.branches.len() {
                true => std::mem::take(&mut self.current),
                false => self.current.copy(),
            };
            self.branches[self.running].feed(batch);
        }
    }
}

impl RowSource for Union {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            if let Some(merge) = &mut self.merge {
                let merged = merge.next(&mut self.branches, &self.live)?;
                if merged.is_some() {
                    return Ok(merged);
                }
                self.merge = None;
            }
            if self.running < self.branches.len() {
                if let Some(mut batch) = self.branches[self.running].next()? {
                    batch.columns.truncate(self.width);
                    return Ok(Some(batch));
                }
                self.running += 1;
                self.feed_branch();
                continue;
            }
            if self.position < self.current.rows {
                self.begin_rows();
                continue;
            }
            match self.input.take() {
                Some(batch) => (self.current, self.position) = (batch, 0),
                None => {
                    self.current = Batch::default();
                    return Ok(None);
                }
            }
        }
    }
}

/// The solutions of several branches for the rows of a batch, which each branch returns in the order of the rows.
struct BranchMerge {
    row_slot: usize,
    /// Number of slots of the pipeline.
    width: usize,
    rows: u64,
    /// The solutions of each branch that were not returned, and whether it has more.
    heads: Vec<(Cursor, bool)>,
    /// The next solutions are those of this row in this branch.
    row: u64,
    branch: usize,
}

impl BranchMerge {
    fn new(rows: usize, branches: usize, row_slot: usize, width: usize) -> Self {
        Self {
            row_slot,
            width,
            rows: rows as u64,
            heads: (0..branches).map(|_| (Cursor::default(), true)).collect(),
            row: 1,
            branch: 0,
        }
    }

    /// Returns the next solutions, or `None` after the last. A branch is run when its solutions come next.
    fn next(
        &mut self,
        branches: &mut [Pipeline],
        live: &Slots,
    ) -> Result<Option<Batch>, QueryError> {
        let mut order = Vec::new();
        loop {
            self.take(&mut order);
            if !order.is_empty() {
                let heads = self.heads.iter();
                let batches: Vec<&Batch> = heads.map(|(head, _)| &head.batch).collect();
                return Ok(Some(interleaved(&batches, &order, self.width, live)));
            }
            if self.row > self.rows {
                return Ok(None);
            }
            let next = branches[self.branch].next()?;
            let has_more = next.is_some();
            self.heads[self.branch] = (Cursor::over(next.unwrap_or_default()), has_more);
        }
    }

    /// Takes solutions until those of a branch that has more are used up.
    fn take(&mut self, order: &mut Vec<(u32, u32)>) {
        while self.row <= self.rows {
            while let Some((head, has_more)) = self.heads.get_mut(self.branch) {
                while head.has_rows() && head.batch.value(self.row_slot, head.row) == self.row {
                    order.push((self.branch as u32, head.row as u32));
                    head.row += 1;
                }
                if *has_more && !head.has_rows() {
                    return;
                }
                self.branch += 1;
            }
            (self.row, self.branch) = (self.row + 1, 0);
        }
        debug_assert!(
            self.heads.iter().all(|(head, _)| !head.has_rows()),
            "solutions of branches are in order"
        );
    }
}

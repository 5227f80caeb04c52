//! OPTIONAL and UNION inside a pipeline: inner pipelines fed with the outer one's solutions.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use super::pipeline::build;
use super::row_source::{Fed, Pipeline, RowSource};
use super::siblings::Siblings;
use crate::error::QueryError;
use crate::plan::slots::Slots;
use crate::plan::step::Step;

/// Number of solutions that an inner pipeline is fed at once.
const SEED_ROWS: usize = 2048;

/// Left join: extends solutions by those of the inner pipeline, or keeps them unchanged if there are none.
pub(crate) struct Optional {
    input: Fed,
    inner: Pipeline,
    /// An extra slot at the end, in which inner solutions carry the row that they came from.
    row_slot: usize,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Batch,
    position: usize,
    /// Rows `start..position` of the current batch are in the inner pipeline. `matched` marks those with a
    /// match.
    start: usize,
    matched: Vec<bool>,
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
        // Deeper OPTIONALs use slots beyond `width` as well, each level its own.
        let row_slot = width + depth(steps);
        let mut steps = steps.to_vec();
        keep_live(&mut steps, row_slot);
        Self {
            input,
            inner: build(&steps, width, &context, siblings),
            row_slot,
            live,
            context,
            current: Batch::default(),
            position: 0,
            start: 0,
            matched: Vec::new(),
            running: false,
        }
    }

    fn feed_inner(&mut self) {
        self.start = self.position;
        let most = self.context.governor().batch_rows(self.live.len());
        self.position = (self.start + SEED_ROWS.min(most)).min(self.current.rows);
        let mut seed = self.current.slice(self.start, self.position);
        if seed.columns.len() <= self.row_slot {
            seed.columns.resize(self.row_slot + 1, Vec::new());
        }
        // Row numbers start from 1, because 0 reads as unbound.
        seed.columns[self.row_slot] = (1..=seed.rows as u64).collect();
        self.matched = vec![false; seed.rows];
        self.running = true;
        self.inner.feed(seed);
    }

    /// Returns the fed rows without a match in the inner pipeline.
    fn unmatched(&mut self) -> Option<Batch> {
        self.running = false;
        let rows: Vec<u32> = self
            .matched
            .iter()
            .enumerate()
            .filter(|(_, matched)| !**matched)
            .map(|(row, _)| (self.start + row) as u32)
            .collect();
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
                    Some(mut found) => {
                        for &row in &found.columns[self.row_slot] {
                            self.matched[row as usize - 1] = true;
                        }
                        found.columns[self.row_slot] = Vec::new();
                        found.columns.truncate(self.current.columns.len());
                        return Ok(Some(found));
                    }
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

/// Returns how many levels of OPTIONAL are nested in the steps.
fn depth(steps: &[Step]) -> usize {
    use crate::plan::step::StepKind;
    steps
        .iter()
        .map(|step| match &step.kind {
            StepKind::Optional(inner) => 1 + depth(inner),
            StepKind::Union(branches) => branches.iter().map(|b| depth(b)).max().unwrap_or(0),
            _ => 0,
        })
        .max()
        .unwrap_or(0)
}

/// Adds a slot to the live slots of every step.
fn keep_live(steps: &mut [Step], slot: usize) {
    use crate::plan::step::StepKind;
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

/// Returns the solutions of each branch, for each batch of input.
pub(crate) struct Union {
    input: Fed,
    branches: Vec<Pipeline>,
    current: Batch,
    /// The running branch; `branches.len()` when the batch is used up.
    running: usize,
}

impl Union {
    pub(crate) fn new(
        input: Fed,
        branches: &[Vec<Step>],
        width: usize,
        context: Arc<QueryContext>,
        siblings: &Arc<Siblings>,
    ) -> Self {
        let branches: Vec<_> = branches
            .iter()
            .map(|steps| build(steps, width, &context, siblings))
            .collect();
        Self {
            input,
            running: branches.len(),
            branches,
            current: Batch::default(),
        }
    }
}

impl RowSource for Union {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            if self.running < self.branches.len() {
                if let Some(batch) = self.branches[self.running].next()? {
                    return Ok(Some(batch));
                }
                self.running += 1;
            } else {
                match self.input.take() {
                    Some(batch) => {
                        self.current = batch;
                        self.running = 0;
                    }
                    None => return Ok(None),
                }
            }
            if self.running < self.branches.len() {
                let batch = match self.running + 1 == self.branches.len() {
                    true => std::mem::take(&mut self.current),
                    false => self.current.copy(),
                };
                self.branches[self.running].feed(batch);
            }
        }
    }
}

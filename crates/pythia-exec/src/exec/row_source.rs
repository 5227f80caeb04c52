//! Execution of a pattern pipeline: each step takes batches and returns batches for the next.
//!
//! The last step that may have more solutions always runs first, so that few batches are alive at once,
//! regardless of the number of steps. A step frees a batch when it is used up.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use crate::error::QueryError;

/// A running step.
pub(crate) trait RowSource: Send {
    /// Prepares for new input when the pipeline is fed again.
    fn begin(&mut self) {}
    /// Prepares for the next part of the same input.
    fn go_on(&mut self) {
        self.begin();
    }
    /// Feeds a batch to the step. The previous one must be used up.
    fn feed(&mut self, batch: Batch);
    /// Returns the next non-empty batch, or `None` when the input is used up.
    fn next(&mut self) -> Result<Option<Batch>, QueryError>;
    /// Announces the end of the input. The step then returns the solutions that it has kept.
    fn end(&mut self) {}
}

/// The batch that a step was fed, until the step takes it.
#[derive(Default)]
pub(crate) struct Fed(Option<Batch>);

impl Fed {
    pub(crate) fn put(&mut self, batch: Batch) {
        debug_assert!(self.0.is_none(), "the batch before is used up");
        self.0 = Some(batch);
    }

    pub(crate) fn take(&mut self) -> Option<Batch> {
        self.0.take().filter(|batch| batch.rows > 0)
    }
}

/// Running steps, one after the other.
pub(crate) struct Pipeline {
    /// The pipeline's input, until the first step takes it.
    fed: Fed,
    steps: Vec<Box<dyn RowSource>>,
    /// Number of steps that may have more solutions; those after them are used up.
    active: usize,
    /// Number of steps that have returned everything and will not be fed again.
    ended: usize,
    /// Number of steps whose `end` was called.
    told: usize,
    context: Arc<QueryContext>,
}

impl Pipeline {
    /// Makes a pipeline of steps that have not been fed.
    pub(crate) fn new(steps: Vec<Box<dyn RowSource>>, context: &Arc<QueryContext>) -> Self {
        Self {
            fed: Fed::default(),
            steps,
            active: 0,
            ended: 0,
            told: 0,
            context: Arc::clone(context),
        }
    }

    /// Feeds a batch to the pipeline, which must have been drained.
    pub(crate) fn feed(&mut self, batch: Batch) {
        self.steps.iter_mut().for_each(|step| step.begin());
        self.put(batch);
    }

    /// Feeds the next part of the same input to the pipeline, which must have been drained.
    pub(crate) fn feed_part(&mut self, batch: Batch) {
        self.steps.iter_mut().for_each(|step| step.go_on());
        self.put(batch);
    }

    fn put(&mut self, batch: Batch) {
        self.fed.put(batch);
        (self.active, self.ended, self.told) = (0, 0, 0);
    }

    /// Returns the next non-empty batch, or `None` when the input is used up.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            let given = if self.active > self.ended {
                self.steps[self.active - 1].next()?
            } else if let Some(batch) = self.fed.take() {
                Some(batch)
            } else if self.told > self.ended {
                self.ended = self.told;
                self.active = self.told;
                continue;
            } else if let Some(step) = self.steps.get_mut(self.ended) {
                step.end();
                self.told = self.ended + 1;
                self.active = self.told;
                continue;
            } else {
                return Ok(None);
            };
            let Some(mut batch) = given else {
                self.active -= 1;
                continue;
            };
            batch.charge(self.context.governor())?;
            match self.steps.get_mut(self.active) {
                None => return Ok(Some(batch)),
                Some(step) => step.feed(batch),
            }
            self.active += 1;
        }
    }
}

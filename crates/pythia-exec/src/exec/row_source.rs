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
    /// Looks for steps with far more solutions than expected, if wanted.
    watch: Option<Watch>,
    /// The solutions of such a step, until the next step takes them.
    surprising: Option<Batch>,
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
            watch: None,
            surprising: None,
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

    /// Lets the pipeline stop at surprises from now on, or not.
    pub(crate) fn watch(&mut self, watch: Option<Watch>) {
        self.watch = watch;
    }

    /// Replaces the steps from this one on. None of them may have solutions left.
    pub(crate) fn replace(&mut self, from: usize, steps: Vec<Box<dyn RowSource>>) {
        debug_assert!(from >= self.active && from >= self.told);
        self.steps.truncate(from);
        self.steps.extend(steps);
    }

    /// Returns the solutions of the step that surprised, which the next step is about to take.
    pub(crate) fn surprising(&self) -> Option<&Batch> {
        self.surprising.as_ref()
    }

    /// Returns the next non-empty batch, or `None` when the input is used up. The pipeline is not watched.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        match self.advance()? {
            Advance::Given(batch) => Ok(Some(batch)),
            Advance::Ended => Ok(None),
            Advance::Surprise { .. } => unreachable!("the pipeline is not watched"),
        }
    }

    /// Runs to the next non-empty batch, the end, or the next surprise.
    pub(crate) fn advance(&mut self) -> Result<Advance, QueryError> {
        loop {
            let surprising = self.surprising.take();
            let is_known = surprising.is_some();
            let given = if is_known {
                surprising
            } else if self.active > self.ended {
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
                return Ok(Advance::Ended);
            };
            let Some(mut batch) = given else {
                self.active -= 1;
                continue;
            };
            if !is_known {
                batch.charge(self.context.governor())?;
                if let Some(watch) = &mut self.watch
                    && let Some(rows) = watch.surprise(self.active, batch.rows)
                {
                    self.surprising = Some(batch);
                    let steps = self.active;
                    return Ok(Advance::Surprise { steps, rows });
                }
            }
            match self.steps.get_mut(self.active) {
                None => return Ok(Advance::Given(batch)),
                Some(step) => step.feed(batch),
            }
            self.active += 1;
        }
    }
}

/// The outcome of running a pipeline further.
pub(crate) enum Advance {
    /// It has solutions.
    Given(Batch),
    /// The last of the first `steps` steps has far more solutions than expected: `rows`, and perhaps more.
    Surprise { steps: usize, rows: u64 },
    /// Its input is used up.
    Ended,
}

/// Counts the solutions of steps to find those that have far more than expected.
#[derive(Debug)]
pub(crate) struct Watch {
    /// For each step, the number of solutions so far and the number that is a surprise.
    steps: Vec<(u64, u64)>,
}

impl Watch {
    /// Watches steps, each of which surprises with more solutions than this.
    pub(crate) fn new(most: impl Iterator<Item = u64>) -> Self {
        Self {
            steps: most.map(|most| (0, most)).collect(),
        }
    }

    /// Counts solutions of the last of these first steps. Returns the number so far if it is a surprise.
    fn surprise(&mut self, steps: usize, rows: usize) -> Option<u64> {
        let (came, most) = self.steps.get_mut(steps.checked_sub(1)?)?;
        *came += rows as u64;
        (*came > *most).then(|| {
            *most = u64::MAX;
            *came
        })
    }
}

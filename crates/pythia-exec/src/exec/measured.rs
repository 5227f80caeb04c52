//! Steps and streams of solutions that are measured as they run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use datafusion_common::Result;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};

use super::batch::Batch;
use super::profile::Profile;
use super::row_source::RowSource;
use super::solutions::Solutions;
use crate::error::QueryError;
use crate::explain::CostId;

/// A step that is measured.
pub(crate) struct MeasuredStep {
    pub(crate) step: Box<dyn RowSource>,
    pub(crate) cost: CostId,
    pub(crate) profile: Arc<Profile>,
}

impl RowSource for MeasuredStep {
    fn begin(&mut self) {
        self.step.begin();
    }

    fn go_on(&mut self) {
        self.step.go_on();
    }

    fn feed(&mut self, batch: Batch) {
        self.step.feed(batch);
    }

    fn end(&mut self) {
        self.step.end();
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        let Self {
            step,
            cost,
            profile,
        } = self;
        profile.measure(
            *cost,
            || step.next(),
            |result| match result {
                Ok(Some(batch)) => Some(batch.rows),
                _ => None,
            },
        )
    }
}

/// Wraps an operator's solutions to measure them.
pub(crate) fn measured(solutions: Solutions, cost: CostId, profile: Arc<Profile>) -> Solutions {
    let schema = solutions.schema();
    let stream = MeasuredStream {
        solutions,
        cost,
        profile,
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

struct MeasuredStream {
    solutions: Solutions,
    cost: CostId,
    profile: Arc<Profile>,
}

impl Stream for MeasuredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self {
            solutions,
            cost,
            profile,
        } = &mut *self;
        profile.measure(
            *cost,
            || solutions.poll_next_unpin(context),
            |result| match result {
                Poll::Ready(Some(Ok(batch))) => Some(batch.num_rows()),
                _ => None,
            },
        )
    }
}

//! Streams of solutions, and how operators are run.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, stream};

use super::context::QueryContext;
use crate::error::QueryError;

/// A stream of solutions.
pub type Solutions = SendableRecordBatchStream;

/// Runs the operators of a kind.
pub trait Execute {
    /// Starts the operator. `schema` is the schema of its output. All state of the running operator is in the
    /// stream that this returns.
    fn run(
        &self,
        inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions;
}

/// An operator that is running.
pub(crate) trait NextBatch: Send + 'static {
    /// Returns the next solutions, or `None` after the last ones.
    fn next(&mut self) -> impl Future<Output = Result<Option<RecordBatch>, QueryError>> + Send;
}

/// Returns the solutions of a running operator.
pub(crate) fn solutions_of(schema: SchemaRef, running: impl NextBatch) -> Solutions {
    let batches = stream::try_unfold(running, |mut running| async move {
        Ok(running.next().await?.map(|batch| (batch, running)))
    });
    solutions(schema, batches)
}

/// Wraps a stream of batches.
pub fn solutions(
    schema: SchemaRef,
    stream: impl Stream<Item = Result<RecordBatch, QueryError>> + Send + 'static,
) -> Solutions {
    let stream = stream.map(|item| item.map_err(DataFusionError::from));
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// Returns the next batch of an input, with Pythia's error type.
pub async fn pull(input: &mut Solutions) -> Result<Option<RecordBatch>, QueryError> {
    match input.next().await {
        Some(Ok(batch)) => Ok(Some(batch)),
        Some(Err(error)) => Err(QueryError::from(error)),
        None => Ok(None),
    }
}

impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(inner) => match inner.downcast::<Self>() {
                Ok(error) => *error,
                Err(other) => Self::Execution(other.to_string()),
            },
            DataFusionError::ResourcesExhausted(message) => Self::Memory(message),
            DataFusionError::Context(_, inner) => Self::from(*inner),
            other => Self::Execution(other.to_string()),
        }
    }
}

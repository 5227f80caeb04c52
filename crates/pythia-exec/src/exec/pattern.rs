//! The fused pattern operator: one plan node for a whole basic graph pattern and the filters, OPTIONALs,
//! UNIONs and paths that can be evaluated with it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::batch::{Batch, id_columns, record_batch};
use super::context::QueryContext;
use super::hash::Tables;
use super::pieces::{Pieces, cut, pieces};
use super::pipeline::build;
use super::row_source::Pipeline;
use super::solutions::{Execute, NextBatch, Solutions, pull, solutions_of};
use crate::error::QueryError;
use crate::plan::operators::Pattern;

impl Execute for Pattern {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let input = inputs.pop();
        if input.is_none()
            && let Some(cut) = cut(&self.steps, &context)
        {
            let pieces = pieces(self, cut, &schema, &context);
            return solutions_of(schema, Running::Pieces(pieces));
        }
        let width = self.slots.len();
        let tables: Arc<Tables> = Arc::default();
        let mut pipeline = build(&self.steps, width, &context, &tables);
        if input.is_none() {
            pipeline.feed(Batch::unit(width));
        }
        let whole = Whole {
            pipeline,
            input,
            width,
            input_slots: self.input.clone(),
            output: self.output.clone(),
            schema: Arc::clone(&schema),
            context,
        };
        solutions_of(schema, Running::Whole(Box::new(whole)))
    }
}

/// A running pattern.
enum Running {
    Whole(Box<Whole>),
    Pieces(Pieces),
}

impl NextBatch for Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        match self {
            Self::Whole(whole) => whole.next().await,
            Self::Pieces(pieces) => pieces.next(),
        }
    }
}

/// A pattern that runs on one thread.
struct Whole {
    pipeline: Pipeline,
    input: Option<Solutions>,
    width: usize,
    input_slots: Vec<usize>,
    output: Vec<usize>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Whole {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(batch) = self.pipeline.next()? {
                return Ok(Some(output_of(batch, &self.output, &self.schema)?));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let Some(solutions) = pull(input).await? else {
                return Ok(None);
            };
            let mut seed = Batch::empty(self.width);
            seed.rows = solutions.num_rows();
            for (column, &slot) in id_columns(&solutions).into_iter().zip(&self.input_slots) {
                seed.columns[slot] = column.to_vec();
            }
            self.pipeline.feed(seed);
        }
    }
}

/// Returns the solutions of a batch in the slots of the output.
pub(super) fn output_of(
    mut batch: Batch,
    output: &[usize],
    schema: &SchemaRef,
) -> Result<RecordBatch, QueryError> {
    let columns = output.iter();
    let columns = columns.map(|&slot| std::mem::take(&mut batch.columns[slot]));
    Ok(record_batch(schema, columns.collect(), batch.rows)?)
}

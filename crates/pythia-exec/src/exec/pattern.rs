//! The fused pattern operator: one plan node for a whole basic graph pattern and the filters, OPTIONALs,
//! UNIONs and paths that can be evaluated with it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::batch::{Batch, id_columns, record_batch};
use super::context::QueryContext;
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
        let width = self.slots.len();
        let mut pipeline = build(&self.steps, width, &context);
        let input = inputs.pop();
        if input.is_none() {
            pipeline.feed(Batch::unit(width));
        }
        let state = Running {
            pipeline,
            input,
            width,
            input_slots: self.input.clone(),
            output: self.output.clone(),
            schema: Arc::clone(&schema),
            context,
        };
        solutions_of(schema, state)
    }
}

struct Running {
    pipeline: Pipeline,
    input: Option<Solutions>,
    width: usize,
    input_slots: Vec<usize>,
    output: Vec<usize>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl NextBatch for Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(mut batch) = self.pipeline.next()? {
                let columns = self
                    .output
                    .iter()
                    .map(|&slot| std::mem::take(&mut batch.columns[slot]))
                    .collect();
                return Ok(Some(record_batch(&self.schema, columns, batch.rows)?));
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

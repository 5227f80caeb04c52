//! The fused pattern operator: one plan node for a whole basic graph pattern and the filters, OPTIONALs,
//! UNIONs and paths that can be evaluated with it.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;
use oxrdf::Variable;

use super::batch::{Batch, id_columns, record_batch};
use super::context::QueryContext;
use super::operator::{Operator, Solutions, pull, solutions};
use super::pipeline::{Pipeline, build};
use super::step::{Step, explain};
use crate::error::QueryError;
use crate::explain::{Explainer, PlanNode};
use crate::plan::duplicates::without_duplicates;

/// Runs a pipeline of steps from the empty solution, or from each batch of its input.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The variable of each slot.
    pub(crate) slots: Vec<Variable>,
    /// The steps, in order.
    pub(crate) steps: Vec<Step>,
    /// The slot of each column of the input, if there is one.
    pub(crate) input: Vec<usize>,
    /// The slot of each column of the output.
    pub(crate) output: Vec<usize>,
}

impl Operator for Pattern {
    fn name(&self) -> &'static str {
        "Pattern"
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .output
            .iter()
            .map(|s| self.slots[*s].to_string())
            .collect();
        write!(f, "[{}]", names.join(" "))
    }

    fn steps(&self, explainer: &Explainer<'_>) -> Vec<PlanNode> {
        explain(&self.steps, &self.slots, explainer)
    }

    fn ignoring_duplicates(&self) -> Option<Arc<dyn Operator>> {
        Some(Arc::new(Self {
            slots: self.slots.clone(),
            steps: without_duplicates(&self.steps),
            input: self.input.clone(),
            output: self.output.clone(),
        }))
    }

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
        solutions(
            schema,
            stream::try_unfold(state, |mut state| async move {
                Ok(state.next().await?.map(|batch| (batch, state)))
            }),
        )
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

impl Running {
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

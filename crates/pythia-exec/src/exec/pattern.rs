//! The fused pattern operator: one plan node for a whole basic graph pattern and the filters, OPTIONALs,
//! UNIONs and paths that can be evaluated with it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::adaptive::Adaptive;
use super::batch::{Batch, record_batch};
use super::context::QueryContext;
use super::pieces::{FedPieces, Pieces, are_divisible, cut, pieces, pieces_of};
use super::pipeline::build;
use super::row_source::{Advance, Pipeline};
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
        if are_divisible(&self.steps, &context)
            && let Some(input) = input
        {
            let fed = FedPieces::of_pattern(self, input, &schema, &context);
            return solutions_of(schema, Running::Fed(Box::new(fed)));
        }
        if input.is_none() {
            if let Some(adaptive) = Adaptive::of(self, &context) {
                let start = Start {
                    adaptive,
                    schema: Arc::clone(&schema),
                    context,
                };
                return solutions_of(schema, Running::Start(Some(Box::new(start))));
            }
            if let Some(cut) = cut(&self.steps, 0, &context) {
                let pieces = pieces(self, cut, &schema, &context);
                return solutions_of(schema, Running::Pieces(Box::new(pieces)));
            }
        }
        let width = self.slots.len();
        let mut pipeline = build(&self.steps, width, &context, &Arc::default());
        if input.is_none() {
            pipeline.feed(Batch::unit(width));
        }
        let whole = Whole {
            pipeline,
            adaptive: None,
            given: None,
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
    /// Until the first solutions are asked for.
    Start(Option<Box<Start>>),
    Whole(Box<Whole>),
    Pieces(Box<Pieces>),
    Fed(Box<FedPieces>),
}

impl NextBatch for Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if let Self::Start(start) = self
            && let Some(start) = start.take()
        {
            *self = start.run()?;
        }
        match self {
            // It has failed.
            Self::Start(_) => Ok(None),
            Self::Whole(whole) => whole.next().await,
            Self::Pieces(pieces) => pieces.next(),
            Self::Fed(pieces) => pieces.next().await,
        }
    }
}

/// A pattern whose steps may change before the first solutions.
struct Start {
    adaptive: Adaptive,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Start {
    /// Runs the first steps up to their first solutions. From then on, they do not change if the pattern is cut after them.
    fn run(mut self) -> Result<Running, QueryError> {
        let mut pipeline = self.adaptive.start();
        let given = loop {
            match pipeline.advance()? {
                Advance::Surprise { steps, rows } => {
                    self.adaptive.change(&mut pipeline, steps, rows)?;
                }
                Advance::Given(batch) => break Some(batch),
                Advance::Ended => break None,
            }
        };
        let pattern = &self.adaptive.pattern;
        let Some(cut) = self.adaptive.cut else {
            let whole = Whole {
                pipeline,
                given,
                input: None,
                width: pattern.slots.len(),
                input_slots: Vec::new(),
                output: pattern.output.clone(),
                schema: self.schema,
                context: self.context,
                adaptive: Some(self.adaptive),
            };
            return Ok(Running::Whole(Box::new(whole)));
        };
        pipeline.watch(None);
        let first = (pipeline, given);
        let (siblings, schema) = (&self.adaptive.siblings, &self.schema);
        let pieces = pieces_of(pattern, cut, first, siblings, schema, &self.context);
        Ok(Running::Pieces(Box::new(pieces)))
    }
}

/// A pattern that runs on one thread.
struct Whole {
    pipeline: Pipeline,
    /// The steps, if they may change.
    adaptive: Option<Adaptive>,
    /// Solutions that the pipeline has given already.
    given: Option<Batch>,
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
            let given = match self.given.take() {
                Some(batch) => Advance::Given(batch),
                None => self.pipeline.advance()?,
            };
            match given {
                Advance::Given(batch) => {
                    return Ok(Some(output_of(batch, &self.output, &self.schema)?));
                }
                Advance::Surprise { steps, rows } => {
                    let adaptive = self.adaptive.as_mut();
                    let adaptive = adaptive.expect("no other pipeline is watched");
                    adaptive.change(&mut self.pipeline, steps, rows)?;
                    continue;
                }
                Advance::Ended => {}
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            let Some(solutions) = pull(input).await? else {
                return Ok(None);
            };
            let mut seed = Batch::empty(self.width);
            seed.append_solutions(&solutions, &self.input_slots);
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

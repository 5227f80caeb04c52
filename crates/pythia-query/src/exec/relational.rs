//! The plain operators over streams of solutions: projection, slices, concatenation, DISTINCT.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use super::batch::{id_columns, record_batch};
use super::context::QueryContext;
use super::operator::{Operator, Solutions, pull, solutions};
use crate::error::QueryError;

/// Picks and reorders columns; `None` is a column unbound in every solution.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) columns: Vec<Option<usize>>,
}

impl Operator for Project {
    fn name(&self) -> &'static str {
        "Project"
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.columns)
    }

    fn passes_solutions(&self) -> bool {
        true
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        _: Arc<QueryContext>,
    ) -> Solutions {
        let input = inputs.remove(0);
        let columns = self.columns.clone();
        let output = Arc::clone(&schema);
        solutions(
            schema,
            stream::try_unfold(input, move |mut input| {
                let (columns, output) = (columns.clone(), Arc::clone(&output));
                async move {
                    let Some(batch) = pull(&mut input).await? else {
                        return Ok(None);
                    };
                    Ok(Some((project(&batch, &columns, &output)?, input)))
                }
            }),
        )
    }
}

fn project(
    batch: &RecordBatch,
    columns: &[Option<usize>],
    schema: &SchemaRef,
) -> Result<RecordBatch, QueryError> {
    let found = id_columns(batch);
    let columns = columns
        .iter()
        .map(|column| column.map_or_else(Vec::new, |column| found[column].to_vec()))
        .collect();
    Ok(record_batch(schema, columns, batch.num_rows())?)
}

/// Skips and limits solutions.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) start: usize,
    pub(crate) length: Option<usize>,
}

impl Operator for Slice {
    fn name(&self) -> &'static str {
        "Slice"
    }

    fn describe(&self, _: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}", self.start)?;
        match self.length {
            Some(length) => write!(f, " limit {length}"),
            None => Ok(()),
        }
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        _: Arc<QueryContext>,
    ) -> Solutions {
        let state = (
            inputs.remove(0),
            self.start,
            self.length.unwrap_or(usize::MAX),
        );
        solutions(
            schema,
            stream::try_unfold(state, |(mut input, mut skip, mut left)| async move {
                while left > 0 {
                    let Some(batch) = pull(&mut input).await? else {
                        return Ok(None);
                    };
                    let rows = batch.num_rows();
                    if rows <= skip {
                        skip -= rows;
                        continue;
                    }
                    let length = (rows - skip).min(left);
                    let slice = batch.slice(skip, length);
                    skip = 0;
                    left -= length;
                    return Ok(Some((slice, (input, skip, left))));
                }
                Ok(None)
            }),
        )
    }
}

/// The solutions of each input in turn. Inputs have the same columns.
#[derive(Debug)]
pub(crate) struct Concatenate;

impl Operator for Concatenate {
    fn name(&self) -> &'static str {
        "Union"
    }

    fn describe(&self, _: usize, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn passes_solutions(&self) -> bool {
        true
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        _: Arc<QueryContext>,
    ) -> Solutions {
        inputs.reverse();
        let output = Arc::clone(&schema);
        solutions(
            schema,
            stream::try_unfold(inputs, move |mut inputs| {
                let output = Arc::clone(&output);
                async move {
                    while let Some(input) = inputs.last_mut() {
                        if let Some(batch) = pull(input).await? {
                            let batch = batch
                                .with_schema(output)
                                .map_err(datafusion_common::DataFusionError::from)?;
                            return Ok(Some((batch, inputs)));
                        }
                        inputs.pop();
                    }
                    Ok(None)
                }
            }),
        )
    }
}

/// Drops solutions already given. Terms are compared by identity.
#[derive(Debug)]
pub(crate) struct Distinct;

impl Operator for Distinct {
    fn name(&self) -> &'static str {
        "Distinct"
    }

    fn describe(&self, _: usize, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let seen: HashSet<Box<[u64]>, FxBuildHasher> = HashSet::default();
        let state = (inputs.remove(0), seen, context, Arc::clone(&schema));
        solutions(
            schema,
            stream::try_unfold(state, |(mut input, mut seen, context, output)| async move {
                while let Some(batch) = pull(&mut input).await? {
                    context.check()?;
                    if let Some(batch) = new_rows(&batch, &mut seen, &context, &output)? {
                        return Ok(Some((batch, (input, seen, context, output))));
                    }
                }
                Ok(None)
            }),
        )
    }
}

/// The rows of a batch not seen before, which are added to `seen`.
fn new_rows(
    batch: &RecordBatch,
    seen: &mut HashSet<Box<[u64]>, FxBuildHasher>,
    context: &QueryContext,
    schema: &SchemaRef,
) -> Result<Option<RecordBatch>, QueryError> {
    let columns = id_columns(batch);
    let mut key = vec![0; columns.len()];
    let mut rows = Vec::new();
    for row in 0..batch.num_rows() {
        for (value, column) in key.iter_mut().zip(&columns) {
            *value = column[row];
        }
        if !seen.contains(&key[..]) {
            seen.insert(key.clone().into_boxed_slice());
            rows.push(row);
        }
    }
    context.reserve(rows.len() * (columns.len() * 8 + 32))?;
    if rows.is_empty() {
        return Ok(None);
    }
    let columns = columns
        .iter()
        .map(|column| rows.iter().map(|&row| column[row]).collect())
        .collect();
    Ok(Some(record_batch(schema, columns, rows.len())?))
}

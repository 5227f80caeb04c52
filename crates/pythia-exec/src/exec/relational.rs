//! Basic operators over streams of solutions: projection, slices, concatenation, DISTINCT.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream;

use super::batch::{BATCH_ROWS, gather, id_columns, record_batch};
use super::context::QueryContext;
use super::solutions::{Execute, Solutions, pull, solutions};
use crate::error::QueryError;
use crate::limits::governor::Share;
use crate::limits::spill::distinct::DistinctRows;
use crate::limits::spill::file::SpillFile;
use crate::limits::spill::merge::{Merge, SortedWriter};
use crate::plan::operators::{Project, RowLimit, Slice};

impl Execute for Project {
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

impl Execute for Slice {
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

impl Execute for RowLimit {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        _: Arc<QueryContext>,
    ) -> Solutions {
        let limit = self.rows;
        let state = (inputs.remove(0), limit, false);
        solutions(
            schema,
            stream::try_unfold(state, move |(mut input, left, exceeded)| async move {
                if exceeded {
                    return Err(QueryError::RowLimit(limit));
                }
                let Some(batch) = pull(&mut input).await? else {
                    return Ok(None);
                };
                let rows = batch.num_rows() as u64;
                if rows <= left {
                    return Ok(Some((batch, (input, left - rows, false))));
                }
                // Less than the batch's number of rows, so it fits.
                let batch = batch.slice(0, left as usize);
                Ok(Some((batch, (input, 0, true))))
            }),
        )
    }
}

/// Returns the solutions of each input in turn. All inputs have the same columns.
#[derive(Debug)]
pub(crate) struct Concatenate;

impl Execute for Concatenate {
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

/// Drops solutions that were already returned. Terms are compared by identity.
#[derive(Debug)]
pub(crate) struct Distinct;

impl Execute for Distinct {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let width = schema.fields().len();
        let distinct = Deduplication {
            rows: Some(DistinctRows::new(context.governor(), width, 1).parted()),
            number: 0,
            merge: None,
            schema: Arc::clone(&schema),
            context,
        };
        let state = (inputs.remove(0), distinct);
        solutions(
            schema,
            stream::try_unfold(state, |(mut input, mut distinct)| async move {
                while distinct.rows.is_some() {
                    let Some(batch) = pull(&mut input).await? else {
                        distinct.finish()?;
                        break;
                    };
                    if let Some(batch) = distinct.new_rows(&batch)? {
                        return Ok(Some((batch, (input, distinct))));
                    }
                }
                Ok(distinct.next()?.map(|batch| (batch, (input, distinct))))
            }),
        )
    }
}

/// Returns distinct rows in the order of their first appearance: new rows immediately, and rows that do not
/// fit into memory after the last input.
struct Deduplication {
    rows: Option<DistinctRows>,
    /// Number of rows up to now.
    number: u64,
    merge: Option<Merge>,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl Deduplication {
    /// Returns the rows of a batch that are known to be new.
    fn new_rows(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>, QueryError> {
        self.context.check()?;
        let seen = self.rows.as_mut().expect("rows come before the end");
        let (columns, rows) = (id_columns(batch), batch.num_rows());
        let new = seen.offer_all(&columns, rows, self.number)?;
        self.number += rows as u64;
        if new.is_empty() {
            return Ok(None);
        }
        let columns = match new.len() == rows {
            true => columns.into_iter().map(<[u64]>::to_vec).collect(),
            false => columns.iter().map(|column| gather(column, &new)).collect(),
        };
        Ok(Some(record_batch(&self.schema, columns, new.len())?))
    }

    /// Resolves the deferred rows after the last input. Each pass over them makes a run sorted by their
    /// numbers.
    fn finish(&mut self) -> Result<(), QueryError> {
        let rows = self.rows.take().expect("finished once");
        if !rows.has_put_off() {
            return Ok(());
        }
        let width = self.schema.fields().len();
        let file = SpillFile::create(self.context.governor().spill())?;
        let block_bytes = rows.block_bytes();
        let mut runs = Vec::new();
        let mut writer = SortedWriter::new(&file, block_bytes);
        let mut current = 0;
        rows.drain(|pass, row| {
            if pass != current {
                current = pass;
                let next = SortedWriter::new(&file, block_bytes);
                runs.push(std::mem::replace(&mut writer, next).finish()?);
            }
            writer.push(&row[width].to_be_bytes(), &row[..width])
        })?;
        runs.push(writer.finish()?);
        self.merge = Some(Merge::new(
            runs,
            width,
            Share::new(self.context.governor()),
        )?);
        Ok(())
    }

    /// Returns the next deferred rows.
    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let Some(merge) = &mut self.merge else {
            return Ok(None);
        };
        let most = self
            .context
            .governor()
            .batch_rows(self.schema.fields().len() + 1);
        let (columns, rows) = merge.next_columns(most.min(BATCH_ROWS))?;
        if rows == 0 {
            self.merge = None;
            return Ok(None);
        }
        Ok(Some(record_batch(&self.schema, columns, rows)?))
    }
}

//! Solutions kept as ids in a temporary file, so that they can be read more than once.

use std::sync::Arc;

use oxrdf::Variable;
use pythia_store::IdBatch;

use super::{SolutionBatch, SolutionStream, decode};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::spill::file::SpillFile;
use crate::limits::spill::rows::{RowReader, RowRun, RowWriter};

/// Size of a block that is read and decoded at once: a few thousand rows.
const BLOCK_BYTES: usize = 1 << 16;

/// All solutions of a query, in order, at eight bytes per term. Each pass decodes them again. Memory use is
/// constant.
pub struct SpooledSolutions {
    variables: Arc<[Variable]>,
    context: Arc<QueryContext>,
    run: RowRun,
    reader: RowReader,
}

impl SolutionStream {
    /// Runs the query to its end and stores its solutions in a temporary file.
    pub fn spool(mut self) -> Result<SpooledSolutions, QueryError> {
        let file = SpillFile::create(self.context().governor().spill())?;
        let mut rows = RowWriter::new(&file, self.variables().len(), BLOCK_BYTES);
        let mut row = Vec::with_capacity(self.variables().len());
        while let Some(batch) = self.next_ids()? {
            self.context().check()?;
            for index in 0..batch.rows {
                row.clear();
                row.extend(batch.columns.iter().map(|column| column[index]));
                rows.push(&row)?;
            }
        }
        let run = rows.finish()?;
        Ok(SpooledSolutions {
            variables: Arc::clone(&self.decoder.variables),
            context: Arc::clone(self.context()),
            reader: run.reader(),
            run,
        })
    }
}

impl SpooledSolutions {
    /// Returns the variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns the number of solutions.
    pub fn rows(&self) -> u64 {
        self.run.rows()
    }

    /// Starts the next pass at the first solution.
    pub fn rewind(&mut self) {
        self.reader = self.run.reader();
    }

    /// Returns the next solutions of this pass, or `None` at its end.
    pub fn next_batch(&mut self) -> Result<Option<SolutionBatch>, QueryError> {
        self.context.check()?;
        let width = self.variables.len();
        let mut ids = Vec::new();
        let rows = self.reader.next_rows(&mut ids)?;
        if rows == 0 {
            return Ok(None);
        }
        let column = |index: usize| ids.iter().skip(index).step_by(width).copied().collect();
        let columns = (0..width).map(column).collect();
        decode(&self.context, &self.variables, &IdBatch { columns, rows }).map(Some)
    }
}

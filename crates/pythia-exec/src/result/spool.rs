//! Solutions kept as ids in a temporary file, so that they can be read more than once.

use std::sync::Arc;

use oxrdf::Variable;
use pythia_store::IdBatch;

use super::mapped::{Mapped, MappedResults, Source, map_solutions};
use super::{SolutionBatch, SolutionStream};
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
        Ok(SpooledSolutions {
            variables: Arc::clone(&self.decoder.variables),
            context: Arc::clone(self.context()),
            run: rows.finish()?,
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

    /// Makes something of each batch of the solutions, from the first one on.
    pub fn mapped<T: Mapped>(
        &self,
        map: impl Fn(SolutionBatch) -> T + Send + Sync + 'static,
    ) -> MappedResults<T> {
        let rows = Rows {
            reader: self.run.reader(),
            width: self.variables.len(),
        };
        let (variables, context) = (Arc::clone(&self.variables), Arc::clone(&self.context));
        map_solutions(IdBatch::default(), rows, variables, context, map)
    }
}

/// The solutions in a file.
struct Rows {
    reader: RowReader,
    width: usize,
}

impl Source for Rows {
    fn next_ids(&mut self) -> Result<Option<IdBatch>, QueryError> {
        let mut ids = Vec::new();
        let rows = self.reader.next_rows(&mut ids)?;
        let column = |index: usize| {
            ids.iter()
                .skip(index)
                .step_by(self.width)
                .copied()
                .collect()
        };
        let columns = (0..self.width).map(column).collect();
        Ok((rows > 0).then_some(IdBatch { columns, rows }))
    }
}

//! A query's solutions kept as ids in a temporary file, to be read more than once.

use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use oxrdf::Variable;
use pythia_store::IdBatch;
use tempfile::SpooledTempFile;

use super::{SolutionBatch, SolutionStream, decode};
use crate::error::QueryError;
use crate::exec::context::QueryContext;

/// Spools up to this size stay in memory.
const MEMORY_BYTES: usize = 1 << 20;
/// Rows decoded at once, so that memory is bounded whatever batches the query made.
const ROWS_MAX: usize = 4096;

/// All solutions of a query, in order, eight bytes a term. Each pass decodes them anew; memory
/// stays constant.
pub struct SpooledSolutions {
    variables: Arc<[Variable]>,
    context: Arc<QueryContext>,
    file: BufReader<SpooledTempFile>,
    rows: u64,
    /// Rows not read in this pass.
    left: u64,
}

impl SolutionStream {
    /// Runs the query to its end and keeps its solutions.
    pub fn spool(mut self) -> Result<SpooledSolutions, QueryError> {
        let mut out = BufWriter::new(tempfile::spooled_tempfile(MEMORY_BYTES));
        let mut rows = 0;
        while let Some(batch) = self.next_ids()? {
            self.context.check()?;
            write(&mut out, &batch).map_err(QueryError::TemporaryFile)?;
            rows += batch.rows as u64;
        }
        let file = out
            .into_inner()
            .map_err(|error| QueryError::TemporaryFile(error.into_error()))?;
        let mut spooled = SpooledSolutions {
            variables: self.variables,
            context: self.context,
            file: BufReader::with_capacity(1 << 16, file),
            rows,
            left: 0,
        };
        spooled.rewind()?;
        Ok(spooled)
    }
}

impl SpooledSolutions {
    /// The variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// How many solutions there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Starts the next pass at the first solution.
    pub fn rewind(&mut self) -> Result<(), QueryError> {
        self.left = self.rows;
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(QueryError::TemporaryFile)?;
        Ok(())
    }

    /// The next solutions of this pass; `None` at its end.
    pub fn next_batch(&mut self) -> Result<Option<SolutionBatch>, QueryError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.context.check()?;
        let rows = self.left.min(ROWS_MAX as u64) as usize;
        let ids = self.read(rows).map_err(QueryError::TemporaryFile)?;
        self.left -= rows as u64;
        decode(&self.context, &self.variables, &ids).map(Some)
    }

    fn read(&mut self, rows: usize) -> io::Result<IdBatch> {
        let mut columns = vec![Vec::with_capacity(rows); self.variables.len()];
        for _ in 0..rows {
            for column in &mut columns {
                let mut id = [0; 8];
                self.file.read_exact(&mut id)?;
                column.push(u64::from_le_bytes(id));
            }
        }
        Ok(IdBatch { columns, rows })
    }
}

fn write(out: &mut impl Write, batch: &IdBatch) -> io::Result<()> {
    for row in 0..batch.rows {
        for column in &batch.columns {
            out.write_all(&column[row].to_le_bytes())?;
        }
    }
    Ok(())
}

//! Results: decoding of ids into terms, batch by batch.

mod construct;
mod describe;
mod mapped;
mod spool;
pub mod template;
mod triples;

use std::ops::Range;
use std::sync::Arc;

use futures::executor::block_on;
use oxrdf::{Term, Variable};
use pythia_rdf::language::recommend_form;
use pythia_rdf::{TermId, term_text_bytes};
use pythia_store::IdBatch;

use mapped::Decode;
pub use mapped::{Mapped, MappedResults};
pub use spool::SpooledSolutions;
pub use triples::TripleStream;

use crate::error::QueryError;
use crate::exec::batch::id_columns;
use crate::exec::context::QueryContext;
use crate::exec::solutions::{Solutions, pull};
use crate::limits::governor::Working;

/// The results of a query.
pub enum Results {
    /// SELECT.
    Solutions(SolutionStream),
    /// CONSTRUCT and DESCRIBE.
    Graph(TripleStream),
    /// ASK.
    Boolean(bool),
}

/// Solutions, computed batch by batch on demand.
pub struct SolutionStream {
    /// `None` once it is dropped.
    stream: Option<Solutions>,
    decoder: Decoder,
}

/// Maximum number of ids that are decoded together.
const CELLS_MAX: usize = 1 << 16;

/// Approximate maximum bytes of the texts of solutions or triples that are decoded together. A text counts for each place where it is
/// written.
const TEXT_BYTES: usize = 8 << 20;

/// Some solutions with their terms. Each distinct term is stored once.
#[derive(Debug)]
pub struct SolutionBatch {
    variables: Arc<[Variable]>,
    terms: Vec<Term>,
    /// Per column and row, the term's index in `terms` plus one; 0 if unbound.
    columns: Vec<Vec<u32>>,
    rows: usize,
    /// Memory of the terms, charged to the query.
    charge: Working,
}

impl SolutionBatch {
    /// Returns the number of solutions.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether the batch has no solutions.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns the distinct terms of all solutions.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the term of a column in a row, or `None` if unbound.
    pub fn term(&self, row: usize, column: usize) -> Option<&Term> {
        Some(&self.terms[self.place(row, column)?])
    }

    /// Returns the place of the term of a column in a row in [`Self::terms`], or `None` if unbound.
    pub fn place(&self, row: usize, column: usize) -> Option<usize> {
        let place = self.columns[column][row].checked_sub(1)?;
        Some(place as usize)
    }

    /// Returns the approximate bytes of the solutions in memory.
    pub fn bytes(&self) -> usize {
        self.charge.bytes() + self.columns.len() * self.rows * size_of::<u32>()
    }

    /// Keeps the first solutions, at least one, whose texts take about this many bytes when they are written.
    fn truncate_to(&mut self, bytes_max: usize) {
        let lengths: Vec<usize> = self.terms.iter().map(term_text_bytes).collect();
        let longest = lengths.iter().max().copied().unwrap_or(0);
        if longest.saturating_mul(self.columns.len() * self.rows) <= bytes_max {
            return;
        }
        let of_row = |row: usize| {
            let places = self.columns.iter().filter_map(|c| c[row].checked_sub(1));
            places.map(|place| lengths[place as usize]).sum::<usize>()
        };
        let mut bytes = 0;
        let fitting = (0..self.rows).take_while(|row| {
            bytes += of_row(*row);
            bytes <= bytes_max
        });
        self.rows = fitting.count().max(1).min(self.rows);
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
    }

    /// Returns the terms of one solution, in column order.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (&Variable, Option<&Term>)> {
        self.variables
            .iter()
            .enumerate()
            .map(move |(column, variable)| (variable, self.term(row, column)))
    }
}

/// Drops the tests of `EXISTS`, whose running pipelines hold the query's context and would keep it alive. Threads of the
/// stream keep tests until it is dropped.
impl Drop for SolutionStream {
    fn drop(&mut self) {
        self.stream = None;
        self.context().drop_exists_from(0);
    }
}

impl SolutionStream {
    /// Makes the solutions of a running query.
    pub fn new(variables: Vec<Variable>, stream: Solutions, context: Arc<QueryContext>) -> Self {
        Self {
            stream: Some(stream),
            decoder: Decoder::new(variables.into(), context),
        }
    }

    /// Returns the variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.decoder.variables
    }

    /// Returns the context that the query's operators share.
    pub fn context(&self) -> &Arc<QueryContext> {
        &self.decoder.context
    }

    /// Returns the next solutions as raw ids by column. Blocks until some are available.
    pub fn next_ids(&mut self) -> Result<Option<IdBatch>, QueryError> {
        let _busy = self.decoder.context.cores().compute();
        loop {
            let stream = self.stream.as_mut().expect("dropped at the end");
            let Some(batch) = block_on(pull(stream))? else {
                return Ok(None);
            };
            if batch.num_rows() > 0 {
                let columns = id_columns(&batch)
                    .into_iter()
                    .map(<[u64]>::to_vec)
                    .collect();
                return Ok(Some(IdBatch {
                    columns,
                    rows: batch.num_rows(),
                }));
            }
        }
    }

    /// Returns the next solutions, or `None` at the end. Blocks until some are available.
    pub fn next_batch(&mut self) -> Result<Option<SolutionBatch>, QueryError> {
        loop {
            if let Some(batch) = self.decoder.next()? {
                return Ok(Some(batch));
            }
            match self.next_ids()? {
                Some(ids) => self.decoder.begin(ids),
                None => return Ok(None),
            }
        }
    }
}

/// Decodes the terms of solutions, some solutions at a time.
struct Decoder {
    variables: Arc<[Variable]>,
    context: Arc<QueryContext>,
    /// Current solutions, and the number of them that are decoded.
    ids: IdBatch,
    decoded: usize,
    /// Number of ids that are decoded together.
    cells: usize,
}

impl Decoder {
    fn new(variables: Arc<[Variable]>, context: Arc<QueryContext>) -> Self {
        Self {
            variables,
            context,
            ids: IdBatch::default(),
            decoded: 0,
            cells: CELLS_MAX,
        }
    }

    /// Takes the solutions that are not decoded.
    fn take_rest(&mut self) -> IdBatch {
        let rest = rows_of(&self.ids, self.decoded..self.ids.rows);
        self.begin(IdBatch::default());
        rest
    }
}

impl Decode for Decoder {
    type Ids = IdBatch;
    type Batch = SolutionBatch;

    fn begin(&mut self, ids: IdBatch) {
        (self.ids, self.decoded) = (ids, 0);
    }

    fn next(&mut self) -> Result<Option<SolutionBatch>, QueryError> {
        if self.decoded == self.ids.rows {
            self.begin(IdBatch::default());
            return Ok(None);
        }
        loop {
            self.context.check()?;
            let rows = (self.cells / self.variables.len().max(1)).max(1);
            let part = self.decoded..(self.decoded + rows).min(self.ids.rows);
            let ids = rows_of(&self.ids, part.clone());
            match decode(&self.context, &self.variables, &ids) {
                // Terms may be long, so fewer of them may fit.
                Err(QueryError::Memory(_)) if part.len() > 1 => self.cells /= 2,
                Err(error) => return Err(error),
                Ok(mut batch) => {
                    batch.truncate_to(TEXT_BYTES);
                    self.decoded += batch.rows;
                    // The next texts are probably as long.
                    self.cells = match batch.rows < part.len() {
                        true => 2 * batch.rows * self.variables.len(),
                        false => (2 * self.cells).min(CELLS_MAX),
                    };
                    return Ok(Some(batch));
                }
            }
        }
    }
}

/// Returns some of the solutions.
fn rows_of(ids: &IdBatch, rows: Range<usize>) -> IdBatch {
    let columns = ids.columns.iter();
    IdBatch {
        columns: columns
            .map(|column| column[rows.clone()].to_vec())
            .collect(),
        rows: rows.len(),
    }
}

/// Decodes the terms of solutions; each distinct one is fetched once.
fn decode(
    context: &QueryContext,
    variables: &Arc<[Variable]>,
    ids: &IdBatch,
) -> Result<SolutionBatch, QueryError> {
    let mut distinct: Vec<u64> = ids.columns.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct.retain(|id| *id != 0);
    let wanted: Vec<TermId> = distinct.iter().map(|id| TermId(*id)).collect();
    let mut charge = Working::new(context.governor());
    let evaluation = &context.evaluation;
    let mut terms = evaluation.decode_charged(&wanted, size_of::<Term>(), &mut charge)?;
    terms.iter_mut().for_each(recommend_form);
    charge.add(ids.columns.len() * ids.rows * size_of::<u32>())?;
    let place = |id: &u64| {
        distinct
            .binary_search(id)
            .map_or(0, |place| place as u32 + 1)
    };
    let columns = ids
        .columns
        .iter()
        .map(|column| column.iter().map(place).collect())
        .collect();
    Ok(SolutionBatch {
        variables: Arc::clone(variables),
        terms,
        columns,
        rows: ids.rows,
        charge,
    })
}

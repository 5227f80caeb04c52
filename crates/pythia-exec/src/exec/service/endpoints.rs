//! Endpoints that solutions name: all of them are checked before the first request is sent.

use oxrdf::{NamedNode, Term, Variable};
use pythia_rdf::TermId;
use rustc_hash::FxHashSet;

use super::answer::failure;
use super::{Endpoint, Rows, Service};
use crate::error::QueryError;
use crate::exec::batch::id_columns;
use crate::exec::context::QueryContext;
use crate::exec::solutions::{Solutions, pull};
use crate::limits::governor::Held;
use crate::limits::spill::file::SpillFile;
use crate::limits::spill::rows::{RowReader, RowWriter};
use crate::service::{ServiceError, check};

/// Number of solutions that wait in memory while the endpoints are checked; more wait in a temporary file.
const WAITING_MAX: usize = 4096;
/// Size of a block of the file.
const BLOCK_BYTES: usize = 1 << 16;
/// Bytes per endpoint that was checked.
const ENDPOINT_BYTES: usize = 2 * size_of::<u64>();

/// The solutions to join.
pub(super) enum Input {
    /// Nothing was read yet.
    Unchecked(Solutions),
    /// Their endpoints are known to be allowed, or each is checked when it is asked.
    Checked(Solutions),
    /// Solutions in a file, whose endpoints are known to be allowed.
    Kept(RowReader),
    Over,
}

impl Input {
    /// Appends more solutions. Returns whether there may be any.
    pub(super) async fn read(
        &mut self,
        service: &Service,
        context: &QueryContext,
        rows: &mut Rows,
    ) -> Result<bool, QueryError> {
        *self = match std::mem::replace(self, Self::Over) {
            Self::Unchecked(input) => match &service.endpoint {
                Endpoint::Column(column, variable) if !service.silent => {
                    let mut endpoints = Endpoints::new(*column, variable, context);
                    endpoints.read_all(input, rows).await?
                }
                _ => Self::Checked(input),
            },
            Self::Checked(mut input) => match pull(&mut input).await? {
                Some(batch) => {
                    rows.append(&batch);
                    Self::Checked(input)
                }
                None => Self::Over,
            },
            Self::Kept(mut reader) => {
                let mut ids = Vec::new();
                match reader.next_rows(&mut ids)? {
                    0 => Self::Over,
                    _ => {
                        rows.append_ids(&ids);
                        Self::Kept(reader)
                    }
                }
            }
            Self::Over => Self::Over,
        };
        Ok(!matches!(self, Self::Over))
    }
}

/// The endpoints of a SERVICE that are known to be allowed.
struct Endpoints<'a> {
    column: usize,
    variable: &'a Variable,
    context: &'a QueryContext,
    allowed: FxHashSet<u64>,
    held: Held,
}

impl<'a> Endpoints<'a> {
    fn new(column: usize, variable: &'a Variable, context: &'a QueryContext) -> Self {
        Self {
            column,
            variable,
            context,
            allowed: FxHashSet::default(),
            held: Held::new(context.governor()),
        }
    }

    /// Reads all solutions: the first into `rows`, the others into a file. Checks their endpoints.
    async fn read_all(
        &mut self,
        mut input: Solutions,
        rows: &mut Rows,
    ) -> Result<Input, QueryError> {
        let mut file: Option<RowWriter> = None;
        while let Some(batch) = pull(&mut input).await? {
            self.context.check()?;
            let columns = id_columns(&batch);
            self.check(columns[self.column])?;
            if file.is_none() && rows.count + batch.num_rows() <= WAITING_MAX {
                rows.append(&batch);
                continue;
            }
            let writer = match &mut file {
                Some(writer) => writer,
                None => {
                    let spill = SpillFile::create(self.context.governor().spill())?;
                    file.insert(RowWriter::new(&spill, columns.len(), BLOCK_BYTES))
                }
            };
            let mut ids = Vec::with_capacity(columns.len());
            for row in 0..batch.num_rows() {
                ids.clear();
                ids.extend(columns.iter().map(|column| column[row]));
                writer.push(&ids)?;
            }
        }
        Ok(match file {
            Some(writer) => Input::Kept(writer.finish()?.reader()),
            None => Input::Over,
        })
    }

    /// Returns an error if one of the endpoints may not be asked.
    fn check(&mut self, ids: &[u64]) -> Result<(), QueryError> {
        let Some(handler) = &self.context.service else {
            // Said when it is asked.
            return Ok(());
        };
        for &id in ids {
            if self.allowed.contains(&id) {
                continue;
            }
            let endpoint = named(TermId(id), self.variable, self.context)??;
            check(handler.as_ref(), &endpoint)?;
            self.held.add(ENDPOINT_BYTES)?;
            self.allowed.insert(id);
        }
        Ok(())
    }
}

/// Returns the endpoint that a solution names, or why there is none.
pub(super) fn named(
    id: TermId,
    variable: &Variable,
    context: &QueryContext,
) -> Result<Result<NamedNode, QueryError>, QueryError> {
    let unfit =
        |endpoint: &str, message: String| Ok(Err(failure(endpoint, &ServiceError(message))));
    if !id.is_bound() {
        let message =
            format!("{variable} is unbound in a solution, so there is no endpoint to ask");
        return unfit(&variable.to_string(), message);
    }
    match context.evaluation.decode(&[id])?.remove(0) {
        Term::NamedNode(endpoint) => Ok(Ok(endpoint)),
        term => {
            let message = format!("it is a value of {variable}, but no IRI of an endpoint");
            unfit(&term.to_string(), message)
        }
    }
}

//! Solutions whose terms are read, and turned into something else, by several threads.

use std::sync::Arc;

use oxrdf::Variable;
use pythia_store::IdBatch;

use super::{Decoder, SolutionBatch, SolutionStream, rows_of};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::{Items, Ordered, Work};

/// Maximum number of ids that a thread takes at once.
const CELLS_TAKEN: usize = 1 << 14;

type Map<T> = dyn Fn(SolutionBatch) -> T + Send + Sync;

/// Values made of each batch of solutions, in order.
pub struct MappedSolutions<T: Mapped> {
    ordered: Ordered<Parts, Mapping<T>>,
    context: Arc<QueryContext>,
}

/// A value made of a batch of solutions.
pub trait Mapped: Send + 'static {
    /// Returns the bytes of memory that it takes.
    fn bytes(&self) -> usize;
}

/// An error takes none.
impl<T: Mapped, E: Send + 'static> Mapped for Result<T, E> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, T::bytes)
    }
}

/// Solutions as raw ids by column.
pub(super) trait Source: Send {
    /// Returns the next solutions, or `None` at the end.
    fn next_ids(&mut self) -> Result<Option<IdBatch>, QueryError>;
}

impl Source for SolutionStream {
    fn next_ids(&mut self) -> Result<Option<IdBatch>, QueryError> {
        self.next_ids()
    }
}

impl SolutionStream {
    /// Returns whether several threads may work on the solutions.
    pub fn may_be_helped(&self) -> bool {
        self.context().cores().are_several()
    }

    /// Makes something of each batch of the solutions that were not returned yet.
    pub fn mapped<T: Mapped>(
        mut self,
        map: impl Fn(SolutionBatch) -> T + Send + Sync + 'static,
    ) -> MappedSolutions<T> {
        let rest = self.decoder.take_rest();
        let context = Arc::clone(self.context());
        let variables = Arc::clone(&self.decoder.variables);
        MappedSolutions::new(rest, self, variables, context, map)
    }
}

impl<T: Mapped> MappedSolutions<T> {
    /// Makes something of each batch of some solutions and those of a source after them.
    pub(super) fn new(
        first: IdBatch,
        source: impl Source + 'static,
        variables: Arc<[Variable]>,
        context: Arc<QueryContext>,
        map: impl Fn(SolutionBatch) -> T + Send + Sync + 'static,
    ) -> Self {
        let map: Arc<Map<T>> = Arc::new(map);
        let query = Arc::clone(&context);
        let mapping = move || Mapping {
            decoder: Decoder::new(Arc::clone(&variables), Arc::clone(&query)),
            map: Arc::clone(&map),
        };
        let parts = Parts {
            ids: first,
            source: Box::new(source),
            given: 0,
        };
        Self {
            ordered: Ordered::new(parts, usize::MAX, mapping, context.governor()),
            context,
        }
    }

    /// Returns what was made of the next batch, or `None` at the end. Blocks until it is there.
    pub fn next_part(&mut self) -> Result<Option<T>, QueryError> {
        let _busy = self.context.cores().compute();
        self.ordered.next()
    }
}

/// The ids of solutions, in parts for the threads.
struct Parts {
    source: Box<dyn Source>,
    /// Current solutions, and the number of them that were given out.
    ids: IdBatch,
    given: usize,
}

impl Items for Parts {
    type Item = IdBatch;

    fn next(&mut self) -> Result<Option<IdBatch>, QueryError> {
        if self.given == self.ids.rows {
            (self.ids, self.given) = (IdBatch::default(), 0);
            self.ids = match self.source.next_ids()? {
                Some(ids) => ids,
                None => return Ok(None),
            };
        }
        let rows = (CELLS_TAKEN / self.ids.columns.len().max(1)).max(1);
        let end = (self.given + rows).min(self.ids.rows);
        let part = rows_of(&self.ids, self.given..end);
        self.given = end;
        Ok(Some(part))
    }
}

/// The work of one thread.
struct Mapping<T> {
    decoder: Decoder,
    map: Arc<Map<T>>,
}

impl<T: Mapped> Work for Mapping<T> {
    type Item = IdBatch;
    type Output = T;

    fn begin(&mut self, part: IdBatch) {
        self.decoder.begin(part);
    }

    fn next(&mut self) -> Result<Option<T>, QueryError> {
        Ok(self.decoder.next()?.map(|batch| (self.map)(batch)))
    }

    fn bytes(made: &T) -> usize {
        made.bytes()
    }
}

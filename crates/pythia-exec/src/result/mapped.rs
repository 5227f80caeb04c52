//! Results whose terms are read, and turned into something else, by several threads.

use std::sync::Arc;

use oxrdf::Variable;
use pythia_store::IdBatch;

use super::{Decoder, SolutionBatch, SolutionStream, TEXT_BYTES, rows_of};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::{Items, Ordered, Work};

/// Maximum number of ids that a thread takes at once.
const CELLS_TAKEN: usize = 1 << 14;

/// Values made of each batch of results, in order.
pub struct MappedResults<T> {
    next: Box<dyn FnMut() -> Result<Option<T>, QueryError> + Send>,
    context: Arc<QueryContext>,
}

/// A value made of a batch of results.
pub trait Mapped: Send + 'static {
    /// Returns the bytes of memory that it takes.
    fn bytes(&self) -> usize;
}

/// An error counts as much as what may wait, so that little is made after it.
impl<T: Mapped, E: Send + 'static> Mapped for Result<T, E> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(TEXT_BYTES, T::bytes)
    }
}

/// Reads the terms of results, some at a time.
pub(super) trait Decode: Send + 'static {
    /// Results as ids.
    type Ids: Send;
    /// Some of them with their terms.
    type Batch: 'static;

    /// Begins with the next results. Those before are all decoded.
    fn begin(&mut self, ids: Self::Ids);

    /// Returns the next decoded results, or `None` if all are.
    fn next(&mut self) -> Result<Option<Self::Batch>, QueryError>;
}

impl<T: Mapped> MappedResults<T> {
    /// Makes something of each batch. Each thread has a decoder, which holds up to some bytes.
    pub(super) fn new<D: Decode>(
        ids: impl Items<Item = D::Ids>,
        decoder: impl Fn() -> D + Send + Sync + 'static,
        held: usize,
        context: Arc<QueryContext>,
        map: impl Fn(D::Batch) -> T + Send + Sync + 'static,
    ) -> Self {
        let map: Arc<Map<D, T>> = Arc::new(map);
        let mapping = move || Mapping {
            decoder: decoder(),
            map: Arc::clone(&map),
        };
        let governor = context.governor();
        let ordered = Ordered::new(ids, usize::MAX, mapping, governor);
        let mut ordered = ordered.with_held(held, governor);
        Self {
            next: Box::new(move || ordered.next()),
            context,
        }
    }

    /// Returns what was made of the next batch, or `None` at the end. Blocks until it is there.
    pub fn next_part(&mut self) -> Result<Option<T>, QueryError> {
        let _busy = self.context.cores().compute();
        (self.next)()
    }
}

type Map<D, T> = dyn Fn(<D as Decode>::Batch) -> T + Send + Sync;

/// The work of one thread.
struct Mapping<D: Decode, T> {
    decoder: D,
    map: Arc<Map<D, T>>,
}

impl<D: Decode, T: Mapped> Work for Mapping<D, T> {
    type Item = D::Ids;
    type Output = T;

    fn begin(&mut self, ids: D::Ids) {
        self.decoder.begin(ids);
    }

    fn next(&mut self) -> Result<Option<T>, QueryError> {
        Ok(self.decoder.next()?.map(|batch| (self.map)(batch)))
    }

    fn bytes(made: &T) -> usize {
        made.bytes()
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
    ) -> MappedResults<T> {
        let rest = self.decoder.take_rest();
        let context = Arc::clone(self.context());
        let variables = Arc::clone(&self.decoder.variables);
        map_solutions(rest, self, variables, context, map)
    }
}

/// Makes something of each batch of some solutions and those of a source after them.
pub(super) fn map_solutions<T: Mapped>(
    first: IdBatch,
    source: impl Source + 'static,
    variables: Arc<[Variable]>,
    context: Arc<QueryContext>,
    map: impl Fn(SolutionBatch) -> T + Send + Sync + 'static,
) -> MappedResults<T> {
    let parts = Parts {
        ids: first,
        source: Box::new(source),
        given: 0,
    };
    let query = Arc::clone(&context);
    let decoder = move || Decoder::new(Arc::clone(&variables), Arc::clone(&query));
    MappedResults::new(parts, decoder, 0, context, map)
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

//! Triples of a CONSTRUCT or DESCRIBE: rows of ids, made one after the other, and their terms, read some at a time by any thread.

use std::sync::Arc;

use oxrdf::{Term, Triple};
use pythia_rdf::language::recommend_form;
use pythia_rdf::{TermId, TermKind, term_text_bytes};
use spargebra::term::TriplePattern;

use super::construct::Construction;
use super::describe::Description;
use super::mapped::{Decode, Mapped, MappedResults};
use super::template::{new_node, triple};
use super::{SolutionStream, TEXT_BYTES};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::Items;
use crate::limits::governor::Working;

/// Ids of a triple's terms: subject, predicate, object. If the object is a triple term: subject, predicate,
/// and the three ids of the object. Unused positions hold 0.
pub(super) type Row = [u64; 5];
pub(super) const ROW_WIDTH: usize = 5;

/// A triple to decode. The second field is the number of its solution if it has new blank nodes.
pub(super) type Pending = (Row, u64);

/// Number of triples decoded at once.
pub(super) const BATCH_ROWS: usize = 4096;

/// Rows of triples, made one after the other.
pub(super) trait TripleRows: Send {
    /// Returns the next rows, at least one, or `None` at the end.
    fn next_rows(&mut self) -> Result<Option<Vec<Pending>>, QueryError>;
}

/// Triples without duplicates, computed on demand.
pub struct TripleStream {
    rows: Box<dyn TripleRows>,
    decoder: TripleDecoder,
    ready: std::vec::IntoIter<Triple>,
    /// Maximum number of triples; `None` for no limit.
    limit: Option<u64>,
    /// Number of triples so far.
    given: u64,
}

impl TripleStream {
    /// Makes the triples of a template, for each solution.
    pub fn construct(
        template: &[TriplePattern],
        solutions: SolutionStream,
    ) -> Result<Self, QueryError> {
        let decoder = TripleDecoder::new(solutions.context(), rand::random());
        let rows = Construction::new(template, solutions, decoder.query)?;
        Ok(Self::new(Box::new(rows), decoder))
    }

    /// Makes the descriptions of the terms in solutions.
    pub fn describe(solutions: SolutionStream) -> Self {
        let decoder = TripleDecoder::new(solutions.context(), 0);
        Self::new(Box::new(Description::new(solutions)), decoder)
    }

    fn new(rows: Box<dyn TripleRows>, decoder: TripleDecoder) -> Self {
        Self {
            rows,
            decoder,
            ready: Vec::new().into_iter(),
            limit: None,
            given: 0,
        }
    }

    /// Fails with an error after this many triples if there are more.
    pub fn limited(mut self, triples: Option<u64>) -> Self {
        self.limit = triples;
        self
    }

    /// Returns the next triples, or `None` at the end. Blocks until some are available.
    pub fn next_batch(&mut self) -> Result<Option<Vec<Triple>>, QueryError> {
        let ready = std::mem::take(&mut self.ready);
        if !ready.as_slice().is_empty() {
            return Ok(Some(ready.collect()));
        }
        let over = self.limit.filter(|limit| self.given > *limit);
        if let Some(limit) = over {
            return Err(QueryError::RowLimit(limit));
        }
        let Some(mut triples) = self.decode_next()? else {
            return Ok(None);
        };
        let before = self.given;
        self.given += triples.len() as u64;
        match self.limit {
            Some(limit) if limit == before => Err(QueryError::RowLimit(limit)),
            Some(limit) => {
                triples.truncate(usize::try_from(limit - before).unwrap_or(usize::MAX));
                Ok(Some(triples))
            }
            None => Ok(Some(triples)),
        }
    }

    fn decode_next(&mut self) -> Result<Option<Vec<Triple>>, QueryError> {
        loop {
            if let Some(triples) = self.decoder.next()? {
                return Ok(Some(triples));
            }
            match self.rows.next_rows()? {
                Some(rows) => self.decoder.begin(rows),
                None => return Ok(None),
            }
        }
    }

    /// Returns the next triple, or `None` at the end. Blocks until one is available.
    pub fn next_triple(&mut self) -> Result<Option<Triple>, QueryError> {
        if self.ready.as_slice().is_empty() {
            let Some(triples) = self.next_batch()? else {
                return Ok(None);
            };
            self.ready = triples.into_iter();
        }
        Ok(self.ready.next())
    }

    /// Returns whether several threads may work on the triples: they are not limited.
    pub fn may_be_helped(&self) -> bool {
        self.limit.is_none() && self.decoder.context.cores().are_several()
    }

    /// Makes something of each batch of the triples that were not returned yet.
    ///
    /// # Panics
    /// Panics for limited triples, and if [`Self::next_triple`] has returned only some of a batch.
    pub fn mapped<T: Mapped>(
        mut self,
        map: impl Fn(Vec<Triple>) -> T + Send + Sync + 'static,
    ) -> MappedResults<T> {
        assert!(self.limit.is_none() && self.ready.as_slice().is_empty());
        let rest = Rest {
            first: self.decoder.take_rest(),
            rows: self.rows,
        };
        let (context, query) = (Arc::clone(&self.decoder.context), self.decoder.query);
        let decoder = move || TripleDecoder::new(&context, query);
        let context = Arc::clone(&self.decoder.context);
        // The terms, and the copies of them.
        MappedResults::new(rest, decoder, 2 * TEXT_BYTES, context, map)
    }
}

/// The triples that are left.
struct Rest {
    /// Rows that were made before.
    first: Vec<Pending>,
    rows: Box<dyn TripleRows>,
}

impl Items for Rest {
    type Item = Vec<Pending>;

    fn next(&mut self) -> Result<Option<Vec<Pending>>, QueryError> {
        match std::mem::take(&mut self.first) {
            first if first.is_empty() => self.rows.next_rows(),
            first => Ok(Some(first)),
        }
    }
}

/// Decodes rows, some at a time. The last decoded triples are charged until the next are decoded.
struct TripleDecoder {
    context: Arc<QueryContext>,
    /// Random number that makes new blank nodes differ from those of all other queries.
    query: u64,
    rows: Vec<Pending>,
    next: usize,
    charge: Working,
}

impl TripleDecoder {
    fn new(context: &Arc<QueryContext>, query: u64) -> Self {
        Self {
            query,
            rows: Vec::new(),
            next: 0,
            charge: Working::new(context.governor()),
            context: Arc::clone(context),
        }
    }

    /// Takes the rows that are not decoded.
    fn take_rest(&mut self) -> Vec<Pending> {
        self.rows.split_off(self.next)
    }

    /// Decodes `count` rows, or fewer if their texts are long.
    fn decode(&mut self, count: usize) -> Result<Vec<Triple>, QueryError> {
        self.charge.clear();
        let rows = &self.rows[self.next..self.next + count];
        let is_stored = |id: &u64| TermId(*id).kind() != TermKind::Nothing;
        let mut ids: Vec<TermId> = rows
            .iter()
            .flat_map(|(row, _)| row)
            .filter(|id| is_stored(id))
            .map(|id| TermId(*id))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let evaluation = &self.context.evaluation;
        let terms = evaluation.decode_charged(&ids, size_of::<Term>(), &mut self.charge)?;
        let stored = |id: u64| {
            ids.binary_search(&TermId(id))
                .ok()
                .map(|place| &terms[place])
        };
        let (mut bytes, mut fitting) = (0, 0);
        for (row, _) in rows {
            let texts = row.iter().filter_map(|id| stored(*id)).map(term_text_bytes);
            bytes += texts.sum::<usize>() + size_of::<Triple>();
            if fitting > 0 && bytes > TEXT_BYTES {
                break;
            }
            fitting += 1;
        }
        self.charge.add(bytes)?;
        let term = |id: u64, solution: u64| -> Option<Term> {
            if id == 0 {
                return None;
            }
            Some(match stored(id) {
                Some(term) => term.clone(),
                None => new_node(id, (self.query, solution)).into(),
            })
        };
        let assemble = |&(row, solution): &Pending| {
            let [s, p, o, inner_p, inner_o] = row.map(|id| term(id, solution));
            let object = match inner_p {
                None => o?,
                Some(inner_p) => triple(o?, inner_p, inner_o?)?.into(),
            };
            triple(s?, p?, object)
        };
        let triples = rows[..fitting].iter().filter_map(assemble).collect();
        self.next += fitting;
        Ok(triples)
    }
}

/// Triples that are not valid RDF are left out.
impl Decode for TripleDecoder {
    type Ids = Vec<Pending>;
    type Batch = Vec<Triple>;

    fn begin(&mut self, rows: Vec<Pending>) {
        debug_assert!(self.next == self.rows.len(), "nothing is left out");
        (self.rows, self.next) = (rows, 0);
    }

    fn next(&mut self) -> Result<Option<Vec<Triple>>, QueryError> {
        while self.next < self.rows.len() {
            self.context.check()?;
            let mut count = (self.rows.len() - self.next).min(BATCH_ROWS);
            let mut triples = loop {
                match self.decode(count) {
                    // Terms may be long, so fewer of them may fit.
                    Err(QueryError::Memory(_)) if count > 1 => count /= 2,
                    other => break other?,
                }
            };
            if !triples.is_empty() {
                for triple in &mut triples {
                    recommend_form(&mut triple.object);
                }
                return Ok(Some(triples));
            }
        }
        self.charge.clear();
        Ok(None)
    }
}

//! Triples as ids, decoded some at a time.

use std::sync::Arc;

use oxrdf::{Term, Triple};
use pythia_rdf::{TermId, TermKind, term_text_bytes};

use super::template::{new_node, triple};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::governor::Working;

/// Ids of a triple's terms: subject, predicate, object. If the object is a triple term: subject, predicate,
/// and the three ids of the object. Unused positions hold 0.
pub(super) type Row = [u64; 5];
pub(super) const ROW_WIDTH: usize = 5;

/// A triple to decode. The second field is the number of its solution if it has new blank nodes.
pub(super) type Pending = (Row, u64);

/// Number of triples decoded at once.
pub(super) const BATCH_ROWS: usize = 4096;
/// Approximate bytes of the texts of triples decoded at once. Each triple has its own copies of the texts.
const BATCH_BYTES: usize = 8 << 20;

/// Triples that are still ids. The last decoded triples are charged until the next are decoded.
pub(super) struct PendingTriples {
    context: Arc<QueryContext>,
    /// Random number that makes new blank nodes differ from those of all other queries.
    query: u64,
    rows: Vec<Pending>,
    next: usize,
    charge: Working,
}

impl PendingTriples {
    pub(super) fn new(context: &Arc<QueryContext>) -> Self {
        Self {
            query: rand::random(),
            rows: Vec::new(),
            next: 0,
            charge: Working::new(context.governor()),
            context: Arc::clone(context),
        }
    }

    /// Returns the numbers that make the new blank nodes of a solution unique.
    pub(super) fn name(&self, solution: u64) -> (u64, u64) {
        (self.query, solution)
    }

    /// Sets the next rows to decode, after all previous ones are decoded.
    pub(super) fn fill(&mut self, rows: Vec<Pending>) {
        debug_assert!(self.next == self.rows.len(), "nothing is left out");
        (self.rows, self.next) = (rows, 0);
    }

    /// Decodes the next triples, without those that are not valid RDF. Returns `None` if nothing is left.
    pub(super) fn next_batch(&mut self) -> Result<Option<Vec<Triple>>, QueryError> {
        while self.next < self.rows.len() {
            self.context.check()?;
            let mut count = (self.rows.len() - self.next).min(BATCH_ROWS);
            let triples = loop {
                match self.decode(count) {
                    // Terms may be long, so fewer of them may fit.
                    Err(QueryError::Memory(_)) if count > 1 => count /= 2,
                    other => break other?,
                }
            };
            if !triples.is_empty() {
                return Ok(Some(triples));
            }
        }
        self.charge.clear();
        Ok(None)
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
            if fitting > 0 && bytes > BATCH_BYTES {
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
                None => new_node(id, self.name(solution)).into(),
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

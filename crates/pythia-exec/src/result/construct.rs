//! Triples of a CONSTRUCT: the template, instantiated with the ids of each solution.
//!
//! Duplicates are found among ids, before any term is decoded. A triple with a blank node of the template can
//! repeat only within one solution, because each solution gets new blank nodes.

use std::sync::Arc;

use hashbrown::HashSet;
use pythia_store::IdBatch;
use spargebra::term::TriplePattern;

use super::SolutionStream;
use super::template::{Filling, TemplateReader, TemplateTerm};
use super::triples::{BATCH_ROWS, Pending, ROW_WIDTH, Row, TripleRows};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::spill::distinct::{DistinctRows, Offered};
use crate::limits::spill::file::SpillFile;
use crate::limits::spill::rows::{RowReader, RowWriter};

/// A running CONSTRUCT.
pub(super) struct Construction {
    solutions: SolutionStream,
    template: Vec<Shape>,
    source: TripleSource,
    /// Random number that makes new blank nodes differ from those of all other queries.
    query: u64,
    solution: u64,
    /// Current batch of solutions, and the next row of it.
    batch: IdBatch,
    row: usize,
}

/// The source of triples.
enum TripleSource {
    /// The query's solutions, with the set of triples returned so far.
    Solutions(DistinctRows),
    /// Triples that the set had no room for and that proved to be new.
    PutOff(RowReader),
    Done,
}

/// A triple of the template: its positions in the order of [`Row`].
struct Shape {
    places: Vec<TemplateTerm>,
    /// True if it has a blank node of the template.
    has_new_node: bool,
}

impl Construction {
    pub(super) fn new(
        template: &[TriplePattern],
        solutions: SolutionStream,
        query: u64,
    ) -> Result<Self, QueryError> {
        let mut reader = TemplateReader::new(solutions.context(), solutions.variables());
        let mut shapes = Vec::new();
        for pattern in template {
            if let Some(places) = reader.places(pattern)? {
                shapes.push(Shape::new(places));
            }
        }
        let given = DistinctRows::new(solutions.context().governor(), ROW_WIDTH, 0);
        Ok(Self {
            solutions,
            template: shapes,
            source: TripleSource::Solutions(given),
            query,
            solution: 0,
            batch: IdBatch::new(0),
            row: 0,
        })
    }

    /// Returns new triples of the next solutions; none at the end of the solutions.
    fn instantiate(&mut self) -> Result<Vec<Pending>, QueryError> {
        let mut pending = Vec::new();
        let mut own: HashSet<Row> = HashSet::new();
        let TripleSource::Solutions(given) = &mut self.source else {
            return Ok(pending);
        };
        let context = Arc::clone(self.solutions.context());
        while pending.len() < BATCH_ROWS {
            if self.row == self.batch.rows {
                // Finished triples are returned before more solutions are computed.
                let next = if pending.is_empty() {
                    self.solutions.next_ids()?
                } else {
                    None
                };
                let Some(batch) = next else { break };
                (self.batch, self.row) = (batch, 0);
            }
            self.solution += 1;
            own.clear();
            let filling = Filling {
                context: &context,
                columns: &self.batch.columns,
                row: self.row,
                name: (self.query, self.solution),
            };
            for shape in &self.template {
                let Some(row) = shape.row(&filling)? else {
                    continue;
                };
                if shape.has_new_node {
                    if own.insert(row) {
                        pending.push((row, self.solution));
                    }
                } else if given.offer(&row)? == Offered::New {
                    pending.push((row, 0));
                }
            }
            self.row += 1;
        }
        Ok(pending)
    }
}

impl TripleRows for Construction {
    fn next_rows(&mut self) -> Result<Option<Vec<Pending>>, QueryError> {
        loop {
            self.solutions.context().check()?;
            let pending: Vec<Pending> = match &mut self.source {
                TripleSource::Solutions(_) => self.instantiate()?,
                TripleSource::PutOff(rows) => {
                    let mut ids = Vec::new();
                    rows.next_rows(&mut ids)?;
                    let rows = ids.chunks_exact(ROW_WIDTH);
                    rows.map(|row| (row.try_into().expect("a row's width"), 0))
                        .collect()
                }
                TripleSource::Done => return Ok(None),
            };
            if !pending.is_empty() {
                return Ok(Some(pending));
            }
            self.source = match std::mem::replace(&mut self.source, TripleSource::Done) {
                TripleSource::Solutions(given) => put_off(given, self.solutions.context())?,
                TripleSource::PutOff(_) | TripleSource::Done => TripleSource::Done,
            };
        }
    }
}

/// Returns the new rows among those put off.
fn put_off(given: DistinctRows, context: &QueryContext) -> Result<TripleSource, QueryError> {
    if !given.has_put_off() {
        return Ok(TripleSource::Done);
    }
    let file = SpillFile::create(context.governor().spill())?;
    let mut rows = RowWriter::new(&file, ROW_WIDTH, given.block_bytes());
    given.drain(|_, row| rows.push(row))?;
    Ok(TripleSource::PutOff(rows.finish()?.reader()))
}

impl Shape {
    fn new(places: [TemplateTerm; 3]) -> Self {
        let has_new_node = places.iter().any(TemplateTerm::has_new_node);
        let [subject, predicate, object] = places;
        let places = match object {
            TemplateTerm::Triple(inner) => {
                let [s, p, o] = *inner;
                vec![subject, predicate, s, p, o]
            }
            object => vec![subject, predicate, object],
        };
        Self {
            places,
            has_new_node,
        }
    }

    /// Returns the ids of this triple in a solution, or `None` if a variable is unbound.
    fn row(&self, filling: &Filling<'_>) -> Result<Option<Row>, QueryError> {
        let mut ids = Row::default();
        for (id, place) in ids.iter_mut().zip(&self.places) {
            match place.id(filling)? {
                Some(found) => *id = found,
                None => return Ok(None),
            }
        }
        Ok(Some(ids))
    }
}

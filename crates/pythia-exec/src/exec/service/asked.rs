//! A running request: the solutions that it was sent for, and their join with the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use oxrdf::{NamedNode, Term, Variable};

use super::answer::{Answer, Next};
use super::{Rows, Service};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::governor::Held;

/// Number of pairs of solutions between two checks for cancellation.
const PAIRS_CHECKED: usize = 1 << 16;
/// Approximate number of solutions per output batch.
const OUTPUT_ROWS: usize = 8192;

/// Solutions as ids: a term for each requested variable, 0 if unbound.
type Ids = Vec<Vec<u64>>;
/// A complete answer and its memory.
pub(super) type Whole = Arc<(Ids, Held)>;

/// A request and its solutions.
pub(super) struct Asked {
    pub(super) endpoint: Option<NamedNode>,
    /// True if all solutions were requested, to be kept for later input.
    pub(super) is_for_all: bool,
    rows: Rows,
    /// Rows that bind all variables they share with the pattern, keyed by these terms.
    by_terms: HashMap<Vec<u64>, Vec<usize>>,
    /// The other rows.
    loose: Vec<usize>,
    /// Marks of the rows that were joined.
    joined: Vec<bool>,
    answer: Answer,
    /// Solutions that are held until the answer is complete.
    held_back: Ids,
    held: Held,
    /// The complete answer while it is being joined.
    last: Option<Last>,
    started: Instant,
    looked_at: usize,
}

/// A complete answer on its way into the output.
struct Last {
    solutions: Whole,
    /// Number of solutions that are joined.
    done: usize,
    failed: bool,
}

/// The progress of a request.
pub(super) enum Found {
    /// There may be more solutions.
    More,
    /// The request is finished.
    End {
        took: Duration,
        /// The request failed and counts as one solution that binds nothing.
        failed: bool,
        /// The complete answer, if it was wanted.
        whole: Option<Whole>,
    },
}

impl Asked {
    pub(super) fn new(
        service: &Service,
        endpoint: Option<NamedNode>,
        rows: Rows,
        answer: Answer,
        is_for_all: bool,
        context: &QueryContext,
    ) -> Self {
        let mut by_terms: HashMap<Vec<u64>, Vec<usize>> = HashMap::new();
        let mut loose = Vec::new();
        for row in 0..rows.count {
            let terms = service.shared();
            let terms = terms.map(|asked| rows.columns[service.columns[asked]][row]);
            let terms: Vec<u64> = terms.collect();
            match terms.contains(&0) {
                true => loose.push(row),
                false => by_terms.entry(terms).or_default().push(row),
            }
        }
        Self {
            endpoint,
            is_for_all,
            joined: vec![false; rows.count],
            rows,
            by_terms,
            loose,
            answer,
            held_back: Vec::new(),
            held: Held::new(context.governor()),
            last: None,
            started: Instant::now(),
            looked_at: 0,
        }
    }

    /// Waits for a part of the answer, and appends its join with the solutions.
    pub(super) fn next(
        &mut self,
        service: &Service,
        context: &QueryContext,
        output: &mut [Vec<u64>],
    ) -> Result<Found, QueryError> {
        if self.last.is_some() {
            return self.join_last(service, context, output);
        }
        match self.answer.next(context)? {
            Next::Rows(variables, rows) => {
                let ids = ids_of(service, context, &variables, rows)?;
                // SILENT uses either the complete answer or nothing.
                if service.silent || self.is_for_all {
                    self.held.add(ids.len() * (service.asked.len() * 8 + 24))?;
                    self.held_back.extend(ids);
                } else {
                    for found in &ids {
                        self.join(service, context, found, output)?;
                    }
                }
            }
            Next::Kept(whole) => self.finish_with(whole, false),
            Next::Failed(QueryError::Service { .. }) if service.silent => {
                // The query's own deadline is not a failure of the endpoint.
                context.check()?;
                let nothing = vec![vec![0; service.asked.len()]];
                let held = Held::new(context.governor());
                self.finish_with(Arc::new((nothing, held)), true);
            }
            Next::Failed(error) => {
                context.check()?;
                return Err(error);
            }
            Next::End => {
                let held_back = std::mem::take(&mut self.held_back);
                let held = std::mem::replace(&mut self.held, Held::new(context.governor()));
                self.finish_with(Arc::new((held_back, held)), false);
            }
        }
        Ok(Found::More)
    }

    fn finish_with(&mut self, solutions: Whole, failed: bool) {
        self.last = Some(Last {
            solutions,
            done: 0,
            failed,
        });
    }

    /// Continues joining a complete answer.
    fn join_last(
        &mut self,
        service: &Service,
        context: &QueryContext,
        output: &mut [Vec<u64>],
    ) -> Result<Found, QueryError> {
        let mut last = self.last.take().expect("asked for before");
        while let Some(found) = last.solutions.0.get(last.done) {
            if output[0].len() >= OUTPUT_ROWS {
                self.last = Some(last);
                return Ok(Found::More);
            }
            self.join(service, context, found, output)?;
            last.done += 1;
        }
        if service.optional {
            self.give_unjoined(output);
        }
        Ok(Found::End {
            took: self.started.elapsed(),
            failed: last.failed,
            whole: (self.is_for_all && !last.failed).then_some(last.solutions),
        })
    }

    /// Appends the rows without a match.
    fn give_unjoined(&self, output: &mut [Vec<u64>]) {
        for row in 0..self.rows.count {
            if !self.joined[row] {
                self.push(row, output);
            }
        }
    }

    /// Appends the compatible pairs of the rows and a solution.
    fn join(
        &mut self,
        service: &Service,
        context: &QueryContext,
        found: &[u64],
        output: &mut [Vec<u64>],
    ) -> Result<(), QueryError> {
        let terms = service.shared().map(|asked| found[asked]);
        let terms: Vec<u64> = terms.collect();
        let candidates: Vec<usize> = match terms.contains(&0) {
            true => (0..self.rows.count).collect(),
            false => {
                let same = self.by_terms.get(&terms).into_iter().flatten();
                same.chain(&self.loose).copied().collect()
            }
        };
        for row in candidates {
            self.looked_at += 1;
            if self.looked_at.is_multiple_of(PAIRS_CHECKED) {
                context.check()?;
            }
            if self.agrees(service, row, found) {
                self.joined[row] = true;
                self.push(row, output);
                fill(service, found, output);
            }
        }
        Ok(())
    }

    fn agrees(&self, service: &Service, row: usize, found: &[u64]) -> bool {
        service.shared().all(|asked| {
            let here = self.rows.columns[service.columns[asked]][row];
            here == 0 || found[asked] == 0 || here == found[asked]
        })
    }

    fn push(&self, row: usize, output: &mut [Vec<u64>]) {
        for (column, values) in output.iter_mut().enumerate() {
            let input = self.rows.columns.get(column);
            values.push(input.map_or(0, |column| column[row]));
        }
    }
}

/// Fills the unbound columns of the last row from a solution.
fn fill(service: &Service, found: &[u64], output: &mut [Vec<u64>]) {
    for (column, id) in service.columns.iter().zip(found) {
        let value = output[*column].last_mut().expect("pushed before");
        if *value == 0 {
            *value = *id;
        }
    }
}

/// Converts solutions to ids, in the order of the requested variables.
fn ids_of(
    service: &Service,
    context: &QueryContext,
    variables: &[Variable],
    rows: Vec<Vec<Option<Term>>>,
) -> Result<Ids, QueryError> {
    let place = |asked: &Variable| variables.iter().position(|v| v == asked);
    let places: Vec<Option<usize>> = service.asked.iter().map(place).collect();
    let mut ids = Vec::with_capacity(rows.len());
    for mut row in rows {
        let id = |place: &Option<usize>| {
            let term = place.and_then(|place| row.get_mut(place)?.take());
            term.map_or(Ok(0), |term| Ok(context.evaluation.intern(term)?.0))
        };
        ids.push(
            places
                .iter()
                .map(id)
                .collect::<Result<Vec<u64>, QueryError>>()?,
        );
    }
    Ok(ids)
}

//! Triples of a DESCRIBE: all triples whose subject is a term of the solutions, or a blank node reached from
//! these.

use std::ops::ControlFlow;

use hashbrown::HashSet;
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern, QuadScan};
use rustc_hash::FxBuildHasher;

use super::SolutionStream;
use super::triples::{BATCH_ROWS, Pending, TripleRows};
use crate::error::QueryError;
use crate::exec::several_graphs;
use crate::limits::governor::Working;

/// Number of triples that are returned first.
const FIRST_ROWS: usize = 64;

/// A running DESCRIBE. Each term is described once, so no triple repeats. Memory holds one id per described
/// term and, if the default graph is a merge, the triples of the current term.
pub(super) struct Description {
    solutions: SolutionStream,
    /// Graphs that make up the default graph.
    graphs: Vec<GraphFilter>,
    described: HashSet<TermId, FxBuildHasher>,
    /// Terms still to be described.
    open: Vec<TermId>,
    /// Number of triples that are returned together: more each time, so that the first come soon.
    together: usize,
    /// Current term, with its predicates and objects.
    current: Option<(TermId, Statements)>,
}

/// Predicates and objects of one term.
enum Statements {
    Scan(QuadScan),
    /// Merged from several graphs, without duplicates.
    Merged(Merged),
}

/// Pairs of predicate and object, returned some at a time.
struct Merged {
    rows: Vec<(u64, u64)>,
    next: usize,
    _charge: Working,
}

impl Merged {
    fn next(&mut self) -> Option<IdBatch> {
        let end = (self.next + BATCH_ROWS).min(self.rows.len());
        let rows = &self.rows[self.next..end];
        self.next = end;
        let (predicates, objects) = rows.iter().copied().unzip();
        (!rows.is_empty()).then(|| IdBatch {
            rows: rows.len(),
            columns: vec![predicates, objects],
        })
    }
}

impl Description {
    pub(super) fn new(solutions: SolutionStream) -> Self {
        Self {
            graphs: solutions.context().dataset.default_filters(),
            solutions,
            described: HashSet::default(),
            open: Vec::new(),
            together: FIRST_ROWS,
            current: None,
        }
    }

    /// Adds triples of a term to the rows. Blank nodes among their objects are described next.
    fn describe(&mut self, subject: TermId, found: &IdBatch, rows: &mut Vec<Pending>) {
        let [predicates, objects] = &found.columns[..] else {
            unreachable!("two components were asked for");
        };
        let is_blank = |id: &TermId| id.kind() == TermKind::BlankNode;
        let blank = objects.iter().map(|id| TermId(*id)).filter(is_blank);
        self.open.extend(blank);
        let row = |(predicate, object): (&u64, &u64)| -> Pending {
            ([subject.0, *predicate, *object, 0, 0], 0)
        };
        rows.extend(predicates.iter().zip(objects).map(row));
    }

    /// Starts to describe a term, unless it has been described.
    fn start(&mut self, subject: TermId) -> Result<(), QueryError> {
        let context = self.solutions.context();
        if !subject.is_bound() || self.described.contains(&subject) {
            return Ok(());
        }
        if self.described.len() == self.described.capacity() {
            let more = self.described.len().max(1 << 10);
            context.reserve(more * size_of::<TermId>() * 8 / 7)?;
            self.described.reserve(more);
        }
        self.described.insert(subject);
        let pattern = QuadPattern {
            subject: Some(subject),
            ..QuadPattern::default()
        };
        let wanted = [Component::Predicate, Component::Object];
        let statements = match &self.graphs[..] {
            [graph @ GraphFilter::One(_)] => {
                let pattern = QuadPattern {
                    graph: *graph,
                    ..pattern
                };
                Statements::Scan(context.snapshot.scan(&pattern, Order::Spo, &wanted)?)
            }
            graphs => {
                let mut rows: Vec<(u64, u64)> = Vec::new();
                let mut charge = Working::new(context.governor());
                let order = Order::Spo;
                let _ = several_graphs::scan(
                    context,
                    graphs,
                    &pattern,
                    order,
                    None,
                    &wanted,
                    |found| {
                        charge.add(found.rows * 2 * size_of::<(u64, u64)>())?;
                        let (predicates, objects) = (&found.columns[0], &found.columns[1]);
                        rows.extend(predicates.iter().copied().zip(objects.iter().copied()));
                        Ok(ControlFlow::Continue(()))
                    },
                )?;
                rows.sort_unstable();
                rows.dedup();
                Statements::Merged(Merged {
                    rows,
                    next: 0,
                    _charge: charge,
                })
            }
        };
        self.current = Some((subject, statements));
        Ok(())
    }
}

impl TripleRows for Description {
    fn next_rows(&mut self) -> Result<Option<Vec<Pending>>, QueryError> {
        let mut rows = Vec::new();
        let together = self.together;
        self.together = (2 * together).min(BATCH_ROWS);
        while rows.len() < together {
            self.solutions.context().check()?;
            if let Some((subject, statements)) = &mut self.current {
                let subject = *subject;
                let found = match statements {
                    Statements::Scan(scan) => scan.next()?,
                    Statements::Merged(merged) => merged.next(),
                };
                match found {
                    Some(found) => self.describe(subject, &found, &mut rows),
                    None => self.current = None,
                }
            } else if let Some(subject) = self.open.pop() {
                self.start(subject)?;
            } else if rows.is_empty() {
                let Some(ids) = self.solutions.next_ids()? else {
                    return Ok(None);
                };
                self.open = ids.columns.into_iter().flatten().map(TermId).collect();
            } else {
                // Triples are returned before more solutions are computed.
                break;
            }
        }
        Ok(Some(rows))
    }
}

//! The triples of a DESCRIBE: all about the solutions' terms, and about the blank nodes these lead
//! to.

use hashbrown::HashSet;
use oxrdf::Triple;
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern, QuadScan};
use rustc_hash::FxBuildHasher;

use super::SolutionStream;
use super::template::triple;
use crate::error::QueryError;

/// A DESCRIBE under way. Each term is described once, so no triple repeats; memory is one id for
/// each term described, and where the default graph is made of several, what these say of a term.
pub(super) struct Description {
    solutions: SolutionStream,
    /// What the default graph is read from.
    graphs: Vec<GraphFilter>,
    described: HashSet<TermId, FxBuildHasher>,
    /// Terms still to be described.
    open: Vec<TermId>,
    /// The term being described, with what is said of it.
    current: Option<(TermId, Statements)>,
}

/// Predicates and objects of one term.
enum Statements {
    Scan(QuadScan),
    /// Of several graphs, each once.
    Merged(Option<IdBatch>),
}

impl Description {
    pub(super) fn new(solutions: SolutionStream) -> Self {
        Self {
            graphs: solutions.context.dataset.default_filters(),
            solutions,
            described: HashSet::default(),
            open: Vec::new(),
            current: None,
        }
    }

    /// The next triples; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<Vec<Triple>>, QueryError> {
        loop {
            self.solutions.context.check()?;
            if let Some((subject, statements)) = &mut self.current {
                let subject = *subject;
                let found = match statements {
                    Statements::Scan(scan) => scan.next()?,
                    Statements::Merged(batch) => batch.take(),
                };
                let Some(found) = found else {
                    self.current = None;
                    continue;
                };
                let triples = self.triples(subject, &found)?;
                if !triples.is_empty() {
                    return Ok(Some(triples));
                }
            } else if let Some(subject) = self.open.pop() {
                self.start(subject)?;
            } else {
                let Some(ids) = self.solutions.next_ids()? else {
                    return Ok(None);
                };
                self.open = ids.columns.into_iter().flatten().map(TermId).collect();
            }
        }
    }

    /// Triples of a term; blank nodes among their objects are described next.
    fn triples(&mut self, subject: TermId, found: &IdBatch) -> Result<Vec<Triple>, QueryError> {
        let [predicates, objects] = &found.columns[..] else {
            unreachable!("two components were asked for");
        };
        let ids = |column: &[u64]| column.iter().map(|id| TermId(*id)).collect::<Vec<_>>();
        let (predicates, objects) = (ids(predicates), ids(objects));
        let is_blank = |id: &&TermId| id.kind() == TermKind::BlankNode;
        self.open.extend(objects.iter().filter(is_blank));
        let rows: Vec<TermId> = predicates
            .into_iter()
            .zip(objects)
            .flat_map(|(predicate, object)| [subject, predicate, object])
            .collect();
        let mut terms = self.solutions.context.evaluation.decode(&rows)?.into_iter();
        let mut triples = Vec::with_capacity(rows.len() / 3);
        while let (Some(s), Some(p), Some(o)) = (terms.next(), terms.next(), terms.next()) {
            triples.extend(triple(s, p, o));
        }
        Ok(triples)
    }

    /// Starts to describe a term, unless that is done.
    fn start(&mut self, subject: TermId) -> Result<(), QueryError> {
        let context = &self.solutions.context;
        if !subject.is_bound() || self.described.contains(&subject) {
            return Ok(());
        }
        if self.described.len() == self.described.capacity() {
            let more = self.described.len().max(1 << 10);
            context.reserve(more * size_of::<TermId>() * 8 / 7)?;
            self.described.reserve(more);
        }
        self.described.insert(subject);
        let scan = |graph: GraphFilter| {
            let pattern = QuadPattern {
                subject: Some(subject),
                graph,
                ..QuadPattern::default()
            };
            let wanted = [Component::Predicate, Component::Object];
            context.snapshot.scan(&pattern, Order::Spo, &wanted)
        };
        let statements = match &self.graphs[..] {
            [graph @ GraphFilter::One(_)] => Statements::Scan(scan(*graph)?),
            graphs => {
                let mut rows: Vec<(u64, u64)> = Vec::new();
                for graph in graphs {
                    let mut scan = scan(*graph)?;
                    while let Some(found) = scan.next()? {
                        context.check()?;
                        let [predicates, objects] = &found.columns[..] else {
                            unreachable!("two components were asked for");
                        };
                        rows.extend(predicates.iter().copied().zip(objects.iter().copied()));
                    }
                }
                rows.sort_unstable();
                rows.dedup();
                let (predicates, objects) = rows.iter().copied().unzip();
                Statements::Merged(Some(IdBatch {
                    rows: rows.len(),
                    columns: vec![predicates, objects],
                }))
            }
        };
        self.current = Some((subject, statements));
        Ok(())
    }
}

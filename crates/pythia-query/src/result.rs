//! Results: the last step from ids to terms, batch by batch.

use std::collections::HashSet;
use std::sync::Arc;

use futures::executor::block_on;
use oxrdf::{BlankNode, NamedNode, NamedOrBlankNode, Term, Triple, Variable};
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, IdBatch, Order, QuadPattern};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use crate::error::QueryError;
use crate::exec::batch::id_columns;
use crate::exec::context::QueryContext;
use crate::exec::operator::{Solutions, pull};

/// The results of a query.
pub enum Results {
    /// SELECT.
    Solutions(SolutionStream),
    /// CONSTRUCT and DESCRIBE.
    Graph(TripleStream),
    /// ASK.
    Boolean(bool),
}

/// Solutions, computed batch by batch as they are asked for.
pub struct SolutionStream {
    variables: Arc<[Variable]>,
    stream: Solutions,
    context: Arc<QueryContext>,
}

/// Some solutions with their terms. Each distinct term is held once.
#[derive(Debug)]
pub struct SolutionBatch {
    variables: Arc<[Variable]>,
    terms: Vec<Term>,
    /// Per column and row, the term's place in `terms` plus one; 0 if unbound.
    columns: Vec<Vec<u32>>,
    rows: usize,
}

impl SolutionBatch {
    /// How many solutions there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The term of a column in a row; `None` if unbound.
    pub fn term(&self, row: usize, column: usize) -> Option<&Term> {
        let place = self.columns[column][row].checked_sub(1)?;
        Some(&self.terms[place as usize])
    }

    /// One solution's terms, in column order.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (&Variable, Option<&Term>)> {
        self.variables
            .iter()
            .enumerate()
            .map(move |(column, variable)| (variable, self.term(row, column)))
    }
}

/// Tests of `EXISTS` keep running parts of the query, which keep its context: they go with it.
impl Drop for SolutionStream {
    fn drop(&mut self) {
        self.context.drop_exists_from(0);
    }
}

impl SolutionStream {
    pub(crate) fn new(
        variables: Vec<Variable>,
        stream: Solutions,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            variables: variables.into(),
            stream,
            context,
        }
    }

    /// The variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The next solutions as raw ids by column; blocks until there are some.
    pub(crate) fn next_ids(&mut self) -> Result<Option<IdBatch>, QueryError> {
        loop {
            let Some(batch) = block_on(pull(&mut self.stream))? else {
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

    /// The next solutions; blocks until there are some. `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<SolutionBatch>, QueryError> {
        let Some(IdBatch { columns: ids, rows }) = self.next_ids()? else {
            return Ok(None);
        };
        self.context.check()?;
        let mut distinct: Vec<u64> = ids
            .iter()
            .flatten()
            .copied()
            .filter(|id| *id != 0)
            .collect();
        distinct.sort_unstable();
        distinct.dedup();
        let wanted: Vec<TermId> = distinct.iter().map(|id| TermId(*id)).collect();
        let terms = self.context.evaluation.decode(&wanted)?;
        let place = |id: &u64| {
            distinct
                .binary_search(id)
                .map_or(0, |place| place as u32 + 1)
        };
        let columns = ids
            .iter()
            .map(|column| column.iter().map(place).collect())
            .collect();
        Ok(Some(SolutionBatch {
            variables: Arc::clone(&self.variables),
            terms,
            columns,
            rows,
        }))
    }
}

/// Triples of a CONSTRUCT or DESCRIBE, without repetition.
pub struct TripleStream {
    source: TripleSource,
    solutions: SolutionStream,
    seen: HashSet<Triple>,
    ready: std::vec::IntoIter<Triple>,
    /// Number of the solution, and what makes new blank nodes differ from all others.
    solution: Solution,
    limit: Option<u64>,
}

/// Names the blank nodes of one solution.
#[derive(Clone, Copy)]
struct Solution {
    query: u64,
    number: u64,
}

enum TripleSource {
    Construct(Vec<TriplePattern>),
    Describe { described: HashSet<TermId> },
}

impl TripleStream {
    pub(crate) fn construct(template: Vec<TriplePattern>, solutions: SolutionStream) -> Self {
        Self::new(TripleSource::Construct(template), solutions)
    }

    pub(crate) fn describe(solutions: SolutionStream) -> Self {
        let described = HashSet::new();
        Self::new(TripleSource::Describe { described }, solutions)
    }

    fn new(source: TripleSource, solutions: SolutionStream) -> Self {
        Self {
            source,
            solutions,
            seen: HashSet::new(),
            ready: Vec::new().into_iter(),
            solution: Solution {
                query: rand::random(),
                number: 0,
            },
            limit: None,
        }
    }

    /// Ends with an error after so many triples, if there are more.
    pub(crate) fn limited(mut self, triples: Option<u64>) -> Self {
        self.limit = triples;
        self
    }

    /// The next triple; blocks until there is one. `None` at the end.
    pub fn next_triple(&mut self) -> Result<Option<Triple>, QueryError> {
        loop {
            for triple in self.ready.by_ref() {
                if self.seen.insert(triple.clone()) {
                    if let Some(limit) = self.limit
                        && self.seen.len() as u64 > limit
                    {
                        return Err(QueryError::RowLimit(limit));
                    }
                    return Ok(Some(triple));
                }
            }
            let more = match &mut self.source {
                TripleSource::Construct(template) => {
                    instantiate(template, &mut self.solutions, &mut self.solution)?
                }
                TripleSource::Describe { described } => describe(described, &mut self.solutions)?,
            };
            let Some(triples) = more else {
                return Ok(None);
            };
            let bytes = triples.len() * std::mem::size_of::<Triple>() * 2;
            self.solutions.context.reserve(bytes)?;
            self.ready = triples.into_iter();
        }
    }
}

/// The template's triples for the next solutions. Triples that would not be RDF are left out.
fn instantiate(
    template: &[TriplePattern],
    solutions: &mut SolutionStream,
    solution: &mut Solution,
) -> Result<Option<Vec<Triple>>, QueryError> {
    let Some(batch) = solutions.next_batch()? else {
        return Ok(None);
    };
    let mut triples = Vec::with_capacity(batch.len() * template.len());
    for row in 0..batch.len() {
        solution.number += 1;
        let value = |variable: &Variable| {
            let column = batch.variables().iter().position(|v| v == variable)?;
            batch.term(row, column).cloned()
        };
        triples.extend(
            template
                .iter()
                .filter_map(|pattern| instance(pattern, &value, *solution)),
        );
    }
    Ok(Some(triples))
}

fn instance(
    pattern: &TriplePattern,
    value: &impl Fn(&Variable) -> Option<Term>,
    solution: Solution,
) -> Option<Triple> {
    let subject: NamedOrBlankNode = match instance_term(&pattern.subject, value, solution)? {
        Term::NamedNode(node) => node.into(),
        Term::BlankNode(node) => node.into(),
        _ => return None,
    };
    let predicate: NamedNode = match &pattern.predicate {
        NamedNodePattern::NamedNode(node) => node.clone(),
        NamedNodePattern::Variable(variable) => match value(variable)? {
            Term::NamedNode(node) => node,
            _ => return None,
        },
    };
    let object = instance_term(&pattern.object, value, solution)?;
    Some(Triple::new(subject, predicate, object))
}

fn instance_term(
    pattern: &TermPattern,
    value: &impl Fn(&Variable) -> Option<Term>,
    solution: Solution,
) -> Option<Term> {
    Some(match pattern {
        TermPattern::NamedNode(node) => node.clone().into(),
        TermPattern::Literal(literal) => literal.clone().into(),
        TermPattern::Variable(variable) => return value(variable),
        TermPattern::Triple(triple) => instance(triple, value, solution)?.into(),
        // A blank node of the template is a new one for each solution.
        TermPattern::BlankNode(node) => BlankNode::new_unchecked(format!(
            "c{:016x}{}s{}",
            solution.query,
            node.as_str(),
            solution.number
        ))
        .into(),
    })
}

/// All triples about the next solutions' terms, and about blank nodes reached from them.
fn describe(
    described: &mut HashSet<TermId>,
    solutions: &mut SolutionStream,
) -> Result<Option<Vec<Triple>>, QueryError> {
    let Some(IdBatch { columns, .. }) = solutions.next_ids()? else {
        return Ok(None);
    };
    let context = Arc::clone(&solutions.context);
    let mut open: Vec<TermId> = columns.into_iter().flatten().map(TermId).collect();
    let mut rows: Vec<[TermId; 3]> = Vec::new();
    while let Some(subject) = open.pop() {
        if !subject.is_bound() || !described.insert(subject) {
            continue;
        }
        context.check()?;
        for graph in context.dataset.default_filters() {
            let pattern = QuadPattern {
                subject: Some(subject),
                graph,
                ..QuadPattern::default()
            };
            let wanted = [Component::Predicate, Component::Object];
            let mut scan = context.snapshot.scan(&pattern, Order::Spo, &wanted)?;
            while let Some(found) = scan.next()? {
                for (&predicate, &object) in found.columns[0].iter().zip(&found.columns[1]) {
                    let object = TermId(object);
                    rows.push([subject, TermId(predicate), object]);
                    if object.kind() == TermKind::BlankNode {
                        open.push(object);
                    }
                }
            }
        }
    }
    let ids: Vec<TermId> = rows.iter().flatten().copied().collect();
    let mut terms = context.evaluation.decode(&ids)?.into_iter();
    let mut triples = Vec::with_capacity(rows.len());
    while let (Some(s), Some(p), Some(o)) = (terms.next(), terms.next(), terms.next()) {
        let subject: NamedOrBlankNode = match s {
            Term::NamedNode(node) => node.into(),
            Term::BlankNode(node) => node.into(),
            _ => continue,
        };
        if let Term::NamedNode(predicate) = p {
            triples.push(Triple::new(subject, predicate, o));
        }
    }
    Ok(Some(triples))
}

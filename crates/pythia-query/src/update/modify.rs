//! DELETE and INSERT for each solution of a WHERE clause.

use std::sync::Arc;

use hashbrown::HashMap;
use oxiri::Iri;
use oxrdf::{Term, Variable};
use pythia_rdf::key::{self, Encoded};
use pythia_rdf::{TermId, TermKey, TermKind};
use pythia_sparql::Query;
use pythia_sparql::scope::triple_variables;
use pythia_sparql::update::Modify;
use pythia_store::IdBatch;
use spargebra::algebra::GraphPattern;
use spargebra::term::{GraphNamePattern, NamedNodePattern, TriplePattern};

use super::rows::Rows;
use super::{BATCH_ROWS, Row, Runner};
use pythia_exec::error::QueryError;
use pythia_exec::exec::context::QueryContext;
use pythia_exec::limits::governor::Governor;
use pythia_exec::result::template::{Filling, TemplateReader, TemplateTerm, new_node};
use pythia_exec::result::{Results, SolutionStream};

/// A quad of a template.
type Shape = [TemplateTerm; 4];

/// A quad of a template, as written.
struct Written {
    triple: TriplePattern,
    graph: GraphNamePattern,
}

impl Runner<'_> {
    pub(super) fn modify(
        &mut self,
        modify: &Modify,
        base_iri: Option<Iri<String>>,
        governor: &Arc<Governor>,
    ) -> Result<(), QueryError> {
        let delete = modify.delete.iter().map(|quad| Written {
            triple: TriplePattern {
                subject: quad.subject.clone().into(),
                predicate: quad.predicate.clone(),
                object: quad.object.clone().into(),
            },
            graph: quad.graph_name.clone(),
        });
        let insert = modify.insert.iter().map(|quad| Written {
            triple: TriplePattern {
                subject: quad.subject.clone(),
                predicate: quad.predicate.clone(),
                object: quad.object.clone(),
            },
            graph: quad.graph_name.clone(),
        });
        let (delete, insert): (Vec<_>, Vec<_>) = (delete.collect(), insert.collect());
        let query = Query::from(spargebra::Query::Select {
            dataset: modify.using.clone(),
            pattern: GraphPattern::Project {
                inner: Box::new(modify.pattern.clone()),
                variables: variables(delete.iter().chain(&insert)),
            },
            base_iri,
        });
        let snapshot = self.snapshot();
        let limits = Arc::clone(governor);
        let engine = self.engine;
        let prepared = engine.prepare_within(limits, &snapshot, &query, &self.limits())?;
        let Results::Solutions(solutions) = prepared.execute()? else {
            unreachable!("a SELECT has solutions");
        };
        let mut reader = TemplateReader::new(solutions.context(), solutions.variables());
        let templates = Templates {
            delete: shapes(&mut reader, &delete)?,
            insert: shapes(&mut reader, &insert)?,
            query: rand::random(),
        };
        self.apply(solutions, &templates, governor)?;
        self.warnings.add_all(prepared.warned());
        Ok(())
    }

    fn apply(
        &mut self,
        mut solutions: SolutionStream,
        templates: &Templates,
        governor: &Arc<Governor>,
    ) -> Result<(), QueryError> {
        let waits = !templates.delete.is_empty() && !templates.insert.is_empty();
        let mut waiting = waits.then(|| Rows::new(governor));
        let mut solution = 0;
        while let Some(batch) = solutions.next_ids()? {
            let context = Arc::clone(solutions.context());
            let per_solution = (templates.delete.len() + templates.insert.len()).max(1);
            let step = (BATCH_ROWS / per_solution).max(1);
            for first in (0..batch.rows).step_by(step) {
                context.check()?;
                let rows = first..(first + step).min(batch.rows);
                let part = SolutionRange {
                    context: &context,
                    batch: &batch,
                    templates,
                    first_solution: solution,
                };
                solution += rows.len() as u64;
                let (deleted, inserted) = (part.deleted(rows.clone())?, part.inserted(rows)?);
                let filled = deleted.iter().chain(&inserted);
                let graphs = filled.map(|(row, _)| row[3]);
                let decode = |ids: &[TermId]| context.evaluation.decode(ids);
                self.permission.check_graphs(graphs, decode)?;
                let deleted = removable(&deleted);
                if !deleted.is_empty() {
                    self.remove(&deleted)?;
                }
                let added = self.stored(&part, inserted)?;
                match &mut waiting {
                    Some(waiting) => added.iter().try_for_each(|row| waiting.push(row))?,
                    None => self.insert(&added)?,
                }
            }
        }
        drop(solutions);
        match waiting {
            Some(waiting) => waiting.drain(|rows| self.insert(rows)),
            None => Ok(()),
        }
    }

    /// Replaces query-local ids and numbers of new nodes by the store's ids, and drops rows that are not
    /// valid quads.
    fn stored(
        &mut self,
        part: &SolutionRange<'_>,
        mut rows: Vec<(Row, u64)>,
    ) -> Result<Vec<Row>, QueryError> {
        let mut places: HashMap<(u64, u64), usize> = HashMap::new();
        let mut wanted: Vec<(u64, u64)> = Vec::new();
        for (row, solution) in &rows {
            for &id in row {
                let Some(key) = made(id, *solution) else {
                    continue;
                };
                places.entry(key).or_insert_with(|| {
                    wanted.push(key);
                    wanted.len() - 1
                });
            }
        }
        if !wanted.is_empty() {
            let ids = self.new_ids(part, &wanted)?;
            for (row, solution) in &mut rows {
                for id in row {
                    if let Some(key) = made(*id, *solution) {
                        *id = ids[places[&key]].0;
                    }
                }
            }
        }
        Ok(rows
            .into_iter()
            .map(|(row, _)| row)
            .filter(is_quad)
            .collect())
    }

    /// Returns the store's ids of computed terms and of new nodes.
    fn new_ids(
        &mut self,
        part: &SolutionRange<'_>,
        wanted: &[(u64, u64)],
    ) -> Result<Vec<TermId>, QueryError> {
        let computed: Vec<TermId> = wanted
            .iter()
            .map(|(id, _)| TermId(*id))
            .filter(|id| id.kind() == TermKind::Computed)
            .collect();
        let mut computed = part.context.evaluation.decode(&computed)?.into_iter();
        let (mut bytes, mut scratch, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for &(id, solution) in wanted {
            let term: Term = match TermId(id).kind() {
                TermKind::Computed => computed.next().expect("one for each"),
                _ => new_node(id, (part.templates.query, solution)).into(),
            };
            let Encoded::Key(kind) = key::encode(term.as_ref(), &mut scratch) else {
                unreachable!("what fits into an id is not computed");
            };
            bytes.extend_from_slice(&scratch);
            ends.push((kind, bytes.len()));
        }
        let mut start = 0;
        let keys: Vec<TermKey<'_>> = ends
            .iter()
            .map(|&(kind, end)| {
                let bytes = &bytes[start..end];
                start = end;
                TermKey { kind, bytes }
            })
            .collect();
        self.transaction.ids(&keys)
    }
}

struct Templates {
    delete: Vec<Shape>,
    insert: Vec<Shape>,
    /// Random number that makes new blank nodes differ from those of all other operations.
    query: u64,
}

/// A part of the solutions of a batch.
struct SolutionRange<'a> {
    context: &'a QueryContext,
    batch: &'a IdBatch,
    templates: &'a Templates,
    /// Number of the part's first solution.
    first_solution: u64,
}

impl SolutionRange<'_> {
    /// Returns the rows to delete, each with the number of its solution.
    fn deleted(&self, solutions: std::ops::Range<usize>) -> Result<Vec<(Row, u64)>, QueryError> {
        self.filled(&self.templates.delete, solutions)
    }

    /// Returns the rows to insert, each with the number of its solution.
    fn inserted(&self, solutions: std::ops::Range<usize>) -> Result<Vec<(Row, u64)>, QueryError> {
        self.filled(&self.templates.insert, solutions)
    }

    fn filled(
        &self,
        shapes: &[Shape],
        solutions: std::ops::Range<usize>,
    ) -> Result<Vec<(Row, u64)>, QueryError> {
        let mut rows = Vec::with_capacity(shapes.len() * solutions.len());
        for (row, number) in solutions.zip(self.first_solution..) {
            let filling = Filling {
                context: self.context,
                columns: &self.batch.columns,
                row,
                name: (self.templates.query, number),
            };
            'shapes: for shape in shapes {
                let mut ids = Row::default();
                for (id, place) in ids.iter_mut().zip(shape) {
                    match place.id(&filling)? {
                        Some(found) => *id = found,
                        None => continue 'shapes,
                    }
                }
                rows.push((ids, number));
            }
        }
        Ok(rows)
    }
}

/// Returns the rows that can exist in the store: valid quads of stored terms.
fn removable(rows: &[(Row, u64)]) -> Vec<Row> {
    let is_stored = |id: &u64| TermId(*id).kind() != TermKind::Computed;
    let rows = rows.iter().map(|(row, _)| *row);
    rows.filter(|row| row.iter().all(is_stored) && is_quad(row))
        .collect()
}

/// Returns a key for a term that the store may not have. A computed term is the same in all solutions; a new
/// node is different in each.
fn made(id: u64, solution: u64) -> Option<(u64, u64)> {
    match TermId(id).kind() {
        TermKind::Computed => Some((id, 0)),
        TermKind::Nothing if id != TermId::DEFAULT_GRAPH.0 => Some((id, solution)),
        _ => None,
    }
}

/// Returns whether terms of these kinds form a valid quad.
fn is_quad(row: &Row) -> bool {
    let [subject, predicate, _, graph] = row.map(|id| TermId(id).kind());
    let is_node = |kind| matches!(kind, TermKind::Iri | TermKind::BlankNode);
    is_node(subject)
        && predicate == TermKind::Iri
        && (is_node(graph) || row[3] == TermId::DEFAULT_GRAPH.0)
}

/// Returns the variables of quads, without duplicates.
fn variables<'w>(quads: impl Iterator<Item = &'w Written>) -> Vec<Variable> {
    let mut variables: Vec<Variable> = Vec::new();
    for Written { triple, graph } in quads {
        let graph = match graph {
            GraphNamePattern::Variable(variable) => Some(variable.clone()),
            _ => None,
        };
        // Blank nodes of templates are not variables.
        let of_triple = triple_variables(triple).into_iter();
        variables.extend(
            of_triple
                .filter(|v| !v.as_str().starts_with("_:"))
                .chain(graph),
        );
    }
    variables.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    variables.dedup();
    variables
}

/// Returns the positions of quads, without quads that have a variable which is never bound.
fn shapes(reader: &mut TemplateReader<'_>, quads: &[Written]) -> Result<Vec<Shape>, QueryError> {
    let mut shapes = Vec::with_capacity(quads.len());
    for Written { triple, graph } in quads {
        let graph = match graph {
            GraphNamePattern::DefaultGraph => Some(TemplateTerm::Term(TermId::DEFAULT_GRAPH)),
            GraphNamePattern::NamedNode(node) => {
                reader.name(&NamedNodePattern::NamedNode(node.clone()))?
            }
            GraphNamePattern::Variable(variable) => {
                reader.name(&NamedNodePattern::Variable(variable.clone()))?
            }
        };
        if let (Some([s, p, o]), Some(g)) = (reader.places(triple)?, graph) {
            shapes.push([s, p, o, g]);
        }
    }
    Ok(shapes)
}

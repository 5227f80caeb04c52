//! The operator of a path search: returns one row per path, or per edge of a path, for each input solution.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use oxrdf::{Literal, Term};
use pythia_rdf::TermId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::Cost;
use super::edges::{EdgeColumns, Graph};
use super::frontier::{Space, Step};
use super::literal;
use super::product::Product;
use super::start::{Ends, StartSearch};
use crate::error::QueryError;
use crate::exec::batch::{id_columns, record_batch};
use crate::exec::context::QueryContext;
use crate::exec::solutions::{Execute, NextBatch, Solutions, pull, solutions_of};
use crate::limits::governor::Held;
use crate::plan::path_search::{Destination, EdgeSource, Origin, Output, PathSearch};

/// Number of paths written at once: few at first, for consumers that want few.
const PATHS_WRITTEN: (usize, usize) = (8, 1024);
/// Maximum number of nodes in the rows written at once, if they are from several paths.
const NODES_WRITTEN: usize = 1 << 17;

impl Execute for PathSearch {
    fn run(
        &self,
        inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let mut inputs = inputs.into_iter();
        let searcher = Searcher {
            search: self.clone(),
            input: inputs.next().expect("a search has solutions to start from"),
            edges: inputs.next(),
            space: None,
            batch: Vec::new(),
            groups: VecDeque::new(),
            running: None,
            paths: 0,
            written: PATHS_WRITTEN.0,
            schema: Arc::clone(&schema),
            context,
        };
        solutions_of(schema, searcher)
    }
}

/// Rows of the current batch with the same start, and their ends.
struct StartRows {
    start: u64,
    rows: Arc<[u32]>,
    /// Rows by end.
    ends: Option<FxHashMap<u64, Arc<[u32]>>>,
}

/// A path in the direction of the query, and its input rows.
struct Found {
    nodes: Vec<u64>,
    /// Predicates, each with whether it is followed backward.
    edges: Vec<(u64, bool)>,
    cost: Cost,
    end: u64,
    rows: Arc<[u32]>,
}

struct Searcher {
    search: PathSearch,
    input: Solutions,
    edges: Option<Solutions>,
    space: Option<Space>,
    /// Columns of the current input batch, and the searches still to run for it.
    batch: Vec<Vec<u64>>,
    groups: VecDeque<StartRows>,
    running: Option<(StartSearch, StartRows)>,
    paths: i64,
    written: usize,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

impl NextBatch for Searcher {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if self.space.is_none() {
            self.space = Some(self.prepare().await?);
        }
        loop {
            self.context.check()?;
            if let Some(running) = self.running.take() {
                let found = self.find(running)?;
                if !found.is_empty() {
                    return self.write(&found).map(Some);
                }
            } else if let Some(group) = self.groups.pop_front() {
                let run = self.begin(&group)?;
                self.running = Some((run, group));
            } else {
                let Some(batch) = pull(&mut self.input).await? else {
                    return Ok(None);
                };
                let columns = id_columns(&batch).into_iter();
                self.batch = columns.map(<[u64]>::to_vec).collect();
                self.groups = self.groups_of(batch.num_rows());
            }
        }
    }
}

impl Searcher {
    /// Reads all edges if they are solutions of a pattern.
    async fn prepare(&mut self) -> Result<Space, QueryError> {
        let search = &self.search;
        let product = Product::new(search.automaton.clone());
        let graph = match &search.edges {
            EdgeSource::Store(edges) => {
                Graph::new(Some(edges.clone()), search.flipped, &self.context)
            }
            EdgeSource::Pattern {
                from,
                to,
                predicate,
                weight,
                optional,
            } => {
                let mut held = Held::new(self.context.governor());
                let mut columns = EdgeColumns::default();
                let mut weights = Vec::new();
                let mut input = self.edges.take().expect("the pattern of edges is an input");
                while let Some(batch) = pull(&mut input).await? {
                    self.context.check()?;
                    held.add(batch.num_rows() * 32)?;
                    let ids = id_columns(&batch);
                    columns.from.extend_from_slice(ids[*from]);
                    columns.to.extend_from_slice(ids[*to]);
                    match predicate {
                        Some(column) => columns.predicate.extend_from_slice(ids[*column]),
                        None => columns.predicate.resize(columns.from.len(), 0),
                    }
                    if let Some(column) = weight {
                        weights.extend_from_slice(ids[*column]);
                    }
                }
                let mut graph = Graph::new(None, search.flipped, &self.context);
                graph.give(&columns, weight.is_some().then_some(&weights), *optional)?;
                graph
            }
        };
        Ok(Space {
            graph,
            product,
            context: Arc::clone(&self.context),
            batch_nodes: search.rules.batch_nodes,
        })
    }

    /// Groups the rows of the current batch by start.
    fn groups_of(&self, rows: usize) -> VecDeque<StartRows> {
        let mut places: FxHashMap<u64, usize> = FxHashMap::default();
        let mut groups: Vec<(u64, Vec<u32>)> = Vec::new();
        for row in 0..rows {
            let start = match self.search.start {
                Origin::Constant(id) => id.0,
                Origin::Column(column) => self.batch[column][row],
            };
            let place = *places.entry(start).or_insert_with(|| {
                groups.push((start, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(row as u32);
        }
        let groups = groups.into_iter().map(|(start, rows)| StartRows {
            start,
            ends: self.ends_of(start, &rows),
            rows: rows.into(),
        });
        groups.collect()
    }

    /// Groups the rows with one start by end, or returns `None` if the ends are not known.
    fn ends_of(&self, start: u64, rows: &[u32]) -> Option<FxHashMap<u64, Arc<[u32]>>> {
        let mut ends: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for &row in rows {
            let end = match self.search.end {
                Destination::Any => return None,
                Destination::Constant(id) => id.0,
                Destination::Column(column) => self.batch[column][row as usize],
                Destination::Start => start,
            };
            ends.entry(end).or_default().push(row);
        }
        let shared = ends.into_iter().map(|(end, rows)| (end, rows.into()));
        Some(shared.collect())
    }

    fn begin(&mut self, group: &StartRows) -> Result<StartSearch, QueryError> {
        let space = self.space.as_mut().expect("prepared");
        space.graph.make_room()?;
        let start = space.graph.number(group.start);
        if !space.graph.has(false, start) {
            // Read in one batch with the next starts.
            let next = self.groups.iter().take(space.batch_nodes - 1);
            let mut nodes: FxHashSet<u32> =
                next.map(|next| space.graph.number(next.start)).collect();
            nodes.retain(|&node| !space.graph.has(false, node));
            nodes.insert(start);
            space.graph.read(false, &nodes)?;
        }
        let ends = match &group.ends {
            None => Ends::Any,
            Some(ends) => {
                let mut ids: Vec<u64> = ends.keys().copied().collect();
                ids.sort_unstable();
                Ends::Some(ids.into_iter().map(|id| space.graph.number(id)).collect())
            }
        };
        Ok(StartSearch::new(self.search.rules, start, ends, space))
    }

    /// Returns the next paths of a run. Keeps the run if there may be more.
    fn find(
        &mut self,
        (mut run, group): (StartSearch, StartRows),
    ) -> Result<Vec<Found>, QueryError> {
        let space = self.space.as_mut().expect("prepared");
        let (mut found, mut nodes) = (Vec::new(), 0);
        while found.len() < self.written && nodes < NODES_WRITTEN {
            let Some(path) = run.next(space)? else {
                return Ok(found);
            };
            let end = path.last().expect("a path has a node").node;
            let end = space.graph.id(end);
            let rows = match &group.ends {
                None => Arc::clone(&group.rows),
                Some(ends) => Arc::clone(&ends[&end]),
            };
            nodes += path.len() * rows.len();
            found.push(as_meant(&path, end, rows, space, self.search.flipped));
        }
        self.written = (self.written * 2).min(PATHS_WRITTEN.1);
        self.running = Some((run, group));
        Ok(found)
    }

    fn write(&mut self, found: &[Found]) -> Result<RecordBatch, QueryError> {
        let texts = match self.search.outputs.contains(&Output::Path) {
            true => self.literals(found)?,
            false => Vec::new(),
        };
        let by_edge = self.search.outputs.iter().any(|output| output.is_of_edge());
        let mut columns: Vec<Vec<u64>> = vec![Vec::new(); self.schema.fields().len()];
        let rows_of = |path: &Found| {
            // A path without edges has one row, without an edge.
            let edges = if by_edge { path.edges.len().max(1) } else { 1 };
            path.rows.len() * edges
        };
        let rows: usize = found.iter().map(rows_of).sum();
        let mut held = Held::new(self.context.governor());
        held.set(rows * columns.len() * 8)?;
        for (place, path) in found.iter().enumerate() {
            let path_id = texts.get(place).copied().unwrap_or(0);
            for &row in path.rows.iter() {
                self.paths += 1;
                for edge in 0..rows_of(path) / path.rows.len() {
                    for (column, values) in self.batch.iter().zip(&mut columns) {
                        values.push(column[row as usize]);
                    }
                    let new = columns[self.batch.len()..].iter_mut();
                    for (&output, values) in self.search.outputs.iter().zip(new) {
                        values.push(self.value(output, path, path_id, edge)?);
                    }
                }
            }
            self.context.check()?;
        }
        Ok(record_batch(&self.schema, columns, rows)?)
    }

    fn value(
        &self,
        output: Output,
        path: &Found,
        path_id: u64,
        edge: usize,
    ) -> Result<u64, QueryError> {
        let evaluation = &self.context.evaluation;
        let integer = |value: i64| evaluation.intern(Literal::from(value).into());
        let has_edge = edge < path.edges.len();
        let id = match output {
            Output::End => return Ok(path.end),
            Output::Path => return Ok(path_id),
            Output::Length => integer(path.edges.len() as i64)?,
            Output::Cost => {
                let cost = path.cost.literal(self.search.rules.weighted);
                evaluation.intern(cost.into())?
            }
            Output::Number => integer(self.paths)?,
            _ if !has_edge => return Ok(0),
            Output::Index => integer(edge as i64 + 1)?,
            Output::From => return Ok(path.nodes[edge]),
            Output::Predicate => return Ok(path.edges[edge].0),
            Output::To => return Ok(path.nodes[edge + 1]),
            Output::Inverse => evaluation.intern(Literal::from(path.edges[edge].1).into())?,
        };
        Ok(id.0)
    }

    /// Returns the ids of the paths' literals.
    fn literals(&self, found: &[Found]) -> Result<Vec<u64>, QueryError> {
        let evaluation = &self.context.evaluation;
        let ids = found.iter().flat_map(|path| {
            let predicates = path.edges.iter().map(|(predicate, _)| predicate);
            path.nodes.iter().chain(predicates)
        });
        let mut ids: Vec<TermId> = ids.map(|&id| TermId(id)).collect();
        ids.retain(|id| id.is_bound());
        ids.sort_unstable();
        ids.dedup();
        let terms = evaluation.decode(&ids)?;
        let texts: FxHashMap<u64, String> = (ids.iter().zip(&terms))
            .map(|(id, term)| (id.0, term.to_string()))
            .collect();
        let text = |id: u64| texts.get(&id).map_or("-", String::as_str);
        let literals = found.iter().map(|path| {
            let nodes: usize = path.nodes.iter().map(|&id| text(id).len() + 1).sum();
            let edges: usize = path.edges.iter().map(|edge| text(edge.0).len() + 2).sum();
            let mut lexical = String::with_capacity(nodes + edges);
            lexical.push_str(text(path.nodes[0]));
            for (&(predicate, inverse), &node) in path.edges.iter().zip(&path.nodes[1..]) {
                lexical.push_str(if inverse { " ^" } else { " " });
                lexical.push_str(text(predicate));
                lexical.push(' ');
                lexical.push_str(text(node));
            }
            let term: Term = literal::literal(lexical).into();
            Ok(evaluation.intern(term)?.0)
        });
        literals.collect()
    }
}

/// Returns a path in the direction of the query; a flipped search found it from its end.
fn as_meant(steps: &[Step], end: u64, rows: Arc<[u32]>, space: &Space, flipped: bool) -> Found {
    let mut nodes: Vec<u64> = (steps.iter())
        .map(|step| space.graph.id(step.node))
        .collect();
    let taken = steps[1..].iter();
    let mut edges: Vec<(u64, bool)> = taken
        .map(|step| (step.predicate, step.inverse != flipped))
        .collect();
    if flipped {
        nodes.reverse();
        edges.reverse();
    }
    Found {
        nodes,
        edges,
        cost: steps.last().map_or(Cost::ZERO, |step| step.cost),
        end,
        rows,
    }
}

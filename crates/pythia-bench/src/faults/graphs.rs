//! A client that changes whole graphs: it makes, copies, moves and drops them, and changes some of them in part.
//!
//! The graphs after its `n`th step follow from `n`, and no two steps leave the same graphs. Step 1 makes a graph of
//! cycle 0. The seven steps of each later cycle make another graph, copy it, and so on ([`StepKind`]); the last one
//! drops the graph of the cycle before, which has been in the store for long enough to be on the device or in the base.
//! The subjects, predicates and objects of different graphs are the same terms, so a quad that is left behind, or
//! dropped with another graph, is found by comparison with the expected quads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;

use anyhow::{Result, ensure};
use pythia_rdf::{Compression, RdfFormat, Source, TermId};
use pythia_store::load::{LoadOptions, LoadProgress};
use pythia_store::write::Transaction;
use pythia_store::{
    Component, GraphFilter, IdBatch, Order, QuadPattern, Snapshot, Store, StoreError,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::history::{Lost, again, iri, predicate};

/// Steps of a cycle.
const STEPS: u64 = 7;
/// Maximum number of quads of most new graphs.
const QUADS_MAX: u64 = 120;
/// Maximum number of quads of the others.
const LARGE_MAX: u64 = 1500;
/// Quads that are added to a graph before it is copied for the second time.
const GROWN: u64 = 3;
/// Predicates of graphs. The predicate of the optional indexes is none of them.
const PREDICATES: u64 = 12;

/// The beginning of the names of the graphs.
const NAMES: &str = "http://example.org/graphs/";
/// The beginning of the subjects in them.
pub(super) const SUBJECTS: &str = "http://example.org/graph-node/";

/// Subjects, predicates and objects.
type Rows = BTreeSet<[u64; 3]>;

/// A step of a cycle. `A` is the cycle's graph, `B` its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepKind {
    /// Makes `A`, by a load or a transaction.
    Make,
    /// Copies `A` to `B`.
    Copy,
    /// Removes some quads of `B` and adds others.
    Change,
    /// Moves `B` to `A`: drops `A`, copies `B` and drops it.
    Move,
    /// Adds quads to `A`, then copies it to `B`.
    GrowAndCopy,
    /// Drops `B`.
    DropCopy,
    /// Drops the graph `A` of the cycle before.
    DropBefore,
}

/// A step of the client.
#[derive(Clone, Copy, Debug)]
struct Step {
    cycle: u64,
    kind: StepKind,
}

impl Step {
    /// Returns the `n`th step, from 1 on.
    fn new(number: u64) -> Self {
        let kinds = [
            StepKind::Make,
            StepKind::Copy,
            StepKind::Change,
            StepKind::Move,
            StepKind::GrowAndCopy,
            StepKind::DropCopy,
            StepKind::DropBefore,
        ];
        match number - 1 {
            0 => Self {
                cycle: 0,
                kind: StepKind::Make,
            },
            later => Self {
                cycle: 1 + (later - 1) / STEPS,
                kind: kinds[((later - 1) % STEPS) as usize],
            },
        }
    }

    /// Returns the numbers of a cycle's steps.
    fn of_cycle(cycle: u64) -> std::ops::RangeInclusive<u64> {
        match cycle {
            0 => 1..=1,
            _ => 2 + (cycle - 1) * STEPS..=1 + cycle * STEPS,
        }
    }

    fn graph(self) -> String {
        format!("{NAMES}{}", self.cycle)
    }

    fn copy(self) -> String {
        format!("{NAMES}{}/copy", self.cycle)
    }

    fn before(self) -> Self {
        Self {
            cycle: self.cycle - 1,
            kind: StepKind::DropBefore,
        }
    }

    /// Returns the graphs after the step.
    fn graphs_after(self) -> BTreeMap<String, Vec<u64>> {
        let [made, changed, grown] = [made(self.cycle), changed(self.cycle), grown(self.cycle)];
        let graphs = match self.kind {
            StepKind::Make => [Some(made), None],
            StepKind::Copy => [Some(made.clone()), Some(made)],
            StepKind::Change => [Some(made), Some(changed)],
            StepKind::Move => [Some(changed), None],
            StepKind::GrowAndCopy => [Some(grown.clone()), Some(grown)],
            StepKind::DropCopy | StepKind::DropBefore => [Some(grown), None],
        };
        let mut named: BTreeMap<String, Vec<u64>> = [self.graph(), self.copy()]
            .into_iter()
            .zip(graphs)
            .filter_map(|(name, quads)| Some((name, quads?)))
            .collect();
        match self.cycle {
            0 => {}
            _ if self.kind == StepKind::DropBefore => {}
            1 => drop(named.insert(self.before().graph(), self::made(0))),
            cycle => drop(named.insert(self.before().graph(), self::grown(cycle - 1))),
        }
        named
    }
}

fn size(cycle: u64) -> u64 {
    let mut random = SmallRng::seed_from_u64(cycle.wrapping_mul(131));
    match cycle % 4 {
        3 => random.random_range(QUADS_MAX..=LARGE_MAX),
        _ => random.random_range(6..=QUADS_MAX),
    }
}

/// Returns the numbers of the quads that a cycle's graph has at first.
fn made(cycle: u64) -> Vec<u64> {
    (0..size(cycle)).collect()
}

/// Returns the numbers that [`StepKind::Change`] removes, and those that it adds.
fn change(cycle: u64) -> [Vec<u64>; 2] {
    let size = size(cycle);
    let removed = (0..size).step_by(3);
    [removed.collect(), (size..size + size / 4 + 1).collect()]
}

fn changed(cycle: u64) -> Vec<u64> {
    let [removed, added] = change(cycle);
    let mut quads = made(cycle);
    quads.retain(|quad| !removed.contains(quad));
    quads.extend(added);
    quads
}

/// Returns the numbers that [`StepKind::GrowAndCopy`] adds.
fn more(cycle: u64) -> Vec<u64> {
    let first = size(cycle) * 2;
    (first..first + GROWN).collect()
}

fn grown(cycle: u64) -> Vec<u64> {
    let mut quads = changed(cycle);
    quads.extend(more(cycle));
    quads
}

/// Returns the number of quads after the `n`th step; 0 before the first.
pub(super) fn quads_until(number: u64) -> u64 {
    if number == 0 {
        return 0;
    }
    let graphs = Step::new(number).graphs_after();
    graphs.values().map(|quads| quads.len() as u64).sum()
}

/// Returns the subject, predicate and object of a quad. Graphs of different cycles share most of them.
fn triple(quad: u64) -> [String; 3] {
    [
        format!("{SUBJECTS}{}", quad / 2),
        predicate(1 + quad % PREDICATES),
        format!("http://example.org/value/{}", quad % 97),
    ]
}

/// Takes the `n`th step; if it was taken already, changes nothing. Returns how often a graph was removed or copied as a
/// whole, order by order.
pub(super) fn step(store: &Store, number: u64, options: &LoadOptions) -> Result<u64> {
    let step = Step::new(number);
    if step.kind == StepKind::Make && step.cycle.is_multiple_of(3) {
        let source = Source::from_reader(
            format!("graph {}", step.cycle),
            Cursor::new(quads_text(step)),
            RdfFormat::NQuads,
            Compression::None,
        )?;
        store.load(vec![source], options, &Arc::new(LoadProgress::default()))?;
        return Ok(0);
    }
    let mut whole = 0;
    again(|| {
        whole = 0;
        let mut changes = GraphChanges {
            transaction: store.begin()?,
            whole: &mut whole,
        };
        changes.take(step)?;
        changes.transaction.commit().map(|_| ())
    })?;
    Ok(whole)
}

/// Takes some first steps without a fault, in half of the stores: the later steps, which copy, move and drop what is
/// there, are the ones that faults meet from then on. Returns the number of the last one.
pub(super) fn begin(store: &Store, options: &LoadOptions, random: &mut SmallRng) -> Result<u64> {
    let last = match random.random_range(0..2) {
        0 => 0,
        _ => random.random_range(1..=2 * STEPS + 1),
    };
    for number in 1..=last {
        step(store, number, options)?;
    }
    Ok(last)
}

/// A transaction that changes whole graphs.
struct GraphChanges<'a> {
    transaction: Transaction,
    /// The number of times that it removed or copied a graph order by order.
    whole: &'a mut u64,
}

impl GraphChanges<'_> {
    fn take(&mut self, step: Step) -> Result<(), StoreError> {
        let (graph, copy) = (step.graph(), step.copy());
        match step.kind {
            StepKind::Make => {
                let quads = made(step.cycle);
                // In two parts, so that the first one may go to the device.
                let (first, second) = quads.split_at(quads.len() / 2);
                self.insert(&graph, first)?;
                self.insert(&graph, second)
            }
            StepKind::Copy => self.copy(&graph, &copy),
            StepKind::Change => {
                let [removed, added] = change(step.cycle);
                self.remove(&copy, &removed)?;
                self.insert(&copy, &added)
            }
            StepKind::Move => {
                if self.is_empty(&copy)? {
                    return Ok(());
                }
                self.drop(&graph)?;
                self.copy(&copy, &graph)?;
                self.drop(&copy)
            }
            StepKind::GrowAndCopy => {
                self.insert(&graph, &more(step.cycle))?;
                self.copy(&graph, &copy)
            }
            StepKind::DropCopy => self.drop(&copy),
            StepKind::DropBefore => self.drop(&step.before().graph()),
        }
    }

    fn is_empty(&mut self, graph: &str) -> Result<bool, StoreError> {
        let graph = self.id(graph)?;
        Ok(self.transaction.snapshot().count(&of_graph(graph))? == 0)
    }

    fn id(&mut self, name: &str) -> Result<TermId, StoreError> {
        Ok(self.transaction.ids(&[iri(name)])?[0])
    }

    fn rows(&mut self, graph: &str, quads: &[u64]) -> Result<Vec<[u64; 4]>, StoreError> {
        let graph = self.id(graph)?;
        let names: Vec<String> = quads.iter().flat_map(|&quad| triple(quad)).collect();
        let keys: Vec<_> = names.iter().map(|name| iri(name)).collect();
        let ids = self.transaction.ids(&keys)?;
        let row = |ids: &[TermId]| [ids[0].0, ids[1].0, ids[2].0, graph.0];
        Ok(ids.chunks(3).map(row).collect())
    }

    fn insert(&mut self, graph: &str, quads: &[u64]) -> Result<(), StoreError> {
        let rows = self.rows(graph, quads)?;
        self.transaction.insert(&rows).map(|_| ())
    }

    fn remove(&mut self, graph: &str, quads: &[u64]) -> Result<(), StoreError> {
        let rows = self.rows(graph, quads)?;
        self.transaction.remove(&rows).map(|_| ())
    }

    fn drop(&mut self, graph: &str) -> Result<(), StoreError> {
        let graph = self.id(graph)?;
        match self.transaction.remove_graph(graph, &|| true)? {
            Some(_) => *self.whole += 1,
            None => {
                let rows = rows_of(&self.transaction.snapshot(), graph)?;
                self.transaction.remove(&with_graph(&rows, graph))?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &str, to: &str) -> Result<(), StoreError> {
        let [from, to] = [self.id(from)?, self.id(to)?];
        match self.transaction.copy_graph(from, to, &|| true)? {
            Some(_) => *self.whole += 1,
            None => {
                let rows = rows_of(&self.transaction.snapshot(), from)?;
                self.transaction.insert(&with_graph(&rows, to))?;
            }
        }
        Ok(())
    }
}

fn with_graph(rows: &Rows, graph: TermId) -> Vec<[u64; 4]> {
    let row = |&[subject, predicate, object]: &[u64; 3]| [subject, predicate, object, graph.0];
    rows.iter().map(row).collect()
}

fn of_graph(graph: TermId) -> QuadPattern {
    QuadPattern {
        graph: GraphFilter::One(graph),
        ..QuadPattern::default()
    }
}

/// Returns the subjects, predicates and objects in a graph.
fn rows_of(snapshot: &Snapshot, graph: TermId) -> Result<Rows, StoreError> {
    let wanted = [Component::Subject, Component::Predicate, Component::Object];
    let mut scan = snapshot.scan(&of_graph(graph), Order::Gpso, &wanted)?;
    let (mut batch, mut rows) = (IdBatch::default(), Rows::new());
    while scan.next_into(&mut batch)? {
        let row = |row| std::array::from_fn(|column| batch.columns[column][row]);
        rows.extend((0..batch.rows).map(row));
    }
    Ok(rows)
}

/// Returns a new graph as N-Quads.
fn quads_text(step: Step) -> String {
    let mut text = String::new();
    for quad in made(step.cycle) {
        let [subject, predicate, object] = triple(quad);
        let graph = step.graph();
        // Writing to a string does not fail.
        let _ = writeln!(text, "<{subject}> <{predicate}> <{object}> <{graph}> .");
    }
    text
}

/// Returns the `n`th step as SPARQL, which changes nothing if the step was taken already.
pub(super) fn step_text(number: u64) -> String {
    let step = Step::new(number);
    let (graph, copy) = (step.graph(), step.copy());
    let data = |verb: &str, graph: &str, quads: &[u64]| {
        let mut text = format!("{verb} DATA {{ GRAPH <{graph}> {{\n");
        for &quad in quads {
            let [subject, predicate, object] = triple(quad);
            let _ = writeln!(text, "<{subject}> <{predicate}> <{object}> .");
        }
        text + "} }"
    };
    match step.kind {
        StepKind::Make => data("INSERT", &graph, &made(step.cycle)),
        StepKind::Copy => format!("COPY GRAPH <{graph}> TO GRAPH <{copy}>"),
        StepKind::Change => {
            let [removed, added] = change(step.cycle);
            let removed = data("DELETE", &copy, &removed);
            format!("{removed} ;\n{}", data("INSERT", &copy, &added))
        }
        StepKind::Move => format!("MOVE SILENT GRAPH <{copy}> TO GRAPH <{graph}>"),
        StepKind::GrowAndCopy => {
            let grown = data("INSERT", &graph, &more(step.cycle));
            format!("{grown} ;\nCOPY GRAPH <{graph}> TO GRAPH <{copy}>")
        }
        StepKind::DropCopy => format!("DROP SILENT GRAPH <{copy}>"),
        StepKind::DropBefore => format!("DROP SILENT GRAPH <{}>", step.before().graph()),
    }
}

/// Finds the client's last step in a store, given the last one that was acknowledged.
///
/// # Errors
/// If the graphs are not exactly those after some step, or those after an earlier step than the acknowledged one.
pub(super) fn find(snapshot: &Snapshot, at_least: u64) -> Result<u64> {
    let found = graphs_in(snapshot)?;
    let cycle_of = |name: &String| {
        let number = name.strip_prefix(NAMES)?.split('/').next()?;
        number.parse::<u64>().ok()
    };
    let last = match found.keys().filter_map(cycle_of).max() {
        None => 0,
        Some(cycle) => {
            let mut matching = None;
            for number in Step::of_cycle(cycle) {
                if are_expected(snapshot, &found, number)? {
                    matching = Some(number);
                }
            }
            let sizes: Vec<(&String, usize)> = found
                .iter()
                .map(|(name, rows)| (name, rows.len()))
                .collect();
            matching.ok_or_else(|| {
                Lost(format!(
                    "{at_least} steps with graphs acknowledged: no step of {:?} leaves these graphs: {sizes:?}",
                    Step::of_cycle(cycle)
                ))
            })?
        }
    };
    ensure!(
        last >= at_least,
        Lost(format!(
            "the graphs are those after step {last} of {at_least} acknowledged"
        ))
    );
    Ok(last)
}

/// Returns the client's graphs, by name.
fn graphs_in(snapshot: &Snapshot) -> Result<BTreeMap<String, Rows>> {
    let graphs = snapshot.named_graphs::<StoreError>(|_| Ok(()))?;
    let mut found = BTreeMap::new();
    for (&graph, name) in graphs.iter().zip(snapshot.decode(&graphs)?) {
        let name = name.to_string();
        let name = name.trim_matches(['<', '>']);
        if name.starts_with(NAMES) {
            found.insert(name.to_owned(), rows_of(snapshot, graph)?);
        }
    }
    Ok(found)
}

fn are_expected(
    snapshot: &Snapshot,
    found: &BTreeMap<String, Rows>,
    number: u64,
) -> Result<bool, StoreError> {
    let expected = Step::new(number).graphs_after();
    let sizes = expected.iter().map(|(name, quads)| (name, quads.len()));
    if !sizes.eq(found.iter().map(|(name, rows)| (name, rows.len()))) {
        return Ok(false);
    }
    for (quads, rows) in expected.values().zip(found.values()) {
        let names: Vec<String> = quads.iter().flat_map(|&quad| triple(quad)).collect();
        let keys: Vec<_> = names.iter().map(|name| iri(name)).collect();
        let ids = snapshot.resolve_keys(&keys)?;
        let is_there = |ids: &[Option<TermId>]| match *ids {
            [Some(subject), Some(predicate), Some(object)] => {
                rows.contains(&[subject.0, predicate.0, object.0])
            }
            _ => false,
        };
        if !ids.chunks(3).all(is_there) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_step_follows_from_its_graphs() {
        let mut seen = BTreeSet::new();
        for number in 1..=100 {
            let step = Step::new(number);
            assert!(Step::of_cycle(step.cycle).contains(&number), "{step:?}");
            let graphs = step.graphs_after();
            assert!(graphs.contains_key(&step.graph()), "{step:?}");
            assert!(graphs.values().all(|quads| !quads.is_empty()), "{step:?}");
            assert!(seen.insert(graphs), "{step:?} leaves the graphs of another");
        }
        assert_eq!(Step::new(1).cycle, 0);
        assert_eq!(Step::new(8).kind, StepKind::DropBefore);
        assert_eq!(Step::new(9).kind, StepKind::Make);
    }

    #[test]
    fn the_quads_of_a_graph_differ() {
        let quads = (0..4 * LARGE_MAX).map(triple);
        let distinct: BTreeSet<[String; 3]> = quads.collect();
        assert_eq!(distinct.len() as u64, 4 * LARGE_MAX);
    }
}

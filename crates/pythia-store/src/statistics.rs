//! Exact counts of a segment's quads, made while its orders were written.

use std::sync::Arc;

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_rdf::{TermId, TermKind};
use rustc_hash::FxHashMap;

use crate::StoreError;
use crate::characteristic::CharacteristicSets;
use crate::segment::column::ColumnDirectory;
use crate::segment::tuple::TupleStatistics;

/// Graphs that are counted one by one; the others are only summed.
pub const GRAPHS_MAX: usize = 100_000;

/// Counts of a store's quads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Quads in all graphs.
    pub quads: u64,
    /// Distinct triples: quads regardless of their graphs.
    pub triples: u64,
    /// Distinct subjects.
    pub subjects: u64,
    /// Distinct objects.
    pub objects: u64,
    /// The predicates, sorted by id.
    pub predicates: Vec<PredicateStatistics>,
    /// The graphs.
    pub graphs: GraphStatistics,
    /// The sets of predicates that subjects have, in the base; empty in stores of format 1.
    pub characteristic: Arc<CharacteristicSets>,
    /// True if the numbers of distinct subjects and objects are exact; false if they are upper bounds.
    pub distinct_exact: bool,
}

/// Counts of one predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredicateStatistics {
    /// The predicate.
    pub predicate: TermId,
    /// Its quads.
    pub quads: u64,
    /// Its distinct triples.
    pub triples: u64,
    /// Its distinct subjects.
    pub subjects: u64,
    /// Its distinct objects.
    pub objects: u64,
    /// Most distinct objects of one subject; 1 if the predicate is functional.
    pub objects_max: u64,
    /// Most distinct subjects of one object; 1 if it is inverse functional.
    pub subjects_max: u64,
    /// The kinds of its subjects.
    pub subject_kinds: KindSet,
    /// The kinds of its objects.
    pub object_kinds: KindSet,
    /// True if the numbers of distinct subjects and objects and the maxima are exact; false if they are upper bounds.
    /// Then the kinds may include kinds that no longer occur.
    pub distinct_exact: bool,
}

/// A set of term kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindSet(pub u128);

impl KindSet {
    /// Returns whether the kind is in the set.
    pub const fn contains(self, kind: TermKind) -> bool {
        self.0 >> (kind as u32) & 1 == 1
    }

    /// Returns the kinds, in id order.
    pub fn iter(self) -> impl Iterator<Item = TermKind> {
        (0..128u8)
            .filter(move |number| self.0 >> number & 1 == 1)
            .filter_map(TermKind::from_u8)
    }
}

/// Quads per graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphStatistics {
    /// Graphs with their quads, sorted by id; at most [`GRAPHS_MAX`].
    pub graphs: Vec<(TermId, u64)>,
    /// Quads of graphs that are not listed.
    pub unlisted_quads: u64,
}

impl Statistics {
    /// Returns the counts of a predicate; `None` if no quad has it.
    pub fn predicate(&self, predicate: TermId) -> Option<&PredicateStatistics> {
        let found = self
            .predicates
            .binary_search_by_key(&predicate, |entry| entry.predicate);
        found.ok().map(|index| &self.predicates[index])
    }

    /// Combines the counts of the orders.
    pub(crate) fn assemble(
        spo: &TupleStatistics,
        ops: &TupleStatistics,
        pso: &ColumnDirectory,
        pos: &ColumnDirectory,
        graphs: GraphStatistics,
        characteristic: CharacteristicSets,
    ) -> Self {
        let predicates = pso.predicates.iter().zip(&pos.predicates);
        let predicates = predicates.map(|(pso, pos)| PredicateStatistics {
            predicate: TermId(pso.predicate),
            quads: pso.rows,
            triples: pso.pairs,
            subjects: pso.distinct_a,
            objects: pos.distinct_a,
            objects_max: pso.pairs_max,
            subjects_max: pos.pairs_max,
            subject_kinds: KindSet(pso.a_kinds),
            object_kinds: KindSet(pos.a_kinds),
            distinct_exact: true,
        });
        Self {
            quads: pso.rows,
            triples: pso.predicates.iter().map(|entry| entry.pairs).sum(),
            subjects: spo.tuples,
            objects: ops.tuples,
            predicates: predicates.collect(),
            graphs,
            characteristic: Arc::new(characteristic),
            distinct_exact: true,
        }
    }
}

impl GraphStatistics {
    /// Returns the quads of a graph; `None` if unknown.
    pub fn quads(&self, graph: TermId) -> Option<u64> {
        match self.graphs.binary_search_by_key(&graph, |entry| entry.0) {
            Ok(index) => Some(self.graphs[index].1),
            Err(_) => self.is_complete().then_some(0),
        }
    }

    /// Returns the quads of the default graph; always known.
    pub fn default_graph_quads(&self) -> u64 {
        match self.graphs.first() {
            Some(&(TermId::DEFAULT_GRAPH, quads)) => quads,
            _ => 0,
        }
    }

    /// Returns the quads of all graphs; `None` if the sum overflows, as in damaged counts.
    pub(crate) fn total_quads(&self) -> Option<u64> {
        let mut quads = self.graphs.iter().map(|entry| entry.1);
        quads.try_fold(self.unlisted_quads, u64::checked_add)
    }

    /// Returns whether all graphs are listed.
    pub fn is_complete(&self) -> bool {
        self.unlisted_quads == 0
    }

    /// Appends the stored form.
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.varint(self.unlisted_quads);
        out.varint(self.graphs.len() as u64);
        for (graph, quads) in &self.graphs {
            out.varint(graph.0);
            out.varint(*quads);
        }
    }

    /// Reads the output of [`Self::write`].
    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let unlisted_quads = input.varint()?;
        let count = input.count(2)?;
        let mut graphs: Vec<(TermId, u64)> = Vec::with_capacity(count);
        for _ in 0..count {
            let entry = (TermId(input.varint()?), input.varint()?);
            if graphs.last().is_some_and(|last| last.0 >= entry.0) {
                return Err(input.corrupt("graphs in order"));
            }
            graphs.push(entry);
        }
        Ok(Self {
            graphs,
            unlisted_quads,
        })
    }
}

/// Counts quads per graph while they are written.
#[derive(Debug, Default)]
pub(crate) struct GraphCounter {
    last: u64,
    last_quads: u64,
    quads: FxHashMap<u64, u64>,
    unlisted_quads: u64,
}

impl GraphCounter {
    /// Returns a counter of the graphs that the counts of the same quads list: which ones these are depends on the order
    /// in which the quads were counted.
    pub(crate) fn of_listed(counts: &GraphStatistics) -> Self {
        let listed = counts.graphs.iter().map(|(graph, _)| (graph.0, 0));
        Self {
            quads: listed.collect(),
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, graph: u64) {
        if graph != self.last {
            self.settle();
            self.last = graph;
        }
        self.last_quads += 1;
    }

    fn settle(&mut self) {
        let quads = std::mem::take(&mut self.last_quads);
        if quads == 0 {
            return;
        }
        // There is always room for the default graph.
        let full = self.quads.len() >= GRAPHS_MAX && self.last != TermId::DEFAULT_GRAPH.0;
        match self.quads.get_mut(&self.last) {
            Some(sum) => *sum += quads,
            None if full => self.unlisted_quads += quads,
            None => {
                self.quads.insert(self.last, quads);
            }
        }
    }

    pub(crate) fn finish(mut self) -> GraphStatistics {
        self.settle();
        let entries = self.quads.into_iter();
        let mut graphs: Vec<_> = entries.map(|(id, quads)| (TermId(id), quads)).collect();
        graphs.sort_unstable();
        GraphStatistics {
            graphs,
            unlisted_quads: self.unlisted_quads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_counted_and_come_back() {
        let mut counter = GraphCounter::default();
        for graph in [0, 0, 5, 5, 3, 0] {
            counter.count(graph);
        }
        let graphs = counter.finish();
        assert_eq!(graphs.default_graph_quads(), 3);
        assert_eq!(graphs.quads(TermId(5)), Some(2));
        assert_eq!(graphs.quads(TermId(4)), Some(0));
        let mut out = ByteWriter::new();
        graphs.write(&mut out);
        let bytes = out.into_bytes();
        let read = GraphStatistics::read(&mut ByteReader::new("test", &bytes));
        assert_eq!(read.expect("just written"), graphs);
    }

    #[test]
    fn graphs_beyond_the_limit_are_summed_up() {
        let mut counter = GraphCounter::default();
        for graph in 1..=GRAPHS_MAX as u64 + 10 {
            counter.count(graph);
        }
        counter.count(0);
        let graphs = counter.finish();
        assert_eq!(graphs.unlisted_quads, 10);
        assert_eq!(graphs.default_graph_quads(), 1);
        assert_eq!(graphs.quads(TermId(GRAPHS_MAX as u64 + 5)), None);
    }

    #[test]
    fn counts_of_listed_graphs_do_not_depend_on_the_order_of_quads() {
        let graphs = 0..=GRAPHS_MAX as u64 + 10;
        let mut counter = GraphCounter::default();
        graphs.clone().for_each(|graph| counter.count(graph));
        let counts = counter.finish();
        let again = |graphs: &mut dyn Iterator<Item = u64>| {
            let mut counter = GraphCounter::of_listed(&counts);
            graphs.for_each(|graph| counter.count(graph));
            counter.finish()
        };
        assert_eq!(again(&mut graphs.clone().rev()), counts);
        assert_ne!(again(&mut graphs.clone().skip(1)), counts);
        assert_ne!(again(&mut graphs.clone().skip(2)), counts);
        assert_ne!(again(&mut graphs.chain([7])), counts);
    }
}

//! A graph held in memory, condensed to its strongly connected components. A walk over components finds the
//! nodes that a component reaches. Their number is computed for all components together, without listing
//! them.
//!
//! Components are numbered so that every edge between two of them leads to the smaller number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pythia_store::graph::{Components, Graph};

use crate::error::QueryError;
use crate::limits::fork::fork;
use crate::limits::governor::{Governor, Held};

/// Number of components after which cancellation is checked.
const CHECK_EVERY: usize = 1 << 16;
/// Number of components whose edges are condensed by one thread.
const TOGETHER: usize = 1 << 14;

/// The strongly connected components of a graph and the edges between them.
pub(super) struct Condensed {
    components: Components,
    /// Per component, the nodes in it.
    members: Graph,
    /// Per component, the components that edges lead to, without itself.
    successors: Graph,
    /// The walk in which each component was last seen.
    seen: Vec<u32>,
    walk: u32,
    held: Held,
}

impl Condensed {
    /// Condenses a graph.
    pub(super) fn of_graph(graph: &Graph, governor: &Arc<Governor>) -> Result<Self, QueryError> {
        let nodes = graph.nodes();
        let mut held = Held::new(governor);
        // The result, and 28 bytes per node while searching for components.
        held.set(nodes * 56 + graph.edges() as usize * size_of::<u32>())?;
        let components = Components::find(graph, &mut || governor.check())?;
        governor.check()?;
        let members = components.members();
        let count = components.count();
        let successors = fork(governor.cores(), count.div_ceil(TOGETHER), |part| {
            governor.check()?;
            let first = part * TOGETHER;
            let range = first as u32..(first + TOGETHER).min(count) as u32;
            Ok(graph.condensed(&components, &members, range))
        })?;
        let successors = Graph::joined(successors);
        let held_bytes = Graph::bytes(count, nodes)
            + Graph::bytes(count, successors.edges() as usize)
            + nodes * 4
            + count * 9;
        held.set(held_bytes)?;
        Ok(Self {
            components,
            members,
            successors,
            seen: vec![0; count],
            walk: 0,
            held,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.components.count()
    }

    pub(super) fn of_node(&self, node: u32) -> u32 {
        self.components.of[node as usize]
    }

    /// Returns whether the component's nodes reach themselves.
    pub(super) fn is_cyclic(&self, component: u32) -> bool {
        self.components.cyclic[component as usize]
    }

    /// Returns all nodes, component by component.
    pub(super) fn nodes(&self) -> &[u32] {
        self.members.all_targets()
    }

    /// Appends the nodes that a component's nodes reach over one or more edges.
    pub(super) fn reached(&mut self, component: u32, out: &mut Vec<u32>) {
        self.walk += 1;
        let own = self.is_cyclic(component);
        let mut reached = Vec::new();
        let mut next = component;
        self.seen[component as usize] = self.walk;
        loop {
            for &successor in self.successors.targets(next) {
                let seen = &mut self.seen[successor as usize];
                if *seen != self.walk {
                    *seen = self.walk;
                    reached.push(successor);
                    out.extend(self.members.targets(successor));
                }
            }
            match reached.pop() {
                Some(reached) => next = reached,
                None => break,
            }
        }
        if own {
            out.extend(self.members.targets(component));
        }
        if self.walk == u32::MAX {
            self.seen.fill(0);
            self.walk = 0;
        }
    }

    /// Counts, per component, the nodes that [`Self::reached`] finds.
    pub(super) fn counts(&mut self, governor: &Arc<Governor>) -> Result<Vec<u64>, QueryError> {
        let count = self.count();
        self.held.add(count * size_of::<u64>())?;
        // Nodes reached, including the component itself. A component with one successor adds to that
        // successor's count.
        let mut all = Unions::of(self, governor)?.count()?;
        for component in 0..count as u32 {
            let beyond = match self.successors.targets(component) {
                [] => 0,
                [one] => all[*one as usize],
                _ => all[component as usize],
            };
            all[component as usize] = beyond + self.size(component);
        }
        for component in 0..count as u32 {
            if !self.is_cyclic(component) {
                all[component as usize] -= self.size(component);
            }
        }
        Ok(all)
    }

    fn size(&self, component: u32) -> u64 {
        self.members.targets(component).len() as u64
    }
}

/// Words of a block. 64 components per word are counted together.
const BLOCK_WORDS: usize = 4;
const BLOCK: usize = BLOCK_WORDS * 64;

type Bits = [u64; BLOCK_WORDS];

/// Counts the nodes reached from components with several successors, whose sets overlap.
///
/// Bits, one for each component of a block, are passed from successors to predecessors. One component, the
/// hub, is left out: in graphs with a large component nearly all components reach it, so the nodes that it
/// reaches are counted once, and only the others bit by bit.
struct Unions<'a> {
    components: &'a Condensed,
    governor: &'a Arc<Governor>,
    predecessors: Graph,
    /// Components reached from the hub, including itself, and those that reach it.
    below_hub: Vec<bool>,
    above_hub: Vec<bool>,
    hub: u32,
    /// Components with several successors, and all that are reached from them. The others need not be
    /// counted and pass nothing on.
    taking_part: Vec<bool>,
    _held: Held,
}

impl<'a> Unions<'a> {
    fn of(components: &'a Condensed, governor: &'a Arc<Governor>) -> Result<Self, QueryError> {
        let count = components.count();
        let successors = &components.successors;
        let mut held = Held::new(governor);
        let turned = Graph::bytes(count, successors.edges() as usize);
        held.set(turned + count * (size_of::<Bits>() + 12))?;
        let hub = (0..count as u32).max_by_key(|c| components.size(*c));
        let hub = hub.unwrap_or(0);
        let mut unions = Self {
            components,
            governor,
            predecessors: successors.reversed(),
            below_hub: vec![false; count],
            above_hub: vec![false; count],
            hub,
            taking_part: vec![false; count],
            _held: held,
        };
        let mut rest = Vec::new();
        mark(hub, successors, &mut unions.below_hub, &mut rest);
        mark(hub, &unions.predecessors, &mut unions.above_hub, &mut rest);
        for component in 0..count as u32 {
            if unions.is_branching(component) && !unions.taking_part[component as usize] {
                mark(component, successors, &mut unions.taking_part, &mut rest);
            }
        }
        Ok(unions)
    }

    fn is_branching(&self, component: u32) -> bool {
        self.components.successors.targets(component).len() > 1
    }

    /// Returns for each component with several successors the number of nodes reached through them; 0 for others. Blocks are
    /// counted on all free cores.
    fn count(&self) -> Result<Vec<u64>, QueryError> {
        let count = self.components.count();
        let (below, beside): (Vec<u32>, Vec<u32>) = (0..count as u32)
            .filter(|component| self.taking_part[*component as usize])
            .partition(|component| self.below_hub[*component as usize]);
        let blocks = below.chunks(BLOCK).map(|block| (block, true));
        let beside = beside.chunks(BLOCK).map(|block| (block, false));
        let blocks: Vec<(&[u32], bool)> = blocks.chain(beside).collect();
        let found: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let (next, cores) = (AtomicUsize::new(0), self.governor.cores());
        let counters = self.counters(blocks.len());
        fork(cores, counters.len(), |counter| {
            let mut bits = vec![[0; BLOCK_WORDS]; count];
            // The first one goes on to the end.
            while counter == 0 || cores.may_stay() {
                let block = next.fetch_add(1, Ordering::Relaxed);
                let Some((block, below)) = blocks.get(block) else {
                    break;
                };
                self.count_block(block, *below, &mut bits, &found)?;
            }
            Ok(())
        })?;
        let mut unions: Vec<u64> = found.into_iter().map(AtomicU64::into_inner).collect();
        let below_hub = (0..count as u32).filter(|c| self.below_hub[*c as usize]);
        let hub_reaches: u64 = below_hub.map(|c| self.components.size(c)).sum();
        for component in 0..count as u32 {
            if self.is_branching(component) && self.above_hub[component as usize] {
                unions[component as usize] += match component == self.hub {
                    true => hub_reaches - self.components.size(component),
                    false => hub_reaches,
                };
            }
        }
        Ok(unions)
    }

    /// Returns the memory of those that count blocks, besides what is held already for one of them: as many as there are
    /// cores and blocks, and memory.
    fn counters(&self, blocks: usize) -> Vec<Held> {
        let most = self.governor.cores().limit().min(blocks).max(1);
        let bytes = self.components.count() * size_of::<Bits>();
        let mut counters = vec![Held::new(self.governor)];
        while counters.len() < most {
            let mut held = Held::new(self.governor);
            if bytes > self.governor.memory_left() / 4 || held.set(bytes).is_err() {
                break;
            }
            counters.push(held);
        }
        counters
    }

    /// Passes the bits of some sorted components to all that reach them. With `below`, the components are
    /// below the hub, and those above the hub do not count them.
    fn count_block(
        &self,
        block: &[u32],
        below: bool,
        bits: &mut [Bits],
        unions: &[AtomicU64],
    ) -> Result<(), QueryError> {
        let sizes: Vec<u64> = block.iter().map(|c| self.components.size(*c)).collect();
        let mut touched = BinaryHeap::new();
        for (place, &component) in block.iter().enumerate() {
            if !(below && self.above_hub[component as usize]) {
                bits[component as usize][place / 64] |= 1 << (place % 64);
                touched.push(Reverse(component));
            }
        }
        let mut next_check = CHECK_EVERY;
        while let Some(Reverse(component)) = touched.pop() {
            let found = std::mem::take(&mut bits[component as usize]);
            for &predecessor in self.predecessors.targets(component) {
                let passed_over = below && self.above_hub[predecessor as usize];
                if passed_over || !self.taking_part[predecessor as usize] {
                    continue;
                }
                let bits = &mut bits[predecessor as usize];
                if bits.iter().all(|word| *word == 0) {
                    touched.push(Reverse(predecessor));
                }
                for (word, found) in bits.iter_mut().zip(found) {
                    *word |= found;
                }
            }
            if self.is_branching(component) {
                let nodes = weight(found, &sizes, block, component);
                unions[component as usize].fetch_add(nodes, Ordering::Relaxed);
            }
            next_check -= 1;
            if next_check == 0 {
                self.governor.check()?;
                next_check = CHECK_EVERY;
            }
        }
        Ok(())
    }
}

/// Counts the nodes in the components whose bits are set, without `own`.
fn weight(bits: Bits, sizes: &[u64], block: &[u32], own: u32) -> u64 {
    let mut nodes = 0;
    for (word, mut bits) in bits.into_iter().enumerate() {
        while bits != 0 {
            let place = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if block[place] != own {
                nodes += sizes[place];
            }
        }
    }
    nodes
}

/// Marks a component and all that are reached from it. `rest` is empty before and after.
fn mark(from: u32, edges: &Graph, marked: &mut [bool], rest: &mut Vec<u32>) {
    if let Some(mark) = marked.get_mut(from as usize) {
        *mark = true;
        rest.push(from);
    }
    while let Some(component) = rest.pop() {
        for &next in edges.targets(component) {
            if !std::mem::replace(&mut marked[next as usize], true) {
                rest.push(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;

    fn graph(nodes: u32, edges: &[(u32, u32)]) -> Graph {
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        let mut builder = Graph::builder(nodes as usize, edges.len());
        edges.iter().for_each(|(from, to)| builder.push(*from, *to));
        builder.finish()
    }

    /// Finds the nodes that one or more edges lead to, by a plain search.
    fn reached(graph: &Graph, from: u32) -> BTreeSet<u32> {
        let mut found: BTreeSet<u32> = graph.targets(from).iter().copied().collect();
        let mut rest: Vec<u32> = found.iter().copied().collect();
        while let Some(node) = rest.pop() {
            rest.extend(
                graph
                    .targets(node)
                    .iter()
                    .filter(|node| found.insert(**node)),
            );
        }
        found
    }

    fn compare(graph: &Graph) {
        let governor = Arc::new(Governor::unlimited());
        let mut components = Condensed::of_graph(graph, &governor).unwrap();
        let counts = components.counts(&governor).unwrap();
        for node in 0..graph.nodes() as u32 {
            let component = components.of_node(node);
            let mut found = Vec::new();
            components.reached(component, &mut found);
            let expected = reached(graph, node);
            assert_eq!(found.len(), expected.len(), "each once");
            assert_eq!(BTreeSet::from_iter(found), expected);
            assert_eq!(counts[component as usize], expected.len() as u64);
        }
    }

    #[test]
    fn random_graphs_are_condensed_and_counted() {
        let mut random = StdRng::seed_from_u64(5);
        for round in 0..400 {
            let nodes = random.random_range(1..if round % 10 == 0 { 700 } else { 30 });
            let edges = random.random_range(0..nodes * 2);
            let edges: Vec<(u32, u32)> = (0..edges)
                .map(|_| (random.random_range(0..nodes), random.random_range(0..nodes)))
                .collect();
            compare(&graph(nodes, &edges));
        }
    }

    #[test]
    fn acyclic_graphs_have_overlapping_sets() {
        let mut random = StdRng::seed_from_u64(6);
        for _ in 0..100 {
            let nodes = random.random_range(2..600);
            let edges: Vec<(u32, u32)> = (0..nodes * 2)
                .map(|_| {
                    let from = random.random_range(1..nodes);
                    (from, random.random_range(0..from))
                })
                .collect();
            compare(&graph(nodes, &edges));
        }
    }

    #[test]
    fn a_long_chain_takes_no_stack() {
        let nodes = 300_000;
        let edges: Vec<(u32, u32)> = (1..nodes).map(|node| (node - 1, node)).collect();
        let governor = Arc::new(Governor::unlimited());
        let chain = graph(nodes, &edges);
        let mut components = Condensed::of_graph(&chain, &governor).unwrap();
        let counts = components.counts(&governor).unwrap();
        assert_eq!(counts[components.of_node(0) as usize], u64::from(nodes) - 1);
        compare(&graph(0, &[]));
    }
}

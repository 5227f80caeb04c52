//! A graph held in memory, condensed to its strongly connected components: what is reached from a
//! component is found by a walk over components, and how much is reached is counted without
//! finding it for each.
//!
//! Components are numbered so that every edge between two of them leads to the smaller number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::error::QueryError;
use crate::governor::{Governor, Held};

/// After so many nodes or edges it is asked whether the query should still run.
const CHECK_EVERY: usize = 1 << 16;

/// For each source, its targets.
pub(super) struct Adjacency {
    /// Where the targets of each source begin, and where those of the last end.
    pub(super) first: Vec<u32>,
    pub(super) targets: Vec<u32>,
}

impl Adjacency {
    pub(super) fn of(&self, source: u32) -> &[u32] {
        let source = source as usize;
        &self.targets[self.first[source] as usize..self.first[source + 1] as usize]
    }

    pub(super) fn sources(&self) -> usize {
        self.first.len() - 1
    }

    /// Bytes of an adjacency of this size.
    pub(super) fn bytes(sources: usize, edges: usize) -> usize {
        (sources + 1 + edges) * size_of::<u32>()
    }

    /// The same edges from their targets; there are as many sources.
    fn reversed(&self) -> Self {
        let mut first = vec![0; self.first.len()];
        for &target in &self.targets {
            first[target as usize + 1] += 1;
        }
        for source in 1..first.len() {
            first[source] += first[source - 1];
        }
        let mut next = first.clone();
        let mut targets = vec![0; self.targets.len()];
        for source in 0..self.sources() as u32 {
            for &target in self.of(source) {
                targets[next[target as usize] as usize] = source;
                next[target as usize] += 1;
            }
        }
        Self { first, targets }
    }
}

/// The strongly connected components of a graph and the edges between them.
pub(super) struct Components {
    /// Per node, its component.
    of: Vec<u32>,
    /// Per component, the nodes in it.
    members: Adjacency,
    /// Per component, whether its nodes reach themselves.
    cyclic: Vec<bool>,
    /// Per component, the components that edges lead to, without itself.
    successors: Adjacency,
    /// For walks: the walk in which each component was last seen.
    seen: Vec<u32>,
    walk: u32,
    held: Held,
}

impl Components {
    /// Condenses a graph.
    pub(super) fn of_graph(
        graph: &Adjacency,
        governor: &Arc<Governor>,
    ) -> Result<Self, QueryError> {
        let nodes = graph.sources();
        let mut held = Held::new(governor);
        // What is made here, and four numbers a node while the components are looked for.
        held.set(nodes * 40 + Adjacency::bytes(nodes, graph.targets.len()))?;
        let (of, count) = number_components(graph, governor)?;
        let members = members(&of, count);
        let (successors, cyclic) = condense(graph, &of, &members, governor)?;
        let held_bytes = Adjacency::bytes(count, nodes)
            + Adjacency::bytes(count, successors.targets.capacity())
            + nodes * 4
            + count * 5;
        held.set(held_bytes)?;
        Ok(Self {
            of,
            members,
            cyclic,
            successors,
            seen: vec![0; count],
            walk: 0,
            held,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.cyclic.len()
    }

    pub(super) fn of_node(&self, node: u32) -> u32 {
        self.of[node as usize]
    }

    /// Whether the component's nodes reach themselves.
    pub(super) fn is_cyclic(&self, component: u32) -> bool {
        self.cyclic[component as usize]
    }

    pub(super) fn members(&self, component: u32) -> &[u32] {
        self.members.of(component)
    }

    /// Appends the nodes that at least one edge, or several, lead to from a component's nodes.
    pub(super) fn reached(&mut self, component: u32, out: &mut Vec<u32>) {
        self.walk += 1;
        let own = self.cyclic[component as usize];
        let mut reached = Vec::new();
        let mut next = component;
        self.seen[component as usize] = self.walk;
        loop {
            for &successor in self.successors.of(next) {
                let seen = &mut self.seen[successor as usize];
                if *seen != self.walk {
                    *seen = self.walk;
                    reached.push(successor);
                    out.extend(self.members.of(successor));
                }
            }
            match reached.pop() {
                Some(reached) => next = reached,
                None => break,
            }
        }
        if own {
            out.extend(self.members.of(component));
        }
        if self.walk == u32::MAX {
            self.seen.fill(0);
            self.walk = 0;
        }
    }

    /// Per component, how many nodes [`Self::reached`] finds.
    pub(super) fn counts(&mut self, governor: &Arc<Governor>) -> Result<Vec<u64>, QueryError> {
        let count = self.count();
        self.held.add(count * size_of::<u64>())?;
        let mut unions = vec![0; count];
        Unions::of(self, governor)?.count(&mut unions)?;
        // Nodes reached, the component itself included; where there is one way on, as it goes on.
        let mut all: Vec<u64> = unions;
        for component in 0..count as u32 {
            let beyond = match self.successors.of(component) {
                [] => 0,
                [one] => all[*one as usize],
                _ => all[component as usize],
            };
            all[component as usize] = beyond + self.size(component);
        }
        for component in 0..count as u32 {
            if !self.cyclic[component as usize] {
                all[component as usize] -= self.size(component);
            }
        }
        Ok(all)
    }

    fn size(&self, component: u32) -> u64 {
        self.members.of(component).len() as u64
    }
}

/// Tarjan's algorithm, without recursion: the component of each node, and how many there are.
/// Components are numbered as they are completed, those that edges lead to first.
fn number_components(
    graph: &Adjacency,
    governor: &Governor,
) -> Result<(Vec<u32>, usize), QueryError> {
    const NONE: u32 = u32::MAX;
    let nodes = graph.sources();
    let mut component = vec![NONE; nodes];
    // When each node was entered (0: not yet), and the earliest node known to be reached from it.
    let mut entered = vec![0_u32; nodes];
    let mut lowest = vec![0_u32; nodes];
    let mut open: Vec<u32> = Vec::new();
    let mut calls: Vec<(u32, u32)> = Vec::new();
    let (mut clock, mut components) = (0, 0);
    for root in 0..nodes as u32 {
        if entered[root as usize] != 0 {
            continue;
        }
        calls.push((root, graph.first[root as usize]));
        while let Some((node, edge)) = calls.pop() {
            let (at, end) = (node as usize, graph.first[node as usize + 1]);
            if entered[at] == 0 {
                clock += 1;
                (entered[at], lowest[at]) = (clock, clock);
                open.push(node);
                if (clock as usize).is_multiple_of(CHECK_EVERY) {
                    governor.check()?;
                }
            }
            let mut edge = edge;
            let mut into = None;
            while edge < end && into.is_none() {
                let target = graph.targets[edge as usize];
                if entered[target as usize] == 0 {
                    into = Some(target);
                } else {
                    if component[target as usize] == NONE {
                        lowest[at] = lowest[at].min(lowest[target as usize]);
                    }
                    edge += 1;
                }
            }
            if let Some(target) = into {
                // The edge is looked at again when the target is left.
                calls.push((node, edge));
                calls.push((target, graph.first[target as usize]));
                continue;
            }
            if lowest[at] == entered[at] {
                loop {
                    let member = open.pop().expect("the node itself is open");
                    component[member as usize] = components;
                    if member == node {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    Ok((component, components as usize))
}

/// The nodes of each component.
fn members(of: &[u32], count: usize) -> Adjacency {
    let mut first = vec![0; count + 1];
    for &component in of {
        first[component as usize + 1] += 1;
    }
    for component in 1..first.len() {
        first[component] += first[component - 1];
    }
    let mut next = first.clone();
    let mut nodes = vec![0; of.len()];
    for (node, &component) in of.iter().enumerate() {
        nodes[next[component as usize] as usize] = node as u32;
        next[component as usize] += 1;
    }
    Adjacency {
        first,
        targets: nodes,
    }
}

/// The edges between components, each once, and which components have edges within.
fn condense(
    graph: &Adjacency,
    of: &[u32],
    members: &Adjacency,
    governor: &Governor,
) -> Result<(Adjacency, Vec<bool>), QueryError> {
    let count = members.sources();
    let mut cyclic = vec![false; count];
    let mut first = Vec::with_capacity(count + 1);
    first.push(0);
    let mut targets: Vec<u32> = Vec::with_capacity(graph.targets.len());
    for component in 0..count {
        if component.is_multiple_of(CHECK_EVERY) {
            governor.check()?;
        }
        let start = targets.len();
        for &node in members.of(component as u32) {
            for &target in graph.of(node) {
                let target = of[target as usize];
                if target as usize == component {
                    cyclic[component] = true;
                } else {
                    targets.push(target);
                }
            }
        }
        targets[start..].sort_unstable();
        let mut kept = start;
        for place in start..targets.len() {
            if place == start || targets[place] != targets[kept - 1] {
                targets[kept] = targets[place];
                kept += 1;
            }
        }
        targets.truncate(kept);
        first.push(kept as u32);
    }
    targets.shrink_to_fit();
    Ok((Adjacency { first, targets }, cyclic))
}

/// Words of a block: so many times 64 components are counted together.
const BLOCK_WORDS: usize = 4;
const BLOCK: usize = BLOCK_WORDS * 64;

type Bits = [u64; BLOCK_WORDS];

/// Counts how much is reached from components with several successors, whose sets overlap.
///
/// Bits, one for each component of a block, are passed from successors to predecessors. One
/// component, the hub, is taken out of that: in graphs with a large component nearly everything
/// reaches it, so what it reaches is counted once and only the rest bit by bit.
struct Unions<'a> {
    components: &'a Components,
    governor: &'a Governor,
    predecessors: Adjacency,
    /// Components reached from the hub, itself included; and those that reach it.
    below_hub: Vec<bool>,
    above_hub: Vec<bool>,
    hub: u32,
    /// Components with several successors, and all that is reached from them: the others need
    /// neither be counted nor pass anything on.
    taking_part: Vec<bool>,
    _held: Held,
}

impl<'a> Unions<'a> {
    fn of(components: &'a Components, governor: &'a Arc<Governor>) -> Result<Self, QueryError> {
        let count = components.count();
        let successors = &components.successors;
        let mut held = Held::new(governor);
        let adjacency = Adjacency::bytes(count, successors.targets.len());
        held.set(adjacency * 2 + count * (size_of::<Bits>() + 4))?;
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
        mark(hub, successors, &mut unions.below_hub);
        mark(hub, &unions.predecessors, &mut unions.above_hub);
        for component in 0..count as u32 {
            if unions.is_branching(component) && !unions.taking_part[component as usize] {
                mark(component, successors, &mut unions.taking_part);
            }
        }
        Ok(unions)
    }

    fn is_branching(&self, component: u32) -> bool {
        self.components.successors.of(component).len() > 1
    }

    /// Adds to each component with several successors the number of nodes reached through them.
    fn count(&self, unions: &mut [u64]) -> Result<(), QueryError> {
        let count = self.components.count();
        let (below, beside): (Vec<u32>, Vec<u32>) = (0..count as u32)
            .filter(|component| self.taking_part[*component as usize])
            .partition(|component| self.below_hub[*component as usize]);
        let mut bits = vec![[0; BLOCK_WORDS]; count];
        for block in below.chunks(BLOCK) {
            self.count_block(block, true, &mut bits, unions)?;
        }
        for block in beside.chunks(BLOCK) {
            self.count_block(block, false, &mut bits, unions)?;
        }
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
        Ok(())
    }

    /// Passes the bits of some components, sorted, up to all that reach them: with `below`, they
    /// are below the hub and what is above it does not count them.
    fn count_block(
        &self,
        block: &[u32],
        below: bool,
        bits: &mut [Bits],
        unions: &mut [u64],
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
            for &predecessor in self.predecessors.of(component) {
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
                unions[component as usize] += weight(found, &sizes, block, component);
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

/// The nodes in the components whose bits are set, without `own`.
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

/// Marks a component and all that edges lead to from it.
fn mark(from: u32, edges: &Adjacency, marked: &mut [bool]) {
    let mut rest = Vec::new();
    if let Some(mark) = marked.get_mut(from as usize) {
        *mark = true;
        rest.push(from);
    }
    while let Some(component) = rest.pop() {
        for &next in edges.of(component) {
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

    fn adjacency(nodes: u32, edges: &[(u32, u32)]) -> Adjacency {
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        let first = (0..=nodes).map(|n| edges.partition_point(|(from, _)| *from < n) as u32);
        Adjacency {
            first: first.collect(),
            targets: edges.iter().map(|(_, to)| *to).collect(),
        }
    }

    /// What at least one edge leads to, the plain way.
    fn reached(graph: &Adjacency, from: u32) -> BTreeSet<u32> {
        let mut found: BTreeSet<u32> = graph.of(from).iter().copied().collect();
        let mut rest: Vec<u32> = found.iter().copied().collect();
        while let Some(node) = rest.pop() {
            rest.extend(graph.of(node).iter().filter(|node| found.insert(**node)));
        }
        found
    }

    fn compare(graph: &Adjacency) {
        let governor = Arc::new(Governor::unlimited());
        let mut components = Components::of_graph(graph, &governor).unwrap();
        let counts = components.counts(&governor).unwrap();
        for node in 0..graph.sources() as u32 {
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
            compare(&adjacency(nodes, &edges));
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
            compare(&adjacency(nodes, &edges));
        }
    }

    #[test]
    fn a_long_chain_takes_no_stack() {
        let nodes = 300_000;
        let edges: Vec<(u32, u32)> = (1..nodes).map(|node| (node - 1, node)).collect();
        let governor = Arc::new(Governor::unlimited());
        let graph = adjacency(nodes, &edges);
        let mut components = Components::of_graph(&graph, &governor).unwrap();
        let counts = components.counts(&governor).unwrap();
        assert_eq!(counts[components.of_node(0) as usize], u64::from(nodes) - 1);
        compare(&adjacency(0, &[]));
    }
}

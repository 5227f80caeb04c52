//! A directed graph over dense numbers, its strongly connected components, and its condensation, in which each
//! component is one node.

use std::ops::Range;

/// Marks a node without a number yet.
const NONE: u32 = u32::MAX;

/// Nodes between two calls of `check`.
const CHECK_EVERY: u32 = 1 << 12;

/// A graph whose nodes are 0, 1, …; edges are in memory by source: 8 bytes a node, 4 an edge.
#[derive(Debug)]
pub struct Graph {
    /// The start of each node's targets; one more entry for the end.
    starts: Vec<u64>,
    targets: Vec<u32>,
}

/// The strongly connected components, numbered so that edges between them lead to lower numbers.
#[derive(Debug)]
pub struct Components {
    /// Per node, its component.
    pub of: Vec<u32>,
    /// Per component, the first number such that it reaches all components from there to its own: its descendants in
    /// the forest of the depth-first search.
    pub firsts: Vec<u32>,
    /// Per component, whether it has an edge within.
    pub cyclic: Vec<bool>,
}

impl Graph {
    /// Returns a builder of a graph whose edges come sorted by source.
    pub fn builder(nodes: usize, edges: usize) -> GraphBuilder {
        let mut starts = Vec::with_capacity(nodes + 1);
        starts.push(0);
        GraphBuilder {
            nodes,
            graph: Self {
                starts,
                targets: Vec::with_capacity(edges),
            },
        }
    }

    /// Returns the graph with these targets; those of each node begin at its place in `starts`, which has one more
    /// place for the end.
    pub fn from_targets(starts: Vec<u64>, targets: Vec<u32>) -> Self {
        assert_eq!(starts.last(), Some(&(targets.len() as u64)));
        Self { starts, targets }
    }

    /// Returns the bytes of a graph of this size.
    pub fn bytes(nodes: usize, edges: usize) -> usize {
        (nodes + 1) * size_of::<u64>() + edges * size_of::<u32>()
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Returns the targets of a node's edges.
    pub fn targets(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.targets[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Returns the targets of all nodes, one node after the other.
    pub fn all_targets(&self) -> &[u32] {
        &self.targets
    }

    /// Returns the graph with its edges reversed.
    pub fn reversed(&self) -> Self {
        let mut starts = vec![0_u64; self.nodes() + 1];
        for &target in &self.targets {
            starts[target as usize + 1] += 1;
        }
        for node in 0..self.nodes() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; self.targets.len()];
        for source in 0..self.nodes() as u32 {
            for &target in self.targets(source) {
                let place = &mut next[target as usize];
                targets[*place as usize] = source;
                *place += 1;
            }
        }
        Self { starts, targets }
    }

    /// Returns the graph whose nodes are those of the parts, one part after the other. Their targets are numbers of its nodes. Each part
    /// is freed when it is copied.
    pub fn joined(parts: Vec<Self>) -> Self {
        let nodes = parts.iter().map(Self::nodes).sum::<usize>();
        let edges = parts.iter().map(Self::edges).sum::<u64>();
        let mut starts = Vec::with_capacity(nodes + 1);
        let mut targets = Vec::with_capacity(edges as usize);
        for part in parts {
            let before = targets.len() as u64;
            starts.extend(
                part.starts[..part.nodes()]
                    .iter()
                    .map(|start| before + start),
            );
            targets.extend_from_slice(&part.targets);
        }
        starts.push(edges);
        Self { starts, targets }
    }

    /// Returns the nodes of some components and their edges in the graph of all components: an edge leads from one to another if
    /// any of its nodes has such an edge. `members` holds the nodes of the components.
    pub fn condensed(&self, components: &Components, members: &Self, range: Range<u32>) -> Self {
        let first = range.start;
        let mut builder = Self::builder(range.len(), 0);
        let mut targets = Vec::new();
        for component in range {
            targets.clear();
            for &node in members.targets(component) {
                let others = self.targets(node).iter();
                targets.extend(others.map(|&target| components.of[target as usize]));
            }
            targets.sort_unstable();
            targets.dedup();
            let others = targets.iter().filter(|&&target| target != component);
            others.for_each(|&target| builder.push(component - first, target));
        }
        builder.finish()
    }
}

/// A graph being built.
#[derive(Debug)]
pub struct GraphBuilder {
    nodes: usize,
    graph: Graph,
}

impl GraphBuilder {
    /// Adds an edge; sources must not descend.
    pub fn push(&mut self, source: u32, target: u32) {
        self.skip_to(source as usize);
        self.graph.targets.push(target);
    }

    fn skip_to(&mut self, node: usize) {
        let filled = self.graph.targets.len() as u64;
        debug_assert!(self.graph.starts.len() <= node + 1, "sources ascend");
        self.graph.starts.resize(node + 1, filled);
    }

    /// Returns the graph; nodes for which no edge was pushed have none.
    pub fn finish(mut self) -> Graph {
        self.skip_to(self.nodes);
        self.graph
    }
}

/// A node whose edges are being followed.
struct Visit {
    node: u32,
    /// Number of its edges that were followed.
    followed: u32,
    /// Number of components when it was found.
    first: u32,
}

impl Components {
    /// Finds the components by Tarjan's algorithm, with an explicit stack. Takes time in proportion to nodes and
    /// edges, and about 28 bytes a node while it runs. Ends with the first error of `check`, which is called now and
    /// then.
    pub fn find<E>(graph: &Graph, check: &mut impl FnMut() -> Result<(), E>) -> Result<Self, E> {
        let mut search = Search {
            graph,
            found: vec![NONE; graph.nodes()],
            lowest: vec![NONE; graph.nodes()],
            next: 0,
            pending: Vec::new(),
            visits: Vec::new(),
            components: Self {
                of: vec![NONE; graph.nodes()],
                firsts: Vec::new(),
                cyclic: Vec::new(),
            },
        };
        for node in 0..graph.nodes() as u32 {
            if search.found[node as usize] == NONE {
                search.walk(node, check)?;
            }
        }
        Ok(search.components)
    }

    /// Returns the number of components.
    pub fn count(&self) -> usize {
        self.firsts.len()
    }

    /// Returns the numbers of all components.
    pub fn numbers(&self) -> Range<u32> {
        0..self.count() as u32
    }

    /// Returns the nodes of each component, in the form of a graph.
    pub fn members(&self) -> Graph {
        let mut starts = vec![0_u64; self.count() + 1];
        for &component in &self.of {
            starts[component as usize + 1] += 1;
        }
        for component in 0..self.count() {
            starts[component + 1] += starts[component];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; self.of.len()];
        for (node, &component) in self.of.iter().enumerate() {
            let place = &mut next[component as usize];
            targets[*place as usize] = node as u32;
            *place += 1;
        }
        Graph { starts, targets }
    }
}

struct Search<'a> {
    graph: &'a Graph,
    /// Per node, its place in the order of discovery.
    found: Vec<u32>,
    /// Per node, the earliest found node known to be in its component.
    lowest: Vec<u32>,
    next: u32,
    /// Nodes that are in no component yet.
    pending: Vec<u32>,
    /// The path from the start of a walk to the node whose edges are being followed.
    visits: Vec<Visit>,
    components: Components,
}

impl Search<'_> {
    fn walk<E>(&mut self, start: u32, check: &mut impl FnMut() -> Result<(), E>) -> Result<(), E> {
        self.visit(start);
        while let Some(visit) = self.visits.last_mut() {
            let node = visit.node as usize;
            if let Some(&target) = self.graph.targets(visit.node).get(visit.followed as usize) {
                visit.followed += 1;
                if self.found[target as usize] == NONE {
                    self.visit(target);
                } else if self.components.of[target as usize] == NONE {
                    self.lowest[node] = self.lowest[node].min(self.found[target as usize]);
                }
                continue;
            }
            let visit = self.visits.pop().expect("it was the last");
            if let Some(parent) = self.visits.last() {
                let parent = parent.node as usize;
                self.lowest[parent] = self.lowest[parent].min(self.lowest[node]);
            }
            if self.lowest[node] == self.found[node] {
                self.close(&visit);
            }
            if (visit.node).is_multiple_of(CHECK_EVERY) {
                check()?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, node: u32) {
        self.found[node as usize] = self.next;
        self.lowest[node as usize] = self.next;
        self.next += 1;
        self.pending.push(node);
        self.visits.push(Visit {
            node,
            followed: 0,
            first: self.components.firsts.len() as u32,
        });
    }

    /// Makes a component of the pending nodes down to its first node.
    fn close(&mut self, root: &Visit) {
        let number = self.components.firsts.len() as u32;
        let mut size = 0;
        loop {
            let member = self.pending.pop().expect("the root is pending");
            self.components.of[member as usize] = number;
            size += 1;
            if member == root.node {
                break;
            }
        }
        self.components.firsts.push(root.first);
        let has_loop = || self.graph.targets(root.node).contains(&root.node);
        self.components.cyclic.push(size > 1 || has_loop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        let mut builder = Graph::builder(nodes, edges.len());
        edges.iter().for_each(|&(from, to)| builder.push(from, to));
        builder.finish()
    }

    fn found(graph: &Graph) -> Components {
        let mut go_on = || Ok::<_, Infallible>(());
        match Components::find(graph, &mut go_on) {
            Ok(components) => components,
        }
    }

    #[test]
    fn components_are_numbered_from_the_sinks() {
        let graph = graph(6, &[(0, 1), (1, 2), (2, 0), (2, 3), (4, 3), (5, 5)]);
        let components = found(&graph);
        assert_eq!(components.of, [1, 1, 1, 0, 2, 3]);
        assert_eq!(components.firsts, [0, 0, 2, 3]);
        assert_eq!(components.cyclic, [false, true, false, true]);
        let condensed = graph.condensed(&components, &components.members(), components.numbers());
        let edges: Vec<&[u32]> = (0..4).map(|node| condensed.targets(node)).collect();
        assert_eq!(edges, [&[][..], &[0], &[0], &[]]);
        let members = components.members();
        let parts = [0..1, 1..3, 3..4].map(|range| graph.condensed(&components, &members, range));
        let joined = Graph::joined(parts.into());
        assert_eq!(
            (joined.starts, joined.targets),
            (condensed.starts.clone(), condensed.targets.clone())
        );
        let back = condensed.reversed();
        assert_eq!(back.targets(0), [1, 2]);
    }

    #[test]
    fn a_long_chain_needs_no_deep_recursion() {
        let count = 1_000_000;
        let mut builder = Graph::builder(count as usize, count as usize);
        (0..count - 1).for_each(|node| builder.push(node, node + 1));
        let components = found(&builder.finish());
        assert_eq!(components.of[0], count - 1);
        assert!(components.firsts.iter().all(|&first| first == 0));
    }
}

//! The visits that a search continues from, and their nodes.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::visits::{Grouping, Visited, Visits, places};
use crate::error::QueryError;
use crate::limits::governor::{Governor, Held};

/// Number of visits from which on a part is not made larger.
const VISITS_MAX: u64 = 1 << 20;

/// The visits that are looked at to estimate an average: a number of stretches, and the words of a stretch.
const STRETCHES: usize = 16;
const STRETCH: usize = 4096;

/// Visits to continue from, sorted by state, node and start.
pub(super) struct Front {
    grouping: Grouping,
    visits: Vec<Visits>,
    _held: Held,
}

impl Front {
    /// Makes the front of sorted visits.
    pub(super) fn new(grouping: Grouping, visits: Vec<Visits>, held: Held) -> Self {
        Self {
            grouping,
            visits,
            _held: held,
        }
    }

    /// Returns the visits in each state.
    pub(super) fn by_state(&self) -> Vec<Range<usize>> {
        let mut states = Vec::new();
        let mut start = 0;
        while let Some(first) = self.visits.get(start) {
            let same = self.visits[start..].partition_point(|visits| visits.state == first.state);
            states.push(start..start + same);
            start += same;
        }
        states
    }

    /// Returns the state of some visits.
    pub(super) fn state(&self, visits: &Range<usize>) -> u32 {
        self.visits[visits.start].state
    }

    /// Counts the nodes that are visited.
    pub(super) fn count_nodes(&self, visits: &Range<usize>) -> usize {
        self.groups(visits).map(|(_, nodes)| nodes).sum()
    }

    /// Divides visits into parts of about as many nodes, or fewer if they have very many visits. All visits of a node are in
    /// one part.
    pub(super) fn divide(
        &self,
        visits: Range<usize>,
        nodes_max: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        let mut groups = self.groups(&visits);
        let mut end = visits.start;
        std::iter::from_fn(move || {
            let (start, mut count, mut visits_in) = (end, 0, 0);
            while count < nodes_max
                && visits_in < VISITS_MAX
                && let Some((visits, nodes)) = groups.next()
            {
                end += visits.len();
                count += nodes;
                visits_in += count_visits(visits);
            }
            (start < end).then_some(start..end)
        })
    }

    /// Returns the visits of each node or group of nodes, and the number of its nodes that are visited.
    fn groups<'f>(
        &'f self,
        visits: &Range<usize>,
    ) -> impl Iterator<Item = (&'f [Visits], usize)> + use<'f> {
        let groups = self.visits[visits.clone()].chunk_by(|a, b| a.node == b.node);
        groups.map(|visits| match self.grouping {
            Grouping::Nodes => (visits, union(visits).count_ones() as usize),
            Grouping::Starts => (visits, 1),
        })
    }

    /// Returns the average number of starts, of 64, that visit a node together, estimated on some of the visits. The visits are
    /// grouped by nodes.
    pub(super) fn starts_per_node(&self) -> f64 {
        let is_together = |a: &Visits, b: &Visits| {
            (a.state, a.node, a.start >> 6) == (b.state, b.node, b.start >> 6)
        };
        let stretches = self.visits.len().div_ceil(STRETCH);
        let (mut visits, mut nodes) = (0, 0);
        let step = stretches.div_ceil(STRETCHES).max(1);
        for some in self.visits.chunks(STRETCH).step_by(step) {
            let together = some.chunk_by(is_together);
            let counts = together.map(|visits| u64::from(union(visits).count_ones()));
            nodes += counts.sum::<u64>();
            visits += count_visits(some);
        }
        visits as f64 / nodes.max(1) as f64
    }

    /// Groups the visits in another way.
    pub(super) fn regrouped(
        &self,
        grouping: Grouping,
        governor: &Arc<Governor>,
    ) -> Result<Self, QueryError> {
        let mut visited = Visited::new(grouping, governor);
        visited.add_regrouped(self.grouping, self.visits.iter().copied())?;
        visited.take_new()
    }
}

fn count_visits(visits: &[Visits]) -> u64 {
    visits.iter().map(Visits::count).sum()
}

fn union(visits: &[Visits]) -> u64 {
    visits.iter().fold(0, |bits, visits| bits | visits.bits)
}

/// The nodes of some visits in one state, sorted, with those who visit each of them.
pub(super) struct Nodes {
    /// The visits of the front that they are of.
    visits: Range<usize>,
    pub(super) ids: Vec<TermId>,
    /// The starts, or groups of starts, by node, and the place of the first one of each node.
    starts: Vec<u32>,
    first: Vec<usize>,
    /// A bit for each start of a group.
    bits: Vec<u64>,
    held: Held,
}

impl Nodes {
    /// Makes a list without nodes.
    pub(super) fn new(governor: &Arc<Governor>) -> Self {
        Self {
            visits: 0..0,
            ids: Vec::new(),
            starts: Vec::new(),
            first: Vec::new(),
            bits: Vec::new(),
            held: Held::new(governor),
        }
    }

    /// Replaces the nodes.
    pub(super) fn set(&mut self, front: &Front, visits: Range<usize>) -> Result<(), QueryError> {
        if self.visits == visits {
            return Ok(());
        }
        self.make_room(front, &visits)?;
        for (visits, _) in front.groups(&visits) {
            match front.grouping {
                Grouping::Nodes => self.add_group(visits),
                Grouping::Starts => self.add_node(visits),
            }
        }
        self.first.push(self.starts.len());
        self.visits = visits;
        Ok(())
    }

    /// Removes the nodes, and makes room for those of some visits.
    fn make_room(&mut self, front: &Front, visits: &Range<usize>) -> Result<(), QueryError> {
        self.visits = 0..0;
        self.ids.clear();
        self.starts.clear();
        self.first.clear();
        self.bits.clear();
        let nodes = front.count_nodes(visits);
        let (starts, bits) = match front.grouping {
            Grouping::Nodes => (count_visits(&front.visits[visits.clone()]) as usize, 0),
            Grouping::Starts => (visits.len(), visits.len()),
        };
        let nodes_max = nodes.max(self.ids.capacity());
        let starts_max = starts.max(self.starts.capacity());
        let bits_max = bits.max(self.bits.capacity());
        self.held
            .set((2 * nodes_max + 1 + bits_max) * 8 + starts_max * 4)?;
        self.ids.reserve_exact(nodes);
        self.first.reserve_exact(nodes + 1);
        self.starts.reserve_exact(starts);
        self.bits.reserve_exact(bits);
        Ok(())
    }

    /// Adds the nodes of a group, with their starts.
    fn add_group(&mut self, visits: &[Visits]) {
        let mut counts = [0; 64];
        for visits in visits {
            places(visits.bits).for_each(|place| counts[place] += 1);
        }
        let mut next = self.starts.len();
        for place in places(union(visits)) {
            self.ids.push(TermId(visits[0].node << 6 | place as u64));
            self.first.push(next);
            next += mem::replace(&mut counts[place], next);
        }
        self.starts.resize(next, 0);
        for visits in visits {
            for place in places(visits.bits) {
                self.starts[counts[place]] = visits.start;
                counts[place] += 1;
            }
        }
    }

    /// Adds a node with its groups of starts.
    fn add_node(&mut self, visits: &[Visits]) {
        self.ids.push(TermId(visits[0].node));
        self.first.push(self.starts.len());
        self.starts.extend(visits.iter().map(|visits| visits.start));
        self.bits.extend(visits.iter().map(|visits| visits.bits));
    }

    /// Adds visits in a state over a link from the node at a place to `target`.
    #[inline]
    pub(super) fn follow(&self, place: usize, state: u32, target: TermId, to: &mut Vec<Visits>) {
        for start in self.first[place]..self.first[place + 1] {
            let visits = match self.bits.get(start) {
                Some(&bits) => Visits {
                    node: target.0,
                    start: self.starts[start],
                    state,
                    bits,
                },
                None => Grouping::Nodes.one(self.starts[start], state, target),
            };
            match to.last_mut() {
                Some(last) if last.is_like(&visits) => last.bits |= visits.bits,
                _ => to.push(visits),
            }
        }
    }
}

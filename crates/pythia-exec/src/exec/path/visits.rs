//! The visits of a search: which nodes it has been at, and which of them it reached in its last step.

use std::mem;
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;
use pythia_rdf::TermId;

use super::front::Front;
use super::walk::{Pair, push};
use crate::error::QueryError;
use crate::limits::exchange::{Divided, PARTS, Parted, ROWS_MIN, part_of};
use crate::limits::fork::fork;
use crate::limits::governor::{Governor, Held};
use crate::limits::spill::table::hash_ids;

/// Number of visits from which on they are in parts, and new ones are added many together.
const MANY_VISITS: u64 = 1 << 15;
/// Number of visits that are grouped in another way together.
const REGROUPED: usize = 1 << 15;

/// The visits that share a word, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grouping {
    /// Those of 64 neighbouring nodes for one start. Ids are ranks, and nodes that are close in the graph often have close
    /// ids, so a search through most of a graph takes bits instead of bytes for each node.
    Nodes,
    /// Those of one node for 64 starts. A link of the node is followed for all of them at once (Then et al., The More the
    /// Merrier: Efficient Multi-Source Graph Traversal, VLDB 2014).
    Starts,
}

/// Up to 64 visits in one automaton state.
#[derive(Clone, Copy)]
pub(super) struct Visits {
    /// The node, or the group of nodes.
    pub(super) node: u64,
    /// The start, or the group of starts.
    pub(super) start: u32,
    pub(super) state: u32,
    pub(super) bits: u64,
}

impl Grouping {
    /// Makes one visit.
    pub(super) fn one(self, start: u32, state: u32, node: TermId) -> Visits {
        let (node, start, place) = match self {
            Self::Nodes => (node.0 >> 6, start, node.0 & 63),
            Self::Starts => (node.0, start >> 6, u64::from(start & 63)),
        };
        Visits {
            node,
            start,
            state,
            bits: 1 << place,
        }
    }

    /// Returns the start and the node of each visit.
    pub(super) fn pairs(self, visits: &Visits) -> impl Iterator<Item = Pair> + use<> {
        let (node, start) = (visits.node, visits.start);
        places(visits.bits).map(move |place| match self {
            Self::Nodes => (start, TermId(node << 6 | place as u64)),
            Self::Starts => (start << 6 | place as u32, TermId(node)),
        })
    }
}

impl Visits {
    /// Returns whether others are of the same group.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.node, self.start, self.state) == (other.node, other.start, other.state)
    }

    /// Returns the number of visits.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.bits.count_ones())
    }

    fn hash(&self) -> u64 {
        let ends = u64::from(self.start) << 32 | u64::from(self.state);
        hash_ids([self.node, ends], 0)
    }
}

/// Returns the places of the bits that are set, ascending.
pub(super) fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        place
    })
}

/// All visits of a search.
pub(super) struct Visited {
    grouping: Grouping,
    /// One as long as there are few visits.
    parts: Vec<Mutex<SomeVisits>>,
    /// The number of visits, and that of new ones.
    visits: u64,
    new: u64,
    governor: Arc<Governor>,
}

impl Visited {
    pub(super) fn new(grouping: Grouping, governor: &Arc<Governor>) -> Self {
        Self {
            grouping,
            parts: vec![Mutex::new(SomeVisits::new(governor))],
            visits: 0,
            new: 0,
            governor: Arc::clone(governor),
        }
    }

    pub(super) fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// Returns the number of visits.
    pub(super) fn count(&self) -> u64 {
        self.visits
    }

    /// Returns the average number of visits in a word.
    pub(super) fn per_word(&mut self) -> f64 {
        let words = self.parts.iter_mut().map(|part| part.get_mut().known.len());
        self.visits as f64 / words.sum::<usize>().max(1) as f64
    }

    /// Returns the number of visits since new ones were taken.
    pub(super) fn new_count(&self) -> u64 {
        self.new
    }

    /// Returns whether more visits are added many together, since there are many.
    pub(super) fn are_many(&self) -> bool {
        self.visits >= MANY_VISITS
    }

    /// Adds visits, and returns those that are new.
    pub(super) fn insert(&mut self, visits: Visits) -> Result<Visits, QueryError> {
        let hash = visits.hash();
        let part = self.part(hash);
        let bits = self.parts[part].get_mut().insert(hash, &visits)?;
        let new = Visits { bits, ..visits };
        self.note_new(&[new]);
        Ok(new)
    }

    /// Returns whether one of these visits exists.
    pub(super) fn contains(&self, visits: &Visits) -> bool {
        let hash = visits.hash();
        let part = self.parts[self.part(hash)].lock();
        let found = part.known.find(hash, |known| known.visits.is_like(visits));
        found.is_some_and(|known| known.visits.bits & visits.bits != 0)
    }

    fn note_new(&mut self, new: &[Visits]) {
        let count: u64 = new.iter().map(Visits::count).sum();
        self.visits += count;
        self.new += count;
    }

    fn part(&self, hash: u64) -> usize {
        match self.parts.len() {
            1 => 0,
            _ => part_of(hash),
        }
    }

    /// Adds visits on all free cores. Returns those that are new, by part and in order.
    pub(super) fn insert_all(&mut self, visits: &[Visits]) -> Result<Vec<Vec<Visits>>, QueryError> {
        if self.are_many() {
            self.divide()?;
            if visits.len() >= ROWS_MIN {
                return self.insert_parts(visits);
            }
        }
        let mut all_new = Vec::new();
        for &visits in visits {
            let new = self.insert(visits)?;
            if new.bits != 0 {
                all_new.push(new);
            }
        }
        Ok(vec![all_new])
    }

    fn insert_parts(&mut self, visits: &[Visits]) -> Result<Vec<Vec<Visits>>, QueryError> {
        let cores = self.governor.cores();
        let divided = Divided::new(cores, visits.len(), |rows| {
            let visits = &visits[rows];
            Parted::by(visits.len(), |row| visits[row].hash())
        })?;
        let new = fork(cores, PARTS, |part| {
            let mut some = self.parts[part].lock();
            let mut new = Vec::new();
            for place in divided.rows(part) {
                let visits = visits[place];
                match some.insert(visits.hash(), &visits)? {
                    0 => {}
                    bits => new.push(Visits { bits, ..visits }),
                }
            }
            Ok(new)
        })?;
        new.iter().for_each(|new| self.note_new(new));
        Ok(new)
    }

    /// Divides the visits into parts, unless that was done before.
    fn divide(&mut self) -> Result<(), QueryError> {
        if self.parts.len() > 1 {
            return Ok(());
        }
        let all = self.parts.pop().expect("one part").into_inner();
        let mut parts: Vec<_> = (0..PARTS)
            .map(|_| SomeVisits::new(&self.governor))
            .collect();
        for known in all.known {
            let hash = known.visits.hash();
            parts[part_of(hash)].add(hash, known)?;
        }
        for visits in all.new {
            let hash = visits.hash();
            parts[part_of(hash)].add_new(hash, visits)?;
        }
        self.parts = parts.into_iter().map(Mutex::new).collect();
        Ok(())
    }

    /// Groups all visits in this way.
    pub(super) fn regroup(&mut self, grouping: Grouping) -> Result<(), QueryError> {
        if grouping == self.grouping {
            return Ok(());
        }
        let mut regrouped = Self::new(grouping, &self.governor);
        let mut all_new = Vec::new();
        for part in mem::take(&mut self.parts) {
            let part = part.into_inner();
            let before = part.known.iter().map(|known| part.before(known));
            regrouped.add_regrouped(self.grouping, before)?;
            all_new.push((part.new, part.new_held));
        }
        regrouped.forget_new();
        for (new, _held) in all_new {
            regrouped.add_regrouped(self.grouping, new.into_iter())?;
        }
        *self = regrouped;
        Ok(())
    }

    /// Adds visits that are grouped in another way.
    pub(super) fn add_regrouped(
        &mut self,
        grouping: Grouping,
        visits: impl Iterator<Item = Visits>,
    ) -> Result<(), QueryError> {
        let mut regrouped = Vec::new();
        for visits in visits {
            let pairs = grouping.pairs(&visits);
            regrouped
                .extend(pairs.map(|(start, node)| self.grouping.one(start, visits.state, node)));
            if regrouped.len() >= REGROUPED {
                self.governor.check()?;
                self.insert_all(&regrouped)?;
                regrouped.clear();
            }
        }
        self.insert_all(&regrouped).map(|_| ())
    }

    /// Returns the visits since new ones were taken.
    pub(super) fn new_visits(&mut self) -> impl Iterator<Item = &Visits> {
        let parts = self.parts.iter_mut();
        parts.flat_map(|part| &part.get_mut().new)
    }

    /// Takes the visits since this was called last.
    pub(super) fn take_new(&mut self) -> Result<Front, QueryError> {
        self.new = 0;
        let count = self.parts.iter_mut().map(|part| part.get_mut().new.len());
        let bytes = count.sum::<usize>() * size_of::<Visits>();
        let mut held = Held::new(&self.governor);
        // Sorting takes half as much.
        held.set(bytes + bytes / 2)?;
        let mut all = Vec::with_capacity(bytes / size_of::<Visits>());
        for part in &mut self.parts {
            let part = part.get_mut();
            all.append(&mut mem::take(&mut part.new));
            part.new_held.set(0)?;
        }
        sort(&mut all, &self.governor)?;
        held.set(bytes)?;
        Ok(Front::new(self.grouping, all, held))
    }

    /// Forgets which visits are new.
    pub(super) fn forget_new(&mut self) {
        self.new = 0;
        let parts = self.parts.iter_mut();
        parts.for_each(|part| part.get_mut().new.clear());
    }
}

/// Sorts visits by state, node and start, on all free cores.
fn sort(visits: &mut [Visits], governor: &Governor) -> Result<(), QueryError> {
    let key = |visits: &Visits| (visits.state, visits.node, visits.start);
    let cores = governor.cores();
    let threads = cores.limit().min(PARTS);
    if threads == 1 || visits.len() < 4 * ROWS_MIN {
        visits.sort_unstable_by_key(key);
        return Ok(());
    }
    let length = visits.len().div_ceil(threads);
    let chunks: Vec<_> = visits.chunks_mut(length).map(Mutex::new).collect();
    fork(cores, chunks.len(), |chunk| {
        chunks[chunk].lock().sort_unstable_by_key(key);
        Ok(())
    })?;
    drop(chunks);
    // A stable sort merges sorted runs.
    visits.sort_by_key(key);
    Ok(())
}

/// The visits of one part.
struct SomeVisits {
    known: HashTable<Known>,
    held: Held,
    /// Those that are new.
    new: Vec<Visits>,
    new_held: Held,
}

/// All visits of a group.
struct Known {
    visits: Visits,
    /// The place of those that are new, if there are any.
    new: u32,
}

impl SomeVisits {
    fn new(governor: &Arc<Governor>) -> Self {
        Self {
            known: HashTable::new(),
            held: Held::new(governor),
            new: Vec::new(),
            new_held: Held::new(governor),
        }
    }

    /// Adds visits, and returns the bits of those that are new.
    #[inline]
    fn insert(&mut self, hash: u64, visits: &Visits) -> Result<u64, QueryError> {
        let Some(known) = self
            .known
            .find_mut(hash, |known| known.visits.is_like(visits))
        else {
            let known = Known {
                visits: *visits,
                new: self.new.len() as u32,
            };
            self.add(hash, known)?;
            push(&mut self.new, *visits, &mut self.new_held)?;
            return Ok(visits.bits);
        };
        let bits = visits.bits & !known.visits.bits;
        if bits == 0 {
            return Ok(0);
        }
        known.visits.bits |= bits;
        match self.new.get_mut(known.new as usize) {
            Some(new) if new.is_like(visits) => new.bits |= bits,
            _ => {
                known.new = self.new.len() as u32;
                push(
                    &mut self.new,
                    Visits { bits, ..*visits },
                    &mut self.new_held,
                )?;
            }
        }
        Ok(bits)
    }

    /// Adds all visits of a group.
    fn add(&mut self, hash: u64, known: Known) -> Result<(), QueryError> {
        let rehash = |known: &Known| known.visits.hash();
        if self.known.len() == self.known.capacity() {
            // While the table grows, the old one and one of twice the size exist.
            let now = self.known.allocation_size();
            self.held.set(now * 3 + 64 * size_of::<Known>())?;
            self.known.reserve(self.known.len().max(16), rehash);
            self.held.set(self.known.allocation_size())?;
        }
        self.known.insert_unique(hash, known, rehash);
        Ok(())
    }

    /// Adds the new visits of a group, which are among all visits already.
    fn add_new(&mut self, hash: u64, visits: Visits) -> Result<(), QueryError> {
        let known = self
            .known
            .find_mut(hash, |known| known.visits.is_like(&visits));
        known.expect("new visits are visits").new = self.new.len() as u32;
        push(&mut self.new, visits, &mut self.new_held)
    }

    /// Returns the visits of a group that are not new.
    fn before(&self, known: &Known) -> Visits {
        let mut visits = known.visits;
        if let Some(new) = self.new.get(known.new as usize)
            && new.is_like(&visits)
        {
            visits.bits &= !new.bits;
        }
        visits
    }
}

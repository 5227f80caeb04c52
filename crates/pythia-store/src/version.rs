//! Versions: the last commit that changed a graph, learned without any file of their own.
//!
//! All changes pass through the log in one form ([`ChangeSet`]), whether they are committed, loaded or replayed; there
//! their graphs are recorded. A graph that no commit has changed since the store was opened has the version of the
//! state before: it may be too late, never too early. Versions go by the names of graphs, so that maintenance, which
//! assigns ids again, changes none.
//!
//! Graphs share slots by a hash of their names. So versions of any number of graphs take 1 MiB, and a collision makes a
//! graph appear changed.

use std::hash::BuildHasher;
use std::sync::Arc;

use oxrdf::GraphNameRef;
use parking_lot::RwLock;
use pythia_log::{ChangeSet, LogTerm, NO_GRAPH};
use pythia_rdf::TermKey;
use pythia_rdf::key::{self, Encoded};
use rustc_hash::{FxBuildHasher, FxHashSet};

/// Number of slots.
const SLOTS: usize = 1 << 16;

/// The commit that made a state of a graph or of the store. Within one store, states with the same version are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The commit's position in the log; 0 before the first.
    pub position: u64,
    /// The commit's time, in microseconds since 1970, as positions are used again after `pythia salvage`. The checksum
    /// of `MANIFEST` in place of a time is the state that was found on the device.
    pub time: u64,
}

/// A slot of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot(u16);

impl Slot {
    /// The slot of the default graph.
    const DEFAULT_GRAPH: Self = Self(0);

    /// Returns the slot of a graph.
    pub(crate) fn of(graph: GraphNameRef<'_>) -> Self {
        let term = match graph {
            GraphNameRef::DefaultGraph => return Self::DEFAULT_GRAPH,
            GraphNameRef::NamedNode(node) => node.into(),
            GraphNameRef::BlankNode(node) => oxrdf::TermRef::from(node),
        };
        let mut bytes = Vec::new();
        match key::encode(term, &mut bytes) {
            Encoded::Inline(id) => Self::of_term(LogTerm::Inline(id)),
            Encoded::Key(kind) => Self::of_term(LogTerm::Key(TermKey {
                kind,
                bytes: &bytes,
            })),
        }
    }

    fn of_term(term: LogTerm<'_>) -> Self {
        let hash = match term {
            LogTerm::Inline(id) => FxBuildHasher.hash_one(id.0),
            LogTerm::Key(key) => FxBuildHasher.hash_one((key.kind as u8, key.bytes)),
        };
        let folded = (hash >> 32) ^ hash;
        Self(((folded >> 16) ^ folded) as u16)
    }
}

/// The graphs that a commit changes.
#[derive(Debug, Default)]
pub(crate) struct ChangedGraphs(FxHashSet<Slot>);

impl ChangedGraphs {
    /// Adds the graphs of some changes.
    pub(crate) fn add(&mut self, set: &ChangeSet) {
        let mut graphs: Vec<u32> = Vec::new();
        for change in set.changes() {
            let [.., graph] = change.quad;
            // Most sets change one graph, or are sorted by it in part.
            if graphs.last() != Some(&graph) {
                graphs.push(graph);
            }
        }
        graphs.sort_unstable();
        graphs.dedup();
        self.0.extend(graphs.into_iter().map(|graph| match graph {
            NO_GRAPH => Slot::DEFAULT_GRAPH,
            graph => Slot::of_term(set.term(graph)),
        }));
    }

    /// Returns the graphs of some changes.
    pub(crate) fn of(set: &ChangeSet) -> Self {
        let mut changed = Self::default();
        changed.add(set);
        changed
    }

    /// Adds all graphs of `other`.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

/// The versions of all graphs of an open store, up to its last commit, which may not be durable yet. Shared by all
/// snapshots.
#[derive(Debug, Default)]
struct Versions {
    /// The version of graphs that have not changed since the store was opened.
    found: Version,
    /// Empty before the first change.
    slots: RwLock<Vec<Version>>,
}

impl Versions {
    fn of(&self, slot: Slot) -> Version {
        let slots = self.slots.read();
        slots
            .get(usize::from(slot.0))
            .copied()
            .unwrap_or(self.found)
    }

    fn record(&self, changed: &ChangedGraphs, version: Version) {
        let mut slots = self.slots.write();
        if slots.is_empty() {
            slots.resize(SLOTS, self.found);
        }
        for slot in &changed.0 {
            let known = &mut slots[usize::from(slot.0)];
            // A compaction replays commits that are recorded.
            if known.position < version.position {
                *known = version;
            }
        }
    }
}

/// The version of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotVersion {
    /// The last commit of the snapshot.
    last: Version,
    /// A number for the assignment of ids.
    layout: u64,
    versions: Arc<Versions>,
}

impl SnapshotVersion {
    /// Begins with the state that was found on the device.
    pub(crate) fn new(found: Version, layout: u64) -> Self {
        Self {
            last: found,
            layout,
            versions: Arc::new(Versions {
                found,
                slots: RwLock::default(),
            }),
        }
    }

    /// Records a commit, and returns the version of the snapshot that has it. Readers must not see that snapshot
    /// before.
    #[must_use]
    pub(crate) fn committed(&self, changed: &ChangedGraphs, version: Version) -> Self {
        self.versions.record(changed, version);
        Self {
            last: version,
            ..self.clone()
        }
    }

    /// Returns the version of the same state with ids assigned again.
    #[must_use]
    pub(crate) fn with_layout(&self, layout: u64) -> Self {
        Self {
            layout,
            ..self.clone()
        }
    }

    pub(crate) fn last(&self) -> Version {
        self.last
    }

    pub(crate) fn layout(&self) -> u64 {
        self.layout
    }

    /// Returns the version of a slot's graphs in this snapshot. If later commits have changed them, that is the
    /// snapshot's own: a new name for the same content.
    pub(crate) fn of(&self, slot: Slot) -> Version {
        let version = self.versions.of(slot);
        match version.position > self.last.position {
            true => self.last,
            false => version,
        }
    }
}

/// A part of the store that a transaction must find unchanged when it is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched {
    Graph(Slot),
    /// The whole store.
    All,
}

impl Watched {
    /// Returns the watched part of the store: a graph, or `None` for all graphs.
    pub(crate) fn of(graph: Option<GraphNameRef<'_>>) -> Self {
        graph.map_or(Self::All, |graph| Self::Graph(Slot::of(graph)))
    }

    /// Returns whether a commit after `begin` has changed this. `head` has the last commit.
    pub(crate) fn is_changed(self, head: &SnapshotVersion, begin: u64) -> bool {
        let last = match self {
            Self::Graph(slot) => head.of(slot),
            Self::All => head.last(),
        };
        last.position > begin
    }
}

#[cfg(test)]
mod tests {
    use oxrdf::{BlankNodeRef, NamedNodeRef};
    use pythia_log::Change;
    use pythia_rdf::TermKind;

    use super::*;

    fn named(iri: &str) -> GraphNameRef<'_> {
        NamedNodeRef::new_unchecked(iri).into()
    }

    fn version(position: u64) -> Version {
        Version {
            position,
            time: 1000 + position,
        }
    }

    /// Returns changes of one quad in each of these graphs; an empty name is the default graph.
    fn changes(graphs: &[&str]) -> ChangedGraphs {
        let mut set = ChangeSet::new();
        let key = |name: &'static str| {
            LogTerm::Key(TermKey {
                kind: TermKind::Iri,
                bytes: name.as_bytes(),
            })
        };
        let node = set.add_term(key("http://e/node"));
        for &graph in graphs {
            let graph = match graph {
                "" => NO_GRAPH,
                name => set.add_term(LogTerm::Key(TermKey {
                    kind: TermKind::Iri,
                    bytes: name.as_bytes(),
                })),
            };
            let quad = [node, node, node, graph];
            set.push(Change { added: true, quad });
        }
        ChangedGraphs::of(&set)
    }

    #[test]
    fn a_graph_has_the_version_of_the_last_commit_that_changed_it() {
        let found = version(4);
        let before = SnapshotVersion::new(found, 0);
        let of = |state: &SnapshotVersion, iri| state.of(Slot::of(named(iri)));
        assert_eq!(of(&before, "http://e/a"), found);
        let five = before.committed(&changes(&["http://e/a", ""]), version(5));
        let six = five.committed(&changes(&["http://e/b"]), version(6));
        assert_eq!(of(&six, "http://e/a"), version(5));
        assert_eq!(of(&six, "http://e/b"), version(6));
        assert_eq!(of(&six, "http://e/c"), found);
        assert_eq!(six.of(Slot::of(GraphNameRef::DefaultGraph)), version(5));
        assert_eq!(six.last(), version(6));
        // An older snapshot does not know when a graph had changed that has changed again.
        let seven = six.committed(&changes(&["http://e/a"]), version(7));
        assert_eq!(of(&six, "http://e/a"), version(6));
        assert_eq!(of(&before, "http://e/a"), found);
        assert_eq!(of(&seven, "http://e/a"), version(7));
        // Replaying recorded commits changes nothing.
        let _ = before.committed(&changes(&["http://e/a", ""]), version(5));
        assert_eq!(of(&seven, "http://e/a"), version(7));
    }

    #[test]
    fn what_is_watched_changes_with_later_commits_to_it() {
        let state = SnapshotVersion::new(version(4), 0);
        let state = state.committed(&changes(&["http://e/a"]), version(5));
        let state = state.committed(&changes(&["http://e/b"]), version(6));
        let is_changed = |graph, begin| Watched::of(graph).is_changed(&state, begin);
        assert!(is_changed(Some(named("http://e/a")), 4));
        assert!(!is_changed(Some(named("http://e/a")), 5));
        assert!(is_changed(None, 5) && !is_changed(None, 6));
        assert!(!is_changed(Some(GraphNameRef::DefaultGraph), 4));
    }

    #[test]
    fn slots_are_spread() {
        let slots: FxHashSet<Slot> = (0..SLOTS)
            .map(|number| Slot::of(named(&format!("http://example.org/graph/{number}"))))
            .collect();
        // With random slots, 63 % of them would be taken.
        assert!(slots.len() > SLOTS / 2, "{}", slots.len());
        let blank = |label| Slot::of(BlankNodeRef::new_unchecked(label).into());
        assert_ne!(blank("a"), blank("b"));
    }
}

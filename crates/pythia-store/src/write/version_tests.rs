//! Versions of graphs through commits, loads, maintenance and restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxrdf::{GraphNameRef, NamedNodeRef};
use proptest::prelude::*;
use pythia_io::{MemoryStorage, Storage};
use pythia_log::LogReader;

use super::load::LoadStep;
use super::tests::{
    After, Named, OPEN, change, change_by, contents_of, empty, lines, load, maintain, open, quads,
    steps,
};
use crate::load::LoadError;
use crate::load::store_tests::{options, source};
use crate::version::{SnapshotVersion, Watched};
use crate::{Snapshot, Store, StoreError, Version};

const G0: &str = "http://example.org/g0";
const G1: &str = "http://example.org/g1";
/// The graphs of [`quads`]; the empty name is the default graph.
const GRAPHS: [&str; 3] = ["", G0, G1];

fn graph_name(name: &str) -> GraphNameRef<'_> {
    match name {
        "" => GraphNameRef::DefaultGraph,
        name => NamedNodeRef::new_unchecked(name).into(),
    }
}

fn version(snapshot: &Snapshot, graph: &str) -> Version {
    snapshot.graph_version(graph_name(graph))
}

fn versions(store: &Store) -> [Version; 3] {
    let snapshot = store.snapshot();
    GRAPHS.map(|graph| version(&snapshot, graph))
}

/// The quads that were seen under each version: of a graph by its name, of the store by `*`.
#[derive(Default)]
struct Seen(BTreeMap<(String, Version), BTreeSet<Named>>);

impl Seen {
    /// Adds a snapshot. Fails if another state had the same version.
    fn add(&mut self, snapshot: &Snapshot) -> Result<(), TestCaseError> {
        let all = contents_of(snapshot);
        for graph in GRAPHS {
            let of_graph = all.iter().filter(|quad| quad[3] == graph);
            let of_graph = of_graph.cloned().collect();
            self.add_one(graph, version(snapshot, graph), of_graph)?;
        }
        self.add_one("*", snapshot.version(), all)
    }

    fn add_one(
        &mut self,
        what: &str,
        version: Version,
        quads: BTreeSet<Named>,
    ) -> Result<(), TestCaseError> {
        let seen = self.0.entry((what.to_owned(), version));
        prop_assert_eq!(seen.or_insert_with(|| quads.clone()), &quads, "{}", what);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn states_with_the_same_version_are_equal(changes in steps(), restarts in any::<u32>()) {
        let storage = empty();
        let mut store = open(storage.clone()).expect("sound");
        let mut seen = Seen::default();
        let mut old = Vec::new();
        let mut model = BTreeSet::new();
        for (number, (add, remove, after)) in changes.iter().enumerate() {
            if restarts & (1 << (number % 32)) != 0 {
                drop(store);
                store = open(storage.clone()).expect("sound");
            }
            old.push(store.snapshot());
            change(&store, &quads(add), &quads(remove)).expect("memory");
            seen.add(&store.snapshot())?;
            quads(remove).iter().for_each(|quad| { model.remove(quad); });
            model.extend(quads(add));
            let before = versions(&store);
            maintain(&store, after, &model).expect("memory");
            if matches!(after, After::Nothing | After::Flush | After::Merge | After::Compact) {
                prop_assert_eq!(versions(&store), before);
            }
            model = after.states(&model).pop().expect("never empty");
            seen.add(&store.snapshot())?;
        }
        // Readers that began long ago.
        for snapshot in old {
            seen.add(&snapshot)?;
        }
        let reader = Store::open_storage(storage, OPEN).expect("sound");
        seen.add(&reader.snapshot())?;
    }
}

#[test]
fn a_commit_changes_the_versions_of_its_graphs() {
    let store = open(empty()).expect("sound");
    let before = versions(&store);
    assert_eq!(before, [store.snapshot().version(); 3]);
    // Quads 1 and 2 are in the default graph, 3 in g1, 6 in g0.
    change(&store, &quads(&[1, 2]), &[]).expect("memory");
    let first = versions(&store);
    assert!(first[0] > before[0] && first[1..] == before[1..]);
    change(&store, &quads(&[3, 6]), &quads(&[1])).expect("memory");
    let second = versions(&store);
    assert!(
        second
            .iter()
            .all(|&version| version == store.snapshot().version())
    );
    change(&store, &quads(&[3]), &quads(&[1])).expect("memory");
    assert_eq!(versions(&store), second, "nothing was to be changed");
    change(&store, &[], &quads(&[3])).expect("memory");
    let third = versions(&store);
    assert!(third[2] > second[2] && third[..2] == second[..2]);
}

#[test]
fn many_changes_at_once_and_loads_are_learned() {
    let store = open(empty()).expect("sound");
    let before = versions(&store);
    let many: Vec<Named> = (0..20_000)
        .map(|number| {
            let mut quad = super::tests::many(number, 1).remove(0);
            quad[3] = if number == 19_999 { G0 } else { G1 }.to_owned();
            quad
        })
        .collect();
    change(&store, &many, &[]).expect("memory");
    let after = versions(&store);
    assert!(after[0] == before[0] && after[1] > before[1] && after[2] > before[2]);
    load(&store, &quads(&[3])).expect("memory");
    let loaded = versions(&store);
    assert!(loaded[..2] == after[..2] && loaded[2] > after[2]);
    assert_eq!(loaded[2].position, store.position().0);
}

/// Replayed commits have the same versions. All others have that of the state on the device, which stays the same.
#[test]
fn a_restart_learns_versions_from_the_log() {
    let storage = empty();
    let store = open(storage.clone()).expect("sound");
    change(&store, &quads(&[3]), &[]).expect("memory");
    store.flush().expect("memory");
    change(&store, &quads(&[1]), &[]).expect("memory");
    change(&store, &quads(&[6]), &[]).expect("memory");
    let before = versions(&store);
    let (id, layout) = (store.id(), store.snapshot().layout());
    drop(store);
    let store = open(storage.clone()).expect("sound");
    let after = versions(&store);
    assert_eq!(after[..2], before[..2]);
    assert_eq!(after[2].position, before[2].position);
    assert_ne!(after[2].time, before[2].time);
    assert_ne!(store.snapshot().layout(), layout);
    assert_eq!(store.id(), id);
    drop(store);
    let reader = Store::open_storage(storage, OPEN).expect("sound");
    assert_eq!(versions(&reader), after);
    assert_eq!(reader.id(), id);
}

#[test]
fn versions_have_the_times_of_the_log() {
    let storage = empty();
    let store = open(storage.clone()).expect("sound");
    change(&store, &quads(&[1]), &[]).expect("memory");
    load(&store, &quads(&[3])).expect("memory");
    let versions = versions(&store);
    let log = store.manifest().log.clone().expect("open for writing");
    let reader = LogReader::open(vec![storage as Arc<dyn Storage>], None, log.store);
    let commits = reader
        .commits_from(pythia_log::Position::FIRST)
        .expect("kept");
    let times: Vec<u64> = commits.map(|commit| commit.expect("sound").time).collect();
    assert_eq!(times, [versions[0].time, versions[2].time]);
}

#[test]
fn compaction_assigns_ids_again_and_keeps_versions() {
    let store = open(empty()).expect("sound");
    change(&store, &quads(&[1, 3]), &[]).expect("memory");
    let (before, layout) = (versions(&store), store.snapshot().layout());
    store.flush().expect("memory");
    assert_eq!(store.snapshot().layout(), layout);
    store.compact().expect("memory");
    assert_eq!(versions(&store), before);
    assert_eq!(store.snapshot().version(), before[0]);
    assert_ne!(store.snapshot().layout(), layout);
}

#[test]
fn a_store_that_was_never_written_to_has_another_id_each_time() {
    let storage: Arc<MemoryStorage> = empty();
    let id = || {
        Store::open_storage(storage.clone(), OPEN)
            .expect("sound")
            .id()
    };
    assert_ne!(id(), id());
}

#[test]
fn a_commit_conflicts_if_what_it_watches_has_changed() {
    let store = open(empty()).expect("sound");
    let attempt = |watched: Option<&str>, meanwhile: u8| {
        let mut transaction = store.begin().expect("open for writing");
        transaction.watch(watched.map(graph_name));
        change(&store, &quads(&[meanwhile]), &[]).expect("no conflict");
        let outcome = change_by(transaction, &quads(&[50]), &[]);
        change(&store, &[], &quads(&[50])).expect("no conflict");
        match outcome {
            Ok(_) => true,
            Err(StoreError::Conflict) => false,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(attempt(Some(G0), 1), "the default graph has changed");
    assert!(attempt(Some(G0), 3), "g1 has changed");
    assert!(!attempt(Some(G0), 6), "g0 has changed");
    assert!(attempt(Some(G0), 6), "nothing has changed");
    assert!(!attempt(Some(""), 2));
    assert!(!attempt(None, 9));
    assert!(attempt(None, 9), "nothing has changed");
}

/// The check sees the state that the load's quads are added to, with commits that were made during the load.
#[test]
fn a_load_is_checked_before_it_is_published() {
    let store = open(empty()).expect("sound");
    let begin = versions(&store)[1];
    let attempt = |number: u8| {
        store.load_if(
            vec![source(&lines(&quads(&[number])))],
            super::Replaced::Nothing,
            &options(1 << 30, 1),
            &Arc::default(),
            &|state| match version(state, G0) == begin {
                true => Ok(()),
                false => Err("g0 has changed".into()),
            },
        )
    };
    assert_eq!(attempt(3).expect("g0 has not changed").quads, 1);
    let writer = Arc::clone(store.writer().expect("open for writing"));
    let of_hook = Arc::clone(&writer);
    *writer.load_hook.lock() = Some(Arc::new(move |step| {
        if step == LoadStep::Written {
            let transaction =
                super::Transaction::new(Arc::clone(&of_hook), super::TransactionOptions::default());
            change_by(transaction, &quads(&[6]), &[]).expect("memory");
        }
    }));
    let refused = attempt(9);
    *writer.load_hook.lock() = None;
    assert!(
        matches!(&refused, Err(LoadError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(refused.expect_err("refused").to_string(), "g0 has changed");
    let state: BTreeSet<Named> = quads(&[3, 6]).into_iter().collect();
    assert_eq!(contents_of(&store.snapshot()), state);
    load(&store, &quads(&[9])).expect("nothing is left of the refused load");
}

/// The other tests rely on this.
#[test]
fn the_graphs_have_slots_of_their_own() {
    let before = SnapshotVersion::default();
    for changed in GRAPHS {
        let store = open(empty()).expect("sound");
        let mut quad = quads(&[1]).remove(0);
        changed.clone_into(&mut quad[3]);
        change(&store, &[quad], &[]).expect("memory");
        for graph in GRAPHS {
            let snapshot = store.snapshot();
            let watched = Watched::of(Some(graph_name(graph)));
            let is_changed = watched.is_changed(snapshot.versioned(), before.last().position);
            assert_eq!(is_changed, graph == changed);
        }
    }
}

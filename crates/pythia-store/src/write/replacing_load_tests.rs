//! Loads that replace graphs, while commits change the same quads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxrdf::{GraphNameRef, NamedNodeRef};
use proptest::prelude::*;
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_log::Position;

use super::Replaced;
use super::load::LoadStep;
use super::load_tests::{Beside, Moves, beside, graph, is_sound, quads, replace_beside, replayed};
use super::tests::{Named, change, contents, empty, load, open};

/// The replaced quads of a test: those of a graph, or all.
#[derive(Clone, Copy, Debug)]
enum Part {
    Graph(usize),
    All,
}

impl Part {
    /// Calls `f` with this part in the form that a load takes.
    fn with<T>(self, f: impl FnOnce(Replaced<'_>) -> T) -> T {
        match self {
            Self::All => f(Replaced::All),
            Self::Graph(0) => f(Replaced::Graph(GraphNameRef::DefaultGraph)),
            Self::Graph(number) => {
                let name = graph(number);
                let name = NamedNodeRef::new(&name).expect("an IRI");
                f(Replaced::Graph(name.into()))
            }
        }
    }

    fn has(self, quad: &Named) -> bool {
        match self {
            Self::All => true,
            Self::Graph(number) => quad[3] == graph(number),
        }
    }

    /// Replaces quads of a model.
    fn replace(self, model: &mut BTreeSet<Named>, loaded: &[Named]) {
        model.retain(|quad| !self.has(quad));
        model.extend(loaded.iter().cloned());
    }
}

/// Returns numbers in the default graph and in two others.
fn everywhere(numbers: impl Iterator<Item = usize> + Clone) -> Vec<Named> {
    quads((0..3).flat_map(|graph| numbers.clone().map(move |number| 1000 * graph + number)))
}

/// Makes a store with quads of each graph in its base, in a run and in memory.
fn disk() -> (Arc<MemoryStorage>, BTreeSet<Named>) {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    change(&store, &everywhere(0..10), &[]).expect("memory");
    store.compact().expect("memory");
    change(&store, &everywhere(10..20), &everywhere(8..10)).expect("memory");
    store.flush().expect("memory");
    change(&store, &everywhere(20..30), &everywhere(18..20)).expect("memory");
    let found = contents(&store);
    (disk.clone(), found)
}

/// Lists commits at each step of a load, of loaded and of other quads, of replaced graphs and of others.
fn eventful() -> Vec<Beside> {
    use LoadStep::{AlmostDone, Copied, Placed, Resolved, Written};
    vec![
        beside(Resolved, [1031, 1090, 90], [1, 1001], Moves::Flush),
        beside(
            Placed,
            [1033, 1091, 2033],
            [2, 1002, 1012, 1029],
            Moves::Flush,
        ),
        beside(Placed, [1002, 1034], [1033, 1003], Moves::Merge),
        beside(
            Written,
            [1035, 1033, 1092],
            [1004, 1034, 1022, 2004],
            Moves::Flush,
        ),
        beside(
            Copied,
            [1037, 1004, 1093],
            [1005, 1035, 1091, 1013],
            Moves::Flush,
        ),
        beside(Copied, [1013], [1092, 1014], Moves::Nothing),
        beside(AlmostDone, [1039, 94], [1006, 1037, 1015], Moves::Nothing),
        beside(AlmostDone, [1015, 1094], [1093, 1024, 5], Moves::Nothing),
    ]
}

/// Returns loaded quads: some that exist and some that do not, also of a graph that is not replaced.
fn loaded() -> Vec<Named> {
    quads(
        (1000..1008)
            .chain(1021..1024)
            .chain(1029..1041)
            .chain([2001, 2060]),
    )
}

const PARTS: [Part; 4] = [Part::Graph(0), Part::Graph(1), Part::Graph(7), Part::All];

#[test]
fn a_load_replaces_a_graph_as_it_is_at_the_end() {
    for part in PARTS {
        let (disk, before) = disk();
        let store = open(disk.clone()).expect("memory");
        let from = Position(store.position().0 + 1);
        let report = part.with(|replaced| {
            replace_beside(&store, &loaded(), replaced, &eventful(), &Arc::default())
        });
        let report = report.expect("memory");
        let mut last = before.clone();
        eventful().iter().for_each(|event| event.apply(&mut last));
        let mut expected = last.clone();
        part.replace(&mut expected, &loaded());
        assert_eq!(contents(&store), expected, "{part:?}");
        assert_eq!(replayed(&store, from, before), expected, "{part:?}");
        assert_eq!(report.quads, expected.difference(&last).count() as u64);
        assert_eq!(
            report.removed_quads,
            last.difference(&expected).count() as u64
        );
        assert_eq!(report.quads + report.known_quads, loaded().len() as u64);
        store.compact().expect("memory");
        assert_eq!(contents(&store), expected, "{part:?}");
        drop(store);
        is_sound(&disk);
    }
}

#[test]
fn a_graph_that_is_replaced_by_itself_is_no_commit() {
    for part in PARTS {
        let (disk, before) = disk();
        let store = open(disk.clone()).expect("memory");
        let same: Vec<Named> = before
            .iter()
            .filter(|quad| part.has(quad))
            .cloned()
            .collect();
        let position = store.position();
        let report =
            part.with(|replaced| replace_beside(&store, &same, replaced, &[], &Arc::default()));
        let report = report.expect("memory");
        assert_eq!((report.quads, report.removed_quads), (0, 0));
        assert_eq!((store.position(), contents(&store)), (position, before));
    }
}

#[test]
fn a_load_of_nothing_empties_what_it_replaces() {
    for part in PARTS {
        let (disk, before) = disk();
        let store = open(disk.clone()).expect("memory");
        let replaced =
            part.with(|replaced| replace_beside(&store, &[], replaced, &[], &Arc::default()));
        let mut expected = before.clone();
        part.replace(&mut expected, &[]);
        assert_eq!(contents(&store), expected);
        let removed = replaced.expect("memory").removed_quads;
        assert_eq!(removed as usize, before.len() - expected.len());
        drop(store);
        is_sound(&disk);
    }
}

#[test]
fn a_replacing_load_beside_commits_is_whole_or_not_there_after_any_crash() {
    let mut states = vec![disk().1];
    for event in eventful() {
        let mut next = states.last().expect("never empty").clone();
        event.apply(&mut next);
        states.push(next);
    }
    let mut last = states.last().expect("never empty").clone();
    Part::Graph(1).replace(&mut last, &loaded());
    states.push(last);
    let act = |disk: Arc<dyn Storage>| {
        let done = Arc::new(AtomicUsize::new(0));
        if let Ok(store) = open(disk) {
            let _ = Part::Graph(1)
                .with(|replaced| replace_beside(&store, &loaded(), replaced, &eventful(), &done));
        }
        done.load(Ordering::Relaxed)
    };
    let calm = FaultyStorage::new(disk().0, FaultPlan::none());
    assert_eq!(act(Arc::new(calm.clone())), states.len() - 1);
    for crash in (1..=calm.operations()).step_by(5) {
        let disk = disk().0;
        let faulty = FaultyStorage::new(disk.clone(), FaultPlan::crash_at(crash, crash));
        let done = act(Arc::new(faulty.clone()));
        faulty.crash().expect("memory");
        let store = open(disk.clone()).expect("a store after a crash");
        let found = contents(&store);
        assert!(
            states[done..].contains(&found),
            "crash at {crash}, {done} were done"
        );
        load(&store, &loaded()).expect("memory");
        drop(store);
        is_sound(&disk);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_load_replaces_what_it_should(
        quads_before in prop::collection::vec(prop::collection::vec((0..3usize, 0..20usize), 0..12), 3),
        quads_loaded in prop::collection::vec((0..3usize, 0..24usize), 0..16),
        events in prop::collection::vec(
            (0..4usize, prop::collection::vec((0..3usize, 0..24usize), 0..6), prop::collection::vec((0..3usize, 0..24usize), 0..6), 0..3usize),
            0..5,
        ),
        part in 0..4usize,
    ) {
        use LoadStep::{AlmostDone, Copied, Placed, Written};
        let number = |&(graph, number): &(usize, usize)| 1000 * graph + number;
        let named = |list: &[(usize, usize)]| quads(list.iter().map(number).collect::<BTreeSet<_>>());
        let disk = empty();
        let store = open(disk.clone()).expect("memory");
        for (place, list) in quads_before.iter().enumerate() {
            change(&store, &named(list), &[]).expect("memory");
            match place {
                0 => drop(store.compact().expect("memory")),
                1 => drop(store.flush().expect("memory")),
                _ => {}
            }
        }
        let before = contents(&store);
        let from = Position(store.position().0 + 1);
        let mut events: Vec<Beside> = events
            .into_iter()
            .map(|(step, add, remove, moves)| Beside {
                step: [Placed, Written, Copied, AlmostDone][step],
                add: named(&add),
                remove: named(&remove).into_iter().filter(|quad| !named(&add).contains(quad)).collect(),
                moves: [Moves::Nothing, Moves::Flush, Moves::Merge][moves],
            })
            .collect();
        events.sort_by_key(|event| event.step);
        let part = [Part::Graph(0), Part::Graph(1), Part::Graph(2), Part::All][part];
        let loaded = named(&quads_loaded);
        part.with(|replaced| replace_beside(&store, &loaded, replaced, &events, &Arc::default())).expect("memory");
        let mut expected = before.clone();
        events.iter().for_each(|event| event.apply(&mut expected));
        let commits_alone = expected.clone();
        part.replace(&mut expected, &loaded);
        let mut load_alone = before.clone();
        part.replace(&mut load_alone, &loaded);
        let found = contents(&store);
        // A load that changes nothing when it starts is no commit: the commits beside it come after it.
        if load_alone == before && found == commits_alone {
            expected = commits_alone;
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(&replayed(&store, from, before), &expected);
        drop(store);
        is_sound(&disk);
    }
}

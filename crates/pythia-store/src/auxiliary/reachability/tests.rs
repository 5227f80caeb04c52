//! Labels against plain searches, on graphs of many shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_rdf::{TermId, TermKind};

use crate::manifest::{AuxiliaryKind, FORMAT_WRITTEN, Manifest, Unnamed};
use crate::optimize::OptimizeOptions;
use crate::pattern::End;
use crate::store::{Change, Store, optimize};
use crate::testing::{Quad, SMALL_PAGES, TERMS, id, open, write_segment_of, write_store};
use crate::verify::{VerifyOptions, verify};
use crate::{Snapshot, StoreError};

const PREDICATE: u64 = 2900;

fn iri(rank: u64) -> u64 {
    id(TermKind::Iri, rank)
}

fn kind() -> AuxiliaryKind {
    AuxiliaryKind::Reachability {
        predicate: iri(PREDICATE),
    }
}

fn adding() -> Change {
    Change {
        add: vec![kind()],
        drop: Vec::new(),
    }
}

fn quads(edges: impl IntoIterator<Item = (u64, u64)>) -> BTreeSet<Quad> {
    let quad = |(from, to)| [iri(from), iri(PREDICATE), iri(to), 0];
    edges.into_iter().map(quad).collect()
}

/// Makes a store of these edges with labels.
fn labelled(quads: &BTreeSet<Quad>) -> Store {
    let storage = write_store(quads, SMALL_PAGES);
    optimize(storage.clone(), &adding(), OptimizeOptions::default()).expect("memory");
    let report = verify(storage.clone(), VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
    open(storage)
}

fn reaches(snapshot: &Snapshot, pairs: &[(TermId, TermId)]) -> Vec<bool> {
    let labels = snapshot
        .reachability(TermId(iri(PREDICATE)))
        .expect("sound")
        .expect("built");
    let answer = labels.reaches::<StoreError>(pairs, &mut |_| Ok(()));
    answer.expect("sound")
}

/// Returns the nodes that each node reaches by one edge or more, in the default graph.
fn closure(quads: &BTreeSet<Quad>) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut edges: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for quad in quads
        .iter()
        .filter(|quad| quad[1] == iri(PREDICATE) && quad[3] == 0)
    {
        edges.entry(quad[0]).or_default().push(quad[2]);
    }
    let reached = |start: u64| {
        let mut found = BTreeSet::new();
        let mut stack = vec![start];
        while let Some(node) = stack.pop() {
            let next = edges.get(&node).into_iter().flatten();
            stack.extend(next.copied().filter(|&next| found.insert(next)));
        }
        found
    };
    edges.keys().map(|&node| (node, reached(node))).collect()
}

/// Compares all pairs of nodes (and one term that is not a node) with searches.
fn agrees(quads: &BTreeSet<Quad>, nodes: u64) {
    let store = labelled(quads);
    let closure = closure(quads);
    let all = || (0..=nodes).map(|node| TermId(iri(node)));
    let pairs: Vec<_> = all().flat_map(|a| all().map(move |b| (a, b))).collect();
    let found = reaches(&store.snapshot(), &pairs);
    for ((from, to), found) in pairs.into_iter().zip(found) {
        let expected = closure
            .get(&from.0)
            .is_some_and(|reached| reached.contains(&to.0));
        assert_eq!(found, expected, "{from:?} to {to:?}");
    }
}

/// Generates a random graph: many shapes between a forest and a hairball.
fn graphs() -> impl Strategy<Value = (u64, Vec<(u64, u64)>)> {
    (2..120_u64, 0..3_u8).prop_flat_map(|(nodes, shape)| {
        let edges = match shape {
            0 => nodes as usize / 2,
            1 => nodes as usize * 2,
            _ => nodes as usize * 5,
        };
        let edge = (0..nodes, 0..nodes);
        let acyclic = any::<bool>();
        (prop::collection::vec(edge, 1..=edges), acyclic).prop_map(move |(edges, acyclic)| {
            let turned = |(a, b): (u64, u64)| {
                if acyclic {
                    (a.max(b), a.min(b))
                } else {
                    (a, b)
                }
            };
            (nodes, edges.into_iter().map(turned).collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn labels_agree_with_searches((nodes, edges) in graphs()) {
        agrees(&quads(edges), nodes);
    }
}

/// Makes a graph in which labels cannot be exact: layers in which every node leads to many of the next.
fn layers() -> BTreeSet<Quad> {
    let edge = |layer: u64, from: u64, step: u64| {
        let to = (from * 7 + step * step * 5 + layer) % 100;
        (layer * 100 + from, (layer + 1) * 100 + to)
    };
    let sources = (0..5).flat_map(|layer| (0..100).map(move |from| (layer, from)));
    quads(sources.flat_map(|(layer, from)| (0..4).map(move |step| edge(layer, from, step))))
}

#[test]
fn what_labels_leave_unsure_is_searched_for() {
    let quads = layers();
    let store = labelled(&quads);
    let snapshot = store.snapshot();
    let labels = snapshot
        .estimates()
        .reachability(TermId(iri(PREDICATE)))
        .expect("built");
    let report = labels.report();
    assert!(report.exact < report.components, "{report:?}");
    agrees(&quads, 620);
}

#[test]
fn only_the_default_graph_is_labelled() {
    let mut quads = quads([(1, 2)]);
    quads.insert([iri(2), iri(PREDICATE), iri(3), iri(9)]);
    agrees(&quads, 4);
}

#[test]
fn a_tree_has_one_interval_a_node_whichever_way_it_points() {
    let up = quads((1..2000).map(|node| (node, node / 2)));
    let down = quads((1..2000).map(|node| (node / 2, node)));
    for (quads, reversed) in [(up, true), (down, false)] {
        let store = labelled(&quads);
        let snapshot = store.snapshot();
        let labels = snapshot
            .estimates()
            .reachability(TermId(iri(PREDICATE)))
            .expect("built");
        let report = labels.report();
        assert_eq!(report.reversed, reversed);
        assert_eq!((report.exact, report.links), (report.components, 0));
        assert_eq!(report.intervals, report.components);
        let end = if reversed { End::Object } else { End::Subject };
        let root = labels.reach(TermId(iri(0)), end).expect("sound");
        assert_eq!(
            root,
            Some(2000),
            "0 has an edge to itself or is the root of all"
        );
    }
}

#[test]
fn two_terms_cost_at_most_three_pages() {
    let store = labelled(&quads((1..TERMS - 200).map(|node| (node, node / 2))));
    store.pool().clear();
    let before = store.pool().counters();
    let pair = (TermId(iri(2345)), TermId(iri(2)));
    assert_eq!(reaches(&store.snapshot(), &[pair]), [true]);
    let read = store.pool().counters().since(&before).total();
    assert!(read.device_pages <= 3, "{read:?}");
}

#[test]
fn dropping_makes_the_store_what_it_was() {
    let storage = write_store(&quads([(1, 2), (2, 3)]), SMALL_PAGES);
    let options = OptimizeOptions::default();
    let dropping = Change {
        add: Vec::new(),
        drop: vec![kind()],
    };
    let before = Manifest::read(&*storage).expect("sound");
    let error = optimize(storage.clone(), &dropping, options).expect_err("nothing to drop");
    assert!(
        matches!(error, StoreError::NotOptimizable { .. }),
        "{error}"
    );
    for _ in 0..2 {
        optimize(storage.clone(), &adding(), options).expect("memory");
        let manifest = Manifest::read(&*storage).expect("sound").expect("there");
        assert_eq!(
            (manifest.format, manifest.auxiliary.len()),
            (FORMAT_WRITTEN, 1)
        );
        let folders = storage.list("").expect("memory");
        assert_eq!(folders.len(), 4, "{folders:?}");
    }
    optimize(storage.clone(), &dropping, options).expect("memory");
    let manifest = Manifest::read(&*storage).expect("sound");
    assert_eq!(manifest, before);
    assert_eq!(storage.list("").expect("memory").len(), 3);
}

#[test]
fn what_cannot_be_built_says_why_and_changes_nothing() {
    let storage = write_store(&quads((1..500).map(|n| (n, n / 2))), SMALL_PAGES);
    let little = OptimizeOptions {
        memory_bytes: 1000,
        ..OptimizeOptions::default()
    };
    let error = optimize(storage.clone(), &adding(), little).expect_err("too little");
    let StoreError::MemoryTooSmall { needed_bytes, .. } = error else {
        panic!("{error}");
    };
    let enough = OptimizeOptions {
        memory_bytes: needed_bytes as usize,
        ..little
    };
    optimize(storage.clone(), &adding(), enough).expect("it said so");
    let other = Change {
        add: vec![AuxiliaryKind::Reachability { predicate: iri(3) }],
        drop: Vec::new(),
    };
    let error = optimize(storage.clone(), &other, enough)
        .expect_err("no edges")
        .to_string();
    assert!(error.contains("example.org/00003> has no edges"), "{error}");
    assert_eq!(storage.list("").expect("memory").len(), 4);
}

/// After a crash at any operation the store has its labels or not, and is sound.
#[test]
fn a_crash_leaves_the_old_or_the_new() {
    let quads = quads((1..300).map(|n| (n, n / 2)));
    let change = |storage: &FaultyStorage| {
        let mut change = adding();
        change.add.push(AuxiliaryKind::Attribute {
            predicate: iri(PREDICATE),
            along: vec![iri(PREDICATE)],
        });
        let options = OptimizeOptions::default();
        optimize(Arc::new(storage.clone()), &change, options)
    };
    let loaded = || {
        let storage = Arc::new(MemoryStorage::new());
        write_segment_of(storage.clone(), &quads, SMALL_PAGES, TERMS).expect("memory");
        storage
    };
    let calm = FaultyStorage::new(loaded(), FaultPlan::none());
    change(&calm).expect("no faults");
    let mut outcomes = BTreeSet::new();
    for operation in 1..=calm.operations() + 1 {
        for seed in 0..3 {
            let device = FaultyStorage::new(loaded(), FaultPlan::crash_at(operation, seed));
            let acknowledged = change(&device).is_ok();
            device.restart(FaultPlan::none()).expect("it starts again");
            let manifest = Manifest::read(&device)
                .expect("never half")
                .expect("never none");
            let added = !manifest.auxiliary.is_empty();
            assert!(added || !acknowledged, "crash at {operation}, seed {seed}");
            outcomes.insert(added);
            let report = verify(
                Arc::new(device.clone()),
                VerifyOptions::default(),
                &mut |_| {},
            );
            assert_eq!(report.problems, [], "crash at {operation}, seed {seed}");
            change(&device).expect("leftovers are in nobody's way");
            let folders = device.list("").expect("it works");
            assert_eq!(
                folders.len(),
                5,
                "crash at {operation}, seed {seed}: {folders:?}"
            );
        }
        let device = FaultyStorage::new(loaded(), FaultPlan::fail_at(operation));
        if change(&device).is_err() {
            device.restart(FaultPlan::none()).expect("it starts again");
            let manifest = Manifest::read(&device).expect("never half");
            let manifest = manifest.expect("never none");
            assert!(manifest.auxiliary.is_empty(), "failure at {operation}");
        }
    }
    assert_eq!(outcomes.len(), 2);
}

/// Every damaged page is found, by reading it or by `verify`.
#[test]
fn damage_is_found() {
    let quads = layers();
    let storage = write_store(&quads, SMALL_PAGES);
    optimize(storage.clone(), &adding(), OptimizeOptions::default()).expect("memory");
    for name in [
        "auxiliary-000001/labels.pages",
        "auxiliary-000001/directory",
    ] {
        let sound = storage.read_all(name).expect("there");
        for place in (0..sound.len()).step_by(1500) {
            let mut damaged = sound.clone();
            damaged[place] ^= 0x10;
            let mut file = storage.create(name).expect("memory");
            file.append(&damaged)
                .and_then(|()| file.sync())
                .expect("memory");
            let report = verify(storage.clone(), VerifyOptions::default(), &mut |_| {});
            let problem = report.problems.first().expect("found");
            assert_eq!(problem.file, name, "byte {place}: {problem}");
        }
        let mut file = storage.create(name).expect("memory");
        file.append(&sound)
            .and_then(|()| file.sync())
            .expect("memory");
    }
    // Labels of other edges pass their checksums, but are found as well.
    let other = write_store(&self::quads([(1, 2)]), SMALL_PAGES);
    optimize(other.clone(), &adding(), OptimizeOptions::default()).expect("memory");
    for name in [
        "auxiliary-000001/labels.pages",
        "auxiliary-000001/directory",
        "MANIFEST",
    ] {
        let bytes = match name {
            "MANIFEST" => {
                let theirs = Manifest::read(&*other).expect("sound").expect("there");
                let ours = Manifest::read(&*storage).expect("sound").expect("there");
                let auxiliary = theirs.auxiliary;
                Manifest { auxiliary, ..ours }
                    .switch(&*storage, Unnamed::new(&*storage))
                    .expect("memory");
                continue;
            }
            name => other.read_all(name).expect("there"),
        };
        let mut file = storage.create(name).expect("memory");
        file.append(&bytes)
            .and_then(|()| file.sync())
            .expect("memory");
    }
    let report = verify(storage, VerifyOptions::default(), &mut |_| {});
    assert!(!report.is_sound());
}

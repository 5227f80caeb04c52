//! Runs against a model: runs read back as written, merged runs have the sums, and failures leave nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{BufferPool, FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};

use super::merge::{Unmerged, due, in_the_way, level, merge, nodes_max};
use super::*;
use crate::manifest::{RunId, SegmentEntry, TermSpan};
use crate::pace::Pace;
use crate::pattern::Order;
use crate::testing::{Quad, SMALL_PAGES, TERMS, component, id};

/// The contents of a run: signed quads, and new terms by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) quads: BTreeMap<Quad, bool>,
    pub(crate) terms: BTreeMap<OwnedKey, TermId>,
    pub(crate) first: [u64; TermKind::DICTIONARY.len()],
}

impl Model {
    pub(crate) fn write(
        &self,
        storage: &Arc<dyn Storage>,
        number: u64,
    ) -> Result<RunEntry, StoreError> {
        let rows = |order: Order| {
            let row = |(quad, &added): (&Quad, &bool)| {
                (
                    order.components().map(|which| component(quad, which)),
                    added,
                )
            };
            let of_order = self
                .quads
                .iter()
                .filter(|(quad, _)| order.has_graph(quad[3]));
            let mut rows: Vec<_> = of_order.map(row).collect();
            rows.sort_unstable();
            Ok(rows.into_iter().map(Ok))
        };
        let mut terms = self.terms.iter();
        let terms = |each: EachTerm<'_>| terms.try_for_each(|(key, &id)| each(key.as_key(), id));
        write_run(
            Arc::clone(storage),
            RunId(number),
            SMALL_PAGES,
            (&self.first, self.terms.len() as u64, terms),
            (self.quads.len() as u64, rows),
            2,
        )
    }
}

fn check(run: &DeviceRun, model: &Model) {
    let runs = |order| RunRows::new(&[], order);
    assert!(
        runs(Order::Spo)
            .expect("nothing to read")
            .next_row()
            .expect("empty")
            .is_none()
    );
    let added = model.quads.values().filter(|added| **added).count() as u64;
    assert_eq!(run.entry().added.quads, added);
    assert_eq!(run.entry().changes(), model.quads.len() as u64);
    for quad in model.quads.keys() {
        assert!(run.touches(End::Subject, TermId(quad[0]), Some(TermId(quad[1]))));
        assert!(run.touches(End::Object, TermId(quad[2]), Some(TermId(quad[1]))));
    }
    let keys: Vec<TermKey<'_>> = model.terms.keys().map(OwnedKey::as_key).collect();
    let ids: Vec<TermId> = model.terms.values().copied().collect();
    let found = run.find_batch(&keys).expect("read");
    assert_eq!(found, ids.iter().copied().map(Some).collect::<Vec<_>>());
    let absent = |kind| TermKey {
        kind,
        bytes: b"absent",
    };
    let found = run
        .find_batch(&TermKind::DICTIONARY.map(absent))
        .expect("read");
    assert_eq!(found, [None; TermKind::DICTIONARY.len()]);
    let asked: Vec<TermId> = ids.iter().rev().copied().chain([TermId(0)]).collect();
    let mut seen = BTreeSet::new();
    run.keys(&asked, |index, key| {
        assert!(run.has_term(asked[index]));
        assert_eq!(model.terms.get(&key.to_owned_key()), Some(&asked[index]));
        seen.insert(index);
        Ok::<(), StoreError>(())
    })
    .expect("read");
    assert_eq!(seen.len(), ids.len());
    let mut cursor = run.terms().expect("read");
    for (key, id) in &model.terms {
        assert_eq!(cursor.head(), Some((key.as_key(), *id)));
        cursor.advance().expect("read");
    }
    assert!(cursor.head().is_none());
}

fn check_rows(runs: &[Arc<DeviceRun>], quads: &BTreeMap<Quad, bool>) {
    for order in Order::ALL {
        let mut rows = RunRows::new(runs, order).expect("read");
        let mut expected: Vec<_> = quads
            .iter()
            .filter(|(quad, _)| order.has_graph(quad[3]))
            .map(|(quad, &added)| {
                (
                    order.components().map(|which| component(quad, which)),
                    added,
                )
            })
            .collect();
        expected.sort_unstable();
        for row in expected {
            assert_eq!(rows.next_row().expect("read"), Some(row), "{order:?}");
        }
        assert_eq!(rows.next_row().expect("read"), None);
    }
}

fn open(storage: &Arc<dyn Storage>, entry: &RunEntry) -> Arc<DeviceRun> {
    let pool = BufferPool::new(Arc::clone(storage), 4 << 20);
    Arc::new(DeviceRun::open(&pool, entry).expect("just written"))
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new())
}

/// Returns the quads of the base that [`runs`] change.
pub(crate) fn base_quads() -> BTreeSet<Quad> {
    let iri = |n| id(TermKind::Iri, n);
    let quad = |n: u64| [iri(n % 12), iri(n % 4), iri(n * 7 % TERMS), 0];
    (0..200).map(quad).collect()
}

/// Generates several consecutive runs: quads change their state from run to run, terms come in any order.
pub(crate) fn runs() -> impl Strategy<Value = Vec<Model>> {
    let node = prop_oneof![3 => 0..12_u64, 1 => 0..3000_u64];
    let quad = (node.clone(), 0..4_u64, node, 0..3_u64);
    let change = prop::collection::vec(quad, 0..300);
    let term = (0..6_usize, 0..400_u32);
    let run = (change, prop::collection::vec(term, 0..200), any::<bool>());
    prop::collection::vec(run, 1..5).prop_map(|runs| {
        let mut state = base_quads();
        let mut known: BTreeMap<OwnedKey, TermId> = BTreeMap::new();
        let mut new: Vec<u64> = Vec::new();
        let mut next = [TERMS; TermKind::DICTIONARY.len()];
        let of_run = |(changes, terms, sorted): (Vec<_>, Vec<(usize, u32)>, bool)| {
            let mut model = Model {
                first: next,
                ..Model::default()
            };
            let mut terms: Vec<OwnedKey> = terms
                .into_iter()
                .map(|(kind, n)| {
                    let bytes = format!("new {n}\0\0x").into_bytes();
                    OwnedKey {
                        kind: TermKind::DICTIONARY[kind],
                        bytes,
                    }
                })
                .collect();
            if sorted {
                terms.sort_unstable();
            }
            for key in terms {
                if !known.contains_key(&key) {
                    let place = TermKind::DICTIONARY
                        .iter()
                        .position(|kind| *kind == key.kind);
                    let payload = &mut next[place.expect("a dictionary kind")];
                    let id = TermId::new(key.kind, *payload);
                    *payload += 1;
                    new.push(id.0);
                    known.insert(key.clone(), id);
                    model.terms.insert(key, id);
                }
            }
            for (s, p, o, g) in changes {
                let iri = |n| id(TermKind::Iri, n);
                let node = |n: u64, fits: fn(TermKind) -> bool| {
                    let fitting = new.iter().filter(|id| fits(TermId(**id).kind()));
                    let fitting: Vec<u64> = fitting.copied().collect();
                    match fitting.len() as u64 {
                        count if n >= 12 && count > 0 => fitting[(n % count) as usize],
                        _ => iri(n),
                    }
                };
                let is_iri = |kind| kind == TermKind::Iri;
                let graph = if g == 0 { 0 } else { node(g * 5, is_iri) };
                let quad = [
                    node(s, is_iri),
                    node(p * 4, is_iri),
                    node(o, |_| true),
                    graph,
                ];
                let added = state.insert(quad);
                if !added {
                    state.remove(&quad);
                }
                if model.quads.remove(&quad).is_none() {
                    model.quads.insert(quad, added);
                }
            }
            model
        };
        runs.into_iter().map(of_run).collect()
    })
}

/// Returns the sum of runs.
pub(crate) fn sum(models: &[Model]) -> Model {
    let mut sum = Model {
        first: models[0].first,
        ..Model::default()
    };
    for model in models {
        sum.terms.extend(model.terms.clone());
        for (quad, &added) in &model.quads {
            if sum.quads.remove(quad).is_none() {
                sum.quads.insert(*quad, added);
            }
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn runs_come_back_and_merge_to_their_sum(models in runs()) {
        let storage = memory();
        let mut opened = Vec::new();
        for (number, model) in models.iter().enumerate() {
            let entry = model.write(&storage, number as u64).expect("memory");
            let run = open(&storage, &entry);
            check(&run, model);
            check_rows(&[Arc::clone(&run)], &model.quads);
            opened.push(run);
        }
        let sum = sum(&models);
        check_rows(&opened, &sum.quads);
        for (order, node) in [(Order::Spo, 0), (Order::Ops, 2)] {
            let nodes: BTreeSet<_> = sum.quads.keys().map(|quad| quad[node]).collect();
            let edges: BTreeSet<_> = sum.quads.keys().map(|quad| (quad[node], quad[1])).collect();
            assert!((nodes.len() + edges.len()) as u64 <= nodes_max(&opened, order));
        }
        let pace = Pace::default();
        let entry = merge(Arc::clone(&storage), RunId(99), &opened, &pace).expect("memory");
        let merged = open(&storage, &entry);
        check(&merged, &sum);
        check_rows(&[merged], &sum.quads);
    }
}

/// Makes a run whose terms are not sorted, and of which the first half of the quads was removed.
fn some_run() -> Model {
    let mut model = Model {
        first: [7; TermKind::DICTIONARY.len()],
        ..Model::default()
    };
    for n in 0..600_u64 {
        let iri = |n| id(TermKind::Iri, n);
        model
            .quads
            .insert([iri(n), iri(1), iri(n % 9), 0], n >= 300);
        let bytes = format!("http://example.org/{}", n * 7919 % 600).into_bytes();
        let key = OwnedKey {
            kind: TermKind::Iri,
            bytes,
        };
        model.terms.insert(key, TermId::new(TermKind::Iri, 7 + n));
    }
    model
}

#[test]
fn few_nodes_are_expected_where_the_filters_of_the_runs_have_few() {
    let storage = memory();
    let entry = some_run().write(&storage, 1).expect("memory");
    let runs = [open(&storage, &entry)];
    assert!((2 * 600..=2 * 2 * 600).contains(&nodes_max(&runs, Order::Spo)));
    assert!((2 * 9..100).contains(&nodes_max(&runs, Order::Ops)));
}

#[test]
fn a_run_that_is_not_finished_leaves_nothing() {
    let model = some_run();
    let calm = FaultyStorage::new(memory(), FaultPlan::none());
    let written: Arc<dyn Storage> = Arc::new(calm.clone());
    let entry = model.write(&written, 1).expect("no faults");
    assert!(entry.terms.iter().any(|span| !span.sorted));
    let plans = (1..=calm.operations()).map(FaultPlan::fail_at);
    let sizes = (0..calm.bytes_appended())
        .step_by(9_000)
        .map(FaultPlan::disk_of);
    for plan in plans.chain(sizes) {
        let inner = memory();
        let faulty: Arc<dyn Storage> =
            Arc::new(FaultyStorage::new(Arc::clone(&inner), plan.clone()));
        let error = model.write(&faulty, 1).expect_err("it fails");
        assert!(matches!(error, StoreError::Io(_)), "{plan:?}: {error}");
        assert_eq!(
            inner.list("").expect("memory"),
            [] as [String; 0],
            "{plan:?}"
        );
    }
}

#[test]
fn a_merge_that_is_cancelled_or_fails_leaves_the_runs_alone() {
    let storage = memory();
    let runs = [open(
        &storage,
        &some_run().write(&storage, 1).expect("memory"),
    )];
    let pace = Pace::default();
    pace.cancel();
    let error = merge(Arc::clone(&storage), RunId(2), &runs, &pace);
    // The run is small: a cancelled merge may also finish.
    if let Err(error) = error {
        assert!(matches!(error, StoreError::Cancelled), "{error}");
        assert_eq!(storage.list("").expect("memory"), ["run-000001"]);
    }
    check(&runs[0], &some_run());
}

#[test]
fn damaged_and_missing_files_are_found_on_opening() {
    let storage = memory();
    let entry = some_run().write(&storage, 1).expect("memory");
    let name = "run-000001/directory";
    let bytes = storage.read_all(name).expect("written");
    let put = |bytes: &[u8]| {
        let mut file = storage.create(name).expect("memory");
        file.append(bytes).expect("memory");
        file.sync().expect("memory");
    };
    let refused = || {
        let pool = BufferPool::new(Arc::clone(&storage), 4 << 20);
        DeviceRun::open(&pool, &entry)
            .err()
            .expect("damaged")
            .to_string()
    };
    for bit in (0..bytes.len() * 8).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        put(&damaged);
        assert!(refused().contains(name), "bit {bit}");
    }
    put(&bytes[..bytes.len() - 1]);
    assert!(refused().contains(name));
    put(&bytes);
    storage
        .remove("run-000001/removed/pos.pages")
        .expect("memory");
    assert!(refused().contains("removed/pos.pages"));
}

/// Returns runs of these sizes in mebibytes.
fn entries(sizes: &[u64]) -> Vec<RunEntry> {
    let entry = |(number, &mebibytes): (usize, &u64)| {
        let none = SegmentEntry {
            quads: 0,
            files: Vec::new(),
        };
        let bytes = mebibytes << 20;
        RunEntry {
            id: RunId(number as u64),
            added: none.clone(),
            removed: none,
            files: vec![crate::manifest::ManifestFile {
                name: "directory".to_owned(),
                bytes,
            }],
            terms: Vec::new(),
        }
    };
    sizes.iter().enumerate().map(entry).collect()
}

const ANY: Unmerged = Unmerged {
    first: 0,
    apart: None,
};

#[test]
fn neighbours_of_a_level_are_merged() {
    assert_eq!(
        [0, 3, 4, 15, 16, 64].map(|size| level(size << 20)),
        [0, 0, 1, 1, 2, 3]
    );
    assert_eq!(due(&entries(&[]), ANY), None);
    assert_eq!(due(&entries(&[100, 1, 1, 1]), ANY), None);
    assert_eq!(due(&entries(&[100, 1, 1, 1, 1]), ANY), Some(1..5));
    assert_eq!(due(&entries(&[100, 5, 5, 1, 5, 5, 1]), ANY), Some(1..7));
    assert_eq!(due(&entries(&[1, 1, 100, 1, 1]), ANY), None);
    assert_eq!(
        due(&entries(&[100, 100, 5, 100, 100, 5, 5]), ANY),
        Some(0..7)
    );
    // Only runs with consecutive new terms can be merged.
    let with_gaps = |firsts: &[u64]| -> Vec<RunEntry> {
        let mut entries = entries(&vec![1; firsts.len()]);
        for (entry, &first) in entries.iter_mut().zip(firsts) {
            entry.terms = vec![TermSpan {
                kind: TermKind::Iri as u8,
                first,
                count: 1,
                sorted: true,
            }];
        }
        entries
    };
    assert_eq!(due(&with_gaps(&[0, 1, 2, 3]), ANY), Some(0..4));
    assert_eq!(due(&with_gaps(&[0, 1, 7, 8]), ANY), None);
    assert_eq!(due(&with_gaps(&[0, 7, 8, 9, 10]), ANY), Some(1..5));
    assert_eq!(
        in_the_way(&with_gaps(&[0, 1, 7, 8, 9]), 1, 4, ANY),
        Some(2..5)
    );
    assert_eq!(in_the_way(&with_gaps(&[0, 5, 10, 15, 20]), 1, 4, ANY), None);
}

#[test]
fn the_smallest_neighbours_make_room_and_never_too_many_at_once() {
    let few = entries(&[100, 7, 1, 1, 2, 1, 50, 1]);
    assert_eq!(in_the_way(&few, 1, 9, ANY), None);
    assert_eq!(in_the_way(&few, 1, 8, ANY), Some(2..6));
    assert_eq!(in_the_way(&few, 5, 8, ANY), Some(2..8));
    assert_eq!(in_the_way(&few[..3], 3, 1, ANY), Some(0..3));
    assert_eq!(in_the_way(&few[..1], 3, 1, ANY), None);
    let mut many = entries(&[1; 1006]);
    assert_eq!(due(&many, ANY), Some(0..32));
    let mut merges = 0;
    while let Some(range) = in_the_way(&many, 3, 32, ANY) {
        assert!((2..=32).contains(&range.len()));
        let merged = many[range.start].clone();
        many.splice(range, [merged]);
        merges += 1;
    }
    assert_eq!((many.len(), merges), (29, 32));
}

#[test]
fn runs_before_and_after_a_place_are_merged_apart() {
    let apart = |place| Unmerged {
        apart: Some(place),
        ..ANY
    };
    let few = entries(&[1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(due(&few, apart(3)), Some(3..8));
    assert_eq!(due(&few, apart(5)), Some(0..5));
    assert_eq!(due(&few[..6], apart(3)), None);
    assert_eq!(due(&few, apart(8)), Some(0..8));
    assert_eq!(in_the_way(&few, 1, 8, apart(2)), Some(2..6));
    assert_eq!(in_the_way(&few[..4], 3, 4, apart(3)), Some(0..3));
    assert_eq!(in_the_way(&few[..2], 3, 1, apart(1)), None);
}

#[test]
fn the_runs_that_a_compaction_reads_are_not_merged() {
    let first = |first| Unmerged { first, ..ANY };
    let few = entries(&[1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(due(&few, first(3)), Some(3..8));
    assert_eq!(due(&few, first(5)), None);
    assert_eq!(due(&few, first(8)), None);
    assert_eq!(in_the_way(&few, 1, 8, first(6)), Some(6..8));
    assert_eq!(in_the_way(&few, 1, 8, first(7)), None);
    assert_eq!(in_the_way(&few, 5, 8, first(8)), None);
}

#[test]
fn terms_whose_quads_are_in_the_base_are_merged_with_their_like() {
    let mut runs = entries(&[1; 10]);
    for run in &mut runs[5..] {
        run.added.quads = 7;
    }
    assert_eq!(due(&runs, ANY), Some(0..5));
    assert_eq!(due(&runs[2..], ANY), Some(3..8));
    assert_eq!(due(&runs[2..8], ANY), None);
    assert_eq!(in_the_way(&runs[4..6], 3, 2, ANY), None);
    // Terms that no quad uses follow changes: they go with these.
    runs[7].added.quads = 0;
    assert_eq!(due(&runs[5..], ANY), Some(0..5));
}

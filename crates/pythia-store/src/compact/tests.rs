//! A compacted base is byte for byte what a load writes, and its ids are those of the mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{BufferPool, FaultPlan, FaultyStorage, Storage};
use pythia_rdf::OwnedKey;

use super::*;
use crate::delta::device::merge::merge_only_terms;
use crate::delta::device::tests::{Model, base_quads, runs, sum};
use crate::manifest::{AuxiliaryKind, DictionaryId, Manifest, RunId, Unnamed};
use crate::optimize::{Numbers, OptimizeOptions, Succession, rebuild};
use crate::store::{Change, optimize};
use crate::testing::{Quad, SMALL_PAGES, TERMS, component, id, open, write_store};
use crate::verify::{VerifyOptions, verify};

/// The number of a dictionary that nothing else uses.
const FRESH: DictionaryId = DictionaryId(999);

/// Writes a segment of quads of keys as a load would.
fn fresh(storage: &Arc<dyn Storage>, quads: &BTreeSet<[Option<OwnedKey>; 4]>) -> SealedSegment {
    let folder = "fresh".to_owned();
    let terms = TermsPlace::Beside(FRESH);
    let writer = SegmentWriter::new(Arc::clone(storage), folder, terms, SMALL_PAGES);
    let mut dictionary = writer.dictionary(1).expect("memory");
    let keys: BTreeSet<&OwnedKey> = quads.iter().flatten().flatten().collect();
    let mut ids = BTreeMap::new();
    for key in keys {
        ids.insert(key, dictionary.push(key.as_key()).expect("memory").0);
    }
    let dictionary = dictionary.finish().expect("memory");
    let orders = Order::ALL.map(|order| {
        let row = |quad: &[Option<OwnedKey>; 4]| {
            let quad = [0, 1, 2, 3].map(|place| quad[place].as_ref().map_or(0, |key| ids[key]));
            order.components().map(|which| component(&quad, which))
        };
        let of_order = |quad: &&[Option<OwnedKey>; 4]| order != Order::Gpso || quad[3].is_some();
        let rows: BTreeSet<[u64; 4]> = quads.iter().filter(of_order).map(row).collect();
        let mut out = writer.order(order).expect("memory");
        rows.into_iter()
            .for_each(|row| out.push(row).expect("memory"));
        out.finish().expect("memory")
    });
    let dictionary = Some(dictionary);
    writer.seal(dictionary, orders.into()).expect("memory")
}

/// A base and runs in a storage, and the quads that result.
struct Case {
    storage: Arc<dyn Storage>,
    manifest: Manifest,
    base: Arc<Segment>,
    runs: Vec<Arc<DeviceRun>>,
    quads: BTreeSet<Quad>,
    keys: BTreeMap<TermId, OwnedKey>,
}

impl Case {
    fn new(models: &[Model]) -> Self {
        let mut quads = base_quads();
        let storage: Arc<dyn Storage> = write_store(&quads, SMALL_PAGES);
        let base = Arc::clone(open(Arc::clone(&storage)).snapshot().base());
        let mut keys = BTreeMap::new();
        for kind in TermKind::DICTIONARY {
            let mut all = base.dictionary.iter(kind);
            while let Some((id, key)) = all.next().expect("memory") {
                keys.insert(id, key.to_owned_key());
            }
        }
        let pool = BufferPool::new(Arc::clone(&storage), 4 << 20);
        let runs = models.iter().enumerate().map(|(number, model)| {
            let entry = model.write(&storage, number as u64).expect("memory");
            Arc::new(DeviceRun::open(&pool, &entry).expect("just written"))
        });
        let runs = runs.collect();
        let sum = sum(models);
        keys.extend(sum.terms.into_iter().map(|(key, id)| (id, key)));
        for (quad, added) in sum.quads {
            assert!(if added {
                quads.insert(quad)
            } else {
                quads.remove(&quad)
            });
        }
        let manifest = Manifest::read(&*storage).expect("sound").expect("there");
        Self {
            storage,
            manifest,
            base,
            runs,
            quads,
            keys,
        }
    }

    /// Compacts the orders; checks that the quads keep their ids.
    fn with_orders_compacted(mut self) -> Self {
        let options = CompactionOptions::default();
        let (from, pace) = ((&self.from(), Extent::Orders), Pace::default());
        let storage = Arc::clone(&self.storage);
        let new = compact(from, &self.base, &self.runs, storage, &options, &pace).expect("memory");
        assert!(new.mapping.is_none() && new.sealed.dictionary.is_none());
        let pool = BufferPool::new(Arc::clone(&self.storage), 4 << 20);
        let folder = new.id.folder();
        let base = self.base.open_beside(&pool, &folder, &new.sealed.segment);
        self.base = Arc::new(base.expect("sound"));
        (self.manifest.segment, self.manifest.files) = (new.id, new.sealed.segment.files);
        let storage = Arc::clone(&self.storage);
        let terms = merge_only_terms(storage, RunId(100), &self.runs, &pace).expect("memory");
        let run = |entry| Arc::new(DeviceRun::open(&pool, &entry).expect("just written"));
        self.runs = terms.into_iter().map(run).collect();
        for order in Order::ALL {
            let mut rows = CurrentRows::new(&self.base, &self.runs, order).expect("memory");
            let mut found = BTreeSet::new();
            while let Some((row, added)) = rows.next_row().expect("memory") {
                assert!(!added && found.insert(row));
            }
            let row = |quad: &Quad| order.components().map(|which| component(quad, which));
            let of_order = self.quads.iter().filter(|quad| order.has_graph(quad[3]));
            assert!(found == of_order.map(row).collect(), "{order:?}");
        }
        self
    }

    fn compact(
        &self,
        storage: &Arc<dyn Storage>,
        memory_bytes: usize,
        threads: usize,
    ) -> Result<NewBase, StoreError> {
        let options = CompactionOptions {
            memory_bytes,
            threads,
            ..CompactionOptions::default()
        };
        let pace = Pace::default();
        self.compact_paced(storage, &options, &pace)
    }

    fn compact_paced(
        &self,
        storage: &Arc<dyn Storage>,
        options: &CompactionOptions,
        pace: &Pace,
    ) -> Result<NewBase, StoreError> {
        let from = (&self.from(), Extent::Whole);
        let storage = Arc::clone(storage);
        compact(from, &self.base, &self.runs, storage, options, pace)
    }

    /// Returns the manifest of base and runs.
    fn from(&self) -> Manifest {
        Manifest {
            runs: self.runs.iter().map(|run| run.entry().clone()).collect(),
            ..self.manifest.clone()
        }
    }

    /// Fails unless a new base is byte for byte what a load of the same quads writes.
    fn check_files(&self, new: &NewBase) {
        let key = |id: u64| self.keys.get(&TermId(id)).cloned();
        let quads: BTreeSet<_> = self.quads.iter().map(|quad| quad.map(key)).collect();
        let expected = fresh(&self.storage, &quads);
        let (old, new_terms) = (expected.dictionary.as_ref(), new.sealed.dictionary.as_ref());
        let (old, new_terms) = (old.expect("written"), new_terms.expect("written"));
        assert_eq!(new.sealed.segment, expected.segment);
        assert_eq!((new_terms.terms, &new_terms.files), (old.terms, &old.files));
        let same = |file: &str, [a, b]: [&str; 2]| {
            let read = |folder: &str| self.storage.read_all(&format!("{folder}/{file}"));
            assert!(
                read(a).expect("written") == read(b).expect("written"),
                "{file} differs"
            );
        };
        for file in &expected.segment.files {
            same(&file.name, [&new.id.folder(), "fresh"]);
        }
        for file in &old.files {
            same(&file.name, [&new_terms.id.folder(), &FRESH.folder()]);
        }
    }

    fn remove_new(&self) {
        for folder in ["segment-000002", "dictionary-000002"] {
            self.storage.remove(folder).expect("memory");
        }
    }

    /// Returns a state with the new base alone.
    fn after(&self, new: &NewBase) -> Manifest {
        Manifest {
            segment: new.id,
            quads: new.sealed.segment.quads,
            files: new.sealed.segment.files.clone(),
            dictionary: new.sealed.dictionary.clone(),
            ..self.manifest.clone()
        }
    }

    fn check(&self, memory_bytes: usize, threads: usize) {
        let new = self
            .compact(&self.storage, memory_bytes, threads)
            .expect("memory");
        assert_eq!(new.sealed.segment.quads, self.quads.len() as u64);
        self.check_files(&new);
        let pool = BufferPool::new(Arc::clone(&self.storage), 4 << 20);
        let segment = Segment::open_base(&pool, &self.after(&new)).expect("sound");
        let mapping = new.mapping.as_ref().expect("of a whole compaction");
        let used: BTreeSet<u64> = self.quads.iter().flatten().copied().collect();
        for (&id, key) in &self.keys {
            let found = segment.dictionary.find(key.as_key()).expect("memory");
            match mapping.new_id(id) {
                None => assert!(found.is_none() && !used.contains(&id.0), "{id:?}"),
                // A base may have terms that nothing used from the start.
                Some(new) if used.contains(&id.0) => assert_eq!(found, Some(new), "{id:?}"),
                Some(_) if !self.manifest.base_uses_all_terms() => panic!("{id:?} is not used"),
                Some(_) => assert!(self.runs.iter().all(|run| run.entry().removed.quads == 0)),
            }
        }
    }
}

/// Makes sure that a quad is removed, so that the base's unused terms are dropped, too.
fn with_removal(mut models: Vec<Model>) -> Vec<Model> {
    let quad = *base_quads().first().expect("there are some");
    let sum = sum(&models);
    if sum.quads.values().all(|added| *added) {
        let last = models.last_mut().expect("there is one");
        if last.quads.remove(&quad).is_none() {
            last.quads.insert(quad, false);
        }
    }
    models
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_compacted_base_is_a_fresh_one(models in runs().prop_map(with_removal), spill in any::<bool>(), threads in 1..4_usize) {
        let case = Case::new(&models);
        case.check(if spill { 1 } else { 1 << 20 }, threads);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_compacted_base_is_a_fresh_one_after_compactions_of_its_orders(
        models in runs().prop_map(with_removal),
        spill in any::<bool>(),
    ) {
        let case = Case::new(&models).with_orders_compacted();
        case.check(if spill { 1 } else { 1 << 20 }, 1);
    }
}

#[test]
fn rows_that_do_not_fit_are_sorted_in_files() {
    let mut model = Model {
        first: [TERMS; TermKind::DICTIONARY.len()],
        ..Model::default()
    };
    model
        .quads
        .insert(*base_quads().first().expect("some"), false);
    for n in 0..20_000_u64 {
        let bytes = format!("http://example.org/{:05}x", n * 7919 % 20_000).into_bytes();
        let new = TermId::new(TermKind::Iri, TERMS + n);
        let key = OwnedKey {
            kind: TermKind::Iri,
            bytes,
        };
        model.terms.insert(key, new);
        let iri = |n| id(TermKind::Iri, n);
        model
            .quads
            .insert([new.0, iri(n % 3), iri(n % 3000), 0], true);
    }
    Case::new(&[model]).check(1, 2);
}

/// Makes a small case, and the storage that it is compacted in.
fn small_case() -> (Case, FaultyStorage) {
    let mut model = Model {
        first: [TERMS; TermKind::DICTIONARY.len()],
        ..Model::default()
    };
    model
        .quads
        .insert(*base_quads().first().expect("some"), false);
    let case = Case::new(&[model]);
    let calm = FaultyStorage::new(Arc::clone(&case.storage), FaultPlan::none());
    let compacted: Arc<dyn Storage> = Arc::new(calm.clone());
    case.compact(&compacted, 1 << 20, 1).expect("no faults");
    case.remove_new();
    (case, calm)
}

#[test]
fn a_full_disk_leaves_nothing_of_a_compaction() {
    let (case, calm) = small_case();
    let before = case.storage.list("").expect("memory");
    for bytes in (0..calm.bytes_appended()).step_by(9_000) {
        let faulty = FaultyStorage::new(Arc::clone(&case.storage), FaultPlan::disk_of(bytes));
        let faulty: Arc<dyn Storage> = Arc::new(faulty);
        let written = case.compact(&faulty, 1 << 20, 1).map(|_| ());
        let error = written.expect_err("it is full");
        assert!(error.to_string().contains("no space left"), "{error}");
        assert_eq!(case.storage.list("").expect("memory"), before, "{bytes}");
    }
}

#[test]
fn a_compaction_goes_on_where_the_one_before_failed() {
    let (case, calm) = small_case();
    let whole = calm.bytes_appended();
    let mut least = whole;
    for operation in 1..=calm.operations() {
        let faulty = FaultyStorage::new(Arc::clone(&case.storage), FaultPlan::fail_at(operation));
        let storage: Arc<dyn Storage> = Arc::new(faulty);
        let written = case.compact(&storage, 1 << 20, 1).map(|_| ());
        let error = written.expect_err(&format!("operation {operation} fails"));
        assert!(matches!(error, StoreError::Io(_)), "{operation}: {error}");
        let again = FaultyStorage::new(Arc::clone(&case.storage), FaultPlan::none());
        let storage: Arc<dyn Storage> = Arc::new(again.clone());
        let new = case.compact(&storage, 1 << 20, 1).expect("no faults");
        case.check_files(&new);
        assert!(again.bytes_appended() <= least, "fails at {operation}");
        least = again.bytes_appended();
        case.remove_new();
    }
    // The last compaction only has to write the directory.
    assert!(least < whole / 3, "{least} of {whole} bytes");
}

#[test]
fn a_cancelled_compaction_goes_on_and_one_of_another_state_does_not() {
    let (case, _) = small_case();
    let pace = Pace::default();
    pace.cancel();
    let options = CompactionOptions::default();
    let storage = Arc::clone(&case.storage);
    let error = case.compact_paced(&storage, &options, &pace).map(|_| ());
    assert!(matches!(error, Err(StoreError::Cancelled)), "{error:?}");
    assert!(storage.exists("segment-000002/FROM").expect("memory"));
    let new = case.compact(&storage, 1 << 20, 1).expect("no faults");
    case.check_files(&new);
    storage.remove("segment-000002/pos.part").expect("memory");
    // A damaged part is written again.
    let name = "segment-000002/spo.part";
    let mut bytes = case.storage.read_all(name).expect("memory");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut file = case.storage.create(name).expect("memory");
    file.append(&bytes).expect("memory");
    file.sync().expect("memory");
    let new = case.compact(&storage, 1 << 20, 1).expect("no faults");
    case.check_files(&new);
    // Parts made from other runs are discarded.
    let mut other = case.from();
    other.runs.clear();
    let other = (&other, Extent::Whole);
    let written = compact(other, &case.base, &[], storage, &options, &Pace::default());
    let written = written.expect("no faults");
    assert_eq!(written.sealed.segment.quads, base_quads().len() as u64);
}

/// Makes a run that removes all quads of a predicate, so that the ids of the others move.
fn without(predicate: u64) -> Model {
    let mut model = Model {
        first: [TERMS; TermKind::DICTIONARY.len()],
        ..Model::default()
    };
    let of_predicate = base_quads().into_iter().filter(|quad| quad[1] == predicate);
    model.quads.extend(of_predicate.map(|quad| (quad, false)));
    for n in 0..5 {
        let bytes = format!("a{n}").into_bytes();
        let kind = TermKind::Iri;
        let new = TermId::new(kind, TERMS + n);
        model.terms.insert(OwnedKey { kind, bytes }, new);
        model
            .quads
            .insert([new.0, id(kind, 1), id(kind, n), 0], true);
    }
    model
}

#[test]
fn auxiliary_files_are_rebuilt_with_new_ids_or_dropped() {
    let iri = |n| id(TermKind::Iri, n);
    let case = Case::new(&[without(iri(3))]);
    let add = vec![
        AuxiliaryKind::Degrees,
        AuxiliaryKind::Reachability { predicate: iri(1) },
        AuxiliaryKind::Reachability { predicate: iri(3) },
        AuxiliaryKind::Attribute {
            predicate: iri(2),
            along: vec![iri(1), iri(3)],
        },
        AuxiliaryKind::Attribute {
            predicate: iri(1),
            along: vec![iri(3)],
        },
    ];
    let change = Change {
        add: add.clone(),
        drop: Vec::new(),
    };
    optimize(
        Arc::clone(&case.storage),
        &change,
        OptimizeOptions::default(),
    )
    .expect("memory");
    let mut manifest = Manifest::read(&*case.storage)
        .expect("sound")
        .expect("there");
    let new = case.compact(&case.storage, 1 << 20, 1).expect("memory");
    let pool = BufferPool::new(Arc::clone(&case.storage), 4 << 20);
    let mapping = new.mapping.as_ref().expect("of a whole compaction");
    let base = Segment::open_base(&pool, &case.after(&new));
    let rebuilt = rebuild(
        &pool,
        &Arc::new(base.expect("sound")),
        &manifest.auxiliary,
        &Succession {
            is_kept: &|_| false,
            new_id: &|id| mapping.new_id(id),
            numbers: &Numbers::after([&manifest]),
        },
        OptimizeOptions::default(),
        &Pace::default(),
    )
    .expect("memory");
    let dropped: Vec<&AuxiliaryKind> = rebuilt.dropped.iter().map(|(kind, _)| kind).collect();
    assert_eq!(dropped, [&add[2], &add[4]]);
    let kinds: Vec<AuxiliaryKind> = rebuilt.entries.iter().map(|e| e.kind.clone()).collect();
    let new_id = |old| mapping.new_id(TermId(old)).expect("used").0;
    let along = vec![new_id(iri(1))];
    let predicate = new_id(iri(1));
    assert_eq!(kinds[1], AuxiliaryKind::Reachability { predicate });
    let predicate = new_id(iri(2));
    assert_eq!(kinds[2], AuxiliaryKind::Attribute { predicate, along });
    manifest = Manifest {
        auxiliary: rebuilt.entries,
        ..case.after(&new)
    };
    let unnamed = Unnamed::new(&*case.storage);
    manifest.switch(&*case.storage, unnamed).expect("memory");
    Manifest::remove_leftovers(Some(&manifest), &*case.storage).expect("memory");
    let report = verify(
        Arc::clone(&case.storage),
        VerifyOptions::default(),
        &mut |_| {},
    );
    assert_eq!(report.problems, []);
    let folders = case.storage.list("").expect("memory");
    assert_eq!(
        folders
            .iter()
            .filter(|name| name.starts_with("auxiliary"))
            .count(),
        3
    );
}

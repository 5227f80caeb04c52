//! Tests of opening, locking and replacing stores.

use std::collections::BTreeSet;
use std::fs;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Origin};
use pythia_rdf::TermKind;

use super::*;
use crate::locks::{LOCK_NAME, WRITER_NAME};
use crate::manifest::MANIFEST_NAME;
use crate::testing::{Quad, SMALL_PAGES, id, write_segment, write_segment_of, write_store};
use crate::verify::{VerifyOptions, verify};

fn quads(count: u64) -> BTreeSet<Quad> {
    let iri = |rank| id(TermKind::Iri, rank);
    (0..count)
        .map(|rank| [iri(rank), iri(50), iri(7), 0])
        .collect()
}

/// Makes a store in a folder of the file system.
fn folder(count: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = DirectStorage::open(folder.path(), true).expect("a folder");
    write_segment(Arc::new(storage), &quads(count), SMALL_PAGES).expect("written");
    folder
}

fn refusal(path: &Path) -> StoreError {
    match Store::open(path, OpenOptions::default()) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[test]
fn a_store_opens_and_knows_its_quads() {
    let folder = folder(500);
    let store = Store::open(folder.path(), OpenOptions::default()).expect("sound");
    assert_eq!(store.snapshot().statistics().quads, 500);
    assert_eq!(store.manifest().quads, 500);
    let pages = store.pool().counters().total();
    assert_eq!((pages.device_pages, pages.cache_hits), (0, 0));
}

/// Directories are on pages: what an open store keeps in memory hardly grows with it.
#[test]
fn an_open_store_keeps_few_bytes_for_each_page() {
    let [(small_pages, small_bytes), (pages, bytes)] = [2_000, 200_000].map(|count| {
        let iri = |rank| id(TermKind::Iri, rank);
        let quads = (0..count).map(|n| [iri(n * 7), iri(n % 5), iri(n * 7919 % 1_000_003), 0]);
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        write_segment(storage.clone(), &quads.collect(), SMALL_PAGES).expect("written");
        let store = Store::open_storage(storage, OpenOptions::default()).expect("sound");
        let snapshot = store.snapshot();
        let base = snapshot.base();
        let pages: u64 = base
            .paged_files()
            .map(pythia_io::PagedFile::page_count)
            .sum();
        (pages, base.memory_bytes() as u64)
    });
    assert!(pages > small_pages + 500, "{pages} pages");
    let growth = bytes.saturating_sub(small_bytes);
    assert!(growth <= pages, "{growth} bytes for {pages} pages");
}

#[test]
fn what_is_no_store_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let missing = refusal(&path.join("missing"));
    assert!(matches!(missing, StoreError::NotAStore { .. }), "{missing}");
    assert!(missing.to_string().contains("missing"));
    let empty = refusal(path);
    assert!(matches!(empty, StoreError::NotAStore { .. }), "{empty}");
    fs::write(path.join("file"), "text").expect("written");
    let file = refusal(&path.join("file"));
    assert!(matches!(file, StoreError::NotAStore { .. }), "{file}");
    for foreign in [
        "",
        "LevelDB",
        "Pythia RDF store\n",
        "Pythia RDF store\n{}\n0\n",
    ] {
        fs::write(path.join(MANIFEST_NAME), foreign).expect("written");
        let error = refusal(path);
        assert!(
            matches!(error, StoreError::Corrupt { .. }),
            "{foreign:?}: {error}"
        );
        assert!(error.to_string().contains(MANIFEST_NAME));
    }
}

#[test]
fn missing_and_cut_files_are_named() {
    let folder = folder(500);
    let orders =
        crate::segment::sealed::order_names(crate::Order::ALL).map(|name| ("segment-000001", name));
    let terms = crate::segment::sealed::dictionary_names().map(|name| ("dictionary-000001", name));
    for (part, name) in orders.chain(terms) {
        let path = folder.path().join(part).join(&name);
        let bytes = fs::read(&path).expect("there");
        // GPSO of a store without named graphs is empty.
        let other = bytes.split_last().map_or(&[7][..], |(_, rest)| rest);
        fs::write(&path, other).expect("written");
        let error = refusal(folder.path()).to_string();
        assert!(error.contains(&name), "{name}: {error}");
        fs::remove_file(&path).expect("there");
        let error = refusal(folder.path()).to_string();
        assert!(error.contains(&name), "{name}: {error}");
        fs::write(&path, &bytes).expect("written");
    }
    Store::open(folder.path(), OpenOptions::default()).expect("whole again");
}

#[test]
fn readers_share_and_a_writer_excludes() {
    let folder = folder(1);
    let path = folder.path();
    let first = Store::open(path, OpenOptions::default()).expect("sound");
    let second = Store::open(path, OpenOptions::default()).expect("shared");
    let storage = open_folder(path).expect("a store");
    let refused = StoreLock::exclusive(&storage).expect_err("in use");
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    drop((first, second));
    let writer = StoreLock::exclusive(&storage).expect("free");
    assert!(matches!(refusal(path), StoreError::Locked { .. }));
    drop(writer);
    Store::open(path, OpenOptions::default()).expect("free again");
}

/// Two writers would overwrite each other's files.
#[test]
fn there_is_one_writer_whatever_files_are_removed() {
    let folder = folder(1);
    let path = folder.path();
    let write = WriteOptions::default();
    let open = || Store::open_for_writing(path, OpenOptions::default(), &write);
    let first = open().expect("free");
    for name in [WRITER_NAME, LOCK_NAME] {
        fs::remove_file(path.join(name)).expect("there");
        let refused = open().map(drop).expect_err("in use");
        assert!(matches!(refused, StoreError::Writing { .. }), "{refused}");
        let storage = open_folder(path).expect("a store");
        let refused = StoreLock::exclusive(&storage).expect_err("in use");
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    }
    drop(first);
    open().expect("free again");
}

/// Two stores would overwrite each other's log.
#[test]
fn a_folder_of_a_log_has_one_writer() {
    let (first, second) = (folder(1), folder(1));
    let log = tempfile::tempdir().expect("a temporary folder");
    let write = WriteOptions {
        log_folders: vec![log.path().to_owned()],
        ..WriteOptions::default()
    };
    let open = |folder: &tempfile::TempDir| {
        Store::open_for_writing(folder.path(), OpenOptions::default(), &write)
    };
    let store = open(&first).expect("free");
    let refused = open(&second).map(drop).expect_err("another store's");
    assert!(matches!(refused, StoreError::LogFolder { .. }), "{refused}");
    // Nor can a copy of the same store, which knows the folder.
    let copy = tempfile::tempdir().expect("a temporary folder");
    for name in [
        "MANIFEST",
        "LOG",
        "log",
        "segment-000001",
        "dictionary-000001",
    ] {
        let copied = std::process::Command::new("cp")
            .args([
                "-r".as_ref(),
                first.path().join(name).as_os_str(),
                copy.path().as_os_str(),
            ])
            .status();
        assert!(copied.expect("cp").success());
    }
    let refused = open(&copy).map(drop).expect_err("in use");
    assert!(matches!(refused, StoreError::LogInUse { .. }), "{refused}");
    drop(store);
    open(&first).expect("free again");
}

/// An open store moves with its folder; a folder put in its place is a different store.
#[test]
fn a_store_that_is_moved_is_written_to_where_it_is() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let [path, moved] = ["store", "moved"].map(|name| parent.path().join(name));
    let make = || {
        let storage = Arc::new(DirectStorage::open(&path, true).expect("a folder"));
        write_segment(storage, &quads(5), SMALL_PAGES).expect("written");
    };
    let open = |path: &Path| {
        Store::open_for_writing(path, OpenOptions::default(), &WriteOptions::default())
    };
    let add = |store: &Store, rank| {
        let iri = |rank| id(TermKind::Iri, rank);
        let mut transaction = store.begin().expect("open for writing");
        let quad = [iri(rank), iri(50), iri(8), 0];
        assert_eq!(transaction.insert(&[quad]).expect("sound"), 1);
        transaction.commit().expect("a device");
        store.flush().expect("a device");
    };
    make();
    let store = open(&path).expect("free");
    add(&store, 100);
    fs::rename(&path, &moved).expect("the same file system");
    make();
    let other = open(&path).expect("another store");
    add(&store, 101);
    add(&other, 102);
    store.compact().expect("a device");
    drop((store, other));
    for (path, expected) in [(&moved, 7), (&path, 6)] {
        let store = Store::open(path, OpenOptions::default()).expect("a store");
        assert_eq!(store.snapshot().statistics().quads, expected);
        let storage = Arc::new(open_folder(path).expect("a store"));
        let report = verify(storage, VerifyOptions::default(), &mut |_| {});
        assert_eq!(report.problems, []);
    }
}

/// The folder now holds files that this process did not write.
#[test]
fn a_writer_whose_files_were_replaced_writes_nothing() {
    let (mine, theirs) = (folder(5), folder(7));
    let open = |folder: &tempfile::TempDir| {
        let write = WriteOptions::default();
        Store::open_for_writing(folder.path(), OpenOptions::default(), &write)
    };
    drop(open(&theirs).expect("free"));
    let store = open(&mine).expect("free");
    let manifest = |folder: &tempfile::TempDir| folder.path().join(MANIFEST_NAME);
    fs::copy(manifest(&theirs), manifest(&mine)).expect("a device");
    let mut transaction = store.begin().expect("open for writing");
    let iri = |rank| id(TermKind::Iri, rank);
    transaction
        .insert(&[[iri(100), iri(50), iri(8), 0]])
        .expect("sound");
    transaction.commit().expect("the log is still its own");
    let refused = store.flush().expect_err("another store's manifest");
    assert!(matches!(refused, StoreError::Replaced), "{refused}");
    let refused = store.flush().expect_err("it has stopped");
    assert!(matches!(refused, StoreError::Stopped { .. }), "{refused}");
    let read = |folder| fs::read(manifest(folder)).expect("there");
    assert_eq!(read(&mine), read(&theirs), "nothing was written over it");
}

#[test]
fn a_profile_of_another_device_or_a_damaged_one_is_not_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Arc::new(DirectStorage::open(folder.path(), true).expect("a folder"));
    write_segment(storage.clone(), &quads(500), SMALL_PAGES).expect("written");
    let open = || Store::open(folder.path(), OpenOptions::default()).expect("sound");
    // The files are too small to be measured: the profile is assumed and not kept.
    assert_eq!(open().device().origin, Origin::Assumed);
    assert!(!folder.path().join(device::DEVICE_NAME).exists());
    let mut kept = DeviceProfile {
        origin: Origin::Full,
        identity: storage.identity(),
        ..DeviceProfile::default()
    };
    kept.random[0].depth = 17;
    device::write(&*storage, &kept).expect("written");
    assert_eq!(open().snapshot().device(), &kept);
    kept.identity.as_mut().expect("a device").file_system_id ^= 1;
    device::write(&*storage, &kept).expect("written");
    assert_eq!(open().device().origin, Origin::Assumed);
    // The profile is not part of the store's state: damage is not an error.
    fs::write(folder.path().join(device::DEVICE_NAME), "{").expect("written");
    assert_eq!(open().device(), &DeviceProfile::default());
}

#[test]
fn a_large_store_measures_its_device_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let storage = Arc::new(DirectStorage::open(folder.path(), true).expect("a folder"));
    write_segment(storage.clone(), &quads(500), SMALL_PAGES).expect("written");
    let mut manifest = Manifest::read(&*storage).expect("sound").expect("there");
    let name = "segment-000001/large";
    let mut file = storage.create(name).expect("created");
    file.append(&vec![1; 8 << 20]).expect("written");
    file.sync().expect("written");
    manifest.files.push(crate::manifest::ManifestFile {
        name: "large".to_owned(),
        bytes: 8 << 20,
    });
    let measured = device::of_store(&storage, &manifest);
    // Other tests may keep the machine too busy to measure.
    if measured.origin == Origin::Brief {
        assert_eq!(device::read(&*storage), Some(measured.clone()));
        assert_eq!(device::of_store(&storage, &manifest), measured);
    } else {
        assert_eq!(device::read(&*storage), None);
        assert_eq!(measured, DeviceProfile::default());
    }
}

#[test]
fn an_empty_store_takes_a_load_and_a_full_one_does_not() {
    let storage = write_store(&BTreeSet::new(), SMALL_PAGES);
    let id = write_segment(storage.clone(), &quads(5), SMALL_PAGES).expect("it was empty");
    assert_eq!(id.0, 2);
    assert_eq!(
        storage.list("").expect("memory"),
        [MANIFEST_NAME, "dictionary-000002", "segment-000002"]
    );
    let error = write_segment(storage.clone(), &quads(6), SMALL_PAGES).expect_err("full");
    assert!(
        matches!(error, StoreError::NotEmpty { quads: 5 }),
        "{error}"
    );
    let options = VerifyOptions::default();
    assert_eq!(verify(storage, options, &mut |_| {}).problems, []);
}

#[test]
fn a_writer_that_is_given_up_leaves_nothing() {
    let storage = Arc::new(MemoryStorage::new());
    let writer = crate::BaseWriter::create(storage.clone(), SMALL_PAGES).expect("empty");
    let order = writer.segment().order(crate::Order::Pso).expect("memory");
    order.finish().expect("memory");
    drop(writer);
    assert_eq!(storage.list("").expect("memory"), [] as [String; 0]);
}

/// After a crash at any operation the store is in its old or its new state.
#[test]
fn a_crash_leaves_no_store_or_the_whole() {
    let quads = quads(800);
    let write = |storage: &FaultyStorage| {
        write_segment_of(Arc::new(storage.clone()), &quads, SMALL_PAGES, 800)
    };
    let calm = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
    write(&calm).expect("no faults");
    let operations = calm.operations();
    for crash in 1..=operations + 1 {
        for seed in 0..3 {
            let device = FaultyStorage::new(
                Arc::new(MemoryStorage::new()),
                FaultPlan::crash_at(crash, seed),
            );
            let acknowledged = write(&device).is_ok();
            device.restart(FaultPlan::none()).expect("it starts again");
            let manifest = Manifest::read(&device).expect("never half a manifest");
            assert!(
                manifest.is_some() || !acknowledged,
                "crash at {crash}, seed {seed}"
            );
            if manifest.is_none() {
                write(&device).expect("leftovers are in nobody's way");
            }
            let report = verify(
                Arc::new(device.clone()),
                VerifyOptions::default(),
                &mut |_| {},
            );
            assert_eq!(report.problems, [], "crash at {crash}, seed {seed}");
            assert_eq!(report.quads, quads.len() as u64);
        }
    }
}

#[test]
fn a_full_disk_or_a_failing_device_is_an_error_and_changes_nothing() {
    let quads = quads(800);
    let calm = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
    write_segment_of(Arc::new(calm.clone()), &quads, SMALL_PAGES, 800).expect("no faults");
    let plans = (1..=calm.operations()).map(FaultPlan::fail_at);
    let sizes = (0..calm.bytes_appended())
        .step_by(20_000)
        .map(FaultPlan::disk_of);
    for plan in plans.chain(sizes) {
        let inner = Arc::new(MemoryStorage::new());
        let device = FaultyStorage::new(inner.clone(), plan.clone());
        let result = write_segment_of(Arc::new(device), &quads, SMALL_PAGES, 800);
        let manifest = Manifest::read(&*inner).expect("never half a manifest");
        assert_eq!(manifest.is_some(), result.is_ok(), "{plan:?}");
    }
}

//! Stores of every format, written by the programs of their time (`testdata/compat/README.md`), are read, changed and
//! compacted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pythia::{
    Database, FolderChanges, OptimizeOptions, STORE_FORMATS, VerifyOptions, change_log_folders,
};
use pythia_io::{DirectStorage, FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_rdf::TermId;
use pythia_store::manifest::Manifest;
use pythia_store::write::WriteOptions;
use pythia_store::{OpenOptions, Store, StoreError};
use tempfile::TempDir;

use crate::support::{Peer, contents, dataset, ours};

/// The formats, each with a store in `testdata/compat/format-N.tar.gz`.
const FORMATS: std::ops::RangeInclusive<u32> = 1..=7;

const QUERIES: &[&str] = &[
    "SELECT * { ?s ?p ?o }",
    "SELECT * { GRAPH ?g { ?s ?p ?o } }",
    "SELECT * { e:node\\/2 ?p ?o }",
    "SELECT (COUNT(*) AS ?n) { ?m a e:Member }",
    "SELECT * { ?a e:next+ ?b }",
    "SELECT * { ?s ?p ?o FILTER(STRSTARTS(STR(?o), \"text 1\")) }",
    "SELECT ?p (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o } GROUP BY ?p",
];

/// An unpacked store.
struct Fixture {
    folder: TempDir,
    name: String,
}

impl Fixture {
    /// Unpacks a store. The archive of its log, if it has one, is where the store finds it.
    fn new(format: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("format-{format}");
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/compat");
        let archive = testdata.join(format!("{name}.tar.gz"));
        // Not by a program: until it runs, it has the open files of this process, and with them the locks of other tests'
        // stores.
        let archive = fs::File::open(&archive).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
        archive.unpack(folder.path()).unwrap();
        let fixture = Self { folder, name };
        if let Ok(was) = fs::read_to_string(fixture.path("archive-was")) {
            let changes = FolderChanges {
                moved: vec![(was.trim().into(), fixture.path("archive"))],
                ..FolderChanges::default()
            };
            change_log_folders(&fixture.store(), &changes).unwrap();
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// Returns what the program of the time found in the store.
    fn contents(&self) -> String {
        fs::read_to_string(self.path("contents.nq")).unwrap()
    }

    /// Fails unless a database has these quads, and answers as many solutions as Oxigraph.
    fn check(&self, database: &Database, nquads: &str) {
        // The contents are too long for a message.
        assert!(
            contents(database) == dataset(nquads),
            "{}: other quads",
            self.name
        );
        let peer = Peer::new(nquads);
        for query in QUERIES {
            let query = format!("PREFIX e: <http://example.org/> {query}");
            let expected = peer.answer(&query).unwrap().lines.len();
            let found = ours(database, &query).unwrap().lines.len();
            assert_eq!(found, expected, "{}: {query}", self.name);
        }
    }

    fn verify(&self) {
        let report = pythia::verify(&self.store(), VerifyOptions::default(), &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{}: {:?}", self.name, report.problems);
    }
}

fn format_of(store: &Path) -> u32 {
    let storage = DirectStorage::open(store, false).unwrap();
    Manifest::read(&storage).unwrap().expect("a store").format
}

/// Returns the bytes of all files of a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn every_earlier_format_has_a_store() {
    assert_eq!(FORMATS, *STORE_FORMATS.start()..=STORE_FORMATS.end() - 1);
}

#[test]
fn stores_of_earlier_formats_are_read_and_stay_as_they_are() {
    for format in FORMATS {
        let fixture = Fixture::new(format);
        assert_eq!(format_of(&fixture.store()), format_of_archive(format));
        let before = files(&fixture.store());
        fixture.check(
            &Database::open(fixture.store()).unwrap(),
            &fixture.contents(),
        );
        fixture.verify();
        let after = files(&fixture.store());
        for (path, bytes) in &before {
            assert!(after.get(path) == Some(bytes), "{} changed", path.display());
        }
    }
}

#[test]
fn stores_of_earlier_formats_are_changed_and_compacted() {
    let [old, new] = [
        "<http://example.org/node/2> <http://example.org/next> <http://example.org/node/15> .",
        "<http://example.org/made> <http://example.org/next> \"new\" <http://example.org/graph/9> .",
    ];
    for format in FORMATS {
        let fixture = Fixture::new(format);
        let quads = fixture.contents();
        assert!(quads.contains(old));
        let expected = quads.replace(old, new);
        let database = Database::open_for_writing(fixture.store()).unwrap();
        let update = format!(
            "DELETE DATA {{ {old} }} ; INSERT DATA {{ GRAPH <http://example.org/graph/9> {{ \
             <http://example.org/made> <http://example.org/next> \"new\" }} }}"
        );
        database.update(&update).unwrap();
        fixture.check(&database, &expected);
        drop(database);
        let database = Database::open_for_writing(fixture.store()).unwrap();
        fixture.check(&database, &expected);
        database.store().compact().unwrap();
        assert_eq!(format_of(&fixture.store()), *STORE_FORMATS.end());
        fixture.check(&database, &expected);
        drop(database);
        fixture.verify();
        fixture.check(&Database::open(fixture.store()).unwrap(), &expected);
    }
}

#[test]
fn stores_of_earlier_formats_are_upgraded() {
    for format in FORMATS {
        let fixture = Fixture::new(format);
        let upgraded = pythia::upgrade(&fixture.store(), OptimizeOptions::default(), 1).unwrap();
        let (before, compacted) = upgraded.expect("it was not the newest");
        assert!(before == format_of_archive(format), "{before}");
        assert_eq!(format_of(&fixture.store()), *STORE_FORMATS.end());
        let expected = fixture.contents();
        assert_eq!(compacted.quads, dataset(&expected).len() as u64);
        fixture.check(&Database::open(fixture.store()).unwrap(), &expected);
        fixture.verify();
        let again = pythia::upgrade(&fixture.store(), OptimizeOptions::default(), 1);
        assert!(again.unwrap().is_none(), "it has the newest format now");
    }
}

/// The archive of format 5 is at another path than the store knows; changing that writes the newest format.
fn format_of_archive(format: u32) -> u32 {
    match format {
        5 => *STORE_FORMATS.end(),
        format => format,
    }
}

/// Returns the files of a store, in memory.
fn in_memory(store: &Path) -> Arc<MemoryStorage> {
    let storage = MemoryStorage::new();
    for (path, bytes) in files(store) {
        let name = path
            .strip_prefix(store)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let mut file = storage.create(&name).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
    }
    Arc::new(storage)
}

/// Returns the quads of a store as text.
fn quads_in(storage: Arc<dyn Storage>) -> BTreeSet<[String; 4]> {
    let store = Store::open_storage(storage, OpenOptions::default()).unwrap();
    let snapshot = store.snapshot();
    let mut scan = snapshot.quads().unwrap();
    let mut quads = BTreeSet::new();
    while let Some(batch) = scan.next().unwrap() {
        // The default graph has no term.
        let ids = batch.columns.iter().flatten().map(|&id| TermId(id));
        let ids: BTreeSet<TermId> = ids.filter(|id| id.is_bound()).collect();
        let ids: Vec<TermId> = ids.into_iter().collect();
        let terms = snapshot.decode(&ids).unwrap().into_iter();
        let terms: BTreeMap<u64, String> = ids
            .iter()
            .map(|id| id.0)
            .zip(terms.map(|term| term.to_string()))
            .collect();
        let text = |id: &u64| terms.get(id).cloned().unwrap_or_default();
        let quad = |row: usize| std::array::from_fn(|column| text(&batch.columns[column][row]));
        quads.extend((0..batch.rows).map(quad));
    }
    quads
}

/// Does what `pythia upgrade` does.
fn upgrade(storage: &FaultyStorage) -> Result<(), StoreError> {
    let mut write = WriteOptions::default();
    write.maintenance.in_background = false;
    let open = OpenOptions::default();
    let storage = Arc::new(storage.clone());
    let store = Store::open_storage_for_writing(storage, open, &write)?;
    store.compact().map(drop)
}

/// An upgrade that ends at any operation leaves the old store or the new one; so does the one that goes on from there,
/// and the next one completes it.
#[test]
fn an_upgrade_that_is_killed_twice_leaves_the_old_store_or_the_new_one() {
    for format in [1, 2, 4, 6, 7] {
        let fixture = Fixture::new(format);
        let calm = FaultyStorage::new(in_memory(&fixture.store()), FaultPlan::none());
        let expected = quads_in(Arc::new(calm.clone()));
        assert_eq!(expected.len(), dataset(&fixture.contents()).len());
        calm.restart(FaultPlan::none()).unwrap();
        upgrade(&calm).unwrap();
        let operations = calm.operations();
        let mut retries_killed = 0;
        for first in (1..operations).step_by(7) {
            let plan = FaultPlan::crash_at(first, first);
            let device = FaultyStorage::new(in_memory(&fixture.store()), plan);
            let _ = upgrade(&device);
            device.restart(FaultPlan::none()).unwrap();
            let place = format!("format {format}, operation {first}");
            assert!(quads_in(Arc::new(device.clone())) == expected, "{place}");
            // Early and late operations in turn: what goes on may have little left to do.
            let second = 1 + first * 31 % (operations / if first % 2 == 0 { 1 } else { 8 });
            let place = format!("{place}, then {second}");
            device.restart(FaultPlan::crash_at(second, second)).unwrap();
            retries_killed += usize::from(upgrade(&device).is_err());
            device.restart(FaultPlan::none()).unwrap();
            assert!(quads_in(Arc::new(device.clone())) == expected, "{place}");
            upgrade(&device).unwrap();
            let storage: Arc<dyn Storage> = Arc::new(device);
            let manifest = Manifest::read(&*storage).unwrap().expect("a store");
            assert_eq!(manifest.format, *STORE_FORMATS.end(), "{place}");
            assert!(quads_in(storage) == expected, "{place}");
        }
        assert!(
            retries_killed as u64 > operations / 7 / 2,
            "{retries_killed} retries killed"
        );
    }
}

#[test]
fn a_store_of_a_later_format_is_refused_with_both_numbers() {
    let fixture = Fixture::new(1);
    let store = fixture.store();
    let name = store.join("MANIFEST");
    let text = fs::read_to_string(&name).unwrap();
    let later = STORE_FORMATS.end() + 1;
    let body = text.replacen("\"format\":1", &format!("\"format\":{later}"), 1);
    let body = &body[..body.trim_end().rfind('\n').unwrap() + 1];
    fs::write(
        &name,
        format!("{body}{:08x}\n", crc32c::crc32c(body.as_bytes())),
    )
    .unwrap();
    let Err(error) = Database::open(&store) else {
        panic!("it was opened");
    };
    let message = error.to_string();
    for number in [later, *STORE_FORMATS.end()] {
        assert!(message.contains(&number.to_string()), "{message}");
    }
}

#[test]
fn an_upgrade_that_fills_the_disk_leaves_the_old_store_and_nothing_else() {
    for format in [1, 4, 6] {
        let fixture = Fixture::new(format);
        let expected = quads_in(in_memory(&fixture.store()));
        let calm = FaultyStorage::new(in_memory(&fixture.store()), FaultPlan::none());
        upgrade(&calm).unwrap();
        for part in 0..10 {
            let disk = in_memory(&fixture.store());
            let folders = |disk: &MemoryStorage| -> Vec<String> {
                let mut folders = disk.list("").unwrap();
                // Opening it for writing gives it a log, and its last commits may have become a run.
                let manifest = Manifest::read(disk).unwrap().expect("a store");
                let is_run =
                    |name: &String| manifest.runs.iter().any(|run| run.id.folder() == *name);
                folders.retain(|name| !name.to_lowercase().starts_with("log") && !is_run(name));
                folders
            };
            let before = folders(&disk);
            let bytes = calm.bytes_appended() * part / 10;
            let device = FaultyStorage::new(disk.clone(), FaultPlan::disk_of(bytes));
            let error = upgrade(&device).expect_err("it is full").to_string();
            assert!(error.contains("no space left on the device"), "{error}");
            assert_eq!(folders(&disk), before, "format {format}, {bytes} bytes");
            assert!(
                quads_in(disk.clone()) == expected,
                "format {format}, {bytes} bytes"
            );
            device.set_plan(FaultPlan::none());
            upgrade(&device).unwrap();
            assert!(
                quads_in(disk.clone()) == expected,
                "format {format}, {bytes} bytes"
            );
            let report = pythia_store::verify::verify(disk, Default::default(), &mut |_| {});
            assert_eq!(report.problems, []);
        }
    }
}

#[test]
fn readers_of_a_store_that_is_upgraded_answer_from_its_old_files() {
    for format in [2, 4, 6] {
        let fixture = Fixture::new(format);
        let expected = fixture.contents();
        let [before, unused] = [(); 2].map(|()| Database::open(fixture.store()).unwrap());
        let snapshot = before.snapshot();
        fixture.check(&before, &expected);
        pythia::upgrade(&fixture.store(), OptimizeOptions::default(), 1)
            .unwrap()
            .expect("it was not the newest");
        // One has pages in memory, the other reads its first ones.
        fixture.check(&before, &expected);
        fixture.check(&unused, &expected);
        assert_eq!(snapshot.statistics().quads, dataset(&expected).len() as u64);
        fixture.check(&Database::open(fixture.store()).unwrap(), &expected);
        drop((snapshot, before, unused));
        fixture.verify();
    }
}

#[test]
fn a_store_that_is_open_for_writing_is_not_upgraded() {
    for format in [2, 6] {
        let fixture = Fixture::new(format);
        let database = Database::open_for_writing(fixture.store()).unwrap();
        // The writer prepares its log in the background.
        let files_but_log = || {
            let mut found = files(&fixture.store());
            found.retain(|path, _| !path.starts_with(fixture.store().join("log")));
            found
        };
        let before = files_but_log();
        let refused = pythia::upgrade(&fixture.store(), OptimizeOptions::default(), 1);
        assert!(
            matches!(refused, Err(StoreError::Writing { .. })),
            "{refused:?}"
        );
        assert!(files_but_log() == before, "files have changed");
        fixture.check(&database, &fixture.contents());
        // What it would do is done by a compaction of the writer.
        database.store().compact().unwrap();
        drop(database);
        let again = pythia::upgrade(&fixture.store(), OptimizeOptions::default(), 1);
        assert!(again.unwrap().is_none(), "it has the newest format now");
        fixture.verify();
    }
}

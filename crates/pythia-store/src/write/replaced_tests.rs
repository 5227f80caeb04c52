//! Files of a store that are replaced, by hand or by a restore: the old writer neither removes nor overwrites the new
//! files.

use std::collections::BTreeMap;
use std::sync::Arc;

use pythia_io::{MemoryStorage, Storage};

use super::CompactedState;
use super::tests::{Named, change, contents, empty, load, many, open};
use crate::compact::Extent;
use crate::manifest::MANIFEST_NAME;
use crate::optimize::OptimizeOptions;
use crate::store::{Change, optimize};
use crate::{Store, StoreError};

type Files = BTreeMap<String, Vec<u8>>;

/// Collects all files below a folder.
fn files_in(storage: &MemoryStorage, folder: &str, found: &mut Files) {
    for name in storage.list(folder).expect("memory") {
        let path = match folder {
            "" => name,
            folder => format!("{folder}/{name}"),
        };
        match storage.read_all(&path) {
            Ok(bytes) => drop(found.insert(path, bytes)),
            Err(_) => files_in(storage, &path, found),
        }
    }
}

fn files(storage: &MemoryStorage) -> Files {
    let mut found = Files::new();
    files_in(storage, "", &mut found);
    found
}

/// Returns the files except those of the log, which is closed when its writer ends.
fn files_of_state(storage: &MemoryStorage) -> Files {
    let mut found = files(storage);
    found.retain(|name, _| name != "LOG" && !name.starts_with("log/"));
    found
}

fn put(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name).expect("memory");
    file.append(bytes).expect("memory");
    file.sync().expect("memory");
}

/// Replaces a store's files by those of another state; log files stay, as the writer has them open.
fn replace(storage: &MemoryStorage, by: &Files) {
    for name in files_of_state(storage).keys() {
        storage.remove(name).expect("memory");
    }
    for (name, bytes) in by {
        put(storage, name, bytes);
    }
}

fn quads(number: u32) -> Vec<Named> {
    many(number * 10, 10)
}

/// Makes a store with five runs.
fn with_runs() -> Arc<MemoryStorage> {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    for number in 0..5 {
        change(&store, &quads(number), &[]).expect("memory");
        store.flush().expect("memory");
    }
    drop(store);
    disk
}

/// A step that writes.
type Step = fn(&Store) -> Result<(), StoreError>;

/// A later state of the same store has the names that the writer would give to its next files.
#[test]
fn a_writer_whose_files_were_replaced_removes_and_overwrites_none() {
    let later: [Step; 3] = [
        |store| store.compact().map(drop),
        |store| {
            change(store, &quads(20), &[])?;
            store.flush().map(drop)
        },
        |store| load(store, &quads(21)),
    ];
    let steps: [(&str, Step); 6] = [
        ("compact", |store| store.compact().map(drop)),
        ("compact when due", |store| {
            store.writer()?.compact_due().map(drop)
        }),
        ("flush", |store| store.flush().map(drop)),
        ("merge", |store| store.writer()?.merge_due().map(drop)),
        ("load", |store| load(store, &quads(22))),
        ("give up", |store| store.writer()?.give_up_interrupted()),
    ];
    for (number, later) in later.into_iter().enumerate() {
        for (name, step) in steps {
            let disk = with_runs();
            let backup = Arc::new(disk.copy());
            later(&open(backup.clone()).expect("memory")).expect("memory");
            let store = open(disk.clone()).expect("memory");
            change(&store, &quads(30), &[]).expect("memory");
            if name == "give up" {
                let writer = store.writer().expect("open for writing");
                *writer.compacting_from.lock() = Some(CompactedState {
                    manifest: writer.manifest(),
                    extent: Extent::Whole,
                });
            }
            replace(&disk, &files_of_state(&backup));
            let error = step(&store).expect_err("another state");
            assert!(
                matches!(error, StoreError::Replaced),
                "{name} on {number}: {error}"
            );
            assert!(
                files_of_state(&disk) == files_of_state(&backup),
                "{name} on {number}"
            );
        }
    }
}

/// An older `MANIFEST` whose files are gone: the store's files stay until a state is known to be complete.
#[test]
fn opening_with_an_older_manifest_removes_nothing() {
    let disk = with_runs();
    let older = disk.read_all(MANIFEST_NAME).expect("memory");
    let store = open(disk.clone()).expect("memory");
    store.compact().expect("memory");
    change(&store, &quads(7), &[]).expect("memory");
    store.flush().expect("memory");
    let expected = contents(&store);
    drop(store);
    let newer = disk.read_all(MANIFEST_NAME).expect("memory");
    put(&disk, MANIFEST_NAME, &older);
    let before = files_of_state(&disk);
    let Err(error) = open(disk.clone()) else {
        panic!("its base is gone");
    };
    assert!(matches!(error, StoreError::Io(_)), "{error}");
    assert!(files_of_state(&disk) == before);
    optimize(disk.clone(), &Change::default(), OptimizeOptions::default()).expect_err("neither");
    assert!(files_of_state(&disk) == before);
    put(&disk, MANIFEST_NAME, &newer);
    let store = open(disk).expect("all is there");
    assert_eq!(contents(&store), expected);
}

/// The base and the runs match the older `MANIFEST`, but the log has dropped commits that it would need.
#[test]
fn opening_removes_nothing_if_the_log_lacks_commits() {
    let disk = with_runs();
    let store = open(disk.clone()).expect("memory");
    change(&store, &quads(7), &[]).expect("memory");
    drop(store);
    let before = files(&disk);
    let store = open(disk.clone()).expect("memory");
    store.flush().expect("memory");
    let expected = contents(&store);
    drop(store);
    let newer = disk.read_all(MANIFEST_NAME).expect("memory");
    put(&disk, MANIFEST_NAME, &before[MANIFEST_NAME]);
    let state = files_of_state(&disk);
    let log: Vec<String> = files(&disk).into_keys().collect();
    let log: Vec<(String, Vec<u8>)> = log
        .into_iter()
        .filter(|name| name.starts_with("log/"))
        .map(|name| (name.clone(), disk.read_all(&name).expect("memory")))
        .collect();
    log.iter()
        .for_each(|(name, _)| disk.remove(name).expect("memory"));
    assert!(open(disk.clone()).is_err(), "the log is gone");
    optimize(disk.clone(), &Change::default(), OptimizeOptions::default()).expect_err("neither");
    assert!(files_of_state(&disk) == state);
    log.iter().for_each(|(name, bytes)| put(&disk, name, bytes));
    put(&disk, MANIFEST_NAME, &newer);
    assert_eq!(contents(&open(disk).expect("all is there")), expected);
}

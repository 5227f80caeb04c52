//! Damage to the log of a store: found and named, or without consequence; and how to go on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pythia::{
    Database, LogError, Options, QueryError, StoreError, VerifyOptions, salvage, salvage_storage,
};
use pythia_io::{MemoryStorage, Storage};
use pythia_log::LogOptions;
use pythia_store::verify::verify;
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;

use crate::support::{ours, stored};

/// The commits of every store that is damaged here.
const COMMITS: usize = 40;

fn options() -> Options {
    Options {
        write: Some(WriteOptions {
            log: LogOptions {
                file_bytes: 32 << 10,
                prepare_ahead: false,
                ..LogOptions::default()
            },
            maintenance: MaintenanceOptions {
                in_background: false,
                ..MaintenanceOptions::default()
            },
            ..WriteOptions::default()
        }),
        ..Options::default()
    }
}

fn insert(database: &Database, number: usize) {
    let text = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
    database.update(&text).unwrap();
}

/// How many of the commits the store has; it has the first ones.
fn commits(database: &Database) -> usize {
    let text = "SELECT ?o { <http://e/s> <http://e/p> ?o }";
    let answer = ours(database, text).unwrap();
    let mut numbers: Vec<usize> = (answer.lines.iter())
        .map(|line| {
            line.chars()
                .skip_while(|c| !c.is_ascii_digit())
                .take_while(char::is_ascii_digit)
                .collect()
        })
        .map(|digits: String| digits.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    numbers.len()
}

fn tree(storage: &dyn Storage, folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    for name in storage.list(folder).unwrap_or_default() {
        let path = if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        };
        match storage.read_all(&path) {
            Ok(_) => files.push(path),
            Err(_) => files.extend(tree(storage, &path)),
        }
    }
    files
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn copy(from: &dyn Storage) -> Arc<dyn Storage> {
    let to = Arc::new(MemoryStorage::new());
    for name in tree(from, "") {
        put(&*to, &name, &from.read_all(&name).unwrap());
    }
    to
}

/// A store with commits in runs and in files of the log: closed, and as a crash left it.
fn stores() -> [Arc<dyn Storage>; 2] {
    let storage: Arc<dyn Storage> = Arc::new(stored("<http://e/a> <http://e/b> <http://e/c> ."));
    let mut crashed = copy(&*storage);
    let mut number = 0;
    for until in [12, 20, COMMITS] {
        let database = Database::open_storage(Arc::clone(&storage), options()).unwrap();
        while number < until {
            number += 1;
            insert(&database, number);
            if number == 16 {
                database.store().flush().unwrap();
            }
        }
        crashed = copy(&*storage);
    }
    [storage, crashed]
}

type Damage = (&'static str, fn(Vec<u8>) -> Option<Vec<u8>>);

const DAMAGES: [Damage; 9] = [
    ("flip in the header", |mut bytes| {
        bytes[20] ^= 0x55;
        Some(bytes)
    }),
    ("zero the header", |mut bytes| {
        bytes[..4096].fill(0);
        Some(bytes)
    }),
    ("zero all", |bytes| Some(vec![0; bytes.len()])),
    ("cut off to nothing", |_| Some(Vec::new())),
    ("cut off in the header", |bytes| Some(bytes[..100].to_vec())),
    ("cut off in the middle", |bytes| {
        Some(bytes[..bytes.len() / 2].to_vec())
    }),
    ("cut off a block", |bytes| {
        Some(bytes[..bytes.len() - 4096].to_vec())
    }),
    ("flip in the middle", |mut bytes| {
        let middle = bytes.len() / 8192 * 4096 + 70;
        bytes[middle] ^= 1;
        Some(bytes)
    }),
    ("remove", |_| None),
];

fn assert_named(error: &QueryError, file: &str, what: &str) {
    let QueryError::Store(StoreError::Log(error)) = error else {
        panic!("{what}: {error}");
    };
    assert!(
        matches!(error, LogError::Damaged { .. } | LogError::Lost { .. }),
        "{what}: {error}"
    );
    let message = error.to_string();
    assert!(
        message.contains(file) && message.contains("pythia salvage"),
        "{what}: {message}"
    );
}

#[test]
fn a_damaged_log_is_refused_by_name_or_has_lost_nothing() {
    let (mut tried, mut refused) = (0, 0);
    for (sound, closed) in stores().into_iter().zip([true, false]) {
        let files = tree(&*sound, "").into_iter();
        for file in files.filter(|name| name.ends_with(".log") || name == "LOG") {
            for (name, damage) in DAMAGES {
                let what = format!("closed: {closed}, {file}: {name}");
                let storage = copy(&*sound);
                let bytes = storage.read_all(&file).unwrap();
                match damage(bytes.clone()) {
                    Some(damaged) if damaged == bytes => continue,
                    Some(damaged) => put(&*storage, &file, &damaged),
                    None => storage.remove(&file).unwrap(),
                }
                tried += 1;
                let report = verify(Arc::clone(&storage), VerifyOptions::default(), &mut |_| {});
                let reader = Database::open_storage(Arc::clone(&storage), Options::default());
                match Database::open_storage(Arc::clone(&storage), options()) {
                    Ok(database) => {
                        assert_eq!(commits(&database), COMMITS, "{what}");
                        assert_eq!(commits(&reader.unwrap()), COMMITS, "{what}");
                    }
                    Err(error) => {
                        refused += 1;
                        assert_named(&error, &file, &what);
                        assert_named(&reader.err().expect("readers refuse it too"), &file, &what);
                        let named = report
                            .problems
                            .iter()
                            .any(|p| p.to_string().contains(&file));
                        assert!(named, "{what}: {:?}", report.problems);
                        let found = salvage_storage(&storage, false).unwrap();
                        let done = salvage_storage(&storage, true).unwrap();
                        assert_eq!(found.next, done.next, "{what}");
                        let database = Database::open_storage(Arc::clone(&storage), options());
                        let database = database.unwrap_or_else(|error| panic!("{what}: {error}"));
                        let left = commits(&database);
                        assert_eq!(left as u64 + 1, done.next.0, "{what}");
                        assert!(left >= 16, "{what}: these are in a run");
                        insert(&database, left + 1);
                    }
                }
            }
        }
    }
    println!("{tried} damages, {refused} refused");
    assert!(tried >= 100 && refused >= 60, "{refused} of {tried}");
}

fn newest(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder.join("log")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .max()
        .unwrap()
}

#[test]
fn a_flipped_bit_in_the_newest_header_does_not_discard_commits() {
    let folder = tempfile::tempdir().unwrap();
    pythia::load(
        folder.path(),
        Vec::new(),
        &Default::default(),
        &Arc::default(),
    )
    .unwrap();
    for number in 1..=2 {
        insert(&Database::open_for_writing(folder.path()).unwrap(), number);
    }
    let newest = newest(folder.path());
    let mut bytes = fs::read(&newest).unwrap();
    bytes[20] = 0x55;
    fs::write(&newest, &bytes).unwrap();
    let name = newest.file_name().unwrap().to_string_lossy().into_owned();
    for _ in 0..2 {
        let error = Database::open_for_writing(folder.path())
            .err()
            .expect("damaged");
        assert_named(&error, &name, "for writing");
        let error = Database::open(folder.path()).err().expect("damaged");
        assert_named(&error, &name, "for reading");
        assert_eq!(fs::read(&newest).unwrap(), bytes, "nothing was changed");
    }
    let report = pythia::verify(folder.path(), VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(
        report.problems[0].to_string().contains(&name),
        "{:?}",
        report.problems
    );

    let found = salvage(folder.path(), false).unwrap();
    assert_eq!((found.next.0, found.last_known.0), (2, 2));
    assert_eq!(fs::read(&newest).unwrap(), bytes, "nothing was changed");
    let done = salvage(folder.path(), true).unwrap();
    assert_eq!(
        fs::read(folder.path().join(&done.set_aside[0].1)).unwrap(),
        bytes
    );
    let database = Database::open_for_writing(folder.path()).unwrap();
    assert_eq!(commits(&database), 1);
    insert(&database, 2);
    drop(database);
    assert!(salvage(folder.path(), false).unwrap().is_sound());
    assert_eq!(commits(&Database::open(folder.path()).unwrap()), 2);
    let report = pythia::verify(folder.path(), VerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.problems, []);
}

#[test]
fn an_old_manifest_does_not_hide_or_discard_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    pythia::load(path, Vec::new(), &Default::default(), &Arc::default()).unwrap();
    let old = fs::read(path.join("MANIFEST")).unwrap();
    insert(&Database::open_for_writing(path).unwrap(), 1);
    let new = fs::read(path.join("MANIFEST")).unwrap();
    fs::write(path.join("MANIFEST"), &old).unwrap();
    let newest = newest(path);
    let name = newest.file_name().unwrap().to_string_lossy().into_owned();
    let sound = fs::read(&newest).unwrap();
    let mut damaged = sound.clone();
    damaged[20] ^= 0x55;
    for bytes in [&sound, &damaged] {
        fs::write(&newest, bytes).unwrap();
        let refused = [
            Database::open_for_writing(path)
                .err()
                .map(|e| e.to_string()),
            Database::open(path).err().map(|e| e.to_string()),
            salvage(path, false).err().map(|e| e.to_string()),
            pythia::load(path, Vec::new(), &Default::default(), &Arc::default())
                .err()
                .map(|e| e.to_string()),
        ];
        for error in refused {
            let error = error.expect("refused");
            assert!(
                error.contains(&name) && error.contains("MANIFEST names no log"),
                "{error}"
            );
        }
        let backup = tempfile::tempdir().unwrap();
        assert!(pythia::backup(path, backup.path()).is_err());
        let report = pythia::verify(path, VerifyOptions::default(), &mut |_| {}).unwrap();
        assert!(
            report.problems[0].to_string().contains(&name),
            "{:?}",
            report.problems
        );
        assert_eq!(&fs::read(&newest).unwrap(), bytes, "nothing was changed");
    }
    fs::write(&newest, &sound).unwrap();
    fs::write(path.join("MANIFEST"), new).unwrap();
    assert_eq!(commits(&Database::open(path).unwrap()), 1);
}

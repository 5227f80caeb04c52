//! A log in several folders, with an archive that the store knows: who reads, backs up, restores and repairs the store
//! finds the same folders, and nobody makes one that is missing.

use std::fs;
use std::path::{Path, PathBuf};

use pythia::{
    Database, Feed, FolderChanges, Options, Position, QueryError, RestoreOptions, StoreError,
    Until, VerifyOptions, WriteOptions, backup, change_log_folders, log_folders, restore, salvage,
    verify,
};
use pythia_io::DirectStorage;
use pythia_log::LogOptions;
use pythia_store::manifest::{Manifest, Unnamed};
use tempfile::TempDir;

use crate::support::ours;

/// A store with commits whose log is in three folders and has an archive.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        pythia::load(
            &home.path("store"),
            Vec::new(),
            &Default::default(),
            &Default::default(),
        )
        .unwrap();
        let folders = [home.path("b"), home.path("c")];
        home.insert(&home.open(&folders, Some(home.path("archive"))), 0..30);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, log_folders: &[PathBuf], log_archive: Option<PathBuf>) -> Database {
        self.open_with(WriteOptions {
            log_folders: log_folders.to_vec(),
            log_archive,
            ..WriteOptions::default()
        })
    }

    fn open_with(&self, write: WriteOptions) -> Database {
        let options = Options {
            write: Some(WriteOptions {
                log: LogOptions {
                    file_bytes: 32 << 10,
                    retain_bytes: 0,
                    ..LogOptions::default()
                },
                ..write
            }),
            ..Options::default()
        };
        Database::open_with(self.path("store"), options).unwrap()
    }

    fn insert(&self, database: &Database, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let text = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
            database.update(&text).unwrap();
        }
        database.store().flush().unwrap();
    }

    /// Marks the spare folder as one, or as a log folder like the others.
    fn mark_spare(&self, is_spare: bool) {
        let storage = DirectStorage::open(&self.path("store"), false).unwrap();
        let mut manifest = Manifest::read(&storage).unwrap().unwrap();
        let folders = &mut manifest.log.as_mut().unwrap().devices;
        let spare = self.path("archive/spare");
        let folder = folders.iter_mut().find(|folder| folder.path() == spare);
        folder.unwrap().is_spare = is_spare;
        manifest.switch(&storage, Unnamed::new(&storage)).unwrap();
    }

    fn count(&self, store: &str) -> usize {
        let database = Database::open(self.path(store)).unwrap();
        ours(&database, "SELECT ?o { ?s ?p ?o }")
            .unwrap()
            .lines
            .len()
    }
}

fn is_of_folder(error: &StoreError, folder: &Path) -> bool {
    let path = folder.display().to_string();
    matches!(error, StoreError::LogFolder { path: named, .. } if *named == path)
        && error.to_string().contains(&path)
}

#[test]
fn all_who_open_a_store_name_the_folder_that_is_missing() {
    let home = Home::new();
    fs::rename(home.path("c"), home.path("away")).unwrap();
    let store = home.path("store");
    let of_query = |error| match error {
        QueryError::Store(error) => error,
        error => panic!("{error}"),
    };
    let errors = [
        Database::open(&store)
            .map(drop)
            .map_err(of_query)
            .unwrap_err(),
        Database::open_for_writing(&store)
            .map(drop)
            .map_err(of_query)
            .unwrap_err(),
        Feed::open(&store, None).map(drop).unwrap_err(),
        salvage(&store, true).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(is_of_folder(&error, &home.path("c")), "{error}");
    }
    let error = backup(&store, &home.path("backup"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&home.path("c").display().to_string()),
        "{error}"
    );
    let report = verify(&store, VerifyOptions::default(), &mut |_| {}).unwrap();
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let named = home.path("c").display().to_string();
    assert!(
        problems.iter().any(|problem| problem.contains(&named)),
        "{problems:?}"
    );
    let listed = log_folders(&store).unwrap();
    assert_eq!(listed.folders[0].problem, None);
    assert!(
        listed.folders[1]
            .problem
            .as_ref()
            .unwrap()
            .contains("--move")
    );
    assert!(!home.path("c").exists());
    // Where it is now.
    let moved = FolderChanges {
        moved: vec![(home.path("c"), home.path("away"))],
        ..FolderChanges::default()
    };
    change_log_folders(&store, &moved).unwrap();
    assert_eq!(home.count("store"), 30);
    assert!(salvage(&store, false).unwrap().is_sound());
}

#[test]
fn backups_and_the_archive_that_the_store_knows_restore_every_commit() {
    let home = Home::new();
    backup(&home.path("store"), &home.path("backup")).unwrap();
    // Like a command without folder options.
    for round in 1..6 {
        home.insert(&home.open(&[], None), round * 30..(round + 1) * 30);
    }
    assert_eq!(home.count("store"), 180);
    // Commits that have left the log are read from the archive.
    let feed = Feed::open(&home.path("store"), None).unwrap();
    assert_eq!(feed.commits_from(Position(1)).unwrap().count(), 180);
    let archive =
        std::sync::Arc::new(pythia::DirectStorage::open(&home.path("archive"), false).unwrap());
    let options = RestoreOptions {
        until: Until::Position(Position(100)),
        archive: Some(archive),
    };
    restore(&home.path("backup"), &home.path("restored"), &options).unwrap();
    assert_eq!(home.count("restored"), 100);
    // A restored store has a log of its own, in its own folder.
    let restored = Database::open_for_writing(home.path("restored")).unwrap();
    let manifest = restored.store().manifest();
    let log = manifest.log.as_ref().unwrap();
    assert_eq!(
        (manifest.format, &log.archive, log.devices.len()),
        (*pythia::STORE_FORMATS.end(), &None, 0)
    );
    restored
        .update("INSERT DATA { <http://e/s> <http://e/p> 999 }")
        .unwrap();
    drop(restored);
    assert_eq!((home.count("restored"), home.count("store")), (101, 180));
    // A later backup into the same folder has what is new.
    backup(&home.path("store"), &home.path("backup")).unwrap();
    restore(
        &home.path("backup"),
        &home.path("again"),
        &RestoreOptions::default(),
    )
    .unwrap();
    assert_eq!(home.count("again"), 180);
}

/// The device of a folder is lost: what to give up is said before it is given up, and the folder is named.
#[test]
fn a_folder_that_is_lost_is_replaced_in_two_steps() {
    let home = Home::new();
    let store = home.path("store");
    // The others would do without: commits on this one alone are lost.
    drop(home.open(&[], None));
    fs::remove_dir_all(home.path("b")).unwrap();
    fs::create_dir(home.path("b")).unwrap();
    let accept = FolderChanges {
        accept_empty: vec![home.path("b")],
        ..FolderChanges::default()
    };
    change_log_folders(&store, &accept).unwrap();
    let found = salvage(&store, false).unwrap();
    if !found.is_sound() {
        let error = Database::open(&store).map(drop).unwrap_err().to_string();
        let path = home.path("b/log/01-").display().to_string();
        assert!(error.contains(&path), "{error}");
        assert!(
            found
                .damages
                .iter()
                .all(|damage| damage.path.starts_with(&path))
        );
        salvage(&store, true).unwrap();
    }
    let left = home.count("store");
    home.insert(&home.open(&[], None), 1000..1010);
    assert_eq!(home.count("store"), left + 10);
    let report = verify(&store, VerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.problems, []);
}

/// Commits in the archive's spare folder are found by all who find those of the other log folders.
#[test]
fn an_archive_that_takes_commits_is_backed_up_and_restored() {
    let home = Home::new();
    let spare = WriteOptions {
        log_spare: true,
        ..WriteOptions::default()
    };
    drop(home.open_with(spare));
    // A program that does not know spare folders uses it like the others.
    home.mark_spare(false);
    let log = home.path("archive/spare/log");
    let has_commits = || {
        let mut names = fs::read_dir(&log).unwrap().map(|name| name.unwrap().path());
        names.any(|path| path.extension().is_some_and(|ending| ending == "log"))
    };
    let mut count = 30;
    while !has_commits() {
        assert!(count < 600, "the folder got no commits");
        let database = home.open(&[], None);
        for number in count..count + 30 {
            let text = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
            database.update(&text).unwrap();
        }
        count += 30;
    }
    home.mark_spare(true);
    assert_eq!(home.count("store"), count);
    let (store, backups) = (home.path("store"), home.path("backup"));
    backup(&store, &backups).unwrap();
    restore(&backups, &home.path("restored"), &RestoreOptions::default()).unwrap();
    assert_eq!(home.count("restored"), count);
    for round in 0..5 {
        let first = count + round * 30;
        home.insert(&home.open(&[], None), first..first + 30);
    }
    let archive = DirectStorage::open(&home.path("archive"), false).unwrap();
    let options = RestoreOptions {
        until: Until::Position(Position(count as u64 + 60)),
        archive: Some(std::sync::Arc::new(archive)),
    };
    restore(&backups, &home.path("later"), &options).unwrap();
    assert_eq!(home.count("later"), count + 60);
    let report = verify(&store, VerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.problems, []);
    assert!(salvage(&store, false).unwrap().is_sound());
    fs::rename(home.path("archive"), home.path("away")).unwrap();
    let error = match Database::open(&store).map(drop).unwrap_err() {
        QueryError::Store(error) => error,
        error => panic!("{error}"),
    };
    assert!(is_of_folder(&error, &home.path("archive/spare")), "{error}");
    assert!(error.to_string().contains("--move"), "{error}");
}

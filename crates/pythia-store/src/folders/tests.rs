use std::collections::BTreeSet;
use std::fs;

use pythia_log::{FolderFiles, IDENTITY_NAME, LogOptions};
use pythia_rdf::TermKind;
use tempfile::TempDir;

use super::*;
use crate::manifest::{Manifest, Unnamed};
use crate::salvage::salvage;
use crate::store::{OpenOptions, Store};
use crate::testing::{SMALL_PAGES, id, write_segment};
use crate::verify::{VerifyOptions, verify};
use crate::write::MaintenanceOptions;

/// A store whose log is in several folders and has an archive.
struct Home {
    folder: TempDir,
    write: WriteOptions,
    /// The last quad that was added.
    last: u64,
}

impl Home {
    /// Makes a store with commits, some of them in each folder.
    fn new(log_folders: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let storage = DirectStorage::open(&folder.path().join("store"), true).expect("a folder");
        write_segment(Arc::new(storage), &BTreeSet::new(), SMALL_PAGES).expect("written");
        let write = WriteOptions {
            log_folders: log_folders
                .iter()
                .map(|name| folder.path().join(name))
                .collect(),
            log: LogOptions {
                file_bytes: 32 << 10,
                retain_bytes: 0,
                ..LogOptions::default()
            },
            maintenance: MaintenanceOptions {
                in_background: false,
                ..MaintenanceOptions::default()
            },
            ..WriteOptions::default()
        };
        let mut home = Self {
            folder,
            write,
            last: 0,
        };
        home.add(20).expect("a new store");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open_for_writing(&self) -> Result<Store, StoreError> {
        Store::open_for_writing(&self.path("store"), OpenOptions::default(), &self.write)
    }

    /// Commits quads, one by one.
    fn add(&mut self, count: u64) -> Result<(), StoreError> {
        let store = self.open_for_writing()?;
        let iri = |rank| id(TermKind::Iri, rank);
        for _ in 0..count {
            self.last += 1;
            let mut transaction = store.begin()?;
            transaction.insert(&[[iri(self.last), iri(50), iri(8), 0]])?;
            transaction.commit()?;
        }
        Ok(())
    }

    /// Returns the refusal that readers, writers, backups and `verify` all give.
    fn refusal(&self) -> String {
        let before = self.files();
        let storage: Arc<dyn Storage> =
            Arc::new(DirectStorage::open(&self.path("store"), false).expect("a folder"));
        let writing = self
            .open_for_writing()
            .map(drop)
            .expect_err("refused")
            .to_string();
        let reading = Store::open(&self.path("store"), OpenOptions::default());
        let reading = reading.map(drop).expect_err("refused").to_string();
        assert_eq!(reading, writing);
        let salvaged = salvage(&self.path("store"), true).expect_err("refused");
        assert_eq!(salvaged.to_string(), writing);
        let report = verify(storage, VerifyOptions::default(), &mut |_| {});
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(
            problems.iter().any(|problem| problem.contains(&writing)),
            "{problems:?}"
        );
        assert_eq!(self.files(), before, "nothing is written: {writing}");
        writing
    }

    /// Names and lengths of all files except locks.
    fn files(&self) -> BTreeSet<(PathBuf, u64)> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("a name").path();
                if path.ends_with("LOCK") || path.ends_with("WRITER") {
                    continue;
                }
                let length = path.metadata().expect("a file").len();
                if path.is_dir() {
                    folders.push(path.clone());
                    found.insert((path, 0));
                } else {
                    found.insert((path, length));
                }
            }
        }
        found
    }

    fn check_whole(&self) {
        let store = Store::open(&self.path("store"), OpenOptions::default()).expect("whole");
        assert_eq!(store.snapshot().statistics().quads, self.last);
        drop(store);
        let storage = DirectStorage::open(&self.path("store"), false).expect("a folder");
        let report = verify(Arc::new(storage), VerifyOptions::default(), &mut |_| {});
        assert_eq!(report.problems, []);
    }

    fn manifest(&self) -> Manifest {
        let storage = DirectStorage::open(&self.path("store"), false).expect("a folder");
        Manifest::read(&storage).expect("sound").expect("there")
    }

    fn log(&self) -> LogEntry {
        self.manifest().log.expect("it was written to")
    }

    /// Turns its folders into those of a program of format 4: they have no identity.
    fn forget_identities(&self) {
        let mut manifest = self.manifest();
        let log = manifest.log.as_mut().expect("it was written to");
        log.archive = None;
        for folder in &mut log.devices {
            folder.id = None;
            fs::remove_file(folder.path().join(IDENTITY_NAME)).expect("it had one");
        }
        let storage = DirectStorage::open(&self.path("store"), false).expect("a folder");
        manifest
            .switch(&storage, Unnamed::new(&storage))
            .expect("written");
    }

    fn change(&self, changes: FolderChanges) -> Result<FolderReport, StoreError> {
        change_log_folders(&self.path("store"), &changes)
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("a name").path();
        let to = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_folder(&path, &to),
            false => drop(fs::copy(&path, to).expect("copied")),
        }
    }
}

#[test]
fn a_missing_or_emptied_folder_is_refused_by_name_and_never_made() {
    let mut home = Home::new(&["b", "c"]);
    for (name, number) in [("b", 1), ("c", 2)] {
        let away = home.path("away");
        fs::rename(home.path(name), &away).expect("moved");
        let path = home.path(name).display().to_string();
        let missing = home.refusal();
        assert!(
            missing.starts_with(&format!("{path} (folder {number} of the log): ")),
            "{missing}"
        );
        assert!(missing.contains("no such folder"), "{missing}");
        assert!(missing.contains(&format!("--move {path} NEW")), "{missing}");
        assert!(!home.path(name).exists());
        fs::create_dir(home.path(name)).expect("a mount point");
        let empty = home.refusal();
        assert!(
            empty.starts_with(&path) && empty.contains("empty"),
            "{empty}"
        );
        assert!(empty.contains(&format!("--accept-empty {path}")), "{empty}");
        fs::create_dir(home.path(name).join("log")).expect("emptied");
        assert_eq!(home.refusal(), empty);
        fs::remove_dir_all(home.path(name)).expect("there");
        fs::rename(&away, home.path(name)).expect("moved");
        home.check_whole();
    }
    home.add(1).expect("all are back");
    home.check_whole();
}

#[test]
fn a_folder_of_another_store_or_of_another_place_is_refused_by_name() {
    let (home, other) = (Home::new(&["b", "c"]), Home::new(&["b"]));
    let (mine, theirs) = (home.path("b"), other.path("b"));
    let away = home.path("away");
    fs::rename(&mine, &away).expect("moved");
    copy_folder(&theirs, &mine);
    let foreign = home.refusal();
    let theirs = other.log().store.to_string();
    assert!(
        foreign.contains(&mine.display().to_string()) && foreign.contains(&theirs),
        "{foreign}"
    );
    // Nor without its identity: its log files name their store.
    fs::remove_file(mine.join(IDENTITY_NAME)).expect("there");
    let nameless = home.refusal();
    assert!(nameless.contains(&mine.display().to_string()), "{nameless}");
    fs::remove_dir_all(&mine).expect("there");
    fs::rename(&away, &mine).expect("moved");
    home.check_whole();
    // Two folders of one log, swapped.
    fs::rename(home.path("b"), &away).expect("moved");
    fs::rename(home.path("c"), home.path("b")).expect("moved");
    fs::rename(&away, home.path("c")).expect("moved");
    let exchanged = home.refusal();
    assert!(
        exchanged.contains("it is folder 2 of the log"),
        "{exchanged}"
    );
    let to = |from: &str, to: &str| (home.path(from), home.path(to));
    let exchange = FolderChanges {
        moved: vec![to("b", "c"), to("c", "b")],
        ..FolderChanges::default()
    };
    home.change(exchange)
        .expect("each is where it is said to be");
    home.check_whole();
}

#[test]
fn a_damaged_or_lost_identity_is_named_and_renewed_if_the_files_are_the_stores() {
    let mut home = Home::new(&["b"]);
    let identity = home.path("b").join(IDENTITY_NAME);
    let sound = fs::read(&identity).expect("there");
    for damage in [Some(sound[..sound.len() / 2].to_vec()), None] {
        match damage {
            Some(bytes) => fs::write(&identity, bytes).expect("written"),
            None => fs::remove_file(&identity).expect("there"),
        }
        let has_files = home.path("b").join("log").read_dir().expect("there");
        if has_files
            .filter(|name| name.as_ref().expect("a name").path() != identity)
            .count()
            == 0
        {
            continue;
        }
        let refused = home.refusal();
        let path = home.path("b").display().to_string();
        assert!(
            refused.starts_with(&path) && refused.contains("log/FOLDER"),
            "{refused}"
        );
        assert!(refused.contains(&format!("--renew {path}")), "{refused}");
        let renew = FolderChanges {
            renew: vec![home.path("b")],
            ..FolderChanges::default()
        };
        home.change(renew).expect("its log files are the store's");
        assert_eq!(fs::read(&identity).expect("there"), sound);
        home.add(1).expect("sound again");
        home.check_whole();
    }
}

#[test]
fn folders_without_identities_get_them_at_the_first_opening_for_writing() {
    let mut home = Home::new(&["b"]);
    home.add(20).expect("so that both folders have files");
    home.forget_identities();
    let identity = home.path("b").join(IDENTITY_NAME);
    home.check_whole();
    assert!(!identity.exists(), "readers write nothing");
    drop(home.open_for_writing().expect("its files are the store's"));
    let log = home.log();
    let found = FolderIdentity::read(&DirectStorage::open(&home.path("b"), false).expect("there"));
    let found = found.expect("sound").expect("it has one now");
    assert_eq!(
        (found.store, Some(found.id)),
        (log.store, log.devices[0].id)
    );
    home.add(1).expect("as before");
    home.check_whole();
}

/// A log of format 1 has no record of the files that were begun in a folder, so any folder could pass for it.
#[test]
fn a_folder_whose_files_say_nothing_is_refused_without_the_record_of_the_log() {
    let mut home = Home::new(&["b"]);
    home.add(20).expect("so that both folders have files");
    home.forget_identities();
    fs::rename(home.path("store/LOG"), home.path("LOG")).expect("there");
    fs::rename(home.path("b"), home.path("away")).expect("moved");
    fs::create_dir_all(home.path("b/log")).expect("made");
    fs::write(home.path("b/log/notes.txt"), "not a log").expect("written");
    let refused = home.refusal();
    let path = home.path("b").display().to_string();
    assert!(refused.starts_with(&path), "{refused}");
    assert!(refused.contains(&format!("--renew {path}")), "{refused}");
    assert!(!home.path("b").join(IDENTITY_NAME).exists());
    fs::rename(home.path("b"), home.path("other")).expect("moved");
    fs::rename(home.path("away"), home.path("b")).expect("moved");
    fs::rename(home.path("LOG"), home.path("store/LOG")).expect("moved");
    home.add(1).expect("its files are the store's");
    home.check_whole();
}

#[test]
fn a_folder_whose_files_say_nothing_is_accepted_by_the_option() {
    let home = Home::new(&["b"]);
    home.forget_identities();
    fs::remove_file(home.path("store/LOG")).expect("there");
    fs::rename(home.path("b"), home.path("away")).expect("moved");
    fs::create_dir_all(home.path("b/log")).expect("made");
    fs::write(home.path("b/log/notes.txt"), "not a log").expect("written");
    let renew = FolderChanges {
        renew: vec![home.path("b")],
        ..FolderChanges::default()
    };
    let report = home.change(renew).expect("somebody says so");
    assert_eq!(report.folders[0].problem, None);
    assert!(home.path("b").join(IDENTITY_NAME).exists());
}

#[test]
fn an_empty_folder_without_an_identity_is_accepted_by_the_option_alone() {
    let mut home = Home::new(&["b"]);
    home.forget_identities();
    fs::rename(home.path("b"), home.path("away")).expect("moved");
    fs::create_dir(home.path("b")).expect("a mount point");
    let refused = home.refusal();
    assert!(refused.contains("--accept-empty"), "{refused}");
    let accept = || FolderChanges {
        accept_empty: vec![home.path("b")],
        ..FolderChanges::default()
    };
    let report = home.change(accept()).expect("it is empty");
    assert_eq!(
        (report.folders.len(), report.folders[0].problem.clone()),
        (1, None)
    );
    // Its lost contents are still reported; if it held nothing, nothing is lost.
    if let Err(error) = home.open_for_writing().map(drop) {
        let path = home.path("b/log/01-").display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
        let lost = salvage(&home.path("store"), true).expect("it can go on");
        assert!(
            lost.damages
                .iter()
                .any(|damage| damage.path.contains(&path)),
            "{lost:?}"
        );
    }
    home.add(1).expect("the folder is the log's");
    // The old folder is no longer accepted in its place.
    let away = home.path("away");
    fs::rename(home.path("b"), home.path("new")).expect("moved");
    fs::rename(away, home.path("b")).expect("moved");
    home.refusal();
    let accept = FolderChanges {
        accept_empty: vec![home.path("b")],
        ..FolderChanges::default()
    };
    let has_files = FolderFiles::of(
        &DirectStorage::open(&home.path("b"), false).expect("there"),
        home.log().store,
    );
    if has_files.expect("readable") != FolderFiles::None {
        let refused = home
            .change(accept)
            .expect_err("it is not empty")
            .to_string();
        assert!(refused.contains("not empty"), "{refused}");
    }
}

#[test]
fn a_folder_that_was_moved_is_found_by_its_identity() {
    let mut home = Home::new(&["b"]);
    fs::rename(home.path("b"), home.path("elsewhere")).expect("moved");
    let moved = |to: &str| FolderChanges {
        moved: vec![(home.path("b"), home.path(to))],
        ..FolderChanges::default()
    };
    fs::create_dir(home.path("empty")).expect("made");
    for wrong in ["missing", "empty", "store"] {
        let refused = home
            .change(moved(wrong))
            .expect_err("not the folder")
            .to_string();
        assert!(
            refused.contains(&home.path(wrong).display().to_string()),
            "{refused}"
        );
        assert_eq!(home.log().devices[0].path(), home.path("b"));
    }
    let report = home
        .change(moved("elsewhere"))
        .expect("it has the identity");
    assert_eq!(
        report.folders[0].path,
        home.path("elsewhere").display().to_string()
    );
    home.check_whole();
    // The configuration does not name it yet.
    let refused = home
        .open_for_writing()
        .map(drop)
        .expect_err("it says otherwise")
        .to_string();
    assert!(refused.contains("`log_folders`"), "{refused}");
    home.write.log_folders.clear();
    home.add(3).expect("the store knows its folders");
    home.check_whole();
}

#[test]
fn a_configuration_adds_folders_and_leaves_out_none() {
    let mut home = Home::new(&[]);
    for added in ["b", "c"] {
        home.write.log_folders.push(home.path(added));
        home.add(40).expect("a new folder");
        assert!(home.path(added).join(IDENTITY_NAME).exists());
        home.check_whole();
    }
    let log = home.log();
    assert_eq!(log.devices.len(), 2);
    home.write.log_folders.remove(0);
    let refused = home
        .open_for_writing()
        .map(drop)
        .expect_err("b is left out")
        .to_string();
    assert!(
        refused.starts_with(&home.path("b").display().to_string()),
        "{refused}"
    );
    assert!(refused.contains("`log_folders`"), "{refused}");
    // In any order, and by other paths to the same folder.
    home.write.log_folders = vec![home.path("c"), home.path("b").join("../b")];
    home.add(1).expect("all are named");
    assert_eq!(home.log(), log);
    home.write.log_folders.clear();
    home.add(1).expect("the store knows them");
    home.check_whole();
}

#[test]
fn a_new_folder_must_be_nobody_elses() {
    let other = Home::new(&["b"]);
    let mut home = Home::new(&["b"]);
    home.write.log_folders = vec![home.path("b"), other.path("b")];
    let refused = home.refusal_of_writer();
    assert!(
        refused.contains(&other.path("b").display().to_string()),
        "{refused}"
    );
    assert!(
        refused.contains(&other.log().store.to_string()),
        "{refused}"
    );
    let copy = home.path("copy");
    copy_folder(&home.path("b"), &copy);
    home.write.log_folders = vec![home.path("b"), copy];
    let refused = home.refusal_of_writer();
    assert!(
        refused.contains("folder 1 of the log of this store"),
        "{refused}"
    );
    // The store's own folder does not count as another.
    home.write.log_folders = vec![home.path("b"), home.path("store")];
    home.refusal_of_writer();
    home.write.log_folders = vec![home.path("b"), home.path("d")];
    home.write.log_archive = Some(home.path("d"));
    home.refusal_of_writer();
}

impl Home {
    fn refusal_of_writer(&self) -> String {
        self.open_for_writing()
            .map(drop)
            .expect_err("refused")
            .to_string()
    }
}

#[test]
fn the_store_keeps_its_archive_and_every_writer_uses_it() {
    let mut home = Home::new(&["b"]);
    home.write.log_archive = Some(home.path("archive"));
    home.add(1).expect("a new archive");
    home.write.log_archive = None;
    // Without options, as in `pythia load` and `pythia update`.
    for _ in 0..4 {
        home.add(30).expect("a device");
        home.open_for_writing()
            .and_then(|store| store.flush())
            .expect("a device");
    }
    let archived = fs::read_dir(home.path("archive/log"))
        .expect("there")
        .count();
    assert!(archived > 2, "{archived}");
    home.check_whole();
    let log = home.log();
    // A configuration does not change the archive.
    home.write.log_archive = Some(home.path("other"));
    let refused = home.refusal_of_writer();
    assert!(
        refused.contains("`log_archive`") && refused.contains("--archive"),
        "{refused}"
    );
    assert!(!home.path("other").exists());
    home.write.log_archive = None;
    // Without it writers would leave gaps; readers do not need it.
    fs::rename(home.path("archive"), home.path("away")).expect("moved");
    let missing = home.refusal_of_writer();
    let path = home.path("archive").display().to_string();
    assert!(
        missing.starts_with(&format!("{path} (the archive of the log): ")),
        "{missing}"
    );
    Store::open(&home.path("store"), OpenOptions::default()).expect("readers do without");
    assert!(!home.path("archive").exists());
    let moved = FolderChanges {
        moved: vec![(home.path("archive"), home.path("away"))],
        ..FolderChanges::default()
    };
    home.change(moved).expect("it has the identity");
    home.add(1).expect("it is there");
    let archive = |path: Option<&str>| FolderChanges {
        archive: Some(path.map(|path| home.path(path))),
        ..FolderChanges::default()
    };
    home.change(archive(Some("other"))).expect("a new one");
    assert_ne!(home.log().archive, log.archive);
    home.change(archive(Some("b")))
        .map(drop)
        .expect_err("a folder of the log");
    home.change(archive(None)).expect("none");
    assert_eq!(home.log().archive, None);
}

/// An attempt that ends before the manifest names the log leaves folders with the identity of a store that never
/// existed.
#[test]
fn an_interrupted_first_opening_is_done_again() {
    let home = Home::new(&["b"]);
    let mut manifest = home.manifest();
    manifest.log = None;
    manifest.format = manifest.format_needed();
    let storage = DirectStorage::open(&home.path("store"), false).expect("a folder");
    let left = pythia_log::left_store(&storage).expect("readable");
    assert!(left.is_some());
    // The state before: a log as just created, without commits, which would not be removed.
    fs::remove_dir_all(home.path("store/log")).expect("there");
    fs::remove_file(home.path("store/LOG")).expect("there");
    for entry in fs::read_dir(home.path("b/log")).expect("there") {
        let path = entry.expect("a name").path();
        if !path.ends_with("FOLDER") {
            fs::remove_file(path).expect("there");
        }
    }
    let folders = ["store", "b"].map(|name| {
        let folder = DirectStorage::open(&home.path(name), false).expect("a folder");
        Arc::new(folder) as Arc<dyn Storage>
    });
    let log = pythia_log::Log::create(
        folders.to_vec(),
        left.expect("named"),
        LogOptions::default(),
    );
    log.expect("created").close().expect("closed");
    manifest
        .switch(&storage, Unnamed::new(&storage))
        .expect("written");
    let mut home = Home { last: 0, ..home };
    home.add(5).expect("the folder is its own");
    home.check_whole();
    assert_eq!(Some(home.log().store), left);
}

/// A store whose archive takes commits, with commits in each folder.
fn with_spare() -> Home {
    let mut home = Home::new(&["b"]);
    home.write.log_archive = Some(home.path("archive"));
    home.write.log_spare = true;
    home.add(1).expect("a folder is made in the archive");
    // A program that does not know spare folders uses it like the others.
    home.set_spare(false);
    home.write.log_folders.clear();
    home.write.log_archive = None;
    home.write.log_spare = false;
    let spare = DirectStorage::open(&home.path("archive/spare"), false).expect("it was made");
    let own = FolderFiles::Own {
        devices: BTreeSet::from([2]),
    };
    // The thread of a device may take no group if few are committed.
    for _ in 0..20 {
        home.add(20).expect("it is a log folder");
        if FolderFiles::of(&spare, home.log().store).expect("readable") == own {
            home.set_spare(true);
            return home;
        }
    }
    panic!("the folder got no commit");
}

impl Home {
    fn set_spare(&self, is_spare: bool) {
        let mut manifest = self.manifest();
        manifest.log.as_mut().expect("it was written to").devices[1].is_spare = is_spare;
        let storage = DirectStorage::open(&self.path("store"), false).expect("a folder");
        manifest
            .switch(&storage, Unnamed::new(&storage))
            .expect("written");
    }
}

#[test]
fn the_archive_takes_commits_once_that_is_configured() {
    let mut home = with_spare();
    home.check_whole();
    let folders: Vec<_> = home.log().devices;
    let spares = folders.iter().map(|folder| folder.is_spare);
    assert_eq!(spares.collect::<Vec<_>>(), [false, true]);
    assert_eq!(folders[1].path(), home.path("archive/spare"));
    // The store remembers it, and a configuration that names folders need not name it.
    home.add(5).expect("without options");
    home.write.log_folders = vec![home.path("b")];
    home.add(5).expect("with the folder that is configured");
    home.write.log_spare = true;
    home.write.log_archive = Some(home.path("archive"));
    home.add(5).expect("with all options");
    assert_eq!(home.log().devices, folders);
    home.write.log_folders.push(home.path("c"));
    home.add(5).expect("with one more folder");
    let spares = home.log().devices.into_iter().map(|folder| folder.is_spare);
    assert_eq!(spares.collect::<Vec<_>>(), [false, true, false]);
    home.check_whole();
    assert!(
        salvage(&home.path("store"), false)
            .expect("readable")
            .is_sound()
    );
}

#[test]
fn an_archive_that_takes_commits_is_needed_to_open_the_store() {
    let mut home = with_spare();
    let (archive, away) = (home.path("archive"), home.path("away"));
    fs::rename(&archive, &away).expect("moved");
    let spare = home.path("archive/spare").display().to_string();
    let missing = home.refusal();
    assert!(
        missing.starts_with(&format!("{spare} (folder 2 of the log): ")),
        "{missing}"
    );
    assert!(missing.contains("no such folder"), "{missing}");
    assert!(
        missing.contains(&format!("--move {spare} NEW")),
        "{missing}"
    );
    // The mount point of its device.
    fs::create_dir_all(home.path("archive/spare")).expect("made");
    let empty = home.refusal();
    assert!(
        empty.contains(&format!("--accept-empty {spare}")),
        "{empty}"
    );
    fs::remove_dir_all(&archive).expect("made before");
    // The folder within the archive moves with it.
    let moved = FolderChanges {
        moved: vec![(archive, away.clone())],
        ..FolderChanges::default()
    };
    let report = home.change(moved).expect("it is the same folder");
    let paths: Vec<_> = report
        .folders
        .iter()
        .map(|folder| folder.path.clone())
        .collect();
    assert_eq!(paths[1], away.join("spare").display().to_string());
    home.add(5).expect("all are there");
    home.check_whole();
    // Lost: the loss is named, and salvage says what it costs.
    fs::remove_dir_all(&away).expect("there");
    fs::create_dir_all(away.join("spare")).expect("made");
    let accept = FolderChanges {
        accept_empty: vec![away.clone(), away.join("spare")],
        ..FolderChanges::default()
    };
    home.change(accept).expect("it is empty");
    let found = salvage(&home.path("store"), false).expect("readable");
    assert!(!found.is_sound() && found.next.0 <= home.last, "{found:?}");
    let error = Store::open(&home.path("store"), OpenOptions::default());
    let error = error.map(drop).expect_err("commits are lost").to_string();
    assert!(error.contains("spare/log/02-"), "{error}");
}

#[test]
fn an_archive_cannot_take_commits_if_there_is_none() {
    let mut home = Home::new(&["b"]);
    home.write.log_spare = true;
    let before = home.files();
    let error = home.add(1).expect_err("there is no archive").to_string();
    assert!(
        error.contains("log_archive") && error.contains("--archive"),
        "{error}"
    );
    assert_eq!(home.files(), before);
    home.check_whole();
}

#[test]
fn devices_that_are_not_folders_hold_the_log_and_are_missed() {
    let memory: Vec<Arc<dyn Storage>> = (0..3)
        .map(|_| Arc::new(pythia_io::MemoryStorage::new()) as _)
        .collect();
    write_segment(Arc::clone(&memory[0]), &BTreeSet::new(), SMALL_PAGES).expect("written");
    let mut write = WriteOptions {
        log_storages: memory[1..].to_vec(),
        maintenance: MaintenanceOptions {
            in_background: false,
            ..MaintenanceOptions::default()
        },
        ..WriteOptions::default()
    };
    let open = |write: &WriteOptions| {
        let own = Arc::clone(&memory[0]);
        Store::open_storage_for_writing(own, OpenOptions::default(), write)
    };
    let iri = |rank| id(TermKind::Iri, rank);
    for round in 0..2 {
        let store = open(&write).expect("with the same devices");
        for number in 0..50 {
            let mut transaction = store.begin().expect("open");
            let quad = [iri(round * 50 + number), iri(500), iri(8), 0];
            transaction.insert(&[quad]).expect("inserted");
            transaction.commit().expect("committed");
        }
        let quads = store.snapshot().statistics().quads;
        assert_eq!(quads, (round + 1) * 50);
    }
    let used = |storage: &Arc<dyn Storage>| storage.exists("log").expect("memory");
    if memory[1..].iter().any(used) {
        write.log_storages.clear();
        let error = open(&write).map(drop).expect_err("they are missed");
        assert!(error.to_string().contains("log/0"), "{error}");
    }
    let mut home = Home::new(&["b"]);
    home.write.log_storages = memory[1..].to_vec();
    let error = home.add(1).expect_err("it has folders").to_string();
    assert!(error.contains("log_storages"), "{error}");
}

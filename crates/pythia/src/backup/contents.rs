//! `BACKUP`: the file that describes a backup. It is written last, by a rename; without it a folder contains
//! no backup.

use pythia_io::{FileVersion, Storage};
use pythia_log::Position;
use pythia_store::manifest::Manifest;
use serde::{Deserialize, Serialize};

use super::BackupError;

/// The file's name.
pub(super) const NAME: &str = "BACKUP";
const NEW_NAME: &str = "BACKUP.new";
const FIRST_LINE: &str = "Pythia backup";
const VERSION: u32 = 1;

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contents {
    /// The backup format.
    pub(super) version: u32,
    /// Number of backups made into the folder.
    pub(super) number: u64,
    /// Time of the backup, in microseconds since 1970.
    pub(super) taken: u64,
    /// The state of the store.
    pub(super) manifest: Manifest,
    /// The files that the manifest names.
    pub(super) files: Vec<FileEntry>,
    /// The commits that were only in the log.
    pub(super) commits: Option<CommitsEntry>,
}

/// A file of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// Its name in the store.
    pub(super) name: String,
    /// Its name in the backup.
    pub(super) copy: String,
    pub(super) bytes: u64,
    pub(super) crc32c: u32,
    /// Identifies the file; a file of the same version need not be copied again.
    pub(super) version: Option<FileVersion>,
}

/// A log with commits of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommitsEntry {
    /// The backup's folder of the log.
    pub(super) folder: String,
    /// The position after the last commit.
    pub(super) end: Position,
    /// The time of the commit before the first, if known.
    pub(super) before: Option<u64>,
}

impl Contents {
    pub(super) fn new(number: u64, taken: u64, manifest: Manifest) -> Self {
        Self {
            version: VERSION,
            number,
            taken,
            manifest,
            files: Vec::new(),
            commits: None,
        }
    }

    /// Reads the contents of the backup in a folder; `None` if there is no backup.
    pub(super) fn read(folder: &dyn Storage) -> Result<Option<Self>, BackupError> {
        let bytes = match folder.read_all(NAME) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = |message: &str| BackupError::Damaged {
            file: NAME.to_owned(),
            message: message.to_owned(),
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged("it is not text"))?;
        let lines: Vec<&str> = text.split('\n').collect();
        let &[FIRST_LINE, json, checksum, ""] = &*lines else {
            return Err(damaged("it does not have the three lines of a backup"));
        };
        if checksum != checksum_of(json) {
            return Err(damaged("its checksum does not match"));
        }
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let parsed: Result<Version, _> = serde_json::from_str(json);
        match parsed {
            Ok(Version { version }) if version > VERSION => {
                return Err(BackupError::Version { found: version });
            }
            _ => {}
        }
        let contents = serde_json::from_str(json);
        contents
            .map(Some)
            .map_err(|error| damaged(&error.to_string()))
    }

    /// Atomically replaces the contents of the folder's backup.
    pub(super) fn switch(&self, folder: &dyn Storage) -> Result<(), BackupError> {
        let json = serde_json::to_string(self).expect("numbers and names are JSON");
        let checksum = checksum_of(&json);
        let mut file = folder.create(NEW_NAME)?;
        file.append(format!("{FIRST_LINE}\n{json}\n{checksum}\n").as_bytes())?;
        file.sync()?;
        folder.rename(NEW_NAME, NAME)?;
        Ok(())
    }

    /// Returns the names of all files of the store, with their lengths.
    pub(super) fn names(manifest: &Manifest) -> Vec<(String, u64)> {
        let mut names = Vec::new();
        let mut add = |folder: String, files: &[pythia_store::manifest::ManifestFile]| {
            let named = files
                .iter()
                .map(|file| (format!("{folder}/{}", file.name), file.bytes));
            names.extend(named);
        };
        add(manifest.segment.folder(), &manifest.files);
        if let Some(dictionary) = &manifest.dictionary {
            add(dictionary.id.folder(), &dictionary.files);
        }
        for auxiliary in &manifest.auxiliary {
            add(auxiliary.id.folder(), &auxiliary.files);
        }
        for run in &manifest.runs {
            let folder = run.id.folder();
            add(folder.clone(), &run.files);
            add(format!("{folder}/added"), &run.added.files);
            add(format!("{folder}/removed"), &run.removed.files);
        }
        names
    }
}

fn checksum_of(json: &str) -> String {
    format!("{:08x}", crc32c::crc32c(json.as_bytes()))
}

//! `MANIFEST`: the file that names the files of the store's current state.
//!
//! It has three lines: a signature, the contents as JSON, and their checksum. It is written beside the old manifest
//! and replaces it by one rename, so that a store is always in its old or its new state. Files that the manifest does
//! not name are leftovers of an interrupted operation.
//!
//! A rename that reports an error may have been done, and a crash may still undo it. From the moment of the rename,
//! therefore, nothing that the old or the new manifest names is removed until a later manifest is certainly in place.
//! [`Manifest::switch`] takes over the removal of new files ([`Unnamed`]), and [`Manifest::remove_leftovers`] makes
//! the visible state durable before it removes anything.

use pythia_io::Storage;
use serde::{Deserialize, Serialize};

use crate::StoreError;

mod auxiliary;
mod dictionary;
mod log;
mod run;
mod segment;

pub use auxiliary::{AuxiliaryEntry, AuxiliaryId, AuxiliaryKind};
pub use dictionary::{DictionaryEntry, DictionaryId};
pub use log::{LogEntry, LogFolder};
pub(crate) use run::{ADDED, REMOVED};
pub use run::{RunEntry, RunId, TermSpan};
pub use segment::{ManifestFile, SegmentEntry, SegmentId};

/// The format of stores by earlier programs, whose segment has its dictionary among its files, without a log and without
/// auxiliary files.
pub const FORMAT_VERSION: u32 = 2;
/// The format of stores that this program has written: dictionaries have filter pages.
pub const FORMAT_WRITTEN: u32 = 8;
/// The formats that this program reads. Format 1 had no characteristic sets; 3 was that of stores with auxiliary files,
/// 4 of those with a log, 5 of those with log folders outside the store or an archive; since 6 the dictionary has a folder
/// of its own, so that a compaction can keep it, and segments have the order GPSO; since 7 directories are on pages of their files.
pub const FORMATS_READ: std::ops::RangeInclusive<u32> = 1..=FORMAT_WRITTEN;
/// The manifest's name in the store.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// A file that exists while a segment is being written. Without a manifest beside it, it shows that the files are
/// leftovers of an interrupted load; other files in the folder must not be removed. Beside a manifest it has no
/// meaning.
pub(crate) const LOADING_NAME: &str = "LOADING";
const NEW_MANIFEST_NAME: &str = "MANIFEST.new";
const FIRST_LINE: &str = "Pythia RDF store";

/// Folders and files that no manifest names yet. Dropping this removes them: the operation has failed.
#[derive(Debug)]
pub struct Unnamed<'s> {
    storage: &'s dyn Storage,
    names: Vec<String>,
}

impl<'s> Unnamed<'s> {
    /// Returns an empty list.
    pub fn new(storage: &'s dyn Storage) -> Self {
        Self {
            storage,
            names: Vec::new(),
        }
    }

    /// Adds a folder or a file.
    pub fn push(&mut self, name: String) {
        self.names.push(name);
    }

    /// Removes the entry added last.
    pub fn remove_last(&mut self) {
        if let Some(name) = self.names.pop() {
            // Best effort: the next writer removes what remains.
            let _ = self.storage.remove(&name);
        }
    }

    /// Keeps all files: from now on a manifest may name them.
    pub fn keep(mut self) {
        self.names.clear();
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        while !self.names.is_empty() {
            self.remove_last();
        }
    }
}

/// A new manifest beside the old one: what is left is a rename, which needs no space on the device. Dropping this removes
/// the new manifest.
#[derive(Debug)]
pub(crate) struct PreparedManifest<'s> {
    written: Unnamed<'s>,
}

impl PreparedManifest<'_> {
    /// Makes this the state of the store, as [`Manifest::switch`] does.
    pub(crate) fn switch(self, unnamed: Unnamed<'_>) -> Result<(), StoreError> {
        let storage = self.written.storage;
        self.keep();
        unnamed.keep();
        let renamed = storage.rename(NEW_MANIFEST_NAME, MANIFEST_NAME);
        renamed.map_err(|cause| StoreError::Switching { cause })
    }

    /// Leaves the new manifest where it is: it may be that of another store.
    pub(crate) fn keep(self) {
        self.written.keep();
    }
}

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format version of everything the manifest names.
    pub format: u32,
    /// The base segment.
    pub segment: SegmentId,
    /// Its quads.
    pub quads: u64,
    /// Its files.
    pub files: Vec<ManifestFile>,
    /// The dictionary; makes the format [`FORMAT_WRITTEN`]. `None`: it is among the files of the segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dictionary: Option<DictionaryEntry>,
    /// Auxiliary files of the segment; make the format [`FORMAT_WRITTEN`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auxiliary: Vec<AuxiliaryEntry>,
    /// Runs of changes on top of the segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunEntry>,
    /// The log; makes the format [`FORMAT_WRITTEN`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogEntry>,
}

impl Manifest {
    /// Returns the number of the base that a compaction of this state makes.
    pub(crate) fn next_segment(&self) -> SegmentId {
        SegmentId(self.segment.0 + 1)
    }

    /// Returns the number of the dictionary that a full compaction of this state makes.
    pub(crate) fn next_dictionary(&self) -> DictionaryId {
        DictionaryId(self.segment.0 + 1)
    }

    /// Returns whether the base's quads use exactly the terms of its dictionary: no compaction has kept the dictionary
    /// since it was written.
    pub(crate) fn base_uses_all_terms(&self) -> bool {
        let dictionary = self.dictionary.as_ref();
        dictionary.is_none_or(|dictionary| dictionary.id.0 == self.segment.0)
    }

    /// Returns the bytes of the base: of its dictionary and its orders.
    pub fn base_bytes(&self) -> u64 {
        let orders: u64 = self.files.iter().map(|file| file.bytes).sum();
        orders + self.dictionary.as_ref().map_or(0, DictionaryEntry::bytes)
    }

    /// Returns the folders of all entries.
    pub(crate) fn folders(&self) -> impl Iterator<Item = String> {
        let runs = self.runs.iter().map(|run| run.id.folder());
        let auxiliary = self.auxiliary.iter().map(|entry| entry.id.folder());
        let dictionary = self.dictionary.iter().map(|entry| entry.id.folder());
        std::iter::once(self.segment.folder())
            .chain(dictionary)
            .chain(runs)
            .chain(auxiliary)
    }

    /// Returns the format that tells older programs whether they can read the store.
    pub fn format_needed(&self) -> u32 {
        match self.dictionary.is_some() || self.log.is_some() || !self.auxiliary.is_empty() {
            true => FORMAT_WRITTEN,
            false => FORMAT_VERSION,
        }
    }

    /// Reads the manifest of a store; `None` if there is none.
    pub fn read(storage: &dyn Storage) -> Result<Option<Self>, StoreError> {
        match storage.read_all(MANIFEST_NAME) {
            Ok(bytes) => Self::from_bytes(&bytes).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes this the state of the store, atomically; `unnamed` lists the files written for it.
    ///
    /// # Errors
    /// [`StoreError::Switching`] if this may already be the state of the store: the new files stay. After any other
    /// error the store is unchanged and the new files are removed.
    pub fn switch(&self, storage: &dyn Storage, unnamed: Unnamed<'_>) -> Result<(), StoreError> {
        self.prepare(storage)?.switch(unnamed)
    }

    /// Writes the new manifest beside the old one, durably.
    ///
    /// # Errors
    /// The store is unchanged, and the new manifest removed.
    pub(crate) fn prepare<'s>(
        &self,
        storage: &'s dyn Storage,
    ) -> Result<PreparedManifest<'s>, StoreError> {
        let mut written = Unnamed::new(storage);
        written.push(NEW_MANIFEST_NAME.to_owned());
        let mut file = storage.create(NEW_MANIFEST_NAME)?;
        file.append(&self.to_bytes())?;
        file.sync()?;
        Ok(PreparedManifest { written })
    }

    /// Removes leftovers of interrupted writes: segments and auxiliary files that this manifest does not name
    /// (`None`: no manifest, so no segment) and an unfinished manifest. `current` is the manifest just read from the
    /// storage, or just put there.
    pub fn remove_leftovers(
        current: Option<&Self>,
        storage: &dyn Storage,
    ) -> Result<(), StoreError> {
        Self::remove_leftovers_but(current, None, storage)
    }

    /// As [`Self::remove_leftovers`], but keeps the files needed to continue the compaction of the state `compacted`.
    pub(crate) fn remove_leftovers_but(
        current: Option<&Self>,
        compacted: Option<&Self>,
        storage: &dyn Storage,
    ) -> Result<(), StoreError> {
        // The previous manifest may name files that are removed now: it must not come back.
        storage.sync_names()?;
        let mut named: Vec<String> = current.iter().flat_map(|state| state.folders()).collect();
        if let Some(compacted) = compacted {
            named.extend(compacted.folders());
            named.push(compacted.next_segment().folder());
            named.push(compacted.next_dictionary().folder());
        }
        for name in storage.list("")? {
            let is_of_state = SegmentId::from_folder(&name).is_some()
                || DictionaryId::from_folder(&name).is_some()
                || AuxiliaryId::from_folder(&name).is_some()
                || RunId::from_folder(&name).is_some();
            let is_mark = name == LOADING_NAME && current.is_some();
            if (is_of_state && !named.contains(&name)) || is_mark || name == NEW_MANIFEST_NAME {
                storage.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Returns the file's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("numbers and file names are JSON");
        let body = format!("{FIRST_LINE}\n{json}\n");
        let checksum = crc32c::crc32c(body.as_bytes());
        format!("{body}{checksum:08x}\n").into_bytes()
    }

    /// Parses the output of [`Self::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |message: &str| StoreError::corrupt(MANIFEST_NAME, None, message);
        if !bytes.starts_with(FIRST_LINE.as_bytes()) {
            return Err(corrupt("its first line is not that of a Pythia store"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| corrupt("it is not text"))?;
        let lines: Vec<&str> = text.split('\n').collect();
        let &[first, json, checksum, ""] = &*lines else {
            return Err(corrupt("it does not have its three lines"));
        };
        let body_bytes = first.len() + json.len() + 2;
        let expected = format!("{:08x}", crc32c::crc32c(&bytes[..body_bytes]));
        if checksum != expected {
            return Err(corrupt(&format!(
                "its checksum is {checksum:?}, its contents give {expected:?}"
            )));
        }
        // The version decides how to parse the rest, so it is read alone first.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version = parse(json)?;
        if !FORMATS_READ.contains(&version.format) {
            return Err(StoreError::Format {
                found: version.format,
                supported: *FORMATS_READ.end(),
            });
        }
        parse(json)
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, StoreError> {
    serde_json::from_str(json)
        .map_err(|error| StoreError::corrupt(MANIFEST_NAME, None, error.to_string()))
}

#[cfg(test)]
mod tests {
    use pythia_io::MemoryStorage;
    use pythia_log::FolderId;

    use super::*;

    fn manifest(format: u32) -> Manifest {
        Manifest {
            format,
            segment: SegmentId(7),
            quads: 3,
            files: vec![ManifestFile {
                name: "spo.pages".to_owned(),
                bytes: 4096,
            }],
            dictionary: None,
            auxiliary: vec![AuxiliaryEntry {
                id: AuxiliaryId(3),
                kind: AuxiliaryKind::Reachability { predicate: 12 },
                files: Vec::new(),
            }],
            runs: Vec::new(),
            log: None,
        }
    }

    #[test]
    fn it_comes_back() {
        let storage = MemoryStorage::new();
        assert_eq!(Manifest::read(&storage).expect("none is fine"), None);
        let unnamed = Unnamed::new(&storage);
        manifest(FORMAT_VERSION)
            .switch(&storage, unnamed)
            .expect("written");
        let read = Manifest::read(&storage).expect("just written");
        assert_eq!(read, Some(manifest(FORMAT_VERSION)));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = manifest(FORMAT_VERSION).to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::from_bytes(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(
                Manifest::from_bytes(&bytes[..length]).is_err(),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn a_newer_format_is_told_apart_from_damage() {
        let newer = FORMATS_READ.end() + 1;
        let error = Manifest::from_bytes(&manifest(newer).to_bytes());
        let Err(StoreError::Format { found, supported }) = error else {
            panic!("{error:?}");
        };
        assert_eq!((found, supported), (newer, FORMAT_WRITTEN));
    }

    /// As written by a program that knew no identities.
    #[test]
    fn a_manifest_of_format_4_has_folders_by_their_paths() {
        let store = "0123456789abcdef0123456789abcdef";
        let log = format!(r#""log":{{"store":"{store}","position":3,"devices":["/mnt/b","c"]}}"#);
        let json = format!(r#"{{"format":4,"segment":1,"quads":0,"files":[],{log}}}"#);
        let body = format!("{FIRST_LINE}\n{json}\n");
        let checksum = crc32c::crc32c(body.as_bytes());
        let old = Manifest::from_bytes(format!("{body}{checksum:08x}\n").as_bytes());
        let mut old = old.expect("format 4 is read");
        assert_eq!((old.format, old.format_needed()), (4, FORMAT_WRITTEN));
        let log = old.log.as_mut().expect("it has a log");
        let folder = |path: &str, id| LogFolder {
            path: path.to_owned(),
            id,
            is_spare: false,
        };
        assert_eq!(log.devices, [folder("/mnt/b", None), folder("c", None)]);
        let id = Some(FolderId([7; 16]));
        log.devices[0].id = id;
        log.archive = Some(folder("/mnt/archive", id));
        log.devices[1].is_spare = true;
        let read = Manifest::from_bytes(&old.to_bytes()).expect("just written");
        assert_eq!(read, old);
    }

    #[test]
    fn leftovers_go_and_the_segment_stays() {
        let storage = MemoryStorage::new();
        for name in [
            "segment-000007/a",
            "segment-000008/a",
            "auxiliary-000002/a",
            "auxiliary-000003/a",
            "MANIFEST.new",
            "LOCK",
        ] {
            storage
                .create(name)
                .and_then(|file| file.sync())
                .expect("memory");
        }
        Manifest::remove_leftovers(Some(&manifest(1)), &storage).expect("memory");
        assert_eq!(
            storage.list("").expect("memory"),
            ["LOCK", "auxiliary-000003", "segment-000007"]
        );
        Manifest::remove_leftovers(None, &storage).expect("memory");
        assert_eq!(storage.list("").expect("memory"), ["LOCK"]);
    }
}

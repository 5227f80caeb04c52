//! Stores of earlier formats, in which some histories begin: upgrades are interrupted, too.
//!
//! The stores are those of `testdata/compat`, written by the programs of their time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::TermId;
use pythia_store::{Snapshot, Store};
use tar::Archive;

use super::history::Lost;
use super::store::open_options;

/// The formats and their archives: the first format; one with a log and runs of changes; one that also has a dictionary
/// of its own and indexes.
const ARCHIVES: [(u32, &[u8]); 3] = [
    (
        1,
        include_bytes!("../../../../testdata/compat/format-1.tar.gz"),
    ),
    (
        4,
        include_bytes!("../../../../testdata/compat/format-4.tar.gz"),
    ),
    (
        6,
        include_bytes!("../../../../testdata/compat/format-6.tar.gz"),
    ),
];
/// The formats of the stores.
pub(super) const FORMATS: [u32; 3] = [ARCHIVES[0].0, ARCHIVES[1].0, ARCHIVES[2].0];
/// The folder of the store in an archive.
const STORE: &str = "store/";

/// A store of an earlier format.
pub(super) struct Origin {
    /// The bytes of its files, by path below the store.
    files: BTreeMap<String, Vec<u8>>,
    /// Its quads as text.
    quads: BTreeSet<[String; 4]>,
}

impl Origin {
    /// Returns the store of a format.
    pub(super) fn of(format: u32) -> Result<&'static Self> {
        static UNPACKED: [OnceLock<Origin>; 3] = [const { OnceLock::new() }; 3];
        let place = ARCHIVES.iter().position(|(of, _)| *of == format);
        let place = place.with_context(|| format!("no store of format {format}"))?;
        if let Some(origin) = UNPACKED[place].get() {
            return Ok(origin);
        }
        let origin = Self::unpack(ARCHIVES[place].1)
            .with_context(|| format!("the store of format {format}"))?;
        Ok(UNPACKED[place].get_or_init(|| origin))
    }

    fn unpack(archive: &[u8]) -> Result<Self> {
        let mut all = unpack(archive)?;
        let text = all.remove("contents.nq").context("no contents.nq")?;
        let stored = all.into_iter();
        let stored = stored.filter_map(|(name, bytes)| {
            let name = name.strip_prefix(STORE)?.to_owned();
            Some((name, bytes))
        });
        let files = stored.collect();
        let mut origin = Self {
            files,
            quads: BTreeSet::new(),
        };
        let storage = Arc::new(MemoryStorage::new());
        origin.write_to(&*storage)?;
        let store = Store::open_storage(storage, open_options())?;
        origin.quads = quads_of(&store.snapshot())?;
        // A program of that time printed some of them twice.
        let lines = text.split(|byte| *byte == b'\n');
        let lines: BTreeSet<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        ensure!(
            origin.quads.len() == lines.len(),
            "it does not have {} quads",
            lines.len()
        );
        Ok(origin)
    }

    /// Writes the store's files.
    pub(super) fn write_to(&self, storage: &dyn Storage) -> Result<()> {
        for (name, bytes) in &self.files {
            let mut file = storage.create(name)?;
            file.append(bytes)?;
            file.sync()?;
        }
        Ok(())
    }

    /// Writes the store's files to a folder.
    pub(super) fn write_in(&self, folder: &Path) -> Result<()> {
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, bytes)?;
        }
        Ok(())
    }

    /// Returns the number of its quads.
    pub(super) fn quads(&self) -> u64 {
        self.quads.len() as u64
    }

    /// Fails unless a store has exactly these quads, apart from those of a history.
    pub(super) fn check(
        &self,
        snapshot: &Snapshot,
        is_of_history: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let mut found = quads_of(snapshot)?;
        found.retain(|[subject, ..]| !is_of_history(subject));
        let missing = self.quads.difference(&found).next();
        let other = found.difference(&self.quads).next();
        ensure!(
            missing.is_none() && other.is_none(),
            Lost(format!(
                "of the quads that the store began with, {missing:?} is missing, or {other:?} is not one of them"
            ))
        );
        Ok(())
    }
}

/// Returns all quads as text.
fn quads_of(snapshot: &Snapshot) -> Result<BTreeSet<[String; 4]>> {
    let mut scan = snapshot.quads()?;
    let mut quads = BTreeSet::new();
    while let Some(batch) = scan.next()? {
        let decode = |column: &Vec<u64>| -> Result<Vec<String>> {
            let bound = column.iter().map(|&id| TermId(id));
            let bound: Vec<TermId> = bound.filter(|id| id.is_bound()).collect();
            let mut terms = snapshot.decode(&bound)?.into_iter();
            let term = |&id: &u64| match TermId(id).is_bound() {
                true => terms
                    .next()
                    .map(|term| term.to_string())
                    .unwrap_or_default(),
                false => String::new(),
            };
            Ok(column.iter().map(term).collect())
        };
        let columns = batch.columns.iter().map(decode);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        quads.extend(
            (0..batch.rows)
                .map(|_| std::array::from_fn(|column| columns[column].next().unwrap_or_default())),
        );
    }
    Ok(quads)
}

/// Returns the files of an archive (`tar`, compressed with gzip), by path.
fn unpack(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in Archive::new(GzDecoder::new(archive)).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            let name = String::from_utf8(entry.path_bytes().into_owned())?;
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_a_store_that_can_be_read() {
        for format in FORMATS {
            let origin = Origin::of(format).expect("an archive");
            assert!(origin.quads() > 3000, "{format}: {}", origin.quads());
            assert!(origin.files.contains_key("MANIFEST"));
        }
    }
}

//! The finished parts of an interrupted compaction, in the folder of the new base, for the next attempt to use.
//!
//! ```text
//! segment-000002/
//!   FROM                  the manifest of the state being compacted; FROM-ORDERS if only its orders are
//!   spo.pages             a finished file, and
//!   spo.part              its in-memory directory; the same for each order and the dictionary, whose file is in its
//!                         own folder
//! ```
//!
//! A compaction reads only the base and the runs that `FROM` lists, which never change, and writes the same bytes
//! from the same input. The next attempt therefore continues from the state in `FROM`: it takes the finished parts
//! and writes the rest. If ids change, it then replays later commits from the log, as any whole compaction does.
//!
//! Invariants:
//! - A part becomes durable only after its file. A damaged part counts as not finished.
//! - While `FROM` exists, the runs that it lists and the log from its position on are kept; if they cannot be kept,
//!   the folder must be removed. While `FROM-ORDERS` exists, the runs that it lists are the first of the store.

use std::sync::Arc;

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{IoError, Storage};
use pythia_log::LogError;

use super::Extent;
use crate::StoreError;
use crate::dictionary::DictionaryDirectory;
use crate::manifest::{Manifest, SegmentId};
use crate::pattern::Order;
use crate::segment::OrderDirectory;
use crate::segment::sealed::{DICTIONARY_NAME, order_file_name};

/// The extents of compactions, and for each the file with the manifest of the state being compacted.
const FROM_NAMES: [(Extent, &str); 2] = [(Extent::Whole, "FROM"), (Extent::Orders, "FROM-ORDERS")];
const MAGIC: &[u8; 8] = b"pythiapt";
const VERSION: u32 = 1;

/// Returns the state with the same base whose compaction was interrupted.
pub(crate) fn interrupted(
    storage: &dyn Storage,
    current: &Manifest,
) -> Result<Option<(Manifest, Extent)>, StoreError> {
    for (extent, name) in FROM_NAMES {
        let name = format!("{}/{name}", current.next_segment().folder());
        let read = || Manifest::from_bytes(&storage.read_all(&name)?);
        if let Some(from) = if_sound(read())?
            && is_before(&from, extent, current)
        {
            return Ok(Some((from, extent)));
        }
    }
    Ok(None)
}

/// Returns whether a compaction of the state `from` can still become the base of the current one.
fn is_before(from: &Manifest, extent: Extent, current: &Manifest) -> bool {
    let log = |manifest: &Manifest| manifest.log.as_ref().map(|log| log.store);
    (from.segment, log(from)) == (current.segment, log(current))
        && from.files == current.files
        && from.dictionary == current.dictionary
        && (extent == Extent::Whole || current.runs.starts_with(&from.runs))
}

/// Returns `None` for a missing or damaged file: a crash may leave either.
fn if_sound<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::Io(error)) if error.is_not_found() => Ok(None),
        Err(StoreError::Corrupt { .. } | StoreError::Format { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the files that a base no longer needs once it is complete.
pub(crate) fn remove_remains(storage: &dyn Storage, base: SegmentId) -> Result<(), StoreError> {
    let folder = base.folder();
    for name in storage.list(&folder)? {
        let is_from = FROM_NAMES.iter().any(|(_, from)| *from == name);
        if is_from || name.ends_with(PART) {
            storage.remove(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}

/// The folder of a new base that is not complete yet.
#[derive(Debug)]
pub(crate) struct Unfinished {
    storage: Arc<dyn Storage>,
    folder: String,
    /// The folder of the new dictionary, if there is one.
    terms_folder: String,
}

impl Unfinished {
    /// Begins the new base of a state, or continues an existing one.
    pub(super) fn begin(
        storage: Arc<dyn Storage>,
        from: &Manifest,
        extent: Extent,
    ) -> Result<Self, StoreError> {
        let unfinished = Self::of(storage, from);
        let before = interrupted(&*unfinished.storage, from)?;
        if before.is_none_or(|(before, of)| (&before, of) != (from, extent)) {
            unfinished.remove_folders()?;
            let names = FROM_NAMES.iter().find(|(other, _)| *other == extent);
            let (_, name) = names.expect("every extent has a name");
            if let Err(error) = unfinished.write(name, &from.to_bytes()) {
                // Best effort: an incomplete `FROM` counts as none.
                let _ = unfinished.discard();
                return Err(error);
            }
        }
        Ok(unfinished)
    }

    /// Returns the folder of the new base of a state.
    pub(crate) fn of(storage: Arc<dyn Storage>, from: &Manifest) -> Self {
        Self {
            storage,
            folder: from.next_segment().folder(),
            terms_folder: from.next_dictionary().folder(),
        }
    }

    /// Discards all finished parts.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        // `FROM` goes first: without it the rest is not used, even if its removal fails.
        for (_, name) in FROM_NAMES {
            self.storage.remove(&format!("{}/{name}", self.folder))?;
        }
        self.remove_folders()
    }

    fn remove_folders(&self) -> Result<(), StoreError> {
        self.storage.remove(&self.folder)?;
        Ok(self.storage.remove(&self.terms_folder)?)
    }

    /// Returns the dictionary, if it is finished.
    pub(super) fn dictionary(&self) -> Result<Option<DictionaryDirectory>, StoreError> {
        self.part(
            (&self.terms_folder, DICTIONARY_NAME),
            DictionaryDirectory::decode,
        )
    }

    /// Returns the order, if it is finished.
    pub(super) fn order(&self, order: Order) -> Result<Option<OrderDirectory>, StoreError> {
        self.part((&self.folder, &order_file_name(order)), |input| {
            OrderDirectory::read(order, input)
        })
    }

    /// Records that the dictionary is finished and durable.
    pub(super) fn put_dictionary(&self, directory: &DictionaryDirectory) -> Result<(), StoreError> {
        self.put((&self.terms_folder, DICTIONARY_NAME), |out| {
            directory.encode(out)
        })
    }

    /// Records that an order is finished and durable.
    pub(super) fn put_order(&self, directory: &OrderDirectory) -> Result<(), StoreError> {
        self.put((&self.folder, &order_file_name(directory.order())), |out| {
            directory.write(out)
        })
    }

    fn part<T>(
        &self,
        (folder, pages): (&str, &str),
        read: impl Fn(&mut ByteReader<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let name = format!("{}/{}", self.folder, part_name(pages));
        if_sound((|| {
            let bytes = self.storage.read_all(&name)?;
            let (_, mut input) = ByteReader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
            let length = input.u64()?;
            let part = read(&mut input)?;
            let file = self.storage.open(&format!("{folder}/{pages}"))?;
            if file.len() != length {
                return Err(input.corrupt("the length of the file of pages"));
            }
            input.finish()?;
            Ok(part)
        })())
    }

    fn put(
        &self,
        (folder, pages): (&str, &str),
        write: impl Fn(&mut ByteWriter),
    ) -> Result<(), StoreError> {
        let mut out = ByteWriter::new();
        let file = self.storage.open(&format!("{folder}/{pages}"))?;
        out.u64(file.len());
        write(&mut out);
        self.write(&part_name(pages), &out.framed(MAGIC, VERSION))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut file = self.storage.create(&format!("{}/{name}", self.folder))?;
        file.append(bytes)?;
        Ok(file.sync()?)
    }
}

/// The suffix of the names of parts.
const PART: &str = ".part";

fn part_name(pages: &str) -> String {
    let stem = pages.split('.').next().unwrap_or(pages);
    format!("{stem}{PART}")
}

/// Returns whether finished parts are worth keeping after an error. They are not if they take the space that is
/// missing, or if the same error would occur again.
pub(crate) fn is_worth_keeping(error: &StoreError) -> bool {
    match error {
        StoreError::Io(error) | StoreError::Log(LogError::Io(error)) => {
            !matches!(error, IoError::DiskFull { .. }) && !error.is_corruption()
        }
        // The writer was stopped, or has stopped; the next one continues.
        StoreError::Cancelled
        | StoreError::Stopped { .. }
        | StoreError::Unsettled { .. }
        | StoreError::Replaced
        | StoreError::Log(LogError::Poisoned { .. }) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits that the log lacks or that are damaged are missing the next time, too.
    #[test]
    fn a_compaction_is_not_kept_for_a_log_that_cannot_be_replayed() {
        let corrupt = LogError::Corrupt {
            file: "log/00-0000000001.log".to_owned(),
            offset: 4096,
            message: "a group".to_owned(),
        };
        let full = std::io::Error::from_raw_os_error(28);
        let full = IoError::os("write", "log", None, full);
        let failed = std::io::Error::from_raw_os_error(5);
        let failed = IoError::os("read", "log", None, failed);
        let poisoned = LogError::Poisoned {
            cause: std::sync::Arc::new(corrupt.clone()),
        };
        for (error, is_kept) in [
            (corrupt, false),
            (LogError::Io(full), false),
            (LogError::Io(failed), true),
            (poisoned, true),
        ] {
            let error = StoreError::Log(error);
            assert_eq!(is_worth_keeping(&error), is_kept, "{error}");
        }
    }
}

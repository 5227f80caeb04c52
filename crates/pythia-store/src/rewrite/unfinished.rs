//! What a rewrite has finished so far, in the folder of the new base, for another to go on with.
//!
//! ```text
//! segment-000002/
//!   FROM                  the manifest of the state that becomes a new base
//!   dictionary.pages      a file that is finished, and
//!   dictionary.part       what is kept in memory of it; the same for each order
//! ```
//!
//! A rewrite reads nothing but the base and the runs that `FROM` lists, of which nothing ever changes, and
//! from the same it writes the same bytes. So whoever finds `FROM` goes on from that state: it takes what is
//! finished, writes the rest, and then replays what was committed since from the log, as any rewrite does.
//!
//! Invariants:
//! - A part is durable only after its file is. What is damaged counts as not finished.
//! - As long as there is `FROM`, the runs that it lists and the log from its position on are kept; whoever
//!   cannot keep them removes the folder.

use std::sync::Arc;

use pythia_io::{IoError, Storage};
use pythia_log::LogError;

use crate::StoreError;
use crate::codec::{Reader, Writer};
use crate::dictionary::DictionaryDirectory;
use crate::manifest::{Manifest, SegmentId};
use crate::pattern::Order;
use crate::segment::OrderDirectory;
use crate::segment::sealed::{DICTIONARY_NAME, order_file_name};

/// The manifest of the state that becomes a new base.
const FROM_NAME: &str = "FROM";
const MAGIC: &[u8; 8] = b"pythiapt";
const VERSION: u32 = 1;

/// The new base of a state.
pub(crate) fn next_segment(from: &Manifest) -> SegmentId {
    SegmentId(from.segment.0 + 1)
}

/// The state with the same base that a rewrite was at work on when it was interrupted.
pub(crate) fn interrupted(
    storage: &dyn Storage,
    current: &Manifest,
) -> Result<Option<Manifest>, StoreError> {
    let name = format!("{}/{FROM_NAME}", next_segment(current).folder());
    let read = || Manifest::from_bytes(&storage.read_all(&name)?);
    let from = if_sound(read())?;
    let log = |manifest: &Manifest| manifest.log.as_ref().map(|log| log.store);
    Ok(from.filter(|from| {
        (from.segment, log(from)) == (current.segment, log(current)) && from.files == current.files
    }))
}

/// `None` for what is missing or damaged: a crash may leave that.
fn if_sound<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::Io(error)) if error.is_not_found() => Ok(None),
        Err(StoreError::Corrupt { .. } | StoreError::Format { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what a base does not need once it is whole.
pub(crate) fn remove_remains(storage: &dyn Storage, base: SegmentId) -> Result<(), StoreError> {
    let folder = base.folder();
    for name in storage.list(&folder)? {
        if name == FROM_NAME || name.ends_with(PART) {
            storage.remove(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}

/// The folder of a new base that is not whole yet.
#[derive(Debug)]
pub(crate) struct Unfinished {
    storage: Arc<dyn Storage>,
    folder: String,
}

impl Unfinished {
    /// Begins the new base of a state, or goes on with what there is of it.
    pub(super) fn begin(storage: Arc<dyn Storage>, from: &Manifest) -> Result<Self, StoreError> {
        let unfinished = Self::of(storage, from);
        let storage = &*unfinished.storage;
        if interrupted(storage, from)?.as_ref() != Some(from) {
            storage.remove(&unfinished.folder)?;
            if let Err(error) = unfinished.write(FROM_NAME, &from.to_bytes()) {
                // Best effort: half a mark counts as none.
                let _ = unfinished.discard();
                return Err(error);
            }
        }
        Ok(unfinished)
    }

    /// The folder of the new base of a state.
    pub(crate) fn of(storage: Arc<dyn Storage>, from: &Manifest) -> Self {
        Self {
            storage,
            folder: next_segment(from).folder(),
        }
    }

    /// Gives up what there is.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        // Without this nobody goes on with the rest, also if the rest cannot be removed.
        self.storage
            .remove(&format!("{}/{FROM_NAME}", self.folder))?;
        Ok(self.storage.remove(&self.folder)?)
    }

    /// The dictionary, if it is finished.
    pub(super) fn dictionary(&self) -> Result<Option<DictionaryDirectory>, StoreError> {
        self.part(DICTIONARY_NAME, DictionaryDirectory::decode)
    }

    /// An order, if it is finished.
    pub(super) fn order(&self, order: Order) -> Result<Option<OrderDirectory>, StoreError> {
        self.part(&order_file_name(order), |input| {
            OrderDirectory::read(order, input)
        })
    }

    /// Takes note that the dictionary is finished, and durable.
    pub(super) fn put_dictionary(&self, directory: &DictionaryDirectory) -> Result<(), StoreError> {
        self.put(DICTIONARY_NAME, |out| directory.encode(out))
    }

    /// Takes note that an order is finished, and durable.
    pub(super) fn put_order(&self, directory: &OrderDirectory) -> Result<(), StoreError> {
        self.put(&order_file_name(directory.order()), |out| {
            directory.write(out)
        })
    }

    fn part<T>(
        &self,
        pages: &str,
        read: impl Fn(&mut Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let name = format!("{}/{}", self.folder, part_name(pages));
        if_sound((|| {
            let bytes = self.storage.read_all(&name)?;
            let (_, mut input) = Reader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
            let length = input.u64()?;
            let part = read(&mut input)?;
            let file = self.storage.open(&format!("{}/{pages}", self.folder))?;
            if file.len() != length {
                return Err(input.corrupt("the length of the file of pages"));
            }
            input.finish()?;
            Ok(part)
        })())
    }

    fn put(&self, pages: &str, write: impl Fn(&mut Writer)) -> Result<(), StoreError> {
        let mut out = Writer::new();
        let file = self.storage.open(&format!("{}/{pages}", self.folder))?;
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

/// How names of parts end.
const PART: &str = ".part";

fn part_name(pages: &str) -> String {
    let stem = pages.split('.').next().unwrap_or(pages);
    format!("{stem}{PART}")
}

/// Whether what is finished is worth keeping after an error: not if it takes the space that is missing, and
/// not if the same would happen again.
pub(crate) fn is_worth_keeping(error: &StoreError) -> bool {
    match error {
        StoreError::Io(error) | StoreError::Log(LogError::Io(error)) => {
            !matches!(error, IoError::DiskFull { .. }) && !error.is_corruption()
        }
        // The writer was stopped, or has stopped; the next goes on.
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

    /// What the log lacks or has damaged is missing the next time, too.
    #[test]
    fn a_rewrite_is_not_kept_for_a_log_that_cannot_be_replayed() {
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

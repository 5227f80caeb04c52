//! Files that the log does without are renamed, never removed: an unreadable file with content is kept.

use pythia_io::Storage;

use crate::LogError;
use crate::catalog::list_folder;
use crate::format::{BLOCK_BYTES, FOLDER};

/// Ending of the names of files that were set aside. Nothing reads or removes them.
const ASIDE: &str = "aside";
/// Ending of the names of bulk files that no commit named when the log was last opened for writing.
const UNFINISHED: &str = ".unfinished";

/// Sets a file of a log folder aside. Returns its new name.
pub(crate) fn set_aside(storage: &dyn Storage, name: &str) -> Result<String, LogError> {
    let to = free_name(storage, name)?;
    storage.rename(name, &to)?;
    Ok(to)
}

/// Copies a file of a log folder. Returns the name of the copy.
pub(crate) fn copy_aside(storage: &dyn Storage, name: &str) -> Result<String, LogError> {
    let to = free_name(storage, name)?;
    let bytes = storage.read_all(name)?;
    let mut file = storage.create(&to)?;
    file.append(&bytes)?;
    file.sync()?;
    Ok(to)
}

fn free_name(storage: &dyn Storage, name: &str) -> Result<String, LogError> {
    let path = format!("{name}.{ASIDE}");
    if !storage.exists(&path)? {
        return Ok(path);
    }
    for number in 2.. {
        let numbered = format!("{path}-{number}");
        if !storage.exists(&numbered)? {
            return Ok(numbered);
        }
    }
    unreachable!("the numbers do not end")
}

/// Removes a file that was never used and is all zeros. Sets aside a file with content, without the zeros at its
/// end.
pub(crate) fn clear_unused(storage: &dyn Storage, name: &str) -> Result<(), LogError> {
    let bytes = storage.read_all(name)?;
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
        storage.remove(name)?;
        return Ok(());
    };
    let used = (last + 1).next_multiple_of(BLOCK_BYTES);
    if used < bytes.len() {
        storage.open_log(name)?.trim(used as u64)?;
    }
    set_aside(storage, name).map(|_| ())
}

/// Keeps a bulk file that no commit names until the log is opened for writing again: an interrupted update cannot
/// be told from one whose commit was lost.
pub(crate) fn keep_unfinished(storage: &dyn Storage, name: &str) -> Result<(), LogError> {
    Ok(storage.rename(name, &format!("{name}{UNFINISHED}"))?)
}

/// Removes the files that were kept when the log was last opened for writing.
pub(crate) fn remove_unfinished(storage: &dyn Storage) -> Result<(), LogError> {
    let names = list_folder(storage)?;
    for name in names.iter().filter(|name| name.ends_with(UNFINISHED)) {
        storage.remove(&format!("{FOLDER}/{name}"))?;
    }
    Ok(())
}

//! Sizes of a store's files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Returns the bytes of a store's files by name without extension, of all segments together.
pub fn bytes_by_name(location: &Path) -> Result<Vec<(String, u64)>> {
    let mut sizes = std::collections::BTreeMap::<String, u64>::new();
    let mut folders = vec![location.to_owned()];
    while let Some(folder) = folders.pop() {
        let context = || format!("list {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(context)? {
            let entry = entry.with_context(context)?;
            let metadata = entry.metadata().with_context(context)?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                let name = PathBuf::from(entry.file_name());
                let stem = name.file_stem().unwrap_or_default().to_string_lossy();
                *sizes.entry(stem.into_owned()).or_default() += metadata.len();
            }
        }
    }
    Ok(sizes.into_iter().collect())
}

//! Arguments and output that several benchmarks have in common.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::exit::UsageError;

/// The cache of a store with a single triple.
pub(super) const SMALL_CACHE: usize = 4 << 20;

/// Returns the duration given as an option.
pub(super) fn seconds(option: &str, value: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(value)
        .map_err(|_| UsageError(format!("{option} is not a valid time")))?)
}

/// Prints the text, or the JSON if its file is standard output; writes the JSON to any other file.
pub(super) fn show(json: Option<&Path>, text: &str, value: Value) -> Result<()> {
    let json_text = || format!("{value:#}\n");
    match json {
        Some(path) if path.as_os_str() == "-" => write!(stdout(), "{}", json_text())?,
        Some(path) => {
            write(path, &json_text())?;
            writeln!(stdout(), "{text}")?;
        }
        None => writeln!(stdout(), "{text}")?,
    }
    Ok(())
}

/// Writes a file.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

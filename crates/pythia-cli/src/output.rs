//! Output of reports as text and as JSON.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Prints the text, or the JSON if its file is standard output; writes the JSON to any other file.
pub(crate) fn show(json: Option<&Path>, text: &str, value: Value) -> Result<()> {
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
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

//! Output of reports as text and as JSON.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::arguments::ReportArguments;

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

/// Writes the page if it is asked for, and shows text or JSON as [`show`] does. `html` is called for the page alone.
pub(crate) fn show_report(
    output: &ReportArguments,
    text: &str,
    html: impl FnOnce() -> String,
    json: Value,
) -> Result<()> {
    if let Some(path) = &output.report {
        write(path, &html())?;
    }
    show(output.json.as_deref(), text, json)
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_figures_are_written_where_they_are_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let (json, report) = (folder.path().join("x.json"), folder.path().join("x.html"));
        let shown = |json, report| {
            let output = ReportArguments { json, report };
            let html = || "<p>1</p>".to_owned();
            show_report(&output, "1", html, serde_json::json!({ "one": 1 }))
        };
        shown(Some(json.clone()), Some(report.clone())).expect("written");
        let figures = fs::read_to_string(&json).expect("there");
        assert_eq!(figures, "{\n  \"one\": 1\n}\n");
        assert_eq!(fs::read_to_string(&report).expect("there"), "<p>1</p>");
        fs::remove_file(&report).expect("removed");
        shown(Some(json), None).expect("written");
        assert!(!report.exists());
        let nowhere = folder.path().join("none").join("x.html");
        let error = shown(None, Some(nowhere)).expect_err("no folder");
        assert!(error.to_string().starts_with("write "), "{error}");
    }
}

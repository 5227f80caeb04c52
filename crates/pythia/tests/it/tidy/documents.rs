//! Documents name only what exists.

use std::fs;
use std::path::Path;

use regex::Regex;

use super::{each_text, root};

#[test]
fn links_of_documents_lead_to_files() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut wrong = Vec::new();
    each_text(&mut |path, text| {
        if path.extension().is_none_or(|end| end != "md") {
            return;
        }
        let folder = root().join(path.parent().unwrap_or(Path::new("")));
        for found in link.captures_iter(text) {
            let target = found[1].split('#').next().unwrap_or("").to_owned();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !target.is_empty() && !is_elsewhere && !folder.join(&target).exists() {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    });
    assert!(wrong.is_empty(), "links to nothing:\n{}", wrong.join("\n"));
}

#[test]
fn paths_in_the_map_of_the_code_exist() {
    let span = Regex::new(r"`([^`\s]+)`").expect("a pattern");
    let first = Regex::new(r"^(pythia[a-z-]*|bench|crates|docs|packaging|scripts|testdata)/")
        .expect("a pattern");
    let mut wrong = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).expect("there");
        for found in span.captures_iter(&text) {
            for path in alternatives(&found[1]) {
                let exists = |folder: &Path| folder.join(&path).exists();
                if first.is_match(&path) && !exists(&root()) && !exists(&root().join("crates")) {
                    wrong.push(format!("{document}: {path}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "paths to nothing:\n{}", wrong.join("\n"));
}

/// Returns the paths that a path with one pair of braces, such as `src/{plan,exec}`, stands for.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(start, rest)| {
        let (middle, end) = rest.split_once('}')?;
        Some((start, middle, end))
    });
    match parts {
        Some((start, middle, end)) => middle
            .split(',')
            .map(|part| format!("{start}{part}{end}"))
            .collect(),
        None => vec![path.to_owned()],
    }
}

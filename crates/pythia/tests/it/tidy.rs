//! The rules of the repository that no compiler checks: which crate may use which, that documents name what exists,
//! the length of the README, and plain English (docs/glossary.md).

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Folders with text that people read.
const PLACES: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "bench/README.md",
    "crates",
    "docs",
    "packaging",
];
/// Folders whose files are not ours, or are made by programs.
const SKIPPED: [&str; 4] = ["node_modules", "target", "dist", "w3c"];

/// Crates that a crate's sources may never name.
const FORBIDDEN: [(&str, &[&str]); 6] = [
    (
        "pythia-rdf",
        &["pythia_io", "pythia_log", "pythia_store", "spargebra"],
    ),
    (
        "pythia-io",
        &[
            "pythia_rdf",
            "pythia_log",
            "pythia_store",
            "oxrdf",
            "spargebra",
        ],
    ),
    (
        "pythia-log",
        &[
            "pythia_store",
            "pythia_query",
            "spargebra",
            "arrow",
            "datafusion",
        ],
    ),
    (
        "pythia-store",
        &[
            "pythia_query",
            "spargebra",
            "sparesults",
            "arrow",
            "datafusion",
        ],
    ),
    ("pythia-query", &["pythia_server", "axum", "hyper", "tokio"]),
    ("pythia", &["pythia_server", "pythia_cli", "axum", "hyper"]),
];

/// Phrases that the style forbids. Each is written in two parts here, so that this file does not have them.
const PHRASES: [(&str, &str); 8] = [
    ("so ", "many"),
    ("ane", "w"),
    ("path ", "paper"),
    ("is told ", "of"),
    ("are told ", "of"),
    ("what there ", "is"),
    ("none of those ", "that"),
    ("Whose turn ", "it is when"),
];
/// Doc comments that may begin with a word that asks instead of a verb or a noun.
const ASKING_MAX: usize = 60;
const README_WORDS_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Calls `f` with the path below the root and the text of each file that people read.
fn each_text(f: &mut impl FnMut(&Path, &str)) {
    let root = root();
    for place in PLACES {
        visit(&root, &root.join(place), f);
    }
}

fn visit(root: &Path, path: &Path, f: &mut impl FnMut(&Path, &str)) {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    if SKIPPED.contains(&name) {
        return;
    }
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder of the repository");
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths.iter().for_each(|path| visit(root, path, f));
        return;
    }
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or("");
    if ["rs", "md", "ts", "tsx", "toml"].contains(&end)
        && let Ok(text) = fs::read_to_string(path)
    {
        f(path.strip_prefix(root).expect("below the root"), &text);
    }
}

#[test]
fn crates_use_only_the_crates_below_them() {
    let mut wrong = Vec::new();
    for (name, forbidden) in FORBIDDEN {
        let words = forbidden.join("|");
        let word = Regex::new(&format!(r"\b({words})[a-z_]*::")).expect("a pattern");
        let sources = root().join("crates").join(name).join("src");
        visit(&root(), &sources, &mut |path, text| {
            let is_test = path.components().any(|part| {
                let part = part.as_os_str().to_string_lossy();
                part.contains("test") || part.contains("differential")
            });
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                if !is_test && word.is_match(code) {
                    wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
                }
            }
        });
    }
    assert!(wrong.is_empty(), "forbidden imports:\n{}", wrong.join("\n"));
}

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
fn texts_avoid_the_phrases_that_the_style_forbids() {
    let phrases: Vec<Regex> = PHRASES
        .iter()
        .map(|(start, end)| Regex::new(&format!(r"(?i)\b{start}{end}\b")).expect("a pattern"))
        .collect();
    let mut wrong = Vec::new();
    each_text(&mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            if phrases.iter().any(|phrase| phrase.is_match(line)) {
                wrong.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let asking = Regex::new(r"^\s*//[/!] (What|Who|Whose)\b").expect("a pattern");
    let mut found = Vec::new();
    each_text(&mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            if asking.is_match(line) {
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    });
    let count = found.len();
    assert!(
        count <= ASKING_MAX,
        "{count} of at most {ASKING_MAX}:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_readme_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).expect("there");
    let words = readme.split_whitespace().count();
    assert!(
        words <= README_WORDS_MAX,
        "{words} words, of at most {README_WORDS_MAX}"
    );
}

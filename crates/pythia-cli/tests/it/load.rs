//! What `pythia load` takes and says, and what a store gives back.

use std::fs;
use std::path::Path;

use crate::support::{fails, run_with, succeeds};

const COUNT: &str = "SELECT (COUNT(*) AS ?n) { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";

fn triple(number: u32) -> String {
    format!("<http://a/{number}> <http://b> \"c\" .\n")
}

fn count(folder: &Path) -> String {
    let out = succeeds(
        folder,
        &["query", "-l", "store", "-q", COUNT, "--format", "csv"],
    );
    out.lines().nth(1).expect("a row").to_owned()
}

/// Writes `a.nt`, `b.nt` and `deep/c.nt`, with a triple each, and two files that are no RDF.
fn write_files(folder: &Path) {
    let data = folder.join("data");
    fs::create_dir_all(data.join("deep")).expect("a folder");
    for (number, name) in ["a.nt", "b.nt", "deep/c.nt"].iter().enumerate() {
        fs::write(data.join(name), triple(number as u32)).expect("written");
    }
    fs::write(data.join("README"), "not RDF").expect("written");
    fs::write(data.join(".hidden.nt"), "not RDF").expect("written");
}

#[test]
fn folders_and_patterns_are_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_files(folder);
    for (argument, quads) in [
        ("data", "3"),
        ("data/*.nt", "2"),
        ("data/?.nt", "2"),
        ("da*", "3"),
    ] {
        succeeds(folder, &["load", "-l", "store", argument]);
        assert_eq!(count(folder), quads, "{argument}");
        fs::remove_dir_all(folder.join("store")).expect("removed");
    }
    fs::create_dir(folder.join("empty")).expect("a folder");
    for (argument, said) in [
        ("empty", "the folder empty has no RDF files"),
        ("data/*.ttl", "no file matches data/*.ttl"),
        (
            "missing.nt",
            "missing.nt: No such file or directory (os error 2)",
        ),
        (
            "https://example.org/a.nt",
            "curl -fsSL 'https://example.org/a.nt' | pythia load",
        ),
    ] {
        let (code, error) = fails(folder, &["load", "-l", "store", argument]);
        assert!(code == 2 && error.contains(said), "{error}");
        assert_eq!(
            error.matches("No such file").count(),
            error.matches("missing").count()
        );
        assert!(!folder.join("store").exists(), "{argument} leaves a store");
    }
}

#[test]
fn standard_input_is_decompressed_by_its_first_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let plain = triple(1);
    // Written by gzip 1.12, bzip2 1.0 and zstd 1.5 from the same triple.
    for (name, hex) in [
        ("plain", hex::encode(&plain)),
        ("gzip", GZIP.to_owned()),
        ("bzip2", BZIP2.to_owned()),
        ("zstd", ZSTD.to_owned()),
    ] {
        let input = hex::decode(hex).expect("hexadecimal");
        let arguments = ["load", "-l", name, "--format", "nt", "-"];
        let outcome = run_with(folder, &arguments, &input);
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
        assert_eq!(succeeds(folder, &["dump", "-l", name]), plain, "{name}");
    }
}

const GZIP: &str =
    "1f8b0800000000000203b3c9282929b0d2d74fd437b453b0817292ec1494929514f4b800a0b76a161e000000";
const BZIP2: &str = "425a68393141592653592c4fb7e1000007d98000105001a015384044002000314c0000950347a989a656af0c21d5bc75a618792828f8bb9229c28481627dbf08";
const ZSTD: &str =
    "28b52ffd0458f100003c687474703a2f2f612f313e203c687474703a2f2f623e20226322202e0af30d9a4a";

#[test]
fn a_syntax_error_shows_its_line_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let text = "@prefix : <http://a/> .\n:a :b :c .\n:d :e \"ä\" ; oops .\n";
    fs::write(folder.join("a.ttl"), text).expect("written");
    let (code, error) = fails(folder, &["load", "-l", "store", "a.ttl"]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("a.ttl:3:"), "{error}");
    let lines: Vec<&str> = error.lines().collect();
    let line = lines
        .iter()
        .position(|line| line.starts_with("3 | :d :e \"ä\" ; oops ."));
    let caret = lines[line.expect("the line is shown") + 1];
    assert_eq!(caret.trim_start_matches("  | ").trim(), "^", "{error}");
    assert!(
        !folder.join("store").exists(),
        "a failed load leaves a store"
    );
    // Nor does it leave anything in a store.
    fs::write(folder.join("b.nt"), triple(1)).expect("written");
    succeeds(folder, &["load", "-l", "store", "b.nt"]);
    let before = succeeds(folder, &["dump", "-l", "store"]);
    fails(folder, &["load", "-l", "store", "a.ttl"]);
    assert_eq!(succeeds(folder, &["dump", "-l", "store"]), before);
}

#[test]
fn a_graph_is_dumped_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let quads =
        "<http://a> <http://b> <http://c> <http://g> .\n<http://d> <http://b> <http://c> .\n";
    fs::write(folder.join("a.nq"), quads).expect("written");
    succeeds(folder, &["load", "-l", "store", "a.nq"]);
    let dump = |graph| succeeds(folder, &["dump", "-l", "store", "--graph", graph]);
    assert_eq!(dump("http://g"), "<http://a> <http://b> <http://c> .\n");
    assert_eq!(dump("default"), "<http://d> <http://b> <http://c> .\n");
    for (graph, said) in [
        ("http://c", "the store has no graph <http://c>"),
        ("g", "--graph is not an IRI"),
    ] {
        let arguments = ["dump", "-l", "store", "--graph", graph, "-o", "out.nt"];
        let (code, error) = fails(folder, &arguments);
        assert!(code == 2 && error.contains(said), "{error}");
        assert!(!folder.join("out.nt").exists());
    }
}

#[test]
fn a_store_without_commits_has_an_empty_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("a.nt"), triple(1)).expect("written");
    succeeds(folder, &["load", "-l", "store", "a.nt"]);
    assert_eq!(succeeds(folder, &["log", "-l", "store"]), "");
    assert_eq!(succeeds(folder, &["log", "-l", "store", "--summary"]), "");
    let insert = "INSERT DATA { <http://a> <http://b> 1 }";
    succeeds(folder, &["update", "-l", "store", "-u", insert]);
    assert!(succeeds(folder, &["log", "-l", "store"]).contains("A <http://a> <http://b>"));
}

#[test]
fn indexes_are_dropped_by_name_or_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("a.nt"), triple(1)).expect("written");
    succeeds(folder, &["load", "-l", "store", "a.nt"]);
    let optimize = |options: &[&'static str]| [&["optimize", "-l", "store"], options].concat();
    succeeds(
        folder,
        &optimize(&["--degrees", "--reachability", "http://b"]),
    );
    let (code, error) = fails(folder, &optimize(&["--drop"]));
    assert!(
        code == 2 && error.contains("--drop needs the indexes to drop"),
        "{error}"
    );
    let (code, error) = fails(folder, &optimize(&["--drop", "--all", "--degrees"]));
    assert!(
        code == 2 && error.contains("cannot be used with"),
        "{error}"
    );
    let out = succeeds(folder, &optimize(&["--drop", "--degrees"]));
    assert_eq!(out.matches("dropped:").count(), 1, "{out}");
    let out = succeeds(folder, &optimize(&["--drop", "--all"]));
    assert!(
        out.matches("dropped:").count() == 1 && out.contains("http://b"),
        "{out}"
    );
}

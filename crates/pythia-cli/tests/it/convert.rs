//! `pythia convert`: formats, compression, and what it leaves when it fails.

use std::fs;
use std::path::Path;

use crate::support::{fails, run_with, succeeds};

const TURTLE: &str = "@prefix ex: <http://ex/> .\nex:a ex:b \"c\"@en , 01 ; ex:d _:x .\n";
const LINES: &str = "<http://ex/a> <http://ex/b> \"c\"@en .\n\
     <http://ex/a> <http://ex/b> \"01\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
     <http://ex/a> <http://ex/d> _:x .\n";

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).expect("written")
}

#[test]
fn every_format_gives_the_same_quads() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("a.ttl"), TURTLE).expect("written");
    assert_eq!(succeeds(folder, &["convert", "a.ttl"]), LINES);
    for name in [
        "b.nt",
        "b.nq.gz",
        "b.trig.zst",
        "b.ttl.bz2",
        "b.rdf",
        "b.jsonld",
        "b.nt.zst",
    ] {
        succeeds(folder, &["convert", "a.ttl", "-o", name]);
        assert_eq!(
            succeeds(folder, &["convert", name, "--to", "nt"]),
            LINES,
            "{name}"
        );
    }
    assert!(read(folder, "b.nq.gz").starts_with(b"\x1f\x8b"));
    let prefix = [
        "convert",
        "a.ttl",
        "--to",
        "ttl",
        "--prefix",
        "e=http://ex/",
    ];
    assert!(succeeds(folder, &prefix).contains("e:a e:b \"c\"@en"));
    let piped = run_with(
        folder,
        &["convert", "-", "--format", "ttl"],
        TURTLE.as_bytes(),
    );
    assert_eq!(piped.out, LINES);
}

#[test]
fn files_keep_their_blank_nodes_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["a.nt", "b.nt"] {
        fs::write(folder.join(name), "_:x <http://p> _:x .\n").expect("written");
    }
    let out = succeeds(folder, &["convert", "a.nt", "b.nt", "--graph", "http://g"]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 2 && lines[0] != lines[1], "{out}");
    assert!(
        lines.iter().all(|line| line.ends_with(" <http://g> .")),
        "{out}"
    );
}

#[test]
fn a_failure_says_why_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("bad.nt"), format!("{LINES}oops\n")).expect("written");
    fs::write(
        folder.join("g.nq"),
        "<http://a> <http://b> <http://c> <http://g> .\n",
    )
    .expect("written");
    for (arguments, code, said) in [
        (vec!["convert", "bad.nt", "-o", "out.ttl"], 3, "4 | oops"),
        (
            vec!["convert", "g.nq", "-o", "out.ttl"],
            2,
            "cannot hold the graph <http://g>: write nq or trig",
        ),
        (
            vec!["convert", "g.nq", "-o", "out.xyz"],
            2,
            "set one with --to",
        ),
        (
            vec!["convert", "g.nq", "-o", "g.nq"],
            2,
            "g.nq is also read",
        ),
        (
            vec!["convert", "g.nq", "--to", "xyz"],
            2,
            "one of nt, nq, ttl, trig, rdf, jsonld",
        ),
        (
            vec!["convert", "g.nq", "--prefix", "a"],
            2,
            "write a prefix as NAME=IRI",
        ),
    ] {
        let (got, error) = fails(folder, &arguments);
        assert!(
            got == code && error.contains(said),
            "{arguments:?}: {got} {error}"
        );
        assert!(!folder.join("out.ttl").exists(), "{arguments:?}");
    }
    let lenient = run_with(folder, &["convert", "bad.nt", "--lenient"], b"");
    assert_eq!((lenient.code, &*lenient.out), (Some(0), LINES));
    assert!(
        lenient.err.contains("skipped 1 statement with errors"),
        "{}",
        lenient.err
    );
}

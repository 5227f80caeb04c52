//! A store with more files than the process may have open.

use std::path::Path;
use std::process::{Command, Output};

use pythia::{Compression, MaintenanceOptions, Options, RdfFormat, Source, WriteOptions};

use crate::support::open_once_unlocked;

/// More runs than a store is to have.
const RUNS: usize = 40;

/// Makes a store of one quad in its base, and one in each of many runs: some 450 files.
fn make_store(path: &Path) {
    let text = b"<http://e/s> <http://e/p> <http://e/0> .\n";
    let reader = std::io::Cursor::new(text.to_vec());
    let source = Source::from_reader(
        "text".to_owned(),
        reader,
        RdfFormat::NTriples,
        Compression::None,
    );
    let sources = vec![source.expect("plain text")];
    pythia::load(path, sources, &Default::default(), &Default::default()).expect("loaded");
    let maintenance = MaintenanceOptions {
        runs_max: 1000,
        in_background: false,
        ..MaintenanceOptions::default()
    };
    let options = Options {
        write: Some(WriteOptions {
            maintenance,
            ..WriteOptions::default()
        }),
        ..Options::default()
    };
    let database = open_once_unlocked(path, &options);
    for number in 1..=RUNS {
        let update = format!("INSERT DATA {{ <http://e/s> <http://e/p> <http://e/{number}> }}");
        database.update(&update).expect("updated");
        database.store().flush().expect("flushed");
    }
    assert_eq!(database.store().manifest().runs.len(), RUNS);
}

/// Runs `pythia` with a limit of open files.
fn limited(descriptors: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -n \"$0\" && exec \"$@\"");
    command.arg(descriptors.to_string());
    command.arg(env!("CARGO_BIN_EXE_pythia")).args(arguments);
    command.output().expect("a shell")
}

fn succeeds(descriptors: u32, arguments: &[&str]) -> String {
    let output = limited(descriptors, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{descriptors} {arguments:?}: {errors}"
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_store_with_more_files_than_descriptors_is_read_and_written_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    make_store(&store);
    let store = store.to_str().expect("text");
    let count = |expected: usize| {
        let query = "SELECT (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o . FILTER(isIRI(?o)) }";
        for descriptors in [400, 64] {
            let arguments = ["query", "-l", store, "-q", query, "--format", "csv"];
            let found = succeeds(descriptors, &arguments);
            assert!(
                found.contains(&expected.to_string()),
                "{descriptors}: {found}"
            );
        }
    };
    count(RUNS + 1);
    let update = "INSERT DATA { <http://e/s> <http://e/p> <http://e/updated> }";
    succeeds(64, &["update", "-l", store, "-u", update]);
    count(RUNS + 2);
    let file = folder.path().join("more.nt");
    std::fs::write(&file, "<http://e/s> <http://e/p> <http://e/loaded> .\n").expect("written");
    succeeds(64, &["load", "-l", store, file.to_str().expect("text")]);
    count(RUNS + 3);
    let status = succeeds(64, &["compact", "--status", "-l", store]);
    let runs = status
        .lines()
        .filter(|line| line.starts_with("run "))
        .count();
    assert!((1..=32).contains(&runs), "{status}");
    // What is really too little is said to be.
    let output = limited(5, &["query", "-l", store, "-q", "ASK {}"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("ulimit -n"), "{errors}");
}

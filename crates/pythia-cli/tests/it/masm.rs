//! `pythia bench updates --masm` in small, and with arguments that make no sense.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn pythia() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pythia"))
}

fn small_store(folder: &Path) -> PathBuf {
    let store = folder.join("store");
    let mut command = pythia();
    command.args(["generate", "bsbm", "--products", "30", "-l"]);
    let made = command.arg(&store).output().expect("it starts");
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{text}");
    store
}

fn bench(folder: &Path, store: &Path, arguments: &[&str]) -> Output {
    let mut command = pythia();
    command.args(["bench", "updates", "--folder"]).arg(folder);
    command.arg("--store").arg(store).args(arguments);
    command.output().expect("it starts")
}

#[test]
fn scans_and_queries_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (store, work) = (small_store(folder.path()), folder.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let queries = folder.path().join("queries.jsonl");
    let query = r#"{"id": "types", "query": "SELECT * { ?s a ?type }"}"#;
    std::fs::write(&queries, query).unwrap();
    let page = folder.path().join("page.html");
    let arguments = [
        ["--queries", queries.to_str().unwrap()],
        ["--report", page.to_str().unwrap()],
        ["--parts", "changed,in-place"],
        ["--in-place-pages", "1"],
        ["--lengths", "10,100"],
        ["--memory", "2m"],
        ["--percent", "3"],
        ["--rounds", "1"],
        ["--each", "1"],
        ["--json", "-"],
    ];
    let arguments = [&["--masm"], &arguments.concat()[..]].concat();
    let measured = bench(&work, &store, &arguments);
    let text = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!(report["stores"][0]["memory"], "twice_root");
    let comparisons = report["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 4);
    let works = comparisons[0]["works"].as_array().unwrap();
    assert_eq!(works.last().unwrap()["name"], "types");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("cold: 3 % changed, memory 2M"), "{page}");
    let left = std::fs::read_dir(&work).unwrap();
    assert_eq!(left.count(), 0, "nothing is left behind");
}

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("none");
    for (arguments, expected) in [
        (&["--queries", "x.jsonl"][..], "--masm"),
        (&["--masm", "--load", "10"], "cannot be used with"),
        (
            &["--masm", "--memory", "3m"],
            "possible values: m, 2m, default",
        ),
        (&["--masm", "--rounds", "0"], "0 is not in 1..=10000"),
        (&["--masm", "--lengths", "200"], "at most 100 %"),
        (&["--masm", "--percent", "0"], "more than 0"),
    ] {
        let refused = bench(folder.path(), &store, arguments);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

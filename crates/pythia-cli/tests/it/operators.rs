//! `pythia bench operators` in small.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(folder: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    command.args(["bench", "operators", "--rounds", "1"]);
    command.args(["--device-seconds", "0.001", "--scan-size", "16M"]);
    command.arg("--folder").arg(folder).args(arguments);
    command.output().expect("it starts")
}

#[test]
fn a_part_is_measured_and_its_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--parts", "bloom", "--keys", "20000", "--filter-size", "1M"];
    let measured = bench(folder.path(), &[&small[..], &["--json", "-"]].concat());
    let text = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!(report["bloom"]["keys"], 20_000);
    assert_eq!(report["scan"], Value::Null);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn bad_sizes_are_refused_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let refused = bench(folder.path(), &["--parts", "bloom", "--filter-size", "3M"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("power of two"), "{text}");

    let little = [
        "--parts",
        "join",
        "--join-rows",
        "100000",
        "--join-memory",
        "9M",
    ];
    let failed = bench(folder.path(), &little);
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success(), "{text}");
    assert!(text.contains("bytes of memory are not enough"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

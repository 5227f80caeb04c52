//! `pythia bench meld` in small, and with arguments that make no sense.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SMALL: [&str; 10] = [
    "--items",
    "2000",
    "--transactions",
    "300",
    "--behind",
    "10",
    "--seconds",
    "0.02",
    "--executors",
    "2",
];

fn bench(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    command.args(["bench", "meld", "--folder"]).arg(folder);
    command.args(arguments).output().expect("it starts")
}

#[test]
fn executors_melder_and_single_writer_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--shapes", "1+1", "--conflicts", "0,10", "--json", "-"];
    let measured = bench(folder.path(), &[&SMALL[..], &arguments].concat());
    let text = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{text}");
    assert!(text.contains("1+1, serializable, 10 % conflicts"), "{text}");
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!(report["alone"][0]["aborted"], 0);
    assert_eq!(report["live"][0]["transactions"], 300);
    assert_eq!(report["writer"][1]["durable"], true);

    let arguments = ["--shapes", "1+1", "--conflicts", "0"];
    let shown = bench(folder.path(), &[&SMALL[..], &arguments].concat());
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("saturated by"), "{text}");
    let left = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 0, "nothing is left behind");
}

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (["--shapes", "8"], "such as 8+2"),
        (["--shapes", "8+0"], "8+0 writes nothing"),
        (["--conflicts", "100"], "less than 100"),
        (["--items", "500"], "at least 730 are needed"),
        (["--executors", "0"], "0 is not in 1..=1000"),
    ] {
        let refused = bench(folder.path(), &arguments);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

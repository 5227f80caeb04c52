//! `pythia bench ctdb` on a store that it makes, and on one that exists.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(store: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    command.args(["bench", "ctdb", "--queries", "1", "-l"]);
    command.arg(store).args(arguments);
    command.output().expect("it starts")
}

#[test]
fn a_store_is_made_with_triples_and_measured_without() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let page = folder.path().join("page.html");
    let page_argument = page.to_str().unwrap();
    let made = bench(
        &store,
        &[
            "--triples",
            "40000",
            "--json",
            "-",
            "--report",
            page_argument,
        ],
    );
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(report["load"]["triples"], 40_000);
    assert_eq!(report["store"]["properties"], 4000);
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .contains("Table 10. ")
    );

    let measured = bench(&store, &["--users", "2"]);
    let text = String::from_utf8_lossy(&measured.stdout);
    assert!(measured.status.success(), "{text}");
    assert!(text.contains("no load was measured"), "{text}");

    let refused = bench(&store, &["--triples", "40000"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{text}");
    assert!(text.contains("leave out --triples"), "{text}");
}

//! `pythia bench ipl` with few records.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    command.args(["bench", "ipl"]).args(arguments);
    command.output().expect("it starts")
}

#[test]
fn few_records_make_a_whole_report() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page_argument = page.to_str().unwrap();
    let records = ["--records", "5000", "--log-areas", "8K"];
    let arguments = [&records[..], &["--json", "-", "--report", page_argument]].concat();
    let made = bench(&arguments);
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(report["records"], 5000);
    assert_eq!(report["modelled"], true);
    assert_eq!(report["stores"].as_array().unwrap().len(), 4);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Figure 2"));

    let printed = bench(&records);
    let text = String::from_utf8_lossy(&printed.stdout);
    assert!(text.contains("for the product's runs"), "{text}");
}

#[test]
fn a_wrong_parameter_is_named() {
    let refused = bench(&["--records", "100", "--sectors", "100"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("a log sector has"),
        "{text}"
    );
}

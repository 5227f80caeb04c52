//! Messages and exit codes of the commands on a damaged log.

use std::fs;
use std::path::Path;

use crate::support::command;

/// Runs a command; returns its exit code and what it has printed.
fn pythia(arguments: &[&str], store: &Path) -> (Option<i32>, String) {
    let output = command(arguments).arg("-l").arg(store).output();
    let output = output.expect("pythia runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), printed)
}

fn store_with_commits(folder: &Path) {
    let data = folder.with_extension("nt");
    fs::write(&data, "<http://a> <http://b> <http://c> .\n").unwrap();
    let (code, out) = pythia(&["load", data.to_str().unwrap()], folder);
    assert_eq!(code, Some(0), "{out}");
    for number in 1..=3 {
        let update = format!("INSERT DATA {{ <http://a> <http://b> {number} }}");
        let (code, out) = pythia(&["update", "-u", &update], folder);
        assert_eq!(code, Some(0), "{out}");
    }
}

#[test]
fn a_damaged_log_is_told_with_how_to_go_on_and_in_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    store_with_commits(&store);
    let (code, out) = pythia(&["salvage"], &store);
    assert!(code == Some(0) && out.contains("sound"), "{out}");
    fs::remove_file(store.join("log/00-0000000003.log")).unwrap();

    let (code, out) = pythia(&["verify"], &store);
    assert!(code == Some(3) && out.contains("`pythia salvage`"), "{out}");
    let (code, out) = pythia(&["salvage"], &store);
    assert!(
        code == Some(3) && out.contains("00-0000000003.log"),
        "{out}"
    );
    assert!(out.contains("commit 3, and any after it"), "{out}");

    // Nothing shows any more that there was a third commit.
    fs::remove_file(store.join("LOG")).unwrap();
    let (code, out) = pythia(&["salvage"], &store);
    assert_eq!(code, Some(3), "{out}");
    let told = "no commit is known to be lost, but the record that would show it (LOG) is missing";
    assert!(out.contains(told), "{out}");
    assert!(!out.contains("no commit is lost"), "{out}");
    let (code, out) = pythia(&["query", "-q", "ASK {}"], &store);
    assert!(
        code == Some(3) && out.contains("LOG: it is missing"),
        "{out}"
    );
    let (code, out) = pythia(&["salvage", "--give-up"], &store);
    assert_eq!(code, Some(0), "{out}");
    let (code, out) = pythia(&["verify"], &store);
    assert_eq!(code, Some(0), "{out}");
}

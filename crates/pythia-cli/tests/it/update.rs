//! Options of `pythia update`.

use std::process::Command;

const TEXT: &str =
    "INSERT { <http://a> <http://b> 1 } WHERE { FILTER NOT EXISTS { ?x <http://b> 1 } }";

/// Runs a command; returns its exit code and what it has printed.
fn pythia(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    let output = command.args(arguments).output().expect("pythia runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), printed)
}

#[test]
fn an_update_can_be_serializable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        folder
            .path()
            .join(name)
            .to_str()
            .expect("a name")
            .to_owned()
    };
    let (data, store) = (path("a.nt"), path("store"));
    std::fs::write(&data, "<http://a> <http://b> <http://c> .\n").expect("written");
    let (code, out) = pythia(&["load", "-l", &store, &data]);
    assert_eq!(code, Some(0), "{out}");
    let update = |level| pythia(&["update", "-l", &store, "--isolation", level, "-u", TEXT]);
    for (level, expected) in [
        ("serializable", "1 quads added"),
        ("snapshot", "0 quads added"),
    ] {
        let (code, out) = update(level);
        assert!(code == Some(0) && out.contains(expected), "{out}");
    }
    let (code, out) = update("serialisable");
    assert!(code.is_some_and(|code| code > 0), "{out}");
    assert!(
        out.contains("write snapshot (the default) or serializable"),
        "{out}"
    );
}

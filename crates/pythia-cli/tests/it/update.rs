//! Options of `pythia update`.

use crate::support::run_with;

const TEXT: &str =
    "INSERT { <http://a> <http://b> 1 } WHERE { FILTER NOT EXISTS { ?x <http://b> 1 } }";

#[test]
fn an_update_can_be_serializable() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("a.nt");
    std::fs::write(&data, "<http://a> <http://b> <http://c> .\n").expect("written");
    let pythia = |arguments: &[&str]| {
        let outcome = run_with(folder.path(), arguments, b"");
        (outcome.code, outcome.out + &outcome.err)
    };
    let (code, out) = pythia(&["load", "-l", "store", "a.nt"]);
    assert_eq!(code, Some(0), "{out}");
    let update = |level| pythia(&["update", "-l", "store", "--isolation", level, "-u", TEXT]);
    for (level, expected) in [
        ("serializable", "1 quad added"),
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

//! Manual pages of all commands.

use std::fs;

use crate::support::succeeds;

#[test]
fn each_command_has_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    succeeds(folder.path(), &["manual", "man"]);
    let page = |name: &str| {
        let path = folder.path().join("man").join(format!("{name}.1"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(
        page("pythia").contains("pythia\\-load(1)"),
        "{}",
        page("pythia")
    );
    for (name, option) in [
        ("pythia-load", "lenient"),
        ("pythia-query", "explain"),
        ("pythia-bench-updates", "clients"),
    ] {
        let text = page(name);
        let title = format!(".TH {} 1 ", name.to_uppercase());
        assert!(text.contains(&title) && text.contains(option), "{text}");
    }
}

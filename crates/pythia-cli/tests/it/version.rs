//! `pythia --version`.

use std::process::Command;

#[test]
fn version_names_the_build_and_the_store_formats() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_pythia"));
    let output = program.arg("--version").output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let version = env!("CARGO_PKG_VERSION");
    assert!(text.starts_with(&format!("pythia {version} (")), "{text}");
    assert!(text.ends_with("store formats 1–8)\n"), "{text}");
}

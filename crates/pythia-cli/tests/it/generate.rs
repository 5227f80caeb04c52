//! `pythia generate` into a store.

use std::path::Path;
use std::process::{Command, Output};

fn generate(store: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    command.args(["generate", "bsbm", "--products", "20", "-l"]);
    command.arg(store).args(arguments);
    command.output().expect("it starts")
}

#[test]
fn a_store_is_generated_with_the_options_of_a_load() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (folder.path().join("store"), folder.path().join("other"));
    let tmp = folder.path().to_str().unwrap();
    let options = ["--memory", "64M", "--threads", "1", "--tmp", tmp, "--quiet"];
    let generated = generate(&store, &options);
    let text = String::from_utf8_lossy(&generated.stderr);
    assert!(generated.status.success(), "{text}");
    assert!(
        text.contains("loaded ") && text.contains("parse "),
        "{text}"
    );
    let failed = generate(&other, &["--memory", "much"]);
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(
        !failed.status.success() && text.contains("--memory"),
        "{text}"
    );
    assert!(!other.exists());
}

//! Finds the commit and the kind of build that `pythia --version` shows.
//!
//! Debug builds show no commit, so that a commit alone rebuilds nothing that tests use. Without a repository (a crate or an
//! archive of the sources), the variable `PYTHIA_COMMIT` can name the commit.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PYTHIA_COMMIT");
    let variable = |name| env::var(name).unwrap_or_default();
    let mut facts = Vec::new();
    if variable("PROFILE") == "debug" {
        facts.push("debug build".to_owned());
    } else {
        let named = env::var("PYTHIA_COMMIT").ok();
        facts.extend(named.or_else(commit_of_repository));
        if variable("OPT_LEVEL") != "3" {
            facts.push("quick build".to_owned());
        }
    }
    println!("cargo::rustc-env=PYTHIA_BUILD={}", facts.join(", "));
}

/// Returns the short name of the commit that is checked out; `None` outside Pythia's repository.
fn commit_of_repository() -> Option<String> {
    // A crate that Cargo unpacked may be below somebody else's repository.
    if git(&["rev-parse", "--show-prefix"])? != "crates/pythia-cli/" {
        return None;
    }
    // The log of HEAD grows with each commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=8", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

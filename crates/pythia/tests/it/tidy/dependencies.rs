//! Dependencies follow deny.toml: licences, sources, banned crates, and crates in two versions.
//!
//! cargo-deny reads the same file, but building it takes longer than all tests. Advisories need the network; a workflow
//! checks them every week. Licences are checked for the crates of this platform, which cargo has downloaded; the other
//! rules for all crates of Cargo.lock.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use super::root;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The tables of deny.toml that are checked here.
#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Listed>,
    skip: Vec<Listed>,
}

/// A crate by name, or by name and version (`base64@0.22.1`), and the reason why it is listed.
#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "crate")]
    spec: String,
    reason: String,
}

/// The licences of packaging/about.toml, for the licence report of a release.
#[derive(Deserialize)]
struct About {
    accepted: Vec<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

/// A crate of Cargo.lock. The workspace's own crates have no source.
#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

impl Locked {
    fn spec(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// The answer of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

fn deny() -> Deny {
    read("deny.toml")
}

fn lock() -> Vec<Locked> {
    read::<Lock>("Cargo.lock").package
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(root().join(name)).expect(name);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn metadata() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .args(["--filter-platform", "host-tuple"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("metadata as JSON");
    metadata.packages
}

/// Returns whether a licence expression (SPDX, or the older `MIT/Apache-2.0`) is satisfied by the allowed licences.
///
/// # Errors
/// If it is no licence expression, or names an unknown licence.
fn is_allowed(expression: &str, allowed: &[Licensee]) -> Result<bool, String> {
    let expression = Expression::parse_mode(expression, ParseMode::LAX);
    let expression = expression.map_err(|error| error.to_string())?;
    Ok(expression.evaluate(|needed| allowed.iter().any(|licence| licence.satisfies(needed))))
}

fn licensees(names: &[String]) -> Vec<Licensee> {
    let parsed = names.iter().map(|name| Licensee::parse(name).expect(name));
    parsed.collect()
}

/// Returns the crates that have several versions besides the listed ones, with these versions.
fn duplicates(lock: &[Locked], listed: &[Listed]) -> BTreeMap<String, Vec<String>> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in lock {
        if listed.iter().all(|listed| listed.spec != package.spec()) {
            let known = versions.entry(package.name.clone()).or_default();
            known.push(package.version.clone());
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

#[test]
fn licences_of_all_crates_are_allowed() {
    let allowed = licensees(&deny().licenses.allow);
    let mut wrong = Vec::new();
    for package in metadata() {
        let licence = package.license.as_deref().unwrap_or("");
        if is_allowed(licence, &allowed) != Ok(true) {
            wrong.push(format!("{} {}: {licence:?}", package.name, package.version));
        }
    }
    assert!(wrong.is_empty(), "not allowed: {}", wrong.join(", "));
}

#[test]
fn the_licence_report_allows_the_same_licences() {
    let about: About = read("packaging/about.toml");
    assert_eq!(about.accepted, deny().licenses.allow);
}

#[test]
fn licence_expressions_are_evaluated() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"];
    let allowed = licensees(&allowed.map(str::to_owned));
    for (expression, expected) in [
        ("MIT", Ok(true)),
        ("GPL-3.0-only", Ok(false)),
        ("MIT OR GPL-3.0-only", Ok(true)),
        ("MIT AND GPL-3.0-only", Ok(false)),
        ("GPL-2.0/MIT", Ok(true)),
        ("GPL-2.0 / LGPL-2.1", Ok(false)),
        ("(MIT OR GPL-3.0-only) AND ISC", Ok(true)),
        ("(MIT OR ISC) AND GPL-3.0-only", Ok(false)),
        ("MIT OR ISC AND GPL-3.0-only", Ok(true)),
        ("Apache-2.0 WITH LLVM-exception", Ok(true)),
        ("MIT WITH LLVM-exception", Ok(false)),
        ("GPL-2.0-only WITH Classpath-exception-2.0", Ok(false)),
        ("", Err(())),
        ("MIT OR", Err(())),
        ("MIT ISC", Err(())),
        ("(MIT", Err(())),
        ("Some-Own-Licence", Err(())),
    ] {
        let found = is_allowed(expression, &allowed).map_err(drop);
        assert_eq!(found, expected, "{expression:?}");
    }
}

#[test]
fn crates_come_from_the_workspace_or_from_crates_io() {
    let sources = lock().into_iter().filter_map(|package| {
        let source = package.source.clone()?;
        (source != CRATES_IO).then(|| format!("{}: {source}", package.spec()))
    });
    let wrong: Vec<String> = sources.collect();
    assert!(wrong.is_empty(), "{}", wrong.join(", "));
}

#[test]
fn banned_crates_are_absent() {
    let bans = deny().bans.deny;
    for package in lock() {
        let ban = bans.iter().find(|ban| ban.spec == package.name);
        let reason = ban.map(|ban| &ban.reason);
        assert_eq!(reason, None, "{} is banned", package.spec());
    }
}

#[test]
fn a_crate_has_two_versions_only_if_the_older_one_is_listed() {
    let lock = lock();
    let listed = deny().bans.skip;
    for skip in &listed {
        let known = lock.iter().any(|package| package.spec() == skip.spec);
        assert!(known, "deny.toml: {} is not in Cargo.lock", skip.spec);
        assert!(!skip.reason.is_empty(), "deny.toml: {}: why?", skip.spec);
    }
    let found = duplicates(&lock, &listed);
    assert!(found.is_empty(), "several versions: {found:?}");
}

#[test]
fn a_new_duplicate_is_found() {
    let package = |version: &str| Locked {
        name: "base64".to_owned(),
        version: version.to_owned(),
        source: None,
    };
    let skip = Listed {
        spec: "base64@0.22.1".to_owned(),
        reason: "old".to_owned(),
    };
    let lock = [package("0.22.1"), package("0.23.1")];
    assert!(duplicates(&lock, std::slice::from_ref(&skip)).is_empty());
    assert_eq!(duplicates(&lock, &[])["base64"], ["0.22.1", "0.23.1"]);
    let three = [package("0.21.0"), package("0.22.1"), package("0.23.1")];
    assert_eq!(duplicates(&three, &[skip])["base64"], ["0.21.0", "0.23.1"]);
}

#[test]
fn versions_of_dependencies_are_stated() {
    for package in metadata() {
        if package.source.is_some() {
            continue;
        }
        for dependency in package.dependencies {
            let stated = dependency.req != "*" || dependency.path.is_some();
            assert!(stated, "{}: {} = \"*\"", package.name, dependency.name);
        }
    }
}

//! A store of a later format is refused by every command, with both numbers, and stays as it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::command;

/// The format that the programs of these tests do not know, and the newest that they know.
const LATER: u32 = KNOWN + 1;
const KNOWN: u32 = *pythia::STORE_FORMATS.end();
/// The longest time that a command may take.
const LONG: Duration = Duration::from_secs(30);

/// Runs a command, which must end by itself.
fn pythia(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = command(arguments);
    command.current_dir(folder);
    let piped = std::process::Stdio::piped;
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(piped())
        .stderr(piped())
        .spawn()
        .expect("pythia runs");
    let until = Instant::now() + LONG;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > until {
            child.kill().expect("a child");
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child")
}

/// Returns the checksum of a manifest.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
    })
}

/// Makes the format of a store a later one, with a member that only later programs know.
fn make_later(store: &Path) {
    let path = store.join("MANIFEST");
    let text = fs::read_to_string(&path).expect("a manifest");
    let known = format!("\"format\":{KNOWN},");
    let later = format!("\"format\":{LATER},\"later\":[1],");
    assert!(text.contains(&known), "{text}");
    let text = text.replace(&known, &later);
    let lines: Vec<&str> = text.lines().take(2).collect();
    let body = lines.join("\n") + "\n";
    let checksum = crc32c(body.as_bytes());
    fs::write(path, format!("{body}{checksum:08x}\n")).expect("written");
}

/// Returns the bytes of all files of a folder, except for the empty files of locks.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_lock = ["LOCK", "WRITER"].iter().any(|name| path.ends_with(name));
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if is_lock => {}
            false => drop(found.insert(path.clone(), fs::read(&path).expect("a file"))),
        }
    }
    found
}

#[test]
fn every_command_refuses_a_store_of_a_later_format_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let quads = "<http://a> <http://b> <http://c> <http://g> .\n";
    fs::write(folder.join("data.nq"), quads).expect("written");
    let update = "INSERT DATA { <http://a> <http://b> 1 }";
    for arguments in [
        &["load", "-l", "store", "data.nq"][..],
        &["update", "-l", "store", "-u", update],
        &["backup", "-l", "store", "backup"],
    ] {
        let output = pythia(folder, arguments);
        assert!(output.status.success(), "{output:?}");
    }
    // The store, which later programs have written to, has a log.
    make_later(&folder.join("store"));
    let before = files(folder);
    let query = "SELECT * { ?s ?p ?o }";
    for arguments in [
        &["query", "-l", "store", "-q", query][..],
        &["load", "-l", "store", "data.nq"],
        &["update", "-l", "store", "-u", update],
        &["serve", "-l", "store", "-b", "127.0.0.1:0"],
        &["serve", "-l", "store", "-b", "127.0.0.1:0", "--read-only"],
        &["verify", "-l", "store"],
        &["stats", "-l", "store"],
        &["compact", "-l", "store"],
        &["compact", "-l", "store", "--status"],
        &["upgrade", "-l", "store"],
        &["optimize", "-l", "store"],
        &["optimize", "-l", "store", "--degrees"],
        &["optimize", "-l", "store", "--drop", "--all"],
        &["backup", "-l", "store", "backup"],
        &["backup", "-l", "store", "new-backup"],
        &["dump", "-l", "store"],
        &["log", "-l", "store"],
        &["log-folders", "-l", "store"],
        &["salvage", "-l", "store"],
        &["salvage", "-l", "store", "--give-up"],
    ] {
        let output = pythia(folder, arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        for part in [
            format!("format {LATER}"),
            format!("reads formats up to {KNOWN}"),
            "a later version".to_owned(),
        ] {
            assert!(printed.contains(&part), "{arguments:?}: {printed}");
        }
        assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
        assert!(files(folder) == before, "{arguments:?} has changed files");
    }
}

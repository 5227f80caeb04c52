//! A hundred rounds of each campaign of faults: what `pythia bench kills` and its like run by the thousand.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Runs a campaign; returns what it has counted.
fn nothing_is_lost(arguments: &[&str]) -> String {
    // In memory if that is possible: what is killed is a process, not the machine.
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    for (name, _) in std::env::vars() {
        if name.starts_with("PYTHIA_") {
            command.env_remove(name);
        }
    }
    command
        .arg("bench")
        .args(arguments)
        .arg("--folder")
        .arg(folder);
    let output = command.stdin(Stdio::null()).output().expect("pythia runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out
}

#[test]
fn kills_of_processes_and_servers_lose_nothing() {
    let out = nothing_is_lost(&[
        "kills",
        "--rounds",
        "104",
        "--http-every",
        "4",
        "--seed",
        "7",
    ]);
    assert!(out.contains("nothing lost in 104 rounds"), "{out}");
    // A short upgrade may end before it is killed.
    for kind in ["kills of processes", "kills of servers"] {
        assert!(out.contains(kind), "{out}");
    }
}

#[test]
fn power_cuts_lose_nothing() {
    let out = nothing_is_lost(&["power-cuts", "--rounds", "100", "--seed", "7"]);
    assert!(out.contains("nothing lost in 100 rounds"), "{out}");
}

#[test]
fn calls_that_fail_lose_nothing() {
    let out = nothing_is_lost(&["syscalls", "--rounds", "100", "--seed", "7"]);
    assert!(out.contains("nothing lost in 100 rounds"), "{out}");
}

#[test]
fn damages_are_named_or_do_no_harm() {
    let out = nothing_is_lost(&["damages", "--rounds", "100", "--seed", "7"]);
    assert!(out.contains("nothing lost in 100 rounds"), "{out}");
}

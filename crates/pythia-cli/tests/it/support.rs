//! Helpers of several tests.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pythia::{Database, Options, QueryError, StoreError};

/// Opens a store that this process has just closed. Another test may be starting a process: until that runs
/// its own program it has this process's locks.
pub(crate) fn open_once_unlocked(store: &Path, options: &Options) -> Database {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match Database::open_with(store, options.clone()) {
            Err(QueryError::Store(StoreError::Locked { .. } | StoreError::Writing { .. }))
                if Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("a store"),
        }
    }
}

/// Returns the command, without the variables of this process that would change what it does.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    for (name, _) in std::env::vars() {
        if name.starts_with("PYTHIA_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a command has done.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the command in a folder, with this standard input.
pub(crate) fn run_with(folder: &Path, arguments: &[&str], input: &[u8]) -> Outcome {
    let mut command = command(arguments);
    command.current_dir(folder).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("pythia runs");
    // A command that fails early does not read its input.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("pythia ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Outcome {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// Runs the command in a folder; returns what it prints to standard output.
pub(crate) fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let outcome = run_with(folder, arguments, b"");
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
    outcome.out
}

/// Runs the command in a folder; returns the exit code of a failure, and its message.
pub(crate) fn fails(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let outcome = run_with(folder, arguments, b"");
    match outcome.code {
        Some(code @ 1..=3) => (code, outcome.err),
        _ => panic!("{arguments:?}: {outcome:?}"),
    }
}

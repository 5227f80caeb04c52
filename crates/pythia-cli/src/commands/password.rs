//! `pythia password`: the hash of a password, for a server's configuration.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use crate::exit::UsageError;

/// Print the hash of a password for `password_hash` in a server's configuration
///
/// Prompts for the password, or reads it from the first line of the input:
///
///   pythia password < password.txt
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Password {}

impl Password {
    pub(crate) fn run(self) -> Result<()> {
        let password = match io::stdin().is_terminal() {
            true => asked()?,
            false => line()?,
        };
        let hash = pythia_server::hash_password(&password).map_err(UsageError)?;
        writeln!(io::stdout(), "{hash}")?;
        Ok(())
    }
}

/// Asks twice, without echoing the input.
fn asked() -> Result<String> {
    let _hidden = EchoOff::begin();
    eprint!("Password: ");
    let password = line()?;
    eprint!("\nRepeat the password: ");
    let again = line()?;
    eprintln!();
    if password != again {
        return Err(UsageError("the passwords differ".to_owned()).into());
    }
    Ok(password)
}

fn line() -> Result<String> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .context("read the password")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A terminal that does not echo the input.
struct EchoOff;

impl EchoOff {
    fn begin() -> Self {
        stty("-echo");
        Self
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        stty("echo");
    }
}

/// Changes a setting of the terminal. If the command `stty` is missing, the input is echoed.
fn stty(setting: &str) {
    let _ = Command::new("stty")
        .arg(setting)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

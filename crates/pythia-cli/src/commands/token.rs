//! `pythia token`: a bearer token, and what a server's configuration knows of it.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;

/// Make a bearer token: print it, and the `sha256` of it for a server's configuration
///
/// The first line goes to the program that uses it, and nowhere else; the second to the server.
#[derive(Args)]
pub(crate) struct Token {}

impl Token {
    pub(crate) fn run(self) -> Result<()> {
        let (token, sha256) = pythia_server::new_token();
        writeln!(io::stdout(), "token  = {token}\nsha256 = \"{sha256}\"")?;
        Ok(())
    }
}

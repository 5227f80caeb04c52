//! `pythia token`: a bearer token, and its hash for a server's configuration.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;

/// Create a bearer token, and print it with its `sha256` for a server's configuration
///
/// The first line is the secret of the client program. Only the second line goes to the server.
#[derive(Args)]
pub(crate) struct Token {}

impl Token {
    pub(crate) fn run(self) -> Result<()> {
        let (token, sha256) = pythia_server::new_token();
        writeln!(io::stdout(), "token  = {token}\nsha256 = \"{sha256}\"")?;
        Ok(())
    }
}

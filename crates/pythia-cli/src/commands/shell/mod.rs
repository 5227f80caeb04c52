//! `pythia shell`: queries and updates typed one after the other.
//!
//! [`editor`] reads a statement: lines with history and completion, until [`statement`] finds it complete. [`session`]
//! runs it.

mod editor;
mod session;
mod statement;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use self::editor::{Editor, Line};
use self::session::{Next, Session};
use crate::arguments::{LimitArguments, StoreArguments, time};

/// Query a store interactively
///
/// A statement ends where it is complete, or with an empty line. .help lists the shell's own commands. Tab completes
/// names, Ctrl-C stops a query, Ctrl-D ends the shell. Statements can also be piped in:
///
///   pythia shell -l yago.pythia < queries.rq
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Shell {
    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    limits: LimitArguments,

    /// Allow updates. Nobody else may have the store open for writing
    #[arg(long)]
    write: bool,

    /// Stop queries after this time (500ms, 30s, 5m)
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Make the default graph the union of all graphs, unless a query names its dataset
    #[arg(long)]
    union_default_graph: bool,
}

impl Shell {
    pub(crate) fn run(self) -> Result<()> {
        let database = Arc::new(match self.write {
            true => self.store.open_for_writing(&self.limits)?,
            false => self.store.open(&self.limits)?,
        });
        let mut session = Session::new(Arc::clone(&database), self.write);
        session.timeout = self.timeout;
        session.union_default_graph = self.union_default_graph;
        session.stop_with_ctrl_c()?;
        let is_interactive = io::stdin().is_terminal();
        let name = name_of(&self.store.location);
        let mut editor = Editor::new(database, session.prefixes(), &name)?;
        if is_interactive {
            println!("{}. Type a query, or .help", session.greeting());
        }
        let mut failed = None;
        loop {
            let next = match editor.read()? {
                Line::Statement(text) => session.run(&text),
                Line::Nothing => continue,
                Line::End => break,
            };
            match next {
                Ok(Next::Continue) => {}
                Ok(Next::Quit) => break,
                // A script stops at its first error; a person reads it and goes on.
                Err(error) if is_interactive => {
                    eprintln!("error: {}", crate::exit::message(&error))
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if is_interactive {
            editor.save();
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Returns the name of a store for the prompt.
fn name_of(location: &Path) -> String {
    let name = location.file_stem().unwrap_or(location.as_os_str());
    name.to_string_lossy().into_owned()
}

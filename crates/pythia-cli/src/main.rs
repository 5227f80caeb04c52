//! The `pythia` command: load, query, serve, inspect and benchmark a store.

mod allocator;
mod arguments;
mod commands;
mod exit;
mod output;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, Parser, Subcommand};

/// An RDF database for solid-state storage.
///
/// Load a graph once, then run SPARQL queries and path searches on it:
///
///   pythia load -l yago.pythia yago.nt.zst
///   pythia query -l yago.pythia -q 'SELECT * { ?s ?p ?o } LIMIT 10'
///
/// Exit codes: 0 success, 1 runtime error, 2 usage error, 3 data error (a syntax error in the
/// input, or a damaged store).
#[derive(Parser)]
#[command(name = "pythia", version = VERSION.as_str(), verbatim_doc_comment, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(commands::load::Load),
    Query(commands::query::Query),
    Update(commands::update::Update),
    Shell(commands::shell::Shell),
    Serve(commands::serve::Serve),
    Optimize(commands::optimize::Optimize),
    Compact(commands::compact::Compact),
    Upgrade(commands::upgrade::Upgrade),
    Log(commands::log::Log),
    LogFolders(commands::log_folders::LogFolders),
    Backup(commands::backup::Backup),
    Restore(commands::restore::Restore),
    Salvage(commands::salvage::Salvage),
    Stats(commands::stats::Stats),
    Password(commands::password::Password),
    Token(commands::token::Token),
    Verify(commands::verify::Verify),
    Dump(commands::dump::Dump),
    Convert(commands::convert::Convert),
    Generate(commands::generate::Generate),
    Probe(commands::probe::Probe),
    Bench(commands::bench::Bench),
    Ping(commands::ping::Ping),
    Manual(commands::manual::Manual),
    /// Print a shell completion script, for example: pythia completions bash > /etc/bash_completion.d/pythia
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Returns whether most of the work is to answer queries.
    fn answers_queries(&self) -> bool {
        matches!(
            self,
            Self::Query(_) | Self::Shell(_) | Self::Serve(_) | Self::Bench(_)
        )
    }
}

/// The version with the facts that tell builds and their stores apart: `0.1.0 (a1b2c3d4, store formats 1–5)`.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (oldest, newest) = pythia::STORE_FORMATS.into_inner();
    let mut facts = vec![env!("PYTHIA_BUILD").to_owned()];
    facts.retain(|fact| !fact.is_empty());
    facts.push(format!("store formats {oldest}–{newest}"));
    format!("{} ({})", env!("CARGO_PKG_VERSION"), facts.join(", "))
});

fn main() -> ExitCode {
    let command = Cli::parse_from(commands::query::join_explain(std::env::args_os())).command;
    allocator::keep_freed_memory(command.answers_queries());
    // A store and its clients may need more file descriptors than the usual 1,024.
    pythia_io::raise_descriptors_max();
    let result = match command {
        Command::Load(command) => command.run(),
        Command::Query(command) => command.run(),
        Command::Update(command) => command.run(),
        Command::Shell(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Optimize(command) => command.run(),
        Command::Compact(command) => command.run(),
        Command::Upgrade(command) => command.run(),
        Command::Log(command) => command.run(),
        Command::LogFolders(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Restore(command) => command.run(),
        Command::Salvage(command) => command.run(),
        Command::Stats(command) => command.run(),
        Command::Password(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Dump(command) => command.run(),
        Command::Convert(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Probe(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Ping(command) => command.run(),
        Command::Manual(command) => command.run(Cli::command()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "pythia", &mut script);
            io::stdout().write_all(&script).map_err(Into::into)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

//! Runs what was typed, and keeps the settings between statements.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use pythia::completion::CompletionContext;
use pythia::{Database, HttpService, QueryError, QueryOptions, UpdateOptions, well_known_prefixes};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use super::statement::Kind;
use crate::arguments::counted;
use crate::commands::query::{Explain, Format, print_plan, show_results};
use crate::commands::update::summary;
use crate::exit::UsageError;

/// The shell's own commands, with their arguments and what they do.
pub(super) const COMMANDS: [(&str, &str, &str); 8] = [
    (
        ".explain",
        "off | text | json | analyze | analyze-json",
        "show plans instead of results",
    ),
    (
        ".format",
        "table | csv | tsv | json | …",
        "format of results",
    ),
    (".help", "", "show this list"),
    (
        ".prefixes",
        "",
        "list the prefixes that need no declaration",
    ),
    (".quit", "", "end the shell, as Ctrl-D does"),
    (
        ".read",
        "FILE",
        "run the statements of a file, separated by lines of ;;",
    ),
    (".stats", "", "show how much the store contains"),
    (".timeout", "off | TIME", "stop queries after this time"),
];

/// Exit code of a process that Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// What follows a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Quit,
}

/// Prefixes that need no declaration: the usual ones, and those declared in the session.
#[derive(Default)]
pub(super) struct Prefixes(BTreeMap<String, String>);

impl Prefixes {
    fn new() -> Self {
        let usual = well_known_prefixes().iter();
        Self(
            usual
                .map(|(name, iri)| ((*name).to_owned(), (*iri).to_owned()))
                .collect(),
        )
    }

    /// Returns declarations, in one line, of the prefixes that a text uses without declaring them. Empty if there are none.
    pub(super) fn declarations(&self, text: &str) -> String {
        let declared = CompletionContext::at(text, 0).prefixes;
        let is_missing = |name: &&String| {
            text.contains(&format!("{name}:")) && declared.iter().all(|(known, _)| known != *name)
        };
        self.written(self.0.keys().filter(is_missing))
    }

    /// Returns the declarations of all prefixes, in one line.
    pub(super) fn all(&self) -> String {
        self.written(self.0.keys())
    }

    fn written<'p>(&'p self, names: impl Iterator<Item = &'p String>) -> String {
        let declare = |name: &String| format!("PREFIX {name}: <{}> ", self.0[name]);
        let mut line: String = names.map(declare).collect();
        if !line.is_empty() {
            line.push('\n');
        }
        line
    }
}

/// A database with the settings of a session.
pub(super) struct Session {
    database: Arc<Database>,
    prefixes: Rc<RefCell<Prefixes>>,
    may_write: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) union_default_graph: bool,
    format: Option<Format>,
    explain: Option<Explain>,
    cancel: Arc<AtomicBool>,
}

impl Session {
    pub(super) fn new(database: Arc<Database>, may_write: bool) -> Self {
        Self {
            database,
            prefixes: Rc::new(RefCell::new(Prefixes::new())),
            may_write,
            timeout: None,
            union_default_graph: false,
            format: None,
            explain: None,
            cancel: Arc::default(),
        }
    }

    /// Makes Ctrl-C stop the running statement; pressed again before that stops, it ends the process.
    pub(super) fn stop_with_ctrl_c(&self) -> Result<()> {
        let flag = || Arc::clone(&self.cancel);
        flag::register_conditional_shutdown(SIGINT, INTERRUPTED, flag())
            .and_then(|_| flag::register(SIGINT, flag()))
            .context("handle Ctrl-C")?;
        Ok(())
    }

    pub(super) fn prefixes(&self) -> Rc<RefCell<Prefixes>> {
        Rc::clone(&self.prefixes)
    }

    /// Says how much the store contains.
    pub(super) fn greeting(&self) -> String {
        let snapshot = self.database.snapshot();
        let statistics = snapshot.statistics();
        let predicates = statistics.predicates.len() as u64;
        let quads = counted(statistics.quads, "quad");
        format!("{quads} with {}", counted(predicates, "predicate"))
    }

    /// Runs a statement or a command of the shell.
    pub(super) fn run(&mut self, text: &str) -> Result<Next> {
        self.cancel.store(false, Ordering::Relaxed);
        match Kind::of(text) {
            Kind::Command => return self.command(text.trim()),
            Kind::Prefixes => self.declare(text),
            Kind::Query => self.query(text)?,
            Kind::Update => self.update(text)?,
        }
        Ok(Next::Continue)
    }

    fn declare(&self, text: &str) {
        let declared = CompletionContext::at(text, 0).prefixes;
        self.prefixes.borrow_mut().0.extend(declared);
    }

    fn options(&self) -> QueryOptions {
        QueryOptions {
            timeout: self.timeout,
            explain: self.explain.is_some(),
            profile: self.explain.is_some_and(Explain::runs),
            union_default_graph: self.union_default_graph,
            service: Some(Arc::new(HttpService::default())),
            cancel: Some(Arc::clone(&self.cancel)),
            ..QueryOptions::default()
        }
    }

    fn query(&self, text: &str) -> Result<()> {
        let declared = self.prefixes.borrow().declarations(text);
        let whole = format!("{declared}{text}");
        let options = self.options();
        let started = Instant::now();
        let parsed = self.database.parse_query(&whole, None, &options);
        let parsed = parsed.map_err(|error| placed(error, &declared, text))?;
        let prepared = self.database.prepare_parsed(&parsed, &options)?;
        if let Some(explain) = self.explain {
            return print_plan(&prepared, explain);
        }
        let results = prepared.execute()?;
        // All prefixes of the session shorten names.
        let prefixes = format!("{}{text}", self.prefixes.borrow().all());
        show_results(results, self.format, &prefixes, started)?;
        for warning in prepared.warnings() {
            eprintln!("warning: {warning}");
        }
        Ok(())
    }

    fn update(&self, text: &str) -> Result<()> {
        if !self.may_write {
            let message = "the store is open for reading; start the shell with --write for updates";
            return Err(UsageError(message.to_owned()).into());
        }
        let declared = self.prefixes.borrow().declarations(text);
        let whole = format!("{declared}{text}");
        let options = UpdateOptions {
            query: self.options(),
            ..UpdateOptions::default()
        };
        let parsed = self.database.parse_update(&whole, None, &options.query);
        let parsed = parsed.map_err(|error| placed(error, &declared, text))?;
        let started = Instant::now();
        let report = self.database.update_parsed(&parsed, &options, None)?;
        println!("{}", summary(&report, started.elapsed()));
        for warning in &report.warnings {
            eprintln!("warning: {warning}");
        }
        Ok(())
    }

    fn command(&mut self, text: &str) -> Result<Next> {
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        match name {
            ".quit" | ".exit" => return Ok(Next::Quit),
            ".help" => help(),
            ".prefixes" => {
                for (name, iri) in &self.prefixes.borrow().0 {
                    println!("PREFIX {name}: <{iri}>");
                }
            }
            ".stats" => println!("{}", self.greeting()),
            ".read" => return self.read(Path::new(argument)),
            ".format" => self.format = Some(choice(name, argument)?),
            ".explain" if argument == "off" => self.explain = None,
            ".explain" => self.explain = Some(choice(name, argument)?),
            ".timeout" if argument == "off" => self.timeout = None,
            ".timeout" => {
                let time = crate::arguments::time(argument).map_err(UsageError)?;
                self.timeout = Some(time);
            }
            _ => {
                let message = format!("{name} is no command of the shell; .help lists them");
                return Err(UsageError(message).into());
            }
        }
        Ok(Next::Continue)
    }

    /// Runs the statements of a file.
    fn read(&mut self, file: &Path) -> Result<Next> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        for statement in text.split("\n;;\n") {
            if !statement.trim().is_empty() && self.run(statement)? == Next::Quit {
                return Ok(Next::Quit);
            }
        }
        Ok(Next::Continue)
    }
}

/// Returns the value with this name.
fn choice<T: ValueEnum>(command: &str, argument: &str) -> Result<T> {
    T::from_str(argument, true).map_err(|_| {
        let values = T::value_variants().iter();
        let names =
            values.filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()));
        let names: Vec<String> = names.collect();
        UsageError(format!("{command} takes one of {}", names.join(", "))).into()
    })
}

fn help() {
    for (name, argument, what) in COMMANDS {
        println!("{:<10} {argument:<44} {what}", name);
    }
    println!("Everything else is SPARQL. An empty line ends a statement that has an error.");
}

/// Shows the line of a syntax error, without the line of declarations that was put before the text.
fn placed(mut error: QueryError, declared: &str, text: &str) -> anyhow::Error {
    if let QueryError::Syntax { line, .. } = &mut error {
        *line = line.saturating_sub(declared.lines().count()).max(1);
    }
    if let Some(snippet) = error.snippet(text) {
        eprintln!("{snippet}");
    }
    error.into()
}

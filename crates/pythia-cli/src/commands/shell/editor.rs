//! Reads statements from a terminal or a pipe.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pythia::Database;
use pythia_server::Completer;
use rustyline::completion::{Completer as Completing, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Helper};

use super::session::{COMMANDS, Prefixes};
use super::statement::is_complete;

/// The longest time that a person waits for suggestions.
const SUGGESTIONS_TIME: Duration = Duration::from_millis(500);
/// Statements that are kept.
const HISTORY_MAX: usize = 1000;

/// What was typed.
pub(super) enum Line {
    Statement(String),
    /// Nothing, or something that was given up with Ctrl-C.
    Nothing,
    End,
}

/// Reads statements, with the history of earlier sessions.
pub(super) struct Editor {
    editor: rustyline::Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
    prompt: String,
}

impl Editor {
    /// Makes an editor that completes with the terms of a database.
    pub(super) fn new(
        database: Arc<Database>,
        prefixes: Rc<RefCell<Prefixes>>,
        name: &str,
    ) -> Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_MAX)?
            .history_ignore_dups(true)?
            .auto_add_history(true)
            .build();
        let mut editor = rustyline::Editor::with_config(config)?;
        editor.set_helper(Some(Assistant {
            completer: Completer::new(database),
            prefixes,
        }));
        let history = history_file();
        if let Some(history) = &history {
            // There is none at first.
            let _ = editor.load_history(history);
        }
        Ok(Self {
            editor,
            history,
            prompt: format!("{name}> "),
        })
    }

    /// Reads the next statement.
    pub(super) fn read(&mut self) -> Result<Line> {
        match self.editor.readline(&self.prompt) {
            Ok(text) if text.trim().is_empty() => Ok(Line::Nothing),
            Ok(text) => Ok(Line::Statement(text)),
            Err(ReadlineError::Interrupted) => Ok(Line::Nothing),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps the statements for later sessions. A history that cannot be written is no error.
    pub(super) fn save(&mut self) {
        if let Some(history) = &self.history {
            let folder = history.parent().map(std::fs::create_dir_all);
            if folder.is_some_and(|made| made.is_ok()) {
                let _ = self.editor.append_history(history);
            }
        }
    }
}

/// Returns the file of the history: that of `PYTHIA_HISTORY`, or one in the user's folder of states. None if it is
/// empty, or the user has no such folder.
fn history_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("PYTHIA_HISTORY") {
        return (!file.is_empty()).then(|| file.into());
    }
    let folder = |name| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let states = folder("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(folder("HOME")?).join(".local/state")));
    Some(states?.join("pythia/history"))
}

/// Completes names and tells complete statements.
struct Assistant {
    completer: Completer,
    prefixes: Rc<RefCell<Prefixes>>,
}

impl Helper for Assistant {}
impl Highlighter for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let declared = self.prefixes.borrow().declarations(context.input());
        Ok(match is_complete(context.input(), &declared) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completing for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if line.starts_with('.') {
            let typed = &line[..position];
            let fitting = COMMANDS.iter().map(|(name, ..)| *name);
            let fitting = fitting.filter(|name| name.starts_with(typed));
            return Ok((0, fitting.map(|name| pair(name, name)).collect()));
        }
        let declared = self.prefixes.borrow().all();
        let whole = format!("{declared}{line}");
        let cursor = declared.len() + position;
        let Ok(found) = self.completer.complete(&whole, cursor, SUGGESTIONS_TIME) else {
            return Ok((position, Vec::new()));
        };
        let mut known = HashSet::new();
        let items = found.items.iter();
        let items = items.filter(|item| known.insert(item.insert.clone()));
        let pairs = items.map(|item| match &item.label {
            Some(label) => pair(&format!("{} ({label})", item.insert), &item.insert),
            None => pair(&item.insert, &item.insert),
        });
        Ok((
            found.span.start.saturating_sub(declared.len()),
            pairs.collect(),
        ))
    }
}

fn pair(display: &str, replacement: &str) -> Pair {
    Pair {
        display: display.to_owned(),
        replacement: replacement.to_owned(),
    }
}

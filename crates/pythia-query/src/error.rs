//! What can go wrong between a query's text and its results.

use std::path::PathBuf;

/// An error of a query.
///
/// An error *inside* an expression (`1 / 0`, `STR` of a blank node) is not one of these: SPARQL
/// makes it an unbound variable or a false filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The text is not a query.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What was expected.
        message: String,
    },

    /// The query asks for something that is not there, or not yet.
    #[error("{what} is not supported{}", hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    Unsupported {
        /// The construct, as it is written in a query.
        what: String,
        /// What to do instead.
        hint: Option<String>,
    },

    /// The store failed.
    #[error(transparent)]
    Store(#[from] pythia_store::StoreError),

    /// The query was stopped from outside.
    #[error("the query was cancelled")]
    Cancelled,

    /// The query ran past its deadline.
    #[error("the query ran past its time limit; raise --timeout, or ask for less")]
    Timeout,

    /// The query needs more memory than it may have, even after writing to files what can be.
    #[error(
        "the query needs more memory than it may have ({0}); raise --memory, or the query's own limit"
    )]
    Memory(String),

    /// A path search cannot go on: an edge has no usable weight, or there are endlessly many paths.
    #[error("path search: {0}")]
    Path(String),

    /// Another endpoint failed (`SERVICE`).
    #[error("SERVICE {endpoint}: {message}")]
    Service {
        /// The endpoint.
        endpoint: String,
        /// What went wrong.
        message: String,
    },

    /// Another endpoint may not be asked (`SERVICE`).
    #[error("SERVICE {endpoint}: {message}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// Why not.
        message: String,
    },

    /// LOAD failed.
    #[error("LOAD <{iri}>: {message}")]
    Load {
        /// What was to be loaded.
        iri: String,
        /// What went wrong.
        message: String,
    },

    /// An operation of an update needs a graph that is not there, or makes one that is.
    #[error("line {line}: {message}")]
    Graph {
        /// Where the operation starts.
        line: usize,
        /// What is wrong.
        message: String,
    },

    /// An update would change a graph that it may not. Nothing of the operation was done.
    #[error("{what} may not be changed with the rights this request has")]
    Forbidden {
        /// The graph, or which graphs.
        what: String,
    },

    /// What a transaction has changed, which is in memory until it is committed, does not fit.
    #[error(
        "the transaction's changes need more memory than there is ({0}); raise --memory, or commit in smaller parts"
    )]
    Changes(String),

    /// An update in a transaction has failed before, and may have been done by half.
    #[error("an update in this transaction has failed: roll it back, and do all of it again")]
    Aborted,

    /// Rows that do not fit into memory could not be put into a file.
    #[error(
        "the query needs temporary files in {}: {message}; give it a folder with space (--spill-folder, --spill-limit) or more memory (--memory)",
        folder.display()
    )]
    Spill {
        /// Where the files are made.
        folder: PathBuf,
        /// What went wrong.
        message: String,
    },

    /// The query has more results than it may give. Those it may give were given.
    #[error(
        "the query has more than the {0} results it may give; raise --max-rows, or add a LIMIT"
    )]
    RowLimit(u64),

    /// The execution engine failed.
    #[error("execution failed: {0}")]
    Execution(String),
}

impl QueryError {
    /// Whether the same transaction may succeed if it is run again: another one has changed the same
    /// quads meanwhile.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_retryable())
    }

    /// The line of the query that a syntax error is in, and a caret under the place.
    pub fn snippet(&self, query: &str) -> Option<String> {
        /// Characters shown before and after the place.
        const BEFORE: usize = 60;
        const AFTER: usize = 40;
        let Self::Syntax { line, column, .. } = self else {
            return None;
        };
        let source = query.split('\n').nth(line - 1)?;
        let from = (column - 1).saturating_sub(BEFORE);
        let window: String = source
            .chars()
            .skip(from)
            .take(column + AFTER - from)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let number = line.to_string();
        let (margin, caret) = (" ".repeat(number.len()), " ".repeat(column - 1 - from));
        Some(format!(
            "{number} | {}\n{margin} | {caret}^",
            window.trim_end()
        ))
    }

    /// A [`QueryError::Unsupported`] without a hint.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            hint: None,
        }
    }

    /// A [`QueryError::Unsupported`] that says what to do instead.
    pub fn unsupported_hint(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            hint: Some(hint.into()),
        }
    }
}

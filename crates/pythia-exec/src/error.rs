//! Errors of queries and updates.

use std::path::PathBuf;

use pythia_rdf::snippet;
use pythia_sparql::SparqlError;
use pythia_store::StoreError;

/// An error of a query or update.
///
/// An error *inside* an expression (`1 / 0`, `STR` of a blank node) is not one of these: in SPARQL it leaves
/// a variable unbound or makes a filter false.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The text is not a valid query.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The expected syntax.
        message: String,
    },

    /// The query uses a feature that is not supported.
    #[error("{what} is not supported{}", hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    Unsupported {
        /// The construct as written in a query.
        what: String,
        /// An alternative.
        hint: Option<String>,
    },

    /// The store reported an error.
    #[error(transparent)]
    Store(StoreError),

    /// The query was cancelled by its caller.
    #[error("the query was cancelled")]
    Cancelled,

    /// The query exceeded its time limit.
    #[error("the query exceeded its time limit; raise --timeout or make the query cheaper")]
    Timeout,

    /// The query needs more memory than its limit, even after spilling.
    #[error("the query exceeded its memory limit ({0}); raise --memory or the query's own limit")]
    Memory(String),

    /// A plan cannot be written, or bytes cannot be read as a plan.
    #[error("plan: {0}")]
    Plan(String),

    /// A path search cannot continue: an edge has no usable weight, or there are infinitely many paths.
    #[error("path search: {0}")]
    Path(String),

    /// A remote endpoint failed (`SERVICE`).
    #[error("SERVICE {endpoint}: {message}")]
    Service {
        /// The endpoint.
        endpoint: String,
        /// The cause.
        message: String,
    },

    /// A remote endpoint is not allowed (`SERVICE`).
    #[error("SERVICE {endpoint}: {message}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        message: String,
    },

    /// LOAD failed.
    #[error("LOAD <{iri}>: {message}")]
    Load {
        /// IRI of the document.
        iri: String,
        /// The cause.
        message: String,
    },

    /// An operation of an update needs a graph that does not exist, or creates one that exists.
    #[error("line {line}: {message}")]
    Graph {
        /// Line on which the operation starts.
        line: usize,
        /// The cause.
        message: String,
    },

    /// An update would change a graph that it may not write to. Nothing of the operation was done.
    #[error("no permission to change {what}")]
    Forbidden {
        /// The graph or graphs.
        what: String,
    },

    /// The uncommitted changes of a transaction, which are kept in memory, exceed the budget.
    #[error(
        "the transaction's changes exceed the memory limit ({0}); raise --memory or commit in smaller parts"
    )]
    Changes(String),

    /// An earlier update in the transaction failed and may be half done.
    #[error("an update in this transaction has failed; roll it back and repeat all of it")]
    Aborted,

    /// Rows that do not fit into memory could not be written to a temporary file.
    #[error(
        "cannot use temporary files in {}: {message}; choose a folder with free space (--spill-folder), or raise --spill-limit or --memory",
        folder.display()
    )]
    Spill {
        /// Folder of the temporary files.
        folder: PathBuf,
        /// The cause.
        message: String,
    },

    /// The query has more results than its limit. All results up to the limit were returned.
    #[error("the query has more results than its limit of {0}; raise --max-rows or add a LIMIT")]
    RowLimit(u64),

    /// The execution runtime reported an error.
    #[error("execution failed: {0}")]
    Execution(String),
}

impl QueryError {
    /// Returns the request of memory that was refused, or the message of another error.
    pub(crate) fn into_request(self) -> String {
        match self {
            Self::Memory(request) => request,
            other => other.to_string(),
        }
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoRoom { message } => Self::Memory(message),
            other => Self::Store(other),
        }
    }
}

impl From<SparqlError> for QueryError {
    fn from(error: SparqlError) -> Self {
        match error {
            SparqlError::Syntax {
                line,
                column,
                message,
            } => Self::Syntax {
                line,
                column,
                message,
            },
            SparqlError::Unsupported { what, hint } => Self::Unsupported { what, hint },
            SparqlError::Path(message) => Self::Path(message),
            SparqlError::Cancelled => Self::Cancelled,
            SparqlError::Timeout => Self::Timeout,
            SparqlError::Memory(message) => Self::Memory(message),
        }
    }
}

impl QueryError {
    /// Returns whether the same transaction may succeed on a retry, because it conflicted with another one.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_retryable())
    }

    /// Returns the line of the query that has the syntax error, with a caret under the position.
    pub fn snippet(&self, query: &str) -> Option<String> {
        match self {
            Self::Syntax { line, column, .. } => snippet(query, *line, *column),
            _ => None,
        }
    }

    /// Creates a [`QueryError::Unsupported`] without a hint.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            hint: None,
        }
    }

    /// Creates a [`QueryError::Unsupported`] with an alternative.
    pub fn unsupported_hint(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            hint: Some(hint.into()),
        }
    }
}

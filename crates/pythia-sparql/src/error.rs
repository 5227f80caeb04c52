//! Errors of parsing.

use pythia_rdf::snippet;

/// An error in the text of a query or update, or a limit that parsing exceeded.
///
/// Exhaustive, so that the errors of a caller cover every case.
#[derive(Debug, thiserror::Error)]
pub enum SparqlError {
    /// The text is not valid SPARQL.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The expected syntax.
        message: String,
    },

    /// The text uses a feature that is not supported.
    #[error("{what} is not supported{}", hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    Unsupported {
        /// The construct as written in a query.
        what: String,
        /// An alternative.
        hint: Option<String>,
    },

    /// A path search that would not end.
    #[error("path search: {0}")]
    Path(String),

    /// Parsing was cancelled by its caller.
    #[error("the query was cancelled")]
    Cancelled,

    /// Parsing exceeded the time limit.
    #[error("the query exceeded its time limit")]
    Timeout,

    /// The parsed text would need more memory than its limit.
    #[error("the query exceeded its memory limit ({0})")]
    Memory(String),
}

impl SparqlError {
    /// Returns the line of the text that has the syntax error, with a caret under the position.
    pub fn snippet(&self, text: &str) -> Option<String> {
        match self {
            Self::Syntax { line, column, .. } => snippet(text, *line, *column),
            _ => None,
        }
    }
}

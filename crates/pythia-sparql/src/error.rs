//! Errors of parsing.

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

/// Returns a line of a text, with a caret under the column. Both count from 1.
pub fn snippet(text: &str, line: usize, column: usize) -> Option<String> {
    /// Characters shown before and after the position.
    const BEFORE: usize = 60;
    const AFTER: usize = 40;
    let source = text.split('\n').nth(line - 1)?;
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

//! Writers of results in common formats, as the results are computed.
//!
//! Text and graphs are written batch by batch. Arrow and Parquet need the type of every column before the
//! first row, so their solutions are first written to a temporary file, with eight bytes per term
//! ([`columns`] defines the types). Memory does not grow with the result in any format.

mod columns;
mod dot;
mod format;
mod json;
mod native;
mod shared;
mod text;

use std::io::{self, Write};

use pythia_query::{QueryError, Results};

pub use columns::record_batches;
pub use format::ResultFormat;
pub use json::term as write_json_term;

use format::Kind;
pub(crate) use shared::Shared;
pub(crate) use text::{check_terms, has_texts};

/// The error of writing results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The query failed before anything was written.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The query failed after some of its results were written.
    #[error("the output is cut after {rows} results")]
    Cut {
        /// Number of solutions or triples written.
        rows: u64,
        /// The error that ended the results.
        #[source]
        error: QueryError,
    },
    /// The output failed.
    #[error("write results: {0}")]
    Io(#[from] io::Error),
    /// Some quads are in named graphs, which the format cannot hold. Nothing was written.
    #[error("{format} cannot hold named graphs, and the store has some; use .trig or .nq")]
    NamedGraphs {
        /// The requested format.
        format: &'static str,
    },
    /// The format is for another kind of result.
    #[error("{} cannot hold {result}; use {instead}", format.name())]
    Format {
        /// The requested format.
        format: ResultFormat,
        /// The query's kind of result.
        result: &'static str,
        /// Formats that can hold it.
        instead: &'static str,
    },
    /// A term has a character that XML cannot represent, even escaped. The output is cut.
    #[error("XML cannot hold the character U+{:04X} of {term}; use another format", *character as u32)]
    Character {
        /// The character.
        character: char,
        /// The term, in N-Triples syntax.
        term: String,
    },
}

impl WriteError {
    fn cut(rows: u64, error: QueryError) -> Self {
        Self::Cut { rows, error }
    }

    /// Returns the error after some results were written.
    pub(crate) fn after(self, written: WriteReport) -> Self {
        match self {
            Self::Query(error) if written.rows > 0 => Self::cut(written.rows, error),
            error => error,
        }
    }
}

/// The result of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Number of solutions or triples.
    pub rows: u64,
}

/// Writes results to the end, batch by batch. After an error the output is cut, and the error is returned:
/// callers must not present the output as complete.
pub fn write_results(
    results: Results,
    format: ResultFormat,
    out: impl Write + Send,
) -> Result<WriteReport, WriteError> {
    let wrong = |result, instead| {
        Err(WriteError::Format {
            format,
            result,
            instead,
        })
    };
    match (results, format.kind()) {
        (Results::Solutions(solutions), Kind::Text(format)) => {
            text::write_solutions(solutions, format, out)
        }
        (Results::Solutions(solutions), Kind::Arrow) => columns::write_arrow(solutions, out),
        // A Parquet file stores its number of rows in its columns, so without columns it has no rows.
        (Results::Solutions(solutions), Kind::Parquet) if solutions.variables().is_empty() => {
            wrong("a table without columns", "json, xml, csv, tsv or arrow")
        }
        (Results::Solutions(solutions), Kind::Parquet) => columns::write_parquet(solutions, out),
        (Results::Solutions(solutions), Kind::Dot) => dot::write_dot(solutions, out),
        (Results::Solutions(_), Kind::Graph(_)) => wrong("a table", ResultFormat::TABLES),
        (Results::Boolean(value), Kind::Text(format)) => text::write_boolean(value, format, out),
        (Results::Boolean(value), Kind::Arrow) => columns::write_arrow_boolean(value, out),
        (Results::Boolean(value), Kind::Parquet) => columns::write_parquet_boolean(value, out),
        (Results::Boolean(_), Kind::Graph(_) | Kind::Dot) => {
            wrong("an ASK's answer", ResultFormat::TABLES)
        }
        (Results::Graph(triples), Kind::Graph(format)) => text::write_graph(triples, format, out),
        (Results::Graph(_), _) => wrong("a graph", ResultFormat::GRAPHS),
    }
}

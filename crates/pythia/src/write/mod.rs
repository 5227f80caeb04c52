//! Writing results in the formats of the ecosystem, as they are computed.
//!
//! Text and graphs leave batch by batch. Arrow and Parquet need to know the type of every column
//! before the first row, so their solutions are first kept in a temporary file, eight bytes a term
//! ([`columns`] says which types there are). Memory does not grow with the result in any format.

mod columns;
mod dot;
mod format;
mod json;
mod native;
mod text;

use std::io::{self, Write};

use pythia_query::{QueryError, Results};

pub use format::ResultFormat;
pub use json::term as write_json_term;

use format::Kind;
pub(crate) use text::check_triple_terms;

/// Why results could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The query failed before anything was written.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The query failed when part of its results was written.
    #[error("the output is cut after {rows} results")]
    Cut {
        /// Solutions or triples written.
        rows: u64,
        /// Why there are no more.
        #[source]
        error: QueryError,
    },
    /// The output failed.
    #[error("write results: {0}")]
    Io(#[from] io::Error),
    /// Some quads are in named graphs, which the format cannot hold. Nothing was written.
    #[error("{format} cannot hold named graphs, and the store has some; use .trig or .nq")]
    NamedGraphs {
        /// The format asked for.
        format: &'static str,
    },
    /// The format is for another kind of result.
    #[error("{} cannot hold {result}; use {instead}", format.name())]
    Format {
        /// The format asked for.
        format: ResultFormat,
        /// What the query gives.
        result: &'static str,
        /// What can hold it.
        instead: &'static str,
    },
    /// A term has a character that XML cannot hold in any spelling. What was written is cut.
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
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Solutions or triples.
    pub rows: u64,
}

/// Writes results to the end, batch by batch. In case of an error the output is cut, and the
/// error is returned: callers must not present it as whole.
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
        // A Parquet file counts the rows of its columns, so without columns it has none.
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

//! Writing results in the formats of the ecosystem, as they are computed.

use std::io::{self, Write};

use oxrdfio::{RdfFormat, RdfSerializer};
use pythia_query::{QueryError, Results, SolutionStream, TripleStream};
use sparesults::{QueryResultsFormat, QueryResultsSerializer};

/// A format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultFormat {
    /// SPARQL 1.1 Query Results JSON.
    Json,
    /// SPARQL Query Results XML.
    Xml,
    /// SPARQL 1.1 CSV.
    Csv,
    /// SPARQL 1.1 TSV.
    Tsv,
    /// N-Triples, for graphs.
    NTriples,
    /// Turtle, for graphs.
    Turtle,
}

/// Why results could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The query failed while it ran.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The output failed.
    #[error("write results: {0}")]
    Io(#[from] io::Error),
    /// The format is for another kind of result.
    #[error("{format:?} cannot hold {result}; use {instead}")]
    Format {
        /// The format asked for.
        format: ResultFormat,
        /// What the query gives.
        result: &'static str,
        /// What can hold it.
        instead: &'static str,
    },
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
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    match results {
        Results::Solutions(solutions) => write_solutions(solutions, format, out),
        Results::Graph(triples) => write_graph(triples, format, out),
        Results::Boolean(value) => {
            let format = table_format(format, "an ASK's answer")?;
            QueryResultsSerializer::from_format(format).serialize_boolean_to_writer(out, value)?;
            Ok(WriteReport { rows: 1 })
        }
    }
}

fn table_format(
    format: ResultFormat,
    result: &'static str,
) -> Result<QueryResultsFormat, WriteError> {
    Ok(match format {
        ResultFormat::Json => QueryResultsFormat::Json,
        ResultFormat::Xml => QueryResultsFormat::Xml,
        ResultFormat::Csv => QueryResultsFormat::Csv,
        ResultFormat::Tsv => QueryResultsFormat::Tsv,
        format => {
            return Err(WriteError::Format {
                format,
                result,
                instead: "json, xml, csv or tsv",
            });
        }
    })
}

fn write_solutions(
    mut solutions: SolutionStream,
    format: ResultFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let format = table_format(format, "solutions")?;
    let mut report = WriteReport::default();
    // The first batch is computed before a byte is written, so that early errors leave no output.
    let mut next = solutions.next_batch()?;
    let mut serializer = QueryResultsSerializer::from_format(format)
        .serialize_solutions_to_writer(out, solutions.variables().to_vec())?;
    while let Some(batch) = next {
        for row in 0..batch.len() {
            let bound = batch
                .row(row)
                .filter_map(|(variable, term)| Some((variable.as_ref(), term?.as_ref())));
            serializer.serialize(bound)?;
            report.rows += 1;
        }
        next = solutions.next_batch()?;
    }
    serializer.finish()?.flush()?;
    Ok(report)
}

fn write_graph(
    mut triples: TripleStream,
    format: ResultFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let format = match format {
        ResultFormat::NTriples => RdfFormat::NTriples,
        ResultFormat::Turtle => RdfFormat::Turtle,
        format => {
            return Err(WriteError::Format {
                format,
                result: "a graph",
                instead: "nt or ttl",
            });
        }
    };
    let mut report = WriteReport::default();
    let mut next = triples.next_triple()?;
    let mut serializer = RdfSerializer::from_format(format).for_writer(out);
    while let Some(triple) = next {
        serializer.serialize_triple(&triple)?;
        report.rows += 1;
        next = triples.next_triple()?;
    }
    serializer.finish()?.flush()?;
    Ok(report)
}

//! Timed runs of one query to its end.

use std::time::{Duration, Instant};

use pythia::{
    Database, PreparedQuery, QueryError, QueryOptions, ResultFormat, Results, SolutionStream, Term,
    WriteError, write_results,
};

/// Times of the parts of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Text to algebra.
    pub parse: Duration,
    /// Algebra to plan.
    pub plan: Duration,
    /// First operator to last result, as [`Output`] uses it.
    pub run: Duration,
    /// Solutions or triples; an ASK has one if its answer is yes.
    pub rows: u64,
}

impl Timing {
    /// Returns the total.
    pub fn total(&self) -> Duration {
        self.parse + self.plan + self.run
    }
}

/// The use of the results of a timed query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Terms are decoded, batch by batch, and dropped: the cost for an embedding program.
    #[default]
    Terms,
    /// Solutions are computed as ids, batch by batch, and dropped: the cost without looking up terms. Triples are decoded.
    Ids,
    /// Results are written to memory as SPARQL JSON, or N-Triples for graphs: the cost for a server.
    Serialized,
}

/// Parses, plans and runs a query to the end.
pub fn run(
    database: &Database,
    text: &str,
    options: &QueryOptions,
    output: Output,
) -> Result<Timing, QueryError> {
    let started = Instant::now();
    let query = database.parse_query(text, None, options)?;
    let parsed = started.elapsed();
    let prepared = database.prepare_parsed(&query, options)?;
    let planned = started.elapsed();
    let rows = execute(&prepared, output)?;
    Ok(Timing {
        parse: parsed,
        plan: planned - parsed,
        run: started.elapsed() - planned,
        rows,
    })
}

/// Runs a prepared query to the end and counts its results.
pub fn execute(prepared: &PreparedQuery, output: Output) -> Result<u64, QueryError> {
    let results = prepared.execute()?;
    match output {
        Output::Terms => drain(results),
        Output::Ids => match results {
            Results::Solutions(solutions) => drain_ids(solutions),
            others => drain(others),
        },
        Output::Serialized => {
            let mut text = Vec::new();
            let rows = serialize(results, &mut text);
            std::hint::black_box(&text);
            rows
        }
    }
}

fn drain(results: Results) -> Result<u64, QueryError> {
    let mut rows = 0;
    match results {
        Results::Boolean(answer) => rows = u64::from(answer),
        Results::Solutions(mut solutions) => {
            while let Some(batch) = solutions.next_batch()? {
                rows += batch.len() as u64;
                std::hint::black_box(&batch);
            }
        }
        Results::Graph(mut triples) => {
            while let Some(triple) = triples.next_triple()? {
                rows += 1;
                std::hint::black_box(&triple);
            }
        }
    }
    Ok(rows)
}

fn drain_ids(mut solutions: SolutionStream) -> Result<u64, QueryError> {
    let mut rows = 0;
    while let Some(batch) = solutions.next_ids()? {
        rows += batch.rows as u64;
        std::hint::black_box(&batch);
    }
    Ok(rows)
}

/// Writes results as SPARQL JSON, or N-Triples for graphs, and counts them.
pub(crate) fn serialize(results: Results, to: &mut Vec<u8>) -> Result<u64, QueryError> {
    let answer = match &results {
        Results::Boolean(answer) => Some(u64::from(*answer)),
        _ => None,
    };
    let format = match &results {
        Results::Graph(_) => ResultFormat::NTriples,
        _ => ResultFormat::Json,
    };
    match write_results(results, format, to) {
        Ok(report) => Ok(answer.unwrap_or(report.rows)),
        Err(WriteError::Query(error) | WriteError::Cut { error, .. }) => Err(error),
        Err(error) => unreachable!("memory takes every write and the format fits: {error}"),
    }
}

/// Returns all solutions of a SELECT as rows of terms; rows with unbound variables are left out.
pub(crate) fn bound_rows(database: &Database, text: &str) -> Result<Vec<Vec<Term>>, QueryError> {
    bound_rows_within(database, text, &QueryOptions::default())
}

/// Does the same as [`bound_rows`] within limits.
pub(crate) fn bound_rows_within(
    database: &Database,
    text: &str,
    options: &QueryOptions,
) -> Result<Vec<Vec<Term>>, QueryError> {
    let Results::Solutions(mut solutions) = database.prepare(text, options)?.execute()? else {
        unreachable!("only used with SELECT");
    };
    let mut rows = Vec::new();
    while let Some(batch) = solutions.next_batch()? {
        for row in 0..batch.len() {
            rows.extend(
                batch
                    .row(row)
                    .map(|(_, term)| term.cloned())
                    .collect::<Option<Vec<Term>>>(),
            );
        }
    }
    Ok(rows)
}

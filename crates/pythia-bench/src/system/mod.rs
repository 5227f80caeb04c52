//! Databases that answer the same queries: this one in process, and any SPARQL endpoint.
//!
//! A [`Client`] asks one query at a time. The time runs from the text to the last byte of the results: SPARQL JSON, or
//! N-Triples for graphs. Results are read ([`answer`]) only outside of the measured time, because client and server
//! share a machine.

pub mod answer;
mod endpoint;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use pythia::{
    Database, Query, QueryError, QueryForm, QueryOptions, SparqlError, Update, UpdateOptions,
};

use self::answer::Answer;
pub use self::endpoint::Endpoint;
use crate::http::client::Connection;
use crate::timed;

/// A database under test.
pub struct System<'d> {
    /// Its name in reports.
    pub name: String,
    place: Place<'d>,
    /// Time after which a query has failed.
    timeout: Duration,
}

enum Place<'d> {
    InProcess(&'d Database),
    Endpoint(Endpoint),
}

/// One client of a system.
pub struct Client<'s> {
    system: &'s System<'s>,
    connection: Option<Connection>,
    results: Vec<u8>,
}

impl<'d> System<'d> {
    /// An open store.
    pub fn in_process(name: impl Into<String>, database: &'d Database, timeout: Duration) -> Self {
        Self {
            name: name.into(),
            place: Place::InProcess(database),
            timeout,
        }
    }

    /// A SPARQL endpoint.
    pub fn endpoint(name: impl Into<String>, endpoint: Endpoint, timeout: Duration) -> Self {
        Self {
            name: name.into(),
            place: Place::Endpoint(endpoint),
            timeout,
        }
    }

    /// Returns the URL; `None` in process.
    pub fn url(&self) -> Option<&str> {
        match &self.place {
            Place::InProcess(_) => None,
            Place::Endpoint(endpoint) => Some(endpoint.url()),
        }
    }

    /// Returns a new client. The client of an endpoint keeps its connection.
    pub fn client(&self) -> Client<'_> {
        let connection = match &self.place {
            Place::InProcess(_) => None,
            Place::Endpoint(endpoint) => Some(Connection::new(endpoint.address(), self.timeout)),
        };
        Client {
            system: self,
            connection,
            results: Vec::new(),
        }
    }
}

impl Client<'_> {
    /// Asks a query of this form and returns the time to its last byte. The error is one line of text. The client does little
    /// else: it shares the cores with the system that it measures.
    pub fn time(&mut self, query: &str, form: QueryForm) -> Result<Duration, String> {
        self.results.clear();
        match &self.system.place {
            Place::InProcess(database) => {
                let options = QueryOptions {
                    timeout: Some(self.system.timeout),
                    ..QueryOptions::default()
                };
                let started = Instant::now();
                run(database, query, &options, &mut self.results).map_err(|e| one_line(&e))?;
                Ok(started.elapsed())
            }
            Place::Endpoint(endpoint) => self.send(&endpoint.query(query, form)),
        }
    }

    /// Sends a request to an endpoint and returns the time to the last byte of the answer.
    fn send(&mut self, request: &[u8]) -> Result<Duration, String> {
        self.results.clear();
        let connection = self.connection.as_mut().expect("an endpoint's client");
        let was_open = connection.is_open();
        let mut started = Instant::now();
        let mut answer = connection.ask_into(request, &mut self.results);
        if was_open && answer.is_err() && started.elapsed() < self.system.timeout {
            // The server has closed the connection while another system was measured.
            self.results.clear();
            started = Instant::now();
            answer = connection.ask_into(request, &mut self.results);
        }
        let elapsed = started.elapsed();
        match answer {
            Ok(answer) if matches!(answer.status, 200..300) => Ok(elapsed),
            Ok(answer) => {
                let said = String::from_utf8_lossy(&self.results);
                Err(one_line(&format!("HTTP {}: {said}", answer.status)))
            }
            Err(error) => Err(match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    let seconds = self.system.timeout.as_secs_f64();
                    format!("no answer within {seconds} s")
                }
                _ => one_line(&error),
            }),
        }
    }

    /// Makes an update and returns the time to its acknowledgement. The error is one line of text.
    pub fn update(&mut self, text: &str) -> Result<Duration, String> {
        match &self.system.place {
            Place::InProcess(database) => {
                let mut options = UpdateOptions::default();
                options.query.timeout = Some(self.system.timeout);
                let started = Instant::now();
                let update = Update::parse(text, None).map_err(|e| one_line(&e))?;
                let done = database.update_parsed(&update, &options, None);
                done.map_err(|e| one_line(&e))?;
                Ok(started.elapsed())
            }
            Place::Endpoint(endpoint) => self.send(&endpoint.update(text)),
        }
    }

    /// Returns the name of the system.
    pub fn name(&self) -> &str {
        &self.system.name
    }

    /// Asks a query and reads its results.
    pub fn answer(&mut self, query: &str) -> Result<Answer, String> {
        let form = form_of(query).map_err(|error| one_line(&error))?;
        self.time(query, form)?;
        let answer = match form {
            QueryForm::Graph => Answer::of_graph(&self.results),
            QueryForm::Select | QueryForm::Ask => Answer::of_solutions(&self.results),
        };
        answer.map_err(|error| format!("its results cannot be read: {}", one_line(&error)))
    }
}

/// Runs a query and writes its results.
fn run(
    database: &Database,
    text: &str,
    options: &QueryOptions,
    to: &mut Vec<u8>,
) -> Result<(), QueryError> {
    let results = database.prepare(text, options)?.execute()?;
    timed::serialize(results, to).map(|_| ())
}

/// Returns the form of a query.
pub(crate) fn form_of(query: &str) -> Result<QueryForm, SparqlError> {
    Query::parse(query, None).map(|query| query.form())
}

/// Formats an error as one line of limited length: servers send whole pages.
fn one_line(error: &impl ToString) -> String {
    const LENGTH: usize = 200;
    let words: Vec<String> = (error.to_string().split_whitespace())
        .map(str::to_owned)
        .collect();
    words.join(" ").chars().take(LENGTH).collect()
}

#[cfg(test)]
mod tests;

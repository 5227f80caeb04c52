//! `SERVICE`: joins solutions with the answers of other endpoints.
//!
//! The terms that solutions already have are sent along as VALUES, some solutions at a time (a bound join),
//! so that an endpoint returns only solutions that can be joined. Several requests run at once, each read
//! by its own thread ([`answer`]). Answers are joined as they arrive ([`asked`]), in the order of the
//! requests.
//!
//! If a solution binds nothing that could be sent, all of the pattern's solutions are requested and kept
//! for other solutions like it.
//!
//! Endpoints that solutions name are all read and checked before the first request
//! ([`endpoints`]), so that nothing is sent if one of the endpoints is forbidden. With SILENT a forbidden
//! endpoint fails alone.

mod answer;
mod asked;
mod endpoints;
mod request;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hashbrown::{HashMap, HashSet};
use oxrdf::NamedNode;
use pythia_rdf::TermId;

use self::answer::{Answer, failure};
use self::asked::{Asked, Found, Whole};
use self::endpoints::Input;
use super::batch::{id_columns, record_batch};
use super::context::QueryContext;
use super::solutions::{Execute, NextBatch, Solutions, solutions_of};
use crate::error::QueryError;
use crate::plan::operators::{Endpoint, Service};
use crate::service::{ServiceError, ServiceHandler, check};

/// Number of solutions that are sent with one request: initially, minimum and maximum.
const SENT: usize = 64;
const SENT_MIN: usize = 16;
const SENT_MAX: usize = 512;
/// The most concurrent requests. Their number grows one by one.
const UNDER_WAY_MAX: usize = 4;
/// Endpoints that answer faster than `FAST` get more solutions per request, those slower than `SLOW` fewer.
const FAST: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_secs(5);

impl Execute for Service {
    fn run(
        &self,
        mut inputs: Vec<Solutions>,
        schema: SchemaRef,
        context: Arc<QueryContext>,
    ) -> Solutions {
        let joiner = Joiner {
            service: Arc::new(self.clone()),
            input: Input::Unchecked(inputs.remove(0)),
            is_over: false,
            waiting: Rows::new(self.left),
            to_ask: VecDeque::new(),
            under_way: VecDeque::new(),
            pace: Pace::default(),
            whole: HashMap::new(),
            failed: HashSet::new(),
            requests: 0,
            schema: Arc::clone(&schema),
            context,
        };
        solutions_of(schema, joiner)
    }
}

impl Service {
    /// Returns the places of the requested variables that the input has.
    fn shared(&self) -> impl Iterator<Item = usize> {
        (0..self.asked.len()).filter(|asked| self.columns[*asked] < self.left)
    }
}

/// Some solutions, column by column.
#[derive(Debug, Default)]
struct Rows {
    columns: Vec<Vec<u64>>,
    count: usize,
}

impl Rows {
    fn new(columns: usize) -> Self {
        Self {
            columns: vec![Vec::new(); columns],
            count: 0,
        }
    }

    fn append(&mut self, batch: &RecordBatch) {
        for (column, more) in self.columns.iter_mut().zip(id_columns(batch)) {
            column.extend_from_slice(more);
        }
        self.count += batch.num_rows();
    }

    /// Appends rows of ids, one after the other.
    fn append_ids(&mut self, ids: &[u64]) {
        for row in ids.chunks_exact(self.columns.len()) {
            for (column, id) in self.columns.iter_mut().zip(row) {
                column.push(*id);
            }
            self.count += 1;
        }
    }

    /// Takes the first solutions out.
    fn take(&mut self, count: usize) -> Self {
        let count = count.min(self.count);
        let columns = self.columns.iter_mut();
        let taken = columns.map(|column| column.drain(..count).collect());
        let taken = Self {
            columns: taken.collect(),
            count,
        };
        self.count -= count;
        taken
    }

    /// Returns the solutions of some rows.
    fn pick(&self, rows: &[usize]) -> Self {
        let pick = |column: &Vec<u64>| rows.iter().map(|row| column[*row]).collect();
        Self {
            columns: self.columns.iter().map(pick).collect(),
            count: rows.len(),
        }
    }
}

/// The size and number of concurrent requests.
struct Pace {
    sent: usize,
    under_way: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            sent: SENT,
            under_way: 1,
        }
    }
}

impl Pace {
    fn note(&mut self, took: Duration) {
        self.under_way = (self.under_way + 1).min(UNDER_WAY_MAX);
        if took < FAST {
            self.sent = (self.sent * 2).min(SENT_MAX);
        } else if took > SLOW {
            self.sent = (self.sent / 2).max(SENT_MIN);
        }
    }
}

struct Joiner {
    service: Arc<Service>,
    input: Input,
    is_over: bool,
    /// Solutions for which nothing was requested yet.
    waiting: Rows,
    /// The next requests, and the solutions that they are made for.
    to_ask: VecDeque<(Question, Rows)>,
    under_way: VecDeque<Asked>,
    pace: Pace,
    /// Complete answers of endpoints, for solutions that bind nothing.
    whole: HashMap<NamedNode, Whole>,
    /// Endpoints that have failed and get no more requests, if SILENT.
    failed: HashSet<NamedNode>,
    /// Number of requests sent so far. It distinguishes the blank nodes of different answers.
    requests: usize,
    schema: SchemaRef,
    context: Arc<QueryContext>,
}

/// A request for some solutions.
struct Question {
    /// The endpoint, or why there is none.
    endpoint: Result<NamedNode, QueryError>,
    /// True if the solutions bind something to send along.
    binds: bool,
}

impl NextBatch for Joiner {
    async fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            self.context.check()?;
            self.ask_more().await?;
            let Some(asked) = self.under_way.front_mut() else {
                return Ok(None);
            };
            let mut output: Vec<Vec<u64>> = vec![Vec::new(); self.schema.fields().len().max(1)];
            let found = asked.next(&self.service, &self.context, &mut output)?;
            if let Found::End {
                took,
                failed,
                whole,
            } = found
            {
                let asked = self.under_way.pop_front().expect("there was a first");
                self.pace.note(took);
                if let Some(endpoint) = asked.endpoint {
                    if failed {
                        self.failed.insert(endpoint);
                    } else if let Some(whole) = whole {
                        self.whole.insert(endpoint, whole);
                    }
                }
            }
            let rows = output[0].len();
            if rows > 0 {
                output.truncate(self.schema.fields().len());
                return Ok(Some(record_batch(&self.schema, output, rows)?));
            }
        }
    }
}

impl Joiner {
    /// Sends requests while there are solutions left and more requests may run.
    async fn ask_more(&mut self) -> Result<(), QueryError> {
        while self.under_way.len() < self.pace.under_way {
            if self.under_way.iter().any(|asked| asked.is_for_all) {
                return Ok(());
            }
            if let Some((question, rows)) = self.to_ask.pop_front() {
                let asked = self.ask(question, rows)?;
                self.under_way.push_back(asked);
                continue;
            }
            while !self.is_over && self.waiting.count < self.pace.sent {
                let (service, context) = (&self.service, &self.context);
                let more = self.input.read(service, context, &mut self.waiting);
                self.is_over = !more.await?;
            }
            if self.waiting.count == 0 {
                return Ok(());
            }
            let rows = self.waiting.take(self.pace.sent);
            self.to_ask = self.questions(&rows)?;
        }
        Ok(())
    }

    /// Groups the rows by the request that they need.
    fn questions(&self, rows: &Rows) -> Result<VecDeque<(Question, Rows)>, QueryError> {
        let binds = |row: usize| {
            let mut shared = self.service.shared();
            shared.any(|asked| rows.columns[self.service.columns[asked]][row] != 0)
        };
        let mut groups: Vec<((u64, bool), Vec<usize>)> = Vec::new();
        for row in 0..rows.count {
            let endpoint = match &self.service.endpoint {
                Endpoint::Fixed(_) => 0,
                Endpoint::Column(column, _) => rows.columns[*column][row],
            };
            let key = (endpoint, binds(row));
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, members)) => members.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        let questions = groups.into_iter().map(|((id, binds), members)| {
            let endpoint = match &self.service.endpoint {
                Endpoint::Fixed(endpoint) => Ok(endpoint.clone()),
                Endpoint::Column(_, variable) => {
                    endpoints::named(TermId(id), variable, &self.context)?
                }
            };
            Ok((Question { endpoint, binds }, rows.pick(&members)))
        });
        questions.collect()
    }

    /// Returns the answer if no request is needed: the endpoint has failed, is forbidden, or its complete answer is
    /// known.
    fn known(&self, iri: &NamedNode, binds: bool, handler: &dyn ServiceHandler) -> Option<Answer> {
        if self.failed.contains(iri) {
            let error = ServiceError("it failed before".to_owned());
            return Some(Answer::failed(failure(iri.as_str(), &error)));
        }
        if self.service.silent
            && let Err(error) = handler.check(iri)
        {
            return Some(Answer::failed(failure(iri.as_str(), &error)));
        }
        match binds {
            true => None,
            false => self.whole.get(iri).map(Answer::kept),
        }
    }

    /// Requests the solutions that can be joined with the rows.
    fn ask(&mut self, question: Question, rows: Rows) -> Result<Asked, QueryError> {
        let Question { endpoint, binds } = question;
        let (context, service) = (&self.context, &self.service);
        let Some(handler) = &context.service else {
            return Err(QueryError::unsupported_hint(
                "SERVICE, as no client for other endpoints is set,",
                "set QueryOptions::service, such as to HttpService",
            ));
        };
        let iri = match endpoint {
            Ok(iri) => iri,
            Err(error) => {
                let answer = Answer::failed(error);
                return Ok(Asked::new(service, None, rows, answer, false, context));
            }
        };
        if let Some(answer) = self.known(&iri, binds, handler.as_ref()) {
            let endpoint = Some(iri);
            return Ok(Asked::new(service, endpoint, rows, answer, false, context));
        }
        if !service.silent {
            check(handler.as_ref(), &iri)?;
        }
        let query = request::query(service, context, binds.then_some(&rows))?;
        self.requests += 1;
        let number = self.requests;
        let answer = Answer::ask(handler, &iri, query, number, context)?;
        let is_last = self.is_over && self.waiting.count == 0 && self.to_ask.is_empty();
        let is_for_all = !binds && !is_last;
        let endpoint = Some(iri);
        Ok(Asked::new(
            service, endpoint, rows, answer, is_for_all, context,
        ))
    }
}

//! SPARQL queries (SPARQL 1.1 Protocol §2.1), with limits, plans and progress as extensions.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::Response;
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use oxrdf::NamedNode;
use pythia::{
    PreparedQuery, Query, QueryForm, QueryOptions, ResultFormat, Snapshot, write_results,
};

use super::answer::{Output, answer, answer_at_once};
use super::caching::Caching;
use super::error::HttpError;
use super::media_type_of;
use super::negotiate::{GRAPHS, TABLES, negotiate};
use super::parameters::{Parameters, RequestLimits};
use super::receive::{self, ReceivedBytes};
use super::validators::Conditions;
use crate::exchange::{Exchange, Turn};

/// Methods that a query may use.
const METHODS: &str = "GET, HEAD, POST, QUERY";

/// Answers at the path of queries.
pub(crate) async fn query(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    let mut parameters = Parameters::of_uri(&parts.uri)?;
    let text = match parts.method.as_str() {
        "GET" | "HEAD" => match parameters.take("query")? {
            Some(text) => text.into(),
            None => return crate::explore::description(&exchange, &parts).await,
        },
        "POST" | "QUERY" => match media_type_of(&parts.headers)?.as_deref() {
            Some("application/sparql-query") => receive::whole(&exchange.caller, body).await?,
            Some("application/x-www-form-urlencoded") => {
                let form = receive::whole(&exchange.caller, body).await?;
                parameters.add(&form.bytes)?;
                form.part(parameters.take("query")?.ok_or_else(missing)?)
            }
            other => return Err(unsupported(other)),
        },
        _ => return Err(HttpError::method(METHODS)),
    };
    run(exchange, &parts, parameters, text).await
}

fn missing() -> HttpError {
    HttpError::bad_request("missing parameter: `query`")
}

fn unsupported(media_type: Option<&str>) -> HttpError {
    HttpError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!(
            "send a query as application/sparql-query or as the field `query` of \
             application/x-www-form-urlencoded, not as {}",
            media_type.unwrap_or("a body without Content-Type")
        ),
    )
}

/// The kind of explanation to return instead of results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explain {
    Plan,
    Analyze,
}

/// A query with all its parameters.
struct QueryRequest {
    text: ReceivedBytes,
    base: Option<String>,
    default_graphs: Vec<NamedNode>,
    named_graphs: Vec<NamedNode>,
    limits: RequestLimits,
    explain: Option<Explain>,
    profile: bool,
    /// A format by name, which takes precedence over the Accept header.
    format: Option<ResultFormat>,
    accept: Option<HeaderValue>,
    /// The conditions of a request whose answer may be kept; `None` for POST.
    conditions: Option<Conditions>,
}

/// Runs a query whose text was received.
pub(crate) async fn run(
    exchange: Exchange,
    parts: &Parts,
    parameters: Parameters,
    text: ReceivedBytes,
) -> Result<Response, HttpError> {
    let asked = QueryRequest {
        base: super::base_of(parts),
        default_graphs: parameters.iris("default-graph-uri")?,
        named_graphs: parameters.iris("named-graph-uri")?,
        limits: parameters.lower(&exchange.limits)?,
        explain: explain(&parameters)?,
        profile: parameters.one("profile")? == Some("true"),
        format: format(&parameters, parts.headers.contains_key(ACCEPT))?,
        accept: parts.headers.get(ACCEPT).cloned(),
        conditions: match parts.method {
            Method::POST => None,
            _ => Some(Conditions::of_read(&parts.headers)?),
        },
        text,
    };
    let turn = exchange.turn("query", asked.text.text()?).await?;
    let delivery = exchange.delivery(&turn, asked.limits.timeout);
    let (may_be_quick, company) = (asked.may_be_quick(), exchange.company());
    let work = move |output: &mut Output| asked.answer(&exchange, &turn, output);
    match may_be_quick {
        true => answer_at_once(delivery, company, work).await,
        false => answer(delivery, work).await,
    }
}

fn explain(parameters: &Parameters) -> Result<Option<Explain>, HttpError> {
    match parameters.one("explain")? {
        None => Ok(None),
        Some("plan") => Ok(Some(Explain::Plan)),
        Some("analyze") => Ok(Some(Explain::Analyze)),
        Some(other) => Err(HttpError::bad_request(format!(
            "explain={other}: expected plan or analyze"
        ))),
    }
}

/// Returns the format that `format` (or Fuseki's `output`) names. Clients send both, each several times, with the
/// names that different servers know. The first known name counts; if none is known, the Accept header does.
fn format(parameters: &Parameters, has_accept: bool) -> Result<Option<ResultFormat>, HttpError> {
    let values = parameters.all("format").chain(parameters.all("output"));
    let names: Vec<&str> = values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let known = names.iter().find_map(|name| ResultFormat::named(name));
    match (known, names.first()) {
        (None, Some(name)) if !has_accept => Err(HttpError::bad_request(format!(
            "format={name}: expected json, xml, csv, tsv, nt, ttl, rdfxml, jsonld or a media type"
        ))),
        (known, _) => Ok(known),
    }
}

impl QueryRequest {
    /// Returns whether the query may take less time than waking a thread. Parsing alone takes longer for long texts; queries
    /// with SERVICE, which an escape might hide, wait for others.
    fn may_be_quick(&self) -> bool {
        const TEXT_BYTES: usize = 8 << 10;
        const ASKS: &[u8] = b"service";
        let text = &self.text.bytes;
        let asks = |text: &[u8]| {
            let is_at = |at| {
                text[at..]
                    .get(..ASKS.len())
                    .is_some_and(|word| word.eq_ignore_ascii_case(ASKS))
            };
            memchr::memchr2_iter(b's', b'S', text).any(is_at)
        };
        let is_plain = self.explain.is_none() && !self.profile && !text.contains(&b'\\');
        is_plain && text.len() <= TEXT_BYTES && !asks(text)
    }

    fn answer(
        &self,
        exchange: &Exchange,
        turn: &Turn,
        output: &mut Output,
    ) -> Result<(), HttpError> {
        let text = self.text.text()?;
        let failed = |error| HttpError::of_query(&error, text);
        let started = Instant::now();
        let mut options = self.options(exchange, turn, output);
        let database = &exchange.dataset.database;
        let base = self.base.as_deref();
        let mut query = database.parse_query(text, base, &options).map_err(failed)?;
        if !self.default_graphs.is_empty() || !self.named_graphs.is_empty() {
            query.set_dataset(self.default_graphs.clone(), self.named_graphs.clone());
        }
        let format = match self.explain {
            None => Some(self.format_of(query.form())?),
            Some(_) => None,
        };
        let snapshot = database.snapshot();
        if let (Some(conditions), Some(format)) = (&self.conditions, format) {
            let caching = self.caching(exchange, conditions, &query, format, &snapshot)?;
            let is_unmodified = caching.is_unmodified();
            output.cache(caching);
            if is_unmodified {
                return Ok(());
            }
        }
        // The time limit includes reading the text.
        let left = |timeout: Duration| timeout.saturating_sub(started.elapsed());
        options.timeout = options.timeout.map(left);
        let prepared = database.prepare_on(&snapshot, &query, &options);
        let prepared = Arc::new(prepared.map_err(failed)?);
        exchange.caller.record.set_prepared(started.elapsed());
        let slow = exchange.caller.settings.config.log.slow_query;
        let _planned = turn.listed.activity.planned(&prepared, slow);
        let rows = match (self.explain, format) {
            (None, Some(format)) => {
                output.is(format.media_types()[0]);
                write_results(prepared.execute().map_err(failed)?, format, output)?.rows
            }
            (explain, _) => {
                let rows = match explain {
                    Some(Explain::Analyze) => drain(&prepared)?,
                    _ => 0,
                };
                io::Write::write_all(output, prepared.explain_json().as_bytes())
                    .map_err(pythia::WriteError::from)?;
                rows
            }
        };
        exchange.caller.record.set_run(started.elapsed(), rows);
        Ok(())
    }

    /// Returns the headers for caches of the answer. An answer that changes by itself has no tag.
    fn caching(
        &self,
        exchange: &Exchange,
        conditions: &Conditions,
        query: &Query,
        format: ResultFormat,
        snapshot: &Snapshot,
    ) -> Result<Caching, HttpError> {
        let mut request = vec![self.text.text()?, format.name()];
        request.extend(self.base.as_deref());
        // No IRI is empty.
        for graphs in [&self.default_graphs, &self.named_graphs] {
            request.push("");
            request.extend(graphs.iter().map(NamedNode::as_str));
        }
        let is_union = exchange.dataset.config.union_default_graph;
        request.extend(is_union.then_some("union"));
        let is_repeatable = query.is_repeatable();
        let current = is_repeatable.then(|| exchange.tags().of_query(snapshot, &request));
        let reading = conditions.for_read(current.as_ref());
        let is_private = exchange.is_private();
        Ok(Caching::of(current.as_ref(), reading, is_private)?)
    }

    fn options(&self, exchange: &Exchange, turn: &Turn, output: &Output) -> QueryOptions {
        QueryOptions {
            overstay: output.overstay(),
            explain: self.explain.is_some(),
            profile: self.profile
                || self.explain == Some(Explain::Analyze)
                || exchange.caller.settings.config.log.measure,
            ..exchange.query_options(turn, &self.limits)
        }
    }

    fn format_of(&self, form: QueryForm) -> Result<ResultFormat, HttpError> {
        let formats = match form {
            QueryForm::Select | QueryForm::Ask => TABLES,
            QueryForm::Graph => GRAPHS,
        };
        if let Some(format) = self.format {
            // `xml` and `json` name formats of solutions and of graphs.
            let same = |other: &&ResultFormat| {
                format
                    .media_types()
                    .iter()
                    .any(|media_type| other.media_types().contains(media_type))
            };
            let found = formats.iter().find(|other| **other == format);
            if let Some(found) = found.or_else(|| formats.iter().find(same)) {
                return Ok(*found);
            }
        }
        let found = match self.format {
            Some(_) => None,
            None => negotiate(self.accept.as_ref(), formats),
        };
        found.ok_or_else(|| super::not_acceptable(formats))
    }
}

/// Runs a query without keeping its results, to measure it. Returns the number of results.
fn drain(prepared: &PreparedQuery) -> Result<u64, HttpError> {
    let results = prepared.execute()?;
    let format = match &results {
        pythia::Results::Graph(_) => ResultFormat::NTriples,
        _ => ResultFormat::Tsv,
    };
    Ok(write_results(results, format, io::sink())?.rows)
}

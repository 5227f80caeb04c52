//! Paths that the page uses besides SPARQL: search by name, exploring a node, completion, a description of the
//! dataset, running queries. Answers are JSON or RDF and contain only what the user may see.
//!
//! Answers come from the store's own orders and counts, or from queries over the visible graphs. Everything that
//! is read has a limit ([`reader`]); see `docs/explore.md`.

mod complete;
mod description;
mod find;
mod graph;
mod labels;
mod namespaces;
mod node;
mod progress;
mod reader;
#[cfg(test)]
mod tests;
mod void;
mod words;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method};
use oxrdf::NamedNode;
use pythia::{RdfFormat, ResultFormat};
use serde::Serialize;

use crate::context::ServerContext;
use crate::exchange::Exchange;
use crate::protocol::error::HttpError;
use crate::protocol::negotiate::negotiate;
use crate::protocol::parameters::Parameters;
use crate::protocol::{answer, base_of, not_acceptable, receive};
pub use complete::{Completer, Completions, Suggestion};
use graph::Description;
use node::number;
use reader::Reader;

/// Formats of descriptions, in order of preference.
const FORMATS: &[ResultFormat] = &[
    ResultFormat::Turtle,
    ResultFormat::NTriples,
    ResultFormat::RdfXml,
    ResultFormat::JsonLd,
];

/// Default and maximum number of search results.
const FOUND: usize = 10;
const FOUND_MAX: usize = 100;
/// Time limit of a completion: a user waits for it while typing.
const COMPLETION_TIME: Duration = Duration::from_secs(2);
/// Time limit for counting the contents of a dataset.
const VOID_TIME: Duration = Duration::from_secs(10);

/// Returns the routes of each dataset.
pub(crate) fn routes() -> Router<Arc<ServerContext>> {
    Router::new()
        .route("/find", any(find))
        .route("/node", any(node))
        .route("/complete", any(complete))
        .route("/void", any(void))
}

/// Returns the routes of the server.
pub(crate) fn routes_of_server() -> Router<Arc<ServerContext>> {
    Router::new()
        .route("/.well-known/void", any(void))
        .route("/$/queries", any(progress::list))
        .route("/$/queries/{id}", any(progress::one))
}

/// Answers `/find`.
async fn find(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let parts = reading(request)?;
    let parameters = Parameters::of_uri(&parts.uri)?;
    let missing = || HttpError::bad_request("missing parameter: text=BEGINNING OF A NAME OR IRI");
    let text = parameters.one("text")?.ok_or_else(missing)?.to_owned();
    let limit = number(&parameters, "limit", FOUND)?.min(FOUND_MAX);
    let time = time(&exchange, &parameters)?;
    let shown = text.clone();
    let items = run(&exchange, "find", &shown, time, move |reader| {
        Ok(find::find(reader, &text, limit)?)
    });
    json(&serde_json::json!({ "items": items.await? }))
}

/// Answers `/node`.
async fn node(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let parts = reading(request)?;
    let parameters = Parameters::of_uri(&parts.uri)?;
    let asked = node::Request::of(&parameters)?;
    let time = time(&exchange, &parameters)?;
    let shown = asked.node().to_string();
    let node = run(&exchange, "node", &shown, time, move |reader| {
        Ok(node::node(reader, &asked)?)
    });
    json(&node.await?)
}

/// Answers `/complete`.
async fn complete(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return Err(HttpError::method("POST"));
    }
    let received = receive::whole(&exchange.caller, body).await?;
    let asked: complete::Request = serde_json::from_slice(&received.bytes).map_err(|error| {
        let expected = r#"expected {"query": TEXT, "cursor": UTF-16 OFFSET, "limit": NUMBER}"#;
        HttpError::bad_request(format!("{expected}: {error}"))
    })?;
    let time = COMPLETION_TIME.min(exchange.limits.timeout);
    let found = run(&exchange, "complete", "", time, move |reader| {
        Ok(complete::complete(reader, &asked)?)
    });
    json(&found.await?)
}

/// Answers `/void`.
async fn void(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let parts = reading(request)?;
    let url = url_of(&parts)?;
    let root = url
        .as_str()
        .strip_suffix("/.well-known/void")
        .or(url.as_str().strip_suffix("/void"))
        .unwrap_or_default();
    let dataset = NamedNode::new_unchecked(format!("{url}#dataset", url = url.as_str()));
    let endpoint = NamedNode::new_unchecked(format!("{root}/sparql"));
    let time = VOID_TIME.min(exchange.limits.timeout);
    let described = run(&exchange, "void", "", time, move |reader| {
        Ok(void::describe(reader, dataset, endpoint)?)
    });
    rdf(&parts, || described).await
}

/// Answers with the endpoint's SPARQL 1.1 Service Description.
pub(crate) async fn description(exchange: &Exchange, parts: &Parts) -> Result<Response, HttpError> {
    let endpoint = description::Endpoint {
        url: url_of(parts)?,
        updates: !exchange.dataset.config.read_only && !exchange.access.write.is_none(),
        federated: !exchange.caller.settings.config.outbound.allow.is_empty(),
        union: exchange.dataset.config.union_default_graph,
    };
    let time = VOID_TIME.min(exchange.limits.timeout);
    let described = run(exchange, "description", "", time, move |reader| {
        Ok(description::describe(reader, &endpoint)?)
    });
    rdf(parts, || described).await
}

/// Runs work that reads a dataset on a thread, after waiting for a turn, within a time limit.
async fn run<T: Send + 'static>(
    exchange: &Exchange,
    operation: &'static str,
    text: &str,
    time: Duration,
    work: impl FnOnce(&Reader) -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let turn = exchange.turn(operation, text).await?;
    let cancel = Arc::clone(&turn.listed.activity.cancel);
    let database = Arc::clone(&exchange.dataset.database);
    let rules = exchange.access.read.clone();
    answer::run(Arc::clone(&cancel), move || {
        let outcome = work(&Reader::new(database, rules, time, cancel));
        drop(turn);
        outcome
    })
    .await
}

/// Returns the head of a request, or an error if its method is not GET or HEAD.
fn reading(request: Request) -> Result<Parts, HttpError> {
    let (parts, _) = request.into_parts();
    match parts.method {
        Method::GET | Method::HEAD => Ok(parts),
        _ => Err(HttpError::method("GET, HEAD")),
    }
}

/// Returns the time limit of a request: the user's, or a lower one that the request asks for.
fn time(exchange: &Exchange, parameters: &Parameters) -> Result<Duration, HttpError> {
    Ok(parameters.lower(&exchange.limits)?.timeout)
}

/// Returns the IRI that the request was sent to.
fn url_of(parts: &Parts) -> Result<NamedNode, HttpError> {
    let missing = || HttpError::bad_request("the request's path and Host do not form an IRI");
    base_of(parts)
        .map(NamedNode::new_unchecked)
        .ok_or_else(missing)
}

fn json(value: &impl Serialize) -> Result<Response, HttpError> {
    let body = serde_json::to_vec(value).expect("names and numbers are JSON");
    Ok(typed("application/json", body))
}

/// Writes a description in the client's preferred format. The description is made only if a format is acceptable.
async fn rdf<F: Future<Output = Result<Description, HttpError>>>(
    parts: &Parts,
    describe: impl FnOnce() -> F,
) -> Result<Response, HttpError> {
    let format = negotiate(parts.headers.get(ACCEPT), FORMATS);
    let media_type = format.ok_or_else(|| not_acceptable(FORMATS))?.media_types()[0];
    let format = RdfFormat::from_media_type(media_type).expect("they are formats of RDF");
    let written = describe().await?.write(format);
    let written = written.map_err(|error| pythia::WriteError::from(error).into());
    written.map(|document| typed(media_type, document))
}

fn typed(media_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

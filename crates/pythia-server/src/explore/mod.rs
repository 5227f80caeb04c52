//! What the page asks besides SPARQL: things by name, what is around a node, what can follow in a query,
//! what is in a dataset, what runs. JSON and RDF, of what the asker may see.
//!
//! Answers come from the store's own orders and counts, or from queries over the visible graphs, with
//! bounds on everything that is looked at ([`reader`]); see `docs/explore.md`.

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

use crate::exchange::Exchange;
use crate::protocol::error::HttpError;
use crate::protocol::negotiate::negotiate;
use crate::protocol::parameters::Parameters;
use crate::protocol::{answer, base_of, not_acceptable, receive};
use crate::state::State;
use graph::Description;
use node::number;
use reader::Reader;

/// Formats of descriptions, the server's favourite first.
const FORMATS: &[ResultFormat] = &[
    ResultFormat::Turtle,
    ResultFormat::NTriples,
    ResultFormat::RdfXml,
    ResultFormat::JsonLd,
];

/// Things found, unless asked otherwise, and at most.
const FOUND: usize = 10;
const FOUND_MAX: usize = 100;
/// Time for a completion, which somebody waits for while typing.
const COMPLETION_TIME: Duration = Duration::from_secs(2);
/// Time for counting what is in a dataset.
const VOID_TIME: Duration = Duration::from_secs(10);

/// The paths of each dataset.
pub(crate) fn routes() -> Router<Arc<State>> {
    Router::new()
        .route("/find", any(find))
        .route("/node", any(node))
        .route("/complete", any(complete))
        .route("/void", any(void))
}

/// The paths of the server.
pub(crate) fn routes_of_server() -> Router<Arc<State>> {
    Router::new()
        .route("/.well-known/void", any(void))
        .route("/$/queries", any(progress::list))
        .route("/$/queries/{id}", any(progress::one))
}

/// Things by name.
async fn find(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let parts = reading(request)?;
    let parameters = Parameters::of_uri(&parts.uri)?;
    let missing = || HttpError::bad_request("say what to find: text=BEGINNING OF A NAME OR IRI");
    let text = parameters.one("text")?.ok_or_else(missing)?.to_owned();
    let limit = number(&parameters, "limit", FOUND)?.min(FOUND_MAX);
    let time = time(&exchange, &parameters)?;
    let shown = text.clone();
    let items = run(&exchange, "find", &shown, time, move |reader| {
        Ok(find::find(reader, &text, limit)?)
    });
    json(&serde_json::json!({ "items": items.await? }))
}

/// What is around a node.
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

/// What can follow in a query.
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

/// What is in a dataset.
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

/// What the endpoint says of itself (SPARQL 1.1 Service Description).
pub(crate) async fn description(exchange: &Exchange, parts: &Parts) -> Result<Response, HttpError> {
    let endpoint = description::Endpoint {
        url: url_of(parts)?,
        updates: !exchange.dataset.config.read_only && !exchange.access.write.is_none(),
        federated: !exchange.caller.settings.config.outbound.allow.is_empty(),
    };
    let time = VOID_TIME.min(exchange.limits.timeout);
    let described = run(exchange, "description", "", time, move |reader| {
        Ok(description::describe(reader, &endpoint)?)
    });
    rdf(parts, || described).await
}

/// Runs what reads a dataset, in its turn, on a thread, within this time.
async fn run<T: Send + 'static>(
    exchange: &Exchange,
    operation: &'static str,
    text: &str,
    time: Duration,
    work: impl FnOnce(&Reader) -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let turn = exchange.turn(operation, text).await?;
    let cancel = Arc::clone(&turn.listed.activity.cancel);
    let dataset = Arc::clone(&exchange.dataset);
    let rules = exchange.access.read.clone();
    answer::run(Arc::clone(&cancel), move || {
        let outcome = work(&Reader::new(dataset, rules, time, cancel));
        drop(turn);
        outcome
    })
    .await
}

/// The request, if it only reads.
fn reading(request: Request) -> Result<Parts, HttpError> {
    let (parts, _) = request.into_parts();
    match parts.method {
        Method::GET | Method::HEAD => Ok(parts),
        _ => Err(HttpError::method("GET, HEAD")),
    }
}

/// The time that a request has: the server's limit, or what it asks for.
fn time(exchange: &Exchange, parameters: &Parameters) -> Result<Duration, HttpError> {
    Ok(parameters.lower(&exchange.limits)?.timeout)
}

/// The IRI that the request was sent to.
fn url_of(parts: &Parts) -> Result<NamedNode, HttpError> {
    let missing = || HttpError::bad_request("the request's path and Host are no IRI");
    base_of(parts)
        .map(NamedNode::new_unchecked)
        .ok_or_else(missing)
}

fn json(value: &impl Serialize) -> Result<Response, HttpError> {
    let body = serde_json::to_vec(value).expect("names and numbers are JSON");
    Ok(typed("application/json", body))
}

/// A description in the format that the client likes best, which is made only if there is one.
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

//! Reading and writing whole graphs of a dataset (SPARQL 1.1 Graph Store HTTP Protocol).
//!
//! Writing is an update that loads the body, so it is one commit. Long bodies go through the loader, which needs no memory
//! for a transaction and is one commit too.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use oxrdf::{GraphNameRef, NamedNode};
use pythia::{
    Cores, GraphRules, Precondition, Query, QueryError, QueryOptions, RdfFormat, Replaced, Results,
    Snapshot, Update,
};
use rand::distr::{Alphanumeric, SampleString};

use super::answer::{self, Output};
use super::caching::Caching;
use super::error::HttpError;
use super::negotiate::{DATASETS, GRAPHS, negotiate};
use super::parameters::{Parameters, iri};
use super::upload::Upload;
use super::validators::Conditions;
use super::{base_of, media_type_of, receive, update};
use crate::exchange::{Exchange, Turn};

const METHODS: &str = "GET, HEAD, PUT, POST, DELETE, PATCH";

/// The graphs that a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Default,
    Named(NamedNode),
    /// The whole dataset.
    All,
}

impl Target {
    fn of(parameters: &Parameters) -> Result<Self, HttpError> {
        match (parameters.one("graph")?, parameters.one("default")?) {
            (None, None) => Ok(Self::All),
            (None, Some(_)) | (Some("default"), None) => Ok(Self::Default),
            (Some(graph), None) => Ok(Self::Named(iri("graph", graph)?)),
            (Some(_), Some(_)) => Err(HttpError::bad_request(
                "`graph` and `default` exclude each other",
            )),
        }
    }

    /// Checks that the user may write the graph.
    fn check_writable(&self, rules: &GraphRules) -> Result<(), HttpError> {
        let allowed = match self {
            Self::Default => rules.allows(GraphNameRef::DefaultGraph),
            Self::Named(graph) => rules.allows(graph.as_ref().into()),
            Self::All => rules.is_all(),
        };
        match allowed {
            true => Ok(()),
            false => Err(HttpError::new(
                StatusCode::FORBIDDEN,
                "you may not write this graph",
            )),
        }
    }

    /// Returns the graph; `None` for the whole dataset.
    fn graph(&self) -> Option<GraphNameRef<'_>> {
        match self {
            Self::Default => Some(GraphNameRef::DefaultGraph),
            Self::Named(graph) => Some(graph.as_ref().into()),
            Self::All => None,
        }
    }

    /// Returns its quads, as those that a load replaces.
    pub(super) fn replaced(&self) -> Replaced<'_> {
        self.graph().map_or(Replaced::All, Replaced::Graph)
    }

    /// Returns the target in the syntax of SPARQL Update.
    fn in_update(&self) -> String {
        match self {
            Self::Default => "DEFAULT".to_owned(),
            Self::Named(graph) => format!("GRAPH {graph}"),
            Self::All => "ALL".to_owned(),
        }
    }
}

/// Answers a request for the graph that parameters name.
pub(crate) async fn indirect(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let target = Target::of(&Parameters::of_uri(request.uri())?)?;
    graph(exchange, request, target).await
}

/// Like [`indirect`], for reading only.
pub(crate) async fn reading(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    match *request.method() {
        Method::GET | Method::HEAD => indirect(exchange, request).await,
        _ => Err(HttpError::method("GET, HEAD")),
    }
}

/// Answers a request for the graph whose IRI is the request's URL.
pub(crate) async fn direct(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    let missing = || HttpError::bad_request("the request's path and Host do not form an IRI");
    let name = base_of(&parts).ok_or_else(missing)?;
    let target = Target::Named(iri("graph", &name)?);
    graph(exchange, Request::from_parts(parts, body), target).await
}

async fn graph(
    exchange: Exchange,
    request: Request,
    target: Target,
) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    match parts.method.as_str() {
        "GET" | "HEAD" => read(exchange, &parts, target).await,
        "PUT" => put(exchange, &parts, body, target).await,
        "POST" => post(exchange, &parts, body, target).await,
        "DELETE" => delete(exchange, &parts, target).await,
        "PATCH" => patch(exchange, &parts, body, target).await,
        _ => Err(HttpError::method(METHODS)),
    }
}

async fn read(exchange: Exchange, parts: &Parts, target: Target) -> Result<Response, HttpError> {
    let formats = match target {
        Target::All => DATASETS,
        _ => GRAPHS,
    };
    let format = negotiate(parts.headers.get(ACCEPT), formats);
    let format = format.ok_or_else(|| super::not_acceptable(formats))?;
    let limits = Parameters::of_uri(&parts.uri)?.lower(&exchange.limits)?;
    let conditions = Conditions::of_read(&parts.headers)?;
    let turn = exchange.turn("graph-read", "").await?;
    let delivery = exchange.delivery(&turn, limits.timeout);
    answer::answer(delivery, move |output| {
        let media_type = format.media_types()[0];
        output.is(media_type);
        let options = exchange.query_options(&turn, &limits);
        let snapshot = exchange.dataset.database.snapshot();
        if let Target::Named(graph) = &target
            && !exists(&exchange, &snapshot, graph, &options)?
        {
            return Err(absent(graph));
        }
        let current = exchange
            .tags()
            .of_graph(&snapshot, target.graph(), media_type);
        let reading = conditions.for_read(Some(&current));
        let caching = Caching::of(Some(&current), reading, exchange.is_private())?;
        let is_unmodified = caching.is_unmodified();
        output.cache(caching);
        match is_unmodified {
            true => Ok(()),
            false => {
                let cores = exchange.dataset.database.cores();
                write_target(&snapshot, cores, &target, media_type, &options, output)
            }
        }
    })
    .await
}

fn write_target(
    snapshot: &Snapshot,
    cores: &Arc<Cores>,
    target: &Target,
    media_type: &str,
    options: &QueryOptions,
    output: &mut Output,
) -> Result<(), HttpError> {
    let format = RdfFormat::from_media_type(media_type);
    let format = format.expect("formats of graphs and datasets are formats of RDF");
    match target.graph() {
        None => pythia::dump_within(snapshot, cores, options, format, output)?,
        Some(graph) => pythia::dump_graph(snapshot, cores, options, graph, format, output)?,
    };
    Ok(())
}

/// Returns whether a graph exists, which means that it has a triple.
fn exists(
    exchange: &Exchange,
    snapshot: &Snapshot,
    graph: &NamedNode,
    options: &QueryOptions,
) -> Result<bool, HttpError> {
    let query = Query::parse(&format!("ASK {{ GRAPH {graph} {{ ?s ?p ?o }} }}"), None)?;
    let database = &exchange.dataset.database;
    let prepared = database.prepare_on(snapshot, &query, options)?;
    Ok(matches!(prepared.execute()?, Results::Boolean(true)))
}

fn absent(graph: &NamedNode) -> HttpError {
    HttpError::not_found(format!("there is no graph {graph}"))
}

/// The conditions of a write, and the graph or dataset that they are about.
struct WriteConditions {
    conditions: Conditions,
    target: Target,
}

impl WriteConditions {
    fn of(parts: &Parts, target: &Target) -> Result<Self, HttpError> {
        Ok(Self {
            conditions: Conditions::of_write(&parts.headers)?,
            target: target.clone(),
        })
    }

    /// Runs a write under these conditions, if there are any.
    fn guard<T>(
        &self,
        exchange: &Exchange,
        options: &QueryOptions,
        write: impl FnOnce(Option<&Precondition<'_, HttpError>>) -> Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        if self.conditions.is_empty() {
            return write(None);
        }
        write(Some(&Precondition {
            graph: self.target.graph(),
            check: &|snapshot| {
                let exists = match &self.target {
                    Target::Named(graph) => exists(exchange, snapshot, graph, options)?,
                    _ => true,
                };
                let state = exists.then(|| exchange.tags().state(snapshot, self.target.graph()));
                Ok(self.conditions.for_write(state.as_deref())?)
            },
        }))
    }
}

/// Replaces a graph.
async fn put(
    exchange: Exchange,
    parts: &Parts,
    body: Body,
    target: Target,
) -> Result<Response, HttpError> {
    let format = format_of(&parts.headers, &target)?;
    let conditions = WriteConditions::of(parts, &target)?;
    let upload = Upload::receive(&exchange.caller, parts, body, format).await?;
    let turn = exchange.turn("graph-write", "").await?;
    let clear = format!("DROP SILENT {} ;", target.in_update());
    let created = write(exchange, turn, upload, target, clear, conditions).await?;
    Ok(done(created, None))
}

/// Adds to a graph, or creates one.
async fn post(
    exchange: Exchange,
    parts: &Parts,
    body: Body,
    target: Target,
) -> Result<Response, HttpError> {
    let format = format_of(&parts.headers, &target)?;
    let conditions = WriteConditions::of(parts, &target)?;
    let (target, location) = match (target, format) {
        // A graph that is posted to the graph store itself gets a new name (§5.5).
        (Target::All, Some(format)) if is_store(parts) && !format.supports_datasets() => {
            let name = Alphanumeric.sample_string(&mut rand::rng(), 20);
            let store = base_of(parts).unwrap_or_else(|| "http://localhost/store".to_owned());
            let graph = NamedNode::new_unchecked(format!("{store}/{name}"));
            (Target::Named(graph.clone()), Some(graph))
        }
        (target, _) => (target, None),
    };
    let upload = Upload::receive(&exchange.caller, parts, body, format).await?;
    let turn = exchange.turn("graph-write", "").await?;
    let created = write(exchange, turn, upload, target, String::new(), conditions).await?;
    Ok(done(created, location))
}

/// Returns whether the path is a graph store as in Oxigraph, not a dataset's data as in Fuseki.
fn is_store(parts: &Parts) -> bool {
    parts.uri.path().ends_with("/store")
}

/// Writes the uploaded data into a graph, after an optional first operation. Returns whether the graph is new.
async fn write(
    exchange: Exchange,
    turn: Turn,
    upload: Upload,
    target: Target,
    before: String,
    conditions: WriteConditions,
) -> Result<bool, HttpError> {
    let cancel = Arc::clone(&turn.listed.activity.cancel);
    answer::run(cancel, move || {
        let options = exchange.query_options(&turn, &exchange.limits);
        let snapshot = exchange.dataset.database.snapshot();
        let created = match &target {
            Target::Named(graph) => !exists(&exchange, &snapshot, graph, &options)?,
            _ => false,
        };
        if !before.is_empty() && !conditions.conditions.is_empty() {
            // A refusal comes before conditions (RFC 9110 §13.2.1).
            target.check_writable(&exchange.access.write)?;
        }
        let replaced = match before.is_empty() {
            true => Replaced::Nothing,
            false => target.replaced(),
        };
        conditions.guard(&exchange, &options, |condition| {
            // The loader does not check access rules, and JSON-LD may name other graphs.
            match upload.is_long() && exchange.access.write.is_all() {
                true => upload.load(&exchange, &target, replaced, condition),
                false => upload.update(&exchange, &target, &before, &turn, condition),
            }
        })?;
        Ok(created)
    })
    .await
}

async fn delete(exchange: Exchange, parts: &Parts, target: Target) -> Result<Response, HttpError> {
    let conditions = WriteConditions::of(parts, &target)?;
    let turn = exchange.turn("graph-write", "").await?;
    let cancel = Arc::clone(&turn.listed.activity.cancel);
    answer::run(cancel, move || {
        let options = exchange.update_options(&turn, &exchange.limits);
        if let Target::Named(graph) = &target {
            // Users who may not write the graph must not learn whether it exists.
            target.check_writable(&exchange.access.write)?;
            let snapshot = exchange.dataset.database.snapshot();
            if !exists(&exchange, &snapshot, graph, &options.query)? {
                return Err(absent(graph));
            }
        }
        let update = Update::parse(&format!("DROP SILENT {}", target.in_update()), None)?;
        conditions.guard(&exchange, &options.query, |condition| {
            update::commit(&exchange, &update, &options, condition)
        })
    })
    .await?;
    Ok(done(false, None))
}

async fn patch(
    exchange: Exchange,
    parts: &Parts,
    body: Body,
    target: Target,
) -> Result<Response, HttpError> {
    let media_type = media_type_of(&parts.headers)?;
    if media_type.as_deref() != Some("application/sparql-update") {
        return Err(HttpError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "PATCH needs application/sparql-update",
        )
        .with_header(
            http::HeaderName::from_static("accept-patch"),
            HeaderValue::from_static("application/sparql-update"),
        ));
    }
    let conditions = WriteConditions::of(parts, &target)?;
    let received = receive::whole(&exchange.caller, body).await?;
    let base = base_of(parts);
    let turn = exchange.turn("graph-write", received.text()?).await?;
    let cancel = Arc::clone(&turn.listed.activity.cancel);
    answer::run(cancel, move || {
        let text = received.text()?;
        let failed = |error: QueryError| HttpError::of_query(&error, text);
        let mut options = exchange.update_options(&turn, &exchange.limits);
        // A patch of one graph reads that graph.
        options.query.union_default_graph &= !matches!(target, Target::Default);
        let database = &exchange.dataset.database;
        let parsed = database.parse_update(text, base.as_deref(), &options.query);
        let mut update = parsed.map_err(failed)?;
        if let Target::Named(graph) = &target {
            let set = update.set_graph(graph);
            set.map_err(|error| failed(error.into()))?;
        }
        conditions.guard(&exchange, &options.query, |condition| {
            update::commit(&exchange, &update, &options, condition)
        })
    })
    .await?;
    Ok(done(false, None))
}

fn done(created: bool, location: Option<NamedNode>) -> Response {
    let mut response = match created {
        true => StatusCode::CREATED.into_response(),
        false => StatusCode::NO_CONTENT.into_response(),
    };
    let location = location.and_then(|at| HeaderValue::from_str(at.as_str()).ok());
    if let Some(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Returns the format of the body; `None` for a form with several files, which have formats of their own.
fn format_of(headers: &HeaderMap, target: &Target) -> Result<Option<RdfFormat>, HttpError> {
    let media_type = media_type_of(headers)?;
    if media_type.as_deref() == Some("multipart/form-data") {
        return Ok(None);
    }
    let whole = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let format = whole.and_then(RdfFormat::from_media_type);
    match format {
        Some(format) if format != RdfFormat::N3 => match target {
            Target::All => Ok(Some(format)),
            _ if is_of_quads(format) => Err(HttpError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!(
                    "{} has graphs of its own; send triples to a single graph",
                    format.name()
                ),
            )),
            _ => Ok(Some(format)),
        },
        _ => Err(HttpError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "{} is not an RDF format: send text/turtle, application/n-triples, application/n-quads, \
                 application/trig, application/rdf+xml or application/ld+json",
                whole.unwrap_or("a body without Content-Type")
            ),
        )),
    }
}

/// Returns whether a format is made for several graphs. JSON-LD can hold them, but is mostly used for one graph.
fn is_of_quads(format: RdfFormat) -> bool {
    matches!(format, RdfFormat::NQuads | RdfFormat::TriG)
}

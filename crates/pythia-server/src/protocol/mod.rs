//! The HTTP protocols, by path: SPARQL 1.1 Query and Update, the Graph Store Protocol, and the server's other
//! routes.

pub(crate) mod answer;
pub(crate) mod caching;
pub(crate) mod error;
pub(crate) mod graph_store;
mod handover;
mod inflate;
pub(crate) mod negotiate;
pub(crate) mod parameters;
mod query;
pub(crate) mod receive;
mod update;
mod upload;
mod validators;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use pythia::ResultFormat;
use tower::ServiceExt;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::decompression::RequestDecompressionLayer;

use crate::config::Config;
use crate::context::ServerContext;
use crate::exchange::{Caller, Exchange, Peer, QUERY_ID};
use crate::operate::record::Record;
use crate::{explore, operate, page};
use error::HttpError;
use parameters::Parameters;

/// Answers of at least this many bytes are compressed, if the client accepts it.
const COMPRESSED_BYTES: u64 = 1024;

/// The request headers that answers depend on, besides those that the routes name.
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static(
    "origin, access-control-request-method, access-control-request-headers",
);

/// The URI that a request was sent to. Routes below a dataset's name see only the rest of the path.
#[derive(Clone)]
struct RequestUri(Uri);

/// The service that answers all requests.
#[derive(Clone)]
pub(crate) struct Service {
    context: Arc<ServerContext>,
    /// The routes.
    plain: Router,
    /// The routes behind what reads and writes compressed bodies and serves pages of other origins.
    layered: Router,
}

impl Service {
    pub(crate) fn new(context: Arc<ServerContext>) -> Self {
        let plain = Router::new()
            .merge(of_dataset())
            .nest("/{dataset}", of_dataset())
            .route("/{dataset}", any(dataset))
            .merge(operate::routes())
            .merge(explore::routes_of_server())
            .merge(page::routes())
            .fallback(nothing);
        let layered = plain
            .clone()
            .layer(CompressionLayer::new().compress_when(SizeAbove::new(COMPRESSED_BYTES)))
            .layer(map_response(caching::tag_coding))
            .layer(RequestDecompressionLayer::new())
            .layer(from_fn_with_state(
                Arc::clone(&context),
                inflate::zstd_bodies,
            ))
            .layer(cors(&context))
            .with_state(Arc::clone(&context));
        Self {
            plain: plain.with_state(Arc::clone(&context)),
            context,
            layered,
        }
    }

    /// Answers a request from an address. Errors become answers too.
    pub(crate) async fn answer(&self, mut request: Request, peer: Peer) -> Response {
        let settings = self.context.settings();
        let config = &settings.config;
        let address = config
            .trusted_proxies
            .client(peer.address, request.headers());
        let record = Arc::new(Record::new(address, &request));
        let accept = request.headers().get(ACCEPT).cloned();
        let asks_itself = page::asks_itself(request.headers());
        let response = match admissible(&request, config) {
            Err(refusal) => refusal.into_response(),
            Ok(()) => {
                let sent = RequestUri(request.uri().clone());
                request.extensions_mut().insert(sent);
                request.extensions_mut().insert(Peer { address, ..peer });
                request.extensions_mut().insert(Arc::clone(&record));
                self.route(request).await
            }
        };
        let mut response = self.finish(response, accept.as_ref(), record);
        if asks_itself {
            page::challenge_script(response.headers_mut());
        }
        response
    }

    /// Answers by path. The layers cost a small query much of its time, and many clients do not need them.
    async fn route(&self, request: Request) -> Response {
        let headers = request.headers();
        let is_coded = |name| headers.get(name).is_some_and(|coding| coding != "identity");
        if is_coded(ACCEPT_ENCODING) || is_coded(CONTENT_ENCODING) || headers.contains_key(ORIGIN) {
            let Ok(response) = self.layered.clone().oneshot(request).await;
            return response;
        }
        let Ok(mut response) = self.plain.clone().oneshot(request).await;
        // As the layers say it: caches must not give this answer to pages of other origins.
        response.headers_mut().append(VARY, VARY_ORIGIN);
        response
    }

    fn finish(
        &self,
        mut response: Response,
        accept: Option<&HeaderValue>,
        record: Arc<Record>,
    ) -> Response {
        if let Some(error) = response.extensions_mut().remove::<Arc<HttpError>>() {
            let written = error.respond(accept);
            let (parts, body) = written.into_parts();
            *response.body_mut() = body;
            response.headers_mut().remove(CONTENT_LENGTH);
            response.headers_mut().extend(parts.headers);
        }
        let headers = response.headers_mut();
        let id = record.id.get().map(|id| HeaderValue::from_str(id));
        if let Some(Ok(id)) = id {
            headers.insert(QUERY_ID, id);
        }
        let nosniff = HeaderValue::from_static("nosniff");
        headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, nosniff);
        operate::recorded(response, record, &self.context)
    }
}

/// Returns the routes of a dataset.
fn of_dataset() -> Router<Arc<ServerContext>> {
    Router::new()
        .route("/query", any(query::query))
        .route("/update", any(update::update))
        .route("/sparql", any(sparql))
        .route("/store", any(graph_store::indirect))
        .route("/data", any(graph_store::indirect))
        .route("/get", any(graph_store::reading))
        .route("/store/{*graph}", any(graph_store::direct))
        .route("/data/{*graph}", any(graph_store::direct))
        .merge(explore::routes())
}

/// Answers a query or an update.
async fn sparql(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let media_type = media_type_of(request.headers())?;
    match (request.method(), media_type.as_deref()) {
        (&Method::POST, Some("application/sparql-update")) => {
            update::update(exchange, request).await
        }
        (&Method::POST, Some("application/x-www-form-urlencoded")) => form(exchange, request).await,
        (&Method::GET, _) if has(request.uri(), "update")? => {
            Err(HttpError::bad_request("send updates by POST"))
        }
        _ => query::query(exchange, request).await,
    }
}

/// Returns whether the query string has a parameter.
fn has(uri: &Uri, name: &str) -> Result<bool, HttpError> {
    Ok(Parameters::of_uri(uri)?.all(name).next().is_some())
}

/// Answers a form with a query or an update.
async fn form(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    let mut parameters = Parameters::of_uri(&parts.uri)?;
    let form = receive::whole(&exchange.caller, body).await?;
    parameters.add(&form.bytes)?;
    match (parameters.take("query")?, parameters.take("update")?) {
        (Some(text), None) => query::run(exchange, &parts, parameters, form.part(text)).await,
        (None, Some(text)) => update::run(exchange, &parts, parameters, form.part(text)).await,
        (None, None) => Err(HttpError::bad_request(
            "missing parameter: `query` or `update`",
        )),
        (Some(_), Some(_)) => Err(HttpError::bad_request(
            "`query` and `update` exclude each other",
        )),
    }
}

/// Answers at a dataset's own path, as Fuseki does: queries, updates, and its graphs.
async fn dataset(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let media_type = media_type_of(request.headers())?;
    let is_text = matches!(
        media_type.as_deref(),
        Some(
            "application/sparql-query"
                | "application/sparql-update"
                | "application/x-www-form-urlencoded"
        )
    );
    let uri = request.uri();
    let is_sparql = has(uri, "query")? || has(uri, "update")? || request.method() == "QUERY";
    match is_sparql || (request.method() == Method::POST && is_text) {
        true => sparql(exchange, request).await,
        false => graph_store::indirect(exchange, request).await,
    }
}

/// Answers for paths without a route.
async fn nothing(_caller: Caller, uri: Uri) -> HttpError {
    HttpError::not_found(format!(
        "there is nothing at {}; queries are answered at /query",
        uri.path()
    ))
}

/// Lets pages of the configured origins read answers.
fn cors(context: &Arc<ServerContext>) -> CorsLayer {
    let context = Arc::clone(context);
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"];
    let methods = methods.map(|method| Method::from_bytes(method.as_bytes()).expect("a method"));
    let exposed = [QUERY_ID, "pythia-commit", "retry-after", "location", "etag"];
    CorsLayer::new()
        .allow_methods(methods)
        .allow_headers(tower_http::cors::Any)
        .expose_headers(exposed.map(http::HeaderName::from_static))
        .max_age(std::time::Duration::from_secs(3600))
        .allow_origin(AllowOrigin::predicate(move |origin, _| {
            let settings = context.settings();
            let origins = &settings.config.cors_origins;
            origins
                .iter()
                .any(|allowed| allowed == "*" || allowed.as_bytes() == origin.as_bytes())
        }))
}

/// Checks what applies to all requests, whatever their path.
fn admissible(request: &Request, config: &Config) -> Result<(), HttpError> {
    config.hosts.check(request)?;
    let url_bytes = config.limits.url_bytes;
    if length(request.uri()) > url_bytes {
        let message = format!("the URL has more than {url_bytes} bytes; send a POST");
        return Err(HttpError::new(StatusCode::URI_TOO_LONG, message));
    }
    Ok(())
}

/// Returns the length of a path and its query string, in bytes.
fn length(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |path| path.as_str().len())
}

/// Returns the media type of a body, in lower case and without parameters.
pub(crate) fn media_type_of(headers: &HeaderMap) -> Result<Option<String>, HttpError> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(None);
    };
    let broken = |_| HttpError::bad_request("the Content-Type is not ASCII");
    let text = value.to_str().map_err(broken)?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_owned();
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    match charset.map(|charset| charset.trim_matches('"')) {
        None | Some("utf-8" | "utf8" | "us-ascii") => Ok(Some(media_type)),
        Some(other) => Err(HttpError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the text is in {other}; send it in UTF-8"),
        )),
    }
}

/// Returns the IRI that a request was sent to, without the query string. It is the base of relative IRIs (SPARQL
/// 1.1 Query §4.1.1.2).
pub(crate) fn base_of(parts: &Parts) -> Option<String> {
    let RequestUri(uri) = parts.extensions.get()?;
    let host = match uri.authority() {
        Some(authority) => authority.as_str(),
        None => parts.headers.get(HOST)?.to_str().ok()?,
    };
    let Peer { is_encrypted, .. } = parts.extensions.get()?;
    let scheme = match is_encrypted {
        true => "https",
        false => "http",
    };
    let base = [scheme, "://", host, uri.path()].concat();
    pythia_rdf::is_iri(&base).then_some(base)
}

/// Makes the error for a client that accepts none of these formats.
pub(crate) fn not_acceptable(formats: &[ResultFormat]) -> HttpError {
    let media_types: Vec<&str> = formats.iter().map(|f| f.media_types()[0]).collect();
    HttpError::new(
        StatusCode::NOT_ACCEPTABLE,
        format!(
            "the Accept header matches none of the available formats: {}",
            media_types.join(", ")
        ),
    )
}

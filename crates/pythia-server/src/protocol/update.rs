//! SPARQL updates (SPARQL 1.1 Protocol §2.2).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use pythia::{Database, Precondition, QueryError, Update, UpdateOptions, UpdateReport};

use super::answer;
use super::error::HttpError;
use super::media_type_of;
use super::parameters::Parameters;
use super::receive::{self, ReceivedBytes};
use crate::exchange::Exchange;

/// Header of updates: several updates with the same key are done once. Draft of the IETF's HTTPAPI group.
const KEY: &str = "idempotency-key";
/// Header of answers: the position of the commit.
const COMMIT: HeaderName = HeaderName::from_static("pythia-commit");

/// Answers at the path of updates.
pub(crate) async fn update(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    if parts.method != http::Method::POST {
        return Err(HttpError::method("POST"));
    }
    let mut parameters = Parameters::of_uri(&parts.uri)?;
    let text = match media_type_of(&parts.headers)?.as_deref() {
        Some("application/sparql-update") => receive::whole(&exchange.caller, body).await?,
        Some("application/x-www-form-urlencoded") => {
            let form = receive::whole(&exchange.caller, body).await?;
            parameters.add(&form.bytes)?;
            let missing = || HttpError::bad_request("missing parameter: `update`");
            form.part(parameters.take("update")?.ok_or_else(missing)?)
        }
        other => {
            return Err(HttpError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!(
                    "send an update as application/sparql-update or as the field `update` of \
                     application/x-www-form-urlencoded, not as {}",
                    other.unwrap_or("a body without Content-Type")
                ),
            ));
        }
    };
    run(exchange, &parts, parameters, text).await
}

/// Runs an update whose text was received.
pub(crate) async fn run(
    exchange: Exchange,
    parts: &Parts,
    parameters: Parameters,
    text: ReceivedBytes,
) -> Result<Response, HttpError> {
    let base = super::base_of(parts);
    let default = parameters.iris("using-graph-uri")?;
    let named = parameters.iris("using-named-graph-uri")?;
    let limits = parameters.lower(&exchange.limits)?;
    let isolation = parameters.isolation()?;
    let key = key(parts)?;
    let turn = exchange.turn("update", text.text()?).await?;
    let cancel = Arc::clone(&turn.listed.activity.cancel);
    let report = answer::run(cancel, move || {
        let started = Instant::now();
        let text = text.text()?;
        let failed = |error: QueryError| HttpError::of_query(&error, text);
        let mut options = exchange.update_options(&turn, &limits);
        options.isolation = isolation;
        let database = &exchange.dataset.database;
        let parsed = database.parse_update(text, base.as_deref(), &options.query);
        let mut update = parsed.map_err(failed)?;
        if !default.is_empty() || !named.is_empty() {
            let set = update.set_using(default, named);
            set.map_err(|error| failed(error.into()))?;
        }
        // The time limit includes reading the text.
        let left = |timeout: Duration| timeout.saturating_sub(started.elapsed());
        options.query.timeout = options.query.timeout.map(left);
        run_timed(&exchange, |database| {
            Ok(database.update_parsed(&update, &options, key.as_deref())?)
        })
    })
    .await?;
    Ok(told(&report, parts.headers.get(ACCEPT)))
}

/// Runs an update of a graph, under a condition if there is one, and records its time and result.
pub(super) fn commit(
    exchange: &Exchange,
    update: &Update,
    options: &UpdateOptions,
    condition: Option<&Precondition<'_, HttpError>>,
) -> Result<UpdateReport, HttpError> {
    run_timed(exchange, |database| match condition {
        Some(condition) => database.update_if(update, options, condition),
        None => Ok(database.update_parsed(update, options, None)?),
    })
}

/// Runs an update, and records its time and result.
fn run_timed(
    exchange: &Exchange,
    update: impl FnOnce(&Database) -> Result<UpdateReport, HttpError>,
) -> Result<UpdateReport, HttpError> {
    let started = Instant::now();
    let report = update(&exchange.dataset.database)?;
    let changed = report.added + report.removed;
    let record = &exchange.caller.record;
    record.set_run(started.elapsed(), changed);
    if let (Some(activity), false) = (record.activity.get(), report.warnings.is_empty()) {
        // Set once: a request is one update.
        activity.updated(report.warnings.clone());
    }
    Ok(report)
}

/// Returns the idempotency key of an update.
fn key(parts: &Parts) -> Result<Option<String>, HttpError> {
    /// Limit on a key's length; the log has room for this.
    const LONGEST: usize = 200;
    let Some(key) = parts.headers.get(KEY) else {
        return Ok(None);
    };
    match key.to_str() {
        Ok(key) if (1..=LONGEST).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(HttpError::bad_request(format!(
            "{KEY} must be 1 to {LONGEST} printable characters"
        ))),
    }
}

/// Makes the answer to an update: empty, unless JSON is requested.
fn told(report: &UpdateReport, accept: Option<&HeaderValue>) -> Response {
    let json = accept
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/json"));
    let mut response = match json {
        false => StatusCode::NO_CONTENT.into_response(),
        true => {
            let report = serde_json::json!({
                "position": report.position,
                "added": report.added,
                "removed": report.removed,
                "operations": report.operations,
            });
            let media_type = HeaderValue::from_static("application/json");
            let mut response = Response::new(Body::from(report.to_string()));
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        }
    };
    if let Some(position) = report.position {
        response.headers_mut().insert(COMMIT, position.into());
    }
    response
}

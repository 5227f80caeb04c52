//! Errors as HTTP answers.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use pythia::{LoadError, QueryError, SparqlError, StoreError, WriteError};

use super::validators::{Malformed, Unmet};

/// An error answer: a status, and a message that says what is wrong and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// Line and column in the request's text, from 1.
    pub(crate) place: Option<(usize, usize)>,
    /// The wrong line, with a caret.
    snippet: Option<String>,
    /// Boxed, because every `Result` of a handler reserves space for an error.
    headers: Box<HeaderMap>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            place: None,
            snippet: None,
            headers: Box::default(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Makes a 405 answer with the allowed methods.
    pub(crate) fn method(allowed: &'static str) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("method not allowed; use {allowed}"),
        )
        .with_header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// Makes an answer with the time, in seconds, after which to retry.
    pub(crate) fn later(status: StatusCode, message: impl Into<String>, seconds: u64) -> Self {
        Self::new(status, message).with_header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Makes the answer for an error of a query or update. The text shows where a syntax error is.
    pub(crate) fn of_query(error: &QueryError, text: &str) -> Self {
        let mut answer = Self::new(status_of(error), full_message(error));
        if let QueryError::Syntax { line, column, .. } = error {
            answer.place = Some((*line, *column));
            answer.snippet = error.snippet(text);
        }
        if error.is_retryable() {
            answer = answer.with_header(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }

    /// Makes the answer for an error while loading uploaded data.
    pub(crate) fn of_load(error: &LoadError) -> Self {
        let status = match error {
            LoadError::Parse(_) => StatusCode::BAD_REQUEST,
            LoadError::Temporary { .. } | LoadError::TemporaryLimit { .. } => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            error if error.is_disk_full() => StatusCode::INSUFFICIENT_STORAGE,
            LoadError::Store(StoreError::ReadOnly) => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, full_message(error))
    }

    /// Writes the error as plain text, or as problem details (RFC 9457) if the client accepts JSON.
    pub(crate) fn respond(&self, accept: Option<&HeaderValue>) -> Response {
        let problem = accept
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| {
                accept.contains("application/problem+json") || accept.contains("application/json")
            });
        let (media_type, body) = match problem {
            true => ("application/problem+json", self.problem()),
            false => ("text/plain; charset=utf-8", self.text()),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = HeaderMap::clone(&self.headers);
        let media_type = HeaderValue::from_static(media_type);
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        response
    }

    fn text(&self) -> String {
        match &self.snippet {
            Some(snippet) => format!("{}\n{snippet}\n", self.message),
            None => format!("{}\n", self.message),
        }
    }

    fn problem(&self) -> String {
        let mut problem = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.message,
        });
        if let Some((line, column)) = self.place {
            problem["line"] = line.into();
            problem["column"] = column.into();
        }
        problem.to_string()
    }
}

/// Carries the error only. Its body is written where the request's Accept header is known
/// ([`HttpError::respond`]).
impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

impl From<Malformed> for HttpError {
    fn from(error: Malformed) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<Unmet> for HttpError {
    fn from(unmet: Unmet) -> Self {
        let message = match unmet {
            Unmet::Match => "the state of the resource is none that If-Match lists; read it again",
            Unmet::NoneMatch => "the state of the resource is one that If-None-Match excludes",
        };
        Self::new(StatusCode::PRECONDITION_FAILED, message)
    }
}

impl From<SparqlError> for HttpError {
    fn from(error: SparqlError) -> Self {
        QueryError::from(error).into()
    }
}

impl From<QueryError> for HttpError {
    fn from(error: QueryError) -> Self {
        Self::of_query(&error, "")
    }
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        QueryError::Store(error).into()
    }
}

impl From<WriteError> for HttpError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Query(error) | WriteError::Cut { error, .. } => error.into(),
            WriteError::Format { .. } | WriteError::Character { .. } => {
                Self::new(StatusCode::NOT_ACCEPTABLE, error.to_string())
            }
            error => Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// Returns the message of an error with its causes.
fn full_message(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !message.contains(&cause_text) {
            message = format!("{message}: {cause_text}");
        }
        source = cause.source();
    }
    message
}

fn status_of(error: &QueryError) -> StatusCode {
    match error {
        QueryError::Syntax { .. }
        | QueryError::Unsupported { .. }
        | QueryError::Path(_)
        | QueryError::Load { .. } => StatusCode::BAD_REQUEST,
        QueryError::Graph { .. } => StatusCode::CONFLICT,
        QueryError::Forbidden { .. }
        | QueryError::Refused { .. }
        | QueryError::Store(StoreError::ReadOnly) => StatusCode::FORBIDDEN,
        QueryError::Store(_) if error.is_retryable() => StatusCode::CONFLICT,
        QueryError::Store(error) if error.is_disk_full() => StatusCode::INSUFFICIENT_STORAGE,
        QueryError::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
        QueryError::Timeout => StatusCode::GATEWAY_TIMEOUT,
        QueryError::Memory(_) | QueryError::Changes(_) | QueryError::Spill { .. } => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        QueryError::Service { .. } => StatusCode::BAD_GATEWAY,
        QueryError::RowLimit(_) => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_device_is_told_by_its_status() {
        let full = || LoadError::Temporary {
            action: "write",
            what: "rows",
            folder: "/tmp".into(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let store = || StoreError::Sort(Box::new(full()));
        let unsettled = StoreError::Unsettled {
            cause: Box::new(store()),
        };
        for answer in [
            HttpError::from(store()),
            HttpError::from(unsettled),
            HttpError::of_load(&full()),
            HttpError::of_load(&LoadError::Store(store())),
        ] {
            assert_eq!(answer.status, StatusCode::INSUFFICIENT_STORAGE);
        }
    }
}

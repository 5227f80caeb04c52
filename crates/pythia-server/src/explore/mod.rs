//! What the page asks besides SPARQL.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use http::request::Parts;

use crate::exchange::Exchange;
use crate::protocol::error::HttpError;
use crate::state::State;

/// The paths of each dataset.
pub(crate) fn routes() -> Router<Arc<State>> {
    Router::new()
}

/// The paths of the server.
pub(crate) fn routes_of_server() -> Router<Arc<State>> {
    Router::new()
}

/// What the endpoint says of itself (SPARQL 1.1 Service Description).
pub(crate) async fn description(
    _exchange: &Exchange,
    _parts: &Parts,
) -> Result<Response, HttpError> {
    Err(HttpError::bad_request("there is no query"))
}

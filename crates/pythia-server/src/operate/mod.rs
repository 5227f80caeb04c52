//! What operators look at.

pub(crate) mod record;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::state::State;

/// The paths of operators.
pub(crate) fn routes() -> Router<Arc<State>> {
    Router::new().route("/$/ping", get(ping))
}

async fn ping() -> &'static str {
    "pong\n"
}

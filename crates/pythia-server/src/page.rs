//! The page.

use std::sync::Arc;

use axum::Router;

use crate::state::State;

/// The paths of the page.
pub(crate) fn routes() -> Router<Arc<State>> {
    Router::new()
}

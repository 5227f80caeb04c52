//! Running queries: `/$/queries` lists them with their plans and what each operator has taken so far. Users see
//! and cancel their own requests; administrators of a dataset all requests on it.

use std::sync::Arc;

use axum::extract::{Path, Request};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use pythia::PlanNode;
use serde::Serialize;

use super::{json, reading};
use crate::exchange::Caller;
use crate::protocol::error::HttpError;
use crate::running::Activity;

/// A running query or update.
#[derive(Debug, Serialize)]
struct RunningRequest {
    id: Arc<str>,
    dataset: Arc<str>,
    client: String,
    text: String,
    started_ms_ago: u128,
    state: &'static str,
    /// Solutions so far; counted only if the query was sent with `profile=true`.
    rows: Option<u64>,
    /// The plan, once it exists.
    plan: Option<PlanNode>,
}

impl RunningRequest {
    fn of(activity: &Activity) -> Self {
        let plan = activity.plan();
        Self {
            id: Arc::clone(&activity.id),
            dataset: Arc::clone(&activity.dataset),
            client: activity.client.to_string(),
            text: activity.text.clone(),
            started_ms_ago: activity.started.elapsed().as_millis(),
            state: match activity.has_begun() {
                true => "running",
                false => "queued",
            },
            rows: plan.as_ref().and_then(|plan| Some(plan.measured?.rows)),
            plan,
        }
    }
}

/// Lists the requests that the caller may see.
pub(super) async fn list(caller: Caller, request: Request) -> Result<Response, HttpError> {
    reading(request)?;
    let all = caller.context.running.all();
    let seen = all.iter().filter(|activity| may_see(&caller, activity));
    let queries: Vec<RunningRequest> = seen.map(|activity| RunningRequest::of(activity)).collect();
    json(&serde_json::json!({ "queries": queries }))
}

/// Returns or cancels one request.
pub(super) async fn one(
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, HttpError> {
    let (parts, _) = request.into_parts();
    let activity = caller.context.running.get(&id);
    let activity = activity.filter(|activity| may_see(&caller, activity));
    // Requests of others look as if they did not exist.
    let gone = || HttpError::not_found(format!("no running request {id}; it may have ended"));
    let activity = activity.ok_or_else(gone)?;
    match parts.method {
        Method::GET | Method::HEAD => json(&RunningRequest::of(&activity)),
        Method::DELETE if caller.identity.is_foreign() => Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "a page of another origin may not cancel it",
        )),
        Method::DELETE => {
            activity.cancel();
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(HttpError::method("GET, HEAD, DELETE")),
    }
}

fn may_see(caller: &Caller, activity: &Activity) -> bool {
    activity.client == caller.client() || caller.identity.access(&activity.dataset).admin
}

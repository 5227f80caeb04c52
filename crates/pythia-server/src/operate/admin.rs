//! Paths that begin with `/$/`: health, contents, and administration of stores. Paths that Fuseki has too take the
//! same requests and give the same answers.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use pythia::{Database, Pace, Position};
use serde_json::{Value, json};

use super::tasks::Task;
use super::{metrics, time_text};
use super::{optimize, statistics};
use crate::config::MetricsFor;
use crate::context::{Dataset, ServerContext};
use crate::exchange::{Caller, Exchange};
use crate::protocol::answer;
use crate::protocol::error::HttpError;

/// Returns the routes for operators.
pub(crate) fn routes() -> Router<Arc<ServerContext>> {
    Router::new()
        .route("/$/ping", reading(get(ping).post(ping)))
        .route("/$/health", reading(get(health)))
        .route("/$/ready", reading(get(ready)))
        .route("/$/metrics", reading(get(metrics)))
        .route("/$/server", reading(get(server)))
        .route("/$/datasets", reading(get(datasets)))
        .route("/$/datasets/{dataset}", reading(get(dataset)))
        .route("/$/stats", reading(get(statistics::of_all)))
        .route("/$/stats/", reading(get(statistics::of_all)))
        .route("/$/stats/{dataset}", reading(get(statistics::of_one)))
        .route("/$/compact/{dataset}", doing(post(compact)))
        .route("/$/backup/{dataset}", doing(post(backup)))
        .route("/$/tasks", reading(get(tasks)))
        .route(
            "/$/tasks/{task}",
            either(get(task).delete(cancel), "GET, HEAD, DELETE"),
        )
        .route(
            "/$/optimize/{dataset}",
            either(
                get(optimize::list).post(optimize::change),
                "GET, HEAD, POST",
            ),
        )
        .route("/$/reload", doing(post(reload)))
}

fn reading(router: MethodRouter<Arc<ServerContext>>) -> MethodRouter<Arc<ServerContext>> {
    router.fallback(|| async { HttpError::method("GET, HEAD") })
}

fn either(
    router: MethodRouter<Arc<ServerContext>>,
    methods: &'static str,
) -> MethodRouter<Arc<ServerContext>> {
    router.fallback(move || async move { HttpError::method(methods) })
}

fn doing(router: MethodRouter<Arc<ServerContext>>) -> MethodRouter<Arc<ServerContext>> {
    router.fallback(|| async { HttpError::method("POST") })
}

/// Makes an answer that must not be cached.
fn fresh(media_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn as_json(value: &Value) -> Response {
    fresh("application/json", format!("{value:#}\n"))
}

fn plain(text: impl Into<String>) -> Response {
    fresh("text/plain; charset=utf-8", text.into())
}

/// Returns the time, as a sign of life.
async fn ping() -> Response {
    plain(time_text(SystemTime::now()))
}

/// Answers that the process is alive.
async fn health() -> Response {
    plain("healthy\n")
}

/// Answers whether requests should be sent to this server.
async fn ready(caller: Caller) -> Response {
    let (status, text) = match caller.context.is_draining() {
        false => (StatusCode::OK, "ready\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
    };
    let mut response = plain(text);
    *response.status_mut() = status;
    response
}

async fn metrics(caller: Caller) -> Result<Response, HttpError> {
    let allowed = match caller.settings.config.operate.metrics {
        MetricsFor::All => true,
        MetricsFor::Loopback if caller.peer.to_canonical().is_loopback() => true,
        MetricsFor::Loopback | MetricsFor::Admins => is_admin(&caller),
    };
    if !allowed {
        return Err(caller.identity.refuse("reading metrics"));
    }
    let text = answer::run(Arc::default(), move || Ok(metrics::render(&caller.context))).await?;
    Ok(fresh(metrics::MEDIA_TYPE, text))
}

/// Returns whether the caller may administer the whole server.
fn is_admin(caller: &Caller) -> bool {
    let datasets = caller.context.datasets();
    if datasets.by_name.is_empty() {
        // Without datasets: a caller whose role covers any dataset.
        return caller.identity.access("").admin;
    }
    let mut names = datasets.by_name.keys();
    names.all(|name| caller.identity.access(name).admin)
}

fn check_admin(caller: &Caller, what: &str) -> Result<(), HttpError> {
    match is_admin(caller) {
        true => Ok(()),
        false => Err(caller.identity.refuse(what)),
    }
}

/// Checks that the caller may administer one dataset.
pub(super) fn check_admin_of(exchange: &Exchange, what: &str) -> Result<(), HttpError> {
    match exchange.access.admin {
        true => Ok(()),
        false => Err(exchange.caller.identity.refuse(what)),
    }
}

async fn server(caller: Caller) -> Response {
    let operations = &caller.context.operations;
    let uptime = operations.started.elapsed().unwrap_or_default();
    as_json(&json!({
        "name": "Pythia",
        "version": env!("CARGO_PKG_VERSION"),
        "startDateTime": time_text(operations.started),
        "uptime": uptime.as_secs(),
        "datasets": visible(&caller),
    }))
}

async fn datasets(caller: Caller) -> Response {
    as_json(&json!({ "datasets": visible(&caller) }))
}

async fn dataset(exchange: Exchange) -> Response {
    as_json(&described(&exchange.dataset))
}

/// Returns the datasets that the caller may use.
fn visible(caller: &Caller) -> Vec<Value> {
    let datasets = caller.context.datasets();
    let visible = datasets.by_name.iter();
    let visible = visible.filter(|(name, _)| !caller.identity.access(name).is_none());
    visible.map(|(_, dataset)| described(dataset)).collect()
}

/// Describes a dataset as Fuseki does.
fn described(dataset: &Dataset) -> Value {
    let service = |kind: &str, description: &str, endpoints: &[&str]| {
        json!({
            "srv.type": kind,
            "srv.description": description,
            "srv.endpoints": endpoints,
        })
    };
    let mut services = vec![
        service("query", "SPARQL Query", &["query", "sparql"]),
        service("gsp-r", "Graph Store Protocol (Read)", &["get"]),
    ];
    if !dataset.config.read_only {
        services.push(service("update", "SPARQL Update", &["update"]));
        services.push(service(
            "gsp-rw",
            "Graph Store Protocol",
            &["data", "store"],
        ));
    }
    json!({
        "ds.name": format!("/{}", dataset.name),
        "ds.state": true,
        "ds.services": services,
    })
}

async fn compact(exchange: Exchange) -> Result<Response, HttpError> {
    check_admin_of(&exchange, "compaction")?;
    let dataset = Arc::clone(&exchange.dataset);
    if dataset.config.read_only {
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "the dataset is read-only",
        ));
    }
    begin(&exchange, "Compact", None, move || {
        let done = dataset.database.store().compact();
        let done = done.map_err(|error| error.to_string())?;
        Ok(format!(
            "wrote a base of {} quads, {} bytes",
            done.quads, done.bytes
        ))
    })
}

async fn backup(exchange: Exchange) -> Result<Response, HttpError> {
    check_admin_of(&exchange, "backup")?;
    let operate = &exchange.caller.settings.config.operate;
    let Some(folder) = &operate.backup_folder else {
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "no folder for backups: set operate.backup_folder",
        ));
    };
    let folder = folder.join(&*exchange.dataset.name);
    // Uses the open store, not whatever its path leads to by now.
    let dataset = Arc::clone(&exchange.dataset);
    begin(&exchange, "Backup", None, move || {
        back_up(&dataset.database, &folder)
    })
}

fn back_up(database: &Database, folder: &FilePath) -> Result<String, String> {
    let failed = |error: &dyn std::error::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let report = database.backup(folder).map_err(|error| failed(&error))?;
    Ok(format!(
        "copied {} bytes in {} files and {} commits, kept {} files; it ends with commit {}",
        report.copied_bytes,
        report.copied_files,
        report.commits,
        report.kept_files,
        report.last.unwrap_or(Position(0)),
    ))
}

/// Starts a task for a dataset and returns its number.
pub(super) fn begin(
    exchange: &Exchange,
    what: &'static str,
    pace: Option<Pace>,
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<Response, HttpError> {
    let tasks = &exchange.caller.context.operations.tasks;
    match tasks.start(what, &exchange.dataset.name, pace, work) {
        Ok(task) => Ok(as_json(&json!({ "taskId": task.id.to_string() }))),
        Err(other) => Err(HttpError::new(
            StatusCode::CONFLICT,
            format!("task {} is running on the dataset; see /$/tasks", other.id),
        )),
    }
}

async fn tasks(caller: Caller) -> Result<Response, HttpError> {
    check_admin(&caller, "the list of tasks")?;
    let tasks = caller.context.operations.tasks.all();
    let told: Vec<Value> = tasks.iter().map(|task| task.to_json()).collect();
    Ok(as_json(&Value::Array(told)))
}

async fn task(caller: Caller, Path(id): Path<String>) -> Result<Response, HttpError> {
    check_admin(&caller, "the list of tasks")?;
    Ok(as_json(&task_of(&caller, &id)?.to_json()))
}

/// Cancels a task, and returns it as it is then.
async fn cancel(caller: Caller, Path(id): Path<String>) -> Result<Response, HttpError> {
    check_admin(&caller, "cancelling a task")?;
    let task = task_of(&caller, &id)?;
    match task.cancel() || !task.is_running() {
        true => Ok(as_json(&task.to_json())),
        false => Err(HttpError::new(
            StatusCode::CONFLICT,
            "a compaction or a backup cannot be cancelled",
        )),
    }
}

fn task_of(caller: &Caller, id: &str) -> Result<Arc<Task>, HttpError> {
    let task = id.parse().ok();
    let task = task.and_then(|id| caller.context.operations.tasks.get(id));
    let missing =
        || HttpError::not_found(format!("there is no task {id}, or it ended too long ago"));
    task.ok_or_else(missing)
}

/// Reads the configuration again.
async fn reload(caller: Caller) -> Result<Response, HttpError> {
    check_admin(&caller, "reloading the configuration")?;
    let context = Arc::clone(&caller.context);
    answer::run(Arc::default(), move || match context.reload() {
        Ok(reloaded) => Ok(as_json(&reloaded.to_json())),
        // The error is in a file of the server, not in the request.
        Err(error) => Err(HttpError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("nothing was changed: {error}"),
        )),
    })
    .await
}

//! Optional indexes of a dataset: the list of them, and tasks that build or drop them while the dataset is used.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use pythia::{Auxiliary, CachedAttribute, Database, OptimizeOptions, Pace, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin::{as_json, begin, check_admin_of};
use crate::exchange::Exchange;
use crate::protocol::error::HttpError;
use crate::protocol::media_type_of;
use crate::protocol::parameters::Parameters;
use crate::protocol::receive;

/// A change of the optional indexes, as a client asks for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WantedIndexes {
    /// Predicates with reachability labels.
    reachability: Vec<String>,
    /// Predicates whose values are cached beside neighbours.
    attributes: Vec<WantedAttribute>,
    /// The degrees of all nodes.
    degrees: bool,
    /// Drops the named indexes, or all if none is named.
    drop: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WantedAttribute {
    predicate: String,
    /// The predicates of edges; all if empty.
    along: Vec<String>,
}

impl WantedIndexes {
    /// Reads a form: the options of `pythia optimize`.
    fn of_form(form: &Parameters) -> Result<Self, HttpError> {
        let all = |name| form.all(name).map(str::to_owned).collect::<Vec<_>>();
        let flag = |name| match form.one(name)? {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => Err(HttpError::bad_request(format!(
                "the parameter {name} is true or false, not {other:?}"
            ))),
        };
        let attributes = all("cache-attribute").into_iter();
        let attributes = attributes.map(|predicate| WantedAttribute {
            predicate,
            along: all("for"),
        });
        Ok(Self {
            reachability: all("reachability"),
            attributes: attributes.collect(),
            degrees: flag("degrees")?,
            drop: flag("drop")?,
        })
    }

    fn indexes(self) -> Auxiliary {
        let attribute = |wanted: WantedAttribute| CachedAttribute {
            predicate: wanted.predicate,
            along: wanted.along,
        };
        Auxiliary {
            reachability: self.reachability,
            attributes: self.attributes.into_iter().map(attribute).collect(),
            degrees: self.degrees,
        }
    }
}

/// Returns the optional indexes of a dataset and their state.
pub(super) async fn list(exchange: Exchange) -> Result<Response, HttpError> {
    check_admin_of(&exchange, "the list of optional indexes")?;
    let listed = tokio::task::spawn_blocking(move || listed(&exchange.dataset.database));
    let listed = listed.await.expect("it does not panic");
    Ok(as_json(&listed.map_err(failed)?))
}

fn listed(database: &Database) -> Result<Value, StoreError> {
    let snapshot = database.snapshot();
    let indexes = pythia::index_states(database).into_iter().map(|state| {
        Ok(json!({
            "index": pythia::describe_auxiliary(&state.kind, &snapshot)?,
            "bytes": state.bytes,
            "changes": state.changes,
            "used": state.is_used,
        }))
    });
    Ok(json!({ "indexes": indexes.collect::<Result<Vec<_>, StoreError>>()? }))
}

/// Starts a task that builds or drops indexes.
pub(super) async fn change(exchange: Exchange, request: Request) -> Result<Response, HttpError> {
    check_admin_of(&exchange, "changing optional indexes")?;
    if exchange.dataset.config.read_only {
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "the dataset is read-only",
        ));
    }
    let wanted = wanted(&exchange, request).await?;
    let drops = wanted.drop;
    let named = wanted.indexes();
    if named.is_empty() && !drops {
        return Err(HttpError::bad_request(
            "name an index: reachability, attributes (in a form: cache-attribute) or degrees",
        ));
    }
    let (dataset, checked) = (Arc::clone(&exchange.dataset), named.clone());
    let check = move || checked.check(&dataset.database.snapshot());
    let check = tokio::task::spawn_blocking(check);
    check.await.expect("it does not panic").map_err(failed)?;
    let dataset = Arc::clone(&exchange.dataset);
    let pace = Pace::default().with_rests();
    let (what, of_task) = (if drops { "Drop" } else { "Optimize" }, pace.clone());
    let memory_bytes = dataset.config.options().write;
    let memory_bytes = memory_bytes.map_or(0, |write| write.maintenance.compaction.memory_bytes);
    begin(&exchange, what, Some(of_task), move || {
        let database = &dataset.database;
        let done = match drops {
            true => dropped(database, &named),
            false => built(database, &named, memory_bytes, &pace),
        };
        done.map_err(|error| error.to_string())
    })
}

/// Reads the body of a request.
async fn wanted(exchange: &Exchange, request: Request) -> Result<WantedIndexes, HttpError> {
    let (parts, body) = request.into_parts();
    let media_type = media_type_of(&parts.headers)?;
    match media_type.as_deref() {
        Some("application/json") => {
            let body = receive::whole(&exchange.caller, body).await?;
            serde_json::from_slice(&body.bytes)
                .map_err(|error| HttpError::bad_request(format!("the body: {error}")))
        }
        None | Some("application/x-www-form-urlencoded") => {
            let mut form = Parameters::of_uri(&parts.uri)?;
            form.add(&receive::whole(&exchange.caller, body).await?.bytes)?;
            WantedIndexes::of_form(&form)
        }
        Some(other) => Err(HttpError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "send the indexes as application/json or application/x-www-form-urlencoded, not as {other}"
            ),
        )),
    }
}

fn built(
    database: &Database,
    named: &Auxiliary,
    memory_bytes: usize,
    pace: &Pace,
) -> Result<String, StoreError> {
    let options = OptimizeOptions {
        memory_bytes,
        ..OptimizeOptions::default()
    };
    let added = database.optimize(named, options, pace)?;
    let snapshot = database.snapshot();
    let lines = added.iter().map(|added| {
        let what = pythia::describe_auxiliary(&added.kind, &snapshot)?;
        let (bytes, seconds) = (added.bytes, added.time.as_secs_f64());
        Ok(format!("built: {what}, {bytes} bytes in {seconds:.2} s"))
    });
    Ok(lines.collect::<Result<Vec<_>, StoreError>>()?.join("\n"))
}

fn dropped(database: &Database, named: &Auxiliary) -> Result<String, StoreError> {
    let dropped = database.drop_auxiliary(named)?;
    let snapshot = database.snapshot();
    let lines = dropped.iter().map(|kind| {
        let what = pythia::describe_auxiliary(kind, &snapshot)?;
        Ok(format!("dropped: {what}"))
    });
    Ok(lines.collect::<Result<Vec<_>, StoreError>>()?.join("\n"))
}

fn failed(error: StoreError) -> HttpError {
    match error {
        StoreError::NotOptimizable { message } => HttpError::bad_request(message),
        error => HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

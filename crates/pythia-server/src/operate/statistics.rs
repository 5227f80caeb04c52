//! Statistics of datasets: Fuseki's counts of requests, and more under `pythia`.

use std::sync::Arc;

use axum::response::Response;
use pythia::{ChangesReport, QueryError};
use serde_json::{Map, Value, json};

use super::admin::as_json;
use super::metrics::Tally;
use crate::context::{Dataset, ServerContext};
use crate::exchange::{Caller, Exchange};
use crate::protocol::answer;
use crate::protocol::error::HttpError;

/// Answers with the statistics of all datasets that the caller may read completely; `pythia` has those of the
/// default dataset.
pub(super) async fn of_all(caller: Caller) -> Result<Response, HttpError> {
    let datasets = caller.context.datasets();
    let known = |dataset: &Arc<Dataset>| {
        let access = caller.identity.access(&dataset.name);
        access.admin || access.read.is_all()
    };
    let all: Vec<_> = datasets
        .by_name
        .values()
        .filter(|d| known(d))
        .cloned()
        .collect();
    let default = datasets.default.clone().filter(known);
    let context = Arc::clone(&caller.context);
    answer::run(Arc::default(), move || {
        told(&context, &all, default.as_deref())
    })
    .await
}

pub(super) async fn of_one(exchange: Exchange) -> Result<Response, HttpError> {
    let Exchange {
        caller,
        dataset,
        access,
        ..
    } = exchange;
    if !access.admin && !access.read.is_all() {
        return Err(caller
            .identity
            .refuse("reading the statistics of a whole dataset"));
    }
    answer::run(Arc::default(), move || {
        told(
            &caller.context,
            std::slice::from_ref(&dataset),
            Some(&dataset),
        )
    })
    .await
}

fn told(
    context: &ServerContext,
    datasets: &[Arc<Dataset>],
    held: Option<&Dataset>,
) -> Result<Response, HttpError> {
    let requests: Map<String, Value> = datasets
        .iter()
        .map(|dataset| (format!("/{}", dataset.name), requests(context, dataset)))
        .collect();
    let mut told = json!({ "datasets": requests });
    if let Some(dataset) = held {
        told["pythia"] = contents(dataset)?;
    }
    Ok(as_json(&told))
}

/// Returns the numbers of requests to a dataset, by operation.
fn requests(context: &ServerContext, dataset: &Dataset) -> Value {
    let counts = |tally: &Tally| {
        json!({
            "Requests": tally.good + tally.bad,
            "RequestsGood": tally.good,
            "RequestsBad": tally.bad,
        })
    };
    let mut all = Tally::default();
    let mut endpoints = Map::new();
    for (operation, tally) in context.operations.metrics.tally(&dataset.name) {
        all.good += tally.good;
        all.bad += tally.bad;
        let mut told = counts(&tally);
        told["operation"] = operation.into();
        endpoints.insert(operation.to_owned(), told);
    }
    let mut told = counts(&all);
    told["endpoints"] = endpoints.into();
    told
}

/// Returns the contents of a dataset in numbers, and their size.
fn contents(dataset: &Dataset) -> Result<Value, QueryError> {
    let database = &dataset.database;
    let snapshot = database.snapshot();
    let statistics = snapshot.statistics();
    let ids: Vec<_> = statistics.predicates.iter().map(|p| p.predicate).collect();
    let names = snapshot.decode(&ids)?;
    let predicates: Vec<Value> = names
        .iter()
        .zip(&statistics.predicates)
        .filter(|(_, predicate)| predicate.quads > 0)
        .filter_map(|(name, predicate)| match name {
            pythia::Term::NamedNode(name) => {
                Some(json!({ "iri": name.as_str(), "quads": predicate.quads }))
            }
            _ => None,
        })
        .collect();
    let graphs = &statistics.graphs.graphs;
    let named_graphs = graphs
        .iter()
        .filter(|(graph, quads)| graph.is_bound() && *quads > 0);
    let changes = ChangesReport::new(database.store(), &dataset.config.maintenance())?;
    let run_bytes: u64 = changes.runs.iter().map(|run| run.bytes).sum();
    let cache = database.counters().total();
    let usage = database.usage();
    Ok(json!({
        "quads": statistics.quads,
        "triples": statistics.triples,
        "named_graphs": named_graphs.count(),
        "nodes": statistics.subjects,
        "objects": statistics.objects,
        "predicates": predicates,
        "commits": database.store().position().0,
        "bytes": changes.base_bytes + run_bytes + changes.log_bytes,
        "changes": {
            "runs": changes.runs.len(),
            "quads": changes.memory_changes
                + changes.runs.iter().map(|run| run.added + run.removed).sum::<u64>(),
            "log_bytes": changes.log_bytes,
        },
        "cache": {
            "bytes": database.store().pool().bytes_in_use(),
            "limit_bytes": dataset.config.cache_bytes,
            "hits": cache.cache_hits,
            "misses": cache.device_pages,
            "read_bytes": cache.bytes,
        },
        "memory": {
            "queries_bytes": usage.memory_bytes,
            "limit_bytes": dataset.config.memory_bytes,
            "changes_bytes": changes.memory_bytes,
            "spill_bytes": usage.spill_bytes,
        },
    }))
}

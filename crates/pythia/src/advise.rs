//! Advice on optional indexes, from a log of queries.

use std::collections::BTreeMap;

use oxrdf::NamedNode;
use pythia_query::UsefulIndexes;
use pythia_rdf::TermId;
use pythia_sparql::Query;
use pythia_store::{PredicateStatistics, Snapshot, StoreError};

use crate::optimize::{Auxiliary, CachedAttribute};

/// An index is advised if at least one in this many queries would use it.
const QUERIES_PER_USE: u64 = 100;
/// A cached attribute must have at least this many nodes per value.
const NODES_PER_VALUE: u64 = 10;
/// Approximate bytes of labels per node, and of cached values per edge (including both ends).
const NODE_BYTES: u64 = 9;
const EDGE_BYTES: u64 = 10;

/// The indexes that are worth building.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Number of queries in the log.
    pub queries: u64,
    /// Number of queries that are not valid SPARQL.
    pub unreadable: u64,
    /// Indexes that the queries would use, the most used first.
    pub advised: Vec<Advised>,
}

/// An index that is worth building.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advised {
    /// The index.
    pub auxiliary: Auxiliary,
    /// Number of queries in the log that would use it.
    pub queries: u64,
    /// Approximate size in bytes.
    pub bytes: u64,
}

/// Finds indexes that queries would use and the store does not have yet.
pub fn advise<'q>(
    snapshot: &Snapshot,
    log: impl IntoIterator<Item = &'q str>,
) -> Result<Advice, StoreError> {
    let mut advice = Advice::default();
    let mut labels: BTreeMap<NamedNode, u64> = BTreeMap::new();
    let mut cached: BTreeMap<NamedNode, BTreeMap<NamedNode, u64>> = BTreeMap::new();
    for text in log {
        advice.queries += 1;
        let Ok(query) = Query::parse(text, None) else {
            advice.unreadable += 1;
            continue;
        };
        let indexes = UsefulIndexes::of(&query);
        for predicate in indexes.reachability {
            *labels.entry(predicate).or_default() += 1;
        }
        for (attribute, along) in indexes.cached {
            let uses = cached.entry(attribute).or_default();
            *uses.entry(along).or_default() += 1;
        }
    }
    let is_often = |uses: u64| uses * QUERIES_PER_USE >= advice.queries;
    for (predicate, queries) in labels.into_iter().filter(|(_, uses)| is_often(*uses)) {
        advice
            .advised
            .extend(labels_for(snapshot, &predicate, queries)?);
    }
    for (attribute, mut along) in cached {
        along.retain(|_, uses| is_often(*uses));
        advice
            .advised
            .extend(cache_of(snapshot, &attribute, &along)?);
    }
    advice
        .advised
        .sort_by_key(|advised| std::cmp::Reverse(advised.queries));
    Ok(advice)
}

fn labels_for(
    snapshot: &Snapshot,
    predicate: &NamedNode,
    queries: u64,
) -> Result<Option<Advised>, StoreError> {
    let Some(known) = statistics(snapshot, predicate)? else {
        return Ok(None);
    };
    Ok(snapshot
        .estimates()
        .reachability(known.predicate)
        .is_none()
        .then(|| Advised {
            auxiliary: Auxiliary {
                reachability: vec![predicate.as_str().to_owned()],
                ..Auxiliary::default()
            },
            queries,
            bytes: (known.subjects + known.objects) * NODE_BYTES,
        }))
}

/// Advises caching an attribute for those edges that do not have it yet, if it has few values.
fn cache_of(
    snapshot: &Snapshot,
    attribute: &NamedNode,
    along: &BTreeMap<NamedNode, u64>,
) -> Result<Option<Advised>, StoreError> {
    let Some(known) = statistics(snapshot, attribute)? else {
        return Ok(None);
    };
    if known.objects * NODES_PER_VALUE > known.subjects {
        return Ok(None);
    }
    let present = |edge: TermId| {
        let cached = snapshot.estimates().attribute(known.predicate);
        cached.is_some_and(|cached| cached.is_along(edge))
    };
    let (mut names, mut queries, mut bytes, mut is_new) = (Vec::new(), 0, 0, false);
    for (edge, uses) in along {
        let Some(edges) = statistics(snapshot, edge)? else {
            continue;
        };
        // Of two predicates, the one with more objects leads to nodes, and the other is their attribute.
        if edges.objects <= known.objects {
            continue;
        }
        // Edges that have the cache already are included, because a new cache replaces the old one.
        is_new |= !present(edges.predicate);
        names.push(edge.as_str().to_owned());
        queries = queries.max(*uses);
        bytes += edges.quads * EDGE_BYTES;
    }
    Ok(is_new.then(|| Advised {
        auxiliary: Auxiliary {
            attributes: vec![CachedAttribute {
                predicate: attribute.as_str().to_owned(),
                along: names,
            }],
            ..Auxiliary::default()
        },
        queries,
        bytes,
    }))
}

fn statistics<'s>(
    snapshot: &'s Snapshot,
    predicate: &NamedNode,
) -> Result<Option<&'s PredicateStatistics>, StoreError> {
    let id = snapshot.resolve(predicate.as_ref().into())?;
    Ok(id.and_then(|id| snapshot.statistics().predicate(id)))
}

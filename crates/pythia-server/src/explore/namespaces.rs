//! Namespaces: well-known prefixes, and the namespaces that a store uses.

use std::collections::HashMap;

use pythia::ids::{Component, Order, QuadPattern, TermId, TermKind};
use pythia::{QueryError, well_known_prefixes};

use super::reader::Reader;

/// Number of IRIs in the sample that determines a store's namespaces.
const SAMPLE: u64 = 256;
/// Limit on namespaces that are searched.
const NAMESPACES: usize = 16;
/// Limits if graphs are hidden: the number of sampled predicates, and the number of rows of each.
const PREDICATES: usize = 64;
const ROWS: usize = 8;

/// Expands a name with a well-known prefix, such as `foaf:name`.
pub(super) fn expand(name: &str) -> Vec<String> {
    let Some((prefix, local)) = name.split_once(':') else {
        return Vec::new();
    };
    let known = well_known_prefixes().iter();
    let meant = known.filter(|(known, _)| *known == prefix);
    meant.map(|(_, iri)| format!("{iri}{local}")).collect()
}

/// Returns where an IRI's local name starts.
pub(super) fn local_start(iri: &str) -> usize {
    iri.rfind(['#', '/', ':']).map_or(0, |at| at + 1)
}

/// Returns the namespaces that are most frequent in a sample of IRIs.
pub(super) fn namespaces(reader: &Reader) -> Result<Vec<String>, QueryError> {
    let snapshot = &reader.snapshot;
    let ids = match reader.sees_all() {
        true => spread(reader)?,
        false => visible(reader)?,
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    snapshot.decode_keys(&ids, |_, key| {
        if let Ok(iri) = std::str::from_utf8(key.bytes) {
            *counts
                .entry(iri[..local_start(iri)].to_owned())
                .or_default() += 1;
        }
    })?;
    let mut namespaces: Vec<(String, usize)> = counts.into_iter().collect();
    namespaces.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    namespaces.truncate(NAMESPACES);
    Ok(namespaces.into_iter().map(|(iri, _)| iri).collect())
}

/// Returns IRIs spread evenly over the sorted IRIs of the store. Costs one batch of page reads.
fn spread(reader: &Reader) -> Result<Vec<TermId>, QueryError> {
    let [old, new] = reader.snapshot.ids_with_prefix(TermKind::Iri, b"")?;
    let mut ids = Vec::new();
    for range in [old, new] {
        let count = range.end - range.start;
        let step = (count / SAMPLE).max(1) as usize;
        ids.extend(range.step_by(step).map(TermId));
    }
    Ok(ids)
}

/// Returns IRIs of the first visible rows of each predicate. A sample of the dictionary would reveal hidden
/// graphs, because the dictionary has their terms too.
fn visible(reader: &Reader) -> Result<Vec<TermId>, QueryError> {
    let (mut ids, mut used) = (Vec::new(), 0);
    for known in &reader.snapshot.statistics().predicates {
        if used == PREDICATES {
            break;
        }
        let pattern = QuadPattern {
            predicate: Some(known.predicate),
            ..QuadPattern::default()
        };
        if !reader.uses(known.predicate)? {
            continue;
        }
        used += 1;
        let wanted = [Component::Subject, Component::Object];
        let mut rows = reader.rows(&pattern, Order::Pso, wanted)?;
        for _ in 0..ROWS {
            let Some(row) = rows.next()? else { break };
            ids.push(known.predicate);
            ids.extend(row.into_iter().filter(|id| id.kind() == TermKind::Iri));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

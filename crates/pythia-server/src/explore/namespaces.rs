//! Namespaces: what prefixes stand for, and where the IRIs of a store are.

use std::collections::HashMap;

use pythia::ids::{TermId, TermKind};
use pythia::{QueryError, Snapshot, well_known_prefixes};

/// IRIs looked at to tell the namespaces of a store.
const SAMPLE: u64 = 256;
/// Namespaces that are looked into.
const NAMESPACES: usize = 16;

/// An IRI written with a well-known prefix, as `foaf:name`, in full.
pub(super) fn expand(name: &str) -> Vec<String> {
    let Some((prefix, local)) = name.split_once(':') else {
        return Vec::new();
    };
    let known = well_known_prefixes().iter();
    let meant = known.filter(|(known, _)| *known == prefix);
    meant.map(|(_, iri)| format!("{iri}{local}")).collect()
}

/// Where an IRI's local name starts.
pub(super) fn local_start(iri: &str) -> usize {
    iri.rfind(['#', '/', ':']).map_or(0, |at| at + 1)
}

/// The namespaces that most of the store's IRIs are in, told from a sample spread evenly over the sorted
/// IRIs: one batch of page reads.
pub(super) fn namespaces(snapshot: &Snapshot) -> Result<Vec<String>, QueryError> {
    let [old, new] = snapshot.ids_with_prefix(TermKind::Iri, b"")?;
    let mut ids = Vec::new();
    for range in [old, new] {
        let count = range.end - range.start;
        let step = (count / SAMPLE).max(1) as usize;
        ids.extend(range.step_by(step).map(TermId));
    }
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

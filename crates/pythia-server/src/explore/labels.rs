//! Names of nodes.

use std::collections::HashMap;

use oxrdf::{Literal, NamedNodeRef, Term};
use pythia::ids::{End, Expansion, GraphFilter, TermId, TermKind};
use pythia::{QueryError, Snapshot};

use super::reader::Reader;

/// Predicates whose objects are names, the best name first.
const NAMING: [&str; 16] = [
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    "http://purl.org/dc/terms/title",
    "http://purl.org/dc/elements/1.1/title",
    "http://yago-knowledge.org/resource/hasPreferredName",
    "http://yago-knowledge.org/resource/isPreferredMeaningOf",
    "http://www.w3.org/2004/02/skos/core#altLabel",
    "http://schema.org/alternateName",
    "https://schema.org/alternateName",
    "http://xmlns.com/foaf/0.1/nick",
    "http://yago-knowledge.org/resource/hasGivenName",
    "http://yago-knowledge.org/resource/hasFamilyName",
    "http://www.w3.org/2006/vcard/ns#fn",
];

/// Nodes whose names are looked up in one batch.
const TOGETHER: usize = 256;

/// Returns the naming predicates that the store has, the best first.
pub(super) fn naming(snapshot: &Snapshot) -> Result<Vec<TermId>, QueryError> {
    let mut found = Vec::new();
    for iri in NAMING {
        let id = snapshot.resolve(NamedNodeRef::new_unchecked(iri).into())?;
        let id = id.filter(|id| snapshot.statistics().predicate(*id).is_some());
        found.extend(id);
    }
    Ok(found)
}

/// Returns the visible names of the nodes; nodes without a name are left out.
pub(super) fn labels(
    reader: &Reader,
    nodes: &[TermId],
) -> Result<HashMap<TermId, String>, QueryError> {
    let is_node = |id: &TermId| matches!(id.kind(), TermKind::Iri | TermKind::BlankNode);
    let mut nodes: Vec<TermId> = nodes.iter().copied().filter(is_node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut labels = HashMap::new();
    let naming = naming(&reader.snapshot)?;
    for nodes in nodes.chunks(TOGETHER) {
        let mut unnamed = nodes.to_vec();
        for predicate in &naming {
            reader.check()?;
            name(reader, *predicate, &unnamed, &mut labels)?;
            unnamed.retain(|node| !labels.contains_key(node));
        }
    }
    Ok(labels)
}

/// Adds the names that one predicate gives.
fn name(
    reader: &Reader,
    predicate: TermId,
    nodes: &[TermId],
    labels: &mut HashMap<TermId, String>,
) -> Result<(), QueryError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let mut edges = Expansion::new(false, !reader.sees_all());
    let any = GraphFilter::Any;
    (reader.snapshot).expand(End::Subject, nodes, Some(predicate), any, &mut edges)?;
    let mut found = Vec::new();
    for row in 0..edges.len() {
        let (node, name) = (nodes[edges.source[row] as usize], TermId(edges.other[row]));
        let is_seen = match edges.graph.get(row) {
            Some(graph) => reader.sees(TermId(*graph))?,
            None => true,
        };
        if is_seen && name.kind().is_literal() {
            found.push((node, name));
        }
    }
    let names: Vec<TermId> = found.iter().map(|(_, name)| *name).collect();
    let mut best: HashMap<TermId, (u8, String)> = HashMap::new();
    for ((node, _), term) in found.iter().zip(reader.snapshot.decode(&names)?) {
        if let Term::Literal(literal) = term {
            let rank = rank(&literal);
            let named = best.get(node);
            if named.is_none_or(|(least, _)| rank < *least) {
                best.insert(*node, (rank, literal.value().to_owned()));
            }
        }
    }
    labels.extend(best.into_iter().map(|(node, (_, name))| (node, name)));
    Ok(())
}

/// Ranks names of one node: English first, then without a language, then others.
fn rank(literal: &Literal) -> u8 {
    match literal.language() {
        Some("en") => 0,
        Some(language) if language.starts_with("en-") => 1,
        None => 2,
        Some(_) => 3,
    }
}

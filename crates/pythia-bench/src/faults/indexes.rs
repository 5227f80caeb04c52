//! Optional indexes of the campaigns' stores: built beside their writes, and compared with the quads afterwards.

use anyhow::{Context, Result, ensure};
use pythia_rdf::{TermId, TermKey};
use pythia_store::manifest::AuxiliaryKind;
use pythia_store::optimize::OptimizeOptions;
use pythia_store::store::Change;
use pythia_store::{
    Component, End, Expansion, GraphFilter, IdBatch, Order, Pace, QuadPattern, Snapshot, Store,
    StoreError,
};

use super::history;

/// The most nodes whose answers are compared.
const NODES_MAX: usize = 300;

/// The body of a request to a server that builds the indexes, once the predicate is there.
pub(super) fn form() -> String {
    let predicate = history::predicate(0);
    format!("reachability={predicate}&cache-attribute={predicate}&degrees")
}

/// Returns the options of `pythia optimize` that build the indexes.
pub(super) fn options() -> [String; 5] {
    let predicate = history::predicate(0);
    [
        "--degrees".to_owned(),
        "--reachability".to_owned(),
        predicate.clone(),
        "--cache-attribute".to_owned(),
        predicate,
    ]
}

/// Builds the indexes while the store is used, at this pace.
pub(super) fn build(store: &Store, pace: &Pace) -> Result<(), StoreError> {
    let change = |store: &Store| {
        let mut add = vec![AuxiliaryKind::Degrees];
        if let Some(TermId(predicate)) = predicate(&store.snapshot())? {
            add.push(AuxiliaryKind::Reachability { predicate });
            let along = Vec::new();
            add.push(AuxiliaryKind::Attribute { predicate, along });
        }
        let drop = Vec::new();
        Ok(Change { add, drop })
    };
    match store.optimize(&change, OptimizeOptions::default(), pace) {
        // The first quads of the predicate were committed meanwhile.
        Ok(_) | Err(StoreError::NotOptimizable { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the predicate of the indexes, if the store has quads with it.
fn predicate(snapshot: &Snapshot) -> Result<Option<TermId>, StoreError> {
    let name = history::predicate(0);
    let key: TermKey<'_> = history::iri(&name);
    let Some(predicate) = snapshot.resolve_key(key)? else {
        return Ok(None);
    };
    let pattern = QuadPattern {
        predicate: Some(predicate),
        graph: GraphFilter::One(TermId::DEFAULT_GRAPH),
        ..QuadPattern::default()
    };
    Ok((snapshot.count(&pattern)? > 0).then_some(predicate))
}

/// Compares the answers of the store's indexes with its quads. Returns how many were compared.
pub(super) fn check(store: &Store) -> Result<u64> {
    let snapshot = store.snapshot();
    let Some(predicate) = predicate(&snapshot)? else {
        return Ok(0);
    };
    let nodes = subjects(&snapshot, predicate)?;
    let mut edges = Expansion::new(false, false);
    let graph = GraphFilter::One(TermId::DEFAULT_GRAPH);
    snapshot.expand(End::Subject, &nodes, Some(predicate), graph, &mut edges)?;
    let edges: Vec<(usize, TermId)> = (0..edges.len())
        .map(|row| (edges.source[row] as usize, TermId(edges.other[row])))
        .collect();
    let manifest = store.manifest();
    let mut kinds = manifest.auxiliary.iter().map(|entry| &entry.kind);
    let mut compared = match kinds.any(|kind| *kind == AuxiliaryKind::Degrees) {
        true => degrees(&snapshot, &nodes)?,
        false => 0,
    };
    if let Some(labels) = snapshot.reachability(predicate)? {
        // Objects of the history's quads are no subjects, so each path is an edge.
        let mut objects: Vec<TermId> = edges.iter().map(|edge| edge.1).collect();
        objects.sort_unstable();
        objects.dedup();
        for &object in objects.iter().take(4) {
            let pairs: Vec<_> = nodes.iter().map(|&node| (node, object)).collect();
            let found = labels.reaches::<StoreError>(&pairs, &mut |_| Ok(()))?;
            for (index, found) in found.into_iter().enumerate() {
                let expected = edges.contains(&(index, object));
                ensure!(
                    found == expected,
                    "labels answer {found} for {:?}",
                    pairs[index]
                );
                compared += 1;
            }
        }
    }
    if let Some(cached) = snapshot.attribute(predicate)? {
        let mut found = Expansion::new(false, true);
        cached.expand(
            End::Subject,
            &nodes,
            predicate,
            GraphFilter::Any,
            &mut found,
        )?;
        ensure!(
            found.is_empty(),
            "objects have no values, but {} are cached",
            found.len()
        );
    }
    Ok(compared)
}

fn degrees(snapshot: &Snapshot, nodes: &[TermId]) -> Result<u64> {
    let found = snapshot.degrees(End::Subject, nodes)?;
    for (&node, found) in nodes.iter().zip(found) {
        let pattern = End::Subject.pattern(node, None, GraphFilter::Any);
        let expected = snapshot.count(&pattern).context("count quads")?;
        ensure!(
            found == expected,
            "{node:?} has {expected} quads, not {found}"
        );
    }
    Ok(nodes.len() as u64)
}

/// Returns some subjects of a predicate, sorted.
fn subjects(snapshot: &Snapshot, predicate: TermId) -> Result<Vec<TermId>, StoreError> {
    let pattern = QuadPattern {
        predicate: Some(predicate),
        ..QuadPattern::default()
    };
    let mut scan = snapshot.scan(&pattern, Order::Pso, &[Component::Subject])?;
    let (mut batch, mut nodes) = (IdBatch::default(), Vec::new());
    while scan.next_into(&mut batch)? {
        nodes.extend(batch.columns[0].iter().map(|&id| TermId(id)));
    }
    nodes.dedup();
    let step = nodes.len().div_ceil(NODES_MAX).max(1);
    Ok(nodes.into_iter().step_by(step).collect())
}

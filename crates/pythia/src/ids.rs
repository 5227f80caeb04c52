//! The graph as ids, below SPARQL: what a [`Snapshot`](crate::Snapshot) takes and gives.

pub use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};
pub use pythia_store::{
    Component, End, Expansion, GraphFilter, IdBatch, Order, PredicateStatistics, QuadPattern,
    QuadScan, Statistics,
};

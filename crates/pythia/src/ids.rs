//! Access to the graph by ids, below SPARQL: arguments and results of [`Snapshot`](crate::Snapshot).

pub use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};
pub use pythia_store::{
    Component, End, Expansion, GraphFilter, IdBatch, Order, PredicateStatistics, QuadPattern,
    QuadScan, Statistics,
};

//! RDF-tuple pages (Pythia paper §4.1): for each node all its predicates and, per predicate, the sorted ids at the
//! other end.
//!
//! The same code serves SPO (nodes are subjects, objects at the other end) and OPS (the reverse). [`TupleWriter`]
//! turns sorted rows into pages, [`TuplePage`] reads one page, [`TupleFile`] answers requests from a file of pages
//! and its in-memory [`TupleDirectory`]. A tuple is on one page whenever possible, so a hop is one page read. The
//! format is drawn in `docs/format/tuple-pages.md`.

mod builder;
mod directory;
mod expand;
mod file;
pub mod format;
mod page;
mod scan;
mod writer;

#[cfg(test)]
mod tests;

pub use directory::{TupleDirectory, TupleStatistics};
pub use file::{Probe, TupleFile};
pub use page::{Entry, GraphNumbers, PageError, Tuple, TuplePage};
pub use scan::{Gap, TupleRows, TupleScan};
pub use writer::{ExternalPolicy, PageSink, TupleWriter};

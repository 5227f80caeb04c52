//! The store: dictionary, segments, loader, snapshots and transactions.

pub mod auxiliary;
pub mod characteristic;
pub mod codec;
mod degree;
pub mod delta;
pub mod device;
pub mod dictionary;
mod error;
pub mod folders;
pub mod graph;
pub mod load;
pub mod manifest;
pub mod pace;
pub mod pattern;
pub mod report;
pub mod rewrite;
pub mod salvage;
pub mod scan;
pub mod segment;
pub mod snapshot;
pub mod statistics;
pub mod store;
#[cfg(test)]
mod testing;
pub mod verify;
pub mod write;

pub use delta::{ChangesReport, NextStep, RunEntry, RunId, RunReport, TermSpan};
pub use error::StoreError;
pub use pace::Pace;
pub use pattern::{
    Component, End, Expansion, ExternalList, GraphFilter, IdBatch, Order, QuadPattern,
};
pub use scan::QuadScan;
pub use segment::{
    BaseWriter, OrderDirectory, OrderWriter, Segment, SegmentEntry, SegmentOptions, SegmentWriter,
};
pub use snapshot::{ReadCosts, Snapshot};
pub use statistics::{PredicateStatistics, Statistics};
pub use store::{OpenOptions, Store, StoreLock};

pub use pythia_io::PageTally;

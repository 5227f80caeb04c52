//! The store: dictionary, segments, loader, snapshots and transactions.

mod allowance;
pub mod auxiliary;
pub mod characteristic;
pub mod compact;
pub mod delta;
pub mod device;
pub mod dictionary;
mod directory_pages;
mod error;
pub mod folders;
mod gallop;
pub mod graph;
mod hashes;
mod isolation;
pub mod load;
mod locks;
mod loser_tree;
pub mod manifest;
pub mod optimize;
pub mod pace;
pub mod pattern;
mod read_ahead;
pub mod report;
pub mod salvage;
mod scan;
pub mod segment;
pub mod snapshot;
mod state;
pub mod statistics;
pub mod store;
#[cfg(test)]
mod testing;
pub mod verify;
mod version;
pub mod write;

pub use error::StoreError;
pub use gallop::gallop;
pub use isolation::{Isolation, UnknownIsolation};
pub use locks::{LOCK_NAME, StoreLock, check_folder, open_folder};
pub use manifest::{RunEntry, RunId, SegmentEntry, TermSpan};
pub use pace::Pace;
pub use pattern::{
    Component, End, Expansion, ExternalList, GraphFilter, IdBatch, Order, QuadPattern, Room,
};
pub use report::{ChangesReport, NextStep, RunReport};
pub use segment::{
    BaseWriter, OrderDirectory, OrderWriter, Segment, SegmentOptions, SegmentWriter,
};
pub use snapshot::{Estimates, QuadScan, ReadCosts, Snapshot};
pub use statistics::{PredicateStatistics, Statistics};
pub use store::{OpenOptions, Store};
pub use version::Version;

pub use pythia_io::PageTally;

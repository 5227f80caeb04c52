//! Building of auxiliary files: reachability labels, cached attributes and degrees, from the quads of a base; and their
//! comparison with the quads, for `pythia verify`.
//!
//! A build calls [`crate::Pace::step`] between small steps, so that it can rest beside queries and be cancelled.

pub(crate) mod attribute;
mod change;
pub(crate) mod degrees;
mod intervals;
pub(crate) mod reachability;
mod rebuild;
mod stored_rows;
mod writer;

pub use change::{Added, Change};
pub(crate) use rebuild::{Rebuilt, Succession, rebuild};
pub(crate) use writer::{Numbers, Writer};

/// Resources of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizeOptions {
    /// Memory for building, in bytes: a hard limit.
    pub memory_bytes: usize,
    /// Memory for pages, in bytes.
    pub cache_bytes: usize,
}

impl Default for OptimizeOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            cache_bytes: 64 << 20,
        }
    }
}

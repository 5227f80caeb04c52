//! Building of auxiliary files: reachability labels, cached attributes and degrees, from the quads of a snapshot; and
//! their comparison with the quads, for `pythia verify`.

pub(crate) mod attribute;
pub(crate) mod degrees;
mod intervals;
pub(crate) mod reachability;
mod rebuild;
mod stored_rows;
mod writer;

pub use rebuild::{Rebuilt, Succession, rebuild};
pub(crate) use writer::Writer;

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

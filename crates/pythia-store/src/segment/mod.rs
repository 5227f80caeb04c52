//! A segment: one immutable, sorted image of a set of quads, as a dictionary and the orders of the quads.
//!
//! SPO and OPS are tuple pages ([`mod@tuple`]): everything about a node on one page. PSO, POS and GPSO are columns. The
//! formats are described in `docs/format/`.

mod base;
pub mod bits;
pub mod column;
pub(crate) mod sealed;
pub mod tuple;
mod writer;

pub use base::BaseWriter;
pub use sealed::Segment;
pub use writer::{
    OrderDirectory, OrderWriter, SealedSegment, SegmentOptions, SegmentWriter, TermsPlace,
};

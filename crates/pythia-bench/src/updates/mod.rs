//! What updates cost: `pythia bench updates`.
//!
//! - [`log`]: commits to the log alone, against the device's own rate of durable writes.
//! - [`kills`]: whether commits outlive kills and power cuts.
//! - [`store`]: commits to a store, and queries on a store of which a part has changed.

pub mod kills;
pub mod log;
pub mod store;

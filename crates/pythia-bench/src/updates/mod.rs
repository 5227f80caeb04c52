//! What updates cost: `pythia bench updates`.
//!
//! - [`log`]: commits to the log alone, against the device's own rate of durable writes.
//! - [`store`]: commits to a store, and queries on a store of which a part has changed.
//! - [`load`]: loads into a store, alone and beside commits.
//! - [`compact`]: new bases, by where the terms that were added sort.

pub mod compact;
pub mod load;
pub mod log;
pub mod store;

//! The cost of updates: `pythia bench updates`.
//!
//! - [`log`]: commits to the log alone, compared with the device's own rate of durable writes.
//! - [`store`]: commits to a store, and queries on a partly changed store.
//! - [`load`]: loads into a store, alone and beside commits.
//! - [`compact`]: compactions, by the place of added terms in the order of terms.

pub mod compact;
pub mod load;
pub mod log;
pub mod store;

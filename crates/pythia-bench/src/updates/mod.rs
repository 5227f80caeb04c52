//! What updates cost: `pythia bench updates`.
//!
//! - [`log`]: commits to the log alone, against the device's own rate of durable writes.

pub mod log;

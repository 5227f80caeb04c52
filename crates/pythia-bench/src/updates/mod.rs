//! The cost of updates: `pythia bench updates`.
//!
//! - [`log`]: commits to the log alone, compared with the device's own rate of durable writes.
//! - [`flash`]: commits to modelled flash devices, to the log alone and through a store.
//! - [`replay`]: the replay of a log from modelled devices.
//! - [`store`]: commits to a store.
//! - [`masm`]: range scans and queries on a store that is partly changed.
//! - [`load`]: loads into a store, alone and beside commits.
//! - [`compact`]: compactions, by the place of added terms in the order of terms.
//! - [`amplification`]: the bytes that changes take on the device, by the kind of file.
//! - [`pages`]: rewriting of random pages, in place and appended.

pub mod amplification;
mod clients;
pub mod compact;
pub mod flash;
pub mod load;
pub mod log;
pub mod masm;
pub mod pages;
pub mod replay;
pub mod store;
pub mod written;

//! Limits of queries: time, memory, space for spilled rows, and cores.

pub mod cores;
pub(crate) mod exchange;
pub mod fork;
pub mod governor;
pub mod spill;
mod transaction;

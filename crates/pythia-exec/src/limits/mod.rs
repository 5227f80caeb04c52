//! Limits of queries: time, memory, and space for spilled rows.

pub mod governor;
pub mod spill;
mod transaction;

//! Rows in memory and in temporary files.
//!
//! Operators that hold state keep it as fixed-width rows of ids. [`rows::RowStore`] holds the rows, and
//! [`table`] finds them by hash. When an operator's [`Share`](crate::limits::governor::Share) of the memory is
//! exhausted, it spills rows to a [`file::SpillFile`] as runs: partitioned by hash ([`partition`]) for
//! DISTINCT, grouping and joins, sorted ([`merge`]) for ORDER BY.

pub mod bytes;
pub(crate) mod distinct;
pub mod file;
pub(crate) mod merge;
pub(crate) mod partition;
pub mod rows;
pub(crate) mod table;

pub use file::SpillSpace;

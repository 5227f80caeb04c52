//! The limits of parsing: memory and time.

use std::fmt;

use crate::error::SparqlError;

/// Memory that a parsed text holds, charged to the limits of a query. Dropping it releases the memory.
pub trait Charge: fmt::Debug + Send + Sync {
    /// Returns an error once the query is cancelled or past its deadline.
    fn check(&self) -> Result<(), SparqlError>;

    /// Returns the bytes held.
    fn bytes(&self) -> usize;

    /// Grows or shrinks the held memory to this many bytes; returns an error if it cannot grow.
    fn set(&mut self, bytes: usize) -> Result<(), SparqlError>;

    /// Returns the bytes that could still be reserved.
    fn left(&self) -> usize;

    /// Returns whether memory is limited. If not, the size of parsed texts is not estimated.
    fn is_limited(&self) -> bool {
        true
    }

    /// Grows the held memory by this many bytes.
    fn add(&mut self, bytes: usize) -> Result<(), SparqlError> {
        self.set(self.bytes().saturating_add(bytes))
    }
}

/// A count of bytes without a limit.
#[derive(Debug, Default)]
pub(crate) struct Unlimited {
    bytes: usize,
}

impl Charge for Unlimited {
    fn check(&self) -> Result<(), SparqlError> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn set(&mut self, bytes: usize) -> Result<(), SparqlError> {
        self.bytes = bytes;
        Ok(())
    }

    fn left(&self) -> usize {
        usize::MAX
    }

    fn is_limited(&self) -> bool {
        false
    }
}

//! A limit on the memory of a transaction.

/// A limit on a transaction's memory.
pub trait Allowance: Send + Sync {
    /// Sets the total reservation, more or less than before.
    ///
    /// # Errors
    /// The reason why the memory is not available. The previous reservation stays.
    fn set(&mut self, bytes: usize) -> Result<(), String>;

    /// Returns how many more bytes are available now.
    fn left(&self) -> usize;
}

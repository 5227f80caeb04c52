//! Memory of a store's transaction, from the budget of a query.

use pythia_store::write::Allowance;

use super::governor::Held;
use crate::error::QueryError;

impl Allowance for Held {
    fn set(&mut self, bytes: usize) -> Result<(), String> {
        Self::set(self, bytes).map_err(QueryError::into_request)
    }

    fn left(&self) -> usize {
        Self::left(self)
    }
}

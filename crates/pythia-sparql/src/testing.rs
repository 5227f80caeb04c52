//! A charge with limits, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::charge::Charge;
use crate::error::SparqlError;

/// A limit of memory, and of the number of checks.
#[derive(Clone, Debug)]
pub(crate) struct TestLimits {
    used: Arc<AtomicUsize>,
    checks: Arc<AtomicUsize>,
    bytes_max: usize,
    checks_max: usize,
}

impl TestLimits {
    pub(crate) fn of_memory(bytes_max: usize) -> Self {
        Self {
            used: Arc::default(),
            checks: Arc::default(),
            bytes_max,
            checks_max: usize::MAX,
        }
    }

    /// Cancels at the first check after `checks_max`.
    pub(crate) fn of_checks(checks_max: usize) -> Self {
        Self {
            checks_max,
            ..Self::of_memory(usize::MAX)
        }
    }

    pub(crate) fn charge(&self) -> Box<TestCharge> {
        Box::new(TestCharge {
            limits: self.clone(),
            bytes: 0,
        })
    }

    /// Returns the bytes held by all charges.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct TestCharge {
    limits: TestLimits,
    bytes: usize,
}

impl Charge for TestCharge {
    fn check(&self) -> Result<(), SparqlError> {
        let checks = self.limits.checks.fetch_add(1, Ordering::Relaxed);
        match checks >= self.limits.checks_max {
            true => Err(SparqlError::Cancelled),
            false => Ok(()),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn set(&mut self, bytes: usize) -> Result<(), SparqlError> {
        let used = (self.limits.used() - self.bytes).saturating_add(bytes);
        if used > self.limits.bytes_max {
            return Err(SparqlError::Memory(String::new()));
        }
        self.limits.used.store(used, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }

    fn left(&self) -> usize {
        self.limits.bytes_max - self.limits.used()
    }
}

impl Drop for TestCharge {
    fn drop(&mut self) {
        self.limits.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

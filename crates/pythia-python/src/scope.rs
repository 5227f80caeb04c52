//! How long the objects of a database may be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::errors::{closed, exception};

/// Shared by a database and what came from it. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Scope {
    is_open: Arc<AtomicBool>,
    process: u32,
}

impl Scope {
    /// Begins the use of a database, in this process.
    pub(crate) fn new() -> Self {
        Self {
            is_open: Arc::new(AtomicBool::new(true)),
            process: std::process::id(),
        }
    }

    /// Ends it for everything that shares it.
    pub(crate) fn end(&self) {
        self.is_open.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Fails if the database is closed, or was opened before this process was forked: its threads are in the parent.
    pub(crate) fn check(&self) -> PyResult<()> {
        if self.process != std::process::id() {
            let message =
                "the database was opened before this process was forked; open it again here";
            return Err(exception("ClosedError", message));
        }
        match self.is_open() {
            true => Ok(()),
            false => Err(closed("database")),
        }
    }
}

//! Helpers of several tests.

use std::path::Path;
use std::time::{Duration, Instant};

use pythia::{Database, Options, QueryError, StoreError};

/// Opens a store that this process has just closed. Another test may be starting a process: until that runs
/// its own program it has this process's locks.
pub(crate) fn open_once_unlocked(store: &Path, options: &Options) -> Database {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match Database::open_with(store, options.clone()) {
            Err(QueryError::Store(StoreError::Locked { .. } | StoreError::Writing { .. }))
                if Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("a store"),
        }
    }
}

//! The state of a store that readers see.

use std::sync::Arc;

use crate::manifest::Manifest;
use crate::snapshot::Snapshot;

/// A state of the store.
#[derive(Clone)]
pub(crate) struct StoreState {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) snapshot: Snapshot,
    /// The last commit in the snapshot.
    pub(crate) last: u64,
}

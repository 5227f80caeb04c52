//! The queries and updates under way: who runs what, and how to stop it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use pythia::PreparedQuery;

use crate::admission::Client;

/// Bytes of a query's text that are kept to be shown.
const SHOWN_BYTES: usize = 10_000;

/// All that is under way.
#[derive(Debug, Default)]
pub(crate) struct Running {
    by_id: Mutex<HashMap<Arc<str>, Arc<Activity>>>,
}

/// A query or update under way.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) id: Arc<str>,
    pub(crate) dataset: Arc<str>,
    pub(crate) client: Client,
    /// Its text, or the beginning of it.
    pub(crate) text: String,
    pub(crate) started: Instant,
    /// It has its turn.
    runs: AtomicBool,
    /// Set to stop it.
    pub(crate) cancel: Arc<AtomicBool>,
    /// The plan, once there is one; it shows what is measured so far if the query asks for it.
    pub(crate) plan: OnceLock<Arc<PreparedQuery>>,
    /// What an update warns of, once it is done.
    pub(crate) update_warnings: OnceLock<Vec<String>>,
}

/// Keeps an activity in the list until it is dropped.
#[derive(Debug)]
pub(crate) struct Listed {
    list: Arc<Running>,
    pub(crate) activity: Arc<Activity>,
}

impl Running {
    /// Lists what is about to run. `None` if there is one with this id already.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: Arc<str>,
        dataset: Arc<str>,
        client: Client,
        text: &str,
    ) -> Option<Listed> {
        let mut end = text.len().min(SHOWN_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let activity = Arc::new(Activity {
            id: Arc::clone(&id),
            dataset,
            client,
            text: text[..end].to_owned(),
            started: Instant::now(),
            runs: AtomicBool::new(false),
            cancel: Arc::default(),
            plan: OnceLock::new(),
            update_warnings: OnceLock::new(),
        });
        match self.by_id.lock().entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => return None,
            std::collections::hash_map::Entry::Vacant(free) => free.insert(Arc::clone(&activity)),
        };
        Some(Listed {
            list: Arc::clone(self),
            activity,
        })
    }

    /// All, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Activity>> {
        let mut all: Vec<_> = self.by_id.lock().values().cloned().collect();
        all.sort_by_key(|activity| activity.started);
        all
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Activity>> {
        self.by_id.lock().get(id).cloned()
    }

    /// Stops all.
    pub(crate) fn cancel_all(&self) {
        self.all().iter().for_each(|activity| activity.cancel());
    }
}

impl Activity {
    /// What the author of the query or update should know.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_query = self.plan.get().map(|plan| plan.warnings());
        let of_update = self.update_warnings.get().cloned();
        of_query.or(of_update).unwrap_or_default()
    }

    /// Its turn has come.
    pub(crate) fn begin(&self) {
        self.runs.store(true, Ordering::Relaxed);
    }

    /// Whether it has had its turn, or still waits for it.
    pub(crate) fn has_begun(&self) -> bool {
        self.runs.load(Ordering::Relaxed)
    }

    /// Stops it, at its next look.
    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.by_id.lock().remove(&self.activity.id);
    }
}

//! The list of running queries and updates, with their clients and plans, and how to cancel them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pythia::{PlanNode, PreparedQuery};

use crate::admission::Client;

/// Limit on the text of a query that is kept for display, in bytes.
const SHOWN_BYTES: usize = 10_000;

/// All queries and updates that run or wait.
#[derive(Debug, Default)]
pub(crate) struct Running {
    by_id: Mutex<HashMap<Arc<str>, Arc<Activity>>>,
}

/// A query or update that runs or waits.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) id: Arc<str>,
    pub(crate) dataset: Arc<str>,
    pub(crate) client: Client,
    /// The text, or its beginning.
    pub(crate) text: String,
    pub(crate) started: Instant,
    /// True once it has its turn.
    runs: AtomicBool,
    /// Cancels the request when set.
    pub(crate) cancel: Arc<AtomicBool>,
    work: Mutex<WorkProgress>,
}

/// The state of the work.
#[derive(Debug, Default)]
enum WorkProgress {
    /// There is no plan yet, or the request failed before it had one.
    #[default]
    Unknown,
    /// The work has a plan, which shows measurements so far if the query asked for them.
    Planned(Arc<PreparedQuery>),
    /// The work has ended. The plan is dropped, because it holds the query's memory and snapshot, and the answer
    /// may wait long for its reader.
    Ended {
        warnings: Vec<String>,
        /// The plan as text, if the query was slow.
        plan: Option<String>,
    },
}

/// Guard of the plan of a running query. Dropped when the work has ended.
pub(crate) struct PlanGuard<'a> {
    activity: &'a Activity,
    slow: Duration,
}

/// Keeps an activity in the list until it is dropped.
#[derive(Debug)]
pub(crate) struct ListedActivity {
    list: Arc<Running>,
    pub(crate) activity: Arc<Activity>,
}

impl Running {
    /// Adds a request to the list. `None` if the id is in use.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: Arc<str>,
        dataset: Arc<str>,
        client: Client,
        text: &str,
    ) -> Option<ListedActivity> {
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
            work: Mutex::default(),
        });
        match self.by_id.lock().entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => return None,
            std::collections::hash_map::Entry::Vacant(free) => free.insert(Arc::clone(&activity)),
        };
        Some(ListedActivity {
            list: Arc::clone(self),
            activity,
        })
    }

    /// Returns all activities, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Activity>> {
        let mut all: Vec<_> = self.by_id.lock().values().cloned().collect();
        all.sort_by_key(|activity| activity.started);
        all
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Activity>> {
        self.by_id.lock().get(id).cloned()
    }

    /// Cancels all activities.
    pub(crate) fn cancel_all(&self) {
        self.all().iter().for_each(|activity| activity.cancel());
    }
}

impl Activity {
    /// Shows the plan of a query until the returned guard is dropped. If the query took longer than `slow`, its
    /// plan is then kept for the log.
    pub(crate) fn planned(&self, query: &Arc<PreparedQuery>, slow: Duration) -> PlanGuard<'_> {
        *self.work.lock() = WorkProgress::Planned(Arc::clone(query));
        PlanGuard {
            activity: self,
            slow,
        }
    }

    /// Keeps the warnings of an update that has ended.
    pub(crate) fn updated(&self, warnings: Vec<String>) {
        let plan = None;
        *self.work.lock() = WorkProgress::Ended { warnings, plan };
    }

    /// Returns the plan of a running query, with its measurements so far.
    pub(crate) fn plan(&self) -> Option<PlanNode> {
        let query = match &*self.work.lock() {
            WorkProgress::Planned(query) => Arc::clone(query),
            _ => return None,
        };
        Some(query.plan())
    }

    /// Returns the plan of a slow query that has ended, as text.
    pub(crate) fn slow_plan(&self) -> Option<String> {
        match &*self.work.lock() {
            WorkProgress::Ended { plan, .. } => plan.clone(),
            _ => None,
        }
    }

    /// Returns whether the plan has warnings.
    pub(crate) fn warns(&self) -> bool {
        matches!(&*self.work.lock(), WorkProgress::Ended { warnings, .. } if !warnings.is_empty())
    }

    /// Returns the warnings for the query's author, once it has ended.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match &*self.work.lock() {
            WorkProgress::Ended { warnings, .. } => warnings.clone(),
            _ => Vec::new(),
        }
    }

    /// Marks that the turn has come.
    pub(crate) fn begin(&self) {
        self.runs.store(true, Ordering::Relaxed);
    }

    /// Returns whether the turn has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.runs.load(Ordering::Relaxed)
    }

    /// Cancels the work, which notices at its next check.
    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Drop for PlanGuard<'_> {
    fn drop(&mut self) {
        let mut work = self.activity.work.lock();
        if let WorkProgress::Planned(query) = std::mem::take(&mut *work) {
            let is_slow = self.activity.started.elapsed() >= self.slow;
            *work = WorkProgress::Ended {
                warnings: query.warnings(),
                plan: is_slow.then(|| query.explain()),
            };
        }
    }
}

impl Drop for ListedActivity {
    fn drop(&mut self) {
        self.list.by_id.lock().remove(&self.activity.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DatasetConfig;
    use crate::context::Dataset;

    #[test]
    fn a_query_that_has_ended_is_let_go_while_its_answer_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = DatasetConfig::new("ds", folder.path().join("ds"));
        config.create = true;
        let dataset = Dataset::open(&config).expect("a store");
        let query = (dataset.database).prepare("SELECT * { ?s ?p ?o }", &Default::default());
        let query = Arc::new(query.expect("a plan"));
        let running = Arc::new(Running::default());
        let client = Client::User("ada".into());
        let listed = running.list("id".into(), "ds".into(), client, "");
        let activity = Arc::clone(&listed.expect("no other").activity);
        for (slow, is_slow) in [(Duration::ZERO, true), (Duration::MAX, false)] {
            let planned = activity.planned(&query, slow);
            assert!(activity.plan().is_some());
            drop(planned);
            assert_eq!(Arc::strong_count(&query), 1, "its memory and snapshot");
            assert!(activity.plan().is_none() && !activity.warns());
            assert_eq!(activity.slow_plan().is_some(), is_slow);
        }
    }
}

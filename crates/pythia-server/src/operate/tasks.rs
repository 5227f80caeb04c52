//! Tasks of operators in the background: compaction, backup, and builds of indexes. Each dataset has at most one at a
//! time.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use pythia::Pace;
use serde_json::{Value, json};

use super::time_text;

/// Limit on ended tasks that are remembered.
const REMEMBERED: usize = 100;

/// The tasks since the start of the server; old ones are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    list: Mutex<TaskList>,
}

#[derive(Debug, Default)]
struct TaskList {
    /// The number of the last task.
    last: u64,
    tasks: VecDeque<Arc<Task>>,
}

/// A running or ended task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: u64,
    what: &'static str,
    dataset: Arc<str>,
    started: SystemTime,
    /// Cancels the work; `None` if it cannot be cancelled.
    pace: Option<Pace>,
    ended: OnceLock<TaskEnd>,
}

#[derive(Debug)]
struct TaskEnd {
    at: SystemTime,
    /// Summary of the task's result, or the error.
    outcome: Result<String, String>,
}

impl Tasks {
    /// Starts a task. `pace` cancels its work, if that is possible.
    ///
    /// # Errors
    /// The task that is already running for the dataset.
    pub(crate) fn start(
        &self,
        what: &'static str,
        dataset: &Arc<str>,
        pace: Option<Pace>,
        work: impl FnOnce() -> Result<String, String> + Send + 'static,
    ) -> Result<Arc<Task>, Arc<Task>> {
        let task = self.list.lock().add(what, dataset, pace)?;
        let running = Arc::clone(&task);
        let thread = std::thread::Builder::new().name(what.to_owned());
        let spawned = thread.spawn(move || {
            // The task ends even if the work panics, so that another one may start.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            running.end(
                outcome.unwrap_or_else(|_| Err("internal error: the task panicked".to_owned())),
            );
        });
        if let Err(error) = spawned {
            task.end(Err(format!("could not start a thread: {error}")));
        }
        Ok(task)
    }

    /// Returns the remembered tasks, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Task>> {
        self.list.lock().tasks.iter().cloned().collect()
    }

    /// Cancels all tasks that can be cancelled, and waits until they have ended, at most for `time`.
    pub(crate) fn cancel_all(&self, time: Duration) {
        let until = Instant::now() + time;
        for task in self.all() {
            let is_cancelled = task.cancel();
            while is_cancelled && task.is_running() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Task>> {
        let list = self.list.lock();
        list.tasks.iter().find(|task| task.id == id).cloned()
    }
}

impl TaskList {
    fn add(
        &mut self,
        what: &'static str,
        dataset: &Arc<str>,
        pace: Option<Pace>,
    ) -> Result<Arc<Task>, Arc<Task>> {
        let mut running = self.tasks.iter().filter(|task| task.is_running());
        if let Some(other) = running.find(|task| task.dataset == *dataset) {
            return Err(Arc::clone(other));
        }
        while self.tasks.len() >= REMEMBERED {
            match self.tasks.iter().position(|task| !task.is_running()) {
                Some(ended) => self.tasks.remove(ended),
                // All are running: at most one per dataset.
                None => break,
            };
        }
        self.last += 1;
        let task = Arc::new(Task {
            id: self.last,
            what,
            dataset: Arc::clone(dataset),
            started: SystemTime::now(),
            pace,
            ended: OnceLock::new(),
        });
        self.tasks.push_back(Arc::clone(&task));
        Ok(task)
    }
}

impl Task {
    pub(crate) fn is_running(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Cancels the work. Returns false if that is not possible, or it has ended.
    pub(crate) fn cancel(&self) -> bool {
        let pace = self.pace.as_ref().filter(|_| self.is_running());
        pace.inspect(|pace| pace.cancel()).is_some()
    }

    fn end(&self, outcome: Result<String, String>) {
        match &outcome {
            Ok(done) => {
                tracing::info!(
                    task = self.id,
                    dataset = &*self.dataset,
                    "{}: {done}",
                    self.what
                );
            }
            Err(error) => {
                tracing::error!(
                    task = self.id,
                    dataset = &*self.dataset,
                    "{}: {error}",
                    self.what
                );
            }
        }
        let at = SystemTime::now();
        // Only the task's own thread ends it.
        let _ = self.ended.set(TaskEnd { at, outcome });
    }

    /// Returns the task as Fuseki does, with its outcome.
    pub(crate) fn to_json(&self) -> Value {
        let mut told = json!({
            "taskId": self.id.to_string(),
            "task": self.what,
            "dataset": format!("/{}", self.dataset),
            "started": time_text(self.started),
        });
        if let Some(ended) = self.ended.get() {
            told["finished"] = time_text(ended.at).into();
            told["success"] = ended.outcome.is_ok().into();
            let (Ok(message) | Err(message)) = &ended.outcome;
            told["message"] = message.as_str().into();
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_task_with_a_pace_is_cancelled() {
        let tasks = Tasks::default();
        let pace = Pace::default();
        let (a, own) = ("a".into(), pace.clone());
        let work = move || {
            while !own.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err("cancelled".to_owned())
        };
        let task = tasks.start("x", &a, Some(pace), work).expect("none runs");
        tasks.cancel_all(Duration::from_secs(60));
        assert!(!task.is_running() && !task.cancel());
        let other = tasks.start("x", &a, None, || Ok(String::new()));
        assert!(!other.expect("none runs").cancel(), "it has no pace");
    }

    fn wait(task: &Task) {
        while task.is_running() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_dataset_has_one_task_at_a_time() {
        let tasks = Tasks::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let (go, wait_for) = channel::<()>();
        let first = tasks.start("compact", &a, None, move || {
            wait_for.recv().map_err(|error| error.to_string())?;
            Ok("done".to_owned())
        });
        let first = first.expect("the first");
        assert!(first.to_json().get("finished").is_none());
        let refused = tasks.start("backup", &a, None, || unreachable!("it is refused"));
        assert_eq!(refused.expect_err("one is running").id, first.id);
        let other = tasks.start("backup", &b, None, || Err("no".to_owned()));
        let other = other.expect("another dataset");
        wait(&other);
        assert_eq!(other.to_json()["success"], false);
        go.send(()).expect("it waits");
        wait(&first);
        assert_eq!(first.to_json()["message"], "done");
        assert!(
            tasks
                .start("backup", &a, None, || Ok(String::new()))
                .is_ok()
        );
    }

    #[test]
    fn old_tasks_are_forgotten_and_panics_end_them() {
        let tasks = Tasks::default();
        let dataset: Arc<str> = "a".into();
        for _ in 0..REMEMBERED + 5 {
            wait(
                &tasks
                    .start("x", &dataset, None, || Ok(String::new()))
                    .expect("none runs"),
            );
        }
        assert_eq!(tasks.all().len(), REMEMBERED);
        assert!(tasks.get(5).is_none() && tasks.get(6).is_some());
        let panics = tasks.start("x", &dataset, None, || panic!("on purpose"));
        let panics = panics.expect("none runs");
        wait(&panics);
        assert_eq!(panics.to_json()["success"], false);
    }
}

//! Progress of a load, for a display on another thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pythia_rdf::parse::Progress as ParseProgress;

/// Counters of a running load.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Bytes and quads of the input, while it is parsed.
    pub parse: ParseProgress,
    /// Finished items of the current phase; [`LoadProgress::phase`] has the total.
    pub done: AtomicU64,
    phases: Mutex<Phases>,
}

#[derive(Debug, Default)]
struct Phases {
    current: Option<(Phase, Instant)>,
    past: Vec<(&'static str, Duration)>,
}

/// A phase of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its activity, as a verb phrase.
    pub name: &'static str,
    /// Total number of items (bytes of input, terms, quads); 0 if unknown.
    pub total: u64,
}

impl LoadProgress {
    /// Returns the current phase; `None` before the load starts and after it ends.
    pub fn phase(&self) -> Option<Phase> {
        let phases = self.phases.lock().expect("nothing panics holding it");
        phases.current.map(|(phase, _)| phase)
    }

    /// Ends the current phase and begins another.
    pub(super) fn begin(&self, name: &'static str, total: u64) {
        let mut phases = self.phases.lock().expect("nothing panics holding it");
        phases.close();
        self.done.store(0, Ordering::Relaxed);
        phases.current = Some((Phase { name, total }, Instant::now()));
    }

    /// Ends the last phase, and returns the duration of each.
    pub(super) fn end(&self) -> Vec<(&'static str, Duration)> {
        let mut phases = self.phases.lock().expect("nothing panics holding it");
        phases.close();
        phases.past.clone()
    }
}

impl Phases {
    fn close(&mut self) {
        if let Some((phase, started)) = self.current.take() {
            self.past.push((phase.name, started.elapsed()));
        }
    }
}

//! How far a load is, for a display on another thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pythia_rdf::parse::Progress as ParseProgress;

/// Counters of a running load.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Bytes and quads of the input, while it is parsed.
    pub parse: ParseProgress,
    /// Items of the current phase that are done; [`LoadProgress::phase`] says of how many.
    pub done: AtomicU64,
    phases: Mutex<Phases>,
}

#[derive(Debug, Default)]
struct Phases {
    current: Option<(Phase, Instant)>,
    past: Vec<(&'static str, Duration)>,
}

/// What a load is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What is being done, as a verb phrase.
    pub name: &'static str,
    /// How many items there are (bytes of input, terms, quads); 0 if unknown.
    pub total: u64,
}

impl LoadProgress {
    /// What the load is doing now; `None` before it starts and after it ends.
    pub fn phase(&self) -> Option<Phase> {
        let phases = self.phases.lock().expect("nothing panics holding it");
        phases.current.map(|(phase, _)| phase)
    }

    /// Ends the phase before and begins one.
    pub(super) fn begin(&self, name: &'static str, total: u64) {
        let mut phases = self.phases.lock().expect("nothing panics holding it");
        phases.close();
        self.done.store(0, Ordering::Relaxed);
        phases.current = Some((Phase { name, total }, Instant::now()));
    }

    /// Ends the last phase; how long each took.
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

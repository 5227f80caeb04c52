//! Clients that commit in a closed loop: each waits for its commit before it makes the next.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia_log::{Change, ChangeSet, Changes, Entry, Log, LogTerm, NO_GRAPH, StoreId};
use pythia_rdf::{TermKey, TermKind};

use crate::latency::Latencies;

/// The store that measured logs belong to.
pub(super) const STORE: StoreId = StoreId([7; 16]);
/// Alternating parts in which a figure and its baseline are measured.
pub(super) const TURNS: u32 = 8;

/// A count within a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    pub(super) count: u64,
    pub(super) time: Duration,
}

impl Rate {
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.time += other.time;
    }

    pub(super) fn per_second(self) -> f64 {
        self.count as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Measures commits by several clients, each of which waits for its commit before it makes the next. `client` returns the
/// function that makes one commit of a client.
pub(super) fn commits<C: FnMut() -> Result<()>>(
    clients: usize,
    time: Duration,
    latencies: &mut Latencies,
    client: impl Fn(usize) -> C + Sync,
) -> Result<Rate> {
    let started = Instant::now();
    let before = latencies.count();
    let run = |number: usize| -> Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut commit = client(number);
        loop {
            let begun = Instant::now();
            if begun >= started + time {
                return Ok(latencies);
            }
            commit()?;
            latencies.record(begun.elapsed());
        }
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        for thread in threads {
            let of_client = thread.join().expect("clients do not panic");
            latencies.merge(&of_client.context("commit")?);
        }
        anyhow::Ok(())
    })?;
    Ok(Rate {
        count: latencies.count() - before,
        time: started.elapsed(),
    })
}

/// Returns the changes of a commit whose terms have this many bytes.
pub(super) fn changes_of(payload_bytes: usize) -> ChangeSet {
    let mut changes = ChangeSet::new();
    let iri = "http://example.org/".to_owned() + &"x".repeat(payload_bytes);
    let key = TermKey {
        kind: TermKind::Iri,
        bytes: iri.as_bytes(),
    };
    let term = changes.add_term(LogTerm::Key(key));
    changes.push(Change {
        added: true,
        quad: [term, term, term, NO_GRAPH],
    });
    changes
}

/// Commits changes to a log, and waits until they are durable.
pub(super) fn commit(log: &Log, changes: &ChangeSet) -> Result<()> {
    let entry = Entry {
        time: 1,
        key: None,
        changes: Changes::Inline(changes),
    };
    log.wait(log.submit(&[entry])?)?;
    Ok(())
}

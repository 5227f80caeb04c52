//! Executors that append to a shared log, and the melder that rolls it forward, each on a thread.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pythia_io::{DirectStorage, Storage};
use pythia_log::meld::{Decision, Melder, State};
use serde::Serialize;

use super::Run;
use super::shared::Shared;
use super::workload::Workload;

/// Rates of several executors with one melder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Live {
    /// The transactions.
    pub run: Run,
    /// Executors.
    pub executors: usize,
    /// True if an intention is melded only once it is durable on the device.
    pub durable: bool,
    /// Transactions.
    pub transactions: u64,
    /// Those that aborted.
    pub aborted: u64,
    /// Transactions per second, with those that aborted.
    pub transactions_per_second: f64,
    /// The share of the time in which the melder worked.
    pub melder_busy: f64,
}

/// Measures a run. With a folder, the log is written there, too, and removed at the end.
pub(super) fn measure(
    workload: &Workload,
    filled: &Melder,
    executors: usize,
    folder: Option<&Path>,
) -> Result<Live> {
    let folder = folder.map(|folder| folder.join("meld"));
    let device = folder.as_deref().map(open).transpose()?;
    let shared = Shared::new(filled.state().clone(), workload.behind, device)?;
    let mut melder = filled.clone();
    let started = Instant::now();
    let (decisions, busy) = run(workload, &mut melder, executors, &shared)?;
    let seconds = started.elapsed().as_secs_f64();
    let log = shared.into_log()?;
    meld_again(filled, &log, &decisions, melder.state())?;
    if let Some(folder) = &folder {
        std::fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let committed = decisions.iter();
    let committed = committed.filter(|decision| **decision == Decision::Committed);
    let transactions = decisions.len() as u64;
    Ok(Live {
        run: workload.run(),
        executors,
        durable: folder.is_some(),
        transactions,
        aborted: transactions - committed.count() as u64,
        transactions_per_second: transactions as f64 / seconds,
        melder_busy: busy.as_secs_f64() / seconds,
    })
}

fn open(folder: &Path) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(DirectStorage::open(folder, true)?))
}

/// Returns all decisions and the time that the melder has worked.
///
/// # Errors
/// The error of the first thread that failed. A panic of a thread is an error, too.
pub(super) fn run(
    workload: &Workload,
    melder: &mut Melder,
    executors: usize,
    shared: &Shared,
) -> Result<(Vec<Decision>, Duration)> {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for executor in 0..executors {
            let next = &next;
            threads.push(scope.spawn(move || {
                closing_if_failed(shared, || execute(workload, executor, next, shared))
            }));
        }
        if let Some(durable) = shared.durable() {
            let sync = move || closing_if_failed(shared, || Ok(shared.sync(durable)?));
            threads.push(scope.spawn(sync));
        }
        let closing = Closing {
            shared,
            is_due: true,
        };
        let melded = meld(melder, shared, workload.transactions as usize);
        drop(closing);
        // All of them: a scope panics if a thread that nobody has joined did.
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        for done in joined {
            done.map_err(|_| anyhow::anyhow!("an executor panicked"))??;
        }
        melded
    })
}

/// Closes the log when it is dropped, unless the thread has done its work: others would wait for one that fails or panics.
struct Closing<'s> {
    shared: &'s Shared,
    is_due: bool,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.shared.close();
        }
    }
}

/// Closes the log if a thread fails or panics.
fn closing_if_failed(shared: &Shared, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut closing = Closing {
        shared,
        is_due: true,
    };
    let done = work();
    closing.is_due = done.is_err();
    done
}

fn execute(workload: &Workload, executor: usize, next: &AtomicU64, shared: &Shared) -> Result<()> {
    let mut random = workload.random(executor);
    loop {
        let serial = next.fetch_add(1, Ordering::Relaxed);
        if serial >= workload.transactions {
            return Ok(());
        }
        let Some(state) = shared.state() else {
            return Ok(());
        };
        shared.append(workload.execute(state, serial, &mut random))?;
    }
}

fn meld(
    melder: &mut Melder,
    shared: &Shared,
    transactions: usize,
) -> Result<(Vec<Decision>, Duration)> {
    let mut decisions = Vec::with_capacity(transactions);
    let mut busy = Duration::ZERO;
    while decisions.len() < transactions {
        let intentions = shared.from(decisions.len());
        if intentions.is_empty() {
            // Closed early: the thread that failed has the error.
            break;
        }
        let started = Instant::now();
        let mut states: Vec<State> = Vec::with_capacity(intentions.len());
        for bytes in &intentions {
            decisions.push(melder.meld(bytes)?);
            states.push(melder.state().clone());
        }
        shared.publish(states);
        busy += started.elapsed();
    }
    Ok((decisions, busy))
}

/// Melds a log once more and compares decisions and state.
pub(super) fn meld_again(
    filled: &Melder,
    log: &[impl AsRef<[u8]>],
    decisions: &[Decision],
    state: &State,
) -> Result<()> {
    let mut other = filled.clone();
    for (index, (bytes, decision)) in log.iter().zip(decisions).enumerate() {
        let again = other.meld(bytes.as_ref())?;
        ensure!(
            again == *decision,
            "a second melder of the same log decides {again:?} on intention {index}, the first {decision:?}"
        );
    }
    ensure!(
        other.state() == state,
        "two melders of the same log have different states"
    );
    Ok(())
}

//! Execution and meld by one thread in turn: the time of each without the other's influence.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_log::meld::{Decision, Melder};
use serde::Serialize;

use super::Run;
use super::live::meld_again;
use super::workload::Workload;
use crate::latency::Latencies;

/// Times of one transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// The transactions.
    pub run: Run,
    /// Transactions.
    pub transactions: u64,
    /// Those that aborted.
    pub aborted: u64,
    /// Bytes of an intention, on average.
    pub intention_bytes: f64,
    /// Microseconds to execute a transaction and encode its intention: the median of turns.
    pub execute_us: f64,
    /// Microseconds to meld an intention: the median of turns.
    pub meld_us: f64,
}

/// Each turn has as many transactions as the states before its intentions allow.
pub(super) fn measure(workload: &Workload, filled: &Melder) -> Result<Alone> {
    let mut melder = filled.clone();
    let mut random = workload.random(0);
    let behind = workload.behind as usize;
    let mut states = VecDeque::from(vec![melder.state().clone(); behind + 1]);
    let (mut log, mut decisions) = (Vec::new(), Vec::new());
    let (mut execution, mut meld) = (Latencies::default(), Latencies::default());
    while decisions.len() < workload.transactions as usize {
        let (first, count) = (decisions.len(), behind.max(1));
        let started = Instant::now();
        for (serial, state) in (first..).zip(&states).take(count) {
            log.push(workload.execute(state.clone(), serial as u64, &mut random));
        }
        let executed = started.elapsed();
        for bytes in &log[first..] {
            decisions.push(melder.meld(bytes)?);
            // The nodes that only the oldest state has are freed here: a part of the work.
            states.pop_front();
            states.push_back(melder.state().clone());
        }
        let each = |turn: Duration| turn / count as u32;
        execution.record(each(executed));
        meld.record(each(started.elapsed() - executed));
    }
    meld_again(filled, &log, &decisions, melder.state())?;
    let bytes: usize = log.iter().map(Vec::len).sum();
    let aborted = decisions.iter();
    let aborted = aborted.filter(|decision| **decision != Decision::Committed);
    Ok(Alone {
        run: workload.run(),
        transactions: log.len() as u64,
        aborted: aborted.count() as u64,
        intention_bytes: bytes as f64 / log.len() as f64,
        execute_us: execution.summary().p50_us,
        meld_us: meld.summary().p50_us,
    })
}

impl Alone {
    /// Returns the number of executors that keep one melder busy.
    pub fn saturating_executors(&self) -> f64 {
        self.execute_us / self.meld_us
    }

    /// Returns the intentions that one melder melds in a second.
    pub fn melds_per_second(&self) -> f64 {
        1e6 / self.meld_us
    }

    /// Returns the transactions that some executors and a melder, each with a core, finish in a second.
    pub fn transactions_per_second(&self, executors: usize) -> f64 {
        (executors as f64 * 1e6 / self.execute_us).min(self.melds_per_second())
    }
}

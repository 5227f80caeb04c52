//! A run in the form of the log: with its terms, in parts.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, bounded};
use pythia_log::ChangeSet;

use crate::StoreError;
use crate::delta::Quad;
use crate::delta::device::{DeviceRun, RunRows};
use crate::load::error::joined;
use crate::pattern::Order;
use crate::snapshot::{Snapshot, change_set};

/// Bounds of the number of rows of a change set for the log.
const CHANGES: std::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;
/// Target size of a change set.
const CHANGES_BYTES: usize = 8 << 20;

/// Converts a run's changes, except the rows of `left_out` (sorted), to change sets for the log, some rows at a time
/// and in no particular order. Applies `make` to each on one of `threads` threads and passes the results to `take`.
/// `snapshot` has the terms.
pub(crate) fn change_sets<T: Send>(
    snapshot: &Snapshot,
    run: &Arc<DeviceRun>,
    left_out: &[Quad],
    threads: usize,
    make: impl Fn(ChangeSet) -> Result<T, StoreError> + Sync,
    mut take: impl FnMut(T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let rows = Mutex::new(RunRows::new(std::slice::from_ref(run), Order::Spo)?);
    let (made, received) = bounded::<T>(threads);
    let work = |made: Sender<T>| -> Result<(), StoreError> {
        let mut chunk = Vec::new();
        let mut wanted = *CHANGES.start();
        loop {
            chunk.clear();
            let mut rows = rows.lock().expect("nothing panics holding it");
            while chunk.len() < wanted
                && let Some(row) = rows.next_row()?
            {
                if left_out.binary_search(&row.0).is_err() {
                    chunk.push(row);
                }
            }
            drop(rows);
            if chunk.is_empty() {
                return Ok(());
            }
            let set = change_set(snapshot, &chunk, usize::MAX, |_| ())?;
            let set = set.expect("nothing is too long");
            // The lengths of terms vary.
            wanted = match set.bytes() {
                0..CHANGES_BYTES => (2 * wanted).min(*CHANGES.end()),
                _ => (wanted / 2).max(*CHANGES.start()),
            };
            // The receiver is gone only after `take` has failed with its own error.
            if made.send(make(set)?).is_err() {
                return Ok(());
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let made = made.clone();
                scope.spawn(|| work(made))
            })
            .collect();
        drop(made);
        let taken = received.into_iter().try_for_each(&mut take);
        for worker in workers {
            joined(worker.join().map(Ok), "making the log's changes")??;
        }
        taken
    })
}

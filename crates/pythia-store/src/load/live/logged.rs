//! A run as the log has it: with its terms, in parts.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, bounded};
use pythia_log::ChangeSet;

use crate::StoreError;
use crate::delta::Quad;
use crate::delta::device::{DeviceRun, RunRows};
use crate::load::error::joined;
use crate::pattern::Order;
use crate::snapshot::Snapshot;
use crate::write::change_set;

/// Rows of a change set for the log, at least and at most.
const CHANGES: std::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;
/// Bytes that a change set should have.
const CHANGES_BYTES: usize = 8 << 20;

/// Hands out what a run adds and removes as the log has it, some at a time and in no certain order:
/// what `make` makes of it on one of `threads` threads. `snapshot` has the terms; rows of `left_out`, which is
/// sorted, are left out.
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
            // Terms may be long, and are short again.
            wanted = match set.bytes() {
                0..CHANGES_BYTES => (2 * wanted).min(*CHANGES.end()),
                _ => (wanted / 2).max(*CHANGES.start()),
            };
            // Nobody receives once taking has failed, which says why.
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

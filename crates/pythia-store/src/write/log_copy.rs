//! The log's copy of a run: a file beside the log, written before the commit that names it has its turn.

use std::sync::Arc;

use pythia_io::system;
use pythia_log::{Bulk, BulkChunk, BulkWriter, Changes, Entry, Log, Ticket};

use crate::StoreError;
use crate::delta::Quad;
use crate::delta::device::DeviceRun;
use crate::load::live;
use crate::snapshot::{Snapshot, change_set};
use crate::version::ChangedGraphs;

/// Changes that are written at a time.
const CHANGES: usize = 64 << 10;

/// A commit that was handed to the log.
pub(super) struct Submission {
    pub(super) ticket: Ticket,
    /// The graphs of its quads.
    pub(super) changed: ChangedGraphs,
    pub(super) time: u64,
}

/// The log's copy of a run; removed on drop unless a commit that names it was submitted.
pub(super) struct LogCopy<'l> {
    log: &'l Log,
    bulk: Option<BulkWriter>,
    /// The graphs of its quads.
    changed: ChangedGraphs,
    /// Quads of the run that it leaves out, sorted.
    pub(super) left_out: Vec<Quad>,
}

impl<'l> LogCopy<'l> {
    pub(super) fn write(
        log: &'l Log,
        snapshot: &Snapshot,
        run: &Arc<DeviceRun>,
        left_out: Vec<Quad>,
        threads: usize,
    ) -> Result<Self, StoreError> {
        let mut copy = Self {
            log,
            bulk: Some(log.begin_bulk()?),
            changed: ChangedGraphs::default(),
            left_out,
        };
        let bulk = copy.bulk.as_mut().expect("just begun");
        live::change_sets(
            snapshot,
            run,
            &copy.left_out,
            threads,
            |set| Ok((BulkChunk::all_of(&set)?, ChangedGraphs::of(&set))),
            |(chunks, changed)| {
                copy.changed.extend(&changed);
                Ok(chunks.iter().try_for_each(|chunk| bulk.push_chunk(chunk))?)
            },
        )?;
        Ok(copy)
    }

    /// Appends further changes, makes the copy durable, and submits the commit that names it.
    pub(super) fn submit(
        mut self,
        snapshot: &Snapshot,
        more: &[(Quad, bool)],
        key: Option<&str>,
    ) -> Result<Submission, StoreError> {
        let bulk = self.bulk.as_mut().expect("it is submitted once");
        for changes in more.chunks(CHANGES) {
            let set = change_set(snapshot, changes, usize::MAX, |_| ())?;
            let set = set.expect("nothing is too long");
            self.changed.add(&set);
            bulk.push(&set)?;
        }
        let bulk = self.bulk.take().expect("it is submitted once");
        let name = bulk.name().to_owned();
        let time = system::now_us();
        let submit = |changes: Bulk| {
            self.log.submit(&[Entry {
                time,
                key,
                changes: Changes::Bulk(changes),
            }])
        };
        let submitted = bulk.finish().and_then(submit);
        if submitted.is_err() {
            // No commit names it.
            self.log.discard(&name);
        }
        Ok(Submission {
            ticket: submitted?,
            changed: std::mem::take(&mut self.changed),
            time,
        })
    }
}

impl Drop for LogCopy<'_> {
    fn drop(&mut self) {
        if let Some(bulk) = self.bulk.take() {
            self.log.discard_bulk(bulk);
        }
    }
}

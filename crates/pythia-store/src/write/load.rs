//! Loading into a store that has quads: a run is built aside and published in one step.
//!
//! Parsing and sorting go on beside commits. These wait from when new terms get their ids until the
//! run is part of the store, as ids are given in order; readers never wait.

use std::sync::Arc;

use parking_lot::MutexGuard;
use pythia_log::{BulkChunk, Changes, Entry, Position};
use pythia_rdf::Source;

use super::commit::now;
use super::maintenance::log_of;
use super::replay::first_new;
use super::{Head, Writer};
use crate::StoreError;
use crate::delta::device::DeviceRun;
use crate::delta::{Delta, RunEntry, TermStore, TermView};
use crate::load::live::{self, ParsedLoad, RunTarget};
use crate::load::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::snapshot::Snapshot;

impl Writer {
    /// Adds what the sources have and the store lacks, as one commit.
    pub(crate) fn load(
        &self,
        sources: Vec<Source>,
        options: &LoadOptions,
        progress: &Arc<LoadProgress>,
    ) -> Result<LoadReport, LoadError> {
        let parsed = live::parse(sources, options, progress)?;
        // A new base would have to replay the load.
        let _not_rewriting = self.rewriting.lock();
        let _moving = self.maintenance.lock();
        let mut head = self.flushed_head()?;
        self.settle(&head)?;
        let (entry, report) = self.write_load(&head.snapshot, parsed)?;
        let folder = entry.id.folder();
        let published = match entry.changes() {
            0 => Err(None),
            _ => self
                .publish_load(&mut head, entry, options.threads())
                .map_err(Some),
        };
        if let Err(error) = published {
            // Best effort: the next writer removes what is still there.
            let _ = self.pool.storage().remove(&folder);
            if let Some(error) = error {
                return Err(error.into());
            }
        }
        Ok(report)
    }

    /// The head, held, with all changes on the device.
    fn flushed_head(&self) -> Result<MutexGuard<'_, Head>, StoreError> {
        loop {
            self.flush_alone()?;
            let head = self.head.lock();
            if head.delta().runs().is_empty() {
                return Ok(head);
            }
        }
    }

    fn write_load(
        &self,
        snapshot: &Snapshot,
        parsed: ParsedLoad,
    ) -> Result<(RunEntry, LoadReport), LoadError> {
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        parsed.write_run(&RunTarget {
            storage: self.pool.storage(),
            id: self.next_run(),
            snapshot,
            first_terms: *delta.terms()[0].ends(),
        })
    }

    /// Puts a run into the log, and on top of the head.
    fn publish_load(
        &self,
        head: &mut MutexGuard<'_, Head>,
        entry: RunEntry,
        threads: usize,
    ) -> Result<(), StoreError> {
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        let mut device = head.delta().device().to_vec();
        device.push(Arc::clone(&run));
        let base_terms = head.snapshot.base_terms();
        let terms = Arc::new(TermStore::new(&first_new(&base_terms, &device)));
        let delta = Delta::new(base_terms, device, TermView::new(terms));
        let snapshot = head.snapshot.with_delta(delta);
        let mut bulk = self.log.begin_bulk()?;
        live::change_sets(
            &snapshot,
            &run,
            threads,
            |set| Ok(BulkChunk::all_of(&set)?),
            |chunks| Ok(chunks.iter().try_for_each(|chunk| bulk.push_chunk(chunk))?),
        )?;
        let ticket = self.log.submit(&[Entry {
            time: now(),
            key: None,
            changes: Changes::Bulk(bulk.finish()?),
        }])?;
        self.log.wait(ticket)?;
        head.last += 1;
        let last = head.last;
        // Whoever has not seen the load may have changed what it brings.
        head.recent.forget_all(last);
        let mut manifest = self.manifest();
        manifest.runs.push(entry);
        log_of(&mut manifest).position = Position(last + 1);
        if let Err(error) = self.install(head, manifest, snapshot) {
            // The log has the load, so whoever opens the store next will see it.
            let message = format!("a load is in the log, but could not be put in place: {error}");
            head.failed = Some(message);
            return Err(error);
        }
        self.checkpoint(Position(last + 1))
    }
}

//! Loading into a store that has quads: a run is built aside and published in one step.
//!
//! Parsing and sorting go on beside commits. These wait from when new terms get their ids until the
//! run is part of the store, as ids are given in order; readers never wait.

use std::sync::Arc;

use pythia_log::{BulkChunk, Changes, Entry, Position};
use pythia_rdf::Source;

use super::commit::now;
use super::maintenance::log_of;
use super::replay::first_new;
use super::{Head, NewState, Writer};
use crate::StoreError;
use crate::delta::device::DeviceRun;
use crate::delta::{Delta, RunEntry, TermStore, TermView};
use crate::load::live::{self, ParsedLoad, RunTarget};
use crate::load::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::manifest::Unnamed;
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
        let moving = self.maintenance.lock();
        self.check(&mut self.head.lock())?;
        // What is in memory may become two runs, what is loaded another.
        self.make_room(3)?;
        // A new base that goes on from before would have to replay this one, too.
        self.give_up_interrupted()?;
        let mut head = self.flushed_head()?;
        self.settle(&mut head)?;
        let (entry, report) = self.write_load(&head.snapshot, parsed)?;
        let unnamed = self.unnamed([entry.id.folder()]);
        if entry.changes() > 0 {
            self.publish_load(&mut head, entry, unnamed, options.threads())?;
            // The load is done. What the log keeps for nothing goes with the next checkpoint.
            let _ = self.checkpoint(Position(head.last + 1));
        }
        drop((head, moving));
        self.background.wake();
        Ok(report)
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
        head: &mut Head,
        entry: RunEntry,
        unnamed: Unnamed<'_>,
        threads: usize,
    ) -> Result<(), StoreError> {
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        let mut device = head.delta().device().to_vec();
        device.push(Arc::clone(&run));
        let base_terms = head.snapshot.base_terms();
        assert!(
            head.delta().is_on_device(),
            "the load's rows name terms that are in memory alone"
        );
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
        // The log has the load: if it cannot be put in place now, that is to be done before anything else.
        unnamed.keep();
        head.unsettled = Some(NewState::new(manifest, snapshot));
        self.check(head)
    }
}

//! Checks of runs on the device, and of the log from where they end.

use std::sync::Arc;

use pythia_io::{BufferPool, Storage};
use pythia_log::{LogError, LogReader};
use pythia_rdf::{OwnedKey, TermId};

use super::{Check, IdRanges};
use crate::StoreError;
use crate::compact::CurrentRows;
use crate::delta::device::{DeviceRun, RunRows};
use crate::folders::{check_no_log, log_archive, log_devices};
use crate::manifest::{LogEntry, MANIFEST_NAME, Manifest};
use crate::pattern::{End, Order};
use crate::segment::Segment;

/// Terms looked up at a time.
const KEYS: usize = 4096;

impl Check<'_> {
    /// Checks the runs one by one, and then that together they fit the base.
    pub(super) fn runs(
        &mut self,
        pool: &Arc<BufferPool>,
        manifest: &Manifest,
        base: &Arc<Segment>,
    ) {
        let mut ids = IdRanges::new(&base.dictionary);
        let mut runs: Vec<Arc<DeviceRun>> = Vec::new();
        for entry in &manifest.runs {
            ids.extend(entry);
            let folder = entry.id.folder();
            let run = match DeviceRun::open(pool, entry) {
                Ok(run) => Arc::new(run),
                Err(error) => {
                    self.error(&folder, error);
                    return;
                }
            };
            self.segment(run.added(), &ids);
            self.segment(run.removed(), &ids);
            if let Some(map) = run.term_map() {
                self.pages_total += map.page_count();
                self.pages(map, 0..map.page_count(), |_, _| {});
            }
            if self.report.is_sound()
                && let Err(error) = nodes(&run).and_then(|()| terms(&run, base, &runs))
            {
                self.error(&folder, error);
            }
            runs.push(run);
        }
        if !runs.is_empty() && self.report.is_sound() {
            match quads(base, &runs) {
                Ok(quads) => self.report.quads = quads,
                Err(error) => self.error(MANIFEST_NAME, error),
            }
        }
    }

    /// Checks all files of the log, and reads it from the first commit that neither base nor runs have.
    pub(super) fn log(&mut self, pool: &Arc<BufferPool>, log: &LogEntry) {
        let mut damages = Vec::new();
        let mut read = || -> Result<u64, StoreError> {
            let devices = log_devices(pool.storage(), log)?;
            let reader = LogReader::open(devices, None, log.store);
            damages = reader.damages()?;
            let mut commits = 0;
            for commit in reader.replay_from(log.position)? {
                for changes in commit?.changes() {
                    changes?;
                }
                commits += 1;
            }
            Ok(commits)
        };
        let commits = read();
        for damage in &damages {
            self.problem(&damage.path, None, damage.problem.clone());
        }
        match commits {
            Ok(commits) => self.report.commits = commits,
            // Already listed.
            Err(StoreError::Log(LogError::Damaged { .. })) if !damages.is_empty() => {}
            Err(error) => self.error("the log", error),
        }
        if let Err(error) = log_archive(pool.storage(), log) {
            self.error("the log's archive", error);
        }
    }

    /// Checks that there is no log that the manifest does not name.
    pub(super) fn no_log(&mut self, storage: &Arc<dyn Storage>) {
        match check_no_log(storage) {
            Ok(()) => {}
            Err(StoreError::Log(LogError::Exists { file, evidence })) => {
                let message = format!("{evidence}, but {MANIFEST_NAME} names no log");
                self.problem(&file, None, message);
            }
            Err(error) => self.error("the log", error),
        }
    }
}

/// Checks that the filters admit every node that has rows.
fn nodes(run: &Arc<DeviceRun>) -> Result<(), StoreError> {
    for (end, order) in [(End::Subject, Order::Spo), (End::Object, Order::Ops)] {
        let mut rows = RunRows::new(std::slice::from_ref(run), order)?;
        let mut last = [0; 2];
        while let Some(([node, predicate, ..], _)) = rows.next_row()? {
            let admits = |predicate| run.touches(end, TermId(node), predicate);
            let is_new = last != [node, predicate];
            if is_new && !(admits(None) && admits(Some(TermId(predicate)))) {
                let message = format!("the filter of {end:?} does not admit {:?}", TermId(node));
                return Err(StoreError::corrupt(run.directory_file(), None, message));
            }
            last = [node, predicate];
        }
    }
    Ok(())
}

/// Checks that every new term is found under its id, each id once, and neither in the base nor in an earlier run.
fn terms(run: &DeviceRun, base: &Segment, before: &[Arc<DeviceRun>]) -> Result<(), StoreError> {
    let corrupt = |message| Err(StoreError::corrupt(run.entry().id.folder(), None, message));
    let mut cursor = run.terms()?;
    let mut batch: Vec<(OwnedKey, TermId)> = Vec::new();
    loop {
        batch.clear();
        while batch.len() < KEYS
            && let Some((key, id)) = cursor.head()
        {
            batch.push((key.to_owned_key(), id));
            cursor.advance()?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = batch.iter().map(|(key, _)| key.as_key()).collect();
        let found = run.find_batch(&keys)?;
        let expected = batch.iter().map(|(_, id)| Some(*id));
        if let Some((_, (key, id))) = found
            .iter()
            .zip(expected)
            .zip(&batch)
            .find(|((a, b), _)| *a != b)
        {
            return corrupt(format!("{key:?} is not found as {id:?}"));
        }
        let ids: Vec<TermId> = batch.iter().map(|(_, id)| *id).collect();
        let mut wrong = None;
        run.keys(&ids, |index, key| {
            if key != batch[index].0.as_key() {
                wrong = Some(ids[index]);
            }
            Ok::<_, StoreError>(())
        })?;
        if let Some(id) = wrong {
            return corrupt(format!(
                "{id:?} has another key than the one found under it"
            ));
        }
        let mut elsewhere = base.dictionary.find_batch(&keys)?;
        for run in before {
            elsewhere.extend(run.find_batch(&keys)?);
        }
        if let Some(id) = elsewhere.into_iter().flatten().next() {
            return corrupt(format!("one of its new terms is {id:?} already"));
        }
    }
}

/// Counts the quads of base and runs together; fails if a run adds an existing quad or removes a missing one.
fn quads(base: &Arc<Segment>, runs: &[Arc<DeviceRun>]) -> Result<u64, StoreError> {
    let mut rows = CurrentRows::new(base, runs, Order::Spo)?;
    let mut quads = 0;
    while rows.next_row()?.is_some() {
        quads += 1;
    }
    Ok(quads)
}

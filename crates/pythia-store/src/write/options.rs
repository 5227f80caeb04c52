//! Options for writing to a store.

use std::path::PathBuf;
use std::sync::Arc;

use pythia_io::Storage;
use pythia_log::LogOptions;

use crate::compact::{CompactionOptions, Extent};
use crate::delta::device::merge::terms_are_consecutive;
use crate::manifest::{DictionaryEntry, Manifest, RunEntry};

/// Upper limit of the runs on the device: every read checks each of them.
pub const RUNS_MAX: usize = 32;
/// Options for opening a store for writing.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Log folders on other devices, in addition to the store's own; groups of commits are spread over them. The
    /// store remembers its log folders, and folders that are new to it are added. Empty: the log folders that it has.
    pub log_folders: Vec<PathBuf>,
    /// The archive: a folder for log files that are no longer needed. The store remembers this folder, too. `None`:
    /// the archive that it has, if any. For an archive that is not a folder use [`LogOptions::archive`], which the
    /// store does not remember.
    pub log_archive: Option<PathBuf>,
    /// True to let the archive's device take groups of commits while all log folders are slow: its folder `spare` becomes a
    /// log folder, which the store remembers and needs from then on, like the others.
    pub log_spare: bool,
    /// Further devices of the log that are not folders, for a store whose log has no other folders. The store does not
    /// remember them: whoever opens it must name the same ones, or it does not open.
    pub log_storages: Vec<Arc<dyn Storage>>,
    /// Options of the log.
    pub log: LogOptions,
    /// When and how runs are written, merged and compacted.
    pub maintenance: MaintenanceOptions,
}

/// When and how runs are written, merged and compacted.
#[derive(Clone, Debug)]
pub struct MaintenanceOptions {
    /// Memory for runs and new terms; beyond it, they are written to the device. Commits wait once they take twice as
    /// much.
    pub memory_bytes: usize,
    /// Memory for the changes of a transaction; beyond it, they are written to the device before they are committed.
    pub transaction_bytes: usize,
    /// Limit of the runs on the device; a step that would exceed it first merges some.
    pub runs_max: usize,
    /// The store is compacted when changes reach this percentage of the base.
    pub compaction_percent: u64,
    /// Minimum number of changed quads for a compaction, and of later terms for one that writes the dictionary again
    /// because of them.
    pub compaction_quads_min: u64,
    /// Bytes per second that merging and compaction may write; `None` is no limit.
    pub bytes_per_second: Option<u64>,
    /// Bytes per second at which scrubbing reads all pages in a loop to find damage; `None`: no scrubbing.
    pub scrub_bytes_per_second: Option<u64>,
    /// True if maintenance runs by itself, in the background.
    pub in_background: bool,
    /// Options of compaction.
    pub compaction: CompactionOptions,
}

impl Default for MaintenanceOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            transaction_bytes: 64 << 20,
            runs_max: RUNS_MAX,
            compaction_percent: 6,
            compaction_quads_min: 1 << 16,
            bytes_per_second: None,
            scrub_bytes_per_second: None,
            in_background: true,
            compaction: CompactionOptions::default(),
        }
    }
}

impl MaintenanceOptions {
    /// Returns what a compaction of a state rewrites. The dictionary is written again once later terms, which are not
    /// in the order of their ids, are half as many as its own, or fewer than half of its quads are left.
    pub(crate) fn extent_due(manifest: &Manifest) -> Extent {
        let Some(dictionary) = &manifest.dictionary else {
            return Extent::Whole;
        };
        let removed: u64 = manifest.runs.iter().map(|run| run.removed.quads).sum();
        let added: u64 = manifest.runs.iter().map(|run| run.added.quads).sum();
        let quads = (manifest.quads + added).saturating_sub(removed);
        let is_kept = 2 * later_terms(manifest) < dictionary.terms
            && 2 * quads >= dictionary.quads
            && terms_are_consecutive(&manifest.runs);
        match is_kept {
            true => Extent::Orders,
            false => Extent::Whole,
        }
    }

    /// Returns whether enough has changed for a compaction: quads, or terms. Where the same quads come and go, few have
    /// changed in the end, but the terms of all of them are there, and only a new dictionary drops those that are not used.
    pub(crate) fn is_compaction_due(&self, manifest: &Manifest) -> bool {
        let changes: u64 = manifest.runs.iter().map(RunEntry::changes).sum();
        let least = self.compaction_quads_min;
        let later = later_terms(manifest);
        let has_terms = |dictionary: &DictionaryEntry| 2 * later >= dictionary.terms;
        changes >= least && changes * 100 >= manifest.quads * self.compaction_percent
            || later >= least && manifest.dictionary.as_ref().is_some_and(has_terms)
    }
}

/// Returns the number of terms that are not in the dictionary.
fn later_terms(manifest: &Manifest) -> u64 {
    manifest.runs.iter().map(RunEntry::term_count).sum()
}

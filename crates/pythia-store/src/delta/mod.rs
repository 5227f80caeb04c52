//! Recent changes: the part of a snapshot on top of its base segment.
//!
//! Changes are *runs* of signed quads ([`run`]) over ids of the base and of new terms ([`terms`]). They are
//! normalised: a quad is added only where it was absent and removed only where it was present, so counts are sums,
//! and a sum is always 0 or 1. Reads go to the base and then merge in the changes of runs ([`changes`], [`edges`]).
//! For data that no run touches this costs a filter lookup or a search in memory, and no page (MaSM in the Bulletin;
//! decision 0017).

mod changes;
pub mod device;
mod edges;
mod predicate;
mod run;
mod statistics;
mod terms;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};

pub(crate) use changes::ChangeStream;
pub(crate) use edges::merge;
pub(crate) use predicate::ChangedEdge;
pub(crate) use run::{MergedRows, Quad, Run, in_order, quad_of};
pub(crate) use terms::{KindCounts, TermStore, TermView, keep_first, kind_index};

use crate::StoreError;
use crate::pattern::{End, GraphFilter, QuadPattern};
use crate::scan;
use crate::segment::Segment;
use crate::statistics::Statistics;
use device::DeviceRun;

/// A run this small is merged with the next regardless of its size: commits of single quads then make one run, not
/// many.
const SMALL_ROWS: usize = 64;
/// Minimum ratio of the size of a run to that of the next.
const RATIO: usize = 8;
/// Runs of commits with more rows together are not merged in memory, as both inputs exist until the merge is done.
const MERGED_ROWS_MAX: usize = 1 << 16;

/// Returns whether a run is merged with a later one of this many rows.
pub(crate) fn is_merged(before: usize, rows: usize) -> bool {
    before < SMALL_ROWS || before < RATIO * rows
}

/// Fills in what `find` returns for the keys that have no id yet.
pub(crate) fn fill_missing(
    keys: &[TermKey<'_>],
    ids: &mut [Option<TermId>],
    find: impl FnOnce(&[TermKey<'_>]) -> Result<Vec<Option<TermId>>, StoreError>,
) -> Result<(), StoreError> {
    let (missing, wanted): (Vec<usize>, Vec<TermKey<'_>>) = (0..keys.len())
        .filter(|&index| ids[index].is_none())
        .map(|index| (index, keys[index]))
        .unzip();
    if missing.is_empty() {
        return Ok(());
    }
    for (index, found) in missing.into_iter().zip(find(&wanted)?) {
        ids[index] = found;
    }
    Ok(())
}

/// Changes on top of a base. Immutable; a commit makes the next one.
pub(crate) struct Delta {
    /// Terms of each kind in the base's dictionary.
    base_terms: KindCounts,
    /// One past the largest payload of each kind that a quad of the base may have: compactions that keep ids have
    /// moved the quads of the first runs to the base, and left their terms.
    base_ends: KindCounts,
    /// Runs on the device.
    device: Vec<Arc<DeviceRun>>,
    /// True if the last of them are those of one transaction.
    has_own_device_runs: bool,
    /// Runs in memory, the largest and oldest first.
    runs: Vec<Arc<Run>>,
    /// Number of runs that are being written to the device, and so are not merged with later ones.
    frozen: usize,
    /// New terms: those of commits, and those of one transaction.
    terms: Vec<TermView>,
    statistics: OnceLock<Statistics>,
}

impl Delta {
    /// Returns the changes of these runs, on a base with this many terms.
    pub(crate) fn new(
        base_terms: KindCounts,
        device: Vec<Arc<DeviceRun>>,
        terms: TermView,
    ) -> Self {
        Self {
            base_terms,
            base_ends: base_ends(&base_terms, &device),
            device,
            has_own_device_runs: false,
            runs: Vec::new(),
            frozen: 0,
            terms: vec![terms],
            statistics: OnceLock::new(),
        }
    }

    /// Returns these changes with a run on top, whose new terms are already in `terms`.
    pub(crate) fn with_run(&self, run: Arc<Run>, terms: Vec<TermView>) -> Self {
        let mut runs = self.runs.clone();
        let mut last = run;
        while runs.len() > self.frozen
            && let Some(before) = runs.last()
            && is_merged(before.len(), last.len())
            && before.len() + last.len() <= MERGED_ROWS_MAX
        {
            last = Arc::new(Run::merged_owned(vec![Arc::clone(before), last]));
            runs.pop();
        }
        if last.len() > 0 {
            runs.push(last);
        }
        Self {
            runs,
            terms,
            ..self.copy()
        }
    }

    /// Returns the same changes, as the beginning of those of a transaction with these terms.
    pub(crate) fn private(&self, terms: TermView) -> Self {
        let is_first = self.terms.len() == 1;
        Self {
            frozen: if is_first {
                self.runs.len()
            } else {
                self.frozen
            },
            terms: vec![self.terms[0].clone(), terms],
            ..self.copy()
        }
    }

    /// Returns the changes of a transaction that began with `begun`, with these runs as its own: on the device and in
    /// memory.
    pub(crate) fn with_own_runs(
        &self,
        begun: &Self,
        device: &[Arc<DeviceRun>],
        own: Vec<Arc<Run>>,
    ) -> Self {
        Self {
            has_own_device_runs: !device.is_empty(),
            device: begun.device.iter().chain(device).cloned().collect(),
            runs: begun.runs.iter().cloned().chain(own).collect(),
            ..self.copy()
        }
    }

    /// Returns the same changes; the runs in memory are no longer merged with later ones.
    pub(crate) fn frozen(&self) -> Self {
        Self {
            frozen: self.runs.len(),
            ..self.copy()
        }
    }

    /// Returns the same changes after the runs that `frozen` has in memory were written as a run on the device.
    pub(crate) fn flushed(&self, frozen: &Self, run: Arc<DeviceRun>) -> Self {
        let mut device = self.device.clone();
        device.push(run);
        Self {
            base_ends: base_ends(&self.base_terms, &device),
            device,
            runs: self.runs[frozen.runs.len()..].to_vec(),
            frozen: 0,
            terms: vec![self.terms[0].after(&frozen.terms[0])],
            ..self.copy()
        }
    }

    /// Returns the same changes, with other runs on the device: equivalent ones, or, on a base that has the quads of
    /// the first, those without them.
    pub(crate) fn with_device(&self, device: Vec<Arc<DeviceRun>>) -> Self {
        Self {
            base_ends: base_ends(&self.base_terms, &device),
            device,
            ..self.copy()
        }
    }

    fn copy(&self) -> Self {
        Self {
            base_terms: self.base_terms,
            base_ends: self.base_ends,
            device: self.device.clone(),
            has_own_device_runs: self.has_own_device_runs,
            runs: self.runs.clone(),
            frozen: self.frozen,
            terms: self.terms.clone(),
            statistics: OnceLock::new(),
        }
    }

    /// Returns the runs on the device, the oldest first.
    pub(crate) fn device(&self) -> &[Arc<DeviceRun>] {
        &self.device
    }

    /// Returns the runs in memory, the oldest first.
    pub(crate) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Returns whether everything is on the device: quads, and also terms that no quad uses any more, as later
    /// changes may use them again.
    pub(crate) fn is_on_device(&self) -> bool {
        self.runs.is_empty() && self.terms.iter().all(TermView::is_empty)
    }

    /// Returns the new terms.
    pub(crate) fn terms(&self) -> &[TermView] {
        &self.terms
    }

    /// Returns the new terms of one transaction, if these are its changes.
    pub(crate) fn private_terms(&self) -> Option<&TermView> {
        self.terms.get(1)
    }

    /// Returns whether these are the changes of a transaction that has made some of its own.
    pub(crate) fn has_own_changes(&self) -> bool {
        let has_own_runs = self.runs.len() > self.frozen || self.has_own_device_runs;
        self.private_terms().is_some() && has_own_runs
    }

    /// Returns the approximate memory of the changes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|run| run.memory_bytes()).sum();
        let terms: usize = self
            .terms
            .iter()
            .map(|view| view.store().memory_bytes())
            .sum();
        runs + terms
    }

    /// Returns whether no quad differs from the base.
    pub(crate) fn is_empty(&self) -> bool {
        let has_none = |run: &Arc<DeviceRun>| run.entry().changes() == 0;
        self.runs.is_empty() && self.device.iter().all(has_none)
    }

    /// Returns the id of a new term.
    pub(crate) fn find(&self, key: TermKey<'_>) -> Result<Option<TermId>, StoreError> {
        let mut id = [None];
        self.find_missing(&[key], &mut id)?;
        Ok(id[0])
    }

    /// Fills in the ids of keys that have none yet and are new terms.
    pub(crate) fn find_missing(
        &self,
        keys: &[TermKey<'_>],
        ids: &mut [Option<TermId>],
    ) -> Result<(), StoreError> {
        let find = |rest: &[TermKey<'_>]| Ok(self.find_in_memory(rest));
        fill_missing(keys, ids, find)?;
        self.find_on_device(keys, ids)
    }

    /// Returns the ids of those keys that are new terms in memory.
    pub(crate) fn find_in_memory(&self, keys: &[TermKey<'_>]) -> Vec<Option<TermId>> {
        let find = |&key: &TermKey<'_>| self.terms.iter().find_map(|view| view.find(key));
        keys.iter().map(find).collect()
    }

    /// Fills in the ids of keys that have none yet and are new terms of runs on the device.
    pub(crate) fn find_on_device(
        &self,
        keys: &[TermKey<'_>],
        ids: &mut [Option<TermId>],
    ) -> Result<(), StoreError> {
        let mut runs = self.device.iter();
        runs.try_for_each(|run| fill_missing(keys, ids, |rest| run.find_batch(rest)))
    }

    /// Calls `f` with the index in `ids` and the key of each new term.
    pub(crate) fn keys(
        &self,
        ids: &[TermId],
        mut f: impl FnMut(usize, TermKey<'_>),
    ) -> Result<(), StoreError> {
        for view in &self.terms {
            view.keys(ids, &mut f);
        }
        for run in &self.device {
            run.keys(ids, |index, key| {
                f(index, key);
                Ok::<_, StoreError>(())
            })?;
        }
        Ok(())
    }

    /// Returns whether a quad of the base may have the id.
    pub(crate) fn may_be_in_base(&self, id: TermId) -> bool {
        kind_index(id.kind()).is_none_or(|index| id.payload() < self.base_ends[index])
    }

    /// Returns whether the id is of the base's dictionary, or inline.
    pub(crate) fn is_of_base(&self, id: TermId) -> bool {
        kind_index(id.kind()).is_none_or(|index| id.payload() < self.base_terms[index])
    }

    /// Returns the ids of a kind's new terms.
    pub(crate) fn new_ids(&self, kind: TermKind) -> Range<u64> {
        let Some(index) = kind_index(kind) else {
            return 0..0;
        };
        let end = self.terms.last().map_or(0, |view| view.ends()[index]);
        TermId::new(kind, self.base_terms[index]).0..TermId::new(kind, end).0
    }

    /// Returns the new terms whose keys start with `prefix`: the first `limit` of each run and view, which include
    /// the first `limit` of all.
    pub(crate) fn terms_with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(OwnedKey, TermId)>, StoreError> {
        let mut found = Vec::new();
        for run in &self.device {
            found.extend(run.terms_with_prefix(kind, prefix, limit)?);
        }
        for view in &self.terms {
            found.extend(view.with_prefix(kind, prefix, limit));
        }
        Ok(found)
    }

    /// Returns whether any quad of the predicate differs from the base.
    pub(crate) fn touches(&self, predicate: TermId) -> bool {
        let in_memory = |run: &Arc<Run>| run.predicate(predicate).is_some();
        let on_device = |run: &Arc<DeviceRun>| run.predicate(predicate) != (0, 0);
        self.runs.iter().any(in_memory) || self.device.iter().any(on_device)
    }

    /// Returns the segments of runs on the device that may have quads of the pattern, with their signs.
    fn segments(&self, pattern: QuadPattern) -> impl Iterator<Item = (&Arc<Segment>, i32)> {
        let touches = move |run: &DeviceRun, end, node: Option<TermId>| {
            node.is_none_or(|node| run.touches(end, node, pattern.predicate))
        };
        let may_match = move |run: &&Arc<DeviceRun>| {
            touches(run, End::Subject, pattern.subject)
                && touches(run, End::Object, pattern.object)
                && pattern
                    .predicate
                    .is_none_or(|predicate| run.predicate(predicate) != (0, 0))
        };
        self.device
            .iter()
            .filter(may_match)
            .flat_map(|run| [(run.added(), 1), (run.removed(), -1)])
            .filter(|(segment, _)| segment.statistics().quads > 0)
    }

    /// Returns the change in the number of quads that match.
    pub(crate) fn count(&self, pattern: &QuadPattern) -> Result<i64, StoreError> {
        let mut sum = self.runs.iter().map(|run| run.count(pattern)).sum();
        for (segment, sign) in self.segments(*pattern) {
            sum += i64::from(sign) * scan::count(segment, pattern)? as i64;
        }
        Ok(sum)
    }

    /// Returns the change in the number of quads that have the node at an end.
    pub(crate) fn degree(&self, end: End, node: TermId) -> Result<i64, StoreError> {
        self.count(&match end {
            End::Subject => QuadPattern {
                subject: Some(node),
                ..QuadPattern::default()
            },
            End::Object => QuadPattern {
                object: Some(node),
                ..QuadPattern::default()
            },
        })
    }

    /// Returns the change in the number of quads of a predicate whose subject (or object) is in `ids`.
    pub(crate) fn count_range(
        &self,
        predicate: TermId,
        end: End,
        ids: &Range<u64>,
        graph: GraphFilter,
    ) -> Result<i64, StoreError> {
        let count = |run: &Arc<Run>| run.count_range(predicate, end, ids, graph);
        let mut sum = self.runs.iter().map(count).sum();
        let pattern = QuadPattern {
            predicate: Some(predicate),
            ..QuadPattern::default()
        };
        for (segment, sign) in self.segments(pattern) {
            let count = scan::count_range(segment, predicate, end, ids, graph)?;
            sum += i64::from(sign) * count as i64;
        }
        Ok(sum)
    }

    /// Returns statistics that need no reads, given those of the base.
    pub(crate) fn statistics(&self, base: &Statistics) -> &Statistics {
        self.statistics
            .get_or_init(|| statistics::with_changes(base, &self.device, &self.runs))
    }
}

/// Returns one past the largest payload of each kind that a quad of the base may have, given the runs on top.
fn base_ends(base_terms: &KindCounts, runs: &[Arc<DeviceRun>]) -> KindCounts {
    let mut ends = *base_terms;
    let entries = runs.iter().map(|run| run.entry());
    for entry in entries.take_while(|entry| entry.changes() == 0) {
        entry.raise(&mut ends);
    }
    ends
}

/// Returns the error for an impossible state of normalised changes: a removed quad that does not exist.
pub(crate) fn contradiction() -> StoreError {
    let message = "they remove a quad that the base does not have; `pythia verify` tells more";
    StoreError::corrupt("the runs of changes", None, message)
}

//! Merging of runs: signs are added up, changes that cancel are dropped, terms keep their ids.
//!
//! Runs are kept in levels of size, each [`RATIO`] times as large as the one before. As soon as a level has
//! [`FAN_IN`] adjacent runs they are merged, so that a quad is written once for each level and a store of any size
//! has few runs (MaSM in the Bulletin).

use std::ops::Range;
use std::sync::Arc;

use pythia_io::Storage;
use pythia_rdf::{TermId, TermKey, TermKind};

use super::{DeviceRun, DeviceRunWriter, RunRows, RunTermsWriter, TermCursor, members_max};
use crate::StoreError;
use crate::loser_tree::LoserTree;
use crate::manifest::{RunEntry, RunId};
use crate::pace::Pace;
use crate::pattern::Order;

/// The ratio of the sizes of successive levels.
pub const RATIO: u64 = 4;
/// Number of adjacent runs of a level that are merged.
pub const FAN_IN: usize = 4;
/// Limit of the runs merged at a time: each is read through several pages at once.
const MERGED_MAX: usize = 32;
/// Upper limit of the bytes of a run of the lowest level.
const LEVEL_BYTES: u64 = 4 << 20;
/// Rows between two checks for cancellation.
const ROWS_UNCHECKED: u64 = 4096;

/// Returns the level of a run of this many bytes, from 0.
pub fn level(bytes: u64) -> u32 {
    (bytes / LEVEL_BYTES)
        .checked_ilog(RATIO)
        .map_or(0, |log| log + 1)
}

/// The runs that are not merged, or not with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmerged {
    /// Number of leading runs that stay as they are, because a compaction of the orders reads them.
    pub first: usize,
    /// Index of the first run that is not merged with earlier ones, because of a load.
    pub apart: Option<usize>,
}

/// Returns the runs to merge next, given all runs from the oldest on; `None` if there are few enough. Their new terms
/// are consecutive.
pub fn due(runs: &[RunEntry], unmerged: Unmerged) -> Option<Range<usize>> {
    let levels: Vec<u32> = runs.iter().map(|run| level(run.bytes())).collect();
    let highest = levels.iter().copied().max()?;
    (0..=highest).find_map(|wanted| {
        let mut start = unmerged.first;
        while start < levels.len() {
            let joins = |&place: &usize| {
                let follows = place == start || may_join(runs, place, unmerged);
                levels[place] <= wanted && follows
            };
            let length = (start..levels.len()).take_while(joins).count();
            let members = levels[start..start + length].iter();
            if members.filter(|&&level| level == wanted).count() >= FAN_IN {
                return Some(start..start + length.min(MERGED_MAX));
            }
            start += length.max(1);
        }
        None
    })
}

/// Returns the runs to merge, given all runs from the oldest on, before `more` runs may be added to a store that may
/// have at most `most`; `None` if there is room, or no two runs may be merged. Of all adjacent runs that suffice,
/// chooses those with the fewest bytes.
pub fn in_the_way(
    runs: &[RunEntry],
    more: usize,
    most: usize,
    unmerged: Unmerged,
) -> Option<Range<usize>> {
    let excess = (runs.len() + more).saturating_sub(most);
    if excess == 0 || runs.len() < 2 {
        return None;
    }
    let count = (excess + 1).clamp(FAN_IN, MERGED_MAX).min(runs.len());
    let join = |range: &Range<usize>| {
        let mut places = range.start + 1..range.end;
        places.all(|place| may_join(runs, place, unmerged))
    };
    let bytes = |range: &Range<usize>| -> u64 {
        let runs = runs[range.clone()].iter();
        runs.map(RunEntry::bytes).sum()
    };
    (2..=count).rev().find_map(|count| {
        let starts = unmerged.first..(runs.len() + 1).saturating_sub(count);
        let ranges = starts.map(|start| start..start + count);
        ranges.filter(join).min_by_key(bytes)
    })
}

/// Returns whether the run at an index may be merged with the one before it. The first run with quads is not merged
/// with terms whose quads are in the base: they would be written again with each compaction.
fn may_join(runs: &[RunEntry], place: usize, unmerged: Unmerged) -> bool {
    let (before, after) = (&runs[place - 1], &runs[place]);
    let is_first_with_quads = place == term_runs(runs) && place < runs.len();
    unmerged.apart != Some(place)
        && !is_first_with_quads
        && gap(before, after).is_none()
        && before.orders().eq(after.orders())
}

/// Returns the number of leading runs that have terms and no quads: compactions have moved their quads to the base.
pub fn term_runs(runs: &[RunEntry]) -> usize {
    runs.iter().take_while(|run| run.changes() == 0).count()
}

/// Writes a run with the new terms of others, which are adjacent in the manifest's list, and without their quads;
/// `None` if they have no terms.
pub fn merge_only_terms(
    storage: Arc<dyn Storage>,
    id: RunId,
    runs: &[Arc<DeviceRun>],
    pace: &Pace,
) -> Result<Option<RunEntry>, StoreError> {
    let terms_max: u64 = runs.iter().map(|run| run.entry().term_count()).sum();
    let Some(first) = runs.first().filter(|_| terms_max > 0) else {
        return Ok(None);
    };
    let writer = DeviceRunWriter::new(pace.limit(storage), id, first.added().options());
    let mut terms = writer.terms(&first_payloads(runs)?, terms_max)?;
    merge_terms(runs, &mut terms, pace)?;
    writer.seal_terms(terms).map(Some)
}

/// Returns whether the new terms of all runs are consecutive.
pub fn terms_are_consecutive(runs: &[RunEntry]) -> bool {
    runs.windows(2)
        .all(|pair| gap(&pair[0], &pair[1]).is_none())
}

/// Writes a run with the changes and the new terms of others, which are adjacent in the manifest's list. Takes the
/// memory of one reader for each of their files, and of the new run's filters.
pub fn merge(
    storage: Arc<dyn Storage>,
    id: RunId,
    runs: &[Arc<DeviceRun>],
    pace: &Pace,
) -> Result<RunEntry, StoreError> {
    let Some(first) = runs.first() else {
        let what = "a merge of no runs";
        return Err(StoreError::Abandoned { what });
    };
    let options = first.added().options();
    let writer = DeviceRunWriter::new(pace.limit(storage), id, options);
    let terms_max = runs.iter().map(|run| run.entry().term_count()).sum();
    let mut terms = writer.terms(&first_payloads(runs)?, terms_max)?;
    merge_terms(runs, &mut terms, pace)?;
    let mut orders = Vec::new();
    for order in first.entry().orders() {
        let mut out = writer.order(order, nodes_max(runs, order))?;
        let mut rows = RunRows::new(runs, order)?;
        let mut count = 0_u64;
        while let Some((row, added)) = rows.next_row()? {
            out.push(row, added)?;
            count += 1;
            if count.is_multiple_of(ROWS_UNCHECKED) {
                pace.check()?;
            }
        }
        orders.push(out.finish()?);
    }
    writer.seal(terms, orders)
}

/// Returns an upper limit on the number of nodes and edges that the merged rows of an order begin with. The filters of the runs often
/// show that they are few: a filter for two of each row would take much more memory than the merge needs otherwise. A run whose
/// filter has too many members, as a load may write it, makes one that is no better.
pub(super) fn nodes_max(runs: &[Arc<DeviceRun>], order: Order) -> u64 {
    let rows_max = runs.iter().map(|run| run.entry().changes()).sum();
    let of_runs: u64 = runs.iter().map(|run| run.nodes_max(order)).sum();
    of_runs.min(members_max(rows_max))
}

/// Returns the first gap between the new terms of a run and those of the previous run: the kind, the end of the one
/// and the beginning of the other. Loads by earlier programs left out the numbers of terms that no quad used any
/// more.
fn gap(before: &RunEntry, after: &RunEntry) -> Option<(TermKind, u64, u64)> {
    TermKind::DICTIONARY.into_iter().find_map(|kind| {
        let (before, after) = (before.span(kind)?.end(), after.span(kind)?.first);
        (before != after).then_some((kind, before, after))
    })
}

/// Returns the first payloads of the runs' terms, which must be consecutive.
fn first_payloads(runs: &[Arc<DeviceRun>]) -> Result<Vec<u64>, StoreError> {
    for pair in runs.windows(2) {
        if let Some((kind, end, first)) = gap(pair[0].entry(), pair[1].entry()) {
            let message = format!(
                "its {kind:?} terms begin with {first}, and those of the run before end with {end}"
            );
            let folder = pair[1].entry().id.folder();
            return Err(StoreError::corrupt(folder, None, message));
        }
    }
    let spans = runs.first().map(|run| &run.entry().terms);
    Ok(spans.into_iter().flatten().map(|span| span.first).collect())
}

fn merge_terms(
    runs: &[Arc<DeviceRun>],
    out: &mut RunTermsWriter,
    pace: &Pace,
) -> Result<(), StoreError> {
    let mut terms = MergedTerms::new(runs)?;
    let mut count = 0_u64;
    while let Some((key, id)) = terms.head() {
        out.push(key, id)?;
        terms.advance()?;
        count += 1;
        if count.is_multiple_of(ROWS_UNCHECKED) {
            pace.check()?;
        }
    }
    Ok(())
}

/// The new terms of several runs, sorted by their keys.
pub struct MergedTerms<'r> {
    cursors: Vec<TermCursor<'r>>,
    tree: Option<LoserTree>,
}

impl<'r> MergedTerms<'r> {
    /// Starts at the first term.
    pub fn new(runs: &'r [Arc<DeviceRun>]) -> Result<Self, StoreError> {
        let cursors = runs.iter().map(|run| run.terms());
        let cursors = cursors.collect::<Result<Vec<_>, _>>()?;
        let tree = (!cursors.is_empty()).then(|| LoserTree::new(cursors.len(), less(&cursors)));
        Ok(Self { cursors, tree })
    }

    /// Returns the current term with its id; `None` at the end.
    pub fn head(&self) -> Option<(TermKey<'_>, TermId)> {
        self.cursors[self.tree.as_ref()?.winner()].head()
    }

    /// Moves to the next term.
    pub fn advance(&mut self) -> Result<(), StoreError> {
        if let Some(tree) = &mut self.tree {
            self.cursors[tree.winner()].advance()?;
            tree.replay(less(&self.cursors));
        }
        Ok(())
    }
}

/// Compares cursors; those that have ended are last.
fn less<'a>(cursors: &'a [TermCursor<'_>]) -> impl Fn(usize, usize) -> bool + 'a {
    |a, b| match (cursors[a].head(), cursors[b].head()) {
        (Some((a, _)), Some((b, _))) => a < b,
        (a, _) => a.is_some(),
    }
}

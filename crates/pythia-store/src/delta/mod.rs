//! Recent changes: what a snapshot sees on top of its base segment.
//!
//! Changes are *runs* of signed quads ([`run`]) over ids of the base and of new terms ([`terms`]).
//! They are normalised: a quad is added only where it was absent and removed only where it was
//! there, so counts are sums, and a sum never leaves 0 and 1. Reads go to the base as ever and then
//! mend what runs have touched ([`changes`], [`edges`]): what no run touches costs a look at a
//! filter or a search in memory, and no page (MaSM in the Bulletin; decision 0017).

mod changes;
pub mod device;
mod edges;
mod filter;
mod run;
mod statistics;
mod terms;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pythia_rdf::{TermId, TermKey, TermKind};

pub(crate) use changes::ChangeStream;
pub use device::{RunEntry, RunId, TermSpan};
pub(crate) use edges::{append, merge};
pub(crate) use run::{Quad, Run, in_order};
pub(crate) use terms::{KindCounts, TermStore, TermView, kind_index};

use crate::StoreError;
use crate::pattern::{End, GraphFilter, QuadPattern};
use crate::statistics::Statistics;

/// A run so small is merged with the next whatever its size: commits of single quads then make one
/// run, not many.
const SMALL_ROWS: usize = 512;
/// Runs are kept at least so many times larger than the next.
const RATIO: usize = 8;

/// Changes on top of a base. Nothing of it ever changes; a commit makes the next one.
pub(crate) struct Delta {
    /// Terms per kind that the base has.
    base_terms: KindCounts,
    /// The largest, and oldest, first.
    runs: Vec<Arc<Run>>,
    /// Runs that are being written to the device, and so are not merged with later ones.
    frozen: usize,
    /// New terms: those that commits have brought, and those of one transaction.
    terms: Vec<TermView>,
    statistics: OnceLock<Statistics>,
}

impl Delta {
    /// No changes yet on a base with so many terms.
    pub(crate) fn new(base_terms: KindCounts, terms: TermView) -> Self {
        Self {
            base_terms,
            runs: Vec::new(),
            frozen: 0,
            terms: vec![terms],
            statistics: OnceLock::new(),
        }
    }

    /// These changes and a run on top, whose new terms are in `terms` by now.
    pub(crate) fn with_run(&self, run: Run, terms: Vec<TermView>) -> Self {
        let mut runs = self.runs.clone();
        let mut last = Arc::new(run);
        while runs.len() > self.frozen
            && let Some(before) = runs.last()
            && (before.len() < SMALL_ROWS || before.len() < RATIO * last.len())
        {
            last = Arc::new(Run::merged(&[before, &last]));
            runs.pop();
        }
        if last.len() > 0 {
            runs.push(last);
        }
        Self {
            base_terms: self.base_terms,
            runs,
            frozen: self.frozen,
            terms,
            statistics: OnceLock::new(),
        }
    }

    /// The runs in memory, the oldest first.
    pub(crate) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// The new terms.
    pub(crate) fn terms(&self) -> &[TermView] {
        &self.terms
    }

    /// Memory that it takes, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|run| run.memory_bytes()).sum();
        let terms: usize = self
            .terms
            .iter()
            .map(|view| view.store().memory_bytes())
            .sum();
        runs + terms
    }

    /// Whether no quad differs from the base.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The id of a new term.
    pub(crate) fn find(&self, key: TermKey<'_>) -> Option<TermId> {
        self.terms.iter().find_map(|view| view.find(key))
    }

    /// Calls `f` with the index in `ids` and the key of each that is a new term.
    pub(crate) fn keys(&self, ids: &[TermId], mut f: impl FnMut(usize, TermKey<'_>)) {
        for view in &self.terms {
            view.keys(ids, &mut f);
        }
    }

    /// Whether the id is the base's, or holds its value.
    pub(crate) fn is_of_base(&self, id: TermId) -> bool {
        kind_index(id.kind()).is_none_or(|index| id.payload() < self.base_terms[index])
    }

    /// The ids of a kind's new terms.
    pub(crate) fn new_ids(&self, kind: TermKind) -> Range<u64> {
        let Some(index) = kind_index(kind) else {
            return 0..0;
        };
        let end = self.terms.last().map_or(0, |view| view.ends()[index]);
        TermId::new(kind, self.base_terms[index]).0..TermId::new(kind, end).0
    }

    /// Whether any quad of the predicate differs from the base.
    pub(crate) fn touches(&self, predicate: TermId) -> bool {
        self.runs
            .iter()
            .any(|run| run.predicate(predicate).is_some())
    }

    /// Quads more, or fewer, that match.
    pub(crate) fn count(&self, pattern: &QuadPattern) -> i64 {
        self.runs.iter().map(|run| run.count(pattern)).sum()
    }

    /// Quads more, or fewer, that have the node at an end.
    pub(crate) fn degree(&self, end: End, node: TermId) -> i64 {
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

    /// Quads more, or fewer, of a predicate with a subject (or object) in `ids`.
    pub(crate) fn count_range(
        &self,
        predicate: TermId,
        end: End,
        ids: &Range<u64>,
        graph: GraphFilter,
    ) -> i64 {
        let count = |run: &Arc<Run>| run.count_range(predicate, end, ids, graph);
        self.runs.iter().map(count).sum()
    }

    /// What is known of the quads without reading, given what was known of the base's.
    pub(crate) fn statistics(&self, base: &Statistics) -> &Statistics {
        self.statistics
            .get_or_init(|| statistics::with_changes(base, &self.runs))
    }
}

/// What cannot be, as changes are normalised: a quad removed that is not there.
pub(crate) fn contradiction() -> StoreError {
    let message = "they remove a quad that the base does not have; `pythia verify` tells more";
    StoreError::corrupt("the runs of changes", None, message)
}

//! Statistics of a base with changes: quads stay exact, distinct terms become estimates.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::device::DeviceRun;
use super::run::{PredicateChange, Run};
use crate::statistics::{GraphStatistics, KindSet, PredicateStatistics, Statistics};

/// Returns the base's statistics with the changes of runs: first those on the device, then those in memory.
pub(super) fn with_changes(
    base: &Statistics,
    device: &[Arc<DeviceRun>],
    runs: &[Arc<Run>],
) -> Statistics {
    let mut changed = Changed {
        statistics: base.clone(),
        quads: 0,
        added: 0,
    };
    for run in device {
        changed.segment(run.added().statistics(), 1);
        changed.segment(run.removed().statistics(), -1);
    }
    for run in runs {
        run.predicates()
            .iter()
            .for_each(|change| changed.predicate(change));
        change_graphs(&mut changed.statistics.graphs, run.graphs());
    }
    changed.finish(base)
}

/// Statistics being changed.
struct Changed {
    statistics: Statistics,
    quads: i64,
    added: u64,
}

impl Changed {
    fn predicate(&mut self, change: &PredicateChange) {
        self.quads += change.quads;
        self.added += change.added;
        change_predicate(&mut self.statistics.predicates, change);
    }

    /// Applies a segment whose quads were all added, or all removed.
    fn segment(&mut self, statistics: &Statistics, sign: i64) {
        for known in &statistics.predicates {
            let is_added = sign > 0;
            self.predicate(&PredicateChange {
                predicate: known.predicate,
                quads: sign * known.quads as i64,
                default_quads: 0,
                added: if is_added { known.quads } else { 0 },
                subject_kinds: if is_added { known.subject_kinds.0 } else { 0 },
                object_kinds: if is_added { known.object_kinds.0 } else { 0 },
            });
        }
        let graphs = statistics.graphs.graphs.iter();
        let graphs: Vec<(u64, i64)> = graphs
            .map(|(graph, quads)| (graph.0, sign * *quads as i64))
            .collect();
        change_graphs(&mut self.statistics.graphs, &graphs);
        let unlisted = sign * statistics.graphs.unlisted_quads as i64;
        let all = &mut self.statistics.graphs.unlisted_quads;
        *all = all.saturating_add_signed(unlisted);
    }

    fn finish(self, base: &Statistics) -> Statistics {
        let Self {
            mut statistics,
            quads,
            added,
        } = self;
        statistics.predicates.retain(|known| known.quads > 0);
        statistics.graphs.graphs.retain(|&(_, quads)| quads > 0);
        let after = |count: u64| count.saturating_add_signed(quads);
        statistics.quads = after(base.quads);
        statistics.triples = after(base.triples).min(statistics.quads);
        // At worst every added quad has a new node.
        statistics.subjects = (base.subjects + added).min(statistics.quads);
        statistics.objects = (base.objects + added).min(statistics.quads);
        statistics.distinct_exact = false;
        statistics
    }
}

fn change_predicate(predicates: &mut Vec<PredicateStatistics>, change: &PredicateChange) {
    let place = predicates.binary_search_by_key(&change.predicate, |known| known.predicate);
    let index = place.unwrap_or_else(|index| {
        predicates.insert(index, unknown(change.predicate));
        index
    });
    let known = &mut predicates[index];
    known.quads = known.quads.saturating_add_signed(change.quads);
    known.triples = known.triples.saturating_add_signed(change.quads);
    known.triples = known.triples.min(known.quads);
    known.subjects = (known.subjects + change.added).min(known.quads);
    known.objects = (known.objects + change.added).min(known.quads);
    known.objects_max += change.added;
    known.subjects_max += change.added;
    known.subject_kinds.0 |= change.subject_kinds;
    known.object_kinds.0 |= change.object_kinds;
    known.distinct_exact = false;
}

/// Returns the statistics of a predicate that the base does not have.
fn unknown(predicate: TermId) -> PredicateStatistics {
    PredicateStatistics {
        predicate,
        quads: 0,
        triples: 0,
        subjects: 0,
        objects: 0,
        objects_max: 0,
        subjects_max: 0,
        subject_kinds: KindSet::default(),
        object_kinds: KindSet::default(),
        distinct_exact: false,
    }
}

fn change_graphs(statistics: &mut GraphStatistics, changes: &[(u64, i64)]) {
    for &(graph, quads) in changes {
        let graph = TermId(graph);
        let place = statistics
            .graphs
            .binary_search_by_key(&graph, |known| known.0);
        match place {
            Ok(index) => {
                let known = &mut statistics.graphs[index].1;
                *known = known.saturating_add_signed(quads);
            }
            // It may be one of the graphs that are not listed.
            Err(_) if !statistics.is_complete() && graph.is_bound() => {
                let unlisted = statistics.unlisted_quads.saturating_add_signed(quads);
                statistics.unlisted_quads = unlisted;
            }
            Err(index) => {
                let quads = u64::try_from(quads).unwrap_or(0);
                statistics.graphs.insert(index, (graph, quads));
            }
        }
    }
}

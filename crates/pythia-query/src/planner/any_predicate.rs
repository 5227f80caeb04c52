//! Filters over an end of `?s ?p ?o`.
//!
//! No order is sorted by an end alone. If few predicates have terms at that end that may pass, the pattern is read once for
//! each of these predicates, in ranges of ids.

use pythia_rdf::TermId;
use pythia_sparql::scope::variables_of;
use pythia_store::statistics::KindSet;
use pythia_store::{End, GraphFilter, PredicateStatistics};

use super::Planner;
use super::builder::Builder;
use super::element::{Confined, Element, PatternGraph, PatternTerm, Triple};
use super::group::{GroupFilter, Operands};
use super::push_down::{MATCHES_MIN, may_pass, names_ids};
use pythia_exec::error::QueryError;
use pythia_exec::expression::id_set::{IdSet, intersection};
use pythia_exec::plan::step::StepKind;

/// Maximum number of predicates whose matches are counted.
const PREDICATES_MAX: usize = 64;
/// Least number of a pattern's matches, as a multiple of those that may pass.
const MATCHES_PER_ROW: f64 = 4.0;

impl Planner<'_> {
    /// Begins the pipeline of a group with the single pattern `?s ?p ?o` with the predicates whose quads may pass the filters over one of
    /// its ends, and restricts the pattern to ids that may pass.
    pub(super) fn list_predicates(
        &self,
        builder: &mut Builder,
        group: &Operands<'_>,
        filters: &[GroupFilter<'_>],
        elements: &mut [Element],
    ) -> Result<(), QueryError> {
        let ([Element::Triple(triple)], []) = (elements, &group.operands[..]) else {
            return Ok(());
        };
        let (PatternTerm::Slot(s), PatternTerm::Slot(p), PatternTerm::Slot(o)) =
            (triple.subject, triple.predicate, triple.object)
        else {
            return Ok(());
        };
        let PatternGraph::Filter(graph @ GraphFilter::One(_)) = triple.graph else {
            return Ok(());
        };
        let are_different = s != p && p != o && s != o;
        if !builder.is_unit() || !are_different || triple.count < MATCHES_MIN {
            return Ok(());
        }
        for (end, slot) in [(End::Object, o), (End::Subject, s)] {
            if let Some(ids) = self.ids_of_filters(builder, filters, slot)?
                && let Some((predicates, count)) = self.predicates_with(end, &ids, graph)?
                && count * MATCHES_PER_ROW < triple.count
            {
                // Quads with the other predicates are not read, nor those without matches.
                self.snapshot.depend_on(&triple.constants());
                confine(builder, triple, p, end, &ids, &predicates, count);
                break;
            }
        }
        Ok(())
    }

    /// Returns the ids with which a slot may pass the filters over it alone; `None` if no filter says.
    fn ids_of_filters(
        &self,
        builder: &mut Builder,
        filters: &[GroupFilter<'_>],
        slot: usize,
    ) -> Result<Option<IdSet>, QueryError> {
        let mut all: Option<IdSet> = None;
        for filter in filters {
            let variables = variables_of(filter.expression);
            let mut names = variables.iter();
            let (Some(variable), None) = (names.next(), names.next()) else {
                continue;
            };
            if builder.slot(variable) != slot || !names_ids(filter.expression) {
                continue;
            }
            let any = KindSet(u128::MAX);
            if let Some(ids) = may_pass(self, filter.expression, variable, any)? {
                all = Some(match all {
                    Some(before) => intersection(&before, &ids),
                    None => ids,
                });
            }
        }
        Ok(all)
    }

    /// Returns the predicates that have ids among these at an end, and the number of their matches; `None` if too many may.
    fn predicates_with(
        &self,
        end: End,
        ids: &IdSet,
        graph: GraphFilter,
    ) -> Result<Option<(Vec<TermId>, f64)>, QueryError> {
        let Some(statistics) = self.counts().of_store() else {
            return Ok(None);
        };
        let kinds = |predicate: &PredicateStatistics| match end {
            End::Subject => predicate.subject_kinds,
            End::Object => predicate.object_kinds,
        };
        let may_have = |predicate: &&PredicateStatistics| {
            kinds(predicate).iter().any(|kind| {
                let of_kind = TermId::new(kind, 0).0..TermId::new(kind, TermId::PAYLOAD_MAX).0;
                let mut ranges = ids.iter();
                ranges.any(|range| range.start <= of_kind.end && of_kind.start < range.end)
            })
        };
        let candidates = statistics.predicates.iter().filter(may_have);
        let candidates: Vec<TermId> = candidates
            .map(|counts| counts.predicate)
            .take(PREDICATES_MAX + 1)
            .collect();
        if candidates.len() * ids.len() > PREDICATES_MAX {
            return Ok(None);
        }
        let estimates = self.snapshot.estimates();
        let (mut predicates, mut all) = (Vec::new(), 0.0);
        for predicate in candidates {
            let mut count = 0;
            for range in ids {
                count += estimates.count_range(predicate, end, range.clone(), graph)?;
            }
            if count > 0 {
                predicates.push(predicate);
                all += count as f64;
            }
        }
        Ok(Some((predicates, all)))
    }
}

/// Binds the predicates, and restricts the pattern to these ids at an end.
fn confine(
    builder: &mut Builder,
    triple: &mut Triple,
    predicate: usize,
    end: End,
    ids: &IdSet,
    predicates: &[TermId],
    count: f64,
) {
    let values = StepKind::Values {
        slots: vec![predicate],
        keys: Vec::new(),
        rows: predicates.iter().map(|id| vec![id.0]).collect(),
    };
    let found = predicates.len() as f64;
    builder.push(values, found);
    builder.bind(predicate, found);
    triple.count = count;
    triple.distinct_predicates = found.max(1.0);
    triple.confined = Some(Confined {
        end,
        ids: ids.as_slice().into(),
        count,
    });
}

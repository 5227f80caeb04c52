//! Filters over an end of `?s ?p ?o`.
//!
//! No order is sorted by an end alone. If few predicates have terms at that end that may pass, the pattern is read once for
//! each of these predicates, in ranges of ids.

use std::ops::Range;

use hashbrown::HashSet;
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
use pythia_exec::expression::id_set::{IdSet, all_of, intersection, normal};
use pythia_exec::plan::step::StepKind;

/// Maximum number of counts of a predicate's matches in a range of ids, as a part of the pattern's matches, because a count
/// takes as long as reading some hundred matches; its least and largest value.
const MATCHES_PER_COUNT: f64 = 2000.0;
const COUNTS_MIN: f64 = 64.0;
const COUNTS_MAX: f64 = 4096.0;
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
        let mut ends = Vec::new();
        for (end, slot) in [(End::Object, o), (End::Subject, s)] {
            if let Some(ids) = self.ids_of_filters(builder, filters, slot)?
                && let Some(passing) = self.passing(end, &ids, triple.count, graph)?
            {
                ends.push(passing);
            }
        }
        if let [one, other] = &mut ends[..] {
            one.keep_those_of(other);
            other.keep_those_of(one);
        }
        let fewest = ends
            .into_iter()
            .min_by(|a, b| a.count().total_cmp(&b.count()));
        if let Some(fewest) = fewest
            && fewest.count() * MATCHES_PER_ROW < triple.count
        {
            // Quads with the other predicates are not read, nor those without matches.
            self.snapshot.depend_on(&triple.constants());
            confine(builder, triple, p, &fewest);
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

    /// Returns the predicates that have ids among these at an end, of a pattern with this many matches; `None` if too many may.
    fn passing(
        &self,
        end: End,
        ids: &IdSet,
        matches: f64,
        graph: GraphFilter,
    ) -> Result<Option<Passing>, QueryError> {
        let Some(statistics) = self.counts().of_store() else {
            return Ok(None);
        };
        let kinds = |predicate: &PredicateStatistics| match end {
            End::Subject => predicate.subject_kinds,
            End::Object => predicate.object_kinds,
        };
        let most = (matches / MATCHES_PER_COUNT).clamp(COUNTS_MIN, COUNTS_MAX) as usize;
        let mut candidates = Vec::new();
        let mut counts = 0;
        for predicate in &statistics.predicates {
            let has_kind: Vec<Range<u64>> = kinds(predicate).iter().map(all_of).collect();
            let possible = intersection(ids, &normal(has_kind));
            counts += possible.len();
            if counts > most {
                return Ok(None);
            }
            if !possible.is_empty() {
                candidates.push((predicate.predicate, possible));
            }
        }
        let estimates = self.snapshot.estimates();
        let mut passing = Passing {
            end,
            ids: IdSet::new(),
            predicates: Vec::new(),
        };
        for (predicate, possible) in candidates {
            self.evaluation.check()?;
            let mut count = 0;
            for range in possible {
                let found = estimates.count_range(predicate, end, range.clone(), graph)?;
                if found > 0 {
                    count += found;
                    passing.ids.push(range);
                }
            }
            if count > 0 {
                passing.predicates.push((predicate, count as f64));
            }
        }
        passing.ids = normal(passing.ids);
        Ok(Some(passing))
    }
}

/// The predicates of quads that may pass the filters over one of their ends.
struct Passing {
    end: End,
    /// Ids at this end with which quads may pass.
    ids: IdSet,
    /// The predicates, with the number of such quads.
    predicates: Vec<(TermId, f64)>,
}

impl Passing {
    fn count(&self) -> f64 {
        self.predicates.iter().map(|(_, count)| count).sum()
    }

    /// Drops the predicates that another end does not have.
    fn keep_those_of(&mut self, other: &Self) {
        let known: HashSet<TermId> = other.predicates.iter().map(|(id, _)| *id).collect();
        self.predicates.retain(|(id, _)| known.contains(id));
    }
}

/// Binds the predicates, and restricts the pattern to the ids at the end.
fn confine(builder: &mut Builder, triple: &mut Triple, predicate: usize, passing: &Passing) {
    let rows = passing.predicates.iter().map(|(id, _)| vec![id.0]);
    let values = StepKind::Values {
        slots: vec![predicate],
        keys: Vec::new(),
        rows: rows.collect(),
    };
    let found = passing.predicates.len() as f64;
    builder.push(values, found);
    builder.bind(predicate, found);
    triple.count = passing.count();
    triple.distinct_predicates = found.max(1.0);
    triple.confined = Some(Confined {
        end: passing.end,
        ids: passing.ids.as_slice().into(),
        count: passing.count(),
    });
}

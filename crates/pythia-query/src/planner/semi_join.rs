//! `FILTER EXISTS` as a semi-join that begins with the solutions of its pattern, and `FILTER NOT EXISTS` as an anti-join
//! that hashes them.
//!
//! Usually `EXISTS` tests the rows of its group. If its pattern has far fewer solutions than any pattern of the group, the
//! distinct terms that the pattern gives the shared variables are found first, and the group is joined with them. For
//! `NOT EXISTS` they are found last, and the solutions that have them are dropped.

use oxrdf::Variable;
use pythia_sparql::path_expansion;
use pythia_sparql::scope::{Variables, can_seed, certain, in_scope};
use spargebra::algebra::{Expression, GraphPattern};

use super::builder::Builder;
use super::element::Element;
use super::group::{GroupFilter, Operands, take_apart};
use super::join::hash_join;
use super::order::{OrderSearch, Start};
use super::{PlanError, Planner, Planning};
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::operators::JoinKind;

/// Least number of matches of each pattern of the group, as a multiple of the solutions to begin with.
const MATCHES_PER_SOLUTION: f64 = 4.0;
/// Number of solutions that are hashed in the time of testing one row.
const HASHED_PER_TEST: f64 = 4.0;

/// A `NOT EXISTS` that waits until the group is joined.
pub(super) struct Unmatched<'p> {
    filter: GroupFilter<'p>,
    pattern: Distinct,
    /// Estimated number of the pattern's solutions.
    rows: f64,
}

impl Planner<'_> {
    /// Takes those `NOT EXISTS` out of a group that drop few of its solutions, because their patterns have far fewer.
    pub(super) fn take_not_exists<'p>(
        &self,
        builder: &Builder,
        group: &mut Operands<'p>,
        graph: &GraphScope,
    ) -> Result<Vec<Unmatched<'p>>, PlanError> {
        let mut taken = Vec::new();
        if builder.nested || !self.has_patterns_alone(group, graph) {
            return Ok(taken);
        }
        for filter in std::mem::take(&mut group.filters) {
            let pattern = match filter.expression {
                Expression::Not(exists) => distinct_pattern(exists, &filter.waits_for),
                _ => None,
            };
            let Some(pattern) = pattern else {
                group.filters.push(filter);
                continue;
            };
            let rows = self.rows_alone(&pattern.body, graph)?;
            match self.has_more_matches(group, graph, rows * MATCHES_PER_SOLUTION)? {
                true => taken.push(Unmatched {
                    filter,
                    pattern,
                    rows,
                }),
                false => group.filters.push(filter),
            }
        }
        Ok(taken)
    }

    /// Drops the solutions for which a pattern that was taken out of the group has a match.
    pub(super) fn drop_matched(
        &self,
        builder: &mut Builder,
        unmatched: Vec<Unmatched<'_>>,
        graph: &GraphScope,
    ) -> Planning {
        for Unmatched {
            filter,
            pattern,
            rows,
        } in unmatched
        {
            if rows < builder.known.rows * HASHED_PER_TEST {
                let matched = self.plan(&pattern.distinct, graph, None)?;
                hash_join(builder, matched, |_| JoinKind::Minus)?;
            } else {
                self.push_filter(builder, filter.expression, graph)?;
            }
        }
        Ok(())
    }

    /// Returns whether a pattern means the same alone, and the group has triple patterns to compare with.
    fn has_patterns_alone(&self, group: &Operands<'_>, graph: &GraphScope) -> bool {
        self.is_independent(graph) && !group.triples.is_empty()
    }

    /// Begins the pipeline with the solutions of an `EXISTS` of the group, and removes that filter, if this saves reads.
    pub(super) fn start_from_exists(
        &self,
        builder: &mut Builder,
        group: &mut Operands<'_>,
        graph: &GraphScope,
    ) -> Planning {
        if !builder.is_unit() || !self.has_patterns_alone(group, graph) {
            return Ok(());
        }
        let mut fewest: Option<(f64, usize, GraphPattern)> = None;
        for (place, filter) in group.filters.iter().enumerate() {
            let Some(pattern) = distinct_pattern(filter.expression, &filter.waits_for) else {
                continue;
            };
            let rows = self.rows_alone(&pattern.body, graph)?;
            if fewest.as_ref().is_none_or(|(least, ..)| rows < *least) {
                fewest = Some((rows, place, pattern.distinct));
            }
        }
        if let Some((rows, place, pattern)) = fewest
            && self.has_more_matches(group, graph, rows * MATCHES_PER_SOLUTION)?
        {
            group.filters.remove(place);
            self.join(builder, &pattern, graph)?;
        }
        Ok(())
    }

    /// Estimates the solutions of a pattern by itself.
    fn rows_alone(&self, pattern: &GraphPattern, graph: &GraphScope) -> Result<f64, PlanError> {
        let mut scratch = Builder::new();
        let element = Element::Operand(self.operand(&mut scratch, 0, pattern, graph)?);
        let elements = [element];
        let slots = scratch.slots.len();
        let governor = self.evaluation.governor();
        let counts = self.counts();
        let search = OrderSearch::new(&elements, &[], slots, self.snapshot, counts, governor);
        let start = Start {
            known: &scratch.known,
            unit: true,
            slots,
            samples: &self.samples,
        };
        let found = search.find(&start, &[0])?;
        Ok(found.order.first().map_or(0.0, |(_, method)| method.rows))
    }

    /// Returns whether one pattern has far fewer solutions than any triple pattern of another one has matches.
    pub(super) fn is_far_smaller(
        &self,
        small: &GraphPattern,
        large: &GraphPattern,
        graph: &GraphScope,
    ) -> Result<bool, PlanError> {
        let mut group = Operands::default();
        take_apart(large, &mut group);
        if !graph.is_fixed() || group.triples.is_empty() {
            return Ok(false);
        }
        let rows = self.rows_alone(small, graph)?;
        self.has_more_matches(&group, graph, rows * MATCHES_PER_SOLUTION)
    }

    /// Returns whether each triple pattern of the group has more matches than this.
    fn has_more_matches(
        &self,
        group: &Operands<'_>,
        graph: &GraphScope,
        matches: f64,
    ) -> Result<bool, PlanError> {
        let elements = self.elements(&mut Builder::new(), group, graph)?;
        Ok(elements.is_some_and(|(elements, _)| {
            elements.iter().all(|element| match element {
                Element::Triple(triple) => triple.count > matches,
                Element::Path(_) | Element::Operand(_) => true,
            })
        }))
    }
}

/// The pattern of an `EXISTS`, and the distinct terms that its solutions give the shared variables.
struct Distinct {
    body: GraphPattern,
    distinct: GraphPattern,
}

/// Returns the pattern of an `EXISTS` that is true exactly if the row is compatible with one of the pattern's solutions.
fn distinct_pattern(exists: &Expression, shared: &Variables) -> Option<Distinct> {
    let Expression::Exists(pattern) = exists else {
        return None;
    };
    if !is_semi_join(pattern, shared) {
        return None;
    }
    let mut body = (**pattern).clone();
    path_expansion::expand(&mut body);
    Some(Distinct {
        distinct: distinct(body.clone(), shared),
        body,
    })
}

/// Returns whether the terms of the variables that a row shares with the pattern of an `EXISTS` are the only link.
fn is_semi_join(pattern: &GraphPattern, shared: &Variables) -> bool {
    !shared.is_empty() && shared.is_subset(&certain(pattern)) && can_seed(pattern, shared)
}

/// Returns a pattern with one solution for each combination of terms of the shared variables for which an `EXISTS` is true;
/// `None` if more than these terms decide.
pub(super) fn distinct_of_exists(exists: &Expression, shared: &Variables) -> Option<GraphPattern> {
    let Distinct { body, distinct } = distinct_pattern(exists, shared)?;
    let is_distinct = matches!(&body, GraphPattern::Bgp { patterns } if patterns.len() == 1)
        && in_scope(&body).is_subset(shared);
    Some(match is_distinct {
        true => body,
        false => distinct,
    })
}

/// Returns whether an expression has an `EXISTS`, or may have one.
pub(super) fn has_exists(expression: &Expression) -> bool {
    use Expression as E;
    match expression {
        E::Equal(a, b)
        | E::SameTerm(a, b)
        | E::Less(a, b)
        | E::LessOrEqual(a, b)
        | E::Greater(a, b)
        | E::GreaterOrEqual(a, b)
        | E::Or(a, b)
        | E::And(a, b) => has_exists(a) || has_exists(b),
        E::Not(a) => has_exists(a),
        E::In(a, list) => has_exists(a) || list.iter().any(has_exists),
        E::FunctionCall(_, arguments) => arguments.iter().any(has_exists),
        E::Variable(_) | E::NamedNode(_) | E::Literal(_) => false,
        _ => true,
    }
}

/// Returns the pattern of the distinct terms that a pattern's solutions give these variables.
pub(super) fn distinct(pattern: GraphPattern, variables: &Variables) -> GraphPattern {
    let mut variables: Vec<Variable> = variables.iter().cloned().collect();
    variables.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let inner = Box::new(GraphPattern::Project {
        inner: Box::new(pattern),
        variables,
    });
    GraphPattern::Distinct { inner }
}

//! `FILTER EXISTS` as a semi-join that begins with the solutions of its pattern, and `FILTER NOT EXISTS` as an anti-join
//! that hashes them.
//!
//! Usually `EXISTS` tests the rows of its group. If its pattern has far fewer solutions than any pattern of the group, the
//! distinct terms that the pattern gives the shared variables are found first, and the group is joined with them. For
//! `NOT EXISTS` they are found last, and the solutions that have them are dropped.

use oxrdf::Variable;
use pythia_sparql::path_expansion;
use pythia_sparql::scope::{Variables, can_seed, certain, has_exists, in_scope, variables_of};
use spargebra::algebra::{Expression, GraphPattern};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::builder::Builder;
use super::element::Element;
use super::equality::equal_variables;
use super::group::{GroupFilter, Operands, conjuncts, take_apart};
use super::join::hash_join;
use super::order::{OrderSearch, Start};
use super::{PlanError, Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::operators::JoinKind;

/// Least number of matches of each pattern of the group, as a multiple of the solutions to begin with.
const MATCHES_PER_SOLUTION: f64 = 4.0;
/// Least cost of testing the rows of the group, as a multiple of the cost of the solutions to begin with.
const TESTS_PER_SOLUTIONS: f64 = 1.5;
/// Cost of joining the group with one solution to begin with, in microseconds.
const BEGIN: f64 = 0.1;
/// Least number of matches of each pattern of the group for which hashing is considered, which costs as much as testing this
/// number of rows.
const HASHED_BEFORE_MIN: f64 = 16.0;
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
        if !group.filters.iter().any(|f| is_not_exists(f.expression)) {
            return Ok(taken);
        }
        let matches = self.least_matches(group, graph)?;
        if matches < HASHED_BEFORE_MIN {
            return Ok(taken);
        }
        for filter in std::mem::take(&mut group.filters) {
            let pattern = match filter.expression {
                Expression::Not(exists) => {
                    self.distinct_pattern(builder, group, exists, &filter.waits_for)?
                }
                _ => None,
            };
            let Some(pattern) = pattern else {
                group.filters.push(filter);
                continue;
            };
            let rows = self.rows_alone(&pattern.body, graph)?;
            match matches > rows * MATCHES_PER_SOLUTION {
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
        let mut fewest: Option<(Solutions, usize, Distinct)> = None;
        for (place, filter) in group.filters.iter().enumerate() {
            let shared = &filter.waits_for;
            let Some(pattern) = self.distinct_pattern(builder, group, filter.expression, shared)?
            else {
                continue;
            };
            let alone = self.solutions(&pattern.body, graph, Builder::new())?;
            if fewest
                .as_ref()
                .is_none_or(|(least, ..)| alone.rows < least.rows)
            {
                fewest = Some((alone, place, pattern));
            }
        }
        if let Some((alone, place, pattern)) = fewest
            && (self.least_matches(group, graph)? > alone.rows * MATCHES_PER_SOLUTION
                || self.costs_less(alone, &pattern.body, group, place, graph)?)
        {
            group.filters.remove(place);
            self.join(builder, &pattern.distinct, graph)?;
        }
        Ok(())
    }

    /// Returns whether the solutions of an `EXISTS` cost far less than testing the rows of the group, most of which have no
    /// match.
    fn costs_less(
        &self,
        alone: Solutions,
        pattern: &GraphPattern,
        group: &Operands<'_>,
        place: usize,
        graph: &GraphScope,
    ) -> Result<bool, PlanError> {
        let Some((elements, _)) = self.elements(&mut Builder::new(), group, graph)? else {
            return Ok(false);
        };
        let tested = fewest_matches(&elements);
        if alone.rows > tested {
            return Ok(false);
        }
        let mut shared: Vec<Variable> = group.filters[place].waits_for.iter().cloned().collect();
        shared.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let tests = self.solutions(pattern, graph, Builder::fed(&shared, tested as usize))?;
        let cost = alone.cost * TESTS_PER_SOLUTIONS + alone.rows * BEGIN;
        Ok(tests.rows <= tested && cost <= tests.cost)
    }

    /// Returns the pattern of an `EXISTS` that is true exactly if the row is compatible with one of the pattern's solutions.
    fn distinct_pattern(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        exists: &Expression,
        shared: &Variables,
    ) -> Result<Option<Distinct>, QueryError> {
        let Expression::Exists(pattern) = exists else {
            return Ok(None);
        };
        let unified = self.unified_with(builder, group, pattern, shared)?;
        let pattern = unified.as_ref().unwrap_or(pattern);
        Ok(is_semi_join(pattern, shared).then(|| Distinct::of(pattern, shared)))
    }

    /// Returns a basic graph pattern without those filters that say that a variable of it and one of the rows are the same
    /// term: the variable of the rows takes the other's place. `None` if there is no such filter.
    fn unified_with(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        pattern: &GraphPattern,
        shared: &Variables,
    ) -> Result<Option<GraphPattern>, QueryError> {
        let GraphPattern::Filter { expr, inner } = pattern else {
            return Ok(None);
        };
        let GraphPattern::Bgp { patterns } = &**inner else {
            return Ok(None);
        };
        let mut both = group.clone();
        both.triples.extend(patterns);
        if both.has_triple_terms() {
            return Ok(None);
        }
        let scope = in_scope(inner);
        let mut left = Vec::new();
        conjuncts(expr, &mut left);
        let mut patterns = patterns.clone();
        let all = left.len();
        let mut place = 0;
        while place < left.len() {
            self.evaluation.check()?;
            let equal = equal_variables(left[place]).and_then(|(a, b, by_value)| {
                let is_link = |own, other| {
                    scope.contains(own)
                        && !shared.contains(own)
                        && shared.contains(other)
                        && !scope.contains(other)
                };
                match is_link(a, b) {
                    true => Some((a, b, by_value)),
                    false => is_link(b, a).then_some((b, a, by_value)),
                }
            });
            let mut others = left.iter().enumerate().filter(|(other, _)| *other != place);
            match equal {
                Some((own, other, by_value))
                    if !others.any(|(_, filter)| {
                        has_exists(filter) || variables_of(filter).contains(own)
                    }) && (!by_value || self.is_identity(builder, &both, own, other)?) =>
                {
                    patterns.iter_mut().for_each(|t| rename(t, own, other));
                    left.remove(place);
                }
                _ => place += 1,
            }
        }
        let bgp = GraphPattern::Bgp { patterns };
        let filters = left.iter().map(|filter| (*filter).clone());
        let filtered = filters.fold(bgp, |inner, expr| GraphPattern::Filter {
            expr,
            inner: Box::new(inner),
        });
        Ok((left.len() < all).then_some(filtered))
    }

    /// Estimates the solutions of a pattern by itself.
    fn rows_alone(&self, pattern: &GraphPattern, graph: &GraphScope) -> Result<f64, PlanError> {
        Ok(self.solutions(pattern, graph, Builder::new())?.rows)
    }

    /// Estimates the solutions of a pattern after those of a pipeline.
    fn solutions(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        mut scratch: Builder,
    ) -> Result<Solutions, PlanError> {
        let element = Element::Operand(self.operand(&mut scratch, 0, pattern, graph)?);
        let elements = [element];
        let slots = scratch.slots.len();
        let governor = self.evaluation.governor();
        let counts = self.counts();
        let search = OrderSearch::new(&elements, &[], slots, self.snapshot, counts, governor);
        let start = Start {
            known: &scratch.known,
            unit: scratch.is_unit(),
            slots,
            samples: &self.samples,
        };
        let found = search.find(&start, &[0])?;
        Ok(found
            .order
            .first()
            .map_or_else(Solutions::default, |(_, method)| Solutions {
                rows: method.rows,
                cost: method.cost,
            }))
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
        Ok(self.least_matches(&group, graph)? > rows * MATCHES_PER_SOLUTION)
    }

    /// Returns the number of matches of the triple pattern of the group that has the fewest; 0 if one has none.
    fn least_matches(&self, group: &Operands<'_>, graph: &GraphScope) -> Result<f64, PlanError> {
        let elements = self.elements(&mut Builder::new(), group, graph)?;
        Ok(elements.map_or(0.0, |(elements, _)| fewest_matches(&elements)))
    }
}

fn is_not_exists(expression: &Expression) -> bool {
    let Expression::Not(inner) = expression else {
        return false;
    };
    matches!(**inner, Expression::Exists(_))
}

/// Returns the number of matches of the triple pattern that has the fewest.
fn fewest_matches(elements: &[Element]) -> f64 {
    elements
        .iter()
        .fold(f64::MAX, |fewest, element| match element {
            Element::Triple(triple) => fewest.min(triple.count),
            Element::Path(_) | Element::Operand(_) => fewest,
        })
}

/// The estimated number of solutions, and their cost.
#[derive(Clone, Copy, Default)]
struct Solutions {
    rows: f64,
    cost: f64,
}

/// The pattern of an `EXISTS`, and the distinct terms that its solutions give the shared variables.
struct Distinct {
    body: GraphPattern,
    distinct: GraphPattern,
}

impl Distinct {
    fn of(pattern: &GraphPattern, shared: &Variables) -> Self {
        let mut body = pattern.clone();
        path_expansion::expand(&mut body);
        Self {
            distinct: distinct(body.clone(), shared),
            body,
        }
    }
}

/// Replaces a variable at the ends and the predicate of a triple pattern without triple terms.
fn rename(triple: &mut TriplePattern, from: &Variable, to: &Variable) {
    for end in [&mut triple.subject, &mut triple.object] {
        if matches!(end, TermPattern::Variable(variable) if variable == from) {
            *end = TermPattern::Variable(to.clone());
        }
    }
    if matches!(&triple.predicate, NamedNodePattern::Variable(variable) if variable == from) {
        triple.predicate = NamedNodePattern::Variable(to.clone());
    }
}

/// Returns whether the terms of the variables that a row shares with the pattern of an `EXISTS` are the only link.
fn is_semi_join(pattern: &GraphPattern, shared: &Variables) -> bool {
    !shared.is_empty() && shared.is_subset(&certain(pattern)) && can_seed(pattern, shared)
}

/// Returns a pattern with one solution for each combination of terms of the shared variables for which an `EXISTS` is true;
/// `None` if more than these terms decide.
pub(super) fn distinct_of_exists(exists: &Expression, shared: &Variables) -> Option<GraphPattern> {
    let Expression::Exists(pattern) = exists else {
        return None;
    };
    is_semi_join(pattern, shared).then(|| Distinct::of(pattern, shared).distinct)
}

/// Returns the pattern of the distinct terms that a pattern's solutions give these variables.
pub(super) fn distinct(pattern: GraphPattern, variables: &Variables) -> GraphPattern {
    if is_distinct(&pattern, variables) {
        return pattern;
    }
    let mut variables: Vec<Variable> = variables.iter().cloned().collect();
    variables.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let inner = Box::new(GraphPattern::Project {
        inner: Box::new(pattern),
        variables,
    });
    GraphPattern::Distinct { inner }
}

/// Returns whether a pattern is one triple pattern whose variables are all among these: its solutions differ.
fn is_distinct(pattern: &GraphPattern, variables: &Variables) -> bool {
    let GraphPattern::Bgp { patterns } = pattern else {
        return false;
    };
    let is_known = |term: &TermPattern| match term {
        TermPattern::NamedNode(_) | TermPattern::Literal(_) => true,
        TermPattern::Variable(variable) => variables.contains(variable),
        TermPattern::BlankNode(_) | TermPattern::Triple(_) => false,
    };
    matches!(&patterns[..], [one] if is_known(&one.subject) && is_known(&one.object))
        && in_scope(pattern).is_subset(variables)
}

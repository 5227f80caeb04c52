//! Counts and sums of joins, from counts and sums of their parts ("eager aggregation").
//!
//! Parts of a group may be linked by one variable only. Then each term of the variable has as many solutions as the product
//! of the parts' solutions with it. The parts are counted by term, and the solutions of the group are never made: two patterns
//! with a thousand matches for each of a thousand terms have a billion of them. Numbers of one part are summed by term too,
//! and each sum counts as often as the other parts have solutions with the term.
//!
//! Parts with the same patterns may be linked by two variables: `?a :club ?c ; :town ?t . ?b :club ?c ; :town ?t`. Each
//! solution of such a part joins with itself, so the group has no fewer solutions than the part.

use oxrdf::Variable;
use pythia_sparql::scope::{Variables, certain, draws, has_exists, in_scope, variables_of};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, GraphPattern};
use spargebra::term::{NamedNodePattern, TermPattern};

use super::Planner;
use super::builder::Planned;
use super::components::{Operands, join};
use super::group::conjuncts;
use super::path_count::{counts_all, sum_of};
use super::sequence::project;
use pythia_exec::error::QueryError;
use pythia_exec::expression::exact_sum;
use pythia_exec::plan::dataset::GraphScope;

/// Maximum number of operands. Each split plans the group once more.
const OPERANDS_MAX: usize = 12;
/// Maximum number of variables at which a split is considered. The parts of each are planned.
const LINKS_MAX: usize = 4;
/// Least number of the group's solutions, as a multiple of the parts' solutions: aggregating by term has to make each of
/// them, and to group and join the results. Estimates do not know skew, which makes more solutions and not more matches.
const SOLUTIONS_PER_MATCH: f64 = 1.5;

/// The count or sum of the parts that an aggregate is made of.
#[derive(Clone)]
enum Need {
    /// The number of solutions.
    Count,
    /// The sum of an expression, which is over one part.
    Sum(Expression, SumForm),
}

/// The result that a sum gives at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SumForm {
    Sum,
    Average,
    /// It stays a sum from which others can be taken away.
    State,
}

impl Planner<'_> {
    /// Plans aggregates of a group from those of its parts. Returns `None` if the group has no such form, or few solutions.
    pub(super) fn eager_aggregation(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Option<Planned>, QueryError> {
        let Some(parts) = self.parts_to_aggregate(inner, keys, aggregates, graph)? else {
            return Ok(None);
        };
        let names: Vec<&Variable> = aggregates.iter().map(|(name, _)| name).collect();
        let planned = self.plan(&parts.assembled(keys, &names), graph, None)?;
        let columns: Vec<Variable> = keys.iter().chain(names).cloned().collect();
        Ok(Some(project(planned, &columns)))
    }

    /// Returns the parts of a group that are to be aggregated by themselves.
    pub(super) fn parts_to_aggregate(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Option<Parts>, QueryError> {
        let bound = certain(inner);
        if !self.is_independent(graph)
            || aggregates.is_empty()
            || bound != in_scope(inner)
            || !keys.iter().all(|key| bound.contains(key))
        {
            return Ok(None);
        }
        let needs = aggregates.iter().map(|(_, one)| need(one, &bound));
        let Some(needs) = needs.collect::<Option<Vec<Need>>>() else {
            return Ok(None);
        };
        let mut conditions = Vec::new();
        let patterns = match inner {
            GraphPattern::Filter { expr, inner } => {
                conjuncts(expr, &mut conditions);
                inner
            }
            other => other,
        };
        let Some(operands) = Operands::of(patterns, &conditions) else {
            return Ok(None);
        };
        let mut best: Option<(f64, Parts)> = None;
        for parts in Parts::of(&operands, keys, &needs) {
            let mut solutions = 0.0;
            for part in parts.patterns() {
                solutions += self.plan(part, graph, None)?.rows;
            }
            if best.as_ref().is_none_or(|(least, _)| solutions < *least) {
                best = Some((solutions, parts));
            }
        }
        let Some((solutions, parts)) = best else {
            return Ok(None);
        };
        if parts.links.len() > 1 {
            return Ok(Some(parts));
        }
        let wanted: Variables = keys.iter().cloned().collect();
        let rows = self.plan(inner, graph, Some(&wanted))?.rows;
        Ok((rows > solutions * SOLUTIONS_PER_MATCH).then_some(parts))
    }
}

/// Returns what an aggregate over a pattern that binds these variables needs; `None` if it needs each solution.
fn need(aggregate: &AggregateExpression, bound: &Variables) -> Option<Need> {
    if counts_all(aggregate, bound) {
        return Some(Need::Count);
    }
    let AggregateExpression::FunctionCall {
        name,
        expr,
        distinct: false,
    } = aggregate
    else {
        return None;
    };
    let form = match name {
        AggregateFunction::Sum => SumForm::Sum,
        AggregateFunction::Avg => SumForm::Average,
        AggregateFunction::Custom(name) if exact_sum::is_state(name) => SumForm::State,
        _ => return None,
    };
    let is_over_solutions = !variables_of(expr).is_empty() && !draws(expr) && !has_exists(expr);
    is_over_solutions.then(|| Need::Sum(expr.clone(), form))
}

/// A group whose parts are linked by these variables, or share none.
pub(super) struct Parts {
    links: Vec<Variable>,
    /// The part with the keys, unless the links are the only keys or there is none.
    keyed: Option<GraphPattern>,
    /// The other parts.
    counted: Vec<Part>,
    /// The count or sum for each aggregate.
    needs: Vec<Need>,
}

/// A part that is aggregated by the links.
struct Part {
    pattern: GraphPattern,
    /// Number of times that it occurs in the group, under other names.
    times: usize,
    /// The aggregates whose sums are over it.
    sums: Vec<usize>,
}

impl Parts {
    /// Splits a group into the parts that share no variable, or at each of the variables that leave the most parts; if there
    /// are none, into two parts that are the same but for one variable.
    fn of(operands: &Operands<'_>, keys: &[Variable], needs: &[Need]) -> Vec<Self> {
        let patterns = operands.patterns();
        let are_plain = patterns.iter().all(|(pattern, _)| is_plain(pattern));
        if !(2..=OPERANDS_MAX).contains(&patterns.len()) || !are_plain {
            return Vec::new();
        }
        let unlinked = scopes_at(operands, &[]);
        if let Some(scopes) = unlinked.filter(|scopes| scopes.len() > 1) {
            let parts = Self::at(operands, &[], &scopes, (keys, needs));
            return parts.into_iter().collect();
        }
        let mut links: Vec<&Variable> = patterns.iter().flat_map(|(_, scope)| scope).collect();
        links.sort_unstable_by_key(|link| link.as_str());
        links.dedup();
        let divided = |links: Vec<&Variable>| {
            let links: Vec<Variable> = links.into_iter().cloned().collect();
            let scopes = scopes_at(operands, &links)?;
            (scopes.len() > 1).then_some((links, scopes))
        };
        let split = |(links, scopes): (Vec<Variable>, Vec<Variables>)| {
            Self::at(operands, &links, &scopes, (keys, needs))
        };
        let singles = links.iter().filter_map(|link| divided(vec![*link]));
        let mut singles: Vec<_> = singles.collect();
        singles.sort_by_key(|(_, scopes)| std::cmp::Reverse(scopes.len()));
        let singles = singles.into_iter().filter_map(split);
        let singles: Vec<Self> = singles.take(LINKS_MAX).collect();
        if !singles.is_empty() {
            return singles;
        }
        let second = |place: usize| links[place + 1..].iter();
        let pairs = links.iter().enumerate();
        let pairs = pairs.flat_map(|(place, one)| second(place).map(|other| vec![*one, *other]));
        let pairs = pairs.filter_map(divided).filter_map(split);
        pairs.filter(Self::is_self_join).take(1).collect()
    }

    /// Returns whether the parts are the same but for the names of variables.
    fn is_self_join(&self) -> bool {
        self.keyed.is_none() && matches!(&self.counted[..], [part] if part.times > 1)
    }

    /// Makes the parts with these variables besides the links. Returns `None` if a sum is over more than one part, or over
    /// the part with the keys, or if there is only that part.
    fn at(
        operands: &Operands<'_>,
        links: &[Variable],
        scopes: &[Variables],
        (keys, needs): (&[Variable], &[Need]),
    ) -> Option<Self> {
        // What only tests the links' terms is part of each: it has one match, or the terms have no solutions.
        let is_test = |one: &Variables| one.iter().all(|v| links.contains(v));
        let mut patterns = operands.patterns().iter();
        if !patterns.all(|(pattern, scope)| !is_test(scope) || is_set(pattern)) {
            return None;
        }
        let others: Vec<&Variable> = keys.iter().filter(|key| !links.contains(*key)).collect();
        let has_keys = |scope: &Variables| others.iter().any(|key| scope.contains(*key));
        let mut parts = Self {
            links: links.to_vec(),
            keyed: None,
            counted: Vec::new(),
            needs: needs.to_vec(),
        };
        for scope in scopes {
            let pattern = operands.joined(|one| is_test(one) || !one.is_disjoint(scope))?;
            if has_keys(scope) {
                parts.keyed = Some(match parts.keyed.take() {
                    Some(other) => join(other, pattern),
                    None => pattern,
                });
                continue;
            }
            let is_over = |(place, need): (usize, &Need)| match need {
                Need::Sum(expression, _) if !variables_of(expression).is_disjoint(scope) => {
                    Some(place)
                }
                _ => None,
            };
            let sums: Vec<usize> = needs.iter().enumerate().filter_map(is_over).collect();
            let same = parts.counted.iter_mut().find(|other| {
                other.sums.is_empty() && sums.is_empty() && is_same(&other.pattern, &pattern, links)
            });
            match same {
                Some(other) => other.times += 1,
                None => parts.counted.push(Part {
                    pattern,
                    times: 1,
                    sums,
                }),
            }
        }
        let has_part = |(place, need): (usize, &Need)| match need {
            Need::Count => true,
            Need::Sum(expression, _) => parts.counted.iter().any(|part| {
                let own = variables_of(expression);
                part.sums.contains(&place) && own.is_subset(&in_scope(&part.pattern))
            }),
        };
        let are_summed = needs.iter().enumerate().all(has_part);
        // The keyed part alone is what there was.
        (!parts.counted.is_empty() && are_summed).then_some(parts)
    }

    fn patterns(&self) -> impl Iterator<Item = &GraphPattern> {
        let counted = self.counted.iter().map(|part| &part.pattern);
        self.keyed.iter().chain(counted)
    }

    /// Returns the pattern of the aggregates, with these names, over all solutions of the part with this pattern. It is made
    /// of what the group needs of the part.
    pub(super) fn total(&self, pattern: &GraphPattern, names: &[Variable]) -> Option<GraphPattern> {
        let place = self
            .counted
            .iter()
            .position(|part| part.pattern == *pattern)?;
        let aggregate = |(place_of_need, (need, name)): (usize, (&Need, &Variable))| {
            let aggregate = match need {
                Need::Count => sum_of(Expression::Variable(count_name(place))),
                Need::Sum(..) => {
                    let is_its = self.counted[place].sums.contains(&place_of_need);
                    let sum = Expression::Variable(sum_name(self.first_sum(place_of_need)));
                    is_its.then(|| exact_sum::merged(sum))?
                }
            };
            Some((name.clone(), aggregate))
        };
        let aggregates = self.needs.iter().zip(names).enumerate().map(aggregate);
        Some(GraphPattern::Group {
            aggregates: aggregates.collect::<Option<_>>()?,
            inner: Box::new(self.by_link(place)),
            variables: Vec::new(),
        })
    }

    /// Returns the first of the aggregates with the same sum, which SUM and AVG of one expression share.
    fn first_sum(&self, aggregate: usize) -> usize {
        let sum = |need: &Need| match need {
            Need::Count => None,
            Need::Sum(expression, form) => Some((expression.clone(), *form == SumForm::State)),
        };
        let own = sum(&self.needs[aggregate]);
        let first = self.needs.iter().position(|need| sum(need) == own);
        first.unwrap_or(aggregate)
    }

    fn by_link(&self, place: usize) -> GraphPattern {
        let part = &self.counted[place];
        let count = AggregateExpression::CountSolutions { distinct: false };
        let sum = |&aggregate: &usize| match &self.needs[aggregate] {
            Need::Sum(expression, _) => {
                (sum_name(aggregate), exact_sum::state_of(expression.clone()))
            }
            Need::Count => unreachable!("counts are over all parts"),
        };
        let is_first = |aggregate: &&usize| self.first_sum(**aggregate) == **aggregate;
        let own = part.sums.iter().filter(is_first).map(sum);
        GraphPattern::Group {
            inner: Box::new(part.pattern.clone()),
            variables: self.links.clone(),
            aggregates: own.chain([(count_name(place), count)]).collect(),
        }
    }

    /// Returns the join of the keyed part and of the groups of the others.
    fn joined(&self) -> GraphPattern {
        let groups = (0..self.counted.len()).map(|place| self.by_link(place));
        let joined = self.keyed.iter().cloned().chain(groups).reduce(join);
        let joined = joined.expect("at least one part is counted");
        if !self.links.is_empty() {
            return joined;
        }
        // Without keys, a part has a group even if it has no solutions.
        (0..self.counted.len()).fold(joined, |inner, place| GraphPattern::Filter {
            expr: Expression::Greater(
                Box::new(Expression::Variable(count_name(place))),
                Box::new(Expression::Literal(0.into())),
            ),
            inner: Box::new(inner),
        })
    }

    /// Returns the pattern of the keys and the aggregates with these names.
    fn assembled(self, keys: &[Variable], names: &[&Variable]) -> GraphPattern {
        let needs = &self.needs;
        let merged_name = |place: usize| Variable::new_unchecked(format!("_:merged{place}"));
        let product = |except: Option<usize>| {
            let factors = self.counted.iter().enumerate().flat_map(|(place, part)| {
                let times = part.times - usize::from(except == Some(place));
                (0..times).map(move |_| Expression::Variable(count_name(place)))
            });
            factors.reduce(|one, other| Expression::Multiply(Box::new(one), Box::new(other)))
        };
        let sum_of_part = |aggregate: usize| {
            let mut parts = self.counted.iter();
            let part = parts.position(|part| part.sums.contains(&aggregate));
            let sum = Expression::Variable(sum_name(self.first_sum(aggregate)));
            match product(part) {
                Some(times) => exact_sum::times(sum, times),
                None => sum,
            }
        };
        let is_state = |need: &Need| matches!(need, Need::Sum(_, SumForm::State));
        let aggregate = |(place, need): (usize, &Need)| match need {
            Need::Count => {
                let product = product(None).expect("at least one part is counted");
                Some((names[place].clone(), sum_of(product)))
            }
            Need::Sum(..) => {
                let name = match is_state(need) {
                    true => names[place].clone(),
                    false if self.first_sum(place) == place => merged_name(place),
                    false => return None,
                };
                Some((name, exact_sum::merged(sum_of_part(place))))
            }
        };
        let aggregates = needs.iter().enumerate().filter_map(aggregate).collect();
        let group = GraphPattern::Group {
            inner: Box::new(self.joined()),
            variables: keys.to_vec(),
            aggregates,
        };
        let finished = needs
            .iter()
            .enumerate()
            .filter_map(|(place, need)| match need {
                Need::Sum(_, form @ (SumForm::Sum | SumForm::Average)) => {
                    let merged = Expression::Variable(merged_name(self.first_sum(place)));
                    let none = Expression::Literal(exact_sum::empty_state());
                    let once = Expression::Literal(1.into());
                    let is_average = *form == SumForm::Average;
                    Some((place, exact_sum::without(is_average, [merged, none, once])))
                }
                _ => None,
            });
        finished.fold(group, |inner, (place, expression)| GraphPattern::Extend {
            inner: Box::new(inner),
            variable: names[place].clone(),
            expression,
        })
    }
}

/// Returns the name of the sum of a part for an aggregate.
fn sum_name(aggregate: usize) -> Variable {
    Variable::new_unchecked(format!("_:sum{aggregate}"))
}

/// Returns the name of the count of the part at this place.
fn count_name(place: usize) -> Variable {
    Variable::new_unchecked(format!("_:count{place}"))
}

/// Returns whether a pattern has the same solutions wherever it is evaluated in a group, and is made of triple patterns.
pub(super) fn is_plain(pattern: &GraphPattern) -> bool {
    match pattern {
        GraphPattern::Bgp { .. } => true,
        GraphPattern::Join { left, right } => is_plain(left) && is_plain(right),
        GraphPattern::Project { inner, .. } | GraphPattern::Distinct { inner } => is_plain(inner),
        GraphPattern::Filter { expr, inner } => {
            !draws(expr) && !has_exists(expr) && is_plain(inner)
        }
        _ => false,
    }
}

/// Returns whether a plain pattern has each of its solutions once, if it has one variable or none.
fn is_set(pattern: &GraphPattern) -> bool {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Distinct { .. } => true,
        GraphPattern::Filter { inner, .. } => is_set(inner),
        _ => false,
    }
}

/// Returns the variables of each part that is left without these variables; `None` if a part is not linked by each of them.
fn scopes_at(operands: &Operands<'_>, links: &[Variable]) -> Option<Vec<Variables>> {
    let mut parts: Vec<Variables> = Vec::new();
    for (_, scope) in operands.patterns() {
        let own: Variables = scope
            .iter()
            .filter(|v| !links.contains(v))
            .cloned()
            .collect();
        if own.is_empty() || parts.iter().any(|part| !part.is_disjoint(&own)) {
            continue;
        }
        parts.push(operands.reached(own, links));
    }
    let is_linked = |part: &Variables, link: &Variable| {
        let mut patterns = operands.patterns().iter();
        patterns.any(|(_, scope)| scope.contains(link) && !scope.is_disjoint(part))
    };
    let are_linked = |part: &Variables| links.iter().all(|link| is_linked(part, link));
    parts.iter().all(are_linked).then_some(parts)
}

/// Returns whether two parts are triple patterns over one variable besides the links, and the same but for its name.
fn is_same(left: &GraphPattern, right: &GraphPattern, links: &[Variable]) -> bool {
    renamed(left, links).is_some_and(|left| renamed(right, links) == Some(left))
}

/// Returns the texts of triple patterns, sorted, with a fixed name for their only variable besides the links; `None` if they
/// have others.
fn renamed(pattern: &GraphPattern, links: &[Variable]) -> Option<Vec<String>> {
    let GraphPattern::Bgp { patterns } = pattern else {
        return None;
    };
    let other = Variable::new_unchecked("_:other");
    let mut names = Variables::new();
    let mut term = |term: &TermPattern| match term {
        TermPattern::Variable(v) if !links.contains(v) => {
            names.insert(v.clone());
            Some(TermPattern::Variable(other.clone()))
        }
        TermPattern::BlankNode(_) | TermPattern::Triple(_) => None,
        same => Some(same.clone()),
    };
    let mut texts = Vec::with_capacity(patterns.len());
    for triple in patterns {
        let NamedNodePattern::NamedNode(predicate) = &triple.predicate else {
            return None;
        };
        let (subject, object) = (term(&triple.subject)?, term(&triple.object)?);
        texts.push(format!("{subject} {predicate} {object}"));
    }
    texts.sort_unstable();
    (names.len() == 1).then_some(texts)
}

//! Counts of joins as sums of products.
//!
//! If one variable is all that links the parts of a group, each term of the variable has as many solutions as the product of
//! the parts' solutions with it. The parts are counted by term, and the solutions of the group are never made: two patterns
//! with a thousand matches for each of a thousand terms have a billion of them.

use oxrdf::Variable;
use pythia_sparql::scope::{Variables, certain};
use spargebra::algebra::{AggregateExpression, Expression, GraphPattern};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::builder::{Builder, Planned};
use super::components::{Operands, join};
use super::element::Element;
use super::group::{self, conjuncts, take_apart};
use super::path_count::{counts_all, sum_of};
use super::sequence::project;
use super::{PlanError, Planner};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;

/// Maximum number of patterns. Each split plans the group once more.
const PATTERNS_MAX: usize = 12;
/// Least number of the group's solutions, as a multiple of the matches of the parts: counting by term has to read each of
/// them, and to group and join the counts. Estimates do not know skew, which makes more solutions and not more matches.
const SOLUTIONS_PER_MATCH: f64 = 1.5;

impl Planner<'_> {
    /// Plans counts of a group as sums of products. Returns `None` if the group has no such form, or few solutions.
    pub(super) fn count_product(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Option<Planned>, QueryError> {
        let is_fixed = matches!(graph, GraphScope::Fixed(_) | GraphScope::Merged);
        let bound = certain(inner);
        if !is_fixed
            || !self.inserted.is_empty()
            || aggregates.is_empty()
            || !aggregates.iter().all(|(_, one)| counts_all(one, &bound))
            || !keys.iter().all(|key| bound.contains(key))
        {
            return Ok(None);
        }
        let mut conditions = Vec::new();
        let patterns = match inner {
            GraphPattern::Filter { expr, inner } => {
                conjuncts(expr, &mut conditions);
                inner
            }
            other => other,
        };
        let Some(parts) = Operands::of(patterns, &conditions).and_then(|one| split(&one, keys))
        else {
            return Ok(None);
        };
        let mut matches = 0.0;
        for part in parts
            .keyed
            .iter()
            .chain(parts.counted.iter().map(|(part, _)| part))
        {
            match self.matches(part, graph)? {
                Some(count) => matches += count,
                None => return Ok(None),
            }
        }
        let wanted: Variables = keys.iter().cloned().collect();
        if self.plan(inner, graph, Some(&wanted))?.rows <= matches * SOLUTIONS_PER_MATCH {
            return Ok(None);
        }
        let planned = self.plan(&assembled(parts, keys, aggregates), graph, None)?;
        let names = aggregates.iter().map(|(name, _)| name);
        let columns: Vec<Variable> = keys.iter().chain(names).cloned().collect();
        Ok(Some(project(planned, &columns)))
    }

    /// Returns the number of matches of all triple patterns of a part; `None` if one of them has none.
    fn matches(&self, part: &GraphPattern, graph: &GraphScope) -> Result<Option<f64>, QueryError> {
        let mut group = group::Operands::default();
        take_apart(part, &mut group);
        let elements = match self.elements(&mut Builder::new(), &group, graph) {
            Ok(elements) => elements,
            Err(PlanError::Alone) => None,
            Err(PlanError::Query(error)) => return Err(error),
        };
        Ok(elements.map(|(elements, _)| {
            let counts = elements.iter().map(|element| match element {
                Element::Triple(triple) => triple.count,
                Element::Path(_) | Element::Operand(_) => f64::INFINITY,
            });
            counts.sum()
        }))
    }
}

/// A group whose parts are linked by one variable.
struct Parts {
    link: Variable,
    /// The part with the keys, unless the link is the only key or there is none.
    keyed: Option<GraphPattern>,
    /// The other parts, each with the number of times that it occurs under other names.
    counted: Vec<(GraphPattern, usize)>,
}

/// Splits triple patterns at the variable that leaves the most parts.
fn split(operands: &Operands<'_>, keys: &[Variable]) -> Option<Parts> {
    let patterns = operands.patterns();
    let is_triple = |pattern: &GraphPattern| matches!(pattern, GraphPattern::Bgp { .. });
    let is_small = (2..=PATTERNS_MAX).contains(&patterns.len());
    if !is_small || !patterns.iter().all(|(pattern, _)| is_triple(pattern)) {
        return None;
    }
    let mut links: Vec<&Variable> = patterns.iter().flat_map(|(_, scope)| scope).collect();
    links.sort_unstable_by_key(|link| link.as_str());
    links.dedup();
    let divided = links.into_iter().filter_map(|link| {
        let parts = parts_at(operands, link)?;
        (parts.len() > 1).then_some((link, parts))
    });
    // The last of those with the most parts.
    let (link, parts) = divided.max_by_key(|(_, parts)| parts.len())?;
    let others: Vec<&Variable> = keys.iter().filter(|key| *key != link).collect();
    let has_keys = |scope: &Variables| others.iter().any(|key| scope.contains(*key));
    let mut keyed: Option<GraphPattern> = None;
    let mut counted: Vec<(GraphPattern, usize)> = Vec::new();
    for scope in parts {
        // What only tests the link's terms is part of each: it has one match, or the term has no solutions.
        let is_test = |one: &Variables| one.iter().all(|v| v == link);
        let part = operands.joined(|one| is_test(one) || !one.is_disjoint(&scope))?;
        if has_keys(&scope) {
            keyed = Some(match keyed {
                Some(other) => join(other, part),
                None => part,
            });
            continue;
        }
        let same = counted
            .iter_mut()
            .find(|(other, _)| is_same(other, &part, link));
        match same {
            Some((_, times)) => *times += 1,
            None => counted.push((part, 1)),
        }
    }
    // The keyed part alone is what there was.
    (!counted.is_empty()).then(|| Parts {
        link: link.clone(),
        keyed,
        counted,
    })
}

/// Returns the variables of each part that is left without a variable; `None` if a part is not linked by it.
fn parts_at(operands: &Operands<'_>, link: &Variable) -> Option<Vec<Variables>> {
    let mut parts: Vec<Variables> = Vec::new();
    for (_, scope) in operands.patterns() {
        let own: Variables = scope.iter().filter(|v| *v != link).cloned().collect();
        if own.is_empty() || parts.iter().any(|part| !part.is_disjoint(&own)) {
            continue;
        }
        parts.push(operands.reached(own, Some(link)));
    }
    let is_linked = |part: &Variables| {
        let mut patterns = operands.patterns().iter();
        patterns.any(|(_, scope)| scope.contains(link) && !scope.is_disjoint(part))
    };
    parts.iter().all(is_linked).then_some(parts)
}

/// Returns whether two parts are one triple pattern each, and the same but for the name of the other variable.
fn is_same(left: &GraphPattern, right: &GraphPattern, link: &Variable) -> bool {
    let only = |pattern: &GraphPattern| match pattern {
        GraphPattern::Bgp { patterns } => match &patterns[..] {
            [triple] => renamed(triple, link),
            _ => None,
        },
        _ => None,
    };
    only(left).is_some_and(|left| only(right) == Some(left))
}

/// Returns a triple pattern with a fixed name for its only variable besides the link; `None` if it has others.
fn renamed(triple: &TriplePattern, link: &Variable) -> Option<TriplePattern> {
    let other = Variable::new_unchecked("_:other");
    let mut names = Variables::new();
    let mut term = |term: &TermPattern| match term {
        TermPattern::Variable(v) if v != link => {
            names.insert(v.clone());
            Some(TermPattern::Variable(other.clone()))
        }
        TermPattern::BlankNode(_) | TermPattern::Triple(_) => None,
        same => Some(same.clone()),
    };
    let (subject, object) = (term(&triple.subject)?, term(&triple.object)?);
    let predicate = match &triple.predicate {
        NamedNodePattern::Variable(_) => return None,
        NamedNodePattern::NamedNode(node) => node.clone().into(),
    };
    (names.len() == 1).then_some(TriplePattern {
        subject,
        predicate,
        object,
    })
}

fn assembled(
    parts: Parts,
    keys: &[Variable],
    aggregates: &[(Variable, AggregateExpression)],
) -> GraphPattern {
    let count = |place: usize| Variable::new_unchecked(format!("_:count{place}"));
    let mut product: Option<Expression> = None;
    let mut joined = parts.keyed;
    for (place, (part, times)) in parts.counted.into_iter().enumerate() {
        let group = GraphPattern::Group {
            inner: Box::new(part),
            variables: vec![parts.link.clone()],
            aggregates: vec![(
                count(place),
                AggregateExpression::CountSolutions { distinct: false },
            )],
        };
        joined = Some(match joined {
            Some(other) => join(other, group),
            None => group,
        });
        for _ in 0..times {
            let factor = Box::new(Expression::Variable(count(place)));
            product = Some(match product {
                Some(other) => Expression::Multiply(Box::new(other), factor),
                None => *factor,
            });
        }
    }
    let (inner, product) = joined.zip(product).expect("at least one part is counted");
    let sum = |(name, _): &(Variable, AggregateExpression)| (name.clone(), sum_of(product.clone()));
    GraphPattern::Group {
        inner: Box::new(inner),
        variables: keys.to_vec(),
        aggregates: aggregates.iter().map(sum).collect(),
    }
}

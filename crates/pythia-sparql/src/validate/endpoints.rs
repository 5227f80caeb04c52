//! `SERVICE ?endpoint`: whatever binds the variable in its group is evaluated before the SERVICE, wherever it is
//! written.
//!
//! A SERVICE is an operand of a join (SPARQL 1.1 Federated Query §4), so the order within its group does not matter.
//! A pattern, VALUES or BIND that binds the variable is moved before it, past those parts of the group that have the
//! same solutions then.

use spargebra::algebra::{Expression, GraphPattern};
use spargebra::term::{NamedNodePattern, Variable};

use super::visit_all;
use crate::path_search::is_search;
use crate::scope::{Variables, certain, draws, in_scope, mentioned, variables_of};

/// A part of a group, applied to the solutions of the parts before it.
enum Part {
    Join(GraphPattern),
    LeftJoin(GraphPattern, Option<Expression>),
    Lateral(GraphPattern),
    Minus(GraphPattern),
    Extend(Variable, Expression),
}

/// Arranges all groups of a pattern that have a SERVICE whose endpoint is a variable.
pub(crate) fn arrange(pattern: &mut GraphPattern) {
    let mut is_needed = false;
    visit_all(pattern, &mut |part| is_needed |= endpoint(part).is_some());
    if is_needed {
        visit_all(pattern, &mut arrange_group);
    }
}

/// Returns the variable that names the endpoint of a SERVICE.
pub(crate) fn endpoint(pattern: &GraphPattern) -> Option<&Variable> {
    match pattern {
        GraphPattern::Service { name, .. } if is_search(name) => None,
        GraphPattern::Service {
            name: NamedNodePattern::Variable(variable),
            ..
        } => Some(variable),
        _ => None,
    }
}

/// Not inlined, to keep the frame of the visiting function small, because that recurses as deep as patterns nest.
#[inline(never)]
fn arrange_group(pattern: &mut GraphPattern) {
    if !is_part(pattern) || !has_endpoint(pattern) {
        return;
    }
    let mut parts = taken_apart(std::mem::take(pattern));
    let mut place = 0;
    // Two SERVICEs may each bind the other's endpoint: no order serves both.
    let mut moves_left = parts.len();
    while place < parts.len() {
        match binder(&parts, place) {
            Some(found) if moves_left > 0 => {
                parts[place..=found].rotate_right(1);
                moves_left -= 1;
            }
            _ => place += 1,
        }
    }
    *pattern = put_together(parts);
}

/// Returns whether the pattern is a group with more than one part.
fn is_part(pattern: &GraphPattern) -> bool {
    matches!(
        pattern,
        GraphPattern::Join { .. }
            | GraphPattern::LeftJoin { .. }
            | GraphPattern::Lateral { .. }
            | GraphPattern::Minus { .. }
            | GraphPattern::Extend { .. }
    )
}

/// Returns whether a part of the group itself is a SERVICE whose endpoint is a variable.
fn has_endpoint(mut pattern: &GraphPattern) -> bool {
    loop {
        pattern = match pattern {
            GraphPattern::Join { left, right } => {
                if endpoint(right).is_some() {
                    return true;
                }
                left
            }
            GraphPattern::LeftJoin { left: inner, .. }
            | GraphPattern::Lateral { left: inner, .. }
            | GraphPattern::Minus { left: inner, .. }
            | GraphPattern::Extend { inner, .. } => inner,
            first => return endpoint(first).is_some(),
        };
    }
}

/// Returns the parts of a group in the order in which they are applied.
fn taken_apart(mut pattern: GraphPattern) -> Vec<Part> {
    let mut parts = Vec::new();
    loop {
        let (before, part) = match pattern {
            GraphPattern::Join { left, right } => (left, Part::Join(*right)),
            GraphPattern::LeftJoin {
                left,
                right,
                expression,
            } => (left, Part::LeftJoin(*right, expression)),
            GraphPattern::Lateral { left, right } => (left, Part::Lateral(*right)),
            GraphPattern::Minus { left, right } => (left, Part::Minus(*right)),
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => (inner, Part::Extend(variable, expression)),
            first => {
                parts.push(Part::Join(first));
                parts.reverse();
                return parts;
            }
        };
        parts.push(part);
        pattern = *before;
    }
}

fn put_together(parts: Vec<Part>) -> GraphPattern {
    let mut all = GraphPattern::default();
    for part in parts {
        let left = Box::new(std::mem::take(&mut all));
        all = match part {
            Part::Join(right) if is_empty(&left) => right,
            Part::Join(right) if is_empty(&right) => *left,
            Part::Join(right) => GraphPattern::Join {
                left,
                right: Box::new(right),
            },
            Part::LeftJoin(right, expression) => GraphPattern::LeftJoin {
                left,
                right: Box::new(right),
                expression,
            },
            Part::Lateral(right) => GraphPattern::Lateral {
                left,
                right: Box::new(right),
            },
            Part::Minus(right) => GraphPattern::Minus {
                left,
                right: Box::new(right),
            },
            Part::Extend(variable, expression) => GraphPattern::Extend {
                inner: left,
                variable,
                expression,
            },
        };
    }
    all
}

/// Returns whether the pattern has one solution, which binds nothing.
fn is_empty(pattern: &GraphPattern) -> bool {
    matches!(pattern, GraphPattern::Bgp { patterns } if patterns.is_empty())
}

/// Returns the part to move before the part at `place`, because that is a SERVICE whose endpoint it binds.
fn binder(parts: &[Part], place: usize) -> Option<usize> {
    let Part::Join(service) = &parts[place] else {
        return None;
    };
    let variable = endpoint(service)?;
    let before = &parts[..place];
    if bound_by(before).contains(variable) {
        return None;
    }
    let may_be_bound = scope_of(before).contains(variable);
    let is_binder = |found: &usize| {
        let one = &parts[*found..=*found];
        let binds = match &one[0] {
            Part::Join(pattern) if may_be_bound => certain(pattern).contains(variable),
            Part::Join(_) | Part::Extend(..) => scope_of(one).contains(variable),
            _ => false,
        };
        binds && may_precede(parts, place, *found)
    };
    (place + 1..parts.len()).find(is_binder)
}

/// Returns the variables that the parts bind in each solution. A SERVICE binds the variable of its endpoint, and unless
/// it is SILENT, what its pattern binds.
fn bound_by(parts: &[Part]) -> Variables {
    let mut bound = Variables::new();
    for part in parts {
        if let Part::Join(pattern) | Part::Lateral(pattern) = part {
            bound.extend(certain(pattern));
            bound.extend(endpoint(pattern).cloned());
            if let GraphPattern::Service {
                name,
                inner,
                silent: false,
            } = pattern
                && !is_search(name)
            {
                bound.extend(certain(inner));
            }
        }
    }
    bound
}

/// Returns the variables that the parts may bind.
fn scope_of(parts: &[Part]) -> Variables {
    let mut scope = Variables::new();
    for part in parts {
        match part {
            Part::Join(pattern) | Part::LeftJoin(pattern, _) | Part::Lateral(pattern) => {
                scope.extend(in_scope(pattern));
            }
            Part::Extend(variable, _) => {
                scope.insert(variable.clone());
            }
            Part::Minus(_) => {}
        }
    }
    scope
}

/// Returns whether the group has the same solutions if the part at `from` is moved before the part at `to`.
fn may_precede(parts: &[Part], to: usize, from: usize) -> bool {
    match &parts[from] {
        Part::Join(pattern) => {
            let scope = in_scope(pattern);
            let mut between = to..from;
            between.all(|other| parts[other].may_follow(&scope, &parts[..other]))
        }
        Part::Extend(_, expression) => {
            let (bound, changed) = (bound_by(&parts[..to]), scope_of(&parts[to..from]));
            let mut variables = variables_of(expression).into_iter();
            !draws(expression) && variables.all(|v| bound.contains(&v) || !changed.contains(&v))
        }
        _ => false,
    }
}

impl Part {
    /// Returns whether the part can be applied after a join with a pattern of these variables that now follows it: none
    /// of the variables that it reads gets bound by that join alone.
    fn may_follow(&self, scope: &Variables, before: &[Self]) -> bool {
        let mut read = Variables::new();
        match self {
            Self::Join(_) => return true,
            Self::LeftJoin(right, expression) => {
                read.extend(in_scope(right));
                read.extend(expression.iter().flat_map(variables_of));
            }
            Self::Lateral(right) => mentioned(right, &mut read),
            Self::Minus(right) => read.extend(in_scope(right)),
            Self::Extend(variable, expression) => {
                if scope.contains(variable) || draws(expression) {
                    return false;
                }
                read.extend(variables_of(expression));
            }
        }
        let bound = bound_by(before);
        read.intersection(scope).all(|v| bound.contains(v))
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;

    /// The group as it is evaluated.
    fn arranged(group: &str) -> String {
        let query = format!("PREFIX e: <urn:> SELECT * {{ {group} }}");
        Query::parse(&query, None)
            .expect(&query)
            .algebra()
            .to_string()
    }

    #[test]
    fn what_binds_the_endpoint_comes_first() {
        // @ stands for the service.
        for (written, evaluated) in [
            ("@ VALUES ?e { e:a }", "VALUES ?e { e:a } @"),
            ("@ BIND(e:a AS ?e)", "BIND(e:a AS ?e) @"),
            (
                "?x e:q ?y . @ BIND(IRI(?y) AS ?e)",
                "?x e:q ?y . BIND(IRI(?y) AS ?e) @",
            ),
            (
                "@ { SELECT ?e { ?x e:at ?e } }",
                "{ SELECT ?e { ?x e:at ?e } } @",
            ),
            (
                "@ OPTIONAL { ?s e:r ?t } VALUES ?e { e:a }",
                "VALUES ?e { e:a } @ OPTIONAL { ?s e:r ?t }",
            ),
            (
                "@ OPTIONAL { ?e e:r ?t } MINUS { ?s e:r ?e } VALUES ?e { e:a }",
                "VALUES ?e { e:a } @ OPTIONAL { ?e e:r ?t } MINUS { ?s e:r ?e }",
            ),
            (
                "@ BIND(STR(?o) AS ?t) { SELECT ?e { ?x e:at ?e } }",
                "{ SELECT ?e { ?x e:at ?e } } @ BIND(STR(?o) AS ?t)",
            ),
            (
                "SERVICE ?f { ?e ?q ?r } @ VALUES ?f { e:b } VALUES ?e { e:a }",
                "VALUES ?f { e:b } SERVICE ?f { ?e ?q ?r } @ VALUES ?e { e:a }",
            ),
            (
                "FILTER EXISTS { @ VALUES ?e { e:a } }",
                "FILTER EXISTS { VALUES ?e { e:a } @ }",
            ),
        ] {
            let [written, evaluated] =
                [written, evaluated].map(|group| group.replace('@', "SERVICE ?e { ?s ?p ?o }"));
            assert_eq!(arranged(&written), arranged(&evaluated), "{written}");
        }
    }

    /// Parts without which the solutions would be others stay where they are.
    #[test]
    fn what_would_change_the_solutions_stays() {
        for after in [
            // What is between reads a variable of the pattern behind.
            "OPTIONAL { ?s e:r ?t } { SELECT ?e ?t { ?t e:at ?e } }",
            "MINUS { ?s e:r ?t } { SELECT ?e ?t { ?t e:at ?e } }",
            "LATERAL { ?s e:r ?t } { SELECT ?e ?t { ?t e:at ?e } }",
            "BIND(?o AS ?t) { SELECT ?e ?t { ?t e:at ?e } }",
            // The number is drawn once for each solution before.
            "BIND(RAND() AS ?n) { SELECT ?e { ?x e:at ?e } }",
            // Nothing but what is optional binds it.
            "OPTIONAL { ?x e:at ?e }",
        ] {
            let text = arranged(&format!("SERVICE ?e {{ ?s ?p ?o }} {after}"));
            let [service, other] = ["SERVICE", "urn:at"].map(|part| text.find(part));
            let service = service.expect("a service");
            assert!(other.is_none_or(|other| other > service), "{text}");
        }
        // The address is made of what the endpoint answers: the last BIND of the query is written in its SELECT.
        let text = arranged("SERVICE ?e { ?s ?p ?o } BIND(IRI(?o) AS ?e)");
        assert!(text.starts_with("SELECT (IRI(?o) AS ?e)"), "{text}");
    }

    #[test]
    fn services_that_wait_for_each_other_are_left_alone() {
        arranged("SERVICE ?a { ?x ?y ?b } SERVICE ?b { ?x ?y ?a }");
    }
}

//! Parts of a group that are linked by variables, as patterns of their own.

use pythia_sparql::scope::{Variables, draws, has_exists, in_scope, variables_of};
use spargebra::algebra::{Expression, GraphPattern};

/// The operands of a group and the conditions over it, with their variables.
pub(super) struct Operands<'p> {
    patterns: Vec<(GraphPattern, Variables)>,
    conditions: Vec<(&'p Expression, Variables)>,
}

impl<'p> Operands<'p> {
    /// Takes a group apart. Returns `None` if a condition must stay over the whole group.
    pub(super) fn of(pattern: &GraphPattern, conditions: &[&'p Expression]) -> Option<Self> {
        let mut patterns = Vec::new();
        flatten(pattern, &mut patterns);
        let scoped = |pattern: GraphPattern| {
            let scope = in_scope(&pattern);
            (pattern, scope)
        };
        let patterns: Vec<_> = patterns.into_iter().map(scoped).collect();
        // A condition without variables, or with one that no operand binds, belongs to no part.
        let may_move = |condition: &&Expression| {
            let variables = variables_of(condition);
            let is_bound = |v| patterns.iter().any(|(_, scope)| scope.contains(v));
            !has_exists(condition)
                && !draws(condition)
                && !variables.is_empty()
                && variables.iter().all(is_bound)
        };
        if !conditions.iter().all(may_move) {
            return None;
        }
        Some(Self {
            patterns,
            conditions: (conditions.iter())
                .map(|condition| (*condition, variables_of(condition)))
                .collect(),
        })
    }

    /// Returns the patterns with their variables.
    pub(super) fn patterns(&self) -> &[(GraphPattern, Variables)] {
        &self.patterns
    }

    /// Returns all variables that are linked to these by operands and conditions, except through some variables.
    pub(super) fn reached(&self, from: Variables, except: &[oxrdf::Variable]) -> Variables {
        let mut reached = from;
        loop {
            let before = reached.len();
            let conditions = self.conditions.iter().map(|(_, variables)| variables);
            for linked in (self.patterns.iter().map(|(_, scope)| scope)).chain(conditions) {
                let free = || linked.iter().filter(|v| !except.contains(v));
                if free().any(|v| reached.contains(v)) {
                    reached.extend(free().cloned());
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// Returns the join of the chosen operands, with the conditions that are chosen by their variables in the same way.
    pub(super) fn joined(&self, is_chosen: impl Fn(&Variables) -> bool) -> Option<GraphPattern> {
        let chosen = self.patterns.iter().filter(|(_, scope)| is_chosen(scope));
        let part = chosen.map(|(pattern, _)| pattern.clone()).reduce(join)?;
        let own = self.conditions.iter();
        let own = own.filter(|(_, variables)| is_chosen(variables));
        Some(own.fold(part, |part, (condition, _)| GraphPattern::Filter {
            expr: (*condition).clone(),
            inner: Box::new(part),
        }))
    }
}

/// Lists the operands of joins; a basic graph pattern by its triple patterns.
fn flatten(pattern: &GraphPattern, operands: &mut Vec<GraphPattern>) {
    match pattern {
        GraphPattern::Join { left, right } => {
            flatten(left, operands);
            flatten(right, operands);
        }
        GraphPattern::Bgp { patterns } => {
            operands.extend(patterns.iter().map(|triple| GraphPattern::Bgp {
                patterns: vec![triple.clone()],
            }));
        }
        other => operands.push(other.clone()),
    }
}

/// Joins two patterns; triple patterns stay in one basic graph pattern, within which blank nodes are the same.
pub(super) fn join(left: GraphPattern, right: GraphPattern) -> GraphPattern {
    match (left, right) {
        (GraphPattern::Bgp { mut patterns }, GraphPattern::Bgp { patterns: more }) => {
            patterns.extend(more);
            GraphPattern::Bgp { patterns }
        }
        (left, right) => GraphPattern::Join {
            left: Box::new(left),
            right: Box::new(right),
        },
    }
}

//! HAVING that uses names which the SELECT clause assigns to expressions. SPARQL leaves them unbound there;
//! here, as in Jena, they have their value.
//!
//! Only uses outside EXISTS count: by the SPARQL specification, a variable inside EXISTS that has such a name
//! is a different variable. It is renamed when the filter moves to a place where the name has a value.

use std::collections::HashMap;

use spargebra::algebra::{Expression, GraphPattern};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern, Variable};

use super::{each_part, expressions_mut, visit_all};
use crate::path_search::is_search;
use crate::scope::Variables;

/// Moves the HAVING of a SELECT that uses such names above the expressions that bind them.
pub(super) fn behind_names(pattern: &mut GraphPattern) {
    let GraphPattern::Project { inner, .. } = pattern else {
        return;
    };
    let mut selected = &mut **inner;
    if let GraphPattern::OrderBy { inner, .. } = selected {
        selected = inner;
    }
    let mut names = Variables::new();
    let mut next = &*selected;
    while let GraphPattern::Extend {
        inner, variable, ..
    } = next
    {
        names.insert(variable.clone());
        next = inner;
    }
    if names.is_empty() {
        return;
    }
    if let Some(mut expr) = take(selected, &names) {
        rename_in_exists(&mut expr, &names, selected);
        let inner = Box::new(std::mem::take(selected));
        *selected = GraphPattern::Filter { expr, inner };
    }
}

/// Removes and returns the HAVING of a SELECT if it uses one of these names.
fn take(pattern: &mut GraphPattern, names: &Variables) -> Option<Expression> {
    match pattern {
        GraphPattern::Extend { inner, .. } => take(inner, names),
        // A VALUES clause follows.
        GraphPattern::Join { left, .. } => take(left, names),
        GraphPattern::Filter { expr, inner } => {
            let is_having = matches!(**inner, GraphPattern::Group { .. });
            if !is_having || !uses(expr, names) {
                return None;
            }
            let (expr, inner) = (expr.clone(), std::mem::take(&mut **inner));
            *pattern = inner;
            Some(expr)
        }
        _ => None,
    }
}

/// Returns whether an expression uses one of the names outside EXISTS.
fn uses(expression: &mut Expression, names: &Variables) -> bool {
    let mut found = false;
    each_part(expression, &mut |part| {
        if let Expression::Variable(variable) | Expression::Bound(variable) = part {
            found |= names.contains(variable);
        }
    });
    found
}

/// Renames the variables inside EXISTS that have one of the names to ones that do not occur in the filter's
/// scope.
fn rename_in_exists(expression: &mut Expression, names: &Variables, selected: &mut GraphPattern) {
    let mut inside = Variables::new();
    in_exists(expression, &mut |variable| {
        inside.insert(variable.clone());
    });
    if inside.is_disjoint(names) {
        return;
    }
    let mut taken = inside.clone();
    each_variable(selected, &mut |variable| {
        taken.insert(variable.clone());
    });
    let other_name = |variable: &Variable| {
        let numbered = (1..).map(|n| format!("{}_{n}", variable.as_str()));
        let mut others = numbered.map(Variable::new_unchecked);
        let free = others.find(|other| !taken.contains(other));
        (
            variable.clone(),
            free.expect("there is always another number"),
        )
    };
    // Different names cannot get the same new name: the part after the last `_` is a number.
    let others: HashMap<Variable, Variable> = inside.intersection(names).map(other_name).collect();
    in_exists(expression, &mut |variable| {
        if let Some(other) = others.get(variable) {
            *variable = other.clone();
        }
    });
}

/// Calls `f` on every variable in the EXISTS of an expression.
fn in_exists(expression: &mut Expression, f: &mut dyn FnMut(&mut Variable)) {
    each_part(expression, &mut |part| {
        if let Expression::Exists(pattern) = part {
            each_variable(pattern, f);
        }
    });
}

/// Calls `f` on every variable of a pattern, wherever it occurs.
fn each_variable(pattern: &mut GraphPattern, f: &mut dyn FnMut(&mut Variable)) {
    visit_all(pattern, &mut |pattern| {
        own_variables(pattern, f);
        for expression in expressions_mut(pattern) {
            each_part(expression, &mut |part| {
                if let Expression::Variable(variable) | Expression::Bound(variable) = part {
                    f(variable);
                }
            });
        }
        // The pattern sent to another endpoint.
        if let GraphPattern::Service { name, inner, .. } = pattern
            && !is_search(name)
        {
            each_variable(inner, f);
        }
    });
}

/// Calls `f` on the variables of the pattern itself, without those of inner patterns and expressions.
fn own_variables(pattern: &mut GraphPattern, f: &mut dyn FnMut(&mut Variable)) {
    match pattern {
        GraphPattern::Bgp { patterns } => {
            patterns.iter_mut().for_each(|triple| of_triple(triple, f))
        }
        GraphPattern::Path {
            subject, object, ..
        } => [subject, object]
            .into_iter()
            .for_each(|term| of_term(term, f)),
        GraphPattern::Graph { name, .. } | GraphPattern::Service { name, .. } => of_name(name, f),
        GraphPattern::Extend { variable, .. } => f(variable),
        GraphPattern::Values { variables, .. } | GraphPattern::Project { variables, .. } => {
            variables.iter_mut().for_each(f);
        }
        GraphPattern::Group {
            variables,
            aggregates,
            ..
        } => {
            let results = aggregates.iter_mut().map(|(result, _)| result);
            variables.iter_mut().chain(results).for_each(f);
        }
        _ => {}
    }
}

fn of_triple(triple: &mut TriplePattern, f: &mut dyn FnMut(&mut Variable)) {
    of_term(&mut triple.subject, f);
    of_name(&mut triple.predicate, f);
    of_term(&mut triple.object, f);
}

fn of_term(term: &mut TermPattern, f: &mut dyn FnMut(&mut Variable)) {
    match term {
        TermPattern::Variable(variable) => f(variable),
        TermPattern::Triple(triple) => of_triple(triple, f),
        _ => {}
    }
}

fn of_name(name: &mut NamedNodePattern, f: &mut dyn FnMut(&mut Variable)) {
    if let NamedNodePattern::Variable(variable) = name {
        f(variable);
    }
}

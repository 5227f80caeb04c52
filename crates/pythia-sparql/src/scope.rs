//! Variables that a graph pattern binds, and the conditions under which a pattern may be evaluated from rows
//! that already bind some of them.
//!
//! SPARQL is defined bottom-up: each operand of a join is evaluated alone. Evaluating an operand *from* the
//! rows of the other (index joins, correlated OPTIONAL) gives the same solutions only under conditions, which
//! [`can_seed`] checks. Otherwise the planner uses a hash join.

use hashbrown::HashSet;
use oxrdf::Variable;
use spargebra::algebra::{Expression, Function, GraphPattern};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use crate::path_search::{is_search, search_binds};

/// A set of variables.
pub type Variables = HashSet<Variable>;

/// Returns the variable of a term in a pattern. Blank nodes in patterns are variables that cannot be
/// projected; their names start with a character that no SPARQL variable may have.
pub fn term_variable(term: &TermPattern) -> Option<Variable> {
    match term {
        TermPattern::Variable(variable) => Some(variable.clone()),
        TermPattern::BlankNode(node) => {
            Some(Variable::new_unchecked(format!("_:{}", node.as_str())))
        }
        _ => None,
    }
}

/// Returns the variables of a term: itself, or those inside a triple term.
pub fn term_variables(term: &TermPattern) -> Vec<Variable> {
    match term {
        TermPattern::Triple(triple) => triple_variables(triple),
        other => term_variable(other).into_iter().collect(),
    }
}

/// Returns the variables of a triple pattern.
pub fn triple_variables(pattern: &TriplePattern) -> Vec<Variable> {
    let mut variables = term_variables(&pattern.subject);
    if let NamedNodePattern::Variable(variable) = &pattern.predicate {
        variables.push(variable.clone());
    }
    variables.extend(term_variables(&pattern.object));
    variables
}

/// Returns the variables bound in every solution of the pattern.
pub fn certain(pattern: &GraphPattern) -> Variables {
    let mut found = Variables::new();
    add_certain(pattern, &mut found);
    found
}

/// Iterates down the left operand, because long chains of joins lean to the left; copies nothing.
fn add_certain(mut pattern: &GraphPattern, found: &mut Variables) {
    loop {
        pattern = match pattern {
            GraphPattern::Bgp { patterns } => {
                return found.extend(patterns.iter().flat_map(triple_variables));
            }
            GraphPattern::Path {
                subject, object, ..
            } => {
                found.extend(term_variables(subject));
                return found.extend(term_variables(object));
            }
            GraphPattern::Join { left, right } | GraphPattern::Lateral { left, right } => {
                add_certain(right, found);
                left
            }
            GraphPattern::LeftJoin { left: inner, .. }
            | GraphPattern::Minus { left: inner, .. }
            | GraphPattern::Filter { inner, .. }
            | GraphPattern::Extend { inner, .. }
            | GraphPattern::OrderBy { inner, .. }
            | GraphPattern::Distinct { inner }
            | GraphPattern::Reduced { inner }
            | GraphPattern::Slice { inner, .. } => inner,
            other => return found.extend(certain_of_some(other)),
        };
    }
}

/// Handles patterns that bind for certain only some of the variables of their operands.
fn certain_of_some(pattern: &GraphPattern) -> Variables {
    match pattern {
        GraphPattern::Union { left, right } => &certain(left) & &certain(right),
        GraphPattern::Graph { name, inner } => {
            let mut variables = certain(inner);
            if let NamedNodePattern::Variable(variable) = name {
                variables.insert(variable.clone());
            }
            variables
        }
        GraphPattern::Project { inner, variables } => {
            let inner = certain(inner);
            variables
                .iter()
                .filter(|v| inner.contains(*v))
                .cloned()
                .collect()
        }
        GraphPattern::Group {
            inner, variables, ..
        } => {
            let inner = certain(inner);
            variables
                .iter()
                .filter(|v| inner.contains(*v))
                .cloned()
                .collect()
        }
        GraphPattern::Values {
            variables,
            bindings,
        } => variables
            .iter()
            .enumerate()
            .filter(|(i, _)| bindings.iter().all(|row| row[*i].is_some()))
            .map(|(_, v)| v.clone())
            .collect(),
        _ => Variables::new(),
    }
}

/// Returns every variable in scope of the pattern's solutions, bound or not.
pub fn in_scope(pattern: &GraphPattern) -> Variables {
    let mut found = Variables::new();
    add_in_scope(pattern, &mut found);
    found
}

/// Iterates down the left operand, because long chains lean to the left.
fn add_in_scope(mut pattern: &GraphPattern, found: &mut Variables) {
    loop {
        pattern = match pattern {
            GraphPattern::Join { left, right }
            | GraphPattern::LeftJoin { left, right, .. }
            | GraphPattern::Lateral { left, right }
            | GraphPattern::Union { left, right } => {
                add_in_scope(right, found);
                left
            }
            GraphPattern::Graph { name, inner } => {
                if let NamedNodePattern::Variable(variable) = name {
                    found.insert(variable.clone());
                }
                inner
            }
            GraphPattern::Extend {
                inner, variable, ..
            } => {
                found.insert(variable.clone());
                inner
            }
            GraphPattern::Minus { left: inner, .. }
            | GraphPattern::Filter { inner, .. }
            | GraphPattern::OrderBy { inner, .. }
            | GraphPattern::Distinct { inner }
            | GraphPattern::Reduced { inner }
            | GraphPattern::Slice { inner, .. } => inner,
            leaf => return add_variables(leaf, found),
        };
    }
}

/// Adds the variables of a pattern that hides those inside it, or has no inner patterns.
fn add_variables(pattern: &GraphPattern, found: &mut Variables) {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } => found.extend(certain(pattern)),
        GraphPattern::Project { variables, .. } | GraphPattern::Values { variables, .. } => {
            found.extend(variables.iter().cloned());
        }
        GraphPattern::Group {
            variables,
            aggregates,
            ..
        } => {
            let aggregates = aggregates.iter().map(|(v, _)| v);
            found.extend(variables.iter().chain(aggregates).cloned());
        }
        GraphPattern::Service { name, inner, .. } if is_search(name) => {
            found.extend(search_binds(inner));
        }
        _ => pattern.on_in_scope_variable(|v| {
            found.insert(v.clone());
        }),
    }
}

/// Adds the variables that an expression mentions, including those in EXISTS.
pub fn expression_variables(expression: &Expression, found: &mut Variables) {
    visit(expression, &mut |part| match part {
        Expression::Variable(v) | Expression::Bound(v) => {
            found.insert(v.clone());
        }
        Expression::Exists(pattern) => mentioned(pattern, found),
        _ => {}
    });
}

/// Returns whether an expression has a different value at each evaluation, so that it must be evaluated
/// exactly once for each solution of its group.
pub fn draws(expression: &Expression) -> bool {
    let mut found = false;
    visit(expression, &mut |part| {
        if let Expression::FunctionCall(function, _) = part {
            found |= draws_lots(function);
        }
    });
    found
}

/// Returns whether an expression has an EXISTS.
pub fn has_exists(expression: &Expression) -> bool {
    let mut found = false;
    visit(expression, &mut |part| {
        found |= matches!(part, Expression::Exists(_));
    });
    found
}

/// Returns whether a function has a different value at each evaluation.
pub(crate) fn draws_lots(function: &Function) -> bool {
    matches!(
        function,
        Function::Rand | Function::Uuid | Function::StrUuid | Function::BNode
    )
}

/// Calls `each` with every part of an expression, the whole first, but not with the contents of EXISTS.
pub fn visit<'e>(expression: &'e Expression, each: &mut dyn FnMut(&'e Expression)) {
    each(expression);
    match expression {
        Expression::Variable(_)
        | Expression::Bound(_)
        | Expression::NamedNode(_)
        | Expression::Literal(_)
        | Expression::Exists(_) => {}
        Expression::Or(a, b)
        | Expression::And(a, b)
        | Expression::Equal(a, b)
        | Expression::SameTerm(a, b)
        | Expression::Greater(a, b)
        | Expression::GreaterOrEqual(a, b)
        | Expression::Less(a, b)
        | Expression::LessOrEqual(a, b)
        | Expression::Add(a, b)
        | Expression::Subtract(a, b)
        | Expression::Multiply(a, b)
        | Expression::Divide(a, b) => {
            visit(a, each);
            visit(b, each);
        }
        Expression::UnaryPlus(a) | Expression::UnaryMinus(a) | Expression::Not(a) => {
            visit(a, each);
        }
        Expression::If(a, b, c) => {
            for e in [a, b, c] {
                visit(e, each);
            }
        }
        Expression::In(a, list) => {
            visit(a, each);
            for e in list {
                visit(e, each);
            }
        }
        Expression::Coalesce(list) | Expression::FunctionCall(_, list) => {
            for e in list {
                visit(e, each);
            }
        }
    }
}

/// Adds every variable that a pattern mentions outside sub-queries: those for which `EXISTS` and `LATERAL`
/// substitute terms.
pub fn mentioned(pattern: &GraphPattern, found: &mut Variables) {
    match pattern {
        GraphPattern::Join { left, right }
        | GraphPattern::Lateral { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            mentioned(left, found);
            mentioned(right, found);
        }
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            mentioned(left, found);
            mentioned(right, found);
            if let Some(expression) = expression {
                expression_variables(expression, found);
            }
        }
        GraphPattern::Filter { expr, inner } => {
            mentioned(inner, found);
            expression_variables(expr, found);
        }
        GraphPattern::Extend {
            inner,
            variable,
            expression,
        } => {
            mentioned(inner, found);
            found.insert(variable.clone());
            expression_variables(expression, found);
        }
        GraphPattern::Graph { name, inner } | GraphPattern::Service { name, inner, .. } => {
            mentioned(inner, found);
            if let NamedNodePattern::Variable(variable) = name {
                found.insert(variable.clone());
            }
        }
        GraphPattern::OrderBy { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => mentioned(inner, found),
        GraphPattern::Project { variables, .. } => found.extend(variables.iter().cloned()),
        GraphPattern::Group {
            inner,
            variables,
            aggregates,
        } => {
            mentioned(inner, found);
            found.extend(variables.iter().cloned());
            found.extend(aggregates.iter().map(|(variable, _)| variable.clone()));
        }
        other => found.extend(in_scope(other)),
    }
}

/// Returns the variables of an expression.
pub fn variables_of(expression: &Expression) -> Variables {
    let mut found = Variables::new();
    expression_variables(expression, &mut found);
    found
}

/// Returns whether evaluating `pattern` from rows that bind all of `outer` gives the same solutions as
/// joining the rows with the pattern's own solutions.
pub fn can_seed(pattern: &GraphPattern, outer: &Variables) -> bool {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } => true,
        GraphPattern::Join { left, right } | GraphPattern::Union { left, right } => {
            can_seed(left, outer) && can_seed(right, outer)
        }
        GraphPattern::Filter { expr, inner } => {
            can_seed(inner, outer) && seen_only_if_certain(expr, inner, outer)
        }
        GraphPattern::Extend {
            inner,
            variable,
            expression,
        } => {
            !outer.contains(variable)
                && can_seed(inner, outer)
                && seen_only_if_certain(expression, inner, outer)
        }
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            let bound_left = certain(left);
            can_seed(left, outer)
                && can_seed(right, outer)
                && in_scope(right)
                    .iter()
                    .all(|v| !outer.contains(v) || bound_left.contains(v))
                && expression
                    .as_ref()
                    .is_none_or(|e| seen_only_if_certain(e, left, outer))
        }
        GraphPattern::Graph { inner, .. } => can_seed(inner, outer),
        // The right operand sees the same terms if the left one binds them too.
        GraphPattern::Lateral { left, right } => {
            let mut seen = Variables::new();
            mentioned(right, &mut seen);
            let bound_left = certain(left);
            can_seed(left, outer)
                && seen
                    .iter()
                    .all(|v| !outer.contains(v) || bound_left.contains(v))
        }
        // A row with an unbound variable is compatible with any value of it.
        GraphPattern::Values { .. } => true,
        _ => false,
    }
}

/// Returns whether the expression sees the same values inside `pattern` alone as with `outer` bound, and draws no lots:
/// it would draw one for each solution outside.
pub fn seen_only_if_certain(
    expression: &Expression,
    pattern: &GraphPattern,
    outer: &Variables,
) -> bool {
    let certain = certain(pattern);
    let mut variables = variables_of(expression).into_iter();
    variables.all(|v| !outer.contains(&v) || certain.contains(&v)) && !draws(expression)
}

/// Calls `f` on the pattern and then on all patterns inside it, except those in expressions and those sent to
/// other endpoints.
pub fn visit_mut(pattern: &mut GraphPattern, f: &mut impl FnMut(&mut GraphPattern)) {
    f(pattern);
    match pattern {
        GraphPattern::Join { left, right }
        | GraphPattern::LeftJoin { left, right, .. }
        | GraphPattern::Lateral { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            visit_mut(left, f);
            visit_mut(right, f);
        }
        GraphPattern::Filter { inner, .. }
        | GraphPattern::Graph { inner, .. }
        | GraphPattern::Extend { inner, .. }
        | GraphPattern::OrderBy { inner, .. }
        | GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. }
        | GraphPattern::Group { inner, .. } => visit_mut(inner, f),
        _ => {}
    }
}

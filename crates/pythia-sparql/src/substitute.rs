//! Queries with some variables replaced by terms.

use std::collections::BTreeMap;

use oxrdf::{Literal, NamedNode, Term, Variable};
use pythia_rdf::key;
use spargebra::Query;
use spargebra::algebra::{AggregateExpression, Expression, GraphPattern, OrderExpression};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};

use crate::error::SparqlError;
use crate::validate::{each_part, pattern_of};

/// The values of variables.
type Values = BTreeMap<Variable, Value>;

/// A term that a variable may be replaced by.
#[derive(Clone)]
enum Value {
    Node(NamedNode),
    Literal(Literal),
}

/// Replaces variables by terms, wherever they are in scope at the top of the query. The solutions have these terms in the
/// columns of the variables, if they are selected.
///
/// # Errors
/// A triple, a literal in the place of a predicate, graph or subject, a blank node in that of a predicate, and a variable that
/// the query binds itself, with `BIND … AS` for example.
pub(crate) fn substitute(query: &mut Query, terms: &[(Variable, Term)]) -> Result<(), SparqlError> {
    let mut values = Values::new();
    for (variable, term) in terms {
        let value = match term {
            Term::NamedNode(node) => Value::Node(node.clone()),
            // The store's node with this label, not a variable.
            Term::BlankNode(node) => Value::Node(key::name_of(node.as_ref())),
            Term::Literal(literal) => Value::Literal(literal.clone()),
            Term::Triple(_) => return Err(refused(variable, "a triple term cannot be bound")),
        };
        values.insert(variable.clone(), value);
    }
    if let Query::Construct { template, .. } = query {
        for triple in template {
            in_triple(triple, &values)?;
        }
    }
    in_selected(pattern_of(query), &values)
}

fn refused(variable: &Variable, why: &str) -> SparqlError {
    SparqlError::Unsupported {
        what: format!("the binding of {variable}"),
        hint: Some(why.to_owned()),
    }
}

/// Replaces in the pattern of a query or subquery, and adds the terms as columns below its projection.
fn in_selected(pattern: &mut GraphPattern, values: &Values) -> Result<(), SparqlError> {
    match pattern {
        GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => in_selected(inner, values),
        GraphPattern::Project { inner, variables } => {
            let is_selected = |(variable, _): &(&Variable, &Value)| variables.contains(variable);
            let selected = values.iter().filter(is_selected);
            let selected: Vec<(Variable, Value)> = selected
                .map(|(variable, value)| (variable.clone(), value.clone()))
                .collect();
            in_pattern(inner, values)?;
            for (variable, value) in selected {
                let bound = std::mem::take(&mut **inner);
                **inner = GraphPattern::Extend {
                    inner: Box::new(bound),
                    variable,
                    expression: value.into(),
                };
            }
            Ok(())
        }
        other => in_pattern(other, values),
    }
}

fn in_pattern(pattern: &mut GraphPattern, values: &Values) -> Result<(), SparqlError> {
    if let GraphPattern::Project { variables, .. } = pattern {
        // What a subquery does not select is another variable of the same name.
        let is_outer = |(variable, _): &(&Variable, &Value)| variables.contains(variable);
        let outer = values.iter().filter(is_outer);
        let outer: Values = outer.map(|(a, b)| (a.clone(), b.clone())).collect();
        return in_selected(pattern, &outer);
    }
    in_own_parts(pattern, values)?;
    let mut inner = inner_patterns(pattern).into_iter();
    inner.try_for_each(|pattern| in_pattern(pattern, values))
}

/// Returns the patterns that a pattern is made of.
fn inner_patterns(pattern: &mut GraphPattern) -> Vec<&mut GraphPattern> {
    use GraphPattern as P;
    match pattern {
        P::Bgp { .. } | P::Path { .. } | P::Values { .. } => Vec::new(),
        P::Join { left, right }
        | P::Lateral { left, right }
        | P::Union { left, right }
        | P::Minus { left, right }
        | P::LeftJoin { left, right, .. } => vec![left, right],
        P::Filter { inner, .. }
        | P::Graph { inner, .. }
        | P::Service { inner, .. }
        | P::Extend { inner, .. }
        | P::OrderBy { inner, .. }
        | P::Distinct { inner }
        | P::Reduced { inner }
        | P::Slice { inner, .. }
        | P::Project { inner, .. }
        | P::Group { inner, .. } => vec![inner],
    }
}

/// Replaces in a pattern, without those that it is made of.
fn in_own_parts(pattern: &mut GraphPattern, values: &Values) -> Result<(), SparqlError> {
    use GraphPattern as P;
    let in_all = |expressions: &mut dyn Iterator<Item = &mut Expression>| {
        for expression in expressions {
            in_expression(expression, values)?;
        }
        Ok::<_, SparqlError>(())
    };
    match pattern {
        P::Bgp { patterns } => {
            let mut triples = patterns.iter_mut();
            triples.try_for_each(|triple| in_triple(triple, values))?;
        }
        P::Path {
            subject, object, ..
        } => {
            in_subject(subject, values)?;
            in_term(object, values)?;
        }
        P::LeftJoin { expression, .. } => in_all(&mut expression.iter_mut())?,
        P::Filter { expr, .. } => in_expression(expr, values)?,
        P::Graph { name, .. } | P::Service { name, .. } => in_name(name, values)?,
        P::Extend {
            variable,
            expression,
            ..
        } => {
            not_bound(variable, values)?;
            in_expression(expression, values)?;
        }
        P::Values {
            variables,
            bindings,
        } => in_rows(variables, bindings, values),
        P::OrderBy { expression, .. } => in_all(&mut expression.iter_mut().map(|order| {
            let (OrderExpression::Asc(key) | OrderExpression::Desc(key)) = order;
            key
        }))?,
        P::Group {
            variables,
            aggregates,
            ..
        } => in_group(variables, aggregates, values)?,
        _ => {}
    }
    Ok(())
}

fn in_group(
    keys: &mut Vec<Variable>,
    aggregates: &mut [(Variable, AggregateExpression)],
    values: &Values,
) -> Result<(), SparqlError> {
    for (result, aggregate) in aggregates {
        not_bound(result, values)?;
        if let AggregateExpression::FunctionCall { expr, .. } = aggregate {
            in_expression(expr, values)?;
        }
    }
    keys.retain(|variable| !values.contains_key(variable));
    Ok(())
}

fn not_bound(variable: &Variable, values: &Values) -> Result<(), SparqlError> {
    match values.contains_key(variable) {
        true => Err(refused(variable, "the query binds this variable itself")),
        false => Ok(()),
    }
}

/// Keeps the rows with the values, or without one there, and drops their columns.
fn in_rows(
    variables: &mut Vec<Variable>,
    rows: &mut Vec<Vec<Option<GroundTerm>>>,
    values: &Values,
) {
    for place in (0..variables.len()).rev() {
        if let Some(value) = values.get(&variables[place]) {
            let value: GroundTerm = value.clone().into();
            rows.retain(|row| row[place].as_ref().is_none_or(|term| *term == value));
            variables.remove(place);
            for row in &mut *rows {
                row.remove(place);
            }
        }
    }
}

fn in_triple(triple: &mut TriplePattern, values: &Values) -> Result<(), SparqlError> {
    in_subject(&mut triple.subject, values)?;
    if let NamedNodePattern::Variable(variable) = &triple.predicate
        && let Some(Value::Node(node)) = values.get(variable)
        && key::label_of(node.as_ref()).is_some()
    {
        return Err(refused(variable, "a blank node is no predicate"));
    }
    in_name(&mut triple.predicate, values)?;
    in_term(&mut triple.object, values)
}

fn in_subject(term: &mut TermPattern, values: &Values) -> Result<(), SparqlError> {
    if let TermPattern::Variable(variable) = term
        && let Some(Value::Literal(_)) = values.get(variable)
    {
        return Err(refused(variable, "a literal is no subject"));
    }
    in_term(term, values)
}

fn in_term(term: &mut TermPattern, values: &Values) -> Result<(), SparqlError> {
    match term {
        TermPattern::Variable(variable) => {
            if let Some(value) = values.get(variable) {
                *term = value.clone().into();
            }
            Ok(())
        }
        TermPattern::Triple(triple) => in_triple(triple, values),
        _ => Ok(()),
    }
}

fn in_name(name: &mut NamedNodePattern, values: &Values) -> Result<(), SparqlError> {
    if let NamedNodePattern::Variable(variable) = name {
        match values.get(variable) {
            Some(Value::Node(node)) => *name = node.clone().into(),
            Some(Value::Literal(_)) => {
                return Err(refused(
                    variable,
                    "a literal is no predicate or name of a graph",
                ));
            }
            None => {}
        }
    }
    Ok(())
}

fn in_expression(expression: &mut Expression, values: &Values) -> Result<(), SparqlError> {
    let mut outcome = Ok(());
    each_part(expression, &mut |part| match part {
        Expression::Variable(variable) => {
            if let Some(value) = values.get(variable) {
                *part = value.clone().into();
            }
        }
        Expression::Bound(variable) if values.contains_key(variable) => {
            *part = Literal::from(true).into();
        }
        Expression::Exists(pattern) => {
            if let Err(error) = in_pattern(pattern, values) {
                outcome = Err(error);
            }
        }
        _ => {}
    });
    outcome
}

impl From<Value> for Expression {
    fn from(value: Value) -> Self {
        match value {
            Value::Node(node) => node.into(),
            Value::Literal(literal) => literal.into(),
        }
    }
}

impl From<Value> for TermPattern {
    fn from(value: Value) -> Self {
        match value {
            Value::Node(node) => node.into(),
            Value::Literal(literal) => literal.into(),
        }
    }
}

impl From<Value> for GroundTerm {
    fn from(value: Value) -> Self {
        match value {
            Value::Node(node) => node.into(),
            Value::Literal(literal) => literal.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Query, SparqlError};
    use oxrdf::{Literal, NamedNode, Term, Variable};

    fn with(text: &str, variable: &str, term: impl Into<Term>) -> Result<String, SparqlError> {
        let query = Query::parse(text, None)?;
        let terms = [(Variable::new_unchecked(variable), term.into())];
        Ok(query.with_bindings(&terms)?.algebra().to_string())
    }

    fn same(text: &str, expected: &str) {
        let node = NamedNode::new_unchecked("http://a");
        let bound = with(text, "x", node).expect("it can be bound");
        let expected = Query::parse(expected, None).expect("a query");
        assert_eq!(bound, expected.algebra().to_string(), "{text}");
    }

    #[test]
    fn variables_become_terms_in_scope() {
        same(
            "ASK { ?x ?p ?x }",
            "ASK { <http://a> ?p <http://a> BIND(<http://a> AS ?x) }",
        );
        same(
            "ASK { GRAPH ?x { ?s ?p 1 } }",
            "ASK { GRAPH <http://a> { ?s ?p 1 } BIND(<http://a> AS ?x) }",
        );
        same(
            "SELECT ?y { ?y ?p ?o FILTER(?x = ?y && BOUND(?x)) }",
            "SELECT ?y { ?y ?p ?o FILTER(<http://a> = ?y && true) }",
        );
        same(
            "SELECT ?y { ?y ?p ?o FILTER NOT EXISTS { ?y ?p ?x } }",
            "SELECT ?y { ?y ?p ?o FILTER NOT EXISTS { ?y ?p <http://a> } }",
        );
        same(
            "SELECT ?s { ?s ?p ?x { SELECT ?s { ?s ?x 1 } } }",
            "SELECT ?s { ?s ?p <http://a> { SELECT ?s { ?s ?x 1 } } }",
        );
        same(
            "SELECT ?x ?p { ?x ?p 1 }",
            "SELECT ?x ?p { <http://a> ?p 1 BIND(<http://a> AS ?x) }",
        );
        same(
            "SELECT ?y { VALUES (?x ?y) { (<http://a> 1) (<http://b> 2) (UNDEF 3) } }",
            "SELECT ?y { VALUES (?y) { (1) (3) } }",
        );
        same(
            "CONSTRUCT { ?x ?p 1 } { ?x ?p 2 }",
            "CONSTRUCT { <http://a> ?p 1 } { <http://a> ?p 2 BIND(<http://a> AS ?x) }",
        );
    }

    #[test]
    fn what_is_no_term_of_a_place_is_refused() {
        for (text, term, said) in [
            (
                "ASK { ?x ?p ?o }",
                Term::from(Literal::from(1)),
                "a literal is no subject",
            ),
            (
                "ASK { ?s ?x ?o }",
                Literal::from(1).into(),
                "a literal is no predicate",
            ),
            (
                "SELECT * { BIND(1 AS ?x) }",
                Literal::from(1).into(),
                "binds this variable itself",
            ),
            (
                "ASK { ?s ?x ?o }",
                oxrdf::BlankNode::default().into(),
                "a blank node is no predicate",
            ),
        ] {
            let error = with(text, "x", term)
                .expect_err("it is refused")
                .to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

//! Tells whether a query has the same results whenever it is evaluated on the same state of the store.

use spargebra::Query;
use spargebra::algebra::{
    AggregateExpression, Expression, Function, GraphPattern, OrderExpression,
};

use crate::path_search::is_search;
use crate::scope::{draws_lots, visit};

/// Returns whether a query, on the same state of the store, has the same results each time, except for their order and
/// the labels of blank nodes: in no place, however nested, does it call `NOW`, `RAND`, `UUID`, `STRUUID` or `BNODE`, or
/// ask another endpoint. Functions of an embedding program count as repeatable.
pub(crate) fn is_repeatable(query: &Query) -> bool {
    let (Query::Select { pattern, .. }
    | Query::Construct { pattern, .. }
    | Query::Describe { pattern, .. }
    | Query::Ask { pattern, .. }) = query;
    // Not recursive, as patterns nest deeply.
    let mut open = vec![pattern];
    while let Some(pattern) = open.pop() {
        if matches!(pattern, GraphPattern::Service { name, .. } if !is_search(name)) {
            return false;
        }
        open.extend(operands(pattern));
        let mut is_called = false;
        for expression in expressions(pattern) {
            visit(expression, &mut |part| match part {
                Expression::FunctionCall(function, _) => is_called |= is_changing(function),
                Expression::Exists(inner) => open.push(inner),
                _ => {}
            });
        }
        if is_called {
            return false;
        }
    }
    true
}

/// Returns whether a function may have another value in the next evaluation of the query.
fn is_changing(function: &Function) -> bool {
    draws_lots(function) || matches!(function, Function::Now)
}

/// Returns the patterns right inside a pattern, without those in its expressions.
fn operands(pattern: &GraphPattern) -> Vec<&GraphPattern> {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } | GraphPattern::Values { .. } => {
            Vec::new()
        }
        GraphPattern::Join { left, right }
        | GraphPattern::LeftJoin { left, right, .. }
        | GraphPattern::Lateral { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => vec![left, right],
        GraphPattern::Filter { inner, .. }
        | GraphPattern::Graph { inner, .. }
        | GraphPattern::Extend { inner, .. }
        | GraphPattern::OrderBy { inner, .. }
        | GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. }
        | GraphPattern::Group { inner, .. }
        | GraphPattern::Service { inner, .. } => vec![inner],
    }
}

/// Returns the expressions of a pattern itself.
fn expressions(pattern: &GraphPattern) -> Vec<&Expression> {
    match pattern {
        GraphPattern::Filter { expr, .. } => vec![expr],
        GraphPattern::LeftJoin { expression, .. } => expression.iter().collect(),
        GraphPattern::Extend { expression, .. } => vec![expression],
        GraphPattern::OrderBy { expression, .. } => expression
            .iter()
            .map(|(OrderExpression::Asc(by) | OrderExpression::Desc(by))| by)
            .collect(),
        GraphPattern::Group { aggregates, .. } => aggregates
            .iter()
            .filter_map(|(_, aggregate)| match aggregate {
                AggregateExpression::FunctionCall { expr, .. } => Some(expr),
                AggregateExpression::CountSolutions { .. } => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;

    fn is_repeatable(text: &str) -> bool {
        let query = Query::parse(text, Some("http://e/"));
        query
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .is_repeatable()
    }

    #[test]
    fn a_query_that_changes_by_itself_is_found_however_nested() {
        for call in [
            "NOW()",
            "rand()",
            "UUID()",
            "STRUUID()",
            "BNODE()",
            "bnode('a')",
        ] {
            for text in [
                format!("SELECT ({call} AS ?x) {{}}"),
                format!("SELECT * {{ ?s ?p ?o FILTER(STR(?o) = STR({call})) }}"),
                format!(
                    "SELECT * {{ ?s ?p ?o FILTER(1 IN (2, IF(true, STRLEN(STR({call})), 3))) }}"
                ),
                format!("ASK {{ ?s ?p ?o OPTIONAL {{ ?o ?q ?x FILTER(?x = {call}) }} }}"),
                format!("ASK {{ {{ ?s ?p ?o }} UNION {{ BIND({call} AS ?s) }} }}"),
                format!("ASK {{ ?s ?p ?o FILTER NOT EXISTS {{ ?o ?q ?x BIND({call} AS ?y) }} }}"),
                format!(
                    "ASK {{ FILTER EXISTS {{ ?s ?p ?o FILTER(!EXISTS {{ FILTER(COALESCE({call}) = ?s) }}) }} }}"
                ),
                format!("ASK {{ ?s ?p ?o MINUS {{ BIND({call} AS ?s) }} }}"),
                format!(
                    "ASK {{ GRAPH ?g {{ {{ SELECT ?s {{ ?s ?p ?o }} ORDER BY STR({call}) LIMIT 1 }} }} }}"
                ),
                format!("SELECT (COUNT(DISTINCT {call}) AS ?n) {{ ?s ?p ?o }} GROUP BY ?s"),
                format!("SELECT ?s {{ ?s ?p ?o }} GROUP BY ?s HAVING (MAX(STR({call})) > '2')"),
                format!("SELECT ?x {{ ?s ?p ?o }} GROUP BY (STR({call}) AS ?x)"),
                format!("ASK {{ ?s ?p ?o LATERAL {{ BIND({call} AS ?x) }} }}"),
                format!("CONSTRUCT {{ ?s ?p ?x }} WHERE {{ ?s ?p ?o BIND({call} AS ?x) }}"),
                format!("DESCRIBE ?s {{ ?s ?p ?o FILTER(STR({call}) > '2026') }}"),
            ] {
                assert!(!is_repeatable(&text), "{text}");
            }
        }
        for text in [
            "SELECT * { SERVICE <http://e/sparql> { ?s ?p ?o } }",
            "SELECT * { ?s ?p ?o SERVICE SILENT ?o { ?s ?p ?x } }",
            "ASK { FILTER EXISTS { { SELECT * { SERVICE <http://e/sparql> { ?s ?p ?o } } } } }",
        ] {
            assert!(!is_repeatable(text), "{text}");
        }
    }

    #[test]
    fn other_queries_are_repeatable() {
        for text in [
            "SELECT * { ?now <rand> \"UUID()\" }",
            "SELECT (SAMPLE(?o) AS ?x) { ?s ?p ?o FILTER(YEAR(?o) > 2000 && SHA256(?o) != 'x') } GROUP BY ?s",
            "CONSTRUCT { _:b ?p ?o } WHERE { ?s ?p ?o }",
            "PATHS ALL SHORTEST START ?a = <a> END ?b VIA (<p>)+ MAX LENGTH 3",
            "SELECT * { ?s <p>/<q>* ?o . FILTER(<http://www.w3.org/2001/XMLSchema#integer>(?o) > 3) }",
        ] {
            assert!(is_repeatable(text), "{text}");
        }
    }
}

//! Queries whose variables are replaced by terms.

use oxrdf::{BlankNode, Literal, NamedNode, Term, Variable};
use pythia::{Database, Query, QueryError, QueryOptions, Results};

use crate::support::database;

const DATA: &str = "_:n <http://e/p> \"x\" .\n_:o <http://e/p> \"y\" .\n<http://e/a> <http://e/q> _:n .\n\
                    <http://e/a> <http://e/p> \"z\" _:n .\n";

/// Runs a query with one binding; returns the terms of the only column, in the syntax of N-Triples.
fn answers(database: &Database, text: &str, name: &str, term: impl Into<Term>) -> Vec<String> {
    let terms = [(Variable::new_unchecked(name), term.into())];
    let query = Query::parse(text, None)
        .unwrap()
        .with_bindings(&terms)
        .unwrap();
    let prepared = database.prepare_parsed(&query, &QueryOptions::default());
    match prepared.and_then(|prepared| prepared.execute()).unwrap() {
        Results::Boolean(value) => vec![value.to_string()],
        Results::Graph(_) => panic!("no solutions"),
        Results::Solutions(mut solutions) => {
            let mut found = Vec::new();
            while let Some(batch) = solutions.next_batch().unwrap() {
                let rows = 0..batch.len();
                found.extend(
                    rows.map(|row| batch.term(row, 0).map_or_else(String::new, Term::to_string)),
                );
            }
            found.sort();
            found
        }
    }
}

#[test]
fn a_blank_node_is_the_stores_node_with_its_label() {
    let database = database(DATA);
    let ask =
        |text: &str, label: &str| answers(&database, text, "x", BlankNode::new_unchecked(label));
    let values = "SELECT ?o { ?x <http://e/p> ?o }";
    assert_eq!(ask(values, "n"), ["\"x\""]);
    assert_eq!(ask(values, "none"), [""; 0]);
    assert_eq!(
        ask("SELECT ?s { ?s <http://e/q> ?x }", "n"),
        ["<http://e/a>"]
    );
    assert_eq!(ask("SELECT ?x { ?x <http://e/p> 'y' }", "o"), ["_:o"]);
    assert_eq!(ask("SELECT ?o { GRAPH ?x { ?s ?p ?o } }", "n"), ["\"z\""]);
    assert_eq!(
        ask("SELECT ?o { ?s <http://e/p> ?o FILTER(?s = ?x) }", "n"),
        ["\"x\""]
    );
    assert_eq!(
        ask("SELECT ?o { ?s <http://e/p> ?o FILTER(?s != ?x) }", "n"),
        ["\"y\""]
    );
    assert_eq!(
        ask("ASK { FILTER(isBlank(?x) && !isIRI(?x)) }", "n"),
        ["true"]
    );
    assert_eq!(ask("SELECT ?x { FILTER(BOUND(?x)) }", "none"), ["_:none"]);
    assert_eq!(
        ask("SELECT ?e { ?x (<http://e/p>|^<http://e/q>)+ ?e }", "n"),
        ["\"x\"", "<http://e/a>"]
    );
}

#[test]
fn terms_take_the_places_of_variables() {
    let database = database(DATA);
    let node = NamedNode::new_unchecked("http://e/p");
    let counted = "SELECT (COUNT(*) AS ?n) { ?s ?x ?o }";
    assert_eq!(
        answers(&database, counted, "x", node),
        ["\"2\"^^<http://www.w3.org/2001/XMLSchema#integer>"]
    );
    assert_eq!(
        answers(&database, "SELECT ?s { ?s ?p ?x }", "x", Literal::from("y")),
        ["_:o"]
    );
    let text = "SELECT ?y { BIND(?x + 1 AS ?y) }";
    assert_eq!(
        answers(&database, text, "x", Literal::from(1)),
        ["\"2\"^^<http://www.w3.org/2001/XMLSchema#integer>"]
    );
    let literal = [(Variable::new_unchecked("s"), Literal::from(1).into())];
    let query = Query::parse("ASK { ?s ?p ?o }", None).unwrap();
    let error = QueryError::from(query.with_bindings(&literal).unwrap_err());
    assert!(
        error.to_string().contains("a literal is no subject"),
        "{error}"
    );
}

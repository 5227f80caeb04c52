//! Small cases with the answers the specification gives, each named for what it shows.

use crate::support::{Answer, database, ours};

const DATA: &str = "
<http://e/a> <http://e/p> <http://e/b> <http://e/G1> .
<http://e/a> <http://e/q> <http://e/b> <http://e/G1> .
<http://e/a> <http://e/p> <http://e/b> <http://e/G2> .
<http://e/s> <http://e/p> <http://e/o> .
<http://e/s> <http://e/p2> <http://e/o> .
<http://e/s> <http://e/p> <http://e/o2> .
<http://e/t> <http://e/p> <http://e/o> .
_:as1 <http://e/bb> <http://e/o> .
<http://e/o> <http://e/lit> \"x\" .
";

fn answer(query: &str) -> Answer {
    let database = database(DATA);
    let text = format!("PREFIX e: <http://e/> {query}");
    ours(&database, &text).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn rows(query: &str) -> usize {
    answer(query).lines.len()
}

#[test]
fn an_alternative_counts_each_route() {
    assert_eq!(rows("SELECT * { ?x e:p|e:p2 ?y }"), 4);
    assert_eq!(rows("SELECT * { ?x (e:p|e:p2)/e:lit ?y }"), 3);
    assert_eq!(rows("SELECT * { e:s e:p/(e:lit|e:lit) ?y }"), 2);
    assert_eq!(rows("SELECT * { ?x (e:p|e:p2)+ ?y }"), 3);
}

#[test]
fn a_graph_variable_ranges_over_graphs_where_optionals_find_nothing() {
    let query = "SELECT * { GRAPH ?g { ?s e:p ?x . { OPTIONAL { ?s e:q ?x } } } }";
    assert_eq!(rows(query), 2);
}

#[test]
fn from_replaces_the_default_graph() {
    assert_eq!(rows("SELECT * FROM e:G1 { ?s ?p ?o }"), 2);
    assert_eq!(rows("SELECT * FROM e:absent { ?s ?p ?o }"), 0);
    assert_eq!(
        rows("SELECT * FROM e:absent { VALUES ?x { 1 } VALUES ?y { 2 } }"),
        1
    );
    assert_eq!(rows("SELECT * FROM e:absent { e:c e:p* ?y }"), 1);
}

#[test]
fn count_distinct_star_ignores_blank_nodes_of_the_pattern() {
    let lines = answer("SELECT (COUNT(DISTINCT *) AS ?c) { ?s e:p [] }").lines;
    assert!(lines[0].starts_with("\"2\""), "{lines:?}");
}

#[test]
fn a_constructed_blank_node_is_new() {
    let database = database(DATA);
    let query = "CONSTRUCT { _:a <http://e/new> ?s } { ?s <http://e/bb> ?o }";
    let pythia::Results::Graph(mut triples) = database.query(query).unwrap() else {
        panic!("not a graph");
    };
    let triple = triples.next_triple().unwrap().unwrap();
    assert_ne!(oxrdf::Term::from(triple.subject), triple.object);
}

#[test]
fn a_group_may_be_empty() {
    assert_eq!(rows("SELECT * {}"), 1);
    assert_eq!(rows("SELECT * { OPTIONAL { e:none e:p ?x } }"), 1);
    assert_eq!(rows("SELECT ?g { GRAPH ?g {} }"), 2);
}

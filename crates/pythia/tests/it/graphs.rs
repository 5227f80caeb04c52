//! Queries over several graphs: the merge of FROM clauses, and patterns in graphs that others have found.

use pythia::Database;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{analyze, database, ours, writable};

/// The solutions, sorted.
fn rows(database: &Database, query: &str) -> Vec<String> {
    ours(database, query).expect("a sound query").sorted().lines
}

/// Quads over few terms, so that graphs share triples: lines without their graphs, and the graphs.
fn quads(random: &mut StdRng, count: usize) -> Vec<(String, usize)> {
    let mut quads = Vec::new();
    for _ in 0..count {
        let [s, o] = [random.random_range(0..6), random.random_range(0..6)];
        let p = random.random_range(0..3);
        let graph = random.random_range(0..6);
        quads.push((
            format!("<http://e/n{s}> <http://e/p{p}> <http://e/n{o}>"),
            graph,
        ));
    }
    quads
}

/// A pattern of a few triples over few variables, perhaps inside other groups.
fn group(random: &mut StdRng) -> String {
    let triples = |random: &mut StdRng| -> String {
        let count = random.random_range(1..4);
        let node = |random: &mut StdRng| match random.random_range(0..4) {
            0 => format!("<http://e/n{}>", random.random_range(0..6)),
            n => format!("?{}", ["x", "y", "z"][n - 1]),
        };
        let triple = |random: &mut StdRng| {
            let p = match random.random_range(0..5) {
                0 => "?p".to_owned(),
                n => format!("<http://e/p{}>", n % 3),
            };
            format!("{} {p} {} . ", node(random), node(random))
        };
        (0..count).map(|_| triple(random)).collect()
    };
    let first = triples(random);
    match random.random_range(0..6) {
        0 => format!("{first} OPTIONAL {{ {} }}", triples(random)),
        1 => format!("{{ {first} }} UNION {{ {} }}", triples(random)),
        2 => format!("{first} FILTER EXISTS {{ {} }}", triples(random)),
        3 => format!("{first} MINUS {{ {} }}", triples(random)),
        _ => first,
    }
}

/// The merge of graphs has each triple once: queries have the same solutions, as often, as over one graph with the
/// triples of all.
#[test]
fn a_merge_of_graphs_is_like_one_graph() {
    let mut random = StdRng::seed_from_u64(16);
    for round in 0..24 {
        let count = random.random_range(1..80);
        let quads = quads(&mut random, count);
        let line = |(triple, graph): &(String, usize)| format!("{triple} <http://e/g{graph}> .\n");
        // Some are in the base, some in a run.
        let (base, later) = quads.split_at(random.random_range(0..=quads.len()));
        let several = writable(&base.iter().map(line).collect::<String>());
        insert(&several, later);
        for _ in 0..12 {
            let graphs: Vec<usize> = (0..6).filter(|_| random.random_bool(0.5)).collect();
            if graphs.len() < 2 {
                continue;
            }
            let merged = quads.iter().filter(|(_, graph)| graphs.contains(graph));
            let merged: String = merged.map(|(triple, _)| format!("{triple} .\n")).collect();
            let group = group(&mut random);
            let clauses: String = graphs
                .iter()
                .map(|g| format!("FROM <http://e/g{g}> "))
                .collect();
            let found = rows(
                &several,
                &format!("SELECT ?x ?y ?z ?p {clauses} {{ {group} }}"),
            );
            let one = rows(
                &database(&merged),
                &format!("SELECT ?x ?y ?z ?p {{ {group} }}"),
            );
            assert_eq!(found, one, "round {round}, {clauses} {group}");
        }
    }
}

fn insert(database: &Database, quads: &[(String, usize)]) {
    let block =
        |(triple, graph): &(String, usize)| format!("GRAPH <http://e/g{graph}> {{ {triple} }} ");
    let blocks: String = quads.iter().map(block).collect();
    database
        .update(&format!("INSERT DATA {{ {blocks} }}"))
        .expect("memory");
}

#[test]
fn a_pattern_is_evaluated_only_in_the_graphs_that_are_bound() {
    let mut text = String::new();
    for graph in 0..200 {
        for n in 0..=graph % 5 {
            text.push_str(&format!(
                "<http://e/s{n}> <http://e/name> \"{graph} {n}\" <http://e/g{graph}> .\n"
            ));
        }
    }
    let database = database(&text);
    let counted = "GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?a ?b ?c } }";
    let query = format!("SELECT ?g ?n {{ GRAPH ?g {{ ?s ?p \"18 1\" }} {counted} }}");
    let (lines, plan) = analyze(&database, &query);
    assert_eq!(lines.len(), 1, "{plan}");
    assert!(
        lines[0].contains("g18") && lines[0].contains('4'),
        "{lines:?}"
    );
    let group = plan
        .parts()
        .into_iter()
        .find(|part| part.operator == "EachGraph");
    let rows_each = group
        .and_then(|part| part.measured)
        .map(|measured| measured.rows);
    assert_eq!(rows_each, Some(1), "{plan}");

    // A graph that is bound, but is none, and groups that share other variables or name the graph themselves.
    let none = format!("SELECT * {{ VALUES ?g {{ <http://e/s0> <http://e/none> }} {counted} }}");
    assert_eq!(rows(&database, &none), Vec::<String>::new());
    let shared = "SELECT ?g ?s ?n { GRAPH ?g { ?s ?p \"18 1\" } \
        GRAPH ?g { SELECT ?s (COUNT(*) AS ?n) { ?s ?b ?c } GROUP BY ?s } }";
    assert_eq!(rows(&database, shared).len(), 1);
    let named = "SELECT ?g ?n { GRAPH ?g { ?s ?p \"18 1\" } \
        GRAPH ?g { SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?a ?b ?c } } } }";
    assert_eq!(rows(&database, named).len(), 1);
}

//! Random small graphs and questions, answered by us and by trying everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pythia::{Database, Results};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::oracle::{Expression, Graph, Question, Walk, Weight, end};
use crate::support::database;

const NODES: u8 = 5;
/// Longer walks are not tried; their cost is greater than this.
const LENGTH_TRIED: usize = 7;

fn graph(random: &mut StdRng) -> Graph {
    let count = random.random_range(1..8);
    let edge = |random: &mut StdRng| {
        let node = |random: &mut StdRng| random.random_range(0..NODES);
        (node(random), random.random_range(0..2), node(random))
    };
    let edges: BTreeSet<(u8, u8, u8)> = (0..count).map(|_| edge(random)).collect();
    Graph {
        edges: edges.into_iter().collect(),
        weights: (0..NODES).map(|_| random.random_range(1..4)).collect(),
    }
}

fn load(graph: &Graph) -> Database {
    let mut text = String::new();
    for (s, p, o) in &graph.edges {
        writeln!(text, "<http://e/n{s}> <http://e/p{p}> <http://e/n{o}> .").unwrap();
    }
    for (node, weight) in graph.weights.iter().enumerate() {
        let xsd = "http://www.w3.org/2001/XMLSchema#";
        writeln!(
            text,
            "<http://e/n{node}> <http://e/w> \"{weight}\"^^<{xsd}integer> ."
        )
        .unwrap();
    }
    database(&text)
}

fn expression(random: &mut StdRng, depth: u32) -> Expression {
    let inner = |random: &mut StdRng| Box::new(expression(random, depth - 1));
    match if depth == 0 {
        0
    } else {
        random.random_range(0..9)
    } {
        1 => Expression::Inverse(inner(random)),
        2 | 3 => Expression::Sequence(inner(random), inner(random)),
        4 => Expression::Either(inner(random), inner(random)),
        5 => Expression::Optional(inner(random)),
        6 => Expression::Star(inner(random)),
        7 | 8 => Expression::Plus(inner(random)),
        _ => Expression::Predicate(random.random_range(0..2)),
    }
}

/// One or more edges of any predicate.
fn any_edges() -> Expression {
    let either = |a, b| Expression::Either(Box::new(a), Box::new(b));
    let (p0, p1) = (Expression::Predicate(0), Expression::Predicate(1));
    Expression::Plus(Box::new(either(p0, p1)))
}

/// Which paths are asked for.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Any,
    AllShortest,
    Shortest(usize),
    All,
}

fn question(random: &mut StdRng) -> (Question, Mode) {
    let restrictor = ["Walk", "Trail", "Acyclic", "Simple"][random.random_range(0..4)];
    let mode = match random.random_range(0..4) {
        0 => Mode::Any,
        1 => Mode::AllShortest,
        2 => Mode::Shortest(random.random_range(1..6)),
        _ => Mode::All,
    };
    let is_endless = restrictor == "Walk" && matches!(mode, Mode::All);
    let length_max =
        (is_endless || random.random_range(0..3) == 0).then(|| random.random_range(0..5));
    let length_min = match random.random_range(0..3) {
        0 => random.random_range(0..=length_max.unwrap_or(3)),
        _ => 0,
    };
    let weight = match random.random_range(0..3) {
        0 => Weight::None,
        1 => Weight::Node,
        _ => Weight::Predicate,
    };
    let expression = match random.random_range(0..6) {
        0 => any_edges(),
        _ => expression(random, 3),
    };
    let question = Question {
        expression,
        restrictor,
        length_min,
        length_max,
        weight,
        avoided: (random.random_range(0..4) == 0).then(|| random.random_range(0..NODES)),
    };
    (question, mode)
}

/// The question in SPARQL: `?s` and `?e` are the ends, some of them bound before.
fn query(question: &Question, mode: Mode, before: &str, random: &mut StdRng) -> String {
    let mut options = format!(
        "?path path:start ?s ; path:end ?e ; path:restrictor path:{} ; path:cost ?cost ; path:length ?length ; path:batch {} ",
        question.restrictor,
        random.random_range(1..5)
    );
    options += &match mode {
        Mode::Any => "; path:mode path:AnyShortest ".to_owned(),
        Mode::AllShortest => "; path:mode path:AllShortest ".to_owned(),
        Mode::Shortest(k) => format!("; path:mode path:Shortest ; path:k {k} "),
        Mode::All => "; path:mode path:All ".to_owned(),
    };
    let is_step =
        question.expression.text() == any_edges().text() && random.random_range(0..2) == 0;
    if matches!(mode, Mode::All) && !is_step && random.random_range(0..2) == 0 {
        options += "; path:priority <http://e/w> ";
    }
    if question.length_min > 0 {
        write!(options, "; path:minLength {} ", question.length_min).unwrap();
    }
    if let Some(most) = question.length_max {
        write!(options, "; path:maxLength {most} ").unwrap();
    }
    match question.weight {
        Weight::None => {}
        Weight::Node if !is_step => options += "; path:weight <http://e/w> ",
        Weight::Node | Weight::Predicate => options += "; path:weight ?w ",
    }
    options += "; path:predicate ?p ; path:from ?from ; path:to ?to . ";
    let mut bind = "";
    if question.weight == Weight::Predicate {
        bind = "BIND(IF(?p = <http://e/p0>, 1, 2) AS ?w)";
    }
    if let Some(node) = question.avoided {
        write!(options, "FILTER(?to != <http://e/n{node}>) ").unwrap();
    }
    let path = match (is_step, question.weight) {
        (false, _) => format!("?s {} ?e .", question.expression.text()),
        // Every node has a weight.
        (true, Weight::Node) => "GRAPH path:step { ?from ?p ?to . ?to <http://e/w> ?w }".to_owned(),
        (true, _) => "GRAPH path:step { ?from ?p ?to FILTER(isIRI(?to)) }".to_owned(),
    };
    format!(
        "PREFIX path: <urn:pythia:path#> SELECT ?path ?cost ?length {{ {before} SERVICE path:search {{ {bind} {path} {options} }} }}"
    )
}

/// Our paths with their costs.
fn ours(database: &Database, query: &str) -> Vec<(u32, Walk)> {
    let number = |text: &str| -> u8 { text[10..].parse().unwrap() };
    let results = database
        .query(query)
        .unwrap_or_else(|e| panic!("{query}: {e}"));
    let Results::Solutions(mut solutions) = results else {
        panic!("a SELECT");
    };
    let mut found = Vec::new();
    while let Some(batch) = solutions
        .next_batch()
        .unwrap_or_else(|e| panic!("{query}: {e}"))
    {
        for row in 0..batch.len() {
            let path = pythia::Path::of_term(batch.term(row, 0).unwrap()).unwrap();
            let nodes: Vec<u8> = (path.nodes.iter())
                .map(|node| number(node.to_string().trim_matches(['<', '>'])))
                .collect();
            let hops = path.edges.iter().zip(&nodes[1..]).map(|(edge, &to)| {
                let predicate = edge.predicate.as_ref().unwrap().as_str();
                (number(predicate), edge.inverse, to)
            });
            let value = |column: usize| -> u32 {
                let Some(oxrdf::Term::Literal(literal)) = batch.term(row, column) else {
                    panic!("a number");
                };
                literal.value().parse().unwrap()
            };
            assert_eq!(value(2) as usize, path.edges.len(), "{query}");
            found.push((value(1), (nodes[0], hops.collect())));
        }
    }
    found
}

/// Checks the paths from one node to another.
fn check(mode: Mode, ours: &[(u32, Walk)], all: &[(u32, Walk)], complete: bool, context: &str) {
    let distinct: BTreeSet<&(u32, Walk)> = ours.iter().collect();
    assert_eq!(distinct.len(), ours.len(), "a path twice\n{context}");
    let is_tried = |path: &&(u32, Walk)| path.1.1.len() <= LENGTH_TRIED;
    for path in ours.iter().filter(is_tried) {
        assert!(all.contains(path), "{path:?} is none of {all:?}\n{context}");
    }
    let costs: Vec<u32> = ours.iter().map(|(cost, _)| *cost).collect();
    assert!(
        matches!(mode, Mode::All) || costs.is_sorted(),
        "{costs:?} not cheapest first\n{context}"
    );
    let count = match mode {
        Mode::Any => 1,
        Mode::AllShortest => all.iter().filter(|(cost, _)| *cost == all[0].0).count(),
        Mode::Shortest(k) => k,
        Mode::All => usize::MAX,
    };
    let mut expected: Vec<u32> = all.iter().map(|(cost, _)| *cost).take(count).collect();
    let mut costs = costs;
    costs.sort_unstable();
    if !complete {
        // Walks that were not tried cost more than this.
        expected.retain(|cost| *cost as usize <= LENGTH_TRIED);
        if !matches!(mode, Mode::Shortest(_)) && expected.is_empty() {
            return;
        }
        costs.retain(|cost| *cost as usize <= LENGTH_TRIED);
    }
    assert_eq!(costs, expected, "ours {ours:?}\nall {all:?}\n{context}");
}

#[test]
fn all_modes_agree_with_trying_everything() {
    let mut random = StdRng::seed_from_u64(4);
    for round in 0..150 {
        let graph = graph(&mut random);
        let database = load(&graph);
        for _ in 0..20 {
            let (question, mode) = question(&mut random);
            let node = |random: &mut StdRng| random.random_range(0..NODES);
            let (s, e) = (node(&mut random), node(&mut random));
            let (starts, ends, before): (Vec<u8>, Vec<u8>, String) = match random.random_range(0..5)
            {
                0 => (
                    vec![s],
                    (0..NODES).collect(),
                    format!("VALUES ?s {{ <http://e/n{s}> }}"),
                ),
                1 => (
                    (0..NODES).collect(),
                    vec![e],
                    format!("VALUES ?e {{ <http://e/n{e}> }}"),
                ),
                2 => (
                    vec![s],
                    vec![e],
                    format!("VALUES (?s ?e) {{ (<http://e/n{s}> <http://e/n{e}>) }}"),
                ),
                3 => (
                    vec![s],
                    (0..NODES).collect(),
                    format!("VALUES ?s {{ <http://e/n{s}> }} ?e <http://e/w> ?any"),
                ),
                _ => (
                    (0..NODES).collect(),
                    (0..NODES).collect(),
                    "?s <http://e/w> ?any".to_owned(),
                ),
            };
            let query = query(&question, mode, &before, &mut random);
            let context = format!("round {round}, {graph:?}\n{question:?}\n{query}");
            let mut by_pair: BTreeMap<(u8, u8), Vec<(u32, Walk)>> = BTreeMap::new();
            for found in ours(&database, &query) {
                by_pair
                    .entry((found.1.0, end(&found.1)))
                    .or_default()
                    .push(found);
            }
            for &s in &starts {
                let all = question.answers(&graph, s, LENGTH_TRIED);
                for &e in &ends {
                    let found = by_pair.remove(&(s, e)).unwrap_or_default();
                    let none = Vec::new();
                    let all = all.get(&e).unwrap_or(&none);
                    let bounded = question.restrictor != "Walk"
                        && (question.restrictor != "Trail" || graph.edges.len() <= LENGTH_TRIED);
                    let complete =
                        bounded || question.length_max.is_some_and(|m| m <= LENGTH_TRIED);
                    check(
                        mode,
                        &found,
                        all,
                        complete,
                        &format!("{s} to {e}, {context}"),
                    );
                }
            }
            assert!(by_pair.is_empty(), "too many: {by_pair:?}\n{context}");
        }
    }
}

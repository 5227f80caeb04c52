//! How `LATERAL` runs: what its plans show, how often its group is evaluated, and within which limits.
//! `testdata/queries/lateral_*.sparqltest` have its answers.

use pythia::{Database, GraphRules, Options, PlanNode, QueryError, QueryOptions};

use crate::support::{analyze, database, database_with, ours, ours_with};

/// `count` products, each with four reviews of different days.
fn reviews(count: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        text.push_str(&format!(
            "<http://e/p{n}> <http://e/kind> <http://e/k{}> .\n",
            n % 3
        ));
        for day in 0..4 {
            text.push_str(&format!(
                "<http://e/r{n}x{day}> <http://e/of> <http://e/p{n}> .\n\
                 <http://e/r{n}x{day}> <http://e/day> \"{day}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
            ));
        }
    }
    text
}

const NEWEST: &str = "SELECT ?p ?day { ?p <http://e/kind> ?k LATERAL { \
    SELECT ?p ?day { ?r <http://e/of> ?p ; <http://e/day> ?day } ORDER BY DESC(?day) LIMIT 2 } }";

fn part<'p>(plan: &'p PlanNode, name: &str) -> Option<&'p PlanNode> {
    plan.parts().into_iter().find(|part| part.operator == name)
}

fn rows(plan: &PlanNode, name: &str) -> u64 {
    let part = part(plan, name).unwrap_or_else(|| panic!("no {name} in\n{plan}"));
    part.measured.expect("measured").rows
}

#[test]
fn plans_show_the_operator_and_what_runs_inside_it() {
    let (lines, plan) = analyze(&database(&reviews(300)), NEWEST);
    assert_eq!(lines.len(), 600, "{plan}");
    assert_eq!((rows(&plan, "Lateral"), rows(&plan, "Slice")), (600, 600));
    let lateral = part(&plan, "Lateral").expect("found above");
    assert!(lateral.detail.starts_with("with [?p] {"), "{plan}");
    let inside = lateral.steps.first().expect("the plan of the group");
    // Each product has its own four reviews, of which two are kept.
    assert_eq!(rows(inside, "Pattern"), 1200, "{plan}");
    assert!(part(inside, "Sort").is_some(), "{plan}");
}

#[test]
fn solutions_with_the_same_terms_share_one_evaluation() {
    let query = "SELECT ?p ?n { ?p <http://e/kind> ?k LATERAL { \
        SELECT ?k (COUNT(*) AS ?n) { ?q <http://e/kind> ?k } GROUP BY ?k } }";
    let (lines, plan) = analyze(&database(&reviews(300)), query);
    assert_eq!(lines.len(), 300, "{plan}");
    assert!(lines.iter().all(|line| line.contains("100")), "{lines:?}");
    assert_eq!((rows(&plan, "Lateral"), rows(&plan, "Group")), (300, 3));
}

#[test]
fn a_group_that_can_be_joined_is_joined() {
    let database = database(&reviews(30));
    for group in [
        "?r <http://e/of> ?p ; <http://e/day> ?day",
        "?r <http://e/of> ?p OPTIONAL { ?r <http://e/day> ?day FILTER(?k != ?day) }",
        "{ ?r <http://e/of> ?p } UNION { BIND(STR(?k) AS ?name) }",
        "FILTER NOT EXISTS { ?p <http://e/none> ?k }",
        "OPTIONAL { ?p <http://e/none>+ ?q }",
    ] {
        let query = format!("SELECT * {{ ?p <http://e/kind> ?k LATERAL {{ {group} }} }}");
        let (lines, plan) = analyze(&database, &query);
        assert!(lines.len() >= 30, "{plan}");
        assert_eq!(
            plan.parts().len() - plan.steps.len(),
            1 + nested(&plan),
            "{plan}"
        );
        assert!(part(&plan, "Lateral").is_none(), "{plan}");
    }
}

/// The number of steps inside other steps.
fn nested(plan: &PlanNode) -> usize {
    let steps = plan.steps.iter();
    steps.map(|step| step.parts().len() - 1).sum()
}

#[test]
fn a_limit_above_stops_the_evaluations() {
    let query = format!("{NEWEST} LIMIT 3");
    let (lines, plan) = analyze(&database(&reviews(2000)), &query);
    assert_eq!(lines.len(), 3, "{plan}");
    assert!(rows(&plan, "Lateral") <= 64, "{plan}");
}

#[test]
fn laterals_inside_laterals_are_answers_or_errors() {
    let database = database(&reviews(2));
    let group = |text: String| format!("SELECT * {{ ?s ?p ?o . {text} }}");
    let nested = |open: &str, close: &str, depth: usize| {
        group(format!("{}{}", open.repeat(depth), close.repeat(depth)))
    };
    let limited = "LATERAL { SELECT * { ?s ?p ?o ";
    for (depth, is_read) in [(10, true), (60, true), (100, false), (1000, false)] {
        for text in [
            nested(limited, "} LIMIT 1 }", depth),
            nested("LATERAL { ?s ?p ?o MINUS { ?o ?p ?s } ", "}", depth),
        ] {
            match ours(&database, &text) {
                Ok(answer) => assert_eq!(answer.lines.len(), 18, "{depth}"),
                Err(QueryError::Syntax { .. }) if !is_read => {}
                Err(error) => panic!("{depth}: {error}"),
            }
        }
    }
    let plain = nested("LATERAL { ?s ?p ?o ", "}", 90);
    assert_eq!(ours(&database, &plain).unwrap().lines.len(), 18);
}

#[test]
fn memory_that_a_group_takes_counts_and_is_freed() {
    let options = Options {
        memory_bytes: 256 << 10,
        ..Options::default()
    };
    let database = database_with(&reviews(1000), options);
    let query = "SELECT ?p ?all { ?p <http://e/kind> ?k LATERAL { \
        SELECT ?k (GROUP_CONCAT(STR(?q)) AS ?all) { ?q <http://e/kind> ?k . ?r <http://e/of> ?s } GROUP BY ?k } }";
    assert!(matches!(ours(&database, query), Err(QueryError::Memory(_))));
    assert_eq!(database.usage().memory_bytes, 0);
    assert_eq!(ours(&database, NEWEST).unwrap().lines.len(), 2000);
    assert_eq!(database.usage().memory_bytes, 0);
}

#[test]
fn hidden_graphs_stay_hidden() {
    let database: Database = database(
        "<http://e/a> <http://e/p> <http://e/b> .\n\
         <http://e/b> <http://e/q> \"seen\" <http://e/open> .\n\
         <http://e/b> <http://e/q> \"hidden\" <http://e/secret> .\n",
    );
    let options = QueryOptions {
        visible: GraphRules::parse(&["default", "http://e/open"]).expect("rules"),
        ..QueryOptions::default()
    };
    for group in [
        "SELECT ?o ?g ?v { GRAPH ?g { ?o <http://e/q> ?v } } ORDER BY ?v LIMIT 1",
        "GRAPH ?g { SELECT ?o ?v { ?o <http://e/q> ?v } LIMIT 1 }",
        "GRAPH ?g { ?o <http://e/q> ?v }",
        "VALUES ?g { <http://e/open> <http://e/secret> } GRAPH ?g { SELECT ?v { ?x ?y ?v } LIMIT 5 }",
    ] {
        let query = format!("SELECT ?v {{ ?s <http://e/p> ?o LATERAL {{ {group} }} }}");
        let answer = ours_with(&database, &query, &options).unwrap();
        assert_eq!(answer.lines, ["\"seen\""], "{query}");
    }
}

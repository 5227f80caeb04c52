//! What `EXPLAIN` says about a plan: how good the estimates were, what was rejected, and what runs inside.

use pythia::{Database, PlanNode, QueryOptions};
use serde_json::Value;

use crate::support::{answer_of, database};

/// The plan of a query, as a tree and as JSON; measured, if the query is run.
fn explained(database: &Database, query: &str, run: bool) -> (PlanNode, Value) {
    let options = QueryOptions {
        profile: run,
        ..QueryOptions::default()
    };
    let prepared = database.prepare(query, &options).expect(query);
    if run {
        answer_of(prepared.execute().expect(query)).expect(query);
    }
    let json = serde_json::from_str(&prepared.explain_json()).expect("JSON");
    (prepared.plan(), json)
}

/// All parts of a plan in JSON.
fn parts(json: &Value) -> Vec<&Value> {
    let below = ["steps", "inputs"].into_iter();
    let below = below.filter_map(|name| json[name].as_array()).flatten();
    let mut found = vec![json];
    found.extend(below.flat_map(parts));
    found
}

/// `count` nodes with a value each. The even ones are wet, and all of these are blue: estimates take both as independent.
fn correlated(count: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        text.push_str(&format!("<http://e/{n}> <http://e/value> \"{n}\" .\n"));
        if n < count / 20 {
            text.push_str(&format!(
                "<http://e/{n}> <http://e/is> <http://e/wet> .\n\
                 <http://e/{n}> <http://e/colour> <http://e/blue> .\n"
            ));
        } else {
            text.push_str(&format!(
                "<http://e/{n}> <http://e/is> <http://e/dry{}> .\n\
                 <http://e/{n}> <http://e/colour> <http://e/grey{}> .\n",
                n % 7,
                n % 5
            ));
        }
    }
    text
}

const CORRELATED: &str =
    "SELECT * { ?s <http://e/is> <http://e/wet> ; <http://e/colour> <http://e/blue> }";

#[test]
fn the_worst_estimate_is_marked_once() {
    let database = database(&correlated(2000));
    let (plan, json) = explained(&database, CORRELATED, true);
    let text = plan.to_string();
    let worst: Vec<&PlanNode> = plan
        .parts()
        .into_iter()
        .filter(|p| p.worst_estimate)
        .collect();
    assert_eq!(worst.len(), 1, "{text}");
    let (expected, rows) = (
        worst[0].estimated_rows.expect("marked"),
        worst[0].measured.expect("marked").rows,
    );
    assert_eq!(rows, 100, "{text}");
    let ratio = worst[0].estimate_ratio.expect("marked");
    assert!(
        (ratio - (expected + 1.0) / 101.0).abs() < 1e-9 && ratio < 0.25,
        "{text}"
    );
    let mark = format!("  ← worst estimate: {:.0} times too few\n", 1.0 / ratio);
    assert_eq!(text.matches("worst estimate").count(), 1, "{text}");
    assert!(text.contains(&mark), "{text}");
    let marked = parts(&json)
        .into_iter()
        .filter(|part| part["worst_estimate"] == true);
    let marked: Vec<&Value> = marked.collect();
    assert_eq!(marked.len(), 1, "{json:#}");
    assert!((marked[0]["estimate_ratio"].as_f64().expect("a ratio") - ratio).abs() < 1e-9);
    for part in parts(&json) {
        let is_known = part["estimated_rows"].is_number();
        assert_eq!(part["estimate_ratio"].is_number(), is_known, "{json:#}");
    }
}

#[test]
fn good_estimates_and_parts_that_never_ran_have_no_mark() {
    let database = database(&correlated(2000));
    for query in [
        "SELECT * { ?s <http://e/is> <http://e/wet> }",
        // One is no more than four times none.
        "SELECT * { <http://e/1> <http://e/is> ?x FILTER(?x = <http://e/dry1>) }",
        // The second step never gets a row.
        "SELECT * { VALUES ?s { <http://e/none> } ?s <http://e/is> ?x OPTIONAL { ?x <http://e/value> ?v } }",
    ] {
        let (plan, json) = explained(&database, query, true);
        assert!(!plan.to_string().contains("worst"), "{plan}");
        assert!(!json.to_string().contains("worst"), "{json:#}");
    }
    let (plan, json) = explained(&database, CORRELATED, false);
    assert!(!plan.to_string().contains("worst"), "{plan}");
    assert!(!json.to_string().contains("estimate_ratio"), "{json:#}");
}

#[test]
fn estimates_inside_lateral_are_compared_for_all_runs() {
    let database = database(&correlated(2000));
    let query = "SELECT * { ?s <http://e/is> <http://e/wet>
        LATERAL { SELECT ?s ?v { ?s <http://e/value> ?v } LIMIT 1 } }";
    let (plan, _) = explained(&database, query, true);
    let lateral = plan
        .parts()
        .into_iter()
        .find(|part| part.operator == "Lateral");
    let inside = lateral.expect("LATERAL").steps[0]
        .parts()
        .into_iter()
        .filter(|part| part.estimated_rows.is_some())
        .cloned()
        .collect::<Vec<_>>();
    assert!(
        inside
            .iter()
            .any(|part| part.measured.is_some_and(|m| m.rows == 100)),
        "{plan}"
    );
    for part in inside {
        let ratio = part.estimate_ratio.expect("it ran");
        assert!((0.25..=4.0).contains(&ratio), "{plan}");
    }
}

//! Plans in `EXPLAIN`: the quality of estimates, rejected alternatives, and the plans inside EXISTS and GRAPH.

use pythia::{Database, GraphRules, PlanNode, Query, QueryOptions};
use serde_json::Value;

use crate::optimizer::{REVIEWS_OF_MAKERS, market};
use crate::support::{answer_of, database};

/// The plan of a query, as a tree and as JSON; measured, if the query is run.
fn explained(database: &Database, query: &str, run: bool) -> (PlanNode, Value) {
    let options = QueryOptions {
        profile: run,
        explain: true,
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
fn filters_whose_ranges_are_read_are_expected_to_keep_all() {
    let value = |n| format!("\"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer>");
    let lines = (0..5000).map(|n| format!("<http://e/{n}> <http://e/value> {} .\n", value(n)));
    let database = database(&lines.collect::<String>());
    let query = "SELECT * { ?s <http://e/value> ?v FILTER(?v >= 1000 && ?v < 1400) }";
    let (plan, _) = explained(&database, query, true);
    let text = plan.to_string();
    let filters: Vec<&PlanNode> = (plan.parts().into_iter())
        .filter(|part| part.operator == "Filter")
        .collect();
    assert!(text.contains("Ranges") && !filters.is_empty(), "{text}");
    for filter in filters {
        let expected = filter.estimated_rows.expect("it is planned");
        assert!((350.0..450.0).contains(&expected), "{expected}: {text}");
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

/// `count` nodes, each with a link to the next, a label and a type; few are rare.
fn items(count: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        let next = (n * 7 + 3) % count;
        text.push_str(&format!(
            "<http://e/{n}> <http://e/next> <http://e/{next}> .\n\
             <http://e/{n}> <http://e/label> \"label {n}\" .\n\
             <http://e/{n}> <http://e/type> <http://e/Item> .\n"
        ));
        if n % (count / 10) == 0 {
            text.push_str(&format!("<http://e/{n}> <http://e/rare> \"rare {n}\" .\n"));
        }
    }
    text
}

/// The parts of this name.
fn named<'p>(plan: &'p PlanNode, name: &str) -> Vec<&'p PlanNode> {
    let parts = plan.parts().into_iter();
    parts.filter(|part| part.operator == name).collect()
}

/// The steps of the first pattern.
fn steps(plan: &PlanNode) -> &[PlanNode] {
    let patterns = named(plan, "Pattern");
    &patterns
        .first()
        .unwrap_or_else(|| panic!("no pattern in\n{plan}"))
        .steps
}

/// The operators of a plan, without the reasons and the plans inside.
fn shape(database: &Database, query: &str, explain: bool) -> Vec<(String, String, Option<f64>)> {
    let options = QueryOptions {
        explain,
        ..QueryOptions::default()
    };
    let plan = database.prepare(query, &options).expect(query).plan();
    let parts = plan.parts().into_iter();
    parts
        .map(|part| {
            (
                part.operator.clone(),
                part.detail.clone(),
                part.estimated_rows,
            )
        })
        .collect()
}

#[test]
fn a_pattern_alone_is_matched_as_the_search_says() {
    let database = database(&items(2000));
    let (s, p, o) = ("<http://e/7>", "<http://e/next>", "<http://e/52>");
    for text in [
        "?s ?p ?o".to_owned(),
        format!("{s} ?p ?o"),
        format!("?s {p} ?o"),
        format!("?s ?p {o}"),
        format!("{s} {p} ?o"),
        format!("{s} ?p {o}"),
        format!("?s {p} {o}"),
        format!("{s} {p} {o}"),
        format!("?s {p} ?s"),
    ] {
        let query = format!("SELECT * {{ {text} }}");
        let named = |explain| {
            let parts = shape(&database, &query, explain).into_iter();
            parts
                .map(|(operator, detail, _)| (operator, detail))
                .collect::<Vec<_>>()
        };
        // Without EXPLAIN there is no search.
        assert_eq!(named(false), named(true), "{text}");
    }
}

#[test]
fn each_ordered_step_shows_its_cost_and_what_was_rejected() {
    let database = database(&items(2000));
    let query = "SELECT * { ?s <http://e/label> ?l ; <http://e/rare> ?r ; <http://e/next> ?n . ?n <http://e/type> ?t }";
    for run in [false, true] {
        let (plan, json) = explained(&database, query, run);
        let steps = steps(&plan);
        assert_eq!(steps.len(), 4, "{plan}");
        for (place, step) in steps.iter().enumerate() {
            let cost = step.estimated_us.expect("a cost");
            assert!(cost > 0.0, "{plan}");
            assert_eq!(step.order.is_some(), place == 0, "{plan}");
            assert!((1..=3).contains(&step.rejected.len()), "{plan}");
            let costs: Vec<f64> = step
                .rejected
                .iter()
                .map(|r| r.estimated_us.expect("a cost"))
                .collect();
            assert!(costs.is_sorted(), "{plan}");
            for other in &step.rejected {
                assert!(
                    other.estimated_rows.is_some() && other.measured.is_none(),
                    "{plan}"
                );
                assert!(
                    (&other.operator, &other.detail) != (&step.operator, &step.detail),
                    "{plan}"
                );
            }
        }
        assert!(steps[0].detail.contains("<http://e/rare>"), "{plan}");
        // The last pattern could be joined in other ways.
        assert!(
            steps[3]
                .rejected
                .iter()
                .all(|other| other.detail == steps[3].detail),
            "{plan}"
        );
        assert!(
            steps[3]
                .rejected
                .iter()
                .any(|other| other.operator.starts_with("Hash(")),
            "{plan}"
        );
        // Elsewhere other patterns could come next.
        assert!(
            steps[1]
                .rejected
                .iter()
                .any(|other| other.detail != steps[1].detail),
            "{plan}"
        );
        let total: f64 = steps.iter().filter_map(|step| step.estimated_us).sum();
        let order = steps[0].order.as_ref().expect("several patterns");
        assert!(
            (order.estimated_us.expect("a cost") - total).abs() < 1e-6,
            "{plan}"
        );
        let text = plan.to_string();
        assert_eq!(text.matches("  order: ").count(), 1, "{text}");
        let shown = steps.iter().map(|step| step.rejected.len()).sum::<usize>();
        assert_eq!(text.matches("  rejected: ").count(), shown, "{text}");
        let other = &steps[3].rejected[0];
        let line = format!("        rejected: {} {}  ~", other.operator, other.detail);
        assert!(text.contains(&line), "{text}\n{line}");
        let listed = parts(&json)
            .into_iter()
            .find(|part| part["order"].is_object())
            .expect("an order");
        assert_eq!(listed["order"]["search"], order.search);
        let first = &listed["rejected"][0];
        for name in ["operator", "detail"] {
            assert!(first[name].is_string(), "{json:#}");
        }
        for name in ["estimated_rows", "estimated_us"] {
            assert!(
                first[name].is_number() && listed[name].is_number(),
                "{json:#}"
            );
        }
    }
}

#[test]
fn reasons_are_told_only_if_asked_and_change_no_plan() {
    let database = database(&items(2000));
    for query in [
        "SELECT * { ?s <http://e/label> ?l ; <http://e/rare> ?r ; <http://e/next> ?n }",
        "SELECT ?s { ?s <http://e/next>+ ?n . ?n <http://e/rare> ?r OPTIONAL { ?s <http://e/label> ?l ; <http://e/type> ?t } }",
        "SELECT * { ?s <http://e/next> ?n . { ?s <http://e/rare> ?x } UNION { ?n <http://e/rare> ?x } VALUES ?n { <http://e/3> <http://e/4> } }",
        "SELECT * { ?a <http://e/next> ?b . ?b <http://e/next> ?c . ?c <http://e/next> ?a }",
        "SELECT * { ?a <http://e/type> ?t . ?x <http://e/rare> ?r FILTER(?x = ?a || ?r > ?t) }",
    ] {
        let plain = shape(&database, query, false);
        assert_eq!(shape(&database, query, true), plain, "{query}");
        let prepared = database
            .prepare(query, &QueryOptions::default())
            .expect(query);
        for text in [prepared.explain(), prepared.explain_json()] {
            for word in ["rejected", "order:", "µs", "estimated_us", "\"order\""] {
                assert!(!text.contains(word), "{word} in\n{text}");
            }
        }
        let (plan, _) = explained(&database, query, true);
        let parts = plan.parts();
        assert!(parts.iter().any(|part| !part.rejected.is_empty()), "{plan}");
    }
}

#[test]
fn operands_paths_and_intersections_are_alternatives() {
    let database = database(&items(2000));
    let rejected = |query: &str| {
        let (plan, _) = explained(&database, query, false);
        let all = plan
            .parts()
            .into_iter()
            .flat_map(|part| part.rejected.clone());
        let all: Vec<String> = all
            .map(|other| format!("{} {}", other.operator, other.detail))
            .collect();
        (all, plan)
    };
    let (all, plan) = rejected(
        "SELECT * { ?s <http://e/rare> ?r ; <http://e/next> ?n .
          { ?n <http://e/label> ?x } UNION { ?n <http://e/type> ?x } ?s <http://e/next>+ ?far .
          VALUES ?n { <http://e/3> <http://e/1403> } }",
    );
    for wanted in ["Union ?n ?x", "Path =?s "] {
        assert!(
            all.iter().any(|other| other.starts_with(wanted)),
            "{wanted} in\n{plan}"
        );
    }
    let nodes: String = (0..40).map(|n| format!("<http://e/{n}> ")).collect();
    let query = format!(
        "SELECT * {{ ?s <http://e/rare> ?r ; <http://e/next> ?n VALUES ?n {{ {nodes} }} }}"
    );
    let (all, plan) = rejected(&query);
    assert!(all.iter().any(|other| other == "Values ?n"), "{plan}");
    let (all, plan) = rejected(
        "SELECT * { ?a <http://e/next> ?b . ?b <http://e/next> ?c . ?c <http://e/next> ?a . ?a <http://e/rare> ?r }",
    );
    assert_eq!(named(&plan, "Intersect").len(), 1, "{plan}");
    for wanted in ["Expand(Subject) =?b ", "Expand(Object) ?c "] {
        assert!(
            all.iter().any(|other| other.starts_with(wanted)),
            "{wanted} in\n{plan}"
        );
    }
}

#[test]
fn the_search_is_named() {
    let chain = |length: usize| {
        let patterns = (0..length).map(|n| format!("?n{n} <http://e/next> ?n{} . ", n + 1));
        format!(
            "SELECT * {{ ?n0 <http://e/rare> ?r . {} }}",
            patterns.collect::<String>()
        )
    };
    let database = database(&items(2000));
    for (length, search) in [(29, "greedy"), (79, "queue")] {
        let (plan, json) = explained(&database, &chain(length), false);
        let steps = steps(&plan);
        assert_eq!(steps.len(), length + 1, "{plan}");
        assert_eq!(
            steps[0].order.as_ref().expect("an order").search,
            search,
            "{plan}"
        );
        assert!(
            steps.iter().all(|step| step.estimated_us.is_some()),
            "{plan}"
        );
        assert!(
            steps[1..].iter().all(|step| !step.rejected.is_empty()),
            "{plan}"
        );
        assert!(json.to_string().contains(search));
        assert!(
            plan.to_string().contains(&format!("order: {search}, ")),
            "{plan}"
        );
    }
    // One pattern has no order.
    let (plan, _) = explained(&database, &chain(0), false);
    assert!(
        steps(&plan)[0].order.is_none() && steps(&plan)[0].estimated_us.is_some(),
        "{plan}"
    );
    // Starting from the few rare ones costs least at first, but the values of both ends are known.
    let query = "SELECT * { ?a <http://e/label> ?l . ?a <http://e/next> ?b . ?b <http://e/next> ?c . ?c <http://e/next> ?d .
        ?a <http://e/type> ?t . ?d <http://e/label> ?m }";
    let (plan, _) = explained(&database, query, false);
    let order = steps(&plan)[0].order.clone().expect("an order");
    match order.greedy_us {
        Some(greedy) => {
            assert_eq!(order.search, "dynamic programming", "{plan}");
            assert!(Some(greedy) > order.estimated_us, "{plan}");
            assert!(plan.to_string().contains("; the greedy order: "), "{plan}");
        }
        None => assert_eq!(order.search, "greedy", "{plan}"),
    }
}

#[test]
fn plans_say_how_many_samples_of_links_they_use() {
    let (plan, json) = explained(&database(&market()), REVIEWS_OF_MAKERS, false);
    assert!(
        plan.to_string().contains("; 2 samples of links\n"),
        "{plan}"
    );
    assert!(json.to_string().contains("\"samples\":2"), "{json}");
    // A query that takes less time than samples.
    let (plan, _) = explained(&database(&items(500)), REVIEWS_OF_MAKERS, false);
    assert!(!plan.to_string().contains("samples"), "{plan}");
}

#[test]
fn plans_inside_exists_are_shown() {
    let database = database(&items(2000));
    let query = "SELECT * { ?s <http://e/next> ?n
        FILTER(NOT EXISTS { ?s <http://e/rare> ?r . ?n <http://e/label> ?l } && EXISTS { ?n <http://e/type> ?t }) }";
    for run in [false, true] {
        let (plan, json) = explained(&database, query, run);
        let tests = named(&plan, "Exists");
        assert_eq!(tests.len(), 2, "{plan}");
        for filter in named(&plan, "Filter") {
            assert_eq!(filter.steps.len(), 1, "{plan}");
            assert_eq!(filter.steps[0].operator, "Exists", "{plan}");
        }
        assert!(
            tests[0]
                .detail
                .starts_with("with [?s ?n] { ?s <http://e/rare> ?r"),
            "{plan}"
        );
        assert!(tests[1].detail.starts_with("with [?n] {"), "{plan}");
        assert_eq!(tests[0].steps.len(), 2, "{plan}");
        assert!(
            tests[0].steps.iter().any(|step| !step.rejected.is_empty()),
            "{plan}"
        );
        for step in tests.iter().flat_map(|test| &test.steps) {
            assert!(step.estimated_rows.is_some(), "{plan}");
            assert_eq!(step.measured.is_some(), run, "{plan}");
        }
        if run {
            assert_eq!(
                tests[0].steps[1].measured.expect("measured").rows,
                10,
                "{plan}"
            );
            // The second test is not needed for the ten.
            assert_eq!(
                tests[1].steps[0].measured.expect("measured").rows,
                1990,
                "{plan}"
            );
            let ratio = tests[1].steps[0].estimate_ratio.expect("it ran");
            assert!((0.25..=4.0).contains(&ratio), "{plan}");
        }
        let text = plan.to_string();
        assert_eq!(text.matches("Exists with [").count(), 2, "{text}");
        let parts = parts(&json);
        assert_eq!(
            parts
                .iter()
                .filter(|part| part["operator"] == "Exists")
                .count(),
            2,
            "{json:#}"
        );
    }
    // A filter may have several.
    let query = "SELECT * { ?s <http://e/next> ?n
        FILTER(EXISTS { ?s <http://e/rare> ?r } || EXISTS { ?n <http://e/rare> ?r }) }";
    for run in [false, true] {
        let (plan, _) = explained(&database, query, run);
        let filters = named(&plan, "Filter");
        assert_eq!((filters.len(), filters[0].steps.len()), (1, 2), "{plan}");
        for (test, variable) in filters[0].steps.iter().zip(["?s", "?n"]) {
            let detail = format!("with [{variable}] {{ {variable} <http://e/rare> ?r");
            assert!(test.detail.starts_with(&detail), "{plan}");
            if run {
                assert_eq!(test.steps[0].measured.expect("measured").rows, 10, "{plan}");
            }
        }
    }
    let query = "SELECT * { ?s <http://e/rare> ?r } ORDER BY (EXISTS { ?s <http://e/next> ?n })";
    let (plan, _) = explained(&database, query, true);
    assert_eq!(named(&plan, "Exists").len(), 1, "{plan}");
}

#[test]
fn tests_that_run_one_by_one_show_the_first() {
    let database = database(&items(200));
    // The sub-query with its limit cannot be fed with rows.
    let query = "SELECT * { ?s <http://e/rare> ?r FILTER EXISTS {
        { SELECT ?s ?n { ?s <http://e/next> ?n . ?n <http://e/label> ?l FILTER EXISTS { ?n <http://e/type> ?t } } ORDER BY ?n LIMIT 1 } } }";
    for run in [false, true] {
        let (plan, _) = explained(&database, query, run);
        let tests = named(&plan, "Exists");
        assert_eq!(tests.len(), 2, "{plan}");
        assert!(
            tests[0].detail.starts_with("with [?s] one by one, first {"),
            "{plan}"
        );
        assert_eq!(named(tests[0], "Slice").len(), 1, "{plan}");
        if run {
            assert_eq!(
                named(tests[0], "Slice")[0].measured.expect("measured").rows,
                1,
                "{plan}"
            );
            assert_eq!(
                tests[1].steps[0].measured.expect("measured").rows,
                1,
                "{plan}"
            );
        }
    }
}

#[test]
fn tests_with_unbound_variables_and_without_rows_are_shown() {
    let database = database(&items(200));
    let query = "SELECT * { ?s <http://e/type> ?t OPTIONAL { ?s <http://e/rare> ?r }
        FILTER EXISTS { ?x <http://e/rare> ?r } }";
    let (plan, _) = explained(&database, query, true);
    let details: Vec<&str> = named(&plan, "Exists")
        .iter()
        .map(|test| test.detail.as_str())
        .collect();
    assert_eq!(details.len(), 2, "{plan}");
    assert!(
        details[0].starts_with("with [] {") && details[1].starts_with("with [?r] {"),
        "{plan}"
    );
    // A test that no row reaches has the plan that it would have.
    let query = "SELECT * { ?s <http://e/none> ?t FILTER EXISTS { ?s <http://e/rare> ?r } }";
    let (plan, _) = explained(&database, query, true);
    assert!(!plan.to_string().contains("worst"), "{plan}");
}

/// Three graphs of different size.
fn graphs() -> String {
    let mut text = String::new();
    for graph in 0..3 {
        for n in 0..(graph + 1) * 20 {
            text.push_str(&format!(
                "<http://e/{n}> <http://e/next> <http://e/{}> <http://g/{graph}> .\n\
                 <http://e/{n}> <http://e/label> \"{n}\" <http://g/{graph}> .\n",
                n + 1
            ));
        }
    }
    text
}

const PER_GRAPH: &str = "SELECT * { GRAPH ?g {
    { SELECT ?s ?l { ?s <http://e/next> ?n . ?n <http://e/label> ?l } ORDER BY ?l LIMIT 5 } } }";

#[test]
fn plans_in_each_graph_are_shown() {
    let database = database(&graphs());
    for run in [false, true] {
        let (plan, json) = explained(&database, PER_GRAPH, run);
        let each = named(&plan, "EachGraph");
        assert_eq!(each.len(), 1, "{plan}");
        assert_eq!(each[0].steps.len(), 1, "{plan}");
        let first = &each[0].steps[0];
        assert_eq!(first.operator, "Graph", "{plan}");
        assert!(
            first.detail.starts_with("<http://g/") && first.detail.ends_with(">, the first"),
            "{plan}"
        );
        assert_eq!(
            named(first, "Slice").len() + named(first, "Sort").len(),
            2,
            "{plan}"
        );
        assert!(
            steps(first)[0].order.is_some() && !steps(first)[0].rejected.is_empty(),
            "{plan}"
        );
        if run {
            assert_eq!(
                named(first, "Slice")[0].measured.expect("measured").rows,
                5,
                "{plan}"
            );
            assert_eq!(each[0].measured.expect("measured").rows, 15, "{plan}");
        }
        assert!(
            parts(&json).iter().any(|part| part["operator"] == "Graph"),
            "{json:#}"
        );
        assert!(plan.to_string().contains("    Graph <http://g/"), "{plan}");
    }
    let plain = database
        .prepare(PER_GRAPH, &QueryOptions::default())
        .expect("a plan")
        .plan();
    assert!(named(&plain, "Graph").is_empty(), "{plain}");
}

#[test]
fn explanations_reveal_no_hidden_graph() {
    let hidden: String = (0..500)
        .map(|n| {
            format!(
                "<http://e/{n}> <http://e/label> \"hidden {n}\" <http://h/{}> .\n\
                 <http://e/{n}> <http://e/secret> \"{n}\" <http://h/1> .\n",
                n % 4
            )
        })
        .collect();
    let stores = [
        database(&graphs()),
        database(&format!("{}{hidden}", graphs())),
    ];
    for query in [
        PER_GRAPH,
        "SELECT * { GRAPH ?g { ?s <http://e/next> ?n . ?n <http://e/label> ?l . ?s <http://e/secret> ?x } }",
        "SELECT * { GRAPH ?g { ?s <http://e/next> ?n . ?n <http://e/label> ?l } }",
        "SELECT * { GRAPH <http://g/1> { ?s <http://e/next> ?n ; <http://e/label> ?l FILTER NOT EXISTS { ?n <http://e/label> ?l . ?n <http://e/secret> ?y } } }",
        "SELECT * { GRAPH <http://g/1> { ?s <http://e/next> ?n } LATERAL { SELECT ?n ?l { GRAPH ?h { ?n <http://e/label> ?l ; <http://e/next> ?o } } LIMIT 2 } }",
    ] {
        let parsed = Query::parse(query, None).expect(query);
        let told = stores.each_ref().map(|store| {
            let options = QueryOptions {
                explain: true,
                visible: GraphRules::parse(&["http://g/*"]).expect("rules"),
                ..QueryOptions::default()
            };
            let prepared = store.prepare_parsed(&parsed, &options).expect(query);
            let before = prepared.explain_json();
            answer_of(prepared.execute().expect(query)).expect(query);
            (before, prepared.explain_json(), prepared.explain())
        });
        assert_eq!(told[0], told[1], "{query}");
        let (_, json, text) = &told[0];
        assert!(!json.contains("_us\"") && !text.contains("µs"), "{text}");
        // Where nothing has the predicate, nothing is joined.
        let is_empty = query.contains("?s <http://e/secret>");
        assert_eq!(json.contains("rejected"), !is_empty, "{text}");
    }
}

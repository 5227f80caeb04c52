//! What the optimiser saves, counted in rows and pages.

use pythia::{Database, Options, PlanNode, QueryOptions};

use crate::support::{Peer, analyze, answer_of, database, database_with, ours};

/// Rows that all operators and steps gave together.
fn rows(plan: &PlanNode) -> u64 {
    let measured = plan.parts().into_iter().filter_map(|part| part.measured);
    measured.map(|m| m.rows).sum()
}

/// Checks the answer against Oxigraph's and gives the measured plan.
fn checked(data: &str, query: &str) -> PlanNode {
    let (lines, plan) = analyze(&database(data), query);
    let expected = Peer::new(data).answer(query).unwrap().sorted().lines;
    assert_eq!(lines, expected, "{query}\n{plan}");
    plan
}

/// The first operator or step of this name.
fn part(plan: &PlanNode, name: &str) -> PlanNode {
    let parts = plan.parts();
    let found = parts.into_iter().find(|part| part.operator == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in\n{plan}"));
    found.clone()
}

/// `count` nodes, each with a link to the next, a value, a label and a type; few are rare.
fn items(count: usize) -> String {
    let mut text = String::new();
    for i in 0..count {
        let next = (i * 7 + 3) % count;
        text.push_str(&format!(
            "<http://e/{i}> <http://e/next> <http://e/{next}> .\n\
             <http://e/{i}> <http://e/value> \"{i}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
             <http://e/{i}> <http://e/label> \"label {i}\" .\n\
             <http://e/{i}> <http://e/type> <http://e/Item> .\n"
        ));
        if i % (count / 10) == 0 {
            text.push_str(&format!("<http://e/{i}> <http://e/rare> \"rare {i}\" .\n"));
        }
    }
    text
}

#[test]
fn explain_analyze_counts_rows_and_pages_of_every_step() {
    let plan = checked(
        &items(2000),
        "SELECT ?s ?l { ?s <http://e/rare> ?r ; <http://e/label> ?l OPTIONAL { ?s <http://e/next> ?n } }
         ORDER BY ?l",
    );
    let part = |name: &str| {
        let parts = plan.parts();
        let found = parts.into_iter().find(|part| part.operator == name);
        found
            .unwrap_or_else(|| panic!("no {name} in\n{plan}"))
            .clone()
    };
    for name in ["Sort", "Pattern", "Optional"] {
        assert_eq!(part(name).measured.unwrap().rows, 10, "{plan}");
        assert!(
            part(name).estimated_rows.is_some() || name == "Sort",
            "{plan}"
        );
    }
    assert!(plan.pages() > 0, "{plan}");
    assert!(plan.to_string().contains("<http://e/rare>"), "{plan}");
    // Ten solutions through a handful of steps; nothing scans the two thousand.
    assert!(rows(&plan) <= 100, "{plan}");
}

#[test]
fn plans_are_json_and_measure_nothing_unless_asked() {
    let database = database(&items(100));
    let query = "SELECT ?s ?r { ?s <http://e/rare> ?r }";
    let prepared = database.prepare(query, &QueryOptions::default()).unwrap();
    answer_of(prepared.execute().unwrap()).unwrap();
    assert!(prepared.plan().parts().iter().all(|p| p.measured.is_none()));
    let json: serde_json::Value = serde_json::from_str(&prepared.explain_json()).unwrap();
    let step = &json["steps"][0];
    assert_eq!(step["estimated_rows"], 10.0, "{json}");
    assert!(step["detail"].as_str().unwrap().contains("<http://e/rare>"));
    assert!(step.get("rows").is_none(), "{json}");
}

/// A graph whose values are of every numeric kind, with others among them, some in other graphs.
fn values() -> String {
    const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
    let mut text = String::new();
    for i in 0..3000 {
        let value = match i % 10 {
            0 => format!("\"{}.5\"^^<{XSD}decimal>", i),
            1 => format!("\"{i}.0E0\"^^<{XSD}double>"),
            2 => format!("\"{i}\"^^<{XSD}int>"),
            3 => format!("\"00{i}\"^^<{XSD}integer>"),
            4 => format!("\"value {i}\""),
            5 => format!("\"value {i}\"@en"),
            6 => format!("<http://v/{i}>"),
            7 => format!("\"20{:02}-01-01\"^^<{XSD}date>", i % 100),
            _ => format!("\"{i}\"^^<{XSD}integer>"),
        };
        let graph = if i % 50 == 9 { "<http://g/1> " } else { "" };
        text.push_str(&format!("<http://e/{i}> <http://e/v> {value} {graph}.\n"));
    }
    let large = "9".repeat(40);
    text.push_str(&format!(
        "<http://e/x> <http://e/v> \"{large}\"^^<{XSD}integer> .\n"
    ));
    text.push_str(&format!(
        "<http://e/y> <http://e/v> \"NaN\"^^<{XSD}double> .\n"
    ));
    text.push_str("<http://e/z> <http://e/v> \"value\"^^<http://t/own> .\n");
    text.push_str("<http://e/z> <http://e/v> _:b .\n");
    text
}

/// Runs a filter over all values, checks that it finds what it finds where it cannot be pushed
/// down, and gives the measured plan. (Oxigraph does not keep lexical forms apart.)
fn filtered(database: &Database, filter: &str) -> PlanNode {
    let query = |filter: &str| format!("SELECT ?s ?v {{ ?s <http://e/v> ?v FILTER({filter}) }}");
    let (lines, plan) = analyze(database, &query(filter));
    let (expected, scanned) = analyze(database, &query(&format!("IF({filter}, true, false)")));
    assert!(
        scanned
            .parts()
            .iter()
            .all(|part| !part.operator.starts_with("Ranges")),
        "{scanned}"
    );
    assert_eq!(lines, expected, "{filter}\n{plan}");
    plan
}

#[test]
fn a_range_filter_reads_only_the_range_and_finds_every_kind_of_number() {
    let database = database(&values());
    for (filter, most) in [
        ("?v > 100 && ?v < 200", 700),
        ("?v = 1234", 700),
        ("?v >= 2990", 700),
        ("?v < 0", 700),
        ("100.5 <= ?v && ?v <= 1.02E2", 700),
        (
            "?v > \"2050-01-01\"^^<http://www.w3.org/2001/XMLSchema#date>",
            700,
        ),
        ("?v = 1 || ?v = 2 || ?v = \"value 4\"", 700),
    ] {
        let plan = filtered(&database, filter);
        let read = part(&plan, "Ranges(Pos)").measured.unwrap().rows;
        // Typed literals too long for an id, and doubles, are looked at one by one.
        assert!(read <= most, "{filter} read {read} rows\n{plan}");
    }
    // No range: the filter may be true of anything.
    for filter in ["?v != 3", "!(?v < 3)", "?v < 3 || isIRI(?v)", "?v + 1 < 9"] {
        filtered(&database, filter);
    }
}

#[test]
fn tests_of_kind_datatype_and_language_read_only_terms_that_may_pass() {
    const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
    let database = database(&values());
    for (filter, most) in [
        ("isIRI(?v)", 300),
        ("isBlank(?v)", 1),
        ("!isLiteral(?v)", 301),
        ("!isIRI(?v) && !isNumeric(?v)", 1300),
        ("isNumeric(?v)", 1850),
        ("hasLang(?v)", 300),
        ("LANG(?v) = \"en\"", 300),
        ("\"EN\" = LANG(?v)", 300),
        ("LANGMATCHES(LANG(?v), \"*\")", 300),
        (&format!("DATATYPE(?v) = <{XSD}string>"), 300),
        (&format!("DATATYPE(?v) = <{XSD}integer>"), 910),
        (&format!("DATATYPE(?v) = <{XSD}int>"), 700),
        (&format!("DATATYPE(?v) = <{XSD}date>"), 610),
        (&format!("DATATYPE(?v) = <{XSD}date> || isIRI(?v)"), 910),
        ("DATATYPE(?v) = <http://t/own>", 610),
        (
            "DATATYPE(?v) = <http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>",
            900,
        ),
    ] {
        let plan = filtered(&database, filter);
        let read = part(&plan, "Ranges(Pos)").measured.unwrap().rows;
        assert!(read <= most, "{filter} read {read} rows\n{plan}");
    }
    // Most terms may pass.
    for filter in ["LANG(?v) = \"\"", "!isBlank(?v)", "!hasLang(?v)"] {
        filtered(&database, filter);
    }
}

#[test]
fn a_prefix_reads_only_terms_that_start_with_it() {
    let database = database(&values());
    for (filter, most) in [
        ("STRSTARTS(?v, \"value 29\")", 40),
        ("REGEX(?v, \"^value 29\")", 40),
        ("REGEX(?v, \"^value 2?9\")", 620),
    ] {
        let plan = filtered(&database, filter);
        let read = part(&plan, "Ranges(Pos)").measured.unwrap().rows;
        assert!(read <= most, "{filter} read {read} rows\n{plan}");
    }
    let plan = filtered(&database, "?v IN (<http://v/6>, <http://v/16>)");
    assert!(rows(&plan) <= 6, "{plan}");
    for filter in [
        "?v = \"value 4\"",
        "?v = \"value 5\"@en",
        "?v = <http://v/6>",
        "?v = \"nowhere\"",
    ] {
        let plan = filtered(&database, filter);
        assert!(rows(&plan) <= 3, "{filter}\n{plan}");
    }
    for filter in [
        "STRSTARTS(STR(?v), \"http://v/29\")",
        "STRSTARTS(STR(?v), \"29\")",
        "REGEX(STR(?v), \"^value 29\")",
        "REGEX(?v, \"^value 29|9\")",
        "REGEX(?v, \"^VALUE 29\", \"i\")",
        "STRSTARTS(?v, \"value 29\"@en)",
    ] {
        filtered(&database, filter);
    }
    let plan = filtered(&database, "STRSTARTS(STR(?s), \"http://e/29\")");
    assert!(
        part(&plan, "Ranges(Pso)").measured.unwrap().rows <= 120,
        "{plan}"
    );
}

/// Pages of quads, not of terms, that were asked for since `before`.
fn data_pages(database: &Database, before: &pythia::Counters) -> u64 {
    let now = database.counters().since(before);
    ["spo", "ops", "pso", "pos"]
        .map(|order| now.group(order).pages())
        .iter()
        .sum()
}

#[test]
fn counts_come_from_metadata_without_reading_data() {
    let data = items(2000);
    let (database, reference) = (database(&data), Peer::new(&data));
    for (query, pages) in [
        ("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", 0),
        ("SELECT (COUNT(*) AS ?n) { ?s <http://e/next> ?o }", 0),
        (
            "SELECT (COUNT(?s) AS ?n) (COUNT(?x) AS ?m) { ?s <http://e/next> ?o }",
            0,
        ),
        (
            "SELECT (COUNT(DISTINCT *) AS ?n) { ?s <http://e/next> ?o }",
            0,
        ),
        (
            "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s <http://e/type> ?o }",
            0,
        ),
        (
            "SELECT (COUNT(DISTINCT ?o) AS ?n) { ?s <http://e/type> ?o }",
            0,
        ),
        (
            "SELECT (COUNT(DISTINCT ?s) AS ?n) (COUNT(DISTINCT ?o) AS ?m) { ?s ?p ?o }",
            0,
        ),
        ("SELECT (COUNT(DISTINCT ?p) AS ?n) { ?s ?p ?o }", 0),
        (
            "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s <http://e/none> ?o }",
            0,
        ),
        (
            "SELECT (COUNT(*) AS ?n) { ?s <http://e/type> <http://e/Item> }",
            2,
        ),
        ("SELECT (COUNT(*) AS ?n) { <http://e/7> ?p ?o }", 2),
        (
            "SELECT (COUNT(DISTINCT ?p) AS ?n) { <http://e/7> ?p <http://e/Item> }",
            2,
        ),
        ("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p", 0),
        (
            "SELECT ?p (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o } GROUP BY ?p HAVING (COUNT(?s) > 100) ORDER BY ?p",
            0,
        ),
        ("SELECT DISTINCT ?p { ?s ?p ?o }", 0),
    ] {
        let before = database.counters();
        let (lines, plan) = analyze(&database, query);
        assert_eq!(
            lines,
            reference.answer(query).unwrap().sorted().lines,
            "{query}"
        );
        let read = data_pages(&database, &before);
        assert!(read <= pages, "{query} read {read} pages\n{plan}");
    }
}

#[test]
fn counts_of_one_graph_among_several_are_not_those_of_all() {
    let data = values();
    for query in [
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
        "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s <http://e/v> ?o }",
        "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p",
        "SELECT DISTINCT ?p { ?s ?p ?o }",
        "SELECT (COUNT(*) AS ?n) { GRAPH <http://g/1> { ?s ?p ?o } }",
        "SELECT (COUNT(DISTINCT ?s) AS ?n) { GRAPH <http://g/1> { ?s ?p ?o } }",
        "SELECT (COUNT(*) AS ?n) { GRAPH <http://g/none> { ?s ?p ?o } }",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?s }",
    ] {
        checked(&data, query);
    }
}

/// Whether there is an operator or step of this name.
fn has(plan: &PlanNode, name: &str) -> bool {
    plan.parts().iter().any(|part| part.operator == name)
}

#[test]
fn a_small_side_keeps_joins_from_reading_the_large_one() {
    let data = items(4000);
    for query in [
        // A small predicate in every place of the query.
        "SELECT ?s ?l { ?s <http://e/label> ?l . ?s <http://e/type> ?t . ?s <http://e/rare> ?r }",
        "SELECT ?s ?n { ?s <http://e/next> ?n . ?n <http://e/next> ?m . ?m <http://e/rare> ?r }",
        "SELECT ?s ?x { ?s <http://e/rare> ?r OPTIONAL { ?s <http://e/next> ?n . ?n <http://e/label> ?x } }",
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?s <http://e/next> ?n . ?n <http://e/value> 3 } }",
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?s <http://e/next> ?n . ?n <http://e/label> ?l } }",
        "SELECT ?s { ?s <http://e/rare> ?r FILTER EXISTS { ?s <http://e/next> ?n . ?n <http://e/label> ?l } }",
        "SELECT ?s { ?s <http://e/rare> ?r FILTER NOT EXISTS { ?s <http://e/next> ?n . ?n <http://e/rare> ?l } }",
        "SELECT ?s ?v { VALUES ?s { <http://e/1> <http://e/2> } ?s <http://e/value> ?v }",
    ] {
        let plan = checked(&data, query);
        assert!(rows(&plan) <= 200, "{query}\n{plan}");
        assert!(plan.pages() <= 150, "{query}\n{plan}");
    }
    let plan = checked(
        &data,
        "ASK { ?s <http://e/next> ?n . ?n <http://e/label> ?l }",
    );
    assert!(plan.pages() <= 60, "{plan}");
    let plan = checked(
        &data,
        "SELECT (COUNT(DISTINCT ?t) AS ?c) { ?s <http://e/type> ?t . ?s <http://e/next> ?n OPTIONAL { ?s <http://e/none> ?x } }",
    );
    assert!(!has(&plan, "Optional"), "{plan}");
}

#[test]
fn minus_looks_from_each_solution_only_where_that_is_the_same() {
    let data = items(3000);
    let seeded = checked(
        &data,
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?s <http://e/next> ?n } }",
    );
    assert!(has(&seeded, "Without"), "{seeded}");
    for query in [
        // Nothing shared; shared only sometimes; a filter that would see more from outside.
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?a <http://e/next> ?b } }",
        "SELECT ?s { ?s <http://e/rare> ?r OPTIONAL { ?s <http://e/none> ?n } MINUS { ?s <http://e/next> ?n } }",
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?s <http://e/next> ?n FILTER(?r != 3) } }",
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/rare> ?r } } }",
    ] {
        checked(&data, query);
    }
}

#[test]
fn distinct_drops_duplicates_before_they_multiply() {
    // A hundred groups, each of whose thirty members links to all of the group's thirty hubs.
    let mut data = String::new();
    for member in 0..3000 {
        let group = member % 100;
        data.push_str(&format!(
            "<http://e/{member}> <http://e/in> <http://g/{group}> .\n"
        ));
        for hub in 0..30 {
            data.push_str(&format!(
                "<http://g/{group}> <http://e/hub> <http://h/{group}/{hub}> .\n"
            ));
            data.push_str(&format!(
                "<http://h/{group}/{hub}> <http://e/of> <http://k/{hub}> .\n"
            ));
        }
    }
    let plan = checked(
        &data,
        "SELECT DISTINCT ?k { ?m <http://e/in> ?g . ?g <http://e/hub> ?h . ?h <http://e/of> ?k }",
    );
    // Without it there are 90,000 members times hubs, twice.
    assert!(rows(&plan) <= 20_000, "{plan}");
    let plan = checked(
        &data,
        "SELECT DISTINCT ?m { ?m <http://e/in> ?g . ?g <http://e/hub> ?h OPTIONAL { ?g <http://e/hub> ?x } }",
    );
    assert!(rows(&plan) <= 20_000, "{plan}");
    assert!(!has(&plan, "Optional"), "{plan}");
    for query in [
        "SELECT DISTINCT ?m ?k { ?m <http://e/in> ?g . ?g <http://e/hub> ?h . ?h <http://e/of> ?k } ORDER BY ?k ?m LIMIT 7",
        "SELECT DISTINCT ?g { ?m <http://e/in> ?g { ?g <http://e/hub> ?h } UNION { ?m <http://e/in> ?x } }",
        "SELECT DISTINCT ?a ?b { ?a <http://e/hub> ?x . ?b <http://e/hub> ?y . ?x <http://e/of> ?k . ?y <http://e/of> ?k FILTER(?a = <http://g/1>) }",
    ] {
        checked(&data, query);
    }
}

#[test]
fn stars_are_estimated_by_what_subjects_have_together() {
    // Everything has a label; only one in forty has both of two rare predicates, always together.
    let mut data = String::new();
    for i in 0..4000 {
        data.push_str(&format!("<http://e/{i}> <http://e/label> \"{i}\" .\n"));
        let (a, b) = if i % 40 == 0 { ("a", "b") } else { ("c", "d") };
        data.push_str(&format!("<http://e/{i}> <http://e/{a}> \"{i}\" .\n"));
        data.push_str(&format!("<http://e/{i}> <http://e/{b}> \"{i}\" .\n"));
    }
    let plan = checked(
        &data,
        "SELECT ?s { ?s <http://e/label> ?l ; <http://e/a> ?a ; <http://e/b> ?b }",
    );
    let estimated = part(&plan, "Pattern").estimated_rows.unwrap();
    assert!((90.0..=110.0).contains(&estimated), "{plan}");
    let plan = checked(&data, "SELECT ?s { ?s <http://e/a> ?a ; <http://e/c> ?b }");
    assert!(
        part(&plan, "Pattern").estimated_rows.unwrap() <= 1.0,
        "{plan}"
    );
}

/// A filter over an end of `?s ?p ?o` reads only the predicates and ids that may pass.
#[test]
fn a_filter_over_any_predicate_reads_few_predicates() {
    let mut data = items(2000);
    for n in 0..20 {
        data.push_str(&format!("<http://e/s{n}> <http://e/made> _:b{n} .\n"));
        data.push_str(&format!("_:b{n} <http://e/by> \"maker {n}\" .\n"));
    }
    for (query, predicates) in [
        ("?s ?p ?o FILTER(isBlank(?o))", true),
        ("?s ?p ?o FILTER(isBlank(?s))", true),
        (
            "?s ?p ?o FILTER(isBlank(?o) && !isIRI(?o)) FILTER(?s != <http://e/s1>)",
            true,
        ),
        ("?s ?p ?o FILTER(isBlank(?o)) ?o <http://e/by> ?m", false),
        ("?s ?p ?s FILTER(isBlank(?s))", false),
        ("?s ?p ?o FILTER(isLiteral(?o))", false),
        ("?s ?p ?o FILTER(isIRI(?s) && isBlank(?o))", true),
        (
            "VALUES ?p { <http://e/made> } ?s ?p ?o FILTER(isBlank(?o))",
            false,
        ),
        ("BIND(<http://e/s3> AS ?w) ?s ?p ?o FILTER(?s = ?w)", false),
        (
            "?s ?p ?o BIND(<http://e/s3> AS ?w) FILTER(?s = ?w && BOUND(?w))",
            false,
        ),
        (
            "?s ?p ?o BIND(<http://e/s3> AS ?w) FILTER(?s = ?w || ?o = ?w)",
            false,
        ),
        ("?s ?p ?o BIND(\"maker 3\" AS ?w) FILTER(?o = ?w)", false),
        ("?s ?p ?o BIND(3 AS ?w) FILTER(?o = ?w + 1)", false),
    ] {
        let plan = checked(&data, &format!("SELECT ?s ?p ?o ?m ?w {{ {query} }}"));
        let lists = plan.to_string().contains("Values ?p") && plan.to_string().contains("Ranges");
        assert_eq!(lists, predicates, "{query}\n{plan}");
    }
}

/// Estimates are the same for every order of the text, and near the truth for classes: all subjects of a class have
/// what an average subject does not.
#[test]
fn stars_with_constants_are_estimated_within_their_subjects() {
    let mut data = String::new();
    let mut add = |s: String, p: &str, o: String| {
        data.push_str(&format!("<http://e/{s}> {p} <http://e/{o}> .\n"));
    };
    let a = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>";
    for i in 0..2000 {
        add(format!("p{i}"), a, "Product".to_owned());
        add(format!("p{i}"), a, format!("T{}", i % 20));
        for n in 0..5 {
            add(
                format!("p{i}"),
                "<http://e/feature>",
                format!("f{}", i * 7 % 97 + n),
            );
        }
    }
    for i in 0..20_000 {
        add(format!("o{i}"), a, "Offer".to_owned());
        add(format!("o{i}"), "<http://e/of>", format!("p{}", i % 2000));
    }
    let patterns = [
        "?p a <http://e/T3>",
        "?p <http://e/feature> ?f",
        "?o <http://e/of> ?p",
    ];
    let orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]];
    let database = database(&data);
    let mut estimates = Vec::new();
    for order in orders {
        let text = order.map(|place| patterns[place]).join(" . ");
        let (_, plan) = analyze(&database, &format!("SELECT * {{ {text} }}"));
        let last = part(&plan, "Pattern").steps.last().cloned().unwrap();
        estimates.push(last.estimated_rows.unwrap());
    }
    let (first, real) = (estimates[0], 100.0 * 5.0 * 10.0);
    assert!((real / 1.5..=real * 1.5).contains(&first), "{estimates:?}");
    let differ = |other: &f64| (other - first).abs() > 1e-6 * first;
    assert!(!estimates.iter().any(differ), "{estimates:?}");
}

/// A random graph in which there are many more paths than triangles.
fn dense() -> String {
    let (nodes, degree, mut random) = (400_u64, 30, 7_u64);
    let mut text = String::new();
    for node in 0..nodes {
        for _ in 0..degree {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let other = (random >> 33) % nodes;
            text.push_str(&format!(
                "<http://n/{node}> <http://e/p> <http://n/{other}> .\n"
            ));
        }
        text.push_str(&format!(
            "<http://n/{node}> <http://e/q> <http://n/{}> .\n",
            node * 7 % nodes
        ));
    }
    text
}

#[test]
fn triangles_are_intersected_not_enumerated() {
    let data = dense();
    let triangle = "?a <http://e/p> ?b . ?b <http://e/p> ?c . ?c <http://e/p> ?a";
    let plan = checked(&data, &format!("SELECT ?a ?b ?c {{ {triangle} }}"));
    let found = plan.measured.unwrap().rows;
    let most = plan
        .parts()
        .into_iter()
        .filter_map(|p| p.measured)
        .map(|m| m.rows)
        .max();
    // Joined two at a time, some step gives all 350,000 paths of two edges.
    assert!(most.unwrap() <= found.max(12_000), "{plan}");
    assert!(has(&plan, "Intersect"), "{plan}");
    for query in [
        format!("SELECT DISTINCT ?a {{ {triangle} }}"),
        format!("SELECT DISTINCT ?a ?b {{ {triangle} }}"),
        format!("SELECT (COUNT(*) AS ?n) {{ {triangle} . ?a <http://e/q> ?d . ?b <http://e/p> ?d }}"),
        "SELECT ?a ?b ?c ?d { ?a <http://e/p> ?b . ?b <http://e/p> ?c . ?c <http://e/p> ?d . ?d <http://e/q> ?a . ?a <http://e/q> ?c }".to_owned(),
        "SELECT ?x { <http://n/1> <http://e/p> ?x . <http://n/2> <http://e/p> ?x . ?x <http://e/p> <http://n/3> }".to_owned(),
        "SELECT ?a ?b { ?a <http://e/p> ?b . ?b <http://e/p> ?a }".to_owned(),
    ] {
        checked(&data, &query);
    }
}

#[test]
fn the_first_of_many_are_sorted_in_little_memory() {
    let data = items(40_000);
    let query =
        "SELECT ?s ?v { ?s <http://e/value> ?v ; <http://e/label> ?l } ORDER BY DESC(?v) LIMIT 5";
    let options = Options {
        memory_bytes: 2 << 20,
        ..Options::default()
    };
    // All solutions take more than twice as much.
    let (lines, plan) = analyze(&database_with(&data, options), query);
    assert_eq!(
        lines,
        Peer::new(&data).answer(query).unwrap().sorted().lines
    );
    assert!(part(&plan, "Sort").measured.unwrap().rows == 5, "{plan}");
}

/// A directed graph in which each node has a few links to others anywhere, and a text.
fn random_graph(nodes: u64) -> String {
    let mut text = String::new();
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    for node in 0..nodes {
        for _ in 0..5 {
            let other = random() % nodes;
            text.push_str(&format!(
                "<http://e/{node}> <http://e/to> <http://e/{other}> .\n"
            ));
        }
        let words: String = (0..8).map(|_| format!("{:x} ", random())).collect();
        text.push_str(&format!(
            "<http://e/{node}> <http://e/text> \"{words}\" .\n"
        ));
    }
    text
}

/// What was read of each group of files for a query that finds nothing in the pool, and that at most
/// a few pages were read one by one.
fn read_in_batches(database: &Database, query: &str) -> pythia::Counters {
    database.clear_cache().unwrap();
    let before = database.counters();
    ours(database, query).unwrap();
    let read = database.counters().since(&before);
    for (name, group) in &read.groups {
        let batches_max = 8 + group.device_pages / 8;
        assert!(
            group.device_batches <= batches_max,
            "{query}: {name}\n{read}"
        );
    }
    read
}

#[test]
fn joins_and_scans_read_pages_in_batches() {
    let database = database(&random_graph(20_000));
    for (query, group) in [
        (
            "SELECT (COUNT(*) AS ?n) { ?a <http://e/to> ?b . ?b <http://e/to> ?c }",
            "pso",
        ),
        (
            "SELECT (MAX(?d) AS ?n) { ?a <http://e/to> ?b . ?b <http://e/to> ?c . ?c <http://e/to> ?d }",
            "pos",
        ),
        (
            "SELECT (MAX(?t) AS ?n) { ?a <http://e/to> ?b ; <http://e/text> ?t }",
            "pso",
        ),
        (
            "SELECT (COUNT(*) AS ?n) { ?a <http://e/to> ?b . FILTER(?a > ?b) ?b <http://e/text> ?t }",
            "pos",
        ),
        (
            "SELECT (COUNT(?p) AS ?n) { ?a <http://e/to> ?b . ?b ?p ?c }",
            "spo",
        ),
    ] {
        let read = read_in_batches(&database, query);
        assert!(read.group(group).device_pages >= 10, "{query}\n{read}");
    }
}

#[test]
fn computed_terms_are_looked_up_in_batches() {
    let data = random_graph(60_000);
    let all = {
        let query =
            "SELECT (COUNT(*) AS ?n) { ?a <http://e/text> ?t FILTER(CONTAINS(?t, \"abc\")) }";
        let read = read_in_batches(&database(&data), query);
        read.group("dictionary").device_pages
    };
    for query in [
        "SELECT ?t { ?a <http://e/text> ?t } ORDER BY LCASE(?t) LIMIT 1",
        "SELECT ?k (COUNT(*) AS ?n) { ?a <http://e/text> ?t } GROUP BY (UCASE(?t) AS ?k) LIMIT 1",
        "SELECT (COUNT(DISTINCT ?k) AS ?n) { ?a <http://e/text> ?t BIND(CONCAT(?t, \"!\") AS ?k) }",
    ] {
        let options = Options {
            cache_bytes: 1 << 20,
            ..Options::default()
        };
        let read = read_in_batches(&database_with(&data, options), query);
        let pages = read.group("dictionary").device_pages;
        // Up to 4,096 rows at a time: once for their texts, and once for what is made of them.
        let parts = 60_000_u64.div_ceil(4096) + 2;
        assert!(
            pages <= 2 * parts * all,
            "{pages} of {all} pages: {query}\n{read}"
        );
    }
}

#[test]
fn a_filter_over_texts_reads_the_dictionary_in_order() {
    let data = random_graph(60_000);
    let query = "SELECT (COUNT(*) AS ?n) { ?a <http://e/text> ?t FILTER(CONTAINS(?t, \"abc\")) }";
    let pages = |database: &Database| {
        let read = read_in_batches(database, query);
        read.group("dictionary").device_pages
    };
    let all = pages(&database(&data));
    let options = Options {
        cache_bytes: 1 << 20,
        ..Options::default()
    };
    // The first few solutions are tested alone, and most of the others together.
    let read = pages(&database_with(&data, options));
    assert!(all >= 80 && read <= 3 * all, "{read} reads of {all} pages");
}

#[test]
fn the_first_rows_of_a_scan_read_few_pages() {
    let database = database(&items(20_000));
    for query in [
        "SELECT * { ?s ?p ?o } LIMIT 10",
        "SELECT ?s { ?s ?p ?o } OFFSET 5 LIMIT 1",
        "ASK { ?s ?p ?o }",
    ] {
        let (_, plan) = analyze(&database, query);
        assert!(plan.pages() <= 24, "{query}\n{plan}");
    }
}

/// Conditions outside a sub-SELECT apply to what it groups only if they select whole groups.
#[test]
fn conditions_outside_select_groups_inside() {
    let data = items(300);
    for query in [
        // Keys that every grouped solution binds.
        "{ SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n } FILTER(?n = <http://e/3>)",
        "?n <http://e/rare> ?r { SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n }",
        "?n <http://e/rare> ?r { SELECT ?n (MAX(?v) AS ?m) { ?s <http://e/next> ?n ; <http://e/value> ?v }
           GROUP BY ?n HAVING (MAX(?v) > 9) }",
        "?n <http://e/rare> ?r { SELECT DISTINCT ?n ?t (COUNT(?s) AS ?c)
           { ?s <http://e/next> ?n ; <http://e/type> ?t } GROUP BY ?n ?t } FILTER(?t = <http://e/Item>)",
        // Keys that some leave unbound, and which the patterns outside bind.
        "?s <http://e/rare> ?r { SELECT ?r (COUNT(*) AS ?c)
           { ?x <http://e/type> ?t OPTIONAL { ?x <http://e/rare> ?r } } GROUP BY ?r } FILTER(?r = \"rare 30\")",
        // No keys: aggregates, their names, and slices.
        "?n <http://e/rare> ?r { SELECT (COUNT(*) AS ?c) { ?s <http://e/next> ?n } } FILTER(?c = 300)",
        "{ SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n } FILTER(?c = 1 && ?n != <http://e/3>)",
        "{ SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n ORDER BY ?n LIMIT 4 } FILTER(?n = <http://e/3>)",
        "{ SELECT (?s AS ?n) (COUNT(*) AS ?c) { ?s <http://e/next> ?x } GROUP BY ?s } FILTER(?n = <http://e/3>)",
    ] {
        checked(&data, &format!("SELECT ?n ?s ?r ?t ?c ?m {{ {query} }}"));
    }
}

/// EXISTS over few solutions comes first, and NOT EXISTS over few is hashed; both are tests where variables are shared in
/// other ways.
#[test]
fn exists_over_few_solutions_is_a_join() {
    let data = items(300);
    for (query, joins) in [
        (
            "?s <http://e/next> ?n FILTER EXISTS { ?n <http://e/rare> ?r }",
            true,
        ),
        (
            "?s <http://e/next> ?n FILTER EXISTS { { ?n <http://e/rare> ?r } UNION { ?n <http://e/rare> ?q } }",
            true,
        ),
        (
            "?s <http://e/next> ?n FILTER EXISTS { ?s <http://e/next>/<http://e/rare> ?r }",
            true,
        ),
        (
            "?s <http://e/next> ?n ; <http://e/value> ?v FILTER EXISTS { ?n <http://e/rare> ?r FILTER(?v > 100) }",
            false,
        ),
        (
            "?s <http://e/next> ?n FILTER NOT EXISTS { ?n <http://e/rare> ?r }",
            true,
        ),
        (
            "?s <http://e/next> ?n FILTER NOT EXISTS { ?n <http://e/rare> ?r } OPTIONAL { ?n <http://e/type> ?t }",
            true,
        ),
        (
            "?s <http://e/next> ?n FILTER NOT EXISTS { ?n <http://e/type> ?t }",
            false,
        ),
        (
            "?s <http://e/next> ?n FILTER NOT EXISTS { ?x <http://e/rare> ?r }",
            false,
        ),
        (
            "?s <http://e/next> ?n FILTER EXISTS { ?x <http://e/rare> ?r }",
            false,
        ),
        (
            "?s <http://e/next> ?n FILTER EXISTS { ?n <http://e/type> ?t }",
            false,
        ),
        (
            "?s <http://e/rare> ?x OPTIONAL { ?s <http://e/next> ?n } FILTER EXISTS { ?n <http://e/rare> ?r }",
            false,
        ),
    ] {
        let plan = checked(&data, &format!("SELECT ?n ?s ?r ?t ?c ?m {{ {query} }}"));
        let tests = plan.to_string().contains("EXISTS");
        assert_eq!(!tests, joins, "{query}\n{plan}");
    }
}

/// Estimates of operands inside operands must not multiply.
#[test]
fn deeply_nested_unions_are_planned_soon() {
    let database = database(&items(50));
    let mut pattern = "?s <http://e/type> ?t".to_owned();
    for n in 0..60 {
        pattern = format!(
            "{{ {pattern} }} UNION {{ ?s <http://e/none> ?p{n} }} ?s <http://e/next> ?n{n} ."
        );
    }
    let answer = ours(&database, &format!("SELECT ?s {{ {pattern} }}")).unwrap();
    assert_eq!(answer.lines.len(), 50);
}

/// Products with features, and offers with prices of every kind of number, and some that are none.
fn offers() -> String {
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let mut text = String::new();
    for product in 0..40 {
        let kind = if product < 30 { "T" } else { "U" };
        text.push_str(&format!(
            "<http://e/p{product}> <http://e/type> <http://e/{kind}> .\n"
        ));
        for feature in 0..12 {
            if (product * 7 + feature * 5) % 4 == 0 || feature == 11 {
                text.push_str(&format!(
                    "<http://e/p{product}> <http://e/feature> <http://e/f{feature}> .\n"
                ));
            }
        }
        for offer in 0..product % 5 {
            let name = format!("<http://e/o{product}-{offer}>");
            let (price, datatype) = match (product + offer) % 9 {
                0 if product % 2 == 0 => ("dear".to_owned(), "string"),
                1 | 2 => (format!("{}.25", product), "decimal"),
                3 => (format!("{}.5", product), "float"),
                4 => (format!("{}.5E1", product), "double"),
                _ => (product.to_string(), "integer"),
            };
            text.push_str(&format!(
                "{name} <http://e/of> <http://e/p{product}> .\n\
                 {name} <http://e/price> \"{price}\"^^<{xsd}{datatype}> .\n\
                 {name} <http://e/size> \"{offer}\"^^<{xsd}integer> .\n"
            ));
        }
    }
    text
}

/// Aggregates over pairs without a match are those over all pairs without those over the matching ones.
#[test]
fn aggregates_of_pairs_without_a_match_are_differences() {
    let data = offers();
    let features =
        "{ SELECT DISTINCT ?f { ?q <http://e/type> <http://e/T> ; <http://e/feature> ?f } }";
    let of_offers = "?p <http://e/type> <http://e/T> . ?o <http://e/of> ?p ; <http://e/size> ?v .";
    let prices = "?p <http://e/type> <http://e/T> . ?o <http://e/of> ?p ; <http://e/price> ?v .";
    let lacks = "FILTER NOT EXISTS { ?p <http://e/feature> ?f }";
    let all = "(COUNT(*) AS ?n) (SUM(?v) AS ?sum) (AVG(?v) AS ?avg) (COUNT(?v) AS ?count)";
    let group =
        |select: &str, pattern: &str| format!("SELECT ?f {select} {{ {pattern} }} GROUP BY ?f");
    let whole = |pattern: &str| group(all, pattern);
    let differences = [
        whole(&format!("{features} {of_offers} {lacks}")),
        whole(&format!("{features} {prices} {lacks}")),
        // Solutions of the keys' part count as often as they occur.
        whole(&format!(
            "?q <http://e/type> <http://e/U> ; <http://e/feature> ?f . {of_offers} {lacks}"
        )),
        whole(&format!(
            "{features} {prices} FILTER(?v > 20) FILTER(?f != <http://e/f3>) {lacks}"
        )),
        whole(&format!(
            "{features} {prices} FILTER NOT EXISTS {{ ?p <http://e/feature> ?f . ?p <http://e/type> ?t }}"
        )),
        group(
            "(SUM(<http://www.w3.org/2001/XMLSchema#decimal>(?v)) AS ?sum)",
            &format!("{features} {prices} {lacks}"),
        ),
        group(
            "(COUNT(*) AS ?n)",
            &format!("{features} ?o <http://e/of> ?p {lacks}"),
        ),
        // No product lacks feature 11.
        whole(&format!(
            "VALUES ?f {{ <http://e/f11> <http://e/f1> <http://e/f1> }} {of_offers} {lacks}"
        )),
        // Nothing matches, or nothing is there.
        whole(&format!(
            "{features} {of_offers} FILTER NOT EXISTS {{ ?p <http://e/none> ?f }}"
        )),
        whole(&format!(
            "{features} ?o <http://e/none> ?p ; <http://e/size> ?v . {lacks}"
        )),
    ];
    let tests = [
        // Other aggregates, and those over the keys' part.
        group(
            "(MAX(?v) AS ?max)",
            &format!("{features} {of_offers} {lacks}"),
        ),
        group(
            "(SUM(DISTINCT ?v) AS ?sum)",
            &format!("{features} {of_offers} {lacks}"),
        ),
        group(
            "(COUNT(?f) AS ?n)",
            &format!("{features} {of_offers} {lacks}"),
        ),
        // A link besides the one that is negated.
        whole(&format!(
            "?q <http://e/type> <http://e/T> ; <http://e/feature> ?f . {of_offers} FILTER(?q != ?p) {lacks}"
        )),
        // The pattern shares a variable in a filter alone.
        whole(&format!(
            "{features} {of_offers} FILTER NOT EXISTS {{ ?p <http://e/feature> ?g FILTER(?g = ?f) }}"
        )),
        // A key that may be unbound.
        whole(&format!(
            "VALUES ?f {{ <http://e/f1> UNDEF }} {of_offers} {lacks}"
        )),
    ];
    for (queries, is_difference) in [(&differences[..], true), (&tests[..], false)] {
        for query in queries {
            let plan = checked(&data, query);
            let has_times = plan.to_string().contains("_:times");
            assert_eq!(has_times, is_difference, "{query}\n{plan}");
        }
    }
}

/// The argument of a sum is evaluated once for a term that joins repeat.
#[test]
fn repeated_arguments_of_sums_are_evaluated_once() {
    let mut data = String::new();
    for item in 0..300 {
        data.push_str(&format!(
            "<http://e/i{item}> <http://e/price> \"{}.25\"^^<http://e/Euro> .\n",
            1000 + item
        ));
        for tag in 0..40 {
            data.push_str(&format!(
                "<http://e/i{item}> <http://e/tag> <http://e/t{}> .\n",
                (item * 7 + tag * 3) % 120
            ));
        }
    }
    data.push_str("<http://e/i1> <http://e/price> \"dear\" .\n");
    let euros = "<http://www.w3.org/2001/XMLSchema#decimal>(STR(?price))";
    let sums = format!("(SUM({euros}) AS ?sum) (AVG({euros} * 2) AS ?avg)");
    let plan = checked(
        &data,
        &format!(
            "SELECT ?tag {sums} {{ ?i <http://e/price> ?price ; <http://e/tag> ?tag \
             FILTER(STRENDS(STR(?price), \".25\")) }} GROUP BY ?tag"
        ),
    );
    let parts = plan.parts();
    let group = parts.iter().find(|part| part.operator.starts_with("Group"));
    let measured = group.and_then(|group| group.measured).expect("analyzed");
    let pages = measured.pages_from_cache + measured.pages_from_device;
    assert!(pages < 100, "{plan}");
    // An error in one of the values is the error of its groups.
    checked(
        &data,
        &format!(
            "SELECT ?tag {sums} {{ ?i <http://e/price> ?price ; <http://e/tag> ?tag }} GROUP BY ?tag"
        ),
    );
}

/// Nodes with many links of two kinds, so that joins have many more solutions than matches.
fn hubs() -> String {
    let mut text = String::new();
    for node in 0..120 {
        let name = format!("<http://e/n{node}>");
        text.push_str(&format!(
            "{name} <http://e/value> \"{node}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
        ));
        for (predicate, modulus) in [("a", 7), ("b", 5), ("c", 11)] {
            text.push_str(&format!(
                "{name} <http://e/{predicate}> <http://e/n{}> .\n\
                 {name} <http://e/{predicate}> <http://e/n{}> .\n",
                node % modulus,
                (node * 3) % (modulus + 1)
            ));
        }
        if node % 2 == 0 {
            text.push_str(&format!("{name} <http://e/type> <http://e/T> .\n"));
        }
    }
    text
}

/// Counts of joins whose parts are linked by one variable are sums of products.
#[test]
fn counts_of_joins_multiply_the_counts_of_their_parts() {
    let data = hubs();
    let count = |keys: &str, pattern: &str| {
        let group = if keys.is_empty() { "" } else { "GROUP BY" };
        format!("SELECT {keys} (COUNT(*) AS ?n) {{ {pattern} }} {group} {keys}")
    };
    let (a, b, c) = ("<http://e/a>", "<http://e/b>", "<http://e/c>");
    let products = [
        count("", &format!("?x {a} ?h . ?y {a} ?h")),
        count("", &format!("?x {a} ?h . ?y {a} ?h . ?z {a} ?h")),
        count("", &format!("?x {a} ?h . ?y {b} ?h . ?z {c} ?h")),
        count("", &format!("?x {a} ?h . ?h {b} ?i . ?y {b} ?i")),
        count("", &format!("?x {a} _:h . ?y {b} _:h")),
        count("?h", &format!("?x {a} ?h . ?y {b} ?h")),
        count("?x", &format!("?x {a} ?h . ?y {b} ?h")),
        count("?x ?h", &format!("?x {a} ?h . ?y {b} ?h")),
        count("?x", &format!("?x {a} ?h . ?y {b} ?h . ?z {c} ?h")),
        // Tests of the link, of other variables, and of both parts' own.
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?h . ?h <http://e/type> <http://e/T>"),
        ),
        count(
            "",
            &format!("?x {a} ?h ; <http://e/type> <http://e/T> . ?y {b} ?h"),
        ),
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?h FILTER(?h != <http://e/n0>)"),
        ),
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?h . ?x <http://e/value> ?v FILTER(?v > 40)"),
        ),
        format!("SELECT (COUNT(?x) AS ?n) (COUNT(*) AS ?m) {{ ?x {a} ?h . ?y {b} ?h }}"),
        // Nothing is found.
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?h . ?z {c} ?h FILTER(STR(?x) = \"x\")"),
        ),
    ];
    let enumerated = [
        // Two links, a cycle, a condition over two parts, few solutions, and distinct terms.
        count(
            "",
            &format!("?x {a} ?h . ?x {b} ?h . ?y {c} ?h . ?y {c} ?x"),
        ),
        count("", &format!("?x {a} ?y . ?y {a} ?z . ?z {a} ?x")),
        count("", &format!("?x {a} ?h . ?y {b} ?h FILTER(?x != ?y)")),
        count("", &format!("<http://e/n5> {a} ?h . ?h {b} ?i")),
        count("?x ?y", &format!("?x {a} ?h . ?y {b} ?h")),
        format!("SELECT (COUNT(DISTINCT ?x) AS ?n) {{ ?x {a} ?h . ?y {b} ?h }}"),
        format!("SELECT (SUM(?v) AS ?n) {{ ?x {a} ?h . ?y {b} ?h . ?x <http://e/value> ?v }}"),
    ];
    for (queries, is_product) in [(&products[..], true), (&enumerated[..], false)] {
        for query in queries {
            let plan = checked(&data, query);
            let has_counts = plan.to_string().contains("_:count0");
            assert_eq!(has_counts, is_product, "{query}\n{plan}");
        }
    }
}

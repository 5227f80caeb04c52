//! What the optimiser saves, counted in rows and pages.

use pythia::{Database, PlanNode, QueryOptions};

use crate::support::{database, oxigraph, theirs};

/// Runs a query and gives its plan with what each part took.
fn analyze(database: &Database, query: &str) -> (Vec<String>, PlanNode) {
    let options = QueryOptions {
        profile: true,
        ..QueryOptions::default()
    };
    let prepared = database.prepare(query, &options).unwrap();
    let answer = crate::support::answer(prepared.execute().unwrap()).unwrap();
    (answer.sorted().lines, prepared.plan())
}

/// Rows that all operators and steps gave together.
fn rows(plan: &PlanNode) -> u64 {
    let measured = plan.parts().into_iter().filter_map(|part| part.measured);
    measured.map(|m| m.rows).sum()
}

/// Checks the answer against Oxigraph's and gives the measured plan.
fn checked(data: &str, query: &str) -> PlanNode {
    let (lines, plan) = analyze(&database(data), query);
    let expected = theirs(&oxigraph(data), query).unwrap().sorted().lines;
    assert_eq!(lines, expected, "{query}\n{plan}");
    plan
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
    crate::support::answer(prepared.execute().unwrap()).unwrap();
    assert!(prepared.plan().parts().iter().all(|p| p.measured.is_none()));
    let json: serde_json::Value = serde_json::from_str(&prepared.explain_json()).unwrap();
    let step = &json["steps"][0];
    assert_eq!(step["estimated_rows"], 10.0, "{json}");
    assert!(step["detail"].as_str().unwrap().contains("<http://e/rare>"));
    assert!(step.get("rows").is_none(), "{json}");
}

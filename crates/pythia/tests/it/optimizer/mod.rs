//! What the optimiser saves, counted in rows and pages.

mod aggregates;
mod filters;
mod joins;
mod reads;
mod semi_joins;

use pythia::{PlanNode, QueryOptions};

use crate::support::{Peer, analyze, answer_of, database};

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

/// 60,000 reviews of 2,000 products, whose 20 makers are in a few countries, two of them in one of 800 people.
pub(crate) fn market() -> String {
    let mut text = String::new();
    let mut triple = |subject: String, predicate: &str, object: String| {
        text.push_str(&format!(
            "<http://e/{subject}> <http://e/{predicate}> <http://e/{object}> .\n"
        ));
    };
    for n in 0..60_000 {
        triple(format!("review{n}"), "of", format!("product{}", n % 2000));
        triple(format!("review{n}"), "by", format!("person{}", n % 3000));
    }
    for n in 0..2000 {
        let maker = format!("maker{}", n * 7 % 20);
        triple(format!("product{n}"), "maker", maker);
    }
    for n in 0..3000 {
        let country = format!("country{}", n * 3 % 11 / 8);
        triple(format!("person{n}"), "country", country);
    }
    for n in 0..20 {
        let country = format!("country{}", if n % 10 == 3 { 1 } else { n % 10 + 2 });
        triple(format!("maker{n}"), "country", country);
    }
    text
}

/// Reviews of products whose makers are in country 1.
pub(crate) const REVIEWS_OF_MAKERS: &str =
    "SELECT (COUNT(*) AS ?n) { ?review <http://e/of> ?product ; <http://e/by> ?person .
        ?product <http://e/maker> ?maker . ?maker <http://e/country> <http://e/country1> .
        ?person <http://e/country> <http://e/country0> }";

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

/// Whether there is an operator or step of this name.
fn has(plan: &PlanNode, name: &str) -> bool {
    plan.parts().iter().any(|part| part.operator == name)
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

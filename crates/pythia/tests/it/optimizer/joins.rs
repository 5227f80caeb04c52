//! The order and the method of joins.

use std::num::NonZero;

use pythia::{Database, Options, PlanNode, QueryOptions};

use super::{REVIEWS_OF_MAKERS, checked, has, items, market, part, rows};
use crate::support::{Peer, analyze, answer_of, database, database_with, ours, restless, writable};

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
fn minus_tests_each_solution_only_where_that_is_the_same() {
    let data = items(3000);
    let seeded = checked(
        &data,
        "SELECT ?s { ?s <http://e/rare> ?r MINUS { ?s <http://e/next> ?n } }",
    );
    assert!(seeded.to_string().contains("NOT EXISTS"), "{seeded}");
    // Solutions that share a term are tested once.
    let shared = checked(
        &data,
        "SELECT ?s ?t { ?s <http://e/rare> ?r ; <http://e/type> ?t MINUS { ?x <http://e/type> ?t ; <http://e/next> ?n } }",
    );
    assert!(shared.to_string().contains("NOT EXISTS"), "{shared}");
    // Filters apply before.
    let filtered = checked(
        &data,
        "SELECT ?s ?v { ?s <http://e/value> ?v MINUS { ?s <http://e/next> ?n . ?n <http://e/label> ?l } FILTER(?v < 5) }",
    );
    assert!(filtered.pages() < 60, "{filtered}");
    for query in [
        "SELECT ?s { ?s <http://e/rare> ?r OPTIONAL { ?s <http://e/none> ?n } MINUS { ?s <http://e/rare> ?x . ?x <http://e/next> ?y }
            FILTER(!BOUND(?n) && EXISTS { ?s <http://e/label> ?l }) }",
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

/// 3,000 people; some live in a place, speak languages and have jobs. Those with a place are few, so that the constants keep
/// more of them, the more is known of all.
fn people() -> String {
    let mut text = String::new();
    let mut add = |n: usize, predicate: &str, object: String| {
        text.push_str(&format!(
            "<http://e/p{n}> <http://e/{predicate}> <http://e/{object}> .\n"
        ));
    };
    for n in 0..3000 {
        add(n, "is", "Human".to_owned());
        if n % 3 < 2 {
            add(n, "speaks", format!("l{}", n % 4));
        }
        if n % 7 < 4 {
            add(n, "job", format!("j{}", n % 5));
        }
        if n % 11 < 3 {
            add(n, "in", format!("place{}", n % 12));
            add(n, "from", format!("land{}", n % 12 / 3));
        }
    }
    text
}

#[test]
fn short_lists_of_many_are_intersected_and_tests_raise_no_estimate() {
    let data = people();
    let query = "PREFIX e: <http://e/> SELECT ?p ?l { ?p e:is e:Human . ?p e:in e:place1 . ?p e:from e:land0 .
        ?p e:speaks e:l1 . ?p e:job e:j2 . ?p e:speaks ?l }";
    let plan = checked(&data, query);
    let intersect = part(&plan, "Intersect");
    assert!(!intersect.detail.contains("Human"), "{plan}");
    assert!(rows(&plan) < 100, "{plan}");
    let tests = "?p e:in e:place1|?p e:from e:land0|?p e:speaks e:l1|?p e:job e:j2|?p e:is e:Human";
    let tests: Vec<&str> = tests.split('|').collect();
    let mut before = f64::MAX;
    let database = database(&data);
    for count in 1..=tests.len() {
        let query = format!(
            "PREFIX e: <http://e/> SELECT ?p {{ {} }}",
            tests[..count].join(" . ")
        );
        let (_, plan) = analyze(&database, &query);
        let estimated = part(&plan, "Pattern").estimated_rows.unwrap();
        assert!(estimated <= before, "{estimated} after {before}\n{plan}");
        before = estimated;
    }
}

#[test]
fn a_list_that_costs_little_is_intersected_though_few_terms_are_expected() {
    // All that have x have y and z; as if they had nothing to do with each other, one term is expected after x and y.
    let mut data = String::new();
    for n in 0..20_000 {
        data.push_str(&format!(
            "<http://e/{n}> <http://e/has> <http://e/other> .\n"
        ));
        if n % 400 == 0 {
            for object in ["x", "y", "z"] {
                data.push_str(&format!(
                    "<http://e/{n}> <http://e/has> <http://e/{object}> .\n"
                ));
            }
        }
    }
    let query = "PREFIX e: <http://e/> SELECT ?n { ?n e:has e:x . ?n e:has e:y . ?n e:has e:z }";
    let plan = checked(&data, query);
    let intersect = part(&plan, "Intersect");
    let lists = ["e/x", "e/y", "e/z"];
    assert!(
        lists.iter().all(|list| intersect.detail.contains(list)),
        "{plan}"
    );
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

/// 20,000 offers of 500 products of 8 types by 200 vendors in 20 countries; some offers have two vendors, some none.
fn offers() -> String {
    let mut text = String::new();
    let mut triple = |subject: String, predicate: &str, object: String| {
        text.push_str(&format!(
            "<http://e/{subject}> <http://e/{predicate}> <http://e/{object}> .\n"
        ));
    };
    let mut random = 7_u64;
    for n in 0..20_000 {
        triple(format!("offer{n}"), "of", format!("product{}", n % 500));
        for _ in 0..[1, 1, 1, 2, 0][n % 5] {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            triple(
                format!("offer{n}"),
                "by",
                format!("vendor{}", (random >> 33) % 200),
            );
        }
    }
    for n in 0..200 {
        triple(
            format!("vendor{n}"),
            "country",
            format!("country{}", n % 20),
        );
        if n % 20 == 3 {
            triple(format!("vendor{n}"), "country", "country19".to_owned());
        }
    }
    for n in 0..500 {
        triple(format!("product{n}"), "type", format!("type{}", n % 8));
    }
    text
}

/// Queries that intersect the vendors of many offers with the few of a country.
const OFFERS_FROM: &[&str] = &[
    "SELECT ?offer ?vendor { ?product <http://e/type> <http://e/type1> .
        ?offer <http://e/of> ?product . ?offer <http://e/by> ?vendor .
        ?vendor <http://e/country> <http://e/country19> }",
    "SELECT DISTINCT ?product { ?product <http://e/type> <http://e/type1> .
        ?offer <http://e/of> ?product . ?offer <http://e/by> ?vendor .
        ?vendor <http://e/country> <http://e/country19> }",
    "SELECT ?product {
        { SELECT ?product { ?product <http://e/type> <http://e/type1> } ORDER BY ?product LIMIT 50 }
        FILTER NOT EXISTS { ?offer <http://e/of> ?product . ?offer <http://e/by> ?vendor .
            ?vendor <http://e/country> <http://e/country19> , <http://e/country3> } }",
    "SELECT ?product {
        { SELECT ?product { ?product <http://e/type> <http://e/type1> } ORDER BY ?product LIMIT 50 }
        FILTER EXISTS { ?offer <http://e/of> ?product . ?offer <http://e/by> ?vendor .
            ?vendor <http://e/country> <http://e/country19> . FILTER(?offer != <http://e/offer7>) } }",
];

#[test]
fn many_solutions_look_into_the_links_of_few_terms() {
    let (lines, plan) = analyze(&database(&offers()), OFFERS_FROM[0]);
    assert!(lines.len() > 200, "{plan}");
    let intersect = part(&plan, "Intersect").measured.unwrap();
    // The first lists and the links: with the lists of all 2,520 offers, it would be 79.
    let pages = intersect.pages_from_cache + intersect.pages_from_device;
    assert!(pages <= 40, "{plan}");
}

#[test]
fn links_of_few_terms_are_read_after_changes_and_with_little_memory() {
    let data = offers();
    let update = "PREFIX e: <http://e/>
        DELETE { ?vendor e:country ?c } INSERT { ?vendor e:country e:country19 . e:offer9 e:by ?vendor }
        WHERE { VALUES ?vendor { e:vendor5 e:vendor19 e:vendor23 } ?vendor e:country ?c }";
    let peer = Peer::new(&data);
    let small = Options {
        memory_bytes: 128 << 10,
        ..Options::default()
    };
    let small = database_with(&data, small);
    let changed = [writable(&data), restless(&data)];
    let check = |databases: &[&Database]| {
        for query in OFFERS_FROM {
            let expected = peer.answer(query).unwrap().sorted();
            assert!(expected.lines.len() > 10, "{query}");
            for database in databases {
                assert!(
                    ours(database, query).unwrap().sorted() == expected,
                    "{query}"
                );
            }
        }
    };
    check(&[&small, &changed[0], &changed[1]]);
    peer.update(update).unwrap();
    for database in &changed {
        database.update(update).unwrap();
    }
    check(&[&changed[0], &changed[1]]);
}

#[test]
fn joins_begin_where_a_sample_of_links_finds_few() {
    let plan = checked(&market(), REVIEWS_OF_MAKERS);
    // With the makers in the country, not with all reviews.
    assert!(rows(&plan) <= 25_000, "{plan}");
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

#[test]
fn a_bind_is_no_border_for_joins_and_filters() {
    let data = items(2000);
    // The rare ones come first, and the filter is applied before the BIND.
    let plan = checked(
        &data,
        "SELECT ?s ?l ?x { ?s <http://e/label> ?l BIND(STRLEN(?l) AS ?x) ?s <http://e/rare> ?r FILTER(?x > 8) }",
    );
    assert!(rows_of(&plan, "Bind") <= 10, "{plan}");
    assert!(plan.pages() < 60, "{plan}");
    let plan = checked(
        &data,
        "SELECT ?s ?n { BIND(\"label 77\" AS ?want) ?s <http://e/next> ?n . ?s <http://e/label> ?l FILTER(?l = ?want) }",
    );
    assert!(plan.pages() < 20, "{plan}");
    for query in [
        // Errors leave the variable unbound; not every use of it can be replaced.
        "SELECT ?s ?x { ?s <http://e/rare> ?l BIND(?l + 1 AS ?x) ?s <http://e/next> ?n FILTER(!BOUND(?x)) }",
        "SELECT ?s ?x { ?s <http://e/rare> ?l BIND(?l + 1 AS ?x) ?s <http://e/next> ?n FILTER(COALESCE(?x, 0) = 0) }",
        "SELECT ?s ?x { ?s <http://e/rare> ?l BIND(STR(?l) AS ?x) ?s <http://e/next> ?n
            FILTER(?x != \"rare 0\" && EXISTS { ?s <http://e/rare> ?x } && STRLEN(?x) > 6) }",
        // The variable is also bound elsewhere, or reads what is bound only elsewhere.
        "SELECT ?s ?x { ?s <http://e/rare> ?l . ?s <http://e/next> ?n BIND(?n AS ?x) ?x <http://e/label> ?k FILTER(?x != <http://e/3>) }",
        "SELECT ?s ?x { { BIND(?n AS ?x) } ?s <http://e/rare> ?l . ?s <http://e/next> ?n FILTER(!BOUND(?x)) }",
        "SELECT ?s ?x { { ?s <http://e/rare> ?l OPTIONAL { ?s <http://e/none> ?n } BIND(?n AS ?x) } ?s <http://e/next> ?n
            FILTER(!BOUND(?x)) }",
        // One BIND after the other, in groups, and inside other patterns.
        "SELECT ?s ?t ?l ?k ?x ?y ?z { { ?s <http://e/rare> ?l BIND(STRLEN(?l) AS ?x) BIND(?x * 2 AS ?y) } { ?t <http://e/rare> ?k BIND(STRLEN(?k) AS ?z) }
            ?s <http://e/next> ?t FILTER(?y > ?z && ?x < 9) }",
        "SELECT ?s ?l ?v ?x ?n { ?s <http://e/rare> ?l OPTIONAL { ?s <http://e/value> ?v BIND(?v + 1 AS ?x) ?s <http://e/next> ?n FILTER(?x > 900) } }",
        "SELECT ?s ?l ?v ?x ?m ?n { ?s <http://e/rare> ?l { ?s <http://e/value> ?v BIND(?v + 1 AS ?x) ?s <http://e/next> ?n FILTER(?x > 900) }
            UNION { ?s <http://e/value> ?x BIND(?l AS ?m) ?s <http://e/next> ?n FILTER(!BOUND(?m)) } }",
        "SELECT ?s { ?s <http://e/rare> ?l FILTER(EXISTS { ?s <http://e/value> ?v BIND(?v + 1 AS ?x) ?s <http://e/next> ?n FILTER(?x > 900) }) }",
        "SELECT ?s { ?s <http://e/rare> ?l MINUS { ?s <http://e/value> ?v BIND(?v + 1 AS ?x) ?s <http://e/next> ?n FILTER(?x > 900) } }",
        "SELECT ?s ?x { ?s <http://e/rare> ?l BIND(EXISTS { ?s <http://e/next> ?n FILTER(?n = <http://e/3>) } AS ?x) ?s <http://e/next> ?n FILTER(?x = false) }",
    ] {
        checked(&data, query);
    }
    // Values of values are not written out.
    let doubled: String = (0..40)
        .map(|n| format!("BIND(?x{n} + ?x{n} AS ?x{}) ", n + 1))
        .collect();
    let query = format!(
        "SELECT ?s {{ ?s <http://e/value> ?x0 . ?s <http://e/rare> ?r {doubled} FILTER(?x40 > 1000000) }}"
    );
    checked(&data, &query);
    // Many BINDs between patterns are planned in time, whether they move or not.
    for (count, value) in [(100, "1"), (30, "RAND()")] {
        let blocks: String = (0..count)
            .map(|n| format!("BIND({value} AS ?b{n}) ?s <http://e/rare> ?r{n} . "))
            .collect();
        let query = format!("SELECT ?s {{ ?s <http://e/rare> ?r {blocks} }} LIMIT 3");
        let lines = analyze(&database(&data), &query).0;
        assert_eq!(lines.len(), 3);
    }
}

#[test]
fn a_limit_applies_before_optional_and_bind() {
    let data = items(3000);
    let first = "?s <http://e/value> ?v . ?s <http://e/type> ?t";
    let optional = "OPTIONAL { ?s <http://e/label> ?l }";
    let plan = checked(
        &data,
        &format!(
            "SELECT ?s ?v ?l {{ {first} {optional} FILTER(?v > 9) }} ORDER BY DESC(?v) LIMIT 7 OFFSET 2"
        ),
    );
    assert!(rows_of(&plan, "Optional") <= 9, "{plan}");
    let plan = checked(
        &data,
        &format!(
            "SELECT ?s ?v (STRLEN(STR(?s)) AS ?x) {{ {first} {optional} }} ORDER BY ?v LIMIT 5"
        ),
    );
    assert!(rows_of(&plan, "Bind") <= 5, "{plan}");
    let (lines, plan) = analyze(
        &database(&data),
        &format!(
            "SELECT ?s ?l {{ {first} {optional} OPTIONAL {{ ?s <http://e/rare> ?r }} }} LIMIT 3"
        ),
    );
    assert_eq!((lines.len(), rows_of(&plan, "Optional")), (3, 3), "{plan}");
    for rest in [
        // The order or the filter needs the OPTIONAL or the BIND.
        "OPTIONAL { ?s <http://e/rare> ?r } } ORDER BY DESC(?r) ?v LIMIT 12",
        "OPTIONAL { ?s <http://e/rare> ?r } FILTER(BOUND(?r)) } ORDER BY ?v LIMIT 4",
        "OPTIONAL { ?s <http://e/rare> ?r } BIND(-?v AS ?x) } ORDER BY ?x LIMIT 4",
        "OPTIONAL { ?s <http://e/rare> ?r } BIND(COALESCE(?r, \"none\") AS ?x) } ORDER BY DESC(?x) ?v LIMIT 14",
        // Solutions are many for each on the left.
        "OPTIONAL { ?x <http://e/type> ?t . ?x <http://e/rare> ?r } } ORDER BY ?v ?r LIMIT 25",
        "OPTIONAL { ?s <http://e/rare> ?r } OPTIONAL { ?s <http://e/none> ?n } } ORDER BY ?v LIMIT 5 OFFSET 3",
    ] {
        checked(
            &data,
            &format!("SELECT ?s ?v ?t ?r ?x ?n {{ {first} {rest}"),
        );
    }
    checked(
        &data,
        "SELECT ?s ?v { { SELECT ?s ?v { ?s <http://e/value> ?v OPTIONAL { ?s <http://e/rare> ?r } } ORDER BY ?v LIMIT 40 } ?s <http://e/rare> ?k }",
    );
}

/// Rows of the first operator or step of this name.
fn rows_of(plan: &PlanNode, name: &str) -> u64 {
    part(plan, name).measured.expect("the plan was run").rows
}

#[test]
fn an_optional_path_is_searched_from_the_terms_of_a_pattern() {
    let mut data = items(4000);
    data.push_str("<http://e/Item> <http://e/sub> <http://e/Thing> .\n");
    // The empty path connects each of 12,000 nodes with itself.
    for path in ["<http://e/sub>*", "<http://e/sub>?"] {
        let query =
            format!("SELECT ?c (COUNT(*) AS ?n) {{ ?s <http://e/type>/{path} ?c }} GROUP BY ?c");
        let plan = checked(&data, &query);
        assert!(rows_of(&plan, "Path") <= 10, "{plan}");
        let plan = checked(
            &data,
            &format!("SELECT * {{ ?s <http://e/rare> ?r . ?s {path} ?o }}"),
        );
        assert!(rows_of(&plan, "Path") <= 10, "{plan}");
    }
}

#[test]
fn cycles_of_few_links_are_looked_up_in_a_table() {
    let mut data = String::new();
    for n in 0..20_000 {
        let triple = format!(
            "<http://e/p{n}> <http://e/in> <http://e/place{}> .\n\
             <http://e/p{n}> <http://e/of> <http://e/land{}> .\n",
            n % 601,
            n * 13 % 307,
        );
        data.push_str(&triple);
    }
    for place in 0..601 {
        for land in [place % 307, place * 5 % 307] {
            data.push_str(&format!(
                "<http://e/place{place}> <http://e/near> <http://e/land{land}> .\n"
            ));
        }
    }
    for (query, is_table) in [
        (
            "SELECT ?p ?x ?m { ?p e:of ?l . ?p e:in ?x OPTIONAL { ?x e:near ?m FILTER(?m = ?l) } }",
            true,
        ),
        (
            "SELECT ?p ?x ?l { ?p e:in ?x . ?p e:of ?l OPTIONAL { ?x e:near ?l . ?x e:near ?m } }",
            false,
        ),
        (
            "SELECT ?p ?x ?l { ?p e:in ?x . ?p e:of ?l MINUS { ?x e:near ?l } }",
            false,
        ),
        (
            "SELECT ?p ?x ?l { ?p e:in ?x . ?x e:near ?l . ?p e:of ?l }",
            false,
        ),
        (
            "SELECT (COUNT(*) AS ?n) { ?p e:in ?x . ?x e:near ?l . ?p e:of ?l }",
            false,
        ),
        (
            "SELECT DISTINCT ?l { ?p e:in ?x . ?x e:near ?l . ?p e:of ?l }",
            false,
        ),
    ] {
        let plan = checked(&data, &format!("PREFIX e: <http://e/> {query}"));
        let parts = plan.parts();
        let mut tables = parts
            .iter()
            .filter(|part| part.operator.starts_with("Hash"));
        let has_table = tables.any(|part| part.detail.matches('=').count() == 2);
        assert!(has_table || !is_table, "{plan}");
    }
}

/// A join looks up node by node until that has cost as much as a table of all matches, whatever number of solutions was
/// expected.
#[test]
fn a_join_changes_to_a_table_when_the_solutions_are_counted() {
    // A column of this many rows is read for ten batches in the time of a table.
    const ITEMS: usize = 60_000;
    let mut data = String::new();
    for i in 0..ITEMS {
        let (next, kind) = ((i * 7919 + 5) % ITEMS, i % 500);
        // The two kinds are the same, which no statistics tell.
        data.push_str(&format!(
            "<http://e/{i}> <http://e/next> <http://e/{next}> .\n\
             <http://e/{i}> <http://e/kind> <http://e/k{kind}> .\n\
             <http://e/{i}> <http://e/sort> <http://e/k{kind}> .\n\
             <http://e/{i}> <http://e/type> <http://e/Item> .\n\
             <http://e/{i}> <http://e/label> \"label {i}\" .\n"
        ));
    }
    let change = |query: &str| {
        let plan = checked(&data, query).to_string();
        let changes = plan.matches("← plan changed: a table").count();
        (changes, plan.matches("← plan changed: no table").count())
    };
    // Few were expected, and all came.
    let many = "SELECT ?s ?n { ?s <http://e/kind> ?k ; <http://e/sort> ?t FILTER(STR(?k) = STR(?t)) ?s <http://e/next> ?n }";
    let (tables, lookups) = change(many);
    assert!(tables > 0 && lookups == 0, "{many}");
    // Many were expected, and few came.
    let few = "SELECT ?n { ?s <http://e/label> ?l FILTER(STRLEN(?l) < 8) ?s <http://e/next> ?n . ?n <http://e/type> <http://e/Item> }";
    assert_eq!(change(few), (0, 1));
}

/// Solutions of a scan that come in no order of their nodes wait until these are many, and read the column of their links a few times.
/// With any number of threads, the results are the same in the same order.
#[test]
fn solutions_of_a_scan_wait_until_their_nodes_are_many() {
    const ITEMS: usize = 200_000;
    let mut data = String::new();
    for i in 0..ITEMS {
        let day = i * 7919 % ITEMS;
        data.push_str(&format!(
            "<http://e/{i}> <http://e/size> \"{}\" .\n\
             <http://e/{i}> <http://e/day> \"{day}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n",
            i % 100
        ));
    }
    let query =
        "SELECT ?s ?size { ?s <http://e/day> ?day FILTER(?day < 32000) ?s <http://e/size> ?size }";
    let two_passes = part(&checked(&data, query), "Expand(Subject)").pages();
    let with = |threads| Options {
        memory_bytes: 4 << 20,
        threads: NonZero::new(threads),
        ..Options::default()
    };
    let database = database_with(&data, with(1));
    let (_, plan) = analyze(&database, query);
    let batches = part(&plan, "Ranges(Pos)").measured.unwrap().batches;
    let pages = part(&plan, "Expand(Subject)").pages();
    assert!(
        batches > 4 && pages * 2 < two_passes * batches * 3 / 4,
        "{pages} pages, {two_passes} for two passes\n{plan}"
    );
    let lines = |database: &Database| {
        let prepared = database.prepare(query, &QueryOptions::default()).unwrap();
        answer_of(prepared.execute().unwrap()).unwrap().lines
    };
    let several = database_with(&data, with(4));
    assert_eq!(lines(&database), lines(&several));
}

/// Steps after one with far more solutions than expected are ordered again. The answers are the same, and so is their order
/// for each number of threads.
#[test]
fn joins_are_ordered_again_when_far_more_solutions_come() {
    const ITEMS: usize = 60_000;
    let mut data = String::new();
    for i in 0..ITEMS {
        let (next, kind, link) = ((i * 7919 + 5) % ITEMS, i % 6, i * 31 % ITEMS);
        // Kind, sort and form say the same, which the planner does not know.
        data.push_str(&format!(
            "<http://e/{i}> <http://e/next> <http://e/{next}> .\n\
             <http://e/{i}> <http://e/kind> <http://e/k{kind}> .\n\
             <http://e/{i}> <http://e/sort> <http://e/s{kind}> .\n\
             <http://e/{i}> <http://e/form> <http://e/f{kind}> .\n\
             <http://e/{i}> <http://e/link> <http://e/{link}> .\n"
        ));
        if i % 3 != 0 {
            data.push_str(&format!(
                "<http://e/{i}> <http://e/type> <http://e/Item> .\n"
            ));
        }
    }
    let of_kind = "?s <http://e/kind> <http://e/k3> ; <http://e/sort> <http://e/s3> ; <http://e/form> <http://e/f3>";
    let links =
        "?s <http://e/next> ?n . ?n <http://e/link> ?r . ?r <http://e/type> <http://e/Item>";
    for query in [
        format!("SELECT ?s ?n ?r {{ {of_kind} . {links} }}"),
        format!("SELECT DISTINCT ?n {{ {of_kind} . {links} }}"),
        format!(
            "SELECT DISTINCT ?n {{ {of_kind} . {links} BIND(STRLEN(STR(?r)) AS ?l) OPTIONAL {{ ?n <http://e/next> ?t FILTER(?l > 3) }} }}"
        ),
        format!(
            "SELECT ?s ?r {{ {of_kind} . {links} FILTER(?r != ?s) FILTER(STR(?n) != STR(?r)) }}"
        ),
        format!("SELECT ?s ?r ?t {{ {of_kind} . {links} OPTIONAL {{ ?r <http://e/next> ?t }} }}"),
        format!(
            "SELECT ?k (COUNT(*) AS ?c) {{ {of_kind} . {links} . ?r <http://e/kind> ?k }} GROUP BY ?k"
        ),
    ] {
        let plan = checked(&data, &query);
        let parts = plan.parts().into_iter();
        let changed: Vec<u64> = parts
            .filter_map(|part| Some(part.reordered?.came))
            .collect();
        assert_eq!(changed, [10_000], "{plan}");
        let text = plan.to_string();
        assert!(
            text.contains("plan changed: 10000 rows came instead of 278;"),
            "{plan}"
        );
    }
    let query = format!("SELECT ?s ?n ?r {{ {of_kind} . {links} }}");
    let answers = [1, 2, 5].map(|threads| {
        let options = Options {
            threads: NonZero::new(threads),
            ..Options::default()
        };
        ours(&database_with(&data, options), &query).unwrap().lines
    });
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{query}"
    );
}

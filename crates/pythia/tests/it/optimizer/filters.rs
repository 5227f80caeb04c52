//! What filters read, and where they are tested.

use pythia::{Database, PlanNode};

use super::{checked, items, part, rows, values};
use crate::support::{analyze, database, ours};

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
fn strings_of_the_dictionary_are_compared_without_their_texts() {
    let mut data = items(2000);
    for (number, label) in ["", "é", "e\u{301}", "\u{10000}", "\u{ffff}", "Label 1"]
        .iter()
        .enumerate()
    {
        data.push_str(&format!(
            "<http://e/{number}> <http://e/label> \"{label}\" .\n\
             <http://e/{number}> <http://e/label> \"{label}\"@en .\n"
        ));
    }
    let joined = "?s <http://e/next> ?n ; <http://e/label> ?l . ?n <http://e/label> ?m";
    let unfiltered = checked(&data, &format!("SELECT ?s ?n {{ {joined} }}"));
    for operator in ["<", "<=", ">", ">="] {
        let query = format!("SELECT ?s ?n {{ {joined} FILTER(?l {operator} ?m) }}");
        let plan = checked(&data, &query);
        // Those with a language are compared by their texts.
        let pages = unfiltered.pages() + 16;
        assert!(
            plan.pages() <= pages,
            "{pages} pages without the filter\n{plan}"
        );
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
        // VALUES outside, with several keys, other variables and unbound ones.
        "VALUES ?n { <http://e/3> <http://e/4> <http://e/none> } { SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n }",
        "{ SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n } VALUES (?n ?m) { (<http://e/3> 1) (<http://e/3> 2) }",
        "{ SELECT ?n ?t (COUNT(*) AS ?c) { ?s <http://e/next> ?n ; <http://e/type> ?t } GROUP BY ?n ?t }
           VALUES (?n ?t) { (<http://e/3> <http://e/Item>) (<http://e/4> UNDEF) (<http://e/5> <http://e/none>) }",
        "?n <http://e/rare> ?r VALUES ?n { <http://e/0> <http://e/30> }
           { SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n }",
        "VALUES ?c { 1 2 } { SELECT ?n (COUNT(*) AS ?c) { ?s <http://e/next> ?n } GROUP BY ?n }",
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

/// An OPTIONAL whose variable a condition needs bound is a join, and no other OPTIONAL is.
#[test]
fn conditions_turn_optionals_into_joins() {
    let data = items(300);
    let rare = "?s <http://e/next> ?n OPTIONAL { ?s <http://e/rare> ?r }";
    let both = "?s <http://e/next> ?n OPTIONAL { ?s <http://e/rare> ?r } OPTIONAL { ?n <http://e/rare> ?t }";
    let names = "SELECT ?s ?n ?r ?t ?u";
    let joins = [
        format!("{names} {{ {rare} FILTER(?r != \"x\") }}"),
        format!("{names} {{ {rare} FILTER(BOUND(?r) && ?n != <http://e/3>) }}"),
        format!("{names} {{ {rare} FILTER(?r = \"rare 30\" || STRLEN(?r) > 7) }}"),
        format!("{names} {{ {rare} FILTER(?r IN (\"rare 30\", \"rare 60\")) }}"),
        format!("{names} {{ {rare} BIND(STR(?n) AS ?u) FILTER(?r < ?u) }}"),
        format!("{names} {{ {both} FILTER(?r != ?t) }}"),
        format!(
            "{names} {{ ?s <http://e/next> ?n OPTIONAL {{ ?s <http://e/rare> ?r FILTER(?n != <http://e/213>) }}
             FILTER(STRLEN(?r) > 3) }}"
        ),
        format!(
            "{names} {{ ?s <http://e/next> ?n OPTIONAL {{ ?s <http://e/rare> ?r OPTIONAL {{ ?n <http://e/label> ?t }} }}
             FILTER(?t > ?r) }}"
        ),
        format!("SELECT (COUNT(?r) AS ?u) {{ {rare} }}"),
        format!("SELECT (COUNT(DISTINCT ?r) AS ?u) (COUNT(?r) AS ?t) {{ {rare} }}"),
    ];
    let optional = [
        format!("{names} {{ {rare} FILTER(BOUND(?r) || ?n = <http://e/3>) }}"),
        format!("{names} {{ {rare} FILTER(COALESCE(?r, \"x\") != \"y\") }}"),
        format!("{names} {{ {rare} FILTER(IF(BOUND(?r), ?n = <http://e/3>, true)) }}"),
        format!("{names} {{ {rare} FILTER(?n IN (?r, <http://e/3>)) }}"),
        format!("{names} {{ {both} FILTER(BOUND(?r)) }}"),
        // Another OPTIONAL, or what comes before, may bind the variable.
        format!("{names} {{ {rare} OPTIONAL {{ ?n <http://e/rare> ?r }} FILTER(?r != \"x\") }}"),
        format!(
            "{names} {{ {{ ?s <http://e/label> ?r }} UNION {{ ?s <http://e/value> ?t }}
             OPTIONAL {{ ?s <http://e/rare> ?r }} FILTER(?r != \"x\") }}"
        ),
        format!("SELECT (COUNT(?r) AS ?u) (COUNT(*) AS ?t) {{ {rare} }}"),
        format!("SELECT ?n (COUNT(?r) AS ?u) {{ {rare} }} GROUP BY ?n"),
    ];
    for (queries, is_join) in [(&joins[..], true), (&optional[..], false)] {
        for query in queries {
            let plan = checked(&data, query).to_string();
            let is_optional = plan.contains("Optional") || plan.contains("LeftJoin");
            assert_eq!(!is_optional, is_join, "{query}\n{plan}");
        }
    }
    // The term comes from outside.
    let from_outside = "?x <http://e/rare> ?r . ?x <http://e/next> ?s FILTER EXISTS {
        ?s <http://e/next> ?n OPTIONAL { ?s <http://e/rare> ?r } FILTER(?r != \"rare 30\") }";
    checked(&data, &format!("SELECT ?x ?r ?s {{ {from_outside} }}"));
}

#[test]
fn years_and_texts_are_ranges() {
    const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
    let mut data = String::new();
    for n in 0..3000 {
        let date = match n % 5 {
            0 => format!("\"{}-02-03\"^^<{XSD}date>", 1900 + n % 100),
            1 => format!("\"{}-12-31T23:00:00Z\"^^<{XSD}dateTime>", 1900 + n % 100),
            2 => format!("\"{}\"^^<{XSD}gYear>", 1900 + n % 100),
            3 => format!("\"{}-01-01+14:00\"^^<{XSD}date>", 1900 + n % 100),
            _ => format!("\"{}-02\"", 1900 + n % 100),
        };
        data.push_str(&format!("<http://e/{n}> <http://e/on> {date} .\n"));
        data.push_str(&format!(
            "<http://e/{n}> <http://e/at> <http://e/place{}> .\n",
            n % 300
        ));
        data.push_str(&format!(
            "<http://e/{n}> <http://e/note> \"note {n}\"@en .\n"
        ));
    }
    for filter in [
        "YEAR(?d) = 1950",
        "YEAR(?d) >= 1990",
        "1905 > YEAR(?d)",
        "YEAR(?d) <= 1901 || YEAR(?d) > 1998",
    ] {
        let plan = checked(
            &data,
            &format!("SELECT ?s ?d {{ ?s <http://e/on> ?d FILTER({filter}) }}"),
        );
        let read = part(&plan, "Ranges(Pos)").measured.unwrap().rows;
        // The text forms of dates are years of none, and years have no bounds here.
        assert!(read < 1600, "{filter}\n{plan}");
    }
    let plan = checked(
        &data,
        "SELECT ?s ?p { ?s <http://e/at> ?p FILTER(STR(?p) = \"http://e/place7\" || STR(?p) = \"http://e/place77\") }",
    );
    // The objects are IRIs, so the terms are known.
    assert_eq!(part(&plan, "Values").measured.unwrap().rows, 2, "{plan}");
    let plan = checked(
        &data,
        "SELECT ?s ?d { ?s <http://e/on> ?d FILTER(SUBSTR(STR(?d), 1, 4) = \"1950\") }",
    );
    assert!(
        part(&plan, "Ranges(Pos)").measured.unwrap().rows < 2600,
        "{plan}"
    );
    for query in [
        "SELECT ?s ?p ?d { ?s ?p ?d FILTER(DATATYPE(?d) != <http://www.w3.org/2001/XMLSchema#string> && LANG(?d) = \"\") }",
        "SELECT ?s ?p ?d { ?s ?p ?d FILTER(LANG(?d) != \"\") }",
        "SELECT ?s ?p ?d { ?s ?p ?d FILTER(LANG(?d) != \"en\") }",
        "SELECT ?s ?p ?d { ?s ?p ?d FILTER(isIRI(?s) && isLiteral(?d) && YEAR(?d) = 1999) }",
        "SELECT ?s ?p { ?s <http://e/at> ?p FILTER(isIRI(?p) && isIRI(?s)) }",
        "SELECT ?s ?d { ?s <http://e/on> ?d FILTER(STR(?d) = \"1950\") }",
        "SELECT ?s ?d { ?s <http://e/on> ?d FILTER(isLiteral(?d) && STR(?d) = \"1950-02-03\") }",
    ] {
        checked(&data, query);
    }
}

/// 2,000 people live in 20 cities, each with names in ten languages, and so have 3,000 other things.
fn citizens() -> String {
    let mut data = String::new();
    for n in 0..2000 {
        data.push_str(&format!(
            "<http://e/p{n}> <http://e/lives> <http://e/city{}> .\n\
             <http://e/p{n}> <http://e/born> <http://e/city{}> .\n",
            n * 7 % 20,
            n % 20,
        ));
    }
    for n in 0..3000 {
        data.push_str(&format!("<http://e/t{n}> <http://e/name> \"t{n}\"@en .\n"));
    }
    for city in 0..20 {
        for language in ["en", "de", "fr", "it", "ru", "el", "es", "pl", "tr", "nl"] {
            let name = format!("<http://e/city{city}> <http://e/name> \"n{city}\"@{language} .\n");
            data.push_str(&name);
        }
        data.push_str(&format!(
            "<http://e/city{city}> <http://e/name> \"n{city}\" .\n"
        ));
        let twin = format!(
            "<http://e/city{city}> <http://e/twin> <http://e/city{}> .\n",
            city / 2
        );
        data.push_str(&twin);
    }
    data
}

#[test]
fn filters_over_links_are_applied_once_for_each_node() {
    let data = citizens();
    for (query, step, most) in [
        (
            "SELECT ?p ?n { ?p e:lives ?c . ?c e:name ?n FILTER(LANG(?n) = \"en\") }",
            "where (LANG(?n) = \"en\")",
            2000,
        ),
        (
            "SELECT ?p ?n { ?p e:lives ?c . ?c e:name ?n FILTER(LANG(?n) = \"en\" || LANG(?n) = \"\") }",
            "where ((LANG(?n)",
            4000,
        ),
        (
            "SELECT ?p ?n { ?p e:lives ?c OPTIONAL { ?c e:name ?n FILTER(LANG(?n) = \"xx\") } }",
            "where (LANG(?n) = \"xx\")",
            0,
        ),
        (
            "SELECT DISTINCT ?p { ?p e:lives ?c . ?c e:name ?n FILTER(LANG(?n) = \"de\") }",
            "where (LANG(?n) = \"de\") (first match)",
            2000,
        ),
    ] {
        let query = format!("PREFIX e: <http://e/> {query}");
        let plan = checked(&data, &query);
        let parts = plan.parts();
        let found = parts.iter().find(|part| part.detail.contains(step));
        let found = found.unwrap_or_else(|| panic!("no {step} in\n{plan}"));
        assert!(found.operator.starts_with("Expand"), "{plan}");
        assert!(found.measured.unwrap().rows <= most, "{query}\n{plan}");
    }
    for query in [
        // The node is read as well, and the predicate.
        "SELECT ?p ?t { ?p e:lives ?c OPTIONAL { ?c e:twin ?t FILTER(?t != ?c) } }",
        "SELECT ?p ?q ?n { ?p e:lives ?c OPTIONAL { ?c ?q ?n FILTER(?q != e:name && STRLEN(STR(?n)) > 3) } }",
        // Each solution draws its own lot, and tests what another pattern binds.
        "SELECT (COUNT(*) > 0 AS ?some) { ?p e:lives ?c . ?c e:name ?n FILTER(RAND() < 2) }",
        "SELECT ?p ?n { ?p e:lives ?c . ?c e:name ?n FILTER(STR(?n) = STRAFTER(STR(?p), \"http://e/p\")) }",
        "SELECT ?p ?n { ?p e:lives ?c . ?c e:name ?n FILTER(EXISTS { ?c e:twin ?c } && LANG(?n) = \"en\") }",
        "SELECT ?p ?n { ?p e:lives ?c . ?c e:name ?n FILTER(?undefined || LANG(?n) = \"en\") }",
        "SELECT ?p (COUNT(?n) AS ?k) { ?p e:lives ?c . ?c e:name ?n FILTER(LANG(?n) != \"en\") } GROUP BY ?p",
        "SELECT (COUNT(*) AS ?k) { ?p e:lives ?c . ?c e:name ?n FILTER(LANG(?n) != \"en\") }",
        "SELECT ?c { ?c e:twin ?t FILTER NOT EXISTS { ?t e:name ?n FILTER(LANG(?n) = \"en\" && STR(?n) != \"n3\") } }",
    ] {
        checked(&data, &format!("PREFIX e: <http://e/> {query}"));
    }
}

#[test]
fn filters_that_others_imply_are_left_out() {
    let mut data = citizens();
    data.push_str("<http://e/x> <http://e/name> <http://e/iri> .\n_:b <http://e/name> \"1\"^^<http://e/type> .\n");
    data.push_str("<http://e/x> <http://e/near> \"http://e/city1\" .\n<http://e/x> <http://e/near> <http://e/city1> .\n");
    let prefixes = "PREFIX e: <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> \
         PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>";
    for (filter, kept) in [
        (
            "isLiteral(?n) && DATATYPE(?n) = xsd:string && LANG(?n) = \"\"",
            1,
        ),
        ("isLiteral(?n) && LANG(?n) != \"en\"", 1),
        ("isLiteral(?n) && LANGMATCHES(LANG(?n), \"*\")", 1),
        ("LANG(?n) = \"\" && e:type = DATATYPE(?n)", 1),
        // Not implied.
        ("LANG(?n) = \"en\" && DATATYPE(?n) = rdf:langString", 2),
        ("LANG(?n) = \"\" && DATATYPE(?n) != xsd:string", 2),
        ("isLiteral(?c) && LANG(?n) = \"en\"", 2),
        ("!isLiteral(?n) && !(LANG(?n) = \"en\")", 2),
    ] {
        let query = format!("{prefixes} SELECT ?c ?n {{ ?c e:name ?n FILTER({filter}) }}");
        let plan = checked(&data, &query);
        let parts = plan.parts();
        let filters = parts.iter().filter(|part| part.operator == "Filter");
        let filters = filters.count();
        assert!(filters <= kept, "{filter}: {filters}\n{plan}");
    }
    // Literals with an IRI's text are no IRIs, and the other way round.
    for query in [
        "SELECT ?c { ?c e:near ?n FILTER(STR(?n) = \"http://e/city1\") }",
        "SELECT ?c ?n { ?c e:near ?n FILTER(STR(?n) = \"http://e/city1\" || ?n = e:city2) }",
        "SELECT ?p { ?p e:lives ?c FILTER(\"http://e/city1\" = STR(?c)) }",
        "SELECT ?p { ?p e:lives ?c FILTER(STR(?c) = \"no IRI\") }",
        "SELECT ?p { ?p e:lives ?c FILTER(STR(?c) = \"http://e/city1\"@en) }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(LANGMATCHES(LANG(?n), \"e\")) }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(SUBSTR(?n, 1, 2) = \"n1\") }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(SUBSTR(?n, 2, 2) = \"1\") }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(SUBSTR(STR(?n), 1) = \"n1\") }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(\"n1\" = SUBSTR(STR(?n), 1, 2)) }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(SUBSTR(STR(?n), 1, 0) = \"\") }",
        "SELECT ?c ?n { ?c e:name ?n FILTER(SUBSTR(STR(?c), 1, 13) = \"http://e/city\" && !isBlank(?c)) }",
    ] {
        checked(&data, &format!("{prefixes} {query}"));
    }
}

#[test]
fn binds_that_nothing_needs_are_dropped() {
    let data = citizens();
    for query in [
        "SELECT ?p { ?p e:lives ?c BIND(STR(?c) AS ?s) }",
        "SELECT (COUNT(*) AS ?n) { ?p e:lives ?c BIND(STR(?c) AS ?s) }",
        "SELECT ?p { ?p e:lives ?c OPTIONAL { ?c e:twin ?t BIND(STR(?t) AS ?s) } }",
        "SELECT ?c { ?c e:twin ?t { BIND(1 AS ?s) } UNION { BIND(2 AS ?s) } }",
        "SELECT ?c { ?c e:twin ?t FILTER NOT EXISTS { BIND(1 AS ?s) } }",
        "SELECT ?c { ?c e:twin ?t FILTER EXISTS { BIND(1/0 AS ?s) } }",
        "SELECT ?c { ?c e:twin ?t MINUS { BIND(1 AS ?s) } }",
    ] {
        let plan = checked(&data, &format!("PREFIX e: <http://e/> {query}"));
        let binds = plan
            .parts()
            .into_iter()
            .filter(|part| part.operator == "Bind" && part.detail.starts_with("?s "));
        assert_eq!(binds.count(), 0, "{query}\n{plan}");
    }
}

#[test]
fn a_filter_that_is_true_of_nothing_reads_nothing() {
    let mut data = citizens();
    data.push_str(
        "<http://e/nan> <http://e/size> \"NaN\"^^<http://www.w3.org/2001/XMLSchema#double> .\n",
    );
    let joined = "?p e:lives ?c . ?p e:born ?d";
    for (pattern, filter) in [
        (joined, "?c != ?c"),
        (joined, "!sameTerm(?c, ?c)"),
        (joined, "!BOUND(?d)"),
        (joined, "isLiteral(?p)"),
        (joined, "?p != ?d && !isIRI(?d)"),
        ("?p e:lives ?c . ?c e:name ?n", "?n != ?n"),
        ("?p e:lives ?c OPTIONAL { ?c e:twin ?t }", "!BOUND(?c)"),
        (
            "?p e:lives ?c { ?p e:born ?q } UNION { ?c e:twin ?q }",
            "?c != ?c",
        ),
    ] {
        let query = format!("PREFIX e: <http://e/> SELECT * {{ {pattern} FILTER({filter}) }}");
        let plan = checked(&data, &query);
        assert_eq!(rows(&plan), 0, "{query}\n{plan}");
    }
    // NaN is not equal to itself, and what is not bound is not bound.
    for (pattern, filter) in [
        ("?c e:size ?n", "?n != ?n"),
        ("?c e:twin ?d OPTIONAL { ?c e:born ?t }", "!BOUND(?t)"),
        ("?c e:twin ?d", "!BOUND(?nowhere)"),
    ] {
        let query = format!("PREFIX e: <http://e/> SELECT ?c {{ {pattern} FILTER({filter}) }}");
        let plan = checked(&data, &query);
        assert!(rows(&plan) > 0, "{query}\n{plan}");
    }
}

#[test]
fn an_empty_language_range_matches_literals_without_a_language() {
    let database = database(&citizens());
    let count = |language: &str| {
        let query = format!(
            "SELECT ?c ?n {{ ?c <http://e/name> ?n FILTER(LANGMATCHES({language}, \"\")) }}"
        );
        ours(&database, &query).unwrap().lines.len()
    };
    // Ranges of ids are not known of the second.
    assert_eq!(
        (count("LANG(?n)"), count("CONCAT(LANG(?n), \"\")")),
        (20, 20)
    );
}

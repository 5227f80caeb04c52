//! Aggregates that are computed without making all solutions.

use pythia::{Database, PlanNode};

use super::{checked, has, items, values};
use crate::support::{Peer, analyze, database};

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
        // Parts that share no variable.
        count("", &format!("?x {a} ?h . ?y {b} ?i")),
        count("", &format!("?x {a} ?h . ?y {a} ?i . ?z {c} ?j")),
        count("", &format!("?x {a} ?h . ?y {a} ?h . ?z {c} ?j")),
        count("?h", &format!("?x {a} ?h . ?y {b} ?i")),
        count(
            "?h",
            &format!("?x {a} ?h . ?y {b} ?i FILTER(STR(?i) = \"x\")"),
        ),
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?i FILTER(STR(?i) = \"x\")"),
        ),
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?i . <http://e/n2> <http://e/type> <http://e/T>"),
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
        // A part that tests the link, and has several solutions for a term.
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?h . {{ SELECT ?h {{ ?z {c} ?h }} }}"),
        ),
        // Keys or a condition in all parts that share no variable.
        count("?h ?i", &format!("?x {a} ?h . ?y {b} ?i")),
        count("", &format!("?x {a} ?h . ?y {b} ?i FILTER(?h < ?i)")),
        // A condition over a variable that nothing binds.
        count("", &format!("?x {a} ?h . ?y {b} ?i FILTER(?unbound != 1)")),
        count(
            "",
            &format!("?x {a} ?h . ?y {b} ?h FILTER(!BOUND(?unbound) && ?unbound != 1)"),
        ),
        // A pattern that is not made of triple patterns.
        count(
            "",
            &format!("?x {a} ?h . {{ ?y {b} ?h }} UNION {{ ?y {c} ?h }}"),
        ),
    ];
    for (queries, is_product) in [(&products[..], true), (&enumerated[..], false)] {
        for query in queries {
            let plan = checked(&data, query);
            let has_counts = plan.to_string().contains("_:count0");
            assert_eq!(has_counts, is_product, "{query}\n{plan}");
        }
    }
}

/// Sums over one part of a join are sums of its sums, as often as the other parts have solutions.
#[test]
fn sums_over_joins_are_sums_of_the_sums_of_a_part() {
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let mut data = hubs();
    for node in 0..119 {
        let (price, datatype) = match node % 5 {
            0 => (format!("{node}.25"), "decimal"),
            1 => (format!("{node}.5"), "float"),
            2 if node > 60 => (format!("{node}.5E1"), "double"),
            _ => (node.to_string(), "integer"),
        };
        data.push_str(&format!(
            "<http://e/n{node}> <http://e/price> \"{price}\"^^<{xsd}{datatype}> .\n"
        ));
    }
    data.push_str("<http://e/n119> <http://e/price> \"dear\" .\n");
    let all = "(COUNT(*) AS ?n) (SUM(?v) AS ?sum) (AVG(?v) AS ?avg) (COUNT(?v) AS ?count)";
    let group = |keys: &str, select: &str, pattern: &str| {
        let by = if keys.is_empty() { "" } else { "GROUP BY" };
        format!("SELECT {keys} {select} {{ {pattern} }} {by} {keys}")
    };
    let (a, b, c) = ("<http://e/a>", "<http://e/b>", "<http://e/c>");
    let value = "<http://e/value> ?v";
    let prices = &format!("?x {a} ?h ; <http://e/price> ?v . ?y {b} ?h");
    let decimal = format!("<{xsd}decimal>");
    let eager = [
        group("", all, &format!("?x {a} ?h ; {value} . ?y {b} ?h")),
        group("?h", all, &format!("?x {a} ?h ; {value} . ?y {b} ?h")),
        group("?y", all, &format!("?x {a} ?h ; {value} . ?y {b} ?h")),
        group(
            "?y",
            all,
            &format!("?x {a} ?h ; {value} . ?y {b} ?h . ?z {c} ?h"),
        ),
        group(
            "",
            "(SUM(?v) AS ?one) (AVG(?w) AS ?other)",
            &format!("?x {a} ?h ; {value} . ?y {b} ?h ; <http://e/value> ?w"),
        ),
        // Parts that share no variable.
        group("", all, &format!("?x {a} ?h ; {value} . ?y {b} ?i")),
        group("?i", all, &format!("?x {a} ?h ; {value} . ?y {b} ?i")),
        // All types of numbers, and errors.
        group("?y", all, prices),
        group("", all, &format!("{prices} FILTER(?v < 50)")),
        group("?h", &format!("(SUM({decimal}(?v)) AS ?sum)"), prices),
        group(
            "?y",
            all,
            &format!("{prices} FILTER(?v > 20) FILTER(?y != <http://e/n3>)"),
        ),
        // Nothing is found.
        group(
            "",
            all,
            &format!("{prices} FILTER(STR(?y) = \"x\" && ?h != ?y) ?z {a} ?h"),
        ),
    ];
    let enumerated = [
        // Aggregates over the part with the keys, or over two parts; distinct terms; few solutions.
        group("?x", all, &format!("?x {a} ?h ; {value} . ?y {b} ?h")),
        group(
            "",
            "(SUM(?v + ?w) AS ?sum)",
            &format!("?x {a} ?h ; {value} . ?y {b} ?h ; <http://e/value> ?w"),
        ),
        group(
            "",
            "(SUM(DISTINCT ?v) AS ?sum)",
            &format!("?x {a} ?h ; {value} . ?y {b} ?h"),
        ),
        group(
            "",
            "(MAX(?v) AS ?max)",
            &format!("?x {a} ?h ; {value} . ?y {b} ?h"),
        ),
        group(
            "",
            all,
            &format!("<http://e/n5> {a} ?h ; {value} . ?y {b} ?h"),
        ),
    ];
    for (queries, is_eager) in [(&eager[..], true), (&enumerated[..], false)] {
        for query in queries {
            let plan = checked(&data, query);
            let has_sums =
                plan.to_string().contains("_:sum0") || plan.to_string().contains("_:sum1");
            assert_eq!(has_sums, is_eager, "{query}\n{plan}");
        }
    }
}

/// Equal groups of a plan are computed once: a sum over all, and the sum over what is taken away.
#[test]
fn equal_groups_are_computed_once() {
    let mut data = offers();
    for offer in 0..80 {
        for part in 0..3 {
            data.push_str(&format!(
                "<http://e/o{offer}-{part}> <http://e/of> <http://e/p{}> .\n\
                 <http://e/o{offer}-{part}> <http://e/price> \"{part}.5\"^^<http://www.w3.org/2001/XMLSchema#decimal> .\n",
                offer % 20
            ));
        }
    }
    let offers = "?p <http://e/type> <http://e/T> . ?o <http://e/of> ?p ; <http://e/price> ?v .";
    let query = format!(
        "SELECT ?f ?with ?without {{
         {{ SELECT ?f (AVG(?v) AS ?with) {{ {offers} ?p <http://e/feature> ?f }} GROUP BY ?f }}
         {{ SELECT ?f (AVG(?v) AS ?without) {{
            {{ SELECT DISTINCT ?f {{ ?q <http://e/type> <http://e/T> ; <http://e/feature> ?f }} }}
            {offers} FILTER NOT EXISTS {{ ?p <http://e/feature> ?f }} }} GROUP BY ?f }} }}"
    );
    let plan = checked(&data, &query).to_string();
    assert_eq!(plan.matches("(once for all of number").count(), 3, "{plan}");
    // A group that draws lots is another each time.
    let drawn = "SELECT (SUM(?v * RAND()) AS ?sum) { ?x <http://e/price> ?v }";
    let database = database(&data);
    let query = format!(
        "SELECT * {{ {{ {drawn} }} {{ {} }} }}",
        drawn.replace("?sum", "?other")
    );
    let plan = analyze(&database, &query).1.to_string();
    assert!(!plan.contains("once for all"), "{plan}");
}

/// 8,000 visits to 100 places. Each place has four kinds and one of four towns; some are closed.
fn visits() -> String {
    let mut text = String::new();
    let mut triple = |subject: String, predicate: &str, object: String| {
        text.push_str(&format!(
            "<http://e/{subject}> <http://e/{predicate}> <http://e/{object}> .\n"
        ));
    };
    for n in 0..8000 {
        triple(format!("visit{n}"), "to", format!("place{}", n * 7 % 100));
    }
    for n in 0..100 {
        for kind in 3..7 {
            triple(
                format!("place{n}"),
                "kind",
                format!("kind{}", n * kind % 40),
            );
        }
        triple(format!("place{n}"), "is", "Place".to_owned());
        triple(format!("place{n}"), "town", format!("town{}", n % 4));
        if n % 3 == 0 {
            triple(format!("place{n}"), "closed", format!("year{}", n % 7));
        }
    }
    text
}

/// Rows after the first step that has the number of solutions that a row stands for, if there is one.
fn counted(plan: &PlanNode) -> Option<u64> {
    let parts = plan.parts().into_iter();
    let mut counting = parts.filter(|part| {
        part.operator == "EarlyCount" || part.detail.ends_with("(number of matches)")
    });
    counting
        .next()
        .and_then(|part| part.measured)
        .map(|measured| measured.rows)
}

#[test]
fn solutions_are_counted_before_they_are_multiplied() {
    let data = visits();
    let visited = "?place e:town e:town1 . ?visit e:to ?place";
    let queries = [
        "SELECT ?year (COUNT(?visit) AS ?n) (COUNT(*) AS ?m) { VISITED OPTIONAL { ?place e:closed ?year } }
         GROUP BY ?year HAVING (COUNT(?place) > 3) ORDER BY ?year",
        "SELECT ?year ?kind (COUNT(?visit) AS ?n) { VISITED
            OPTIONAL { ?place e:closed ?year } OPTIONAL { ?place e:kind ?kind } } GROUP BY ?year ?kind",
        "SELECT ?x (COUNT(?visit) AS ?n) { VISITED
            OPTIONAL { { ?place e:closed ?x } UNION { ?place e:kind ?x } } } GROUP BY ?x",
        "SELECT ?long (COUNT(?visit) AS ?n) { VISITED
            OPTIONAL { ?place e:kind ?kind } BIND(STRLEN(STR(?kind)) AS ?long) } GROUP BY ?long",
        "SELECT ?year (COUNT(?visit) AS ?n) { VISITED
            OPTIONAL { ?place e:closed ?year } OPTIONAL { ?other e:to ?place } } GROUP BY ?year",
        "SELECT ?year (COUNT(?visit) AS ?n) { VISITED OPTIONAL { ?place e:closed ?year }
            FILTER(EXISTS { ?place e:kind e:kind5 } || ?year = e:year3) } GROUP BY ?year",
    ];
    for query in queries {
        let query = format!(
            "PREFIX e: <http://e/> {}",
            query.replace("VISITED", visited)
        );
        let plan = checked(&data, &query);
        assert_eq!(counted(&plan), Some(25), "{query}\n{plan}");
    }
    let open = format!(
        "PREFIX e: <http://e/> SELECT (COUNT(?visit) AS ?n)
         {{ {visited} OPTIONAL {{ ?place e:closed ?year }} FILTER(!BOUND(?year)) }}"
    );
    // Places that are closed are dropped before their visits are counted.
    assert_eq!(counted(&checked(&data, &open)), Some(17));
    // The scan is in the order of the places.
    let scanned = "PREFIX e: <http://e/> SELECT ?place (COUNT(?visit) AS ?n)
        { ?place e:is e:Place . ?visit e:to ?place } GROUP BY ?place";
    let plan = checked(&data, scanned);
    let count = counted(&plan).unwrap();
    assert!((100..200).contains(&count), "{plan}");
    for query in [
        // Each solution draws its own lot, is a value of its own, or leaves the pipeline first.
        "SELECT ?half (COUNT(?visit) AS ?n) { VISITED OPTIONAL { ?place e:closed ?year }
            BIND(RAND() < 0.5 AS ?half) } GROUP BY ?half",
        "SELECT ?year (COUNT(DISTINCT ?visit) AS ?n) { VISITED OPTIONAL { ?place e:closed ?year } } GROUP BY ?year",
        "SELECT ?year (COUNT(?visit) AS ?n) (MIN(?visit) AS ?m) { VISITED
            OPTIONAL { ?place e:closed ?year } } GROUP BY ?year",
        "SELECT ?year (COUNT(?visit) AS ?n) { VISITED
            OPTIONAL { ?place e:closed ?year } MINUS { ?place e:kind e:kind3 } } GROUP BY ?year",
        "SELECT ?visit (COUNT(?kind) AS ?n) { VISITED OPTIONAL { ?place e:kind ?kind } } GROUP BY ?visit",
        "SELECT ?visit ?kind (COUNT(*) AS ?n) { ?visit e:to ?place OPTIONAL { ?place e:kind ?kind }
            OPTIONAL { ?place e:closed ?year } } GROUP BY ?visit ?kind",
    ] {
        let query = format!(
            "PREFIX e: <http://e/> {}",
            query.replace("VISITED", visited)
        );
        let (lines, plan) = analyze(&database(&data), &query);
        assert_eq!(counted(&plan), None, "{query}\n{plan}");
        if !query.contains("RAND") {
            let expected = Peer::new(&data).answer(&query).unwrap().sorted().lines;
            assert_eq!(lines, expected, "{query}");
        }
    }
}

#[test]
fn counts_of_counted_solutions_may_be_huge() {
    let links = 20_000_u64;
    let mut data = "<http://e/hub> <http://e/is> <http://e/Hub> .\n".to_owned();
    for n in 0..links {
        data.push_str(&format!("<http://e/hub> <http://e/to> <http://e/{n}> .\n"));
    }
    let database = database(&data);
    let count = |factors: usize| {
        let factors: String = (0..factors)
            .map(|n| format!("OPTIONAL {{ ?hub <http://e/to> ?v{n} }} "))
            .collect();
        let query = format!(
            "SELECT (COUNT(*) AS ?n) {{ ?hub <http://e/is> <http://e/Hub> {factors}
                OPTIONAL {{ ?hub <http://e/named> ?name }} }}"
        );
        analyze(&database, &query)
    };
    // The numbers of four are too large for an id, those of five for the count.
    for factors in [3, 4] {
        let (lines, plan) = count(factors as usize);
        assert!(has(&plan, "EarlyCount"), "{plan}");
        let expected = links.pow(factors).to_string();
        assert!(lines[0].contains(&format!("\"{expected}\"")), "{lines:?}");
    }
    let (lines, _) = count(5);
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].contains('"'), "{lines:?}");
}

#[test]
fn matches_that_nobody_needs_are_counted() {
    let data = visits();
    let count = |query: &str, steps: usize| {
        let plan = checked(&data, &format!("PREFIX e: <http://e/> {query}"));
        let parts = plan.parts();
        let counting = parts
            .iter()
            .filter(|part| part.detail.ends_with("(number of matches)"));
        assert_eq!(counting.count(), steps, "{query}\n{plan}");
    };
    count(
        "SELECT (COUNT(*) AS ?n) { ?place e:town ?town . ?visit e:to ?place }",
        1,
    );
    count(
        "SELECT ?town (COUNT(*) AS ?n) { ?place e:town ?town . ?visit e:to ?place } GROUP BY ?town",
        1,
    );
    count(
        "SELECT ?town (COUNT(?v) AS ?n) (COUNT(DISTINCT ?place) AS ?k) (MIN(?place) AS ?first)
            { ?place e:town ?town . ?v e:to ?place } GROUP BY ?town",
        1,
    );
    // The numbers of two steps are multiplied.
    count(
        "SELECT (COUNT(*) AS ?n) { ?place e:town e:town1 . ?v e:to ?place FILTER(?v != e:visit1)
            ?w e:to ?place FILTER(?w != e:visit2) }",
        2,
    );
    count(
        "SELECT (COUNT(*) AS ?n) { ?place e:town ?town . ?v e:to ?place FILTER(?v != e:visit1) }",
        1,
    );
    // Values of the matches are needed, or each has a value of its own.
    count(
        "SELECT (COUNT(DISTINCT ?v) AS ?n) { ?place e:town ?town . ?v e:to ?place }",
        0,
    );
    count(
        "SELECT (COUNT(*) AS ?n) (SUM(STRLEN(STR(?v))) AS ?k) { ?place e:town ?town . ?v e:to ?place }",
        0,
    );
    count(
        "SELECT ?v (COUNT(*) AS ?n) { ?place e:town e:town1 . ?v e:to ?place } GROUP BY ?v",
        0,
    );
}

#[test]
fn pairs_with_two_things_in_common_are_counted_by_both() {
    let mut data = String::new();
    for n in 0..600 {
        for (predicate, thing) in [("in", n % 30), ("in", n % 7), ("of", n % 11), ("of", n % 2)] {
            data.push_str(&format!(
                "<http://e/{n}> <http://e/{predicate}> <http://e/{predicate}{thing}> .\n"
            ));
        }
    }
    data.push_str("<http://e/in1> <http://e/near> <http://e/of1> .\n");
    let pairs = "?a e:in ?x ; e:of ?y . ?b e:of ?y ; e:in ?x";
    for (pattern, is_split) in [
        (format!("SELECT (COUNT(*) AS ?n) {{ {pairs} }}"), true),
        (
            format!("SELECT ?x (COUNT(?a) AS ?n) {{ {pairs} }} GROUP BY ?x"),
            true,
        ),
        (
            format!("SELECT (COUNT(*) AS ?n) {{ {pairs} . ?c e:in ?x ; e:of ?y }}"),
            true,
        ),
        (
            format!("SELECT (COUNT(*) AS ?n) {{ {pairs} . ?x e:near ?y }}"),
            true,
        ),
        (
            format!("SELECT (COUNT(*) AS ?n) {{ {pairs} FILTER(?x != e:in3) }}"),
            false,
        ),
        (
            format!("SELECT (COUNT(*) AS ?n) {{ {pairs} FILTER(?a != ?b) }}"),
            false,
        ),
        (
            format!("SELECT (COUNT(DISTINCT ?a) AS ?n) {{ {pairs} }}"),
            false,
        ),
        (
            format!("SELECT ?a (COUNT(*) AS ?n) {{ {pairs} }} GROUP BY ?a"),
            false,
        ),
        (
            "SELECT (COUNT(*) AS ?n) { ?a e:in ?x ; e:of ?y . ?b e:in ?y ; e:of ?x }".to_owned(),
            false,
        ),
    ] {
        let plan = checked(&data, &format!("PREFIX e: <http://e/> {pattern}"));
        let parts = plan.parts();
        let groups = parts.iter().filter(|part| part.operator == "Group").count();
        assert_eq!(groups > 1, is_split, "{pattern}\n{plan}");
    }
}

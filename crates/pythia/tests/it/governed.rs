//! Queries within limits: little memory, little time, few rows, a full disk. Answers are either
//! the same as without limits or an error that says which limit; and nothing is left behind.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pythia::{Database, Options, QueryError, QueryOptions, Results};

use crate::differential::generator::Generator;
use crate::support::{database, database_with, ours, ours_with};

/// A graph of `nodes` nodes, each with a few values and links, in which keys repeat, some very
/// often.
fn graph(nodes: usize) -> String {
    let mut text = String::new();
    for n in 0..nodes {
        let (next, group) = ((n * 7 + 1) % nodes, n * n % 97);
        let heavy = if n % 3 == 0 { 0 } else { n % 50 };
        text.push_str(&format!(
            "<http://e/n{n}> <http://e/next> <http://e/n{next}> .\n\
             <http://e/n{n}> <http://e/value> \"{}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
             <http://e/n{n}> <http://e/name> \"name {}\" .\n\
             <http://e/n{n}> <http://e/group> <http://e/g{group}> .\n\
             <http://e/n{n}> <http://e/heavy> <http://e/h{heavy}> .\n",
            n * 31 % 1009,
            n * 17 % nodes,
        ));
        if n % 4 == 0 {
            text.push_str(&format!(
                "<http://e/n{n}> <http://e/link> <http://e/n{}> .\n",
                n / 2
            ));
        }
    }
    text
}

fn with_memory(data: &str, memory_bytes: usize) -> Database {
    let options = Options {
        memory_bytes,
        ..Options::default()
    };
    database_with(data, options)
}

/// Nothing is held by queries that are over.
fn assert_all_freed(database: &Database) {
    let usage = database.usage();
    assert_eq!((usage.memory_bytes, usage.spill_bytes), (0, 0), "{usage:?}");
}

/// One query per operator that holds state; those with `true` have their solutions in order.
const QUERIES: &[(&str, bool)] = &[
    (
        "SELECT ?n ?v { ?n <http://e/value> ?v } ORDER BY ?v ?n",
        true,
    ),
    (
        "SELECT ?n ?m { ?n <http://e/name> ?m } ORDER BY DESC(?m) ?n",
        true,
    ),
    (
        "SELECT ?n { ?n <http://e/value> ?v } ORDER BY (?v * 2 - 5) DESC(?n)",
        true,
    ),
    (
        "SELECT ?n ?v { ?n <http://e/value> ?v } ORDER BY ?v ?n OFFSET 700 LIMIT 1500",
        true,
    ),
    (
        "SELECT ?n ?v { ?n <http://e/value> ?v } ORDER BY ?v ?n LIMIT 5",
        true,
    ),
    ("SELECT DISTINCT ?n ?m { ?n <http://e/next> ?m }", false),
    (
        "SELECT DISTINCT ?v ?g { ?n <http://e/value> ?v ; <http://e/heavy> ?g }",
        false,
    ),
    (
        "SELECT DISTINCT ?v ?g { { SELECT ?v ?g { ?n <http://e/value> ?v ; <http://e/heavy> ?g } \
         ORDER BY ?v ?g } }",
        true,
    ),
    (
        "SELECT ?m (COUNT(*) AS ?c) { ?n <http://e/next>/<http://e/next> ?m } GROUP BY ?m",
        false,
    ),
    (
        // These groups do not come sorted by their key.
        "SELECT ?t ?n (COUNT(*) AS ?c) { ?n <http://e/next> ?m . ?m <http://e/name> ?t } GROUP BY ?t ?n",
        false,
    ),
    (
        "SELECT ?v (COUNT(?n) AS ?c) (SUM(?x) AS ?s) (MIN(?x) AS ?i) (MAX(?m) AS ?j) \
         { ?n <http://e/name> ?v ; <http://e/next> ?m . ?m <http://e/value> ?x } GROUP BY ?v",
        false,
    ),
    (
        "SELECT (COUNT(DISTINCT ?m) AS ?c) { ?n <http://e/name> ?m }",
        false,
    ),
    (
        "SELECT (COUNT(DISTINCT *) AS ?c) { ?n <http://e/value> ?v . ?n <http://e/next> ?m }",
        false,
    ),
    (
        "SELECT ?h (COUNT(DISTINCT ?n) AS ?c) (SUM(DISTINCT ?v) AS ?s) (AVG(?v) AS ?a) \
         { ?n <http://e/heavy> ?h ; <http://e/value> ?v } GROUP BY ?h",
        false,
    ),
    (
        "SELECT ?n ?m ?v { { SELECT ?n ?m { ?n <http://e/next> ?m } LIMIT 100000 } \
         { SELECT ?m ?v { ?m <http://e/value> ?v } LIMIT 100000 } }",
        false,
    ),
    (
        "SELECT ?a ?b { { SELECT ?a ?h { ?a <http://e/heavy> ?h . ?a <http://e/link> ?l } LIMIT 400 } \
         { SELECT ?b ?h { ?b <http://e/heavy> ?h } LIMIT 100000 } }",
        false,
    ),
    (
        "SELECT ?n ?m ?v { { SELECT ?n ?m { ?n <http://e/next> ?m } LIMIT 100000 } \
         OPTIONAL { { SELECT ?m ?v { ?m <http://e/value> ?v . ?m <http://e/link> ?l } LIMIT 100000 } \
         FILTER(?v > 300) } }",
        false,
    ),
    (
        "SELECT ?a ?b { { SELECT ?a ?h { ?a <http://e/heavy> ?h . ?a <http://e/link> ?l } LIMIT 200 } \
         OPTIONAL { { SELECT ?b ?h { ?b <http://e/heavy> ?h } LIMIT 100000 } \
         FILTER(STR(?a) > STR(?b)) } }",
        false,
    ),
    (
        "SELECT ?n ?m { ?n <http://e/next> ?m MINUS { ?n <http://e/link> ?l . ?n <http://e/name> ?m2 } }",
        false,
    ),
    (
        "SELECT ?n ?m { ?n <http://e/next> ?m MINUS { ?n <http://e/next> ?m . ?m <http://e/value> ?v \
         FILTER(?v < 500) } }",
        false,
    ),
    (
        // A variable that only some solutions bind: no key to deal out by.
        "SELECT * { { SELECT ?n ?l { ?n <http://e/heavy> <http://e/h7> \
         OPTIONAL { ?n <http://e/link> ?l } } } MINUS { ?x <http://e/name> ?m OPTIONAL { ?x <http://e/link> ?l } } }",
        false,
    ),
    (
        "SELECT ?a ?b { { SELECT ?a { ?a <http://e/heavy> <http://e/h8> } } \
         { SELECT ?b { ?b <http://e/name> ?m } LIMIT 3000 } }",
        false,
    ),
    (
        "SELECT ?n ?m { ?n <http://e/heavy> <http://e/h9> ; <http://e/next>+ ?m }",
        false,
    ),
    ("SELECT ?n ?m { ?n <http://e/link>* ?m }", false),
    (
        "SELECT ?n { ?n <http://e/next> ?m FILTER EXISTS { ?m <http://e/link>/<http://e/next> ?l } \
         FILTER NOT EXISTS { ?n <http://e/heavy> ?h MINUS { ?n <http://e/link> ?l } } }",
        false,
    ),
    (
        "SELECT ?n ?h ?v { ?n <http://e/heavy> ?h ; <http://e/link> ?l LATERAL { SELECT ?h ?v \
         { ?m <http://e/heavy> ?h ; <http://e/value> ?v } ORDER BY DESC(?v) LIMIT 2 } }",
        false,
    ),
    (
        "SELECT ?h (COUNT(*) AS ?c) { ?a <http://e/group> ?g . ?b <http://e/group> ?g ; \
         <http://e/heavy> ?h } GROUP BY ?h",
        false,
    ),
];

/// The sets of DISTINCT are divided among parts, and each puts rows off to files of its own.
#[test]
fn divided_sets_of_distinct_put_rows_off() {
    let query = "SELECT ?a (COUNT(DISTINCT ?b) AS ?n) (SUM(DISTINCT ?v) AS ?s) (COUNT(*) AS ?c) \
         { ?a <http://e/name> ?m . ?b <http://e/link> ?x ; <http://e/value> ?v } GROUP BY ?a";
    let nodes = 2000;
    let data = graph(nodes);
    let with = |memory_bytes, threads| {
        let options = Options {
            memory_bytes,
            threads: NonZero::new(threads),
            ..Options::default()
        };
        database_with(&data, options)
    };
    let values = (0..nodes).step_by(4).map(|n| n * 31 % 1009);
    let (count, sum) = (nodes / 4, values.sum::<usize>());
    let row = |n: usize| format!("http://e/n{n},{count},{sum},{count}");
    let mut expected: Vec<String> = (0..nodes).map(row).collect();
    expected.sort_unstable();
    let texts = "SELECT ?a (GROUP_CONCAT(DISTINCT ?b) AS ?all) (COUNT(DISTINCT ?v) AS ?n) \
         { ?a <http://e/name> ?m . ?b <http://e/link> ?x ; <http://e/value> ?v } GROUP BY ?a";
    let mut members: Vec<String> = (0..nodes)
        .step_by(4)
        .map(|n| format!("http://e/n{n}"))
        .collect();
    members.sort_unstable();
    // A set of a million rows takes 33 MiB or more.
    for (memory, threads) in [(96 << 20, 1), (96 << 20, 4), (1 << 30, 4)] {
        let database = with(memory, threads);
        let lines = |query: &str| {
            let results = database.query(query).unwrap();
            let mut text = Vec::new();
            pythia::write_results(results, pythia::ResultFormat::Csv, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        assert!(
            lines(query) == expected,
            "{memory} bytes, {threads} threads"
        );
        let usage = database.usage();
        assert_eq!(usage.spilled_bytes > 0, memory < 1 << 30, "{usage:?}");
        assert_eq!(usage.helped > 0, threads > 1, "{usage:?}");
        // Each member is there once, in any order.
        for line in lines(texts) {
            let cells: Vec<&str> = line.split(',').collect();
            let mut found: Vec<&str> = cells[1].split(' ').collect();
            found.sort_unstable();
            assert!(found == members, "{line}");
            assert_eq!(cells[2], count.to_string());
        }
        assert_all_freed(&database);
    }
}

#[test]
fn answers_are_the_same_with_little_memory() {
    let data = graph(4000);
    let large = database(&data);
    for memory in [256 << 10, 1 << 20] {
        let small = with_memory(&data, memory);
        let mut spilling = 0;
        for (query, ordered) in QUERIES {
            let before = small.usage().spilled_bytes;
            let expected = ours(&large, query).unwrap();
            let found = ours(&small, query).unwrap_or_else(|error| panic!("{query}: {error}"));
            if *ordered {
                assert!(found == expected, "{memory}: {query}");
            } else {
                assert!(found.sorted() == expected.sorted(), "{memory}: {query}");
            }
            spilling += usize::from(small.usage().spilled_bytes > before);
            assert_all_freed(&small);
        }
        if memory < 1 << 20 {
            assert!(spilling >= 10, "{spilling} queries spill");
        }
    }
    assert_eq!(large.usage().spilled_bytes, 0);
}

/// What makes an answer depend on the order of solutions, or on chance.
const ANY_ORDER: &[&str] = &[
    "SAMPLE", "CONCAT", "LIMIT", "OFFSET", "RAND", "UUID", "BNODE", "NOW",
];

#[test]
fn random_queries_have_the_same_answers_with_little_memory() {
    // Some random queries join everything with everything.
    let limited = QueryOptions {
        row_limit: Some(50_000),
        timeout: Some(Duration::from_secs(2)),
        ..QueryOptions::default()
    };
    let (mut compared, mut spilling) = (0, 0);
    for seed in 0..60 {
        let mut generator = Generator::new(seed);
        let data: Vec<String> = (0..12).flat_map(|_| generator.data()).collect();
        let data = data.join("\n");
        let (large, small) = (database(&data), with_memory(&data, 256 << 10));
        for _ in 0..8 {
            let query = generator.query().join("\n");
            if ANY_ORDER.iter().any(|word| query.contains(word)) {
                continue;
            }
            let Ok(expected) = ours_with(&large, &query, &limited) else {
                continue;
            };
            let before = small.usage().spilled_bytes;
            match ours_with(&small, &query, &limited) {
                Ok(found) => assert!(found.sorted() == expected.sorted(), "seed {seed}: {query}"),
                // The triples of a CONSTRUCT and what a path has visited are remembered in memory.
                Err(QueryError::Memory(_))
                    if ["CONSTRUCT", ")+ "].iter().any(|word| query.contains(word)) =>
                {
                    continue;
                }
                Err(QueryError::Timeout) => continue,
                Err(error) => panic!("seed {seed}: {query}: {error}"),
            }
            compared += 1;
            spilling += usize::from(small.usage().spilled_bytes > before);
            assert_all_freed(&small);
        }
    }
    assert!(
        compared > 150 && spilling > 2,
        "{compared} compared, {spilling} spill"
    );
}

#[test]
fn a_full_disk_is_a_clear_error_and_the_next_query_runs() {
    let data = graph(3000);
    let sorting = "SELECT ?n ?v { ?n <http://e/value> ?v } ORDER BY ?v";
    let full = Options {
        memory_bytes: 100 << 10,
        spill_bytes: 20 << 10,
        ..Options::default()
    };
    let missing = Options {
        memory_bytes: 100 << 10,
        spill_folder: Some("/nowhere/to/spill".into()),
        ..Options::default()
    };
    for (options, expected) in [(full, "limit"), (missing, "/nowhere/to/spill")] {
        let database = database_with(&data, options);
        match ours(&database, sorting) {
            Err(error @ QueryError::Spill { .. }) => {
                assert!(error.to_string().contains(expected), "{error}");
                assert!(error.to_string().contains("--spill-folder"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_all_freed(&database);
        let small = "SELECT DISTINCT ?p { <http://e/n1> ?p ?o }";
        assert_eq!(ours(&database, small).unwrap().lines.len(), 5);
    }
}

#[test]
fn a_row_limit_is_an_error_after_the_rows_it_lets_through() {
    let database = database(&graph(100));
    let query = "SELECT ?n { ?n <http://e/next> ?m }";
    let limited = |row_limit| QueryOptions {
        row_limit: Some(row_limit),
        ..QueryOptions::default()
    };
    assert_eq!(
        ours_with(&database, query, &limited(100))
            .unwrap()
            .lines
            .len(),
        100
    );
    let prepared = database.prepare(query, &limited(99)).unwrap();
    let Results::Solutions(mut solutions) = prepared.execute().unwrap() else {
        panic!("a SELECT has solutions");
    };
    let mut rows = 0;
    let error = loop {
        match solutions.next_batch() {
            Ok(Some(batch)) => rows += batch.len(),
            Ok(None) => panic!("the result is cut without a word"),
            Err(error) => break error,
        }
    };
    assert_eq!(rows, 99);
    assert!(matches!(error, QueryError::RowLimit(99)), "{error}");
    assert!(error.to_string().contains("--max-rows"), "{error}");

    let construct = "CONSTRUCT { ?n <http://e/made> ?m } { ?n <http://e/next> ?m }";
    assert!(ours_with(&database, construct, &limited(100)).is_ok());
    let error = ours_with(&database, construct, &limited(10)).unwrap_err();
    assert!(matches!(error, QueryError::RowLimit(10)), "{error}");
}

/// Queries whose work has no end that anyone would wait for.
const ENDLESS: &[&str] = &[
    "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER(?a != ?d || ?g != ?j) }",
    "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?c ?d",
    "SELECT DISTINCT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }",
    "SELECT ?a ?d ?g (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } GROUP BY ?a ?d ?g",
    "SELECT (COUNT(DISTINCT *) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }",
    "SELECT * { { SELECT ?a ?d { ?a ?b ?c . ?d ?e ?f } } { SELECT ?g ?j { ?g ?h ?i . ?j ?k ?l } } \
     FILTER(STR(?a) = CONCAT(STR(?g), STR(?j))) }",
    "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i FILTER(REGEX(CONCAT(STR(?c), STR(?f), STR(?i)), \"x.*y.*z\")) }",
    "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f LATERAL { SELECT ?a ?d ?h { ?g ?h ?a . ?i ?j ?d } ORDER BY ?g LIMIT 1 } }",
    "SELECT * { ?a ?b ?c LATERAL { SELECT ?a ?d (COUNT(*) AS ?n) { ?d ?e ?f . ?g ?h ?a } GROUP BY ?a ?d } FILTER(?n < 0) }",
    "SELECT (COUNT(*) AS ?n) { ?a (<http://e/next>|<http://e/link>|^<http://e/heavy>|<http://e/heavy>)* ?b . \
     ?b (<http://e/next>|<http://e/link>)* ?c . ?c (<http://e/next>|^<http://e/link>)* ?d }",
];

#[test]
fn a_deadline_ends_any_query_and_frees_everything() {
    let data = graph(3000);
    for memory in [512 << 10, 64 << 20] {
        let database = with_memory(&data, memory);
        for query in ENDLESS {
            let options = QueryOptions {
                timeout: Some(Duration::from_millis(150)),
                ..QueryOptions::default()
            };
            match ours_with(&database, query, &options) {
                Err(QueryError::Timeout) => {}
                other => panic!("{query}: {:?}", other.map(|answer| answer.lines.len())),
            }
            assert_all_freed(&database);
        }
    }
}

#[test]
fn a_deadline_in_the_past_and_a_cancelled_query_do_not_start() {
    let database = database(&graph(10));
    let query = "SELECT * { ?s ?p ?o }";
    let late = QueryOptions {
        timeout: Some(Duration::ZERO),
        ..QueryOptions::default()
    };
    assert!(matches!(
        database.prepare(query, &late),
        Err(QueryError::Timeout)
    ));
    let cancelled = QueryOptions {
        cancel: Some(Arc::new(AtomicBool::new(true))),
        ..QueryOptions::default()
    };
    assert!(matches!(
        database.prepare(query, &cancelled),
        Err(QueryError::Cancelled)
    ));
}

#[test]
fn texts_that_grow_beyond_memory_are_an_error() {
    let database = with_memory(&graph(2000), 8 << 20);
    let doublings: String = (1..40)
        .map(|n| format!("BIND(CONCAT(?t{0}, ?t{0}) AS ?t{n}) ", n - 1))
        .collect();
    for query in [
        format!("SELECT * {{ VALUES ?t0 {{ \"0123456789\" }} {doublings} }}"),
        "SELECT (GROUP_CONCAT(CONCAT(?a, ?b, ?c)) AS ?t) { ?n <http://e/name> ?a . ?m <http://e/name> ?b . \
         ?m <http://e/name> ?c }"
            .to_owned(),
        "SELECT ?t3 { ?n <http://e/name> ?t0 BIND(REPLACE(?t0, \".\", \"a long replacement of everything\") AS ?t1) \
         BIND(REPLACE(?t1, \".\", ?t1) AS ?t2) BIND(REPLACE(?t2, \".\", ?t2) AS ?t3) }"
            .to_owned(),
        "SELECT ?t { ?n <http://e/name> ?a . ?m <http://e/name> ?b BIND(CONCAT(?a, ?b) AS ?t) } ORDER BY ?t"
            .to_owned(),
    ] {
        match ours(&database, &query) {
            Err(QueryError::Memory(_)) => {}
            other => panic!("{query}: {:?}", other.map(|answer| answer.lines.len())),
        }
        assert_all_freed(&database);
    }
}

#[test]
fn a_query_has_its_own_budget_within_the_process() {
    let database = with_memory(&graph(3000), 64 << 20);
    let query = "SELECT DISTINCT ?n ?m { ?n <http://e/next> ?m }";
    let options = QueryOptions {
        memory_bytes: Some(100 << 10),
        ..QueryOptions::default()
    };
    assert_eq!(ours(&database, query).unwrap().lines.len(), 3000);
    assert_eq!(database.usage().spilled_bytes, 0);
    assert_eq!(
        ours_with(&database, query, &options).unwrap().lines.len(),
        3000
    );
    assert!(database.usage().spilled_bytes > 0);
}

#[test]
fn solutions_without_a_match_are_not_spilled() {
    let side = |variable: &str, from: u32| {
        let values = |count: u32| -> String { (0..count).map(|n| format!(" {n}")).collect() };
        let own: String = (from..from + 10).map(|n| format!(" {n}")).collect();
        format!(
            "{{ SELECT ?a ?b {variable} {{ VALUES ?a {{{own} }} VALUES ?b {{{} }} VALUES {variable} {{{} }} }} LIMIT 100000 }}",
            values(50),
            values(60)
        )
    };
    let spilled = |join: &str, right: u32| {
        let database = with_memory("", 512 << 10);
        let (left, right) = (side("?l", 0), side("?r", right));
        let query = format!("SELECT (COUNT(*) AS ?n) {{ {left} {join} {right} }}");
        let found = ours(&database, &query).unwrap();
        assert_all_freed(&database);
        (found.lines[0].clone(), database.usage().spilled_bytes)
    };
    // Both sides have 30,000 solutions. Those of OPTIONAL without a match are wanted.
    let (all, some) = (spilled("OPTIONAL", 9), spilled("", 9));
    assert!(some.1 > 0 && some.1 < all.1 * 2 / 3, "{some:?} of {all:?}");
    assert!(some.0.contains("180000"), "{some:?}");
    // If all have a match, none is left out.
    let (all, some) = (spilled("OPTIONAL", 0), spilled("", 0));
    assert!(some.1 > all.1 * 3 / 4, "{some:?} of {all:?}");
    assert!(some.0.contains("1800000") && all.0 == some.0, "{some:?}");
}

/// A star with a number of arms around the nodes of [`graph`], each with one match.
fn star(arms: usize) -> String {
    let arm = |n: usize| format!("; <http://e/{}> ?o{n} ", ["next", "value", "name"][n % 3]);
    let arms: String = (0..arms).map(arm).collect();
    format!("SELECT * {{ ?n <http://e/group> ?g {arms} }}")
}

#[test]
fn batches_get_shorter_as_patterns_get_wider() {
    let memory_bytes = 8 << 20;
    let database = with_memory(&graph(4000), memory_bytes);
    let options = QueryOptions {
        profile: true,
        ..QueryOptions::default()
    };
    let (arms, rows) = (300, 4000);
    let query = database.prepare(&star(arms), &options).unwrap();
    let Results::Solutions(mut solutions) = query.execute().unwrap() else {
        panic!("solutions");
    };
    let mut found = 0;
    while let Some(batch) = solutions.next_batch().unwrap() {
        found += batch.len();
    }
    assert_eq!(found, rows);
    let plan = query.plan();
    let last = plan
        .parts()
        .into_iter()
        .rev()
        .find(|part| part.operator != "Pattern");
    let last = last.and_then(|part| part.measured).unwrap();
    // A batch takes at most a thirty-second part of the memory.
    let bytes = arms * rows * size_of::<u64>();
    let batches_min = bytes / (memory_bytes / 32);
    assert_eq!(last.rows, rows as u64);
    assert!(
        last.batches >= batches_min as u64,
        "{} batches",
        last.batches
    );
    drop((solutions, query));
    assert_all_freed(&database);
}

#[test]
fn very_wide_patterns_answer_or_fail_with_the_memory_error() {
    let database = with_memory(&graph(40), 32 << 20);
    assert_eq!(ours(&database, &star(6000)).unwrap().lines.len(), 40);
    // Each of these steps multiplies the solutions by fourteen.
    let arms = |n: usize| format!("?n <http://e/heavy> ?h . ?m{n} <http://e/heavy> ?h . ");
    let growing: String = (0..200).map(arms).collect();
    let counted = format!("SELECT (COUNT(*) AS ?c) {{ SELECT DISTINCT * {{ {growing} }} }}");
    let limited = QueryOptions {
        timeout: Some(Duration::from_secs(2)),
        ..QueryOptions::default()
    };
    match ours_with(&database, &counted, &limited) {
        Err(QueryError::Memory(_) | QueryError::Timeout) => {}
        other => panic!("{other:?}"),
    }
    assert_all_freed(&database);
}

/// Each triple has texts of its own, however often a term is used.
#[test]
fn triples_with_long_texts_are_made_a_few_at_a_time() {
    const TEXT_BYTES: usize = 256 << 10;
    let long = "x".repeat(TEXT_BYTES);
    let mut data = format!("<http://e/long> <http://e/text> \"{long}\" .\n");
    for n in 0..100 {
        data.push_str(&format!(
            "<http://e/n{n}> <http://e/of> <http://e/long> .\n"
        ));
        data.push_str(&format!("<http://e/all> <http://e/p{n}> \"{long}\" .\n"));
    }
    let database = database(&data);
    for query in [
        "CONSTRUCT { ?n <http://e/text> ?t } { ?n <http://e/of> ?l . ?l <http://e/text> ?t }",
        "DESCRIBE <http://e/all>",
        "DESCRIBE <http://e/all> FROM <urn:x-none> FROM <urn:x-other>",
    ] {
        let Results::Graph(mut triples) = database.query(query).unwrap() else {
            panic!("a graph");
        };
        let (mut count, mut most) = (0, 0);
        while let Some(batch) = triples.next_batch().unwrap() {
            count += batch.len();
            most = most.max(batch.len());
        }
        let expected = if query.contains("FROM") { 0 } else { 100 };
        assert_eq!(count, expected, "{query}");
        assert!(most * TEXT_BYTES <= 8 << 20, "{most} at once: {query}");
    }
}

/// The links of a batch of nodes are read together only if they fit into the memory.
#[test]
fn nodes_with_many_links_are_expanded_a_few_at_a_time() {
    const HUBS: usize = 40;
    const LINKS: usize = 10_000;
    let mut data = String::new();
    for hub in 0..HUBS {
        data.push_str(&format!(
            "<http://e/h{hub}> <http://e/is> <http://e/hub> .\n"
        ));
        for link in 0..LINKS {
            let target = link * 3;
            data.push_str(&format!(
                "<http://e/h{hub}> <http://e/to> <http://e/x{target}> .\n"
            ));
        }
    }
    let database = database(&data);
    let query = "SELECT (COUNT(*) AS ?n) (SUM(STRLEN(STR(?x))) AS ?length) { \
                 ?h <http://e/is> <http://e/hub> ; <http://e/to> ?x }";
    let within = |memory_bytes| QueryOptions {
        memory_bytes: Some(memory_bytes),
        ..QueryOptions::default()
    };
    let expected = ours(&database, query).expect("an answer");
    let found = ours_with(&database, query, &within(4 << 20)).expect("it fits in parts");
    assert_eq!(found.lines, expected.lines);
    let failed = ours_with(&database, query, &within(100 << 10)).map(|answer| answer.lines);
    assert!(matches!(failed, Err(QueryError::Memory(_))), "{failed:?}");
    let path = "SELECT ?x { <http://e/hub> (^<http://e/is>/<http://e/to>)+ ?x }";
    let found = ours_with(&database, path, &within(3 << 20)).expect("a search does so too");
    assert_eq!(found.lines.len(), LINKS);
    assert_all_freed(&database);
}

#[test]
fn without_left_solutions_the_right_ones_are_not_computed() {
    let database = database(&graph(2000));
    let options = QueryOptions {
        timeout: Some(Duration::from_secs(20)),
        ..QueryOptions::default()
    };
    let none = "SELECT ?n ?v { ?n <http://e/value> ?v FILTER(?v * 2 > 5000) } LIMIT 9";
    let many = "?n ?p1 ?o1 . ?n2 ?p2 ?o2 . ?n3 ?p3 ?o3";
    for right in [
        format!("MINUS {{ {many} OPTIONAL {{ ?n <http://e/none> ?v }} }}"),
        format!("OPTIONAL {{ SELECT ?n (GROUP_CONCAT(?o2) AS ?c) {{ {many} }} GROUP BY ?n }}"),
    ] {
        let query = format!("SELECT * {{ {{ {none} }} {right} }}");
        let prepared = database.prepare(&query, &options).expect(&query);
        let Results::Solutions(mut solutions) = prepared.execute().expect(&query) else {
            unreachable!("a SELECT");
        };
        assert!(solutions.next_batch().expect(&query).is_none(), "{query}");
    }
}

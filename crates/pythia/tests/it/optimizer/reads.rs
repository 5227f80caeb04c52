//! Pages that are read in batches, and only those that are needed.

use std::num::NonZero;

use pythia::{Database, Options};

use super::{items, part, rows};
use crate::support::{Peer, analyze, database, database_with, ours};

/// Enough for all data.
const CACHE_BYTES: usize = 256 << 20;

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

/// A database whose queries have one thread: how many read how much together depends on their speed.
fn read_alone(data: &str, cache_bytes: usize) -> Database {
    let options = Options {
        cache_bytes,
        threads: NonZero::new(1),
        ..Options::default()
    };
    database_with(data, options)
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
    let database = read_alone(&random_graph(20_000), CACHE_BYTES);
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
        let read = read_in_batches(&read_alone(&data, CACHE_BYTES), query);
        read.group("dictionary").device_pages
    };
    for query in [
        "SELECT ?t { ?a <http://e/text> ?t } ORDER BY LCASE(?t) LIMIT 1",
        "SELECT ?k (COUNT(*) AS ?n) { ?a <http://e/text> ?t } GROUP BY (UCASE(?t) AS ?k) LIMIT 1",
        "SELECT (COUNT(DISTINCT ?k) AS ?n) { ?a <http://e/text> ?t BIND(CONCAT(?t, \"!\") AS ?k) }",
    ] {
        let read = read_in_batches(&read_alone(&data, 1 << 20), query);
        let pages = read.group("dictionary").device_pages;
        // Up to 4,096 rows at a time, first and last fewer: once for their texts, and once for what is made of them.
        let parts = 60_000_u64.div_ceil(4096) + 8;
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
    let all = pages(&read_alone(&data, CACHE_BYTES));
    // The first few solutions are tested alone, and most of the others together.
    let read = pages(&read_alone(&data, 1 << 20));
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

/// A LIMIT over joins needs only the first rows of the first step, and gets all of them if it needs more.
#[test]
fn a_limit_joins_few_rows() {
    let data = items(3000);
    let (database, peer) = (database(&data), Peer::new(&data));
    let joined = "?s <http://e/next> ?n . ?n <http://e/label> ?l";
    let rows = |query: &str| {
        let (lines, plan) = analyze(&database, query);
        let measured = plan.parts().into_iter().filter_map(|part| part.measured);
        (lines.len(), measured.map(|part| part.rows).max().unwrap())
    };
    for (limit, rows_max) in [(10, 128), (128, 128), (129, 128 + 1024), (2500, 3000)] {
        for query in [
            format!("SELECT ?s ?n ?l {{ {joined} }} LIMIT {limit}"),
            format!(
                "SELECT ?s (STR(?l) AS ?t) {{ {joined} OPTIONAL {{ ?s <http://e/rare> ?r }} }} LIMIT {limit}"
            ),
        ] {
            let (found, most) = rows(&query);
            assert_eq!(found, limit, "{query}");
            assert!(most <= rows_max, "{query}: {most} rows");
        }
    }
    let sorted = format!("SELECT ?l {{ {joined} }} ORDER BY ?l LIMIT 20");
    let (lines, _) = analyze(&database, &sorted);
    assert_eq!(lines, peer.answer(&sorted).unwrap().sorted().lines);
}

/// Under a LIMIT, a join with a table looks up the first rows without it: rows before and after the table are right.
#[test]
fn a_limit_may_need_no_table() {
    // Without a table, the column of labels would be read for several batches.
    const LABELS: usize = 90_000;
    let mut data = String::new();
    for i in 0..LABELS {
        let next = (i * 7919 + 5) % (LABELS + LABELS / 4);
        data.push_str(&format!(
            "<http://e/{i}> <http://e/label> \"{i}\" .\n\
             <http://e/{i}> <http://e/next> <http://e/{next}> .\n"
        ));
    }
    let (database, peer) = (database(&data), Peer::new(&data));
    // The filter is over the OPTIONAL, so the LIMIT does not apply before it.
    let query = "SELECT ?s ?n ?l { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/label> ?l }
        FILTER(COALESCE(?l, \"\") != \"no label\") }";
    let all = peer.answer(query).unwrap().sorted().lines;
    for limit in [1, 128, 129, 1152, 1153, 9000] {
        let (lines, plan) = analyze(&database, &format!("{query} LIMIT {limit}"));
        assert!(plan.to_string().contains("Hash("), "{plan}");
        assert_eq!(lines.len(), limit, "{plan}");
        let others = lines.iter().filter(|line| all.binary_search(line).is_err());
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new(), "{plan}");
        assert!(limit > 128 || plan.pages() < 160, "{plan}");
    }
}

/// Branches of a UNION behind several solutions are merged, but each runs only when its solutions come next.
#[test]
fn a_limit_may_need_no_later_branch() {
    let query = "PREFIX e: <http://e/> SELECT ?s ?o { VALUES ?s { e:0 e:1 } \
        { ?s e:next ?o } UNION { ?s e:value ?x . ?y e:type e:Item . ?y e:label ?o FILTER(CONTAINS(?o, CONCAT(\"no \", STR(?s)))) } } \
        LIMIT 1";
    let (lines, plan) = analyze(&database(&items(10_000)), query);
    assert_eq!(lines.len(), 1, "{plan}");
    assert!(plan.to_string().contains("Union"), "{plan}");
    assert!(rows(&plan) < 100, "{plan}");
}

/// Rows that ORDER BY sets aside are those that a whole sort has after the limit, for terms of every kind.
#[test]
fn a_limit_keeps_the_first_rows_of_any_kind() {
    const ROWS: usize = 12_000;
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let mut data = String::new();
    for i in 0..ROWS {
        // Not in order, and each value several times, as numbers of different types.
        let value = (i * 7919 + 13) % 1500;
        let term = match i % 9 {
            0 | 1 => format!("\"{value}\"^^<{xsd}integer>"),
            2 => format!("\"{value}.0\"^^<{xsd}decimal>"),
            3 => format!("\"{value}.5E0\"^^<{xsd}double>"),
            4 => format!("\"{:04}-01-02\"^^<{xsd}date>", 1000 + value),
            5 => format!("\"text {value}\""),
            6 => format!("\"text {value}\"@en"),
            7 => format!("<http://e/v{value}>"),
            _ => String::new(),
        };
        data.push_str(&format!("<http://e/s{i}> <http://e/k> <http://e/x> .\n"));
        if !term.is_empty() {
            data.push_str(&format!("<http://e/s{i}> <http://e/v> {term} .\n"));
        }
    }
    let database = database(&data);
    for keys in [
        "?v ?s",
        "DESC(?v) ?s",
        "DESC(?v) DESC(?s)",
        "STR(?v) ?s",
        "?s",
        "DESC(?s)",
    ] {
        let query = format!(
            "SELECT ?s ?v {{ ?s <http://e/k> ?k OPTIONAL {{ ?s <http://e/v> ?v }} }} ORDER BY {keys}"
        );
        let all = ours(&database, &query).unwrap().lines;
        assert_eq!(all.len(), ROWS, "{query}");
        for (start, length) in [(0, 1), (0, 50), (4090, 20), (11_990, 50)] {
            let limited = format!("{query} OFFSET {start} LIMIT {length}");
            let found = ours(&database, &limited).unwrap().lines;
            assert_eq!(found, all[start..(start + length).min(ROWS)], "{limited}");
        }
    }
}

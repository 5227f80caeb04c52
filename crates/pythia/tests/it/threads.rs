//! Queries that several threads compute: results and their order are those of one thread.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxrdf::Quad;
use oxrdfio::RdfParser;
use oxttl::NQuadsParser;

use pythia::{
    Database, Options, QueryError, QueryOptions, RdfFormat, ResultFormat, Results, write_results,
};

use crate::support::database_with;

const NODES: usize = 50_000;

/// Nodes with links, numbers and texts: one node that a tenth of all link to, and few groups.
fn data() -> String {
    let mut text = String::new();
    for n in 0..NODES {
        let next = match n % 10 {
            0 => 0,
            _ => (n * 7 + 1) % NODES,
        };
        text.push_str(&format!(
            "<http://e/n{n}> <http://e/next> <http://e/n{next}> .\n\
             <http://e/n{n}> <http://e/value> \"{}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
             <http://e/n{n}> <http://e/ratio> \"{}.{}\"^^<http://www.w3.org/2001/XMLSchema#double> .\n\
             <http://e/n{n}> <http://e/name> \"name, {}\" .\n\
             <http://e/n{n}> <http://e/group> <http://e/g{}> .\n",
            n * 31 % 1009,
            n % 613,
            n * n % 997,
            n * 17 % NODES,
            n * n % 97,
        ));
        if n % 3 == 0 {
            text.push_str(&format!(
                "<http://e/n{n}> <http://e/link> <http://e/n{}> .\n",
                n / 2
            ));
        }
    }
    text
}

fn with_threads(data: &str, threads: usize) -> Database {
    let options = Options {
        threads: NonZero::new(threads),
        ..Options::default()
    };
    database_with(data, options)
}

/// A query whose long part, a pattern, takes its solutions from an operator.
const FED: &str = "SELECT (COUNT(*) AS ?c) { { SELECT ?n { ?x <http://e/link> ?n } LIMIT 16000 } \
     ?s <http://e/next> ?n ; <http://e/group> ?g ; <http://e/value> ?v }";

/// A query whose long part joins solutions with others in memory.
const JOINED: &str = "SELECT (COUNT(*) AS ?n) { { SELECT ?s { ?s <http://e/link> ?o } LIMIT 16000 } \
     OPTIONAL { { SELECT ?k (COUNT(*) AS ?c) { ?k <http://e/value> 5 } GROUP BY ?k } FILTER(?c < 3) } }";

/// One query for each kind of step and each operator that reads many solutions.
const QUERIES: &[&str] = &[
    "SELECT * { ?s ?p ?o }",
    "SELECT * { ?s <http://e/next> ?n . ?n <http://e/value> ?v . ?s <http://e/name> ?m }",
    "SELECT ?s ?x { ?s <http://e/value> ?v BIND(?v * 3 + 1 AS ?x) FILTER(?x > 40) }",
    "SELECT * { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/link> ?l . ?l <http://e/value> ?v } }",
    "SELECT * { ?s <http://e/group> ?g { ?s <http://e/link> ?o } UNION { ?o <http://e/link> ?s } }",
    "SELECT * { ?s <http://e/next> ?n FILTER EXISTS { ?x <http://e/link> ?n } FILTER NOT EXISTS { ?n <http://e/value> 3 } }",
    "SELECT * { ?s <http://e/next> ?n MINUS { ?n <http://e/link> ?l } }",
    "SELECT ?g (COUNT(*) AS ?c) (SUM(?r) AS ?t) (AVG(?r) AS ?a) (MIN(?m) AS ?first) (SAMPLE(?s) AS ?one) \
     { ?s <http://e/group> ?g ; <http://e/ratio> ?r ; <http://e/name> ?m } GROUP BY ?g",
    "SELECT (SUM(?r * ?v) AS ?t) (GROUP_CONCAT(?v) AS ?all) { ?s <http://e/value> ?v ; <http://e/ratio> ?r ; <http://e/link> ?l }",
    "SELECT ?g ?v (COUNT(DISTINCT ?o) AS ?d) { ?s <http://e/group> ?g ; <http://e/value> ?v ; ?p ?o } GROUP BY ?g ?v",
    "SELECT ?g ?v (SUM(DISTINCT ?r) AS ?t) (GROUP_CONCAT(DISTINCT ?p) AS ?all) (COUNT(DISTINCT *) AS ?c) \
     { ?s <http://e/group> ?g ; <http://e/value> ?v ; <http://e/ratio> ?r . ?s ?p ?o } GROUP BY ?g ?v",
    "SELECT ?s (COUNT(DISTINCT ?p) AS ?n) (COUNT(*) AS ?c) { ?s ?p ?o } GROUP BY ?s",
    "SELECT ?g ?v (COUNT(*) AS ?c) (SUM(?r) AS ?t) (SAMPLE(?o) AS ?d) (GROUP_CONCAT(?p) AS ?all) \
     { ?s <http://e/group> ?g ; <http://e/value> ?v ; <http://e/ratio> ?r . ?s ?p ?o } GROUP BY ?g ?v",
    "SELECT ?g (COUNT(*) AS ?c) (AVG(?r) AS ?t) { ?s <http://e/group> ?g ; <http://e/ratio> ?r . ?s ?p ?o } GROUP BY ?g",
    "SELECT DISTINCT ?v ?g { ?s <http://e/value> ?v ; <http://e/next> ?n . ?n <http://e/group> ?g }",
    "SELECT DISTINCT ?n ?o { ?s <http://e/next> ?n ; ?p ?o }",
    "SELECT (COUNT(*) AS ?n) { <http://e/n1> (<http://e/next>|^<http://e/next>|<http://e/link>)* ?o }",
    "SELECT ?o { <http://e/n1> (<http://e/next>|!<http://e/value>)+ ?o }",
    "SELECT ?a (COUNT(?o) AS ?n) { ?a <http://e/value> 5 . ?a (<http://e/next>/^<http://e/link>?)+ ?o } GROUP BY ?a",
    "SELECT ?a (COUNT(?o) AS ?n) { ?a <http://e/value> 7 . ?a (<http://e/group>/^<http://e/group>/<http://e/next>)+ ?o } GROUP BY ?a",
    "SELECT (COUNT(*) AS ?n) { ?a (<http://e/next>|<http://e/group>)+ ?b }",
    "SELECT ?s ?m ?v { ?s <http://e/value> ?v ; <http://e/name> ?m } ORDER BY ?v",
    "SELECT ?s ?n ?m { ?s <http://e/next> ?n . ?n <http://e/name> ?m } LIMIT 7000",
    "SELECT (COUNT(*) AS ?n) { ?s <http://e/next>/<http://e/group> ?g . ?o <http://e/group> ?g ; <http://e/value> 7 }",
    "SELECT ?s ?o { ?s <http://e/next> ?n . ?n <http://e/next>+ ?o . ?s <http://e/value> 5 }",
    FED,
    JOINED,
    "SELECT * { { ?s <http://e/next> ?n ; <http://e/value> ?v } { SELECT ?n (COUNT(*) AS ?c) { ?x <http://e/next> ?n } GROUP BY ?n } }",
    "SELECT * { ?s <http://e/next> ?n OPTIONAL { { SELECT ?n (COUNT(*) AS ?c) { ?x <http://e/next> ?n } GROUP BY ?n } FILTER(?c > 1) } }",
    "SELECT * { ?s <http://e/next> ?n MINUS { SELECT ?n (COUNT(*) AS ?c) { ?x <http://e/next> ?n } GROUP BY ?n HAVING(COUNT(*) > 1) } }",
    "SELECT * { ?s <http://e/next> ?n OPTIONAL { { SELECT ?n (COUNT(*) AS ?c) { ?x <http://e/next> ?n } GROUP BY ?n } FILTER(?c > 1) } } LIMIT 7000",
    "SELECT ?s ?n ?l { { SELECT DISTINCT ?n { ?x <http://e/link> ?n } } ?s <http://e/next> ?n OPTIONAL { ?s <http://e/link> ?l } }",
    "SELECT ?s ?t { ?s <http://e/name> ?m . ?s <http://e/next> ?n BIND(STRDT(CONCAT(?m, STR(?n)), <http://e/t>) AS ?t) }",
];

/// Returns these queries, and one whose batches have more ids than are decoded together.
fn queries() -> Vec<String> {
    let copies = (0..30).map(|n| format!(" BIND(?n AS ?x{n})"));
    let wide = format!(
        "SELECT * {{ ?s <http://e/next> ?n{} }}",
        copies.collect::<String>()
    );
    let others = QUERIES.iter().map(|query| (*query).to_owned());
    others.chain([wide]).collect()
}

fn text(database: &Database, query: &str, format: ResultFormat) -> Vec<u8> {
    let results = database.query(query).expect(query);
    let mut text = Vec::new();
    write_results(results, format, &mut text).expect(query);
    text
}

#[test]
fn results_and_their_order_do_not_depend_on_the_number_of_threads() {
    let data = data();
    let (alone, helped) = (with_threads(&data, 1), with_threads(&data, 4));
    for query in &queries() {
        use ResultFormat::{Arrow, Csv, Json, Tsv, Xml};
        for format in [Csv, Json, Tsv, Xml, Arrow] {
            assert!(
                text(&alone, query, format) == text(&helped, query, format),
                "{query} as {format:?}"
            );
        }
    }
    assert_eq!(alone.usage().helped, 0);
    // Most of them are not over before helpers come.
    let queries = QUERIES.len() as u64;
    assert!(helped.usage().helped > queries, "{:?}", helped.usage());
}

/// Several threads read the triples of a graph and write them; some triples are not valid RDF.
#[test]
fn graphs_do_not_depend_on_the_number_of_threads() {
    let data = data();
    let (alone, helped) = (with_threads(&data, 1), with_threads(&data, 4));
    for query in [
        "CONSTRUCT { ?n <http://e/of> ?s . ?v <http://e/is> ?s . ?s ?s ?v } { ?s <http://e/next> ?n ; <http://e/value> ?v }",
        "DESCRIBE ?s { ?s <http://e/next> ?n }",
    ] {
        let mut expected = None;
        for (format, read) in [
            (ResultFormat::NTriples, RdfFormat::NTriples),
            (ResultFormat::Turtle, RdfFormat::Turtle),
            (ResultFormat::RdfXml, RdfFormat::RdfXml),
        ] {
            let (one, several) = (text(&alone, query, format), text(&helped, query, format));
            assert!(one == several, "{query} as {format:?}");
            let quads = RdfParser::from_format(read).for_slice(&one);
            let triples: HashSet<Quad> = quads.map(|quad| quad.expect("RDF")).collect();
            assert!(triples.len() > 50_000, "{query}: {} triples", triples.len());
            let expected = expected.get_or_insert_with(|| triples.clone());
            assert!(*expected == triples, "{query} as {format:?}");
        }
    }
    assert_eq!(alone.usage().helped, 0);
    assert!(helped.usage().helped > 0);
}

/// Solutions stay in the order of the input, wherever its batches end: those without a match too, and those of all branches.
#[test]
fn optional_and_union_keep_the_order_of_solutions() {
    let database = with_threads(&data(), 1);
    let numbers: Vec<usize> = (0..5000).map(|n| n * 37 % 5000).collect();
    let nodes: String = (numbers.iter().map(|n| format!(" <http://e/n{n}>"))).collect();
    let of = |inner: &str| {
        let query = format!("SELECT ?s ?o {{ VALUES ?s {{{nodes} }} {inner} }}");
        let text = String::from_utf8(text(&database, &query, ResultFormat::Csv)).unwrap();
        let lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        lines
    };
    let line = |n: usize, end: String| format!("http://e/n{n},{end}");
    let link = |n: usize| {
        n.is_multiple_of(3)
            .then(|| line(n, format!("http://e/n{}", n / 2)))
    };
    let value = |n: usize| line(n, (n * 31 % 1009).to_string());

    let optional = of("OPTIONAL { ?s <http://e/link> ?o }");
    let expected = numbers
        .iter()
        .map(|n| link(*n).unwrap_or_else(|| line(*n, String::new())));
    assert!(optional.into_iter().eq(expected), "OPTIONAL");

    let union = of("{ ?s <http://e/link> ?o } UNION { ?s <http://e/value> ?o }");
    let expected = numbers
        .iter()
        .flat_map(|n| link(*n).into_iter().chain([value(*n)]));
    assert!(union.into_iter().eq(expected), "UNION");

    let both = of(
        "OPTIONAL { { ?s <http://e/link> ?o FILTER(?s != <http://e/n12>) } UNION { ?s <http://e/link> ?x OPTIONAL { ?s <http://e/value> ?o } } }",
    );
    let expected = numbers.iter().flat_map(|n| match link(*n) {
        None => vec![line(*n, String::new())],
        Some(_) if *n == 12 => vec![value(*n)],
        Some(link) => vec![link, value(*n)],
    });
    assert!(both.into_iter().eq(expected), "UNION in OPTIONAL");
}

#[test]
fn several_threads_work_on_the_solutions_of_an_input() {
    for query in [FED, JOINED] {
        let database = with_threads(&data(), 4);
        text(&database, query, ResultFormat::Csv);
        assert!(database.usage().helped > 0, "{query}");
    }
}

/// Returns N-Quads in another format, as one writer writes them one after the other.
fn rewritten(quads: &[u8], format: RdfFormat) -> Vec<u8> {
    let mut writer = pythia::RdfWriter::new(Vec::new(), format, &[]).expect("no prefixes");
    for quad in NQuadsParser::new().for_slice(quads) {
        let written = writer.quad(quad.expect("N-Quads").as_ref());
        written.expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

/// A dump has the same bytes with any number of threads, also if its quads are cut where a subject goes on.
#[test]
fn dumps_do_not_depend_on_the_number_of_threads() {
    let mut data = data();
    for n in 0..NODES / 4 {
        data.push_str(&format!(
            "<http://e/n{}> <http://e/said> \"in graph {}\" <http://e/graph{}> .\n",
            n * 3,
            n % 17,
            n % 5
        ));
    }
    let (alone, helped) = (with_threads(&data, 1), with_threads(&data, 4));
    let mut quads = Vec::new();
    for format in [RdfFormat::NQuads, RdfFormat::TriG] {
        let dump = |database: &Database| {
            let mut text = Vec::new();
            let dumped = pythia::dump(&database.snapshot(), database.cores(), format, &mut text);
            (dumped.expect("memory takes it").rows, text)
        };
        let (rows, text) = dump(&alone);
        assert!(dump(&helped) == (rows, text.clone()), "{format}");
        assert_eq!(rows, alone.snapshot().statistics().quads, "{format}");
        let lines = text.split_inclusive(|byte| *byte == b'\n').count() as u64;
        assert!(lines >= rows, "{format}");
        match format {
            RdfFormat::NQuads => quads = text,
            format => assert!(rewritten(&quads, format) == text, "{format}"),
        }
    }
    let dump = |database: &Database, format| {
        let (options, graph) = (QueryOptions::default(), oxrdf::GraphNameRef::DefaultGraph);
        let (snapshot, cores) = (database.snapshot(), database.cores());
        let mut text = Vec::new();
        pythia::dump_graph(&snapshot, cores, &options, graph, format, &mut text).expect("memory");
        text
    };
    let triples = dump(&alone, RdfFormat::NTriples);
    for format in [RdfFormat::NTriples, RdfFormat::Turtle, RdfFormat::RdfXml] {
        let text = dump(&helped, format);
        assert!(text == rewritten(&triples, format), "graph as {format}");
    }
    assert_eq!(alone.usage().helped, 0);
    assert!(helped.usage().helped > 0);
}

#[test]
fn nothing_is_left_of_a_query_that_nobody_reads_to_the_end() {
    let database = with_threads(&data(), 4);
    for query in &queries() {
        let Results::Solutions(mut solutions) = database.query(query).expect(query) else {
            panic!("{query} has solutions");
        };
        let before = database.usage().helped;
        while database.usage().helped == before && solutions.next_batch().expect(query).is_some() {}
        // Helpers are at work.
        drop(solutions);
        assert_eq!(database.usage().memory_bytes, 0, "{query}");
    }
    assert!(database.usage().helped > 0);
}

#[test]
fn a_triple_of_several_graphs_appears_once_although_solutions_are_cut() {
    let mut data = String::new();
    for n in 0..NODES {
        for graph in 0..3 {
            data.push_str(&format!(
                "<http://e/n{n}> <http://e/next> <http://e/n{}> <http://e/g{graph}> .\n",
                (n * 7 + 1) % NODES
            ));
        }
    }
    let patterns = [
        "?s <http://e/next> ?n . ?n <http://e/next> ?m",
        "?s ?p ?n BIND(STR(?n) AS ?t)",
    ];
    for threads in [1, 4] {
        let database = with_threads(&data, threads);
        for pattern in patterns {
            let query = format!(
                "SELECT * FROM <http://e/g0> FROM <http://e/g1> FROM <http://e/g2> {{ {pattern} }}"
            );
            let found = text(&database, &query, ResultFormat::Csv);
            let lines = found.iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(lines, 1 + NODES, "{pattern}");
        }
    }
}

#[test]
fn a_cancelled_query_ends_with_all_its_threads() {
    let database = with_threads(&data(), 4);
    let cancel = Arc::new(AtomicBool::new(false));
    let options = QueryOptions {
        cancel: Some(Arc::clone(&cancel)),
        ..QueryOptions::default()
    };
    // Of 2,500 million solutions, the first are read.
    let query = "SELECT * { ?a <http://e/group> ?g . ?b <http://e/value> ?v FILTER(?a != ?b) }";
    let prepared = database.prepare(query, &options).expect(query);
    let Results::Solutions(mut solutions) = prepared.execute().expect(query) else {
        panic!("{query} has solutions");
    };
    for _ in 0..20 {
        assert!(solutions.next_ids().expect(query).is_some());
    }
    cancel.store(true, Ordering::Relaxed);
    let ended = loop {
        match solutions.next_ids() {
            Ok(Some(_)) => {}
            ended => break ended,
        }
    };
    assert!(matches!(ended, Err(QueryError::Cancelled)));
    drop((solutions, prepared));
    assert_eq!(database.usage().memory_bytes, 0);
}

#[test]
fn a_small_budget_gives_the_same_results_or_an_error() {
    let data = data();
    let large = with_threads(&data, 1);
    let options = Options {
        threads: NonZero::new(4),
        memory_bytes: 24 << 20,
        ..Options::default()
    };
    let small = database_with(&data, options);
    for query in &queries() {
        let mut found = Vec::new();
        let written = small
            .query(query)
            .map_err(pythia::WriteError::from)
            .and_then(|results| write_results(results, ResultFormat::Csv, &mut found));
        match written {
            Ok(_) => {
                let expected = text(&large, query, ResultFormat::Csv);
                // Groups and distinct rows that were spilled come later.
                let lines = |text: &[u8]| {
                    let text = String::from_utf8(text.to_vec()).expect("UTF-8");
                    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                    lines.sort();
                    lines
                };
                assert!(lines(&found) == lines(&expected), "{query}");
            }
            Err(error) => assert!(error.to_string().contains("memory"), "{query}: {error}"),
        }
        assert_eq!(small.usage().memory_bytes, 0, "{query}");
    }
}

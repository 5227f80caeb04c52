//! A hostile world: crashes, full disks, flipped bits, malformed queries.

use std::io::Cursor;
use std::sync::Arc;

use pythia::{Compression, Database, LoadOptions, Options, QueryError, RdfFormat, Source};
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};

use crate::support::{database, ours};

fn text() -> String {
    (0..500)
        .map(|n| {
            format!(
                "<http://e/{n}> <http://e/p{}> \"value {n}\" .\n<http://e/{n}> <http://e/next> <http://e/{}> .\n",
                n % 7,
                n + 1
            )
        })
        .collect()
}

fn load(storage: Arc<dyn Storage>) -> Result<(), pythia::LoadError> {
    let source = Source::from_reader(
        "text".to_owned(),
        Cursor::new(text().into_bytes()),
        RdfFormat::NTriples,
        Compression::None,
    )?;
    let options = LoadOptions {
        memory_bytes: 128 << 20,
        ..LoadOptions::default()
    };
    pythia_store::load::load(storage, vec![source], &options, &Arc::default()).map(drop)
}

/// How many operations a whole load takes.
fn operations() -> u64 {
    let storage = Arc::new(FaultyStorage::new(
        Arc::new(MemoryStorage::new()),
        FaultPlan::none(),
    ));
    load(storage.clone()).unwrap();
    storage.operations()
}

#[test]
fn a_load_killed_anywhere_leaves_no_store_or_a_whole_one() {
    let count = operations();
    for crash in 0..=count {
        let storage = Arc::new(FaultyStorage::new(
            Arc::new(MemoryStorage::new()),
            FaultPlan::crash_at(crash, crash),
        ));
        let loaded = load(storage.clone());
        storage.crash().unwrap();
        storage.restart(FaultPlan::none()).unwrap();
        match Database::open_storage(storage.clone(), Options::default()) {
            Ok(database) => {
                let answer = ours(&database, "SELECT * { ?s ?p ?o }").unwrap();
                assert_eq!(answer.lines.len(), 1000, "crash at operation {crash}");
            }
            Err(error) => {
                assert!(loaded.is_err(), "a finished load is lost: {error}");
                load(storage).expect("what a crash leaves does not stop the next load");
            }
        }
    }
}

#[test]
fn a_failing_device_fails_the_load_with_its_name() {
    let count = operations();
    for failing in 0..count {
        let storage = Arc::new(FaultyStorage::new(
            Arc::new(MemoryStorage::new()),
            FaultPlan::fail_at(failing),
        ));
        if let Err(error) = load(storage) {
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn a_full_disk_fails_the_load_and_says_so() {
    for bytes in [0, 4096, 20_000, 60_000] {
        let storage = Arc::new(FaultyStorage::new(
            Arc::new(MemoryStorage::new()),
            FaultPlan::disk_of(bytes),
        ));
        let error = load(storage).unwrap_err().to_string();
        assert!(error.contains("no space left"), "{error}");
    }
}

#[test]
fn malformed_queries_are_errors_with_a_place() {
    let database = database(&text());
    for query in [
        "",
        "SELECT",
        "SELECT * WHERE { ?s ?p }",
        "SELECT * WHERE { ?s foaf:knows ?o }",
        "SELECT * WHERE { ?s ?p ?o ",
        "SELECT ?x { ?s ?p \"unclosed }",
        "SELECT * { ?s ?p ?o } LIMIT -1",
        "\u{0}\u{feff}",
    ] {
        match ours(&database, query) {
            Err(QueryError::Syntax { line, column, .. }) => assert!(line >= 1 && column >= 1),
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[test]
fn what_is_not_supported_says_so() {
    let database = database(&text());
    for query in [
        "SELECT * { SERVICE <http://e/sparql> { ?s ?p ?o } }",
        "SELECT * { ?s ?p ?o SERVICE ?e { ?s ?p ?o } OPTIONAL { ?s ?q ?e } }",
    ] {
        match ours(&database, query) {
            Err(QueryError::Unsupported { .. }) => {}
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[test]
fn a_query_past_its_memory_says_so_and_the_next_one_runs() {
    let options = Options {
        memory_bytes: 64 << 10,
        ..Options::default()
    };
    let database = crate::support::database_with(&text(), options);
    let text =
        "SELECT (GROUP_CONCAT(STR(?b)) AS ?t) { ?a <http://e/next> ?x . ?b <http://e/next> ?y }";
    assert!(matches!(ours(&database, text), Err(QueryError::Memory(_))));
    let small = "SELECT DISTINCT ?p { <http://e/1> ?p ?o }";
    assert_eq!(ours(&database, small).unwrap().lines.len(), 2);
}

/// What is just within the limits must be planned and run without overflowing a thread's stack.
#[test]
fn the_largest_queries_that_are_read_can_be_run() {
    let database = database("<http://e/a> <http://e/b> <http://e/c> .\n");
    let repeated = |text: &str, count: usize, between: &str| vec![text; count].join(between);
    let numbered =
        |count: usize, text: fn(usize) -> String| (0..count).map(text).collect::<String>();
    let group = |text: String| format!("SELECT * {{ ?s ?p ?o . {text} }}");
    let nested = |open: &str, inside: &str, close: &str| {
        group(format!("{}{inside}{}", open.repeat(125), close.repeat(125)))
    };
    for text in [
        group(repeated("{ ?s ?p ?o }", 4000, " UNION ")),
        group(repeated("{ ?s ?p ?o }", 1490, " ")),
        group(repeated("OPTIONAL { ?s ?p ?o }", 210, " ")),
        group(repeated("MINUS { ?s ?p ?z }", 210, " ")),
        group(numbered(865, |n| format!("BIND(1 AS ?x{n}) "))),
        group(repeated("{ ?s ?p ?o BIND(1 AS ?x) }", 450, " UNION ")),
        group(repeated(
            "{ SELECT ?s ?o { ?s ?p ?o } LIMIT 5 }",
            650,
            " UNION ",
        )),
        group(repeated("{ SELECT ?s ?o { ?s ?p ?o } LIMIT 5 }", 150, " ")),
        group(numbered(140, |n| {
            format!("{{ ?s ?p ?o BIND(RAND() AS ?x{n}) }} ")
        })),
        group(repeated("{ ?s ?p ?o BIND(1 AS ?x) }", 140, " ")),
        group(numbered(150, |n| {
            format!("BIND(1 AS ?x{n}) ?s ?p ?x{n} . ")
        })),
        group(numbered(150, |n| {
            format!("BIND(RAND() AS ?x{n}) ?s ?p ?o . ")
        })),
        group(numbered(150, |n| {
            format!("BIND(RAND() AS ?x{n}) ?s ?p ?x{n} . ")
        })),
        group(numbered(85, |n| {
            format!("BIND(RAND() AS ?x{n}) OPTIONAL {{ ?s ?p ?x{n} }} ")
        })),
        group(numbered(125, |n| {
            format!("BIND(EXISTS {{ ?s ?p ?o }} AS ?x{n}) ?o{n} ?p ?x{n} . ")
        })),
        group(repeated("FILTER(?x)", 4000, " ")),
        group(format!("FILTER({})", repeated("?o", 2001, " || "))),
        group(format!("FILTER({})", repeated("?o", 2001, " && "))),
        group(format!("BIND({} AS ?y)", repeated("1", 2001, " + "))),
        group(format!("?s {} ?z", repeated("<http://e/b>", 2001, "/"))),
        group(format!("?s ({})+ ?z", repeated("<http://e/b>", 2001, "/"))),
        group(format!("?s {} ?z", repeated("<http://e/b>", 2001, "|"))),
        format!(
            "SELECT {} {{ }}",
            numbered(870, |n| format!("(1 AS ?x{n}) "))
        ),
        format!(
            "SELECT {} {{ }}",
            numbered(700, |n| format!("(SUM(?y{n}) AS ?x{n}) "))
        ),
        nested("{", "?s ?p ?o", "}"),
        nested("{ ?s ?p ?o BIND(1 AS ?x) ?s ?p ?o ", "", "}"),
        nested("{ ?s ?p ?o BIND(RAND() AS ?x) ?s ?p ?o ", "", "}"),
        nested("OPTIONAL { ?s ?p ?o ", "", "}"),
        nested("FILTER EXISTS { ?s ?p ?o ", "", "}"),
        group(repeated("LATERAL { ?s ?p ?o }", 95, " ")),
        group(repeated(
            "LATERAL { SELECT ?s { ?s ?p ?o } LIMIT 1 }",
            90,
            " ",
        )),
        group(format!(
            "BIND({}1{} AS ?x)",
            "(".repeat(125),
            ")".repeat(125)
        )),
        group(format!(
            "BIND({}1{} AS ?x)",
            "STR(".repeat(125),
            ")".repeat(125)
        )),
        group(format!(
            "?s {}<http://e/b>{} ?z",
            "(".repeat(125),
            ")+".repeat(125)
        )),
        group(format!("FILTER(?o IN ({}))", repeated("1", 100_000, ","))),
        group(format!("VALUES ?x {{ {} }}", repeated("1", 100_000, " "))),
    ] {
        let name = &text[..text.len().min(70)];
        eprintln!("{name}");
        match ours(&database, &text) {
            Ok(_) | Err(QueryError::Unsupported { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

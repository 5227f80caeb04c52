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
        "SELECT * { ?s ?p ?o SERVICE ?unbound { ?s ?p ?o } }",
        "SELECT (<http://e/unknown>(?s) AS ?x) { ?s ?p ?o }",
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

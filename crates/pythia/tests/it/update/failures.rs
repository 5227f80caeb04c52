//! Updates that fail half way: nothing is changed, and the error says why.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pythia::{Database, Loader, Options, QueryError, QueryOptions, UpdateOptions, WriteOptions};

use super::update_with;
use crate::support::{contents, database_with};

/// A database of pairs, with these limits.
fn pairs(options: Options) -> Database {
    let data: String = (0..300)
        .map(|n| format!("<http://e/n{n}> <http://e/p> \"{n}\" .\n"))
        .collect();
    let options = Options {
        write: Some(WriteOptions::default()),
        ..options
    };
    database_with(&data, options)
}

/// Runs an update that fails; gives the error, after checking that nothing has changed.
fn failing(database: &Database, text: &str, options: &UpdateOptions) -> QueryError {
    let before = contents(database);
    let error = match update_with(database, text, options) {
        Err(error) => error,
        Ok(report) => panic!("{text} did {report:?}"),
    };
    assert_eq!(contents(database), before, "{text}");
    let usage = database.usage();
    assert_eq!((usage.memory_bytes, usage.spill_bytes), (0, 0), "{usage:?}");
    error
}

const FIRST: &str = "DELETE WHERE { <n1> ?p ?o } ; INSERT DATA { <new> <new> <new> } ; ";
const CROSS: &str = "INSERT { ?a ?x ?b } WHERE { ?a ?p ?v . ?b ?p ?w . ?c ?p ?x . ?d ?p ?y }";

#[test]
fn a_later_operation_that_fails_undoes_those_before() {
    let database = pairs(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let options = UpdateOptions {
        load: Some(Arc::new(Loader::new().with_folder(folder.path()))),
        ..UpdateOptions::default()
    };
    for (failing_part, message) in [
        (
            "LOAD <file:///not/there.ttl>",
            "LOAD <file:///not/there.ttl>",
        ),
        (
            "CREATE GRAPH <g>; INSERT DATA { GRAPH <g> { <a> <b> <c> } }; CREATE GRAPH <g>",
            "already exists",
        ),
        (
            "\nDROP GRAPH <nowhere>",
            "line 2: there is no graph <http://e/nowhere>",
        ),
        ("CLEAR GRAPH <nowhere>", "there is no graph"),
        ("COPY <nowhere> TO DEFAULT", "there is no graph"),
        ("MOVE <nowhere> TO <g>", "there is no graph"),
        ("ADD <nowhere> TO <g>", "there is no graph"),
        (
            "INSERT { ?s ?p ?o } WHERE { SERVICE <far> { ?s ?p ?o } }",
            "SERVICE",
        ),
    ] {
        let error = failing(&database, &format!("{FIRST}{failing_part}"), &options);
        assert!(
            error.to_string().contains(message),
            "{failing_part}: {error}"
        );
    }
}

#[test]
fn time_and_memory_are_limited() {
    let database = pairs(Options::default());
    let text = format!("{FIRST}{CROSS}");
    let limited = |query| UpdateOptions {
        query,
        ..UpdateOptions::default()
    };
    let timeout = limited(QueryOptions {
        timeout: Some(Duration::from_millis(150)),
        ..QueryOptions::default()
    });
    assert!(matches!(
        failing(&database, &text, &timeout),
        QueryError::Timeout
    ));
    let cancelled = limited(QueryOptions {
        cancel: Some(Arc::new(AtomicBool::new(true))),
        ..QueryOptions::default()
    });
    assert!(matches!(
        failing(&database, &text, &cancelled),
        QueryError::Cancelled
    ));
    let small = limited(QueryOptions {
        memory_bytes: Some(200 << 10),
        ..QueryOptions::default()
    });
    let text = "INSERT { ?a <q> ?t } WHERE { ?a <p> ?v . ?b <p> ?w BIND(CONCAT(?v, ?w, 'and more') AS ?t) }";
    let error = failing(&database, text, &small);
    assert!(matches!(error, QueryError::Memory(_)), "{error}");
}

#[test]
fn the_memory_of_changes_is_limited() {
    let database = pairs(Options {
        memory_bytes: 3 << 20,
        ..Options::default()
    });
    let text = "INSERT { ?a <q> ?b } WHERE { ?a <p> ?v . ?b <p> ?w }";
    let error = failing(&database, text, &UpdateOptions::default());
    assert!(matches!(error, QueryError::Changes(_)), "{error}");
    let quad = |n: usize| {
        let iri = |name: &str| oxrdf::NamedNode::new_unchecked(format!("http://e/{name}"));
        let name = format!("{n}").repeat(20);
        oxrdf::Quad::new(
            iri(&name),
            iri("p"),
            iri("o"),
            oxrdf::GraphName::DefaultGraph,
        )
    };
    let quads: Vec<_> = (0..60_000).map(quad).collect();
    let mut transaction = database.transaction().unwrap();
    let error = transaction.insert_all(&quads).unwrap_err();
    assert!(matches!(error, QueryError::Changes(_)), "{error}");
    assert!(matches!(transaction.commit(), Err(QueryError::Aborted)));
    assert_eq!(database.usage().memory_bytes, 0);
}

#[test]
fn a_commit_has_memory_for_its_copies_or_changes_nothing() {
    let database = pairs(Options {
        memory_bytes: 3 << 20,
        ..Options::default()
    });
    let quad = |n: usize| {
        let iri = |name: &str| oxrdf::NamedNode::new_unchecked(format!("http://e/{name}"));
        let subject = iri(&format!("new{n}"));
        oxrdf::Quad::new(subject, iri("p"), iri("o"), oxrdf::GraphName::DefaultGraph)
    };
    let commit = |count: usize| {
        let quads: Vec<_> = (0..count).map(quad).collect();
        let mut transaction = database.transaction().unwrap();
        transaction.insert_all(&quads).unwrap();
        transaction.commit()
    };
    let error = commit(9000).unwrap_err();
    assert!(matches!(error, QueryError::Changes(_)), "{error}");
    assert_eq!(database.usage().memory_bytes, 0);
    assert_eq!(commit(2000).unwrap().added, 2000);

    // What was parsed counts as well.
    let data: String = (0..9000)
        .map(|n| format!("<http://e/{n}> <http://e/p> 1 . "))
        .collect();
    let error = database
        .update(&format!("INSERT DATA {{ {data} }}"))
        .unwrap_err();
    assert!(
        matches!(error, QueryError::Memory(_) | QueryError::Changes(_)),
        "{error}"
    );
}

/// The text of some quads, in the default graph and in others.
fn long_data(verb: &str, quads: usize) -> String {
    let quads: String = (0..quads / 2)
        .map(|n| {
            format!(
                "<s{n}> <p> <o{n}> . GRAPH <g{}> {{ <s{n}> <p> {n} }}\n",
                n % 3
            )
        })
        .collect();
    format!("BASE <http://e/> {verb} DATA {{ {quads} }}")
}

#[test]
fn long_data_is_inserted_and_deleted_within_little_memory() {
    let database = pairs(Options {
        memory_bytes: 16 << 20,
        ..Options::default()
    });
    let before = contents(&database);
    let insert = database.update(&long_data("INSERT", 20_000)).unwrap();
    assert_eq!(
        (insert.added, insert.removed, insert.operations),
        (20_000, 0, 1)
    );
    let delete = database.update(&long_data("DELETE", 20_000)).unwrap();
    assert_eq!((delete.added, delete.removed), (0, 20_000));
    assert_eq!(contents(&database), before);
    assert_eq!(database.usage().memory_bytes, 0);
}

#[test]
fn data_beyond_the_memory_is_refused_before_it_is_parsed() {
    let database = pairs(Options {
        memory_bytes: 8 << 20,
        ..Options::default()
    });
    // One subject, so that there are no pieces: its quads would take 30 MB.
    let objects = "1, ".repeat(100_000);
    let text = format!("INSERT DATA {{ <http://e/a> <http://e/b> {objects} 2 }}");
    let before = contents(&database);
    let error = database.update(&text).unwrap_err();
    assert!(matches!(error, QueryError::Memory(_)), "{error}");
    // A text whose copies do not fit, whatever it says.
    let long = format!(
        "INSERT DATA {{ <http://e/a> <http://e/b> \"{}\" }}",
        "x".repeat(5 << 20)
    );
    let error = database.update(&long).unwrap_err();
    assert!(matches!(error, QueryError::Memory(_)), "{error}");
    let error = database.update(&long_data("INSERT", 100_000)).unwrap_err();
    assert!(
        matches!(error, QueryError::Memory(_) | QueryError::Changes(_)),
        "{error}"
    );
    assert_eq!(contents(&database), before);
    assert_eq!(database.usage().memory_bytes, 0);
}

#[test]
fn long_data_is_checked_before_any_of_it_is_done() {
    let database = pairs(Options::default());
    let writable = |entries: &[&str]| UpdateOptions {
        writable: pythia::GraphRules::parse(entries).expect("rules"),
        ..UpdateOptions::default()
    };
    let text = format!(
        "{} ; {}",
        long_data("INSERT", 10_000),
        long_data("DELETE", 10_000)
    );
    let some = writable(&["default", "http://e/g0", "http://e/g2"]);
    let error = failing(&database, &text, &some);
    assert_eq!(
        error.to_string(),
        "no permission to change the graph <http://e/g1>"
    );
    let wrong = format!("{} ; INSERT DATA {{ <a> }}", long_data("INSERT", 10_000));
    let error = database.update(&wrong).unwrap_err();
    assert!(
        matches!(error, QueryError::Syntax { line: 5001, .. }),
        "{error}"
    );
}

#[test]
fn long_data_may_be_put_into_one_graph() {
    let database = pairs(Options::default());
    let graph = oxrdf::NamedNode::new_unchecked("http://e/g");
    let quads: String = (0..5000)
        .map(|n| format!("<http://e/s{n}> <http://e/p> {n} .\n"))
        .collect();
    let mut update = pythia::Update::parse(&format!("INSERT DATA {{ {quads} }}"), None).unwrap();
    update.set_graph(&graph).unwrap();
    let options = UpdateOptions::default();
    let report = database.update_parsed(&update, &options, None).unwrap();
    assert_eq!(report.added, 5000);
    let removed = database.update("DROP GRAPH <http://e/g>").unwrap();
    assert_eq!(removed.removed, 5000);
    let mut update = pythia::Update::parse(&long_data("INSERT", 5000), None).unwrap();
    assert!(update.set_graph(&graph).is_err());
}

#[test]
fn temporary_files_are_limited() {
    let database = pairs(Options {
        memory_bytes: 400 << 10,
        spill_bytes: 100 << 10,
        ..Options::default()
    });
    let text = "DELETE { ?a <p> ?v } INSERT { ?a <q> ?b } WHERE { ?a <p> ?v . ?b <p> ?w }";
    let error = failing(&database, text, &UpdateOptions::default());
    assert!(matches!(error, QueryError::Spill { .. }), "{error}");
}

#[test]
fn a_transaction_in_which_an_update_failed_takes_nothing_more() {
    let database = pairs(Options::default());
    let before = contents(&database);
    let mut transaction = database.transaction().unwrap();
    // A text that is no update has done nothing.
    assert!(transaction.update("SELECT * { ?s ?p ?o }").is_err());
    transaction
        .update("INSERT DATA { <a:a> <a:b> <a:c> }")
        .unwrap();
    let error = transaction
        .update("CLEAR ALL; DROP GRAPH <a:g>")
        .unwrap_err();
    assert!(
        matches!(error, QueryError::Graph { line: 1, .. }),
        "{error}"
    );
    assert!(matches!(
        transaction.query("ASK {}"),
        Err(QueryError::Aborted)
    ));
    assert!(matches!(
        transaction.update("CLEAR ALL"),
        Err(QueryError::Aborted)
    ));
    assert!(matches!(transaction.commit(), Err(QueryError::Aborted)));
    assert_eq!(contents(&database), before);
}

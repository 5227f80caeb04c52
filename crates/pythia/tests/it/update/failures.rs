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
            "is there already",
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

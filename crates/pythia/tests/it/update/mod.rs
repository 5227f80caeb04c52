//! Updates: what each operation makes of a dataset, transactions, and what happens if one fails.

mod failures;
mod load;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use oxrdf::{BlankNode, Literal, NamedNode, Quad, Term, Variable};
use pythia::{
    Database, QueryError, QueryOptions, Results, ServiceError, ServiceHandler, ServiceSolutions,
    Update, UpdateOptions,
};

use crate::support::{contents, database, dataset, ours, writable};

/// Runs an update.
pub(crate) fn update_with(
    database: &Database,
    text: &str,
    options: &UpdateOptions,
) -> Result<pythia::UpdateReport, QueryError> {
    let update = Update::parse(text, Some("http://e/"))?;
    database.update_parsed(&update, options, None)
}

/// `<a>` for `<http://e/a>`.
fn long(text: &str) -> String {
    text.replace('<', "<http://e/")
        .replace("<http://e/<http://e/", "<<")
}

/// Data, an update of it, and what it is then.
const CASES: &[(&str, &str, &str)] = &[
    (
        "",
        "INSERT DATA { <a> <p> 1, 'x'@en . GRAPH <g> { <a> <p> <b> } }",
        "<a> <p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> . <a> <p> \"x\"@en . <a> <p> <b> <g> .",
    ),
    (
        "<a> <p> <b> . <a> <p> <b> <g> .",
        "DELETE DATA { <a> <p> <b> , <never> }",
        "<a> <p> <b> <g> .",
    ),
    // What is both deleted and inserted is there.
    (
        "<a> <p> <b> .",
        "DELETE { ?s ?p ?o } INSERT { ?s ?p ?o . ?o ?p ?s } WHERE { ?s ?p ?o }",
        "<a> <p> <b> . <b> <p> <a> .",
    ),
    // The WHERE sees nothing of its own operation, the next operation sees all.
    (
        "<a> <p> <b> .",
        "INSERT { ?o <p> <c> } WHERE { ?s <p> ?o }; INSERT { ?o <q> ?s } WHERE { ?s <p> ?o }",
        "<a> <p> <b> . <b> <p> <c> . <b> <q> <a> . <c> <q> <b> .",
    ),
    (
        "<a> <p> <b> . <a> <p> <c> . <b> <p> <b> . <b> <p> <d> .",
        "DELETE { ?s <p> ?last } INSERT { ?s <last> ?last } \
         WHERE { ?s <p> <b> LATERAL { SELECT ?s ?last { ?s <p> ?last } ORDER BY DESC(?last) LIMIT 1 } }",
        "<a> <p> <b> . <b> <p> <b> . <a> <last> <c> . <b> <last> <d> .",
    ),
    // What would be no quad is left out, and so is what has an unbound variable.
    (
        "<a> <p> \"x\" . <b> <p> <c> .",
        "INSERT { ?o <q> ?s . ?s ?o <r> . ?s <q> ?n . GRAPH ?o { <x> <y> <z> } } WHERE { ?s <p> ?o }",
        "<a> <p> \"x\" . <b> <p> <c> . <c> <q> <b> . <b> <c> <r> . <x> <y> <z> <c> .",
    ),
    (
        "<a> <p> <b> <g> . <a> <p> <c> . <a> <p> <d> <h> .",
        "WITH <g> DELETE { ?s ?p ?o } INSERT { ?s <q> ?o . ?s <r> ?x } WHERE { ?s ?p ?o GRAPH ?other { ?s ?p ?x } }",
        "<a> <q> <b> <g> . <a> <r> <b> <g> . <a> <r> <d> <g> . <a> <p> <c> . <a> <p> <d> <h> .",
    ),
    (
        "<a> <p> <b> <g> . <a> <p> <c> . <a> <p> <d> <h> .",
        "WITH <g> DELETE { ?s ?p ?o } INSERT { ?s <q> ?o } USING <h> WHERE { ?s ?p ?o }",
        "<a> <p> <b> <g> . <a> <q> <d> <g> . <a> <p> <c> . <a> <p> <d> <h> .",
    ),
    (
        "<a> <p> <b> <g> . <a> <p> <c> . <a> <p> <d> <h> .",
        "INSERT { ?s <q> ?o ; <g> ?g } USING NAMED <h> WHERE { { GRAPH ?g { ?s ?p ?o } } UNION { ?s ?p ?o } }",
        "<a> <p> <b> <g> . <a> <p> <c> . <a> <p> <d> <h> . <a> <q> <d> . <a> <g> <h> .",
    ),
    (
        "<a> <p> <b> <g> . <a> <p> <b> . <a> <p> <c> <h> .",
        "DELETE WHERE { ?s ?p ?o . GRAPH ?g { ?s ?p ?o } }",
        "<a> <p> <c> <h> .",
    ),
    (
        "<a> <p> <b> <g> . <a> <p> <b> . <a> <p> <c> <h> .",
        "CLEAR DEFAULT; DROP GRAPH <g>",
        "<a> <p> <c> <h> .",
    ),
    (
        "<a> <p> <b> <g> . <a> <p> <b> .",
        "CLEAR NAMED",
        "<a> <p> <b> .",
    ),
    ("<a> <p> <b> <g> . <a> <p> <b> .", "DROP ALL", ""),
    (
        "<a> <p> <b> .",
        "CREATE GRAPH <g>; CREATE GRAPH <g>",
        "<a> <p> <b> .",
    ),
    (
        "<a> <p> <b> .",
        "DROP SILENT GRAPH <g>; COPY SILENT <g> TO DEFAULT",
        "<a> <p> <b> .",
    ),
    (
        "<a> <p> <b> <g> . <c> <p> <d> <h> . <a> <p> <c> .",
        "COPY <g> TO <h>; ADD DEFAULT TO <h>; MOVE <g> TO DEFAULT; COPY <h> TO <h>",
        "<a> <p> <b> <h> . <a> <p> <c> <h> . <a> <p> <b> .",
    ),
    // A graph is moved onto one that has some of its triples.
    (
        "<a> <p> <b> <g> . <c> <p> <d> <g> . <a> <p> <b> <h> . <e> <p> <f> <h> .",
        "MOVE <g> TO <h>",
        "<a> <p> <b> <h> . <c> <p> <d> <h> .",
    ),
    // New blank nodes: one for all of INSERT DATA, one for each solution of a WHERE.
    (
        "<a> <p> <b> . <c> <p> <d> .",
        "INSERT { ?s <q> _:n . _:n <r> ?o } WHERE { ?s <p> ?o }; INSERT DATA { _:n <t> _:n , _:m }",
        "<a> <p> <b> . <c> <p> <d> . <a> <q> _:x . _:x <r> <b> . <c> <q> _:y . _:y <r> <d> . _:z <t> _:z . _:z <t> _:w .",
    ),
    (
        "<a> <p> <b> .",
        "INSERT { _:n <q> <<( <a> <p> _:n )>> } WHERE { VALUES ?x { 1 2 } }",
        "<a> <p> <b> . _:x <q> <<( <a> <p> _:x )>> . _:y <q> <<( <a> <p> _:y )>> .",
    ),
    (
        "<a> <p> <<( <x> <y> <z> )>> . <b> <p> <<( <x> <y> <w> )>> .",
        "DELETE { ?s <p> <<( <x> <y> ?o )>> } INSERT { ?s <q> <<( <s> <y> ?o )>> } WHERE { ?s <p> <<( <x> <y> ?o )>> FILTER(?o = <z>) }",
        "<a> <q> <<( <s> <y> <z> )>> . <b> <p> <<( <x> <y> <w> )>> .",
    ),
    // Computed terms.
    (
        "<a> <p> \"x\" .",
        "INSERT { ?s <q> ?t ; <r> ?n } WHERE { ?s <p> ?o BIND(CONCAT(?o, 'y') AS ?t) BIND(IRI(STR(?o)) AS ?n) }",
        "<a> <p> \"x\" . <a> <q> \"xy\" . <a> <r> <x> .",
    ),
    // Template and pattern without variables; no solutions.
    (
        "<a> <p> <b> .",
        "INSERT { <n> <n> <n> } WHERE { <a> <p> <b> }; INSERT { <m> <m> <m> } WHERE { <b> <p> <a> }",
        "<a> <p> <b> . <n> <n> <n> .",
    ),
    (
        "<a> <p> <b> . <b> <p> <c> . <c> <p> <d> .",
        "INSERT { ?s <q> ?o } WHERE { ?s <p>+ ?o }",
        "<a> <p> <b> . <b> <p> <c> . <c> <p> <d> . <a> <q> <b> . <a> <q> <c> . <a> <q> <d> . <b> <q> <c> . <b> <q> <d> . <c> <q> <d> .",
    ),
    (
        "<a> <n> \"x\" . <b> <n> \"y\" .",
        "INSERT { ?s <c> ?count } WHERE { { SELECT (COUNT(*) AS ?count) { ?x <n> ?y } } ?s <n> 'x' }",
        "<a> <n> \"x\" . <b> <n> \"y\" . <a> <c> \"2\"^^<http://www.w3.org/2001/XMLSchema#integer> .",
    ),
];

/// One quad a line.
fn lines(text: &str) -> String {
    let text = text.replace("<http://www", "\u{1}");
    long(&text)
        .replace('\u{1}', "<http://www")
        .replace(" . ", " .\n")
}

#[test]
fn operations_do_what_the_specification_says() {
    for (before, update, after) in CASES {
        let database = writable(&lines(before));
        let report = update_with(&database, update, &UpdateOptions::default());
        let report = report.unwrap_or_else(|error| panic!("{update}\n{error}"));
        let (ours, expected) = (contents(&database), dataset(&lines(after)));
        assert_eq!(ours, expected, "{update}\ngot\n{ours}");
        let quads = database.snapshot().quads().unwrap().next().unwrap();
        let count = quads.map_or(0, |batch| batch.rows);
        assert_eq!(count, expected.len(), "{update}");
        let before = dataset(&lines(before)).len() as u64;
        assert_eq!(
            before + report.added - report.removed,
            count as u64,
            "{update}"
        );
    }
}

#[test]
fn what_was_done_is_reported() {
    let database = writable("<http://e/a> <http://e/p> <http://e/b> .");
    let text = "INSERT DATA { <a> <p> <b>, <c> } ; DELETE DATA { <a> <p> <b> }; CREATE GRAPH <g>";
    let report = update_with(&database, text, &UpdateOptions::default()).unwrap();
    assert_eq!((report.operations, report.added, report.removed), (3, 1, 1));
    assert_eq!(report.position, Some(1));
    let nothing = "DELETE DATA { <a> <p> <b> } ; INSERT DATA { <a> <p> <c> }";
    let report = update_with(&database, nothing, &UpdateOptions::default()).unwrap();
    assert_eq!(
        (report.position, report.added, report.removed),
        (None, 0, 0)
    );
    // Done and undone within one update.
    let back = "INSERT DATA { <x> <p> <y> } ; DELETE DATA { <x> <p> <y> }";
    let report = update_with(&database, back, &UpdateOptions::default()).unwrap();
    assert_eq!((report.operations, report.added, report.removed), (2, 0, 0));
}

#[test]
fn an_update_with_a_key_is_done_once() {
    let database = writable("");
    let update = Update::parse("INSERT DATA { [] <a:p> 1 }", None).unwrap();
    let run = |key| database.update_parsed(&update, &UpdateOptions::default(), Some(key));
    let first = run("one").unwrap();
    assert_eq!((first.position, first.added), (Some(1), 1));
    assert_eq!(run("two").unwrap().position, Some(2));
    let again = run("one").unwrap();
    assert_eq!((again.position, again.added), (Some(1), 0));
    assert_eq!(
        ours(&database, "SELECT * { ?s ?p ?o }")
            .unwrap()
            .lines
            .len(),
        2
    );
}

#[test]
fn blank_nodes_of_updates_are_no_others() {
    let database = writable("_:x <http://e/p> \"stored\" .");
    for _ in 0..2 {
        update_with(
            &database,
            "INSERT DATA { _:x <p> 'data' } ; INSERT { _:x <p> 'each' } WHERE { VALUES ?v { 1 2 } }",
            &UpdateOptions::default(),
        )
        .unwrap();
    }
    let answer = ours(&database, "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s ?p ?o }").unwrap();
    assert_eq!(
        answer.lines,
        ["\"7\"^^<http://www.w3.org/2001/XMLSchema#integer>"]
    );
    // As terms of solutions they are themselves.
    let text = "INSERT { ?s <q> ?s } WHERE { ?s <p> 'stored' }";
    assert_eq!(
        update_with(&database, text, &UpdateOptions::default())
            .unwrap()
            .added,
        1
    );
    let answer = ours(
        &database,
        "ASK { ?s <http://e/q> ?s ; <http://e/p> 'stored' }",
    )
    .unwrap();
    assert_eq!(answer.lines, ["true"]);
}

fn quad(s: &str, p: &str, o: impl Into<Term>) -> Quad {
    let iri = |name: &str| NamedNode::new_unchecked(format!("http://e/{name}"));
    Quad::new(iri(s), iri(p), o, oxrdf::GraphName::DefaultGraph)
}

fn count(results: Results) -> usize {
    let Results::Solutions(mut solutions) = results else {
        panic!("no solutions");
    };
    let mut count = 0;
    while let Some(batch) = solutions.next_batch().unwrap() {
        count += batch.len();
    }
    count
}

#[test]
fn a_transaction_sees_its_own_changes_and_others_do_not() {
    let database = writable("<http://e/a> <http://e/p> \"1\" .");
    let all = "SELECT * { ?s ?p ?o }";
    let one = quad("a", "p", Literal::from("1"));
    let two = quad("a", "p", Literal::from("2"));
    let mut transaction = database.transaction().unwrap();
    assert!(transaction.contains(&one).unwrap());
    assert!(transaction.insert(&two).unwrap());
    assert!(!transaction.insert(&two).unwrap());
    assert!(transaction.remove(&one).unwrap());
    assert!(!transaction.remove(&one).unwrap());
    assert!(transaction.contains(&two).unwrap() && !transaction.contains(&one).unwrap());
    let added = transaction
        .update("INSERT { ?s <a:q> ?o } WHERE { ?s ?p ?o }")
        .unwrap();
    assert_eq!((added.added, added.removed, added.operations), (1, 0, 1));
    assert_eq!(count(transaction.query(all).unwrap()), 2);
    assert_eq!(ours(&database, all).unwrap().lines.len(), 1);
    // A reader keeps what it has begun to read.
    let Results::Solutions(mut reader) = database.query(all).unwrap() else {
        panic!("no solutions");
    };
    let committed = transaction.commit().unwrap();
    assert_eq!((committed.added, committed.removed), (2, 1));
    assert_eq!(reader.next_batch().unwrap().unwrap().len(), 1);
    assert_eq!(ours(&database, all).unwrap().lines.len(), 2);
    assert!(database.transaction().unwrap().contains(&two).unwrap());
}

#[test]
fn a_transaction_rolled_back_leaves_nothing() {
    let database = writable("<http://e/a> <http://e/p> \"1\" .");
    let before = contents(&database);
    let mut transaction = database.transaction().unwrap();
    transaction
        .update("CLEAR ALL; INSERT DATA { <a:x> <a:y> <a:z> }")
        .unwrap();
    transaction.rollback();
    assert_eq!(contents(&database), before);
    let mut transaction = database.transaction().unwrap();
    transaction
        .insert(&quad("n", "p", Literal::from("new")))
        .unwrap();
    drop(transaction);
    assert_eq!(contents(&database), before);
    // What was rolled back can be done.
    database
        .update("INSERT DATA { <a:x> <a:y> <a:z> }")
        .unwrap();
    assert_eq!(contents(&database).len(), 2);
}

#[test]
fn many_quads_are_inserted_and_removed_at_once() {
    let database = writable("");
    let quads: Vec<Quad> = (0..20_000)
        .map(|n| {
            quad(
                &format!("s{}", n % 5000),
                &format!("p{}", n % 7),
                Literal::from(n / 3),
            )
        })
        .collect();
    let distinct = quads.iter().collect::<std::collections::HashSet<_>>().len() as u64;
    let mut transaction = database.transaction().unwrap();
    assert_eq!(transaction.insert_all(&quads).unwrap(), distinct);
    assert_eq!(transaction.commit().unwrap().added, distinct);
    let mut transaction = database.transaction().unwrap();
    assert_eq!(transaction.insert_all(&quads[..100]).unwrap(), 0);
    assert_eq!(transaction.remove_all(&quads).unwrap(), distinct);
    transaction.commit().unwrap();
    assert_eq!(contents(&database).len(), 0);
}

#[test]
fn a_conflict_is_reported_as_one_to_be_retried() {
    let database = writable("<http://e/a> <http://e/p> \"1\" .");
    let swap = |value: &str| {
        let mut transaction = database.transaction().unwrap();
        let text =
            format!("DELETE {{ ?s ?p ?o }} INSERT {{ ?s ?p '{value}' }} WHERE {{ ?s ?p ?o }}");
        transaction.update(&text).unwrap();
        transaction
    };
    let (first, second) = (swap("2"), swap("3"));
    // Other quads do not conflict.
    let mut third = database.transaction().unwrap();
    third.insert(&quad("b", "p", Literal::from("4"))).unwrap();
    first.commit().unwrap();
    let error = second.commit().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    third.commit().unwrap();
    swap("5").commit().unwrap();
    let values = ours(&database, "SELECT DISTINCT ?o { ?s ?p ?o }").unwrap();
    assert_eq!(values.lines, ["\"5\""]);
}

#[test]
fn updates_that_conflict_are_tried_again() {
    let database = writable(
        "<http://e/a> <http://e/p> 0 ."
            .replace(" 0 ", " \"0\"^^<http://www.w3.org/2001/XMLSchema#integer> ")
            .as_str(),
    );
    let add = "DELETE { ?s ?p ?o } INSERT { ?s ?p ?n } WHERE { ?s ?p ?o BIND(?o + 1 AS ?n) }";
    let (threads, rounds) = (4, 25);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..rounds {
                    loop {
                        match database.update(add) {
                            Err(error) if error.is_retryable() => {}
                            report => {
                                report.unwrap();
                                break;
                            }
                        }
                    }
                }
            });
        }
    });
    let answer = ours(&database, "SELECT ?o { ?s ?p ?o }").unwrap();
    let sum = threads * rounds;
    assert_eq!(
        answer.lines,
        [format!(
            "\"{sum}\"^^<http://www.w3.org/2001/XMLSchema#integer>"
        )]
    );
}

#[test]
fn without_writing_nothing_is_changed() {
    let database = database("<http://e/a> <http://e/p> \"1\" .");
    let error = database.update("CLEAR ALL").unwrap_err();
    assert!(error.to_string().contains("for writing"), "{error}");
    assert!(database.transaction().is_err());
}

#[test]
fn results_that_outgrow_memory_wait_in_files() {
    let nodes = 6000;
    let data: String = (0..nodes)
        .map(|n| format!("<http://e/n{n}> <http://e/p> \"{n}\" .\n"))
        .collect();
    let database = writable(&data);
    let options = UpdateOptions {
        query: QueryOptions {
            memory_bytes: Some(400 << 10),
            ..QueryOptions::default()
        },
        ..UpdateOptions::default()
    };
    // 30,000 rows of 32 bytes wait until all 6,000 are deleted.
    let update = "DELETE { ?s <p> ?o } INSERT { ?s <q> ?o ; <r> ?o ; <s> ?o ; <t> ?o ; <u> ?o } WHERE { ?s <p> ?o }";
    let report = update_with(&database, update, &options).unwrap();
    assert_eq!((report.added, report.removed), (5 * nodes, nodes));
    let usage = database.usage();
    assert!(usage.spilled_bytes > 0, "{usage:?}");
    assert_eq!((usage.memory_bytes, usage.spill_bytes), (0, 0), "{usage:?}");
    let counts = ours(
        &database,
        "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p",
    )
    .unwrap();
    assert_eq!(counts.lines.len(), 5);
    assert!(counts.lines.iter().all(|line| line.contains("\"6000\"")));
}

/// Answers every query with two solutions, one of them a blank node.
struct Two(Mutex<Vec<String>>);

impl ServiceHandler for Two {
    fn select(
        &self,
        _: &NamedNode,
        query: &str,
        _: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        self.0.lock().unwrap().push(query.to_owned());
        let row = |term: Term| Ok(vec![Some(term)]);
        Ok(ServiceSolutions {
            variables: vec![Variable::new_unchecked("v")],
            rows: Box::new([row(Literal::from(1).into()), row(far_node())].into_iter()),
        })
    }
}

fn far_node() -> Term {
    BlankNode::new_unchecked("b").into()
}

#[test]
fn a_where_may_ask_other_endpoints() {
    let database = writable("<http://e/a> <http://e/p> _:b .");
    let service = Arc::new(Two(Mutex::default()));
    let options = UpdateOptions {
        query: QueryOptions {
            service: Some(Arc::clone(&service) as _),
            ..QueryOptions::default()
        },
        ..UpdateOptions::default()
    };
    let text = "INSERT { ?s <q> ?v } WHERE { ?s <p> ?o SERVICE <far> { ?x <y> ?v } }";
    assert_eq!(update_with(&database, text, &options).unwrap().added, 2);
    assert_eq!(service.0.lock().unwrap().len(), 1);
    // The blank nodes of each answer are new, and none of the store's.
    assert_eq!(update_with(&database, text, &options).unwrap().added, 1);
    let query = "SELECT DISTINCT ?n { <http://e/a> ?p ?n FILTER(isBlank(?n)) }";
    assert_eq!(ours(&database, query).unwrap().lines.len(), 3);
    let error = update_with(&database, text, &UpdateOptions::default()).unwrap_err();
    assert!(matches!(error, QueryError::Unsupported { .. }), "{error}");
}

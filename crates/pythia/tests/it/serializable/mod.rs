//! Serializable transactions: what they have read decides whether they can commit after another.

mod histories;
mod random;

use pythia::{Database, Isolation, Results, Update, UpdateOptions};

use crate::support::{quads_of, writable};

const DATA: &str = "
    <http://e/ann> <http://e/knows> <http://e/bob> .
    <http://e/bob> <http://e/knows> <http://e/eve> .
    <http://e/ann> <http://e/age> \"30\"^^<http://www.w3.org/2001/XMLSchema#integer> .
    <http://e/bob> <http://e/age> \"40\"^^<http://www.w3.org/2001/XMLSchema#integer> .
    <http://e/ann> <http://e/boss> <http://e/eve> .
    <http://e/ann> <http://e/knows> <http://e/eve> <http://e/g> .
    <http://e/bob> <http://e/knows> <http://e/ann> <http://e/h> .
";

/// Leaves a mark if a pattern matches, or if it does not.
fn marking(pattern: &str) -> String {
    format!("PREFIX e: <http://e/> INSERT {{ e:it e:is e:done }} WHERE {{ {pattern} }}")
}

/// Runs an update in a transaction, and before it commits another update. Returns whether it commits.
fn commits(database: &Database, isolation: Isolation, update: &str, other: &str) -> bool {
    let mut transaction = database.transaction_with(isolation).expect("a writer");
    transaction.update(update).expect(update);
    // Something is changed in any case: a transaction without changes has no commit that could fail.
    let mark = "INSERT DATA { <http://e/it> <http://e/has> <http://e/run> }";
    transaction.update(mark).expect("a mark");
    let other = format!("PREFIX e: <http://e/> {other}");
    database.update(&other).expect(&other);
    match transaction.commit() {
        Ok(_) => true,
        Err(error) if error.is_retryable() => false,
        Err(error) => panic!("{error}"),
    }
}

/// Checks what comes of a read beside each of these updates: those that it must conflict with, and those that it must
/// not.
fn check(pattern: &str, conflicting: &[&str], others: &[&str]) {
    let update = marking(pattern);
    for (other, is_conflict) in (conflicting.iter().map(|other| (other, true)))
        .chain(others.iter().map(|other| (other, false)))
    {
        let run = |isolation| commits(&writable(DATA), isolation, &update, other);
        assert!(run(Isolation::Snapshot), "{pattern} / {other}");
        let commits = run(Isolation::Serializable);
        assert_eq!(commits, !is_conflict, "{pattern} / {other}");
    }
}

#[test]
fn of_two_updates_that_each_look_for_the_other_one_is_repeated() {
    let insert = |who: &str| {
        format!(
            "PREFIX e: <http://e/> INSERT {{ e:{who} e:is e:on-call }}
             WHERE {{ FILTER NOT EXISTS {{ ?someone e:is e:on-call }} }}"
        )
    };
    for (isolation, expected) in [(Isolation::Snapshot, 2), (Isolation::Serializable, 1)] {
        let database = writable(DATA);
        let mut first = database.transaction_with(isolation).expect("a writer");
        let mut second = database.transaction_with(isolation).expect("a writer");
        first.update(&insert("ann")).expect("an update");
        second.update(&insert("bob")).expect("an update");
        first.commit().expect("the first");
        if let Err(error) = second.commit() {
            assert!(error.is_retryable());
            let update = Update::parse(&insert("bob"), None).expect("an update");
            let options = UpdateOptions {
                isolation,
                ..UpdateOptions::default()
            };
            let report = database.update_parsed(&update, &options, None);
            assert_eq!(report.expect("nobody else").position, None);
        }
        let on_call = quads_of(&database);
        let on_call = on_call
            .iter()
            .filter(|quad| quad.object.to_string().ends_with("on-call>"));
        assert_eq!(on_call.count(), expected, "{isolation}");
    }
}

#[test]
fn updates_that_conflict_are_repeated() {
    const THREADS: u64 = 4;
    let database = writable("");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                let text = format!(
                    "INSERT {{ <http://e/t{thread}> <http://e/is> <http://e/first> }}
                     WHERE {{ FILTER NOT EXISTS {{ ?other <http://e/is> <http://e/first> }} }}"
                );
                let update = Update::parse(&text, None).expect("an update");
                let options = UpdateOptions {
                    isolation: Isolation::Serializable,
                    ..UpdateOptions::default()
                };
                database
                    .update_parsed(&update, &options, None)
                    .expect("repeated")
            });
        }
    });
    assert_eq!(quads_of(&database).len(), 1);
}

#[test]
fn patterns_conflict_with_quads_that_match_them() {
    check(
        "e:ann e:knows ?x",
        &[
            "INSERT DATA { e:ann e:knows e:new }",
            "DELETE DATA { e:ann e:knows e:bob }",
        ],
        &[
            "INSERT DATA { e:bob e:knows e:new }",
            "INSERT DATA { e:ann e:age 3 }",
            "INSERT DATA { GRAPH e:g { e:ann e:knows e:new } }",
        ],
    );
    check(
        "?x e:boss ?y",
        &["INSERT DATA { e:new e:boss e:ann }"],
        &["INSERT DATA { e:new e:age 3 }"],
    );
    // What a join did not reach is not read.
    check(
        "e:ann e:boss ?x . ?x e:knows ?y",
        &[
            "INSERT DATA { e:eve e:knows e:ann }",
            "DELETE DATA { e:ann e:boss e:eve }",
        ],
        &["INSERT DATA { e:zoe e:boss e:ann }"],
    );
}

#[test]
fn what_is_not_there_is_read_too() {
    check(
        "FILTER NOT EXISTS { e:eve e:knows ?x }",
        &["INSERT DATA { e:eve e:knows e:ann }"],
        &[
            "INSERT DATA { e:ann e:knows e:ann }",
            "INSERT DATA { e:eve e:age 50 }",
        ],
    );
    check(
        "OPTIONAL { ?x e:boss e:ann }",
        &["INSERT DATA { e:bob e:boss e:ann }"],
        &["INSERT DATA { e:ann e:boss e:bob }"],
    );
    check(
        "?x e:age ?y MINUS { ?x e:boss ?z }",
        &["INSERT DATA { e:bob e:boss e:ann }"],
        &["INSERT DATA { e:bob e:knows e:ann }"],
    );
    // Terms, predicates and graphs that the store does not have.
    check(
        "FILTER NOT EXISTS { e:new e:knows ?x }",
        &["INSERT DATA { e:new e:knows e:ann }"],
        &["INSERT DATA { e:newer e:knows e:ann }"],
    );
    check(
        "FILTER NOT EXISTS { ?x e:new ?y }",
        &["INSERT DATA { e:ann e:new e:bob }"],
        &["INSERT DATA { e:ann e:newer e:bob }"],
    );
    check(
        "FILTER NOT EXISTS { ?x e:age \"a long text that no id holds\" }",
        &["INSERT DATA { e:ann e:age \"a long text that no id holds\" }"],
        &["INSERT DATA { e:ann e:age \"another long text that no id holds\" }"],
    );
    check(
        "FILTER NOT EXISTS { GRAPH e:new { ?x ?y ?z } }",
        &["INSERT DATA { GRAPH e:new { e:ann e:knows e:bob } }"],
        &["INSERT DATA { GRAPH e:newer { e:ann e:knows e:bob } }"],
    );
    check(
        "BIND(CONCAT(\"a long text that \", \"no id holds\") AS ?text) FILTER NOT EXISTS { ?x e:age ?text }",
        &["INSERT DATA { e:ann e:age \"a long text that no id holds\" }"],
        &["INSERT DATA { e:ann e:knows \"something else that no id holds\" }"],
    );
}

#[test]
fn counts_are_read() {
    check(
        "{ SELECT (COUNT(*) AS ?n) { ?x e:knows ?y } } FILTER(?n = 2)",
        &["INSERT DATA { e:ann e:knows e:new }"],
        &["INSERT DATA { e:ann e:age 3 }"],
    );
    check(
        "{ SELECT (COUNT(*) AS ?n) { ?x ?p ?y } } FILTER(?n = 5)",
        &["INSERT DATA { e:ann e:age 3 }"],
        &["INSERT DATA { GRAPH e:g { e:ann e:age 3 } }"],
    );
    check(
        "{ SELECT (COUNT(DISTINCT ?x) AS ?n) { ?x e:knows ?y } } FILTER(?n = 2)",
        &["INSERT DATA { e:new e:knows e:ann }"],
        &["INSERT DATA { e:new e:age 3 }"],
    );
    check(
        "{ SELECT (SUM(?age) AS ?n) { ?x e:age ?age } } FILTER(?n = 70)",
        &["INSERT DATA { e:new e:age 3 }"],
        &["INSERT DATA { e:new e:knows e:ann }"],
    );
}

#[test]
fn the_statistics_of_a_store_with_one_graph_are_read() {
    let data =
        "<http://e/ann> <http://e/knows> <http://e/bob> .\n<http://e/ann> <http://e/age> \"x\" .";
    for (pattern, other, expected) in [
        (
            "SELECT DISTINCT ?p { ?s ?p ?o }",
            "e:ann e:new e:bob",
            false,
        ),
        (
            "SELECT (COUNT(DISTINCT ?p) AS ?n) { ?s ?p ?o }",
            "e:ann e:new e:bob",
            false,
        ),
        (
            "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p",
            "e:ann e:age 3",
            false,
        ),
        (
            "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s e:age ?o }",
            "e:bob e:age 3",
            false,
        ),
        (
            "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s e:age ?o }",
            "e:bob e:knows e:ann",
            true,
        ),
    ] {
        let update = marking(&format!("{{ {pattern} }}"));
        let other = format!("INSERT DATA {{ {other} }}");
        let database = writable(data);
        let commits = commits(&database, Isolation::Serializable, &update, &other);
        assert_eq!(commits, expected, "{pattern} / {other}");
    }
}

#[test]
fn graphs_conflict_when_they_appear_or_disappear() {
    check(
        "GRAPH ?g { }",
        &[
            "INSERT DATA { GRAPH e:new { e:ann e:age 3 } }",
            "DELETE DATA { GRAPH e:g { e:ann e:knows e:eve } }",
        ],
        &[
            "INSERT DATA { GRAPH e:g { e:ann e:age 3 } }",
            "INSERT DATA { e:new e:age 3 }",
        ],
    );
    check(
        "GRAPH e:g { }",
        &["CLEAR GRAPH e:g"],
        &[
            "INSERT DATA { GRAPH e:g { e:ann e:age 3 } }",
            "CLEAR GRAPH e:h",
        ],
    );
}

#[test]
fn operations_on_graphs_read_them() {
    let run = |operation: &str, other: &str| {
        let update = format!("PREFIX e: <http://e/> {operation}");
        commits(&writable(DATA), Isolation::Serializable, &update, other)
    };
    for (operation, other, expected) in [
        (
            "CLEAR GRAPH e:g",
            "INSERT DATA { GRAPH e:g { e:new e:age 3 } }",
            false,
        ),
        (
            "CLEAR GRAPH e:g",
            "INSERT DATA { GRAPH e:h { e:new e:age 3 } }",
            true,
        ),
        ("CLEAR DEFAULT", "INSERT DATA { e:new e:age 3 }", false),
        (
            "COPY e:g TO e:new",
            "INSERT DATA { GRAPH e:g { e:new e:age 3 } }",
            false,
        ),
        (
            "COPY e:g TO e:new",
            "INSERT DATA { GRAPH e:new { e:new e:age 3 } }",
            false,
        ),
        (
            "COPY e:g TO e:new",
            "INSERT DATA { GRAPH e:h { e:newer e:age 3 } }",
            true,
        ),
        (
            "ADD e:g TO e:h",
            "INSERT DATA { GRAPH e:h { e:newer e:age 3 } }",
            true,
        ),
        (
            "CREATE GRAPH e:new",
            "INSERT DATA { GRAPH e:new { e:ann e:age 3 } }",
            false,
        ),
        (
            "CREATE GRAPH e:new",
            "INSERT DATA { GRAPH e:g { e:ann e:age 3 } }",
            true,
        ),
        (
            "DROP SILENT GRAPH e:new",
            "INSERT DATA { GRAPH e:new { e:ann e:age 3 } }",
            false,
        ),
        (
            "DELETE DATA { e:new e:age 4 }",
            "INSERT DATA { e:new e:age 4 }",
            false,
        ),
        (
            "INSERT DATA { e:ann e:age 30 }",
            "DELETE DATA { e:ann e:age 30 }",
            false,
        ),
        (
            "INSERT DATA { e:ann e:age 31 }",
            "INSERT DATA { e:ann e:age 32 }",
            true,
        ),
    ] {
        assert_eq!(run(operation, other), expected, "{operation} / {other}");
    }
}

#[test]
fn paths_are_read() {
    check(
        "e:ann e:knows+ e:new",
        &["INSERT DATA { e:new e:knows e:ann }"],
        &["INSERT DATA { e:ann e:age 3 }"],
    );
    check(
        "FILTER NOT EXISTS { e:eve e:knows+ ?x }",
        &["INSERT DATA { e:eve e:knows e:ann }"],
        &["INSERT DATA { e:eve e:age 3 }"],
    );
    check(
        "FILTER NOT EXISTS { e:eve !e:age ?x }",
        &["INSERT DATA { e:eve e:knows e:ann }"],
        &["INSERT DATA { e:bob e:boss e:ann }"],
    );
    check(
        "FILTER NOT EXISTS { e:eve (e:boss|^e:age)/e:knows* e:bob }",
        &["INSERT DATA { e:eve e:boss e:ann }"],
        &["INSERT DATA { e:bob e:likes e:ann }"],
    );
}

#[test]
fn filters_that_plans_depend_on_are_read() {
    // Only IRIs are known: equality is identity, as long as no literal is there.
    let resources = "?x e:boss ?v . ?y e:knows ?w FILTER(?v = ?w)";
    check(resources, &["INSERT DATA { e:new e:boss 3 }"], &[]);
    // A range of ids, of which there are none.
    let ages: String = (0..2000)
        .map(|n| format!("<http://e/n{n}> <http://e/age> \"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"))
        .collect();
    for (bound, other, expected) in [
        ("?age > 5000", "INSERT DATA { e:new e:age 6000 }", false),
        ("?age > 5000", "INSERT DATA { e:new e:knows 6000 }", true),
        (
            "?age = \"text\"",
            "INSERT DATA { e:new e:age \"text\" }",
            false,
        ),
        (
            "STRSTARTS(?age, \"text\")",
            "INSERT DATA { e:new e:age \"texts of some length\" }",
            false,
        ),
    ] {
        let update = marking(&format!("?x e:age ?age FILTER({bound})"));
        let commits = commits(&writable(&ages), Isolation::Serializable, &update, other);
        assert_eq!(commits, expected, "{bound} / {other}");
    }
}

#[test]
fn queries_in_a_transaction_are_read() {
    let database = writable(DATA);
    let mut transaction = database
        .transaction_with(Isolation::Serializable)
        .expect("a writer");
    let ask = "ASK { <http://e/eve> <http://e/age> ?x }";
    assert!(matches!(
        transaction.query(ask),
        Ok(Results::Boolean(false))
    ));
    let mark = "INSERT DATA { <http://e/it> <http://e/has> <http://e/run> }";
    transaction.update(mark).expect("a mark");
    let other = "INSERT DATA { <http://e/eve> <http://e/age> 50 }";
    database.update(other).expect("the first");
    assert!(
        transaction
            .commit()
            .expect_err("it was read")
            .is_retryable()
    );
}

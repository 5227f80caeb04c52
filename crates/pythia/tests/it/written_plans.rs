//! Plans that are written to bytes and read again. The W3C suites, the query files and the differential tests do this
//! with each of their queries too.

use pythia::{Database, QueryError, QueryOptions};

use crate::support::{answer_of, database, reread};

const DATA: &str = r#"
<http://e/a> <http://e/knows> <http://e/b> .
<http://e/b> <http://e/knows> <http://e/c> .
<http://e/c> <http://e/knows> <http://e/a> .
<http://e/a> <http://e/age> "30"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/b> <http://e/name> "Bea"@en .
<http://e/b> <http://e/name> "Bea" <http://e/g> .
<http://e/c> <http://e/name> "Cy" <http://e/h> .
"#;

/// Queries with each operator, and with terms that the store does not have.
const QUERIES: &[&str] = &[
    "SELECT * { ?s e:knows ?o OPTIONAL { ?o e:name ?n FILTER(?n != 'x'@en) } } ORDER BY DESC(?s) LIMIT 2",
    "SELECT ?s (COUNT(DISTINCT ?o) AS ?n) { ?s e:knows+ ?o } GROUP BY ?s HAVING(COUNT(*) > 1)",
    "SELECT * { VALUES (?s ?t) { (e:a 'new') (e:none UNDEF) (e:b <<( e:x e:y 1 )>>) } OPTIONAL { ?s e:name ?n } }",
    "SELECT * { ?s e:knows ?o FILTER EXISTS { ?o e:knows ?x MINUS { ?x e:age ?a } } }",
    "SELECT * { ?s e:knows ?o FILTER NOT EXISTS { GRAPH ?g { ?o e:name ?n } } }",
    "SELECT * { GRAPH ?g { { SELECT DISTINCT ?n { ?s e:name ?n } ORDER BY ?n LIMIT 1 } } }",
    "SELECT * FROM e:none FROM <http://e/g> FROM NAMED <http://e/h> { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }",
    "SELECT (GROUP_CONCAT(?n; separator=', ') AS ?all) (e:f(1) AS ?none) { ?s e:name ?n BIND(IRI('rel') AS ?i) }",
    "SELECT * { ?s e:knows* e:c MINUS { ?s e:age 30 } FILTER(?s IN (e:a, e:b, e:none) && BOUND(?s)) }",
    "SELECT ?p { ?s ?p ?o FILTER(REGEX(STR(?p), 'K', 'i') || STRLEN(CONCAT(STR(?o), 'é')) > 100) }",
    "PATHS ALL SHORTEST START ?s = e:a END ?e = e:c VIA e:knows+",
    "SELECT * { ?s e:knows ?o LATERAL { SELECT ?o ?x { ?o ?p ?x } ORDER BY ?x LIMIT 1 } }",
    "SELECT * { VALUES (?s ?x) { (e:a 1) (e:none 2) (UNDEF 3) } LATERAL { OPTIONAL { ?s e:knows ?o } } }",
    "SELECT * { GRAPH ?g { ?s e:name ?n LATERAL { SELECT ?n (COUNT(*) AS ?c) { ?t e:name ?n } GROUP BY ?n } } }",
    "ASK { ?s e:age ?a FILTER(-?a < 0 && ?a + 1 = 31) }",
    "CONSTRUCT { ?s e:new [ e:of ?o ] } { ?s e:knows ?o FILTER(COALESCE(?o, IF(?s = ?o, 1, 2)) != 3) }",
    "DESCRIBE e:a",
];

fn written(text: &str) -> String {
    format!("BASE <http://base/> PREFIX e: <http://e/> {text}")
}

fn lines(database: &Database, text: &str) -> (Vec<String>, Vec<String>) {
    let options = QueryOptions::default();
    let prepared = database
        .prepare(&written(text), &options)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    let read = reread(database, &prepared, &options);
    let lines = |prepared: &pythia::PreparedQuery| {
        let answer = answer_of(prepared.execute().unwrap()).unwrap();
        answer.sorted().lines
    };
    (lines(&prepared), lines(&read))
}

#[test]
fn plans_that_are_read_give_the_same_answers() {
    let database = database(DATA);
    for text in QUERIES {
        let (before, after) = lines(&database, text);
        if !text.starts_with("CONSTRUCT") {
            assert_eq!(before, after, "{text}");
        }
        assert_eq!(before.len(), after.len(), "{text}");
        assert!(!before.is_empty(), "{text}");
    }
}

#[test]
fn plans_of_other_versions_and_damaged_plans_are_refused() {
    let database = database(DATA);
    let options = QueryOptions::default();
    let prepared = database.prepare(&written(QUERIES[0]), &options).unwrap();
    let bytes = prepared.write().unwrap();
    let refused = |bytes: &[u8], problem: &str| match database.prepare_written(
        &database.snapshot(),
        bytes,
        &options,
    ) {
        Err(QueryError::Plan(message)) => assert!(message.contains(problem), "{message}"),
        _ => panic!("a plan that was read"),
    };
    let mut newer = bytes.clone();
    newer[0] += 1;
    refused(&newer, "version");
    for length in [0, 3, 7] {
        refused(&bytes[..length], "too short");
    }
    for at in 4..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        refused(&damaged, "checksum");
    }
}

#[test]
fn deeply_nested_plans_are_read() {
    let database = database(DATA);
    let options = QueryOptions::default();
    let nested = |depth: usize| {
        let text = format!(
            "SELECT * {{ ?s e:knows ?o {} {} }}",
            "OPTIONAL { ?o e:age ?a ".repeat(depth),
            "}".repeat(depth)
        );
        let prepared = database.prepare(&written(&text), &options).unwrap();
        database.prepare_written(prepared.snapshot(), &prepared.write().unwrap(), &options)
    };
    assert!(nested(10).is_ok());
    assert!(nested(120).is_ok());
}

//! A dataset whose default graph is the union of all graphs.

use pythia_server::config::{Config, ConfigSource, RoleConfig, SecurityConfig};

use crate::support::{Served, load};

const DATA: &str = "
    PREFIX : <http://e/>
    :a :p :b .
    :open { :a :p :b . :b :p :c }
    :hidden { :c :p :d }
";

fn union(config: &mut Config) {
    config.datasets[0].union_default_graph = true;
}

/// The number of rows of the answer to a query, sent with these parameters.
fn rows(served: &Served, query: &str, parameters: &str) -> usize {
    let query = format!("PREFIX : <http://e/> {query}");
    let headers = [
        ("content-type", "application/sparql-query"),
        ("accept", "text/csv"),
    ];
    let path = format!("/query?{parameters}");
    let answer = served.send("POST", &path, &headers, query.as_bytes());
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    answer.text().lines().count() - 1
}

#[test]
fn queries_see_the_union_unless_the_request_names_its_dataset() {
    let served = Served::configured(DATA, union);
    let all = "SELECT * { ?s ?p ?o }";
    for (parameters, expected) in [
        ("", 3),
        ("default-graph-uri=http://e/open", 2),
        ("named-graph-uri=http://e/open", 0),
        ("default-graph-uri=urn:x-arq:DefaultGraph", 1),
    ] {
        assert_eq!(rows(&served, all, parameters), expected, "{parameters}");
    }
    assert_eq!(rows(&served, "SELECT * { :a :p+ ?x }", ""), 3);
    assert_eq!(rows(&served, "SELECT * FROM :hidden { ?s ?p ?o }", ""), 1);
    assert_eq!(rows(&served, "SELECT * { GRAPH ?g { ?s ?p ?o } }", ""), 3);
    let plain = Served::with(DATA);
    assert_eq!(rows(&plain, all, ""), 1);
    let jena = "default-graph-uri=urn:x-arq:UnionGraph";
    assert_eq!(rows(&plain, all, jena), 3);
    // The graph store protocol has the store's own default graph.
    assert_eq!(served.get("/store?default", &[]).text().lines().count(), 1);
    let description = served.get("/query", &[("accept", "text/turtle")]);
    assert!(description.text().contains("UnionDefaultGraph"));
    let description = plain.get("/query", &[("accept", "text/turtle")]);
    assert!(!description.text().contains("UnionDefaultGraph"));
}

#[test]
fn a_user_sees_the_union_of_the_graphs_that_he_may_read() {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let security = |read: &[&str]| SecurityConfig {
        anonymous: Some("guest".to_owned()),
        roles: vec![RoleConfig {
            name: "guest".to_owned(),
            datasets: owned(&["ds"]),
            read: owned(&[read, &["http://e/new"]].concat()),
            write: owned(&["http://e/new"]),
            ..RoleConfig::default()
        }],
        ..SecurityConfig::default()
    };
    let cases: [(&[&str], _, _, _); 6] = [
        (&["*"], 3, 6, 1),
        (&["default", "http://e/open"], 2, 3, 0),
        (&["default", "http://e/hid*"], 2, 2, 1),
        (&["http://e/hidden"], 1, 1, 1),
        (&["default"], 1, 1, 0),
        (&["http://e/none"], 0, 0, 0),
    ];
    for (read, triples, paths, hidden) in cases {
        let served = Served::configured(DATA, |config| {
            union(config);
            config.security = security(read);
        });
        let found = |query: &str| rows(&served, query, "");
        assert_eq!(found("SELECT * { ?s ?p ?o }"), triples, "{read:?}");
        let counted = served.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "text/csv");
        let numbers: Vec<&str> = counted.text().lines().collect();
        assert_eq!(numbers, ["n", &triples.to_string()], "{read:?}");
        assert_eq!(found("SELECT * { ?x :p+ ?y }"), paths, "{read:?}");
        let named = "SELECT * FROM <urn:x-arq:UnionGraph> FROM :hidden { :c ?p ?o }";
        assert_eq!(found(named), hidden, "{read:?}");
        // The WHERE of an update sees no more than a query.
        let update = "PREFIX : <http://e/> INSERT { GRAPH :new { ?s :q ?o } } WHERE { ?s :p ?o }";
        let answer = served.update(update);
        assert_eq!(answer.status.as_u16(), 204, "{}", answer.text());
        assert_eq!(
            found("SELECT * { GRAPH :new { ?s :q ?o } }"),
            triples,
            "{read:?}"
        );
    }
}

#[test]
fn updates_see_the_union_and_patches_their_graph() {
    let served = Served::configured(DATA, union);
    let update = |text: &str| {
        let answer = served.update(&format!("PREFIX : <http://e/> {text}"));
        assert_eq!(answer.status.as_u16(), 204, "{}", answer.text());
    };
    update("INSERT { ?s :q ?o } WHERE { ?s :p ?o }");
    assert_eq!(served.get("/store?default", &[]).text().lines().count(), 4);
    let patch = |path: &str| {
        let body = b"PREFIX : <http://e/> INSERT { ?s :r ?o } WHERE { ?s :p ?o }";
        let headers = [("content-type", "application/sparql-update")];
        let answer = served.send("PATCH", path, &headers, body);
        assert_eq!(answer.status.as_u16(), 204, "{}", answer.text());
    };
    patch("/store?default");
    assert_eq!(
        rows(
            &served,
            "SELECT * FROM <urn:x-arq:DefaultGraph> { ?s :r ?o }",
            ""
        ),
        1
    );
    patch("/store?graph=http://e/open");
    assert_eq!(
        rows(&served, "SELECT * { GRAPH :open { ?s :r ?o } }", ""),
        2
    );
    update("DELETE WHERE { ?s :p ?o }");
    assert_eq!(rows(&served, "SELECT * { ?s :p ?o }", ""), 3);
    assert_eq!(
        rows(
            &served,
            "SELECT * FROM <urn:x-arq:DefaultGraph> { ?s :p ?o }",
            ""
        ),
        0
    );
}

/// A reload changes the default graph of an open store, and with it the tags of queries.
#[test]
fn a_reload_changes_the_default_graph() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("ds");
    load(&store, DATA);
    let file = folder.path().join("pythia.toml");
    let configure = |is_union: bool| {
        let text = format!(
            "bind = \"127.0.0.1:0\"\n[datasets.ds]\npath = {store:?}\nunion_default_graph = {is_union}\n"
        );
        std::fs::write(&file, text).expect("written");
    };
    configure(false);
    let source = ConfigSource::new(Some(file.clone()), std::sync::Arc::new(|_| ()));
    let served = Served::from(source);
    let path = "/query?query=SELECT%20*%20%7B%20?s%20?p%20?o%20%7D";
    let asked = || {
        let answer = served.get(path, &[("accept", "text/csv")]);
        let tag = answer.header("etag").expect("a tag").to_owned();
        (answer.text().lines().count() - 1, tag)
    };
    let (rows, tag) = asked();
    assert_eq!((rows, &tag), (1, &asked().1));
    configure(true);
    let answer = served.send("POST", "/$/reload", &[], b"");
    assert_eq!(answer.json()["needs_restart"], serde_json::json!([]));
    let (rows, other) = asked();
    assert_eq!(rows, 3);
    assert_ne!(tag, other);
}

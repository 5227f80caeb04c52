//! Stores on disk: loading, reopening, reload, dump.

use std::sync::Arc;

use pythia::{Compression, Database, LoadOptions, RdfFormat, Source};

use crate::support::ours;

fn source(name: &str, text: &'static str, format: RdfFormat) -> Source {
    Source::from_reader(name.to_owned(), text.as_bytes(), format, Compression::None).unwrap()
}

#[test]
fn terms_come_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
        PREFIX e: <http://e/>
        PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
        e:s e:p "01"^^xsd:integer, 1, "1.50"^^xsd:decimal, 1.5, "5"^^xsd:byte, "1e0"^^xsd:double,
            "+1"^^xsd:int, true, "1"^^xsd:boolean, "2020-01-01Z"^^xsd:date, "a\u0000b", "chat"@fr,
            "قطة"@ar--rtl, "", "x"^^e:type, <<( e:a e:b "c"@en )>> .
    "#;
    let sources = vec![source("terms", text, RdfFormat::Turtle)];
    pythia::load(
        folder.path(),
        sources,
        &LoadOptions::default(),
        &Arc::default(),
    )
    .unwrap();
    let database = Database::open(folder.path()).unwrap();
    let answer = ours(&database, "SELECT ?o { ?s ?p ?o }").unwrap().sorted();
    let expected = oxttl::TurtleParser::new().for_slice(text.as_bytes());
    let mut expected: Vec<String> = expected.map(|t| t.unwrap().object.to_string()).collect();
    expected.sort();
    assert_eq!(answer.lines, expected);
}

#[test]
fn blank_nodes_of_different_files_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let text = "_:x <http://e/p> <http://e/o> .\n";
    let sources = (1..=2)
        .map(|n| source("bnodes", text, RdfFormat::NTriples).with_blank_node_scope(Some(n)))
        .collect();
    pythia::load(
        folder.path(),
        sources,
        &LoadOptions::default(),
        &Arc::default(),
    )
    .unwrap();
    let database = Database::open(folder.path()).unwrap();
    let answer = ours(&database, "SELECT ?s { ?s <http://e/p> ?o }").unwrap();
    assert_eq!(answer.lines.len(), 2);
}

#[test]
fn a_store_that_is_not_empty_is_not_loaded_over() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text| {
        let sources = vec![source("t", text, RdfFormat::NTriples)];
        pythia::load(
            folder.path(),
            sources,
            &LoadOptions::default(),
            &Arc::default(),
        )
    };
    load("<http://e/a> <http://e/p> <http://e/b> .\n").unwrap();
    let error = load("<http://e/c> <http://e/p> <http://e/d> .\n").unwrap_err();
    assert!(!error.to_string().is_empty());
    let database = Database::open(folder.path()).unwrap();
    assert_eq!(
        ours(&database, "SELECT * { ?s ?p ?o }")
            .unwrap()
            .lines
            .len(),
        1
    );
}

#[test]
fn a_syntax_error_loads_nothing_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let text = "<http://e/a> <http://e/p> <http://e/b> .\n<http://e/a> <http://e/p> oops .\n";
    let sources = vec![source("bad.nt", text, RdfFormat::NTriples)];
    let error = pythia::load(&store, sources, &LoadOptions::default(), &Arc::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("bad.nt:2:"), "{error}");
    assert!(Database::open(&store).is_err());
}

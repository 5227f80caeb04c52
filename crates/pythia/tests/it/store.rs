//! Stores on disk: loading, reopening, reload, dump.

use std::path::Path;
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

fn lines(numbers: std::ops::Range<u32>) -> String {
    let line = |n: u32| match n % 3 {
        0 => format!(
            "<http://e/s{}> <http://e/p{}> <http://e/s{}> .\n",
            n / 7,
            n % 5,
            n % 40
        ),
        1 => format!(
            "<http://e/s{}> <http://e/p{}> \"text {n}\" <http://e/g{}> .\n",
            n / 7,
            n % 5,
            n % 2
        ),
        _ => format!("<http://e/s{}> <http://e/p{}> {n} .\n", n / 7, n % 5),
    };
    let integer = "^^<http://www.w3.org/2001/XMLSchema#integer>";
    numbers
        .map(line)
        .map(|line| match line.split(' ').nth(2) {
            Some(object) if object.parse::<u32>().is_ok() => {
                line.replace(&format!(" {object} "), &format!(" \"{object}\"{integer} "))
            }
            _ => line,
        })
        .collect()
}

fn load(folder: &Path, text: &str) -> pythia::LoadReport {
    let bytes = std::io::Cursor::new(text.to_owned().into_bytes());
    let name = "lines".to_owned();
    let source = Source::from_reader(name, bytes, RdfFormat::NQuads, Compression::None);
    let options = LoadOptions {
        memory_bytes: 128 << 20,
        ..LoadOptions::default()
    };
    pythia::load(folder, vec![source.unwrap()], &options, &Arc::default()).unwrap()
}

/// The files of a store's base.
fn base_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let store = Database::open(folder).unwrap();
    let base = folder.join(store.store().manifest().segment.folder());
    let mut files: Vec<_> = std::fs::read_dir(base)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                std::fs::read(path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

#[test]
fn loads_and_updates_become_the_base_that_one_load_makes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(load(path, &lines(0..4000)).known_quads, 0);
    let report = load(path, &lines(3000..9000));
    assert_eq!((report.quads, report.known_quads), (5000, 1000));
    {
        let database = Database::open_for_writing(path).unwrap();
        database
            .update("PREFIX e: <http://e/> DELETE WHERE { e:s3 ?p ?o } ; INSERT DATA { e:s3 e:p1 e:new, 7 }")
            .unwrap();
        assert_eq!(
            ours(&database, "SELECT * { <http://e/s3> ?p ?o }")
                .unwrap()
                .lines
                .len(),
            2
        );
    }
    let verified = |path| {
        let report = pythia::verify(path, pythia::VerifyOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.problems, []);
        report
    };
    assert_eq!(verified(path).commits, 1);
    let expected: String = lines(0..9000)
        .lines()
        .filter(|line| !line.starts_with("<http://e/s3> ") || line.contains("/g"))
        .map(|line| format!("{line}\n"))
        .chain(["<http://e/s3> <http://e/p1> <http://e/new> .\n".to_owned()])
        .chain([
            "<http://e/s3> <http://e/p1> \"7\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
                .to_owned(),
        ])
        .collect();
    let options = pythia::OptimizeOptions::default();
    let compacted = pythia::compact(path, options, 2)
        .unwrap()
        .expect("it was changed");
    assert_eq!(compacted.quads, expected.lines().count() as u64);
    assert_eq!(pythia::compact(path, options, 2).unwrap(), None);
    verified(path);
    let fresh = tempfile::tempdir().unwrap();
    load(fresh.path(), &expected);
    assert_eq!(pythia::compact(fresh.path(), options, 1).unwrap(), None);
    let files = base_files(path).into_iter().zip(base_files(fresh.path()));
    for ((name, bytes), (fresh_name, fresh_bytes)) in files {
        assert_eq!(name, fresh_name);
        assert!(bytes == fresh_bytes, "{name} differs");
    }
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

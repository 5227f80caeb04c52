//! LOAD: which files may be read, and what becomes of them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use pythia::{Loader, QueryError, UpdateOptions};

use super::update_with;
use crate::support::{contents, dataset, ours, writable};

fn allowing(folder: &Path) -> UpdateOptions {
    UpdateOptions {
        load: Some(Arc::new(Loader::new().with_folder(folder))),
        ..UpdateOptions::default()
    }
}

/// LOAD of a file, with SILENT or INTO.
fn load(folder: &Path, name: &str, silent: &str, into: &str) -> String {
    let base = Loader::iri_of_folder(&folder.canonicalize().unwrap());
    format!("LOAD {silent} <{base}{name}> {into}")
}

#[test]
fn files_of_a_folder_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("a b")).unwrap();
    fs::write(path.join("a b/x.ttl"), "<http://e/a> <http://e/p> [] , 1 .").unwrap();
    fs::write(
        path.join("y.nq"),
        "<http://e/a> <http://e/q> _:b <http://e/g> .\n_:b <http://e/q> _:b .\n",
    )
    .unwrap();
    let compressed =
        zstd::encode_all(&b"<http://e/z> <http://e/z> <http://e/z> .\n"[..], 0).unwrap();
    fs::write(path.join("z.nt.zst"), compressed).unwrap();
    let database = writable("<http://e/old> <http://e/p> _:d0_b .");
    let options = allowing(path);
    let text = [
        load(path, "a%20b/x.ttl", "", ""),
        load(path, "a%20b/x.ttl", "", "INTO GRAPH <h>"),
        load(path, "y.nq", "", ""),
        load(path, "z.nt.zst", "SILENT", "INTO GRAPH <h>"),
    ];
    let report = update_with(&database, &text.join(" ; "), &options).unwrap();
    assert_eq!((report.operations, report.added), (4, 7));
    let expected = "<http://e/old> <http://e/p> _:o .
        <http://e/a> <http://e/p> _:x .
        <http://e/a> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .
        <http://e/a> <http://e/p> _:y <http://e/h> .
        <http://e/a> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> <http://e/h> .
        <http://e/a> <http://e/q> _:b <http://e/g> .
        _:b <http://e/q> _:b .
        <http://e/z> <http://e/z> <http://e/z> <http://e/h> .";
    assert_eq!(contents(&database), dataset(expected));
    // Its blank nodes are new each time.
    update_with(&database, &load(path, "a%20b/x.ttl", "", ""), &options).unwrap();
    let answer = ours(
        &database,
        "SELECT ?b { <http://e/a> <http://e/p> ?b FILTER(isBlank(?b)) }",
    );
    assert_eq!(answer.unwrap().lines.len(), 2);
}

#[test]
fn large_files_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..30_000)
        .map(|n| format!("<http://e/s{}> <http://e/p> \"value {n}\" .\n", n % 1000))
        .collect();
    for name in ["x.nt", "x.ttl"] {
        fs::write(folder.path().join(name), &lines).unwrap();
        let database = writable("");
        let text = load(folder.path(), name, "", "");
        let report = update_with(&database, &text, &allowing(folder.path())).unwrap();
        assert_eq!(report.added, 30_000);
        assert_eq!(contents(&database).len(), 30_000);
    }
}

#[test]
fn only_what_is_allowed_is_loaded() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(outer.path().join("secret.nt"), "<a:a> <a:a> <a:a> .\n").unwrap();
    std::os::unix::fs::symlink(outer.path().join("secret.nt"), inner.join("link.nt")).unwrap();
    let database = writable("");
    let run = |text: &str, options: &UpdateOptions| {
        let error = update_with(&database, text, options).unwrap_err();
        assert_eq!(contents(&database).len(), 0, "{text}");
        error.to_string()
    };
    let options = allowing(&inner);
    for name in ["../secret.nt", "%2e%2e/secret.nt", "link.nt"] {
        let message = run(&load(&inner, name, "", ""), &options);
        assert!(message.contains("only files in"), "{name}: {message}");
    }
    for (iri, part) in [
        ("http://e/x.nt", "--load-http"),
        ("ftp://e/x.nt", "ftp: IRIs cannot be loaded"),
        ("file://elsewhere/x.nt", "files of elsewhere"),
        ("file:///%ff", "percent-encoded"),
    ] {
        let message = run(&format!("LOAD <{iri}>"), &options);
        assert!(message.contains(part), "{iri}: {message}");
    }
    // Without permission SILENT does not help.
    let message = run("LOAD SILENT <file:///x.nt>", &UpdateOptions::default());
    assert!(message.contains("--load-folder"), "{message}");
}

/// Answers each request on this machine with this; gives where.
fn serve(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(&stream);
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                line.clear();
            }
            // The client may be gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}/")
}

#[test]
fn what_servers_have_is_loaded_if_that_is_allowed() {
    let turtle = serve(
        "HTTP/1.1 200 OK\r\nContent-Type: text/turtle; charset=utf-8\r\nConnection: close\r\n\r\n\
         <#a> <http://e/p> 1, [] .",
    );
    let page = serve("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>");
    let nothing = serve("HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n");
    let database = writable("");
    let options = UpdateOptions {
        load: Some(Arc::new(Loader::new().with_http())),
        ..UpdateOptions::default()
    };
    let load =
        |iri: &str| update_with(&database, &format!("LOAD <{iri}> INTO GRAPH <g>"), &options);
    assert_eq!(load(&format!("{turtle}x")).unwrap().added, 2);
    let ask = format!("ASK {{ GRAPH ?g {{ <{turtle}x#a> ?p 1 }} }}");
    assert_eq!(ours(&database, &ask).unwrap().lines, ["true"]);
    for (iri, part) in [(page, "text/html"), (nothing, "404")] {
        let error = load(&iri).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = load("file:///etc/hostname").unwrap_err();
    assert!(error.to_string().contains("--load-folder"), "{error}");
}

#[test]
fn a_broken_file_says_where_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let good = "<http://e/a> <http://e/p> <http://e/b> .\n".repeat(3);
    fs::write(
        folder.path().join("x.nt"),
        format!("{good}<http://e/a> <p> \"open .\n"),
    )
    .unwrap();
    fs::write(folder.path().join("x.unknown"), &good).unwrap();
    let (database, options) = (writable(""), allowing(folder.path()));
    let text = format!(
        "INSERT DATA {{ <a> <b> <c> }} ; {}",
        load(folder.path(), "x.nt", "", "")
    );
    let error = update_with(&database, &text, &options).unwrap_err();
    assert!(matches!(error, QueryError::Load { .. }), "{error}");
    assert!(error.to_string().contains("x.nt:4"), "{error}");
    assert_eq!(contents(&database).len(), 0);
    let unknown = load(folder.path(), "x.unknown", "", "");
    let error = update_with(&database, &unknown, &options).unwrap_err();
    assert!(
        error.to_string().contains("does not tell the format"),
        "{error}"
    );
    // SILENT: the rest of the update is done.
    let text = format!(
        "{} ; INSERT DATA {{ <a> <b> <c> }}",
        load(folder.path(), "x.nt", "SILENT", "")
    );
    assert_eq!(update_with(&database, &text, &options).unwrap().added, 1);
}

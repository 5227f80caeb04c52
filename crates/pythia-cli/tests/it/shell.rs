//! `pythia shell` with statements from a pipe.

use std::fs;
use std::path::Path;

use crate::support::{Outcome, run_with, succeeds};

fn store(folder: &Path) {
    let text = "<http://ex/a> <http://xmlns.com/foaf/0.1/name> \"A\" .\n";
    fs::write(folder.join("a.nt"), text).expect("written");
    succeeds(folder, &["load", "-l", "store", "a.nt"]);
}

fn shell(folder: &Path, options: &[&str], typed: &str) -> Outcome {
    let arguments = [&["shell", "-l", "store"], options].concat();
    run_with(folder, &arguments, typed.as_bytes())
}

#[test]
fn statements_of_several_lines_are_run_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    let typed = "PREFIX ex: <http://ex/>\n\
                 SELECT ?name {\n  ex:a foaf:name ?name\n}\n\
                 ASK { ex:b ?p ?o }\n\
                 .format csv\n\
                 SELECT * { ?s ?p ?o }\n";
    let outcome = shell(folder, &[], typed);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let out = outcome.out;
    assert!(out.starts_with("?name\n─────\nA\n\n1 row in "), "{out}");
    assert!(out.contains("\nfalse\n"), "{out}");
    assert!(
        out.contains("http://ex/a,http://xmlns.com/foaf/0.1/name,A"),
        "{out}"
    );
}

#[test]
fn a_script_stops_at_its_first_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    for (typed, code, said) in [
        ("ASK {} ASK\nASK {}\n", 2, "1 | ASK {} ASK"),
        ("ASK { foaf:name ?p \n oops }\n", 2, "2 |  oops }"),
        (
            ".nothing\nASK {}\n",
            2,
            ".nothing is no command of the shell",
        ),
        (
            ".format xyz\nASK {}\n",
            2,
            ".format takes one of table, json",
        ),
        (
            "INSERT DATA { foaf:a foaf:b 1 }\nASK {}\n",
            2,
            "start the shell with --write",
        ),
        (".read missing.rq\n", 1, "read missing.rq: No such file"),
    ] {
        let outcome = shell(folder, &[], typed);
        assert_eq!(
            (outcome.code, &*outcome.out),
            (Some(code), ""),
            "{typed}: {outcome:?}"
        );
        assert!(outcome.err.contains(said), "{typed}: {outcome:?}");
    }
}

#[test]
fn updates_plans_and_files_can_be_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    fs::write(folder.join("q.rq"), "ASK {}\n;;\nASK { FILTER(false) }\n").expect("written");
    let typed = "INSERT DATA {\n foaf:a foaf:b 1 }\n\
                 .explain text\nSELECT * { ?s foaf:b ?o }\n.explain off\n\
                 .read q.rq\n.stats\n.quit\nASK { never run }\n";
    let outcome = shell(folder, &["--write"], typed);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let out = outcome.out;
    assert!(
        out.contains("1 quad added, 0 removed by 1 operation"),
        "{out}"
    );
    assert!(out.contains("Pattern"), "{out}");
    assert!(
        out.contains("true\nfalse\n2 quads with 2 predicates\n"),
        "{out}"
    );
}

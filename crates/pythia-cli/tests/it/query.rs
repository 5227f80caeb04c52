//! What `pythia query` takes and prints.

use std::fs;
use std::path::Path;

use crate::support::{fails, succeeds};

const TRIPLE: &str = "<http://a> <http://b> \"c\" .\n";

fn store(folder: &Path) {
    fs::write(folder.join("a.nt"), TRIPLE).expect("written");
    succeeds(folder, &["load", "-l", "store", "a.nt"]);
}

#[test]
fn ask_prints_a_word_and_a_newline() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    let ask = |text| succeeds(folder, &["query", "-l", "store", "-q", text]);
    assert_eq!(ask("ASK { ?s ?p 'c' }"), "true\n");
    assert_eq!(ask("ASK { ?s ?p 'd' }"), "false\n");
}

#[test]
fn tables_have_prefixed_names_and_end_with_their_rows_and_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    let text = "PREFIX h: <http://> SELECT * { ?s ?p ?o }";
    let table = succeeds(
        folder,
        &["query", "-l", "store", "-q", text, "--format", "table"],
    );
    let lines: Vec<&str> = table.lines().collect();
    let [header, _, row, "", last] = lines[..] else {
        panic!("{table}");
    };
    assert!(
        header.starts_with("?s   ?p   ?o") && row.starts_with("h:a  h:b  c"),
        "{table}"
    );
    assert!(
        last.starts_with("1 row in ") && last.ends_with(" ms"),
        "{table}"
    );
}

#[test]
fn explain_takes_a_form_with_or_without_an_equals_sign() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    fs::write(folder.join("q.rq"), "SELECT * { ?s ?p ?o }").expect("written");
    let explain =
        |options: &[&str]| succeeds(folder, &[&["query", "-l", "store"], options].concat());
    let plan = explain(&["--explain", "q.rq"]);
    assert_eq!(explain(&["q.rq", "--explain"]), plan);
    assert_eq!(explain(&["--explain", "text", "q.rq"]), plan);
    assert!(!plan.contains("rows 1"), "{plan}");
    for options in [
        &["--explain", "analyze", "q.rq"],
        &["q.rq", "--explain", "analyze"],
    ] {
        let ran = explain(options);
        assert!(ran != plan && ran.contains("ms"), "{ran}");
    }
    assert!(explain(&["--explain=json", "q.rq"]).starts_with('{'));
    assert!(explain(&["--explain", "json", "q.rq"]).starts_with('{'));
}

#[test]
fn times_take_units() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    store(folder);
    for time in ["1", "1s", "500ms", "1.5m"] {
        let arguments = ["query", "-l", "store", "-q", "ASK {}", "--timeout", time];
        assert_eq!(succeeds(folder, &arguments), "true\n");
    }
    let arguments = ["bench", "hops", "-l", "store", "--seconds", "1x"];
    let (code, error) = fails(folder, &arguments);
    assert!(
        code == 2 && error.contains("write a time as a number with ms, s, m, h or d"),
        "{error}"
    );
}

#[test]
fn errors_say_a_cause_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for arguments in [
        &["query", "-l", "missing", "-q", "ASK {}"] as &[&str],
        &["query", "-l", "missing", "missing.rq"],
        &["stats", "-l", "missing"],
        &["dump", "-l", "missing"],
    ] {
        let (_, error) = fails(folder, arguments);
        let causes = error.matches("No such file").count() + error.matches("no store").count();
        assert!(causes <= 1, "{error}");
    }
}

//! Real data, known answers, and agreement with Oxigraph on the published query sets.

use std::path::Path;

use pythia::{Database, QueryError};

use crate::support::{Answer, Peer, database, ours, read_zst, shared_data};

const YAGO: &str = "http://yago-knowledge.org/resource/";

fn count(database: &Database, pattern: &str) -> String {
    let query = format!("PREFIX y: <{YAGO}> SELECT (COUNT(*) AS ?n) {{ {pattern} }}");
    let answer = ours(database, &query).unwrap();
    let digits: Vec<&str> = answer.lines[0].split('"').collect();
    digits[1].to_owned()
}

/// Runs a file of queries through both engines.
fn compare(file: &Path, database: &Database, reference: &Peer) {
    let text = std::fs::read_to_string(file).unwrap();
    let (mut same, mut unsupported) = (0, Vec::new());
    for line in text.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let (id, query) = (
            entry["id"].as_str().unwrap(),
            entry["query"].as_str().unwrap(),
        );
        let answer = match ours(database, query) {
            Ok(answer) => answer,
            Err(QueryError::Unsupported { what, .. }) => {
                unsupported.push(format!("{id}: {what}"));
                continue;
            }
            Err(error) => panic!("{id}: {error}\n{query}"),
        };
        let expected = reference.answer(query).unwrap();
        assert_eq!(answer.variables, expected.variables, "{id}");
        if cut_by_limit(query) {
            // Which of equally ranked solutions a LIMIT keeps is open.
            assert_eq!(answer.lines.len(), expected.lines.len(), "{id}\n{query}");
        } else {
            assert_same(id, query, answer, expected);
        }
        same += 1;
    }
    assert!(same > 0, "{} answered nothing", file.display());
    assert!(unsupported.is_empty(), "not supported: {unsupported:#?}");
}

fn cut_by_limit(query: &str) -> bool {
    query.to_ascii_uppercase().contains("LIMIT")
}

fn assert_same(id: &str, query: &str, answer: Answer, expected: Answer) {
    let (answer, expected) = (answer.sorted(), expected.sorted());
    assert!(
        answer == expected,
        "{id}: {} rows, expected {}\n{query}\n{:#?}\n{:#?}",
        answer.lines.len(),
        expected.lines.len(),
        answer.lines.iter().take(5).collect::<Vec<_>>(),
        expected.lines.iter().take(5).collect::<Vec<_>>(),
    );
}

#[test]
fn yago_has_its_known_answers_and_agrees_with_oxigraph() {
    let Some(folder) = shared_data() else { return };
    let text = read_zst(&folder.join("yago.nt.zst"));
    let database = database(&text);
    let citizens = "?s y:isCitizenOf y:United_States . ?s y:hasGender";
    assert_eq!(count(&database, &format!("{citizens} y:male")), "224");
    assert_eq!(count(&database, &format!("{citizens} y:female")), "44");
    assert_eq!(
        count(&database, "?s y:isLocatedIn+ y:United_States"),
        "2986"
    );
    assert_eq!(count(&database, "?a y:hasChild+ ?b"), "1173");
    assert_eq!(count(&database, "?a y:isLocatedIn+ ?b"), "47988");
    assert_eq!(count(&database, "?a y:influences+ ?b"), "119759");
    let reference = Peer::new(&text);
    compare(
        &folder.join("queries/yago-paths.jsonl"),
        &database,
        &reference,
    );
}

#[test]
fn bsbm_explore_agrees_with_oxigraph() {
    let Some(folder) = shared_data() else { return };
    let text = read_zst(&folder.join("bsbm-1m.nt.zst"));
    let database = database(&text);
    let reference = Peer::new(&text);
    compare(
        &folder.join("queries/bsbm-1m-explore.jsonl"),
        &database,
        &reference,
    );
}

#[test]
fn a_slice_of_yago_is_bundled() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/yago/yago-slice.nt.zst");
    let database = database(&read_zst(&path));
    assert_eq!(
        count(
            &database,
            "?s y:hasGender y:male . ?s y:isCitizenOf y:Greece"
        ),
        "15"
    );
    assert_eq!(count(&database, "?a y:hasChild+ y:Nicolas_Sarkozy"), "32");
}

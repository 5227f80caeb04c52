//! Queries of `testdata/corpus`, each with an equivalent one that is written as a person would write it who knows the data:
//! both have the same answers, and the first does little more work.

use pythia::PlanNode;
use pythia_generate::{Part, shapes};
use serde_json::Value;

use crate::support::{Peer, analyze, database};

const WORKS: u64 = 600;
/// Work that is not counted: pages of directories and of the dictionary, a row for each step.
const PAGES_FREE: u64 = 24;
const ROWS_FREE: u64 = 64;
/// Rows of the first batches of each step, of which a LIMIT needs some.
const ROWS_FREE_WITH_LIMIT: u64 = 4096;
/// Queries that do more than 1.5 times the work of their counterparts. A query that no longer does must be removed.
const OVER: &[&str] = &["constant-12"];

struct Pair {
    id: String,
    query: String,
    by_hand: String,
}

fn pairs() -> Vec<Pair> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/corpus/shapes.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = (text.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pair = |lines: &[Value]| {
        let id = text(&lines[0]["id"]);
        assert_eq!(text(&lines[1]["id"]), format!("{id} by hand"));
        Pair {
            id,
            query: text(&lines[0]["query"]),
            by_hand: text(&lines[1]["query"]),
        }
    };
    lines.chunks(2).map(pair).collect()
}

/// Rows that all operators and steps gave together.
fn rows(plan: &PlanNode) -> u64 {
    let measured = plan.parts().into_iter().filter_map(|part| part.measured);
    measured.map(|m| m.rows).sum()
}

#[test]
fn queries_do_little_more_than_those_written_by_hand() {
    let mut data = Vec::new();
    let config = shapes::Config::new(WORKS).unwrap();
    shapes::write_ntriples(&config, Part::WHOLE, &mut data).unwrap();
    let data = String::from_utf8(data).unwrap();
    let (database, peer) = (database(&data), Peer::new(&data));
    let mut wrong = Vec::new();
    for pair in pairs() {
        let (lines, plan) = analyze(&database, &pair.query);
        let (expected, by_hand) = analyze(&database, &pair.by_hand);
        // Which solutions come first is free.
        if !pair.query.contains("LIMIT") {
            let theirs = peer.answer(&pair.query).unwrap().sorted().lines;
            assert_eq!(lines, theirs, "{}\n{plan}", pair.id);
            assert_eq!(lines, expected, "{}\n{by_hand}", pair.id);
        }
        let rows_free = match pair.query.contains("LIMIT") {
            true => ROWS_FREE_WITH_LIMIT,
            false => ROWS_FREE,
        };
        let is_over = plan.pages() > by_hand.pages() * 3 / 2 + PAGES_FREE
            || rows(&plan) > rows(&by_hand) * 3 / 2 + rows_free;
        if is_over != OVER.contains(&pair.id.as_str()) {
            wrong.push(format!(
                "{}: {is_over}: {} pages, {} rows\n{plan}\nby hand: {} pages, {} rows\n{by_hand}",
                pair.id,
                plan.pages(),
                rows(&plan),
                by_hand.pages(),
                rows(&by_hand),
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

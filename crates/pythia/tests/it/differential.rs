//! Random queries over random graphs, answered by us and by Oxigraph.

use crate::generator::Generator;
use crate::support::{database, ours, oxigraph, theirs};
use pythia::QueryError;

/// How many cases run in the tests; `PYTHIA_DIFFERENTIAL_CASES` runs more.
const CASES: u64 = 400;
/// Queries asked of each graph.
const QUERIES: u64 = 8;

/// The first seed; `PYTHIA_DIFFERENTIAL_SEED` starts elsewhere.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

#[test]
fn random_queries_agree_with_oxigraph() {
    let first = number("PYTHIA_DIFFERENTIAL_SEED", 0);
    let cases = number("PYTHIA_DIFFERENTIAL_CASES", CASES);
    let mut unsupported = 0;
    let mut failures = Vec::new();
    for seed in first..first + cases {
        unsupported += run(seed, &mut failures);
        if failures.len() >= 5 {
            break;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        unsupported * 10 < cases * QUERIES,
        "{unsupported} queries are not supported: the test tests little"
    );
}

/// Runs one seed; gives how many of its queries are not supported.
fn run(seed: u64, failures: &mut Vec<String>) -> u64 {
    let mut generator = Generator::new(seed);
    let data = generator.data();
    let (pythia, oxigraph) = (database(&data), oxigraph(&data));
    let mut unsupported = 0;
    for _ in 0..QUERIES {
        let query = generator.query();
        let expected = match theirs(&oxigraph, &query) {
            Ok(answer) => answer.sorted(),
            Err(_) => continue,
        };
        match ours(&pythia, &query) {
            Ok(answer) if answer_equal(&answer, &expected) => {}
            Ok(answer) => failures.push(format!(
                "seed {seed}\n{data}\n{query}\nOURS {:#?}\nOXIGRAPH {expected:#?}",
                answer.sorted()
            )),
            Err(QueryError::Unsupported { .. }) => unsupported += 1,
            Err(error) => failures.push(format!("seed {seed}\n{data}\n{query}\n{error}")),
        }
    }
    unsupported
}

fn answer_equal(ours: &crate::support::Answer, expected: &crate::support::Answer) -> bool {
    let mut lines = ours.lines.clone();
    lines.sort();
    // SELECT * lists variables in no particular order.
    if ours.variables == expected.variables {
        return lines == expected.lines;
    }
    let order: Option<Vec<usize>> = expected
        .variables
        .iter()
        .map(|v| ours.variables.iter().position(|o| o == v))
        .collect();
    let Some(order) = order else {
        return false;
    };
    let mut lines: Vec<String> = ours
        .lines
        .iter()
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            order
                .iter()
                .map(|&i| cells[i])
                .collect::<Vec<_>>()
                .join("\t")
        })
        .collect();
    lines.sort();
    ours.variables.len() == expected.variables.len() && lines == expected.lines
}

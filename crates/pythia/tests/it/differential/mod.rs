//! Random queries over random graphs, answered by us and by Oxigraph.
//!
//! Some run with the tests. A campaign is the same test with more of them:
//!
//! ```text
//! PYTHIA_DIFFERENTIAL_CASES=1000000 PYTHIA_DIFFERENTIAL_SEED=1 \
//!     cargo test --release --workspace --test it random_queries
//! ```
//!
//! A case on which the engines differ is cut down and written as a `.sparqltest` file, with
//! Oxigraph's answer for the expected one: look which of the two is right, and keep it in
//! `testdata/queries/` under the name of what it shows.

mod check;
mod expression;
pub(crate) mod generator;
mod shrink;
mod update;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::sparqltest;
use crate::support::{Peer, database};
use check::{Pair, Verdict, check};
use generator::Generator;

/// How many queries run in the tests.
const CASES: u64 = 8_000;
/// Queries asked of each graph.
const QUERIES: u64 = 40;
/// A run stops after this number of differences.
const FAILURES_MAX: usize = 5;

/// A graph and a query.
#[derive(Clone)]
pub(crate) struct Case {
    data: Vec<String>,
    query: Vec<String>,
}

impl Case {
    fn load(&self) -> Pair {
        load(&self.data)
    }
}

fn load(data: &[String]) -> Pair {
    let nquads = data.join("\n");
    Pair {
        pythia: database(&nquads),
        oxigraph: Peer::hasty(&nquads),
    }
}

/// What the engines differ in, if they do.
fn differ(pair: &Pair, query: &[String]) -> Option<String> {
    match check(pair, query) {
        Verdict::Differ(problem) => Some(problem),
        Verdict::Agree | Verdict::Unsupported | Verdict::Skipped => None,
    }
}

/// A number that an environment variable may give.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}

/// Tells the seed and the query if its check panics.
struct PanicNote<'q>(u64, &'q [String]);

impl Drop for PanicNote<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, {}", self.0, self.1.join("\n"));
        }
    }
}

#[derive(Default)]
struct Campaign {
    cases: AtomicU64,
    unsupported: AtomicU64,
    skipped: AtomicU64,
    failures: Mutex<Vec<String>>,
}

#[test]
fn random_queries_agree_with_oxigraph() {
    let first = number("PYTHIA_DIFFERENTIAL_SEED").unwrap_or(0);
    let wanted = number("PYTHIA_DIFFERENTIAL_CASES");
    let cases = wanted.unwrap_or(CASES);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let threads = number("PYTHIA_DIFFERENTIAL_THREADS").unwrap_or(threads);
    let campaign = Campaign::default();
    let seeds = AtomicU64::new(first);
    let end = first + cases.div_ceil(QUERIES);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    let failed = campaign.failures.lock().expect("no panic").len();
                    if seed >= end || failed >= FAILURES_MAX {
                        return;
                    }
                    campaign.run(seed);
                    if wanted.is_some() && (seed - first) % 100 == 99 {
                        campaign.report(start);
                    }
                }
            });
        }
    });
    let failures = campaign.failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    for left in [campaign.unsupported, campaign.skipped] {
        let left = left.into_inner();
        assert!(
            left * 20 < cases,
            "{left} of {cases} queries are not compared"
        );
    }
}

impl Campaign {
    /// Runs the queries of one seed.
    fn run(&self, seed: u64) {
        let mut generator = Generator::new(seed);
        let data = generator.data();
        let pair = load(&data);
        for _ in 0..QUERIES {
            let query = generator.query();
            self.cases.fetch_add(1, Ordering::Relaxed);
            let panics = PanicNote(seed, &query);
            let verdict = check(&pair, &query);
            drop(panics);
            match verdict {
                Verdict::Agree => {}
                Verdict::Unsupported => {
                    self.unsupported.fetch_add(1, Ordering::Relaxed);
                }
                Verdict::Skipped => {
                    self.skipped.fetch_add(1, Ordering::Relaxed);
                }
                Verdict::Differ(_) => {
                    let case = shrink::shrink(Case { data, query });
                    let failure = written(seed, &case);
                    self.failures.lock().expect("no panic").push(failure);
                    return;
                }
            }
        }
    }

    /// Tells how far a campaign is, past the capture of the tests' output.
    fn report(&self, start: Instant) {
        let cases = self.cases.load(Ordering::Relaxed);
        let line = format!(
            "{cases} cases, {} unsupported, {} not compared, {:.0} a second\n",
            self.unsupported.load(Ordering::Relaxed),
            self.skipped.load(Ordering::Relaxed),
            cases as f64 / start.elapsed().as_secs_f64()
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Writes a failing case to a file of its own; gives what to tell about it.
fn written(seed: u64, case: &Case) -> String {
    let pair = case.load();
    let problem = differ(&pair, &case.query).unwrap_or_default();
    let query = case.query.join("\n");
    let description = format!("Differs from Oxigraph, whose answer this is (seed {seed}).");
    let text = sparqltest::write(&description, &case.data, &query, &pair.oxigraph);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("differential_{seed}.sparqltest"));
    std::fs::write(&path, &text).expect("a writable folder");
    format!("seed {seed}, {}\n{text}\n{problem}", path.display())
}

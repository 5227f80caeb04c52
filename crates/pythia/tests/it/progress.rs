//! What is seen of a query while it runs: its plan with what its parts have taken so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pythia::{Database, Measured, PlanNode, PreparedQuery, QueryError, QueryOptions, Results};

use crate::support::database;

/// How long a test waits for a query to come somewhere.
const PATIENCE: Duration = Duration::from_secs(60);

fn chain(nodes: usize) -> String {
    let edge = |n: usize| format!("<http://e/{n}> <http://e/next> <http://e/{}> .\n", n + 1);
    (0..nodes).map(edge).collect()
}

fn prepare(database: &Database, query: &str, cancel: &Arc<AtomicBool>) -> PreparedQuery {
    let options = QueryOptions {
        profile: true,
        cancel: Some(Arc::clone(cancel)),
        ..QueryOptions::default()
    };
    database.prepare(query, &options).expect("a query")
}

fn run(query: &PreparedQuery) -> Result<usize, QueryError> {
    let Results::Solutions(mut solutions) = query.execute()? else {
        panic!("a SELECT")
    };
    let mut rows = 0;
    while let Some(batch) = solutions.next_batch()? {
        rows += batch.len();
    }
    Ok(rows)
}

fn measured(plan: &PlanNode) -> Vec<Measured> {
    let parts = plan.parts().into_iter();
    parts.map(|part| part.measured.expect("profiled")).collect()
}

/// Stops a query when it is dropped, also by a test that fails.
struct Stop<'c>(&'c AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Billions of rows, none of which leaves the query before all are counted.
const ENDLESS: &str = "SELECT (SUM(STRLEN(STR(?a)) + STRLEN(STR(?c))) AS ?sum) {
    ?a <http://e/next> ?b . ?c <http://e/next> ?d . ?e <http://e/next> ?f }";

#[test]
fn a_running_query_tells_what_its_parts_have_taken_so_far() {
    let database = database(&chain(2000));
    let cancel = Arc::new(AtomicBool::new(false));
    let query = prepare(&database, ENDLESS, &cancel);
    let rows = |plan: &PlanNode| measured(plan).iter().map(|m| m.rows).max();
    thread::scope(|scope| {
        let begun = Instant::now();
        let stop = Stop(&cancel);
        let running = scope.spawn(|| run(&query));
        let mut before = query.plan();
        let mut grown = 0;
        while grown < 5 && begun.elapsed() < PATIENCE {
            let now = query.plan();
            for (old, new) in measured(&before).iter().zip(measured(&now)) {
                assert!(old.rows <= new.rows && old.batches <= new.batches);
                assert!(old.time_us <= new.time_us + 1.0, "{before}\n{now}");
                assert!(old.pages_from_cache <= new.pages_from_cache);
            }
            // The time of all parts is that of the query, though none has ended.
            let sum: f64 = measured(&now).iter().map(|m| m.time_us).sum();
            assert!(sum <= begun.elapsed().as_secs_f64() * 1e6, "{now}");
            grown += usize::from(rows(&now) > rows(&before) && sum > 0.0);
            before = now;
            thread::sleep(Duration::from_millis(2));
        }
        drop(stop);
        let end = running.join().expect("no panic");
        assert!(matches!(end, Err(QueryError::Cancelled)), "{end:?}");
        assert_eq!(grown, 5, "{before}");
    });
    // What it had done stays to be seen.
    assert!(rows(&query.plan()) > Some(0));
}

#[test]
fn pages_are_those_of_the_query_alone() {
    let database = database(&chain(20_000));
    let text = "SELECT ?c { ?a <http://e/next> ?b . ?b <http://e/next> ?c FILTER(?a != ?c) }";
    let cancel = Arc::default();
    let query = prepare(&database, text, &cancel);
    let pages = || {
        assert_eq!(run(&query).expect("answered"), 19_999);
        query.plan().pages()
    };
    // The first run also reads directory pages, whose entries then stay in memory.
    pages();
    let alone = pages();
    assert!(alone > 0);
    let other = prepare(&database, ENDLESS, &cancel);
    thread::scope(|scope| {
        let stop = Stop(&cancel);
        let running = scope.spawn(|| run(&other));
        for _ in 0..5 {
            assert_eq!(pages(), alone);
        }
        drop(stop);
        assert!(running.join().expect("no panic").is_err());
    });
}

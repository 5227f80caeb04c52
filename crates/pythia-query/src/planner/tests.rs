//! Tests that count the steps of planning.

use std::io::Cursor;
use std::sync::Arc;

use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{Compression, RdfFormat, Source};
use pythia_sparql::Query;
use pythia_sparql::pattern_of;
use pythia_sparql::scope::in_scope;
use pythia_store::load::{LoadOptions, load};
use pythia_store::{OpenOptions, Snapshot, Store};

use super::Planner;
use pythia_exec::error::QueryError;
use pythia_exec::expression::EvaluationContext;
use pythia_exec::limits::governor::Governor;
use pythia_exec::plan::dataset::Dataset;

/// Returns a snapshot of a few quads with three predicates.
fn snapshot() -> Snapshot {
    let mut nquads = String::new();
    for n in 0..200 {
        let (next, value) = ((n + 1) % 200, n % 7);
        nquads.push_str(&format!(
            "<http://e/n{n}> <http://e/next> <http://e/n{next}> .\n\
             <http://e/n{n}> <http://e/value> \"{value}\" .\n\
             <http://e/n{n}> <http://e/name> \"name {n}\" .\n"
        ));
    }
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let reader = Cursor::new(nquads.into_bytes());
    let (format, compression) = (RdfFormat::NQuads, Compression::None);
    let source = Source::from_reader("test".to_owned(), reader, format, compression).unwrap();
    let options = LoadOptions {
        memory_bytes: 64 << 20,
        ..LoadOptions::default()
    };
    load(
        Arc::clone(&storage),
        vec![source],
        &options,
        &Arc::default(),
    )
    .unwrap();
    let open = OpenOptions {
        cache_bytes: 16 << 20,
    };
    Store::open_storage(storage, open).unwrap().snapshot()
}

/// Plans a query. Returns the number of deadline checks, or the error after `checks_max` checks.
fn checks(snapshot: &Snapshot, text: &str, checks_max: u64) -> Result<u64, QueryError> {
    let mut query = Query::parse(text, None).unwrap().algebra().clone();
    let pattern = pattern_of(&mut query);
    let governor = Arc::new(Governor::unlimited().with_checks_max(checks_max));
    let resolver = Arc::new(snapshot.clone());
    let evaluation = EvaluationContext::new(resolver).with_governor(Arc::clone(&governor));
    let dataset = Dataset::of_query(None, &evaluation, None)?;
    let planner = Planner::new(snapshot, &evaluation, &dataset);
    planner.plan(pattern, &dataset.default, Some(&in_scope(pattern)))?;
    Ok(governor.checks())
}

fn chain(length: usize) -> String {
    let patterns = (0..length).map(|n| format!("?n{n} <http://e/next> ?n{} . ", n + 1));
    format!("SELECT * {{ {} }}", patterns.collect::<String>())
}

fn star(arms: usize) -> String {
    let predicate = |n: usize| ["next", "value", "name"][n % 3];
    let patterns = (0..arms).map(|n| format!("?s <http://e/{}> ?o{n} . ", predicate(n)));
    format!("SELECT * {{ {} }}", patterns.collect::<String>())
}

#[test]
fn planning_stops_when_the_query_is_cancelled_in_the_middle() {
    let snapshot = snapshot();
    let filters = (0..300).map(|n| format!("FILTER(?n{n} = ?n{}) ", n + 7));
    let filtered = chain(400).replace(" }", &format!(" {} }}", filters.collect::<String>()));
    let merged = chain(200).replace("{", "FROM <http://e/a> FROM <http://e/b> {");
    let texts = [
        chain(12),
        chain(60),
        chain(300),
        star(60),
        star(300),
        filtered,
        merged,
    ];
    for text in &texts {
        let all = checks(&snapshot, text, u64::MAX).unwrap();
        assert!(all > 10, "{all} checks for {text}");
        for part in 1..=10 {
            let cancelled = checks(&snapshot, text, all * part / 11);
            assert!(matches!(cancelled, Err(QueryError::Cancelled)), "{text}");
        }
    }
}

#[test]
fn planning_takes_steps_in_proportion_to_the_patterns() {
    let snapshot = snapshot();
    for of_length in [chain, star] {
        let [short, long] = [500, 4000].map(|n| checks(&snapshot, &of_length(n), u64::MAX));
        let (short, long) = (short.unwrap(), long.unwrap());
        assert!(
            long <= short * 10,
            "{short} checks for 500 patterns, {long} for 4,000"
        );
    }
}

//! A small run of the whole experiment, and the parameters of its queries.

use std::collections::HashSet;
use std::path::Path;

use pythia::{Compression, LoadOptions, RdfFormat, Source};

use super::*;

const TRIPLES: u64 = 60_000;
/// Few, so that many people like a cheese.
const PROPERTIES: u64 = 200;

fn people_store(folder: &Path) -> (Database, Load) {
    let config = people::Config::new(TRIPLES).and_then(|c| c.with_properties(PROPERTIES));
    let config = config.expect("enough triples");
    let load = load(folder, &config, &LoadOptions::default()).expect("the triples load");
    (Database::open(folder).expect("the store opens"), load)
}

#[test]
fn the_experiment_runs_in_small() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, load) = people_store(folder.path());
    assert_eq!(load.triples, TRIPLES);
    assert!(load.triples_per_second > 0.0);
    let options = Options {
        users: vec![1, 2, 5],
        queries: 3,
        seed: 7,
    };
    let mut heard = Vec::new();
    let progress = |part: &str| heard.push(part.to_owned());
    let report = run(&database, Some(load), &options, progress).expect("it runs");
    assert!(
        heard.contains(&"5 users, without terms".to_owned()),
        "{heard:?}"
    );
    assert_eq!(
        (report.store.triples, report.store.properties),
        (TRIPLES, PROPERTIES)
    );
    for test in &report.tests {
        assert_eq!(test.measurements.len(), 6);
        let has_parameters = test.query.contains('%');
        for measured in &test.measurements {
            let runs = 3 * measured.users as u64;
            assert_eq!(measured.latency.count, runs, "{:?}", test.test);
            let different = if has_parameters { runs } else { 1 };
            assert_eq!(measured.different_queries, different, "{:?}", test.test);
            assert_eq!(measured.found_nothing, 0, "{:?}", test.test);
            assert!(measured.results_mean >= 1.0, "{:?}", test.test);
        }
        // The same queries have the same results, whether their terms are looked up or not.
        let (without, with) = test.measurements.split_at(3);
        for (without, with) in without.iter().zip(with) {
            assert_eq!((without.with_terms, with.with_terms), (false, true));
            assert_eq!(without.results_mean, with.results_mean, "{:?}", test.test);
        }
    }
}

#[test]
fn joins_have_the_scaled_numbers_of_results() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, _) = people_store(folder.path());
    let options = Options {
        users: vec![1],
        queries: 20,
        seed: 1,
    };
    let report = run(&database, None, &options, |_| {}).expect("it runs");
    let scale = TRIPLES as f64 / 2e6;
    for (test, least, most) in [
        (Test::Join1, 1.0, 10.0),
        (Test::Join2, 60_000.0 * scale, 80_000.0 * scale),
        (Test::Join3, 85_000.0 * scale, 95_000.0 * scale),
        (Test::Join4, 5.0, 30.0),
        (Test::Join5, 15_000.0 * scale, 40_000.0 * scale),
    ] {
        let results = report.tests[test as usize].measurements[0].results_mean;
        assert!((least..=most).contains(&results), "{test:?}: {results}");
    }
}

#[test]
fn parameters_follow_from_store_and_seed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, _) = people_store(folder.path());
    let first = draw::draw(&database, 10, 3).expect("drawn");
    assert_eq!(first, draw::draw(&database, 10, 3).expect("drawn"));
    let other = draw::draw(&database, 10, 4).expect("drawn");
    for (test, (queries, others)) in Test::ALL.into_iter().zip(first.iter().zip(&other)) {
        let distinct: HashSet<&String> = queries.iter().collect();
        assert_eq!(distinct.len(), queries.len(), "{test:?}");
        assert!(
            queries.iter().all(|query| !query.contains('%')),
            "{queries:?}"
        );
        if test.parameters().is_empty() {
            assert_eq!(queries.len(), 1);
        } else {
            assert_eq!(queries.len(), 10, "{test:?}");
            assert_ne!(queries, others, "{test:?}");
        }
    }
}

#[test]
fn a_report_has_the_tables_of_the_paper() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, load) = people_store(folder.path());
    let options = Options {
        users: vec![1, 5],
        queries: 2,
        seed: 1,
    };
    let report = run(&database, Some(load), &options, |_| {}).expect("it runs");
    let (text, html) = (report.text(), report.html());
    for number in 1..=10 {
        assert!(
            text.contains(&format!("Table {number}. ")),
            "{number}: {text}"
        );
        assert!(html.contains(&format!("<h2>Table {number}. ")), "{number}");
    }
    for figure in ["6,946", "4,276", "229,453", "133,023", "813,783"] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
    assert!(text.contains("does not say how many queries"), "{text}");
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["tests"][3]["test"], "join1");
    assert_eq!(json["tests"][7]["measurements"][1]["users"], 5);
    assert!(json["load"]["triples_per_second"].as_f64() > Some(0.0));
}

#[test]
fn other_numbers_of_users_have_rows_without_figures_of_the_paper() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (database, _) = people_store(folder.path());
    let options = Options {
        users: vec![2],
        queries: 2,
        seed: 1,
    };
    let report = run(&database, None, &options, |_| {}).expect("it runs");
    let text = report.text();
    assert!(
        text.contains("\nSingle triple patterns, 2 users, with terms"),
        "{text}"
    );
    assert!(text.contains("no load was measured"), "{text}");
    assert!(text.contains("Table 10. "), "{text}");
}

#[test]
fn data_without_people_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let source = Source::from_reader(
        "other.nt".to_owned(),
        "<http://a> <http://b> <http://c> .\n".as_bytes(),
        RdfFormat::NTriples,
        Compression::None,
    )
    .expect("N-Triples from memory");
    let options = LoadOptions::default();
    pythia::load(path, vec![source], &options, &Default::default()).expect("loads");
    let database = Database::open(path).expect("the store opens");
    let error = run(&database, None, &Options::default(), |_| {}).expect_err("no people");
    let message = error.to_string();
    assert!(message.contains("pythia generate people"), "{message}");
    assert!(message.contains("join 1"), "{message}");
    let none = Options {
        users: vec![0],
        ..Options::default()
    };
    assert!(run(&database, None, &none, |_| {}).is_err());
}

//! The W3C's SPARQL suites: syntax, evaluation, results, federation and updates, 1.0, 1.1 and 1.2.
//!
//! `skipped.txt` lists the tests that may fail, each with the reason; a test listed there that
//! passes fails the run, so that the list says what is.

mod endpoint;
pub(crate) mod manifest;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use oxigraph::sparql::SparqlEvaluator;
use oxrdf::{GraphName, NamedNode, NamedOrBlankNode, Quad};
use oxrdfio::{RdfFormat, RdfParser};
use pythia::{
    Database, HttpService, Loader, Query, QueryOptions, ResultFormat, Results, Update,
    UpdateOptions,
};

use crate::outcome::{Outcome, Rows, format_for};
use crate::support::{contents, database, dataset, reread, shared_data, writable};
use endpoint::Endpoints;
use manifest::{Files, Kind, Test, iri_of, path_of};

const SKIPPED: &str = include_str!("skipped.txt");

/// The tests that may fail, and why. A name that ends in `/` is a folder that is not run.
fn skipped() -> BTreeMap<&'static str, &'static str> {
    let lines = SKIPPED.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line.split_once(' ').expect("a name and a reason");
            (name, reason.trim())
        })
        .collect()
}

/// Runs all tests of a suite.
fn suite(name: &str, count_min: usize) {
    let Some(data) = shared_data() else {
        return;
    };
    let suites = data
        .join("rdf-tests/sparql")
        .canonicalize()
        .expect("the suites");
    let skipped = skipped();
    let is_run = |folder: &PathBuf| {
        let within = folder.strip_prefix(&suites).expect("within").display();
        !skipped.contains_key(format!("{within}/").as_str())
    };
    let mut folders = manifest::folders(&suites.join(name));
    folders.retain(is_run);
    let outcomes = run_folders(&folders, &suites);
    let mut wrong = Vec::new();
    for (test, outcome) in &outcomes {
        match (outcome, skipped.contains_key(test.as_str())) {
            (Err(problem), false) => wrong.push(format!("{test}: {problem}")),
            (Ok(()), true) => wrong.push(format!("{test} passes: take it off the list")),
            _ => {}
        }
    }
    for test in skipped.keys().filter(|test| test.starts_with(name)) {
        if !test.ends_with('/') && !outcomes.contains_key(*test) {
            wrong.push(format!("{test} is on the list but not in the suite"));
        }
    }
    let count = outcomes.len();
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count >= count_min, "only {count} tests found");
    println!("{name}: {count} tests");
}

/// The outcome of each test of the folders, which threads share among themselves.
fn run_folders(folders: &[PathBuf], suites: &Path) -> BTreeMap<String, Result<(), String>> {
    let open = Mutex::new(folders.iter());
    let outcomes = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = open.lock().expect("no panic").next();
                    let Some(folder) = next else {
                        return;
                    };
                    let mut stores = Stores::default();
                    for test in manifest::tests(folder, suites) {
                        let outcome = catch_unwind(AssertUnwindSafe(|| run(&test, &mut stores)));
                        let outcome = outcome.unwrap_or_else(|_| Err("panicked".to_owned()));
                        outcomes
                            .lock()
                            .expect("no panic")
                            .insert(test.name, outcome);
                    }
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic")
}

/// The databases of a folder's tests, by their files.
type Stores = BTreeMap<(Vec<PathBuf>, Vec<PathBuf>), Database>;

/// What is wrong with the outcome of a test.
fn run(test: &Test, stores: &mut Stores) -> Result<(), String> {
    let text = std::fs::read_to_string(&test.query).map_err(|error| error.to_string())?;
    if test.name.contains("/service#") {
        return run_federated(test, &text);
    }
    if let Some((before, after)) = &test.update {
        return run_update(test, &text, before, after);
    }
    if let Kind::PositiveUpdate | Kind::NegativeUpdate = test.kind {
        let parsed = Update::parse(&text, Some(&iri_of(&test.query)));
        return match test.kind {
            Kind::NegativeUpdate if parsed.is_ok() => Err("accepted".to_owned()),
            Kind::NegativeUpdate => Ok(()),
            _ => parsed.map(drop).map_err(|error| error.to_string()),
        };
    }
    let parsed = Query::parse(&text, Some(&iri_of(&test.query)));
    match test.kind {
        Kind::Positive => return parsed.map(|_| ()).map_err(|error| error.to_string()),
        Kind::Negative if parsed.is_ok() => return Err("accepted".to_owned()),
        Kind::Negative => return Ok(()),
        _ => {}
    }
    let query = parsed.map_err(|error| error.to_string())?;
    let mut graphs = test.graphs.clone();
    graphs.extend(files_of_dataset(&text, &iri_of(&test.query)));
    let database = stores
        .entry((test.data.clone(), graphs))
        .or_insert_with_key(|(data, graphs)| database(&nquads(data, graphs)));
    let path = test.result.as_ref().ok_or("no result")?;
    let expected = Outcome::read(path)?;
    let (ours, format) = answer(database, &query, path)?;
    compare(test, &text, &Outcome::parse(&ours, format)?, &expected)
}

/// Runs a test of an update.
fn run_update(test: &Test, text: &str, before: &Files, after: &Files) -> Result<(), String> {
    let update = Update::parse(text, Some(&iri_of(&test.query))).map_err(|e| e.to_string())?;
    let database = writable(&nquads_of(before));
    // What is to be loaded SILENTly is not there.
    let options = UpdateOptions {
        load: Some(Arc::new(Loader::new())),
        ..UpdateOptions::default()
    };
    database
        .update_parsed(&update, &options, None)
        .map_err(|error| error.to_string())?;
    let (ours, expected) = (contents(&database), dataset(&nquads_of(after)));
    if ours == expected {
        return Ok(());
    }
    Err(format!("{text}\ngot\n{ours}\nnot\n{expected}"))
}

/// The dataset as N-Quads.
fn nquads_of(files: &Files) -> String {
    let mut text = nquads(&files.default, &[]);
    for (name, path) in &files.named {
        write_quads(path, &NamedNode::new_unchecked(name).into(), &mut text);
    }
    text
}

/// Runs a test of SERVICE with its endpoints served here.
fn run_federated(test: &Test, text: &str) -> Result<(), String> {
    let endpoints = Endpoints::serve(&test.services);
    let database = database(&endpoints.to_local(&nquads(&test.data, &test.graphs)));
    let query = Query::parse(&endpoints.to_local(text), Some(&iri_of(&test.query)))
        .map_err(|error| error.to_string())?;
    let path = test.result.as_ref().ok_or("no result")?;
    let (bytes, format) = answer(&database, &query, path)?;
    let bytes = endpoints.original(&String::from_utf8_lossy(&bytes));
    let ours = Outcome::parse(bytes.as_bytes(), format)?;
    compare(test, text, &ours, &Outcome::read(path)?)
}

fn compare(test: &Test, text: &str, ours: &Outcome, expected: &Outcome) -> Result<(), String> {
    let is_ordered = text.to_uppercase().contains("ORDER BY");
    let count = match (test.lax, is_ordered) {
        (true, _) => Rows::Lax,
        (false, true) => Rows::InOrder,
        (false, false) => Rows::Counted,
    };
    if ours.is(expected, count) {
        Ok(())
    } else {
        Err(format!("{text}\ngot {ours}not {expected}"))
    }
}

/// Our answer, written in the format to compare with this file.
fn answer(
    database: &Database,
    query: &Query,
    expected: &Path,
) -> Result<(Vec<u8>, ResultFormat), String> {
    let options = QueryOptions {
        service: Some(Arc::new(HttpService::default())),
        ..QueryOptions::default()
    };
    let prepared = database
        .prepare_parsed(query, &options)
        .map_err(|error| error.to_string())?;
    let prepared = reread(database, &prepared, &options);
    let results = prepared.execute().map_err(|error| error.to_string())?;
    let format = format_for(expected, matches!(results, Results::Graph(_)));
    let mut bytes = Vec::new();
    pythia::write_results(results, format, &mut bytes).map_err(|error| error.to_string())?;
    Ok((bytes, format))
}

/// The files that the query's own FROM and FROM NAMED clauses name.
fn files_of_dataset(text: &str, base: &str) -> Vec<PathBuf> {
    let parser = SparqlEvaluator::new().with_base_iri(base).expect("an IRI");
    let Ok(query) = parser.parse_query(text) else {
        return Vec::new();
    };
    let mut files = BTreeSet::new();
    for graph in query.dataset().default_graph_graphs().into_iter().flatten() {
        if let GraphName::NamedNode(graph) = graph {
            files.insert(path_of(graph.as_str()));
        }
    }
    for graph in query
        .dataset()
        .available_named_graphs()
        .into_iter()
        .flatten()
    {
        if let NamedOrBlankNode::NamedNode(graph) = graph {
            files.insert(path_of(graph.as_str()));
        }
    }
    files.into_iter().filter(|file| file.exists()).collect()
}

/// The data as N-Quads.
fn nquads(data: &[PathBuf], graphs: &[PathBuf]) -> String {
    let mut text = String::new();
    for path in data {
        write_quads(path, &GraphName::DefaultGraph, &mut text);
    }
    for path in graphs {
        write_quads(
            path,
            &NamedNode::new_unchecked(iri_of(path)).into(),
            &mut text,
        );
    }
    text
}

fn write_quads(path: &Path, graph: &GraphName, text: &mut String) {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let format = RdfFormat::from_extension(extension.expect("an extension")).expect("a format");
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parser = RdfParser::from_format(format)
        .with_base_iri(iri_of(path))
        .expect("a path")
        .rename_blank_nodes();
    for quad in parser.for_reader(Cursor::new(bytes)) {
        let quad = quad.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let graph_name = match quad.graph_name {
            GraphName::DefaultGraph => graph.clone(),
            named => named,
        };
        let quad = Quad { graph_name, ..quad };
        text.push_str(&format!("{quad} .\n"));
    }
}

#[test]
fn sparql_10() {
    suite("sparql10", 400);
}

#[test]
fn sparql_11() {
    suite("sparql11", 450);
}

#[test]
fn sparql_12() {
    suite("sparql12", 200);
}

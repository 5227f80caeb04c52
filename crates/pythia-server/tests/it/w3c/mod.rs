//! The W3C's suites for what goes over HTTP: SPARQL Protocol, Graph Store Protocol (of 2012 and its
//! successor), service description. Every test of every manifest runs, under all addresses that a
//! dataset has.

mod description;
mod manifest;
mod prose;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Once;

use oxrdf::Graph;
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdfio::{RdfFormat, RdfParser};

use crate::support::Served;
use crate::wire::{Answer, Request};
use manifest::{Exchange, Expected, Manifest, local_name};

/// The server under test, and where what is asked for is found.
struct Target {
    address: SocketAddr,
    /// What `/sparql/` of the suites is.
    sparql: &'static str,
    /// What `/gsp` and `$GRAPHSTORE$` are.
    store: &'static str,
}

/// The addresses of the one dataset. At the last one, that of the dataset itself, asking for nothing
/// gives its quads and not its description.
const PLACES: [(&str, &str); 3] = [
    ("/sparql", "/store"),
    ("/ds/sparql", "/ds/store"),
    ("/ds", "/ds/store"),
];

#[test]
fn sparql_protocol() {
    run_suite("protocol", &PLACES, 34, |target, folder| {
        let manifest = Manifest::read(&folder.join("manifest.ttl"));
        let run = |entry| {
            let test = manifest.test(&entry);
            (test.name.clone(), run_test(target, &test))
        };
        manifest.entries().into_iter().map(run).collect()
    });
}

#[test]
fn graph_store_protocol() {
    run_suite("graph-store-protocol", &PLACES, 13, |target, folder| {
        let mut outcomes = Vec::new();
        for name in ["manifest-direct.ttl", "manifest-indirect.ttl"] {
            let manifest = Manifest::read(&folder.join(name));
            for entry in manifest.entries() {
                let test = manifest.test(&entry);
                outcomes.push((test.name.clone(), run_test(target, &test)));
            }
        }
        outcomes
    });
}

#[test]
fn graph_store_protocol_of_2012() {
    run_suite("http-rdf-update", &PLACES, 18, |target, folder| {
        let manifest = Manifest::read(&folder.join("manifest.ttl"));
        let mut known = variables(target);
        let mut run = |entry| {
            let exchanges = prose::exchanges(&manifest, &entry);
            let outcome = run_exchanges(target, &exchanges, &mut known);
            (local_name(&entry).to_owned(), outcome)
        };
        clear(target);
        manifest.entries().into_iter().map(&mut run).collect()
    });
}

#[test]
fn service_description() {
    run_suite("service-description", &PLACES[..2], 3, |target, folder| {
        let manifest = Manifest::read(&folder.join("manifest.ttl"));
        // GET of a dataset is its data, as in Fuseki; it describes itself one step below.
        let sparql = match target.sparql {
            "/ds" => "/ds/query",
            sparql => sparql,
        };
        let run = |entry| {
            let name = local_name(&entry).to_owned();
            let outcome = description::run(&name, target.address, sparql);
            (name, outcome)
        };
        manifest.entries().into_iter().map(run).collect()
    });
}

/// Names of the suites and what they stand for, in the order in which they are replaced.
type Variables = Vec<(String, String)>;

type Outcomes = Vec<(String, Result<(), String>)>;

/// Runs a suite's tests at all places of a new server.
fn run_suite(
    name: &str,
    places: &[(&'static str, &'static str)],
    count: usize,
    run: impl Fn(&Target, &Path) -> Outcomes,
) {
    let Some(suites) = suites() else {
        return;
    };
    let served = Served::with("");
    for &(sparql, store) in places {
        let target = Target {
            address: served.address,
            sparql,
            store,
        };
        let outcomes = run(&target, &suites.join(name));
        let failed: Vec<String> = outcomes
            .iter()
            .filter_map(|(test, outcome)| {
                let problem = outcome.as_ref().err()?;
                Some(format!("{test}: {problem}"))
            })
            .collect();
        assert!(
            failed.is_empty(),
            "{name} at {sparql}, {store}: {} of {} failed:\n{}",
            failed.len(),
            outcomes.len(),
            failed.join("\n")
        );
        assert_eq!(outcomes.len(), count, "tests of {name}");
        println!("{name} at {sparql}, {store}: {count} tests");
    }
}

/// The folder of the suites. Where it is not, the tests say so and end.
fn suites() -> Option<PathBuf> {
    static WARNING: Once = Once::new();
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("PYTHIA_SHARED_DATA").map_or(beside, PathBuf::from);
    match data.join("rdf-tests/sparql/sparql11").canonicalize() {
        Ok(folder) => Some(folder),
        Err(error) => {
            WARNING.call_once(|| {
                eprintln!(
                    "SKIPPED: the W3C's suites are not in {}: {error}",
                    data.display()
                );
            });
            None
        }
    }
}

fn run_test(target: &Target, test: &manifest::Test) -> Result<(), String> {
    clear(target);
    for (name, path) in &test.data {
        let put = Request::new("PUT", &format!("{}?graph={name}", target.store))
            .header("content-type", "application/n-triples")
            .body(std::fs::read(path).expect("the data"));
        let answer = put.send(target.address).expect("an answer");
        assert!(answer.status < 300, "{}: {}", answer.status, answer.text());
    }
    run_exchanges(target, &test.exchanges, &mut variables(target))
}

/// Removes all that the store holds.
fn clear(target: &Target) {
    let update = Request::new("POST", target.sparql)
        .header("content-type", "application/sparql-update")
        .body("DROP ALL");
    let answer = update.send(target.address).expect("an answer");
    assert!(answer.status < 300, "{}: {}", answer.status, answer.text());
}

/// What texts of the suites stand for.
fn variables(target: &Target) -> Variables {
    vec![
        ("$HOST$".to_owned(), target.address.to_string()),
        ("/$GRAPHSTORE$".to_owned(), target.store.to_owned()),
        ("$GRAPHSTORE$".to_owned(), target.store.to_owned()),
    ]
}

/// Runs exchanges in order; what they name is known to the later ones.
fn run_exchanges(
    target: &Target,
    exchanges: &[Exchange],
    known: &mut Variables,
) -> Result<(), String> {
    for (number, Exchange { request, expected }) in exchanges.iter().enumerate() {
        let request = placed(target, request, known);
        let problem = |problem: String| {
            format!(
                "request {}, {} {}: {problem}",
                number + 1,
                request.method,
                request.target
            )
        };
        let answer = request
            .send(target.address)
            .map_err(|error| problem(error.to_string()))?;
        check(&answer, expected, known).map_err(problem)?;
    }
    Ok(())
}

/// The request with paths of this server and what the variables stand for.
fn placed(target: &Target, request: &Request, known: &Variables) -> Request {
    let mut placed = request.clone();
    placed.target = replaced(&placed.target, known);
    let origin = format!("http://{}", target.address);
    if let Some(path) = placed.target.strip_prefix(&origin) {
        placed.target = path.to_owned();
    }
    for (prefix, place) in [("/sparql/", target.sparql), ("/gsp", target.store)] {
        if let Some(rest) = placed.target.strip_prefix(prefix) {
            placed.target = format!("{place}{rest}");
        }
    }
    // Other encodings than UTF-8 name nothing.
    if let Some(body) = &request.body
        && let Ok(body) = std::str::from_utf8(body)
    {
        placed.body = Some(replaced(body, known).into_bytes());
    }
    placed
}

fn replaced(text: &str, known: &Variables) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(name.as_str(), value)
    })
}

fn check(answer: &Answer, expected: &Expected, known: &mut Variables) -> Result<(), String> {
    let is_expected = |status: &manifest::Status| status.accepts(answer.status);
    if !expected.statuses.iter().any(is_expected) {
        let wanted = &expected.statuses;
        return Err(format!(
            "{} and not {wanted:?}: {}",
            answer.status,
            answer.text()
        ));
    }
    if let Some(format) = &expected.format {
        check_format(answer, format)?;
    }
    if let Some(boolean) = expected.boolean
        && !answer.text().contains(&boolean.to_string())
    {
        return Err(format!("not {boolean}: {}", answer.text()));
    }
    if let Some(content_type) = &expected.content_type {
        let wanted = content_type.split(';').next().unwrap_or_default();
        if answer.media_type() != wanted {
            return Err(format!("{} and not {wanted}", answer.media_type()));
        }
    }
    if let Some(body) = &expected.body {
        let expected = parse(replaced(body, known).as_bytes(), RdfFormat::Turtle)?;
        let graph = graph_of(answer)?;
        if graph != expected {
            return Err(format!("got\n{graph}\nand not\n{expected}"));
        }
    }
    if let Some(name) = &expected.location {
        let location = answer.header("location").ok_or("no Location")?;
        known.push((name.clone(), location.to_owned()));
    }
    Ok(())
}

fn check_format(answer: &Answer, format: &str) -> Result<(), String> {
    let media_type = answer.media_type();
    let tables = [
        "application/sparql-results+xml",
        "application/sparql-results+json",
        "text/csv",
        "text/tab-separated-values",
    ];
    let is_right = match format {
        "boolean" => tables[..2].contains(&media_type.as_str()),
        "tabular" => tables.contains(&media_type.as_str()),
        "RDF" => RdfFormat::from_media_type(&media_type).is_some(),
        other => return Err(format!("no format is known as {other}")),
    };
    match is_right {
        true => Ok(()),
        false => Err(format!("{media_type} is not {format}")),
    }
}

/// The body as a graph with canonical blank nodes.
fn graph_of(answer: &Answer) -> Result<Graph, String> {
    let media_type = answer.media_type();
    let format = RdfFormat::from_media_type(&media_type);
    parse(
        &answer.body,
        format.ok_or_else(|| format!("{media_type} is not RDF"))?,
    )
}

fn parse(bytes: &[u8], format: RdfFormat) -> Result<Graph, String> {
    let mut graph = Graph::new();
    for quad in RdfParser::from_format(format).for_slice(bytes) {
        let quad = quad.map_err(|error| error.to_string())?;
        graph.insert(oxrdf::TripleRef::from(quad.as_ref()));
    }
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    Ok(graph)
}

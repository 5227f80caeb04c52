//! Measures how long queries take to parse, beside the parser library alone.
//!
//! ```text
//! cargo run --release -p pythiadb-sparql --example parse_time -- FILE…
//! ```
//!
//! A file holds queries that are separated by lines of `---`. Without files, a few queries of usual shapes are
//! measured. Each row has the median of many rounds; the ways alternate within a round.

use std::error::Error;
use std::time::{Duration, Instant};

use pythia_sparql::{Charge, ParameterizedQueries, Query, SparqlError};
use spargebra::SparqlParser;

const ROUNDS: usize = 2000;

const QUERIES: &str = "\
SELECT ?o { <http://e/s> <http://e/p> ?o }
---
PREFIX e: <http://example.org/vocabulary#>
SELECT DISTINCT ?product ?label {
  ?product e:label ?label ; a e:ProductType12 ; e:feature e:Feature7 , e:Feature9 ; e:number ?n
  FILTER(?n > 200)
} ORDER BY ?label LIMIT 10
---
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX e: <http://example.org/vocabulary#>
SELECT ?product (AVG(xsd:float(?price)) AS ?mean) (COUNT(DISTINCT ?offer) AS ?offers) {
  ?product rdf:type e:ProductType3 ; e:producer/e:country ?country .
  ?offer e:product ?product ; e:price ?price ; e:validTo ?date .
  OPTIONAL { ?review e:of ?product ; e:rating1 ?r1 . FILTER(LANG(?r1) = 'en' && ?r1 != 'x') }
  { ?product e:text1 ?text } UNION { ?product e:text2 ?text }
  FILTER(?date > '2008-06-01'^^<http://www.w3.org/2001/XMLSchema#date> || REGEX(?text, '^a.*b'))
  FILTER NOT EXISTS { ?offer e:withdrawn true }
} GROUP BY ?product HAVING (COUNT(?offer) > 3) ORDER BY DESC(?mean) LIMIT 100";

/// Limits that nothing exceeds: memory is counted.
#[derive(Debug, Default)]
struct Counted(usize);

impl Charge for Counted {
    fn check(&self) -> Result<(), SparqlError> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0
    }

    fn set(&mut self, bytes: usize) -> Result<(), SparqlError> {
        self.0 = bytes;
        Ok(())
    }

    fn left(&self) -> usize {
        1 << 30
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    for file in std::env::args().skip(1) {
        text.push_str(&std::fs::read_to_string(file)?);
        text.push_str("\n---\n");
    }
    if text.is_empty() {
        QUERIES.clone_into(&mut text);
    }
    println!("bytes  library µs  within limits µs  ratio  first µs  again µs");
    for query in text.split("\n---\n").map(with_xsd) {
        if query
            .lines()
            .all(|line| line.trim().is_empty() || line.starts_with("PREFIX"))
        {
            continue;
        }
        Query::parse(&query, None)?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let [library, within, first, again] = medians(&query).map(micros);
        let ratio = within / library;
        println!(
            "{:5}  {library:10.2}  {within:16.2}  {ratio:5.2}  {first:8.2}  {again:8.2}",
            query.len()
        );
    }
    Ok(())
}

fn with_xsd(query: &str) -> String {
    match query.contains("xsd:") && !query.contains("PREFIX xsd:") {
        true => format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n{query}"),
        false => query.to_owned(),
    }
}

/// Returns the median times of the library alone, of ours within limits, and of ours for a text that comes first and again.
fn medians(query: &str) -> [Duration; 4] {
    let charge = || Box::new(Counted::default());
    let known = ParameterizedQueries::default();
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let parsed = SparqlParser::new().parse_query(query);
        times[0].push(start.elapsed());
        drop(parsed);
        let start = Instant::now();
        let parsed = Query::parse_within(query, None, charge());
        times[1].push(start.elapsed());
        drop(parsed);
        for (at, queries) in [(2, &ParameterizedQueries::default()), (3, &known)] {
            let start = Instant::now();
            let parsed = queries.parse_within(query, None, charge());
            times[at].push(start.elapsed());
            drop(parsed);
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

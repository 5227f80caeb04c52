//! Two servers whose stores differ in hidden graphs only: who may not see these gets the same answers.

use std::collections::BTreeMap;

use pythia_server::config::{RoleConfig, SecurityConfig};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::support::{Answer, Served};

/// How many requests are sent to both.
const REQUESTS: usize = 1_500;

const SEEN: &str = r#"
    PREFIX : <http://e/>
    PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
    :Paris a :City ; :called "Paris" ; :in :France .
    :Lyon a :City ; :called "Lyon"@fr ; :in :France ; :size 7 .
    :open { :Paris :twin :Rome . :Rome a :City ; :called "Rome" }
"#;

/// What is hidden in the first store.
const FIRST: &str = r#"
    PREFIX : <http://e/>
    PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
    :hidden { :Paros a :Island ; rdfs:label "Paros" ; :secret "Parole" . :Paris :secret :Lyon ; :in :Greece }
    :inner { :Paris a :Secret ; :called "Panam" . <http://secret/Par> :p 1 }
"#;

/// What is hidden in the second.
const SECOND: &str = r#"
    PREFIX : <http://e/>
    :other { :Rome :size 1, 2, 3 . :Lyon :rival :Paris ; :called "Lugdunum" }
"#;

/// Who says nothing sees the default graph and `open`, and may change `open`.
fn served(hidden: &str) -> Served {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let security = SecurityConfig {
        anonymous: Some("guest".to_owned()),
        roles: vec![RoleConfig {
            name: "guest".to_owned(),
            datasets: owned(&["ds"]),
            read: owned(&["default", "http://e/open"]),
            write: owned(&["http://e/open"]),
            ..RoleConfig::default()
        }],
        ..SecurityConfig::default()
    };
    let data = format!("{SEEN}{hidden}");
    Served::configured(&data, |config| config.security = security)
}

/// Terms, some of which only one of the stores has.
const TERMS: [&str; 12] = [
    "Paris", "Lyon", "Rome", "Paros", "hidden", "inner", "other", "open", "secret", "rival",
    "size", "nowhere",
];
const TEXTS: [&str; 8] = [
    "Par",
    "par",
    "Pan",
    "Lu",
    "Ro",
    "e:P",
    "http://secret/",
    "http://e/",
];
const QUERIES: [&str; 10] = [
    "SELECT * { GRAPH ?g { :@ ?p ?o } } ORDER BY ?g ?p ?o",
    "SELECT ?p (COUNT(*) AS ?n) { { ?s ?p :@ } UNION { GRAPH ?g { ?s ?p ?o } } } GROUP BY ?p ORDER BY ?p",
    "SELECT ?o { VALUES ?s { :@ :@ } ?s (:in|:@)+ ?o } ORDER BY ?o",
    "SELECT ?x { VALUES ?x { :@ :@ :Paris } FILTER EXISTS { ?x ?p ?o } } ORDER BY ?x",
    "SELECT (<urn:pythia:graph#outDegree>(:@) AS ?n) {}",
    "ASK { GRAPH :@ { ?s ?p ?o } }",
    "ASK { :@ ?p :@ }",
    "DESCRIBE ?x { VALUES ?x { :@ } }",
    "SELECT * FROM :@ { ?s ?p ?o } ORDER BY ?s ?p ?o",
    "SELECT ?o FROM NAMED :@ { GRAPH :@ { ?s :called ?o } } ORDER BY ?o",
];
const UPDATES: [&str; 9] = [
    "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { VALUES (?g ?s ?p ?o) { (:@ :@ :@ :@) } }",
    "DELETE { GRAPH ?g { :@ ?p ?o } } WHERE { VALUES ?g { :@ :open } GRAPH ?g { ?s ?p ?o } }",
    "INSERT { GRAPH ?g { :@ :size 1 } } WHERE { VALUES ?g { :@ :@ } }",
    "INSERT DATA { GRAPH :open { :@ :twin :@ } }",
    "DELETE WHERE { GRAPH :@ { ?s ?p :@ } }",
    "CLEAR GRAPH :@",
    "COPY :@ TO :open ; INSERT DATA { GRAPH :open { :Paris :twin :Rome } }",
    "MOVE :@ TO :@",
    "CREATE GRAPH :@",
];
const COMPLETIONS: [&str; 6] = [
    "SELECT * { ?x Pa",
    "SELECT * { :Paris ",
    "SELECT * { ?x a ",
    "SELECT * { GRAPH ",
    "SELECT * { ?x :in ",
    "SELECT * { ?x ?p Par",
];

/// A request: method, path, headers, body.
type Request = (
    &'static str,
    String,
    Vec<(&'static str, &'static str)>,
    String,
);

const PREFIX: &str = "PREFIX : <http://e/> ";

struct Requests(StdRng);

impl Requests {
    fn any(&mut self, texts: &[&'static str]) -> &'static str {
        texts.choose(&mut self.0).expect("a choice")
    }

    /// The text with a random term in each place.
    fn filled(&mut self, text: &str) -> String {
        let mut parts = text.split('@');
        let mut filled = parts.next().expect("one at least").to_owned();
        for part in parts {
            filled = filled + self.any(&TERMS) + part;
        }
        filled
    }

    fn next(&mut self) -> Request {
        let term = self.any(&TERMS);
        let json = vec![("accept", "application/json")];
        match self.0.random_range(0..11) {
            0 => (
                "GET",
                format!("/ds/store?graph=http://e/{term}"),
                Vec::new(),
                String::new(),
            ),
            1 => (
                "HEAD",
                format!("/ds/data?graph=http://e/{term}"),
                Vec::new(),
                String::new(),
            ),
            2 => {
                let method = self.any(&["PUT", "POST"]);
                let body = format!("<http://e/{term}> <http://e/twin> <http://e/Rome> .");
                let path = format!("/ds/store?graph=http://e/{}", self.any(&TERMS));
                (method, path, vec![("content-type", "text/turtle")], body)
            }
            3 if term != "open" => (
                "DELETE",
                format!("/ds/store?graph=http://e/{term}"),
                Vec::new(),
                String::new(),
            ),
            4 => {
                let text = self.any(&UPDATES);
                let text = format!("{PREFIX}{}", self.filled(text));
                let headers = vec![("content-type", "application/sparql-update"), json[0]];
                ("POST", "/ds/update".to_owned(), headers, text)
            }
            5 => (
                "GET",
                format!("/ds/find?text={}", self.any(&TEXTS)),
                json,
                String::new(),
            ),
            6 => (
                "GET",
                format!("/ds/node?iri=http://e/{term}"),
                json,
                String::new(),
            ),
            7 => {
                let query = format!("{PREFIX}{}", self.any(&COMPLETIONS));
                let body = serde_json::json!({ "cursor": query.len(), "query": query });
                ("POST", "/ds/complete".to_owned(), json, body.to_string())
            }
            8 => {
                let path = self.any(&[
                    "/ds/void",
                    "/ds/query",
                    "/ds/data",
                    "/$/stats/ds",
                    "/$/datasets",
                ]);
                (
                    "GET",
                    path.to_owned(),
                    vec![("accept", "application/n-triples, */*;q=0.1")],
                    String::new(),
                )
            }
            _ => {
                let text = self.any(&QUERIES);
                let text = format!("{PREFIX}{}", self.filled(text));
                let path = self.any(&[
                    "/ds/query",
                    "/ds/query?explain=plan",
                    "/ds/query?explain=analyze",
                ]);
                let headers = vec![
                    ("content-type", "application/sparql-query"),
                    ("accept", "text/csv, application/n-triples"),
                ];
                ("POST", path.to_owned(), headers, text)
            }
        }
    }
}

/// What an answer tells: status, headers but those that are of this very answer, and body.
fn told(answer: &Answer, served: &Served) -> (u16, BTreeMap<String, String>, Vec<String>) {
    let headers = answer.headers.iter().map(|(name, value)| {
        let value = value.to_str().expect("text");
        (name.to_string(), value.to_owned())
    });
    let mut headers: BTreeMap<String, String> = headers.collect();
    for own in ["date", "pythia-query-id", "pythia-commit", "etag"] {
        headers.remove(own);
    }
    if headers
        .get("content-type")
        .is_some_and(|kind| kind == "application/json")
    {
        // The digits of times decide whether a plan is long enough to be compressed.
        headers.remove("content-length");
        headers.remove("transfer-encoding");
    }
    let text = answer.text().replace(&served.address.to_string(), "HOST");
    let text = match serde_json::from_str::<Value>(&text) {
        Ok(mut value) => {
            comparable(&mut value);
            without_made_names(&format!("{value:#}"))
        }
        Err(_) => text,
    };
    // The order of triples is the store's own, and labels are new in each answer.
    let is_label = |word: &str| word.starts_with("_:");
    let unlabelled = |line: &str| {
        let words = line.split(' ');
        let words = words.map(|word| if is_label(word) { "_:" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = text.lines().map(unlabelled).collect();
    if headers
        .get("content-type")
        .is_some_and(|kind| kind.contains("application/n-"))
    {
        lines.sort();
    }
    (answer.status.as_u16(), headers, lines)
}

/// Gives variables that the parser made up the same name.
fn without_made_names(text: &str) -> String {
    let is_made = |word: &str| word.len() > 24 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let words = words.map(|word| {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        match is_made(name) {
            true => word.replace(name, "made"),
            false => word.to_owned(),
        }
    });
    words.collect()
}

/// Takes times out, and puts lists into an order of their own: where nothing else decides, they come in the order
/// of the store (docs/security.md).
fn comparable(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| key != "time_us" && key != "position");
            map.values_mut().for_each(comparable);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(comparable);
            items.sort_by_key(Value::to_string);
        }
        _ => {}
    }
}

#[test]
fn requests_are_answered_alike_whatever_is_hidden() {
    let servers = [served(FIRST), served(SECOND)];
    let mut requests = Requests(StdRng::seed_from_u64(0x41DE));
    for number in 0..REQUESTS {
        let (method, path, headers, body) = requests.next();
        let answers = [&servers[0], &servers[1]].map(|served| {
            told(
                &served.send(method, &path, &headers, body.as_bytes()),
                served,
            )
        });
        assert_eq!(
            answers[0], answers[1],
            "request {number}: {method} {path} {body}"
        );
    }
}

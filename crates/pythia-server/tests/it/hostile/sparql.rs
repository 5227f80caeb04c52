//! Queries and updates that are none, or hardly.

use super::{Random, assert_alive, served, strict};
use crate::support::Served;
use crate::wire::{Answer, Request};

const QUERIES: [&str; 8] = [
    "PREFIX ex: <http://ex.org/> SELECT ?s (COUNT(?o) AS ?n) { ?s ex:p ?o } GROUP BY ?s HAVING(?n > 1) ORDER BY DESC(?n) LIMIT 5",
    "PREFIX ex: <http://ex.org/> SELECT * { ?s ex:p+ ?o . OPTIONAL { ?o ex:name ?n FILTER(LANG(?n) = 'en') } }",
    "CONSTRUCT { ?o ?p ?s } WHERE { GRAPH ?g { ?s ?p ?o } MINUS { ?s a ?o } }",
    "DESCRIBE <http://ex.org/a>",
    "ASK { VALUES (?a ?b) { (1 'x'@en) (UNDEF 2.5e0) } FILTER(?a IN (1, 2) || EXISTS { ?s ?p ?a }) }",
    "SELECT (CONCAT(STR(?s), '\\u00e9', REPLACE(?n, '^(A)', '$1$1')) AS ?x) { { ?s <http://ex.org/name> ?n } UNION { SELECT ?s ?n { ?s ?n ?o } } }",
    "INSERT DATA { <http://ex.org/new> <http://ex.org/p> 'x' , 7 , _:b . GRAPH <http://ex.org/h> { <a:b> <c:d> true } }",
    "DELETE { ?s ?p ?o } INSERT { ?o ?p ?s } WHERE { ?s ?p ?o FILTER(isIRI(?o)) } ; CLEAR SILENT GRAPH <http://ex.org/none>",
];

/// Asks, as an update or a query.
fn ask(served: &Served, text: &[u8]) -> Answer {
    let is_update = [b"INSERT".as_slice(), b"DELETE"]
        .iter()
        .any(|word| text.windows(word.len()).any(|part| part == *word));
    let (path, media_type) = match is_update {
        true => ("/update", "application/sparql-update"),
        false => ("/query", "application/sparql-query"),
    };
    Request::new("POST", path)
        .header("Content-Type", media_type)
        .body(text)
        .send(served.address)
        .unwrap_or_else(|error| panic!("{error} for {:?}", String::from_utf8_lossy(text)))
}

#[test]
fn mutated_queries_are_answered_or_refused() {
    let served = served();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..600 {
        let text = mutated(&mut random);
        let answer = ask(&served, &text);
        let shown = String::from_utf8_lossy(&text);
        match answer.status {
            200..300 => answered += 1,
            400..500 => {
                assert!(!answer.body.is_empty(), "no reason for {shown:?}");
                refused += 1;
            }
            status => panic!("{status} {} for {shown:?}", answer.text()),
        }
    }
    // Most are refused, and for what is in them: some are still good.
    assert!(refused > 100, "{refused} refused");
    assert!(answered > 10, "{answered} answered");
    assert_eq!(
        ask(
            &served,
            b"INSERT DATA { <http://ex.org/a> <http://ex.org/p> 1 }"
        )
        .status
            / 100,
        2
    );
    assert_alive(&served, "mutated queries");
}

/// A query with some bytes changed, cut, repeated, or taken from another.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut text = QUERIES[random.below(QUERIES.len())].as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let (from, to) = (random.below(text.len()), random.below(text.len()));
        let (from, to) = (from.min(to), from.max(to));
        match random.below(6) {
            0 => text[from] = u8::try_from(random.below(256)).expect("a byte"),
            1 => drop(text.drain(from..to.min(from + 8))),
            2 => {
                let part = text[from..to].to_vec();
                text.splice(to..to, part);
            }
            3 => {
                let other = QUERIES[random.below(QUERIES.len())].as_bytes();
                text.splice(from..to, other[..random.below(other.len())].to_vec());
            }
            4 => text.swap(from, to),
            _ => {
                let words: [&[u8]; 8] = [b"{", b"}", b"(", b"\"", b"<", b"\\u", b" . ", b"\xc3"];
                let word = words[random.below(words.len())];
                text.splice(from..from, word.to_vec());
            }
        }
        if text.is_empty() {
            text.push(b'?');
        }
    }
    text
}

#[test]
fn what_is_too_deep_is_refused() {
    let served = Served::configured(super::DATA, |config| {
        strict(config);
        config.limits.text_bytes = 8 << 20;
        config.limits.receive_bytes = 64 << 20;
    });
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for depth in [1_000, 100_000] {
        for text in [
            format!("SELECT * {}", nested("{", "?s ?p ?o", "}", depth)),
            format!("SELECT * {{ FILTER{} }}", nested("(", "1", ")", depth)),
            format!("SELECT * {{ FILTER({}true) }}", "!".repeat(depth)),
            format!("SELECT * {{ BIND(1{} AS ?x) }}", " + 1".repeat(depth)),
            format!("SELECT * {{ ?s {} ?o }}", nested("(", "<a:b>", ")*", depth)),
            format!("SELECT * {{ ?s <a:b>{} ?o }}", "/<a:b>".repeat(depth)),
            format!(
                "SELECT * {{ ?s ?p {} }}",
                nested("[ <a:b> ", "1", " ]", depth)
            ),
            format!("SELECT * {{ ?s ?p {} }}", nested("( ", "1", " )", depth)),
            format!(
                "SELECT * {{ {} }}",
                nested("OPTIONAL { ", "?s ?p ?o", " }", depth)
            ),
            format!(
                "SELECT * {{ {} }}",
                nested("{ SELECT * { ", "?s ?p ?o", " } }", depth)
            ),
            format!(
                "SELECT * {{ FILTER {} }}",
                nested("EXISTS { FILTER ", "(1)", " }", depth)
            ),
            format!("SELECT * {{ {{}} {} }}", "UNION {} ".repeat(depth)),
            format!("ASK {{ <<{} <a:b> 1 }}", "( <<".repeat(depth)),
        ] {
            let answer = ask(&served, text.as_bytes());
            let shown: String = text.chars().take(40).collect();
            assert!(
                [200, 400].contains(&answer.status),
                "{depth} of {shown}: {} {}",
                answer.status,
                answer.text()
            );
        }
    }
    assert_alive(&served, "deep queries");
}

//! What the page asks besides SPARQL: completion, things by name, what is around a node, descriptions,
//! what runs.

use std::time::{Duration, Instant};

use pythia_server::config::{RoleConfig, SecurityConfig};
use serde_json::{Value, json};

use crate::support::Served;

const DATA: &str = r#"
    @prefix : <http://e/> .
    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
    :Paris a :City ; rdfs:label "Paris" ; :in :France .
    :Lyon a :City ; rdfs:label "Lyon" ; :in :France .
    :g { :Paris :twin :Rome }
"#;

fn get(served: &Served, path: &str) -> Value {
    let answer = served.get(path, &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

#[test]
fn things_are_found_and_looked_around() {
    let served = Served::with(DATA);
    for prefix in ["", "/ds"] {
        let found = get(&served, &format!("{prefix}/find?text=par&limit=3"));
        let paris = json!({
            "iri": "http://e/Paris", "label": "Paris", "types": ["http://e/City"], "matched": "label"
        });
        assert_eq!(found, json!({ "items": [paris] }));
        let node = get(
            &served,
            &format!("{prefix}/node?iri=http://e/Paris&direction=out"),
        );
        assert_eq!(node["label"], "Paris");
        let groups = node["groups"].as_array().expect("a list");
        assert_eq!(groups.len(), 4);
        let twin = groups
            .iter()
            .find(|group| group["predicate"] == "http://e/twin");
        let rome = json!({"term": {"type": "uri", "value": "http://e/Rome"}, "label": null});
        assert_eq!(
            twin,
            Some(&json!({
                "predicate": "http://e/twin", "direction": "out", "count": 1, "items": [rome], "more": false
            }))
        );
    }
}

#[test]
fn queries_are_completed_from_the_data() {
    let served = Served::with(DATA);
    let query = "PREFIX : <http://e/> SELECT * { ?c a :City ; :i }";
    let body = json!({"query": query, "cursor": query.len() - 2, "limit": 5}).to_string();
    let headers = [("content-type", "application/json")];
    let answer = served.send("POST", "/complete", &headers, body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json(),
        json!({
            "from": query.len() - 4,
            "to": query.len() - 2,
            "items": [{
                "insert": ":in", "iri": "http://e/in", "label": null, "kind": "predicate", "count": 2,
                "prefix": null
            }]
        })
    );
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_to_do() {
    let served = Served::with(DATA);
    for (path, status, part) in [
        ("/find", 400, "text="),
        ("/find?text=a&limit=x", 400, "limit=x: expected a number"),
        ("/node", 400, "iri=IRI"),
        ("/node?iri=no%20iri", 400, "not an IRI"),
        ("/node?iri=http://e/&direction=up", 400, "out, in or both"),
        ("/node?bnode=%20", 400, "blank node"),
        ("/complete", 405, "POST"),
        ("/$/queries/none", 404, "no running request none"),
        ("/other/find?text=a", 404, "no dataset other"),
    ] {
        let answer = served.get(path, &[]);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
    }
    for (path, method) in [
        ("/find?text=a", "POST"),
        ("/void", "PUT"),
        ("/$/queries", "DELETE"),
    ] {
        assert_eq!(served.send(method, path, &[], b"").status, 405, "{path}");
    }
    for body in [
        "",
        "[]",
        "{}",
        r#"{"query": 1, "cursor": 0}"#,
        r#"{"query": "", "cursor": -1}"#,
    ] {
        let answer = served.send("POST", "/complete", &[], body.as_bytes());
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains("cursor"), "{}", answer.text());
    }
    let far = r#"{"query": "SELECT", "cursor": 99999}"#;
    assert_eq!(
        served.send("POST", "/complete", &[], far.as_bytes()).status,
        200
    );
}

/// The W3C's service-description tests: `returns-rdf`, `has-endpoint-triple`, `conforms-to-schema`.
#[test]
fn the_endpoint_describes_itself() {
    let served = Served::with(DATA);
    for path in ["/query", "/sparql", "/ds/query", "/ds/sparql"] {
        let answer = served.get(path, &[("accept", "application/n-triples")]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let url = served.url(path);
        let sd = "http://www.w3.org/ns/sparql-service-description#";
        let is_a = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>";
        for line in [
            format!("<{url}> {is_a} <{sd}Service> ."),
            format!("<{url}> <{sd}endpoint> <{url}> ."),
            format!("<{url}> <{sd}supportedLanguage> <{sd}SPARQL11Query> ."),
            format!(
                "<{url}> <{sd}resultFormat> <http://www.w3.org/ns/formats/SPARQL_Results_JSON> ."
            ),
            format!("<{sd}name> <http://e/g> ."),
        ] {
            assert!(
                answer.text().contains(&line),
                "{line} in\n{}",
                answer.text()
            );
        }
    }
    for (accept, media_type) in [
        (None, "text/turtle"),
        (Some("*/*"), "text/turtle"),
        (Some("application/rdf+xml"), "application/rdf+xml"),
        (
            Some("application/ld+json;q=0.9, text/turtle;q=0.1"),
            "application/ld+json",
        ),
    ] {
        let headers: Vec<_> = accept
            .map(|accept| ("accept", accept))
            .into_iter()
            .collect();
        for path in ["/query", "/void", "/ds/void", "/.well-known/void"] {
            let answer = served.get(path, &headers);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            assert_eq!(answer.header("content-type"), Some(media_type));
        }
    }
    assert_eq!(served.get("/void", &[("accept", "image/png")]).status, 406);
}

#[test]
fn a_graph_that_is_hidden_from_who_asks_is_hidden_everywhere() {
    let guest = RoleConfig {
        name: "guest".to_owned(),
        datasets: vec!["ds".to_owned()],
        read: vec!["default".to_owned()],
        write: Vec::new(),
        ..RoleConfig::default()
    };
    let security = SecurityConfig {
        anonymous: Some("guest".to_owned()),
        roles: vec![guest],
        ..SecurityConfig::default()
    };
    let served = Served::configured(DATA, |config| config.security = security);
    assert_eq!(get(&served, "/find?text=Rom"), json!({ "items": [] }));
    let body = br#"{"query": "SELECT * { ?x ", "cursor": 14}"#;
    let completed = served.send("POST", "/complete", &[], body);
    assert!(
        completed.text().contains("http://e/in"),
        "{}",
        completed.text()
    );
    let mut answers = vec![completed];
    let paths = ["/node?iri=http://e/Paris", "/void", "/query"];
    answers.extend(paths.iter().map(|path| served.get(path, &[])));
    for answer in answers {
        assert_eq!(answer.status, 200);
        let text = answer.text();
        assert!(
            !["twin", "Rome", "http://e/g"]
                .iter()
                .any(|word| text.contains(word)),
            "{text}"
        );
    }
}

#[test]
fn a_running_query_is_seen_and_stopped() {
    let nodes: String = (0..3000)
        .map(|n| format!("<http://e/{n}> <http://e/p> <http://e/{}> .\n", n + 1))
        .collect();
    let served = Served::with(&nodes);
    let endless = "SELECT (SUM(STRLEN(STR(?a)) + STRLEN(STR(?e))) AS ?n) {
        ?a <http://e/p> ?b . ?c <http://e/p> ?d . ?e <http://e/p> ?f }";
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let headers = [
                ("content-type", "application/sparql-query"),
                ("pythia-query-id", "endless"),
            ];
            served.send("POST", "/query?profile=true", &headers, endless.as_bytes())
        });
        let begun = Instant::now();
        let rows = |query: &Value| -> u64 {
            let text = query["plan"].to_string();
            let counts = text.split("\"rows\":").skip(1);
            let counts = counts.filter_map(|rest| rest.split([',', '}']).next()?.parse().ok());
            counts.max().unwrap_or(0)
        };
        let mut seen = Vec::new();
        while seen.len() < 3 && begun.elapsed() < Duration::from_secs(60) {
            let answer = served.get("/$/queries/endless", &[]);
            if answer.status == 200 {
                let query = answer.json();
                if rows(&query) > seen.last().copied().unwrap_or(0) {
                    seen.push(rows(&query));
                }
                assert_eq!(query["text"], endless);
                assert_eq!(
                    (&query["dataset"], &query["client"]),
                    (&json!("ds"), &json!("127.0.0.1"))
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(seen.len(), 3, "rows grow");
        let all = get(&served, "/$/queries");
        assert_eq!(all["queries"].as_array().map(Vec::len), Some(1));
        assert_eq!(all["queries"][0]["state"], "running");
        let foreign = [("origin", "http://elsewhere.example")];
        let refused = served.send("DELETE", "/$/queries/endless", &foreign, b"");
        assert_eq!(refused.status, 403);
        let stopped = served.send("DELETE", "/$/queries/endless", &[], b"");
        assert_eq!(stopped.status, 204);
        assert_eq!(running.join().expect("an answer").status, 503);
    });
    assert_eq!(get(&served, "/$/queries"), json!({ "queries": [] }));
}

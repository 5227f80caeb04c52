//! Tests of answers, and of clients of a minimal endpoint.

use std::io::{Read, Write};
use std::net::TcpListener;

use pythia::QueryForm;

use super::*;

fn solutions(rows: &str) -> Answer {
    let json =
        format!(r#"{{"head": {{"vars": ["b", "a"]}}, "results": {{"bindings": [{rows}]}}}}"#);
    Answer::of_solutions(json.as_bytes()).expect("valid")
}

fn row(name: &str, kind: &str, number: &str) -> String {
    let datatype = format!("http://www.w3.org/2001/XMLSchema#{kind}");
    format!(
        r#"{{"a": {{"type": "uri", "value": "http://e/{name}"}},
            "b": {{"type": "literal", "value": "{number}", "datatype": "{datatype}"}}}}"#
    )
}

#[test]
fn answers_are_compared_by_value_and_in_any_order() {
    let one = solutions(&[row("x", "float", "1.5"), row("y", "integer", "2")].join(","));
    let two = solutions(&[row("y", "int", "2"), row("x", "double", "1.4999E0")].join(","));
    assert_eq!(one.difference(&two), None);
    let far = solutions(&[row("x", "float", "1.6"), row("y", "integer", "2")].join(","));
    assert_eq!(
        one.difference(&far).expect("other numbers"),
        "(http://e/x, 1.5), not (http://e/x, 1.6)"
    );
    let exact = solutions(&[row("x", "float", "1.5"), row("y", "integer", "3")].join(","));
    assert!(one.difference(&exact).is_some());
    let short = solutions(&row("x", "float", "1.5"));
    assert_eq!(
        one.difference(&short).expect("other counts"),
        "2 rows, not 1"
    );
    assert!(solutions("").is_empty() && !one.is_empty());
}

#[test]
fn graphs_are_sets_and_answers_of_yes_or_no_are_never_empty() {
    let twice = b"<http://e/a> <http://e/b> _:x .\n<http://e/a> <http://e/b> _:y .\n";
    let once = Answer::of_graph(b"<http://e/a> <http://e/b> _:z .").expect("valid");
    assert_eq!(
        Answer::of_graph(twice).expect("valid").difference(&once),
        None
    );
    let no = Answer::of_solutions(br#"{"head": {}, "boolean": false}"#).expect("valid");
    let yes = Answer::of_solutions(br#"{"head": {}, "boolean": true}"#).expect("valid");
    assert!(!no.is_empty() && no.difference(&yes).is_some());
    let one = br#"{"head": {"vars": ["__ask_retval"]}, "results": {"bindings": [{"__ask_retval":
        {"type": "literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}}]}}"#;
    let one = Answer::of_solutions(one).expect("valid");
    assert!(one.difference(&yes).is_none() && one.difference(&no).is_some());
    assert!(Answer::of_solutions(br#"{"head": {"vars": ["a"]}, "results": {"bindi"#).is_err());
}

/// Starts an endpoint that gives each request the next answer, and closes the connection after each.
fn serve(answers: Vec<&'static str>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let thread = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).expect("a request");
            requests.push(String::from_utf8_lossy(&request[..length]).into_owned());
            write!(stream, "{answer}").expect("sent");
        }
        requests
    });
    (
        format!("http://{address}/sparql?default-graph-uri=urn:g"),
        thread,
    )
}

#[test]
fn an_endpoint_is_asked_again_on_a_new_connection_and_its_errors_are_one_line() {
    const BODY: &str = r#"{"head": {"vars": ["s"]}, "results": {"bindings": []}}"#;
    let whole = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let failed = "HTTP/1.1 500 x\r\nContent-Length: 10\r\n\r\nno\n  space ";
    let (url, thread) = serve(vec![whole.clone().leak(), whole.leak(), failed]);
    let endpoint = Endpoint::parse(&url).expect("a URL");
    let system = System::endpoint("peer", endpoint, Duration::from_secs(10));
    let mut client = system.client();
    let query = "SELECT ?s { ?s ?p ?o }";
    assert!(client.answer(query).expect("an answer").is_empty());
    assert!(client.answer(query).expect("an answer").is_empty());
    assert_eq!(
        client.time(query, QueryForm::Select),
        Err("HTTP 500: no space".to_owned())
    );
    let requests = thread.join().expect("no panic");
    assert!(
        requests[0].contains("POST /sparql HTTP/1.1"),
        "{}",
        requests[0]
    );
    assert!(requests[0].contains("&default-graph-uri=urn:g"));
}

#[test]
fn updates_are_sent_to_their_own_url() {
    let done = "HTTP/1.1 204 No Content\r\n\r\n";
    let (url, thread) = serve(vec![done, done]);
    let endpoint = Endpoint::parse(&url).expect("a URL");
    let elsewhere = endpoint.clone().with_updates("http://127.0.0.1:1/update");
    let error = elsewhere.expect_err("another server").to_string();
    assert!(error.contains("another server"), "{error}");
    let updates = url.replace("/sparql?default-graph-uri=urn:g", "/update");
    let other = endpoint.clone().with_updates(&updates).expect("a URL");
    for endpoint in [endpoint, other] {
        let system = System::endpoint("peer", endpoint, Duration::from_secs(10));
        let done = system.client().update("DELETE WHERE { ?s ?p ?o }");
        done.expect("acknowledged");
    }
    let requests = thread.join().expect("no panic");
    assert!(
        requests[0].starts_with("POST /sparql HTTP/1.1"),
        "{requests:?}"
    );
    assert!(
        requests[0].contains("update=DELETE%20WHERE"),
        "{requests:?}"
    );
    assert!(
        requests[0].contains("&default-graph-uri=urn:g"),
        "{requests:?}"
    );
    assert!(
        requests[1].starts_with("POST /update HTTP/1.1"),
        "{requests:?}"
    );
    assert!(!requests[1].contains("default-graph-uri"), "{requests:?}");
}

#[test]
fn an_endpoint_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let endpoint = Endpoint::parse(&url).expect("a URL");
    let system = System::endpoint("peer", endpoint, Duration::from_millis(500));
    let answer = system.client().time("ASK {}", QueryForm::Ask);
    assert_eq!(answer, Err("no answer within 0.5 s".to_owned()));
}

#[test]
fn only_plain_http_is_an_endpoint() {
    for url in ["https://127.0.0.1/sparql", "127.0.0.1:80", ""] {
        let error = Endpoint::parse(url).expect_err(url).to_string();
        assert!(error.contains("http://HOST:PORT/PATH"), "{error}");
    }
}

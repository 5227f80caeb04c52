//! Requests that are no HTTP, or HTTP with nonsense in it.

use super::{assert_alive, assert_refused, send, served};
use crate::wire::Request;

const HOST: &str = "Host: localhost\r\nConnection: close\r\n";

#[test]
fn what_is_no_http_is_refused() {
    let served = served();
    let hello = [
        0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0x00, 0x00, 0x01, 0x03, 0x0d, 0x0a, 0x0d, 0x0a,
    ];
    assert_refused(&served, &hello);
    assert_refused(&served, &[0; 4096]);
    assert_refused(&served, &[0xff; 4096]);
    for text in [
        "",
        "\r\n\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET \r\n\r\n",
        "GET /query\r\n\r\n",
        "GET /query HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET /query FTP/1.1\r\nHost: localhost\r\n\r\n",
        "get\0 /query HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /query?query=ASK {} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /que\0ry HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /query HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET /query HTTP/1.1\r\nHost: local\0host\r\n\r\n",
        "GET /query HTTP/1.1\r\nHo st: localhost\r\n\r\n",
        "GET /query HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        "GET /query HTTP/1.1\r\nHost: localhost",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "EHLO example.org\r\n",
    ] {
        assert_refused(&served, text.as_bytes());
    }
}

#[test]
fn bodies_that_contradict_themselves_are_refused() {
    let served = served();
    let post = |headers: &str, body: &str| {
        format!(
            "POST /query HTTP/1.1\r\n{HOST}Content-Type: application/sparql-query\r\n{headers}\r\n{body}"
        )
    };
    for (headers, body) in [
        ("Content-Length: -1\r\n", "ASK {}"),
        ("Content-Length: six\r\n", "ASK {}"),
        ("Content-Length: 99999999999999999999999\r\n", "ASK {}"),
        ("Content-Length: 6, 7\r\n", "ASK {}"),
        ("Content-Length: 6\r\nContent-Length: 7\r\n", "ASK {}x"),
        ("Content-Length: 100\r\n", "ASK {}"),
        ("Transfer-Encoding: gzip\r\n", "ASK {}"),
        (
            "Transfer-Encoding: chunked, gzip\r\n",
            "6\r\nASK {}\r\n0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n",
            "zz\r\nASK {}\r\n0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n",
            "-6\r\nASK {}\r\n0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n",
            "FFFFFFFFFFFFFFFFF\r\nASK {}",
        ),
        ("Transfer-Encoding: chunked\r\n", "6\r\nASK {}"),
        ("Transfer-Encoding: chunked\r\n", "6\r\nASK {}0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nASK {}\r\n0\r\n\r\n"),
        ("Content-Encoding: gzip\r\nContent-Length: 6\r\n", "ASK {}"),
        ("Content-Encoding: zstd\r\nContent-Length: 6\r\n", "ASK {}"),
        (
            "Content-Encoding: nonsense\r\nContent-Length: 6\r\n",
            "ASK {}",
        ),
        ("Expect: nonsense\r\nContent-Length: 6\r\n", "ASK {"),
    ] {
        assert_refused(&served, post(headers, body).as_bytes());
    }
}

#[test]
fn one_request_is_not_taken_for_two() {
    let served = served();
    // A front that believes Content-Length and a back that believes the chunks see different requests.
    let smuggled = format!(
        "POST /query HTTP/1.1\r\n{HOST}Content-Type: application/sparql-query\r\nContent-Length: 6\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nDELETE /store?default HTTP/1.1\r\nHost: x\r\n\r\n"
    );
    if let Some(answer) = send(&served, smuggled.as_bytes()) {
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
    assert_alive(&served, "smuggling");
}

#[test]
fn encodings_and_parameters_that_make_no_sense_are_refused() {
    let served = served();
    for query in [
        "query=%",
        "query=%4",
        "query=%zz",
        "query=%FF%FE",
        "query=%C3%28",
        "query=ASK%00%7B%7D",
        "query=",
        "query=ASK%7B%7D&query=ASK%7B%7D",
        "query=ASK%7B%7D&timeout=soon",
        "query=ASK%7B%7D&timeout=-1",
        "query=ASK%7B%7D&timeout=NaN",
        "query=ASK%7B%7D&memory=lots",
        "query=ASK%7B%7D&rows=-1",
        "query=ASK%7B%7D&rows=99999999999999999999999999",
        "query=ASK%7B%7D&default-graph-uri=not%20an%20iri",
        "query=ASK%7B%7D&named-graph-uri=%3C%3E",
        "query=ASK%7B%7D&explain=everything",
    ] {
        let request = format!("GET /query?{query} HTTP/1.1\r\n{HOST}\r\n");
        let answer = send(&served, request.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        assert!(!answer.body.is_empty(), "{query}");
        let form = Request::new("POST", "/query")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(query);
        let answer = form.send(served.address).expect("an answer");
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    for target in [
        "/store?graph=",
        "/store?graph=relative%20with%20space",
        "/store?graph=%FF",
        "/store?graph=http://a/&default",
        "/store?graph=http://a/&graph=http://b/",
        "/store?default&default",
    ] {
        let answer = Request::new("GET", target).send(served.address);
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
    }
}

#[test]
fn other_methods_and_paths_are_refused() {
    let served = served();
    let long = "X".repeat(1000);
    for method in ["BREW", "PROPFIND", "TRACE", "get", "CONNECT", "*", &long] {
        for path in ["/query", "/update", "/store?default", "/ds", "/nowhere"] {
            let request = format!("{method} {path} HTTP/1.1\r\n{HOST}\r\n");
            assert_refused(&served, request.as_bytes());
        }
    }
    for path in [
        "/../../../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/..\\..\\etc\\passwd",
        "/assets//etc/passwd",
        "/ds/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/$/backup/../../etc",
        "/$/tasks/-1",
        "/$/queries/%00",
        "//",
        "/%",
        "/ds/no/such/thing",
        "*",
        "http://elsewhere.example/nowhere",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\n{HOST}\r\n");
        let Some(answer) = send(&served, request.as_bytes()) else {
            continue;
        };
        assert!(!answer.text().contains("root:"), "{path}");
        assert!(
            (400..500).contains(&answer.status),
            "{path}: {} {}",
            answer.status,
            answer.text()
        );
    }
    assert_alive(&served, "paths");
}

#[test]
fn headers_of_nonsense_do_no_harm() {
    let served = served();
    for header in [
        "Accept: ;;;,,,q=",
        "Accept: text/html;q=nonsense",
        "Accept: */*;q=99999999999999999999",
        "Accept: \u{1f642}",
        "Accept-Encoding: gzip;q=x, *;q=, br, \u{fffd}",
        "Accept-Language: ,,,",
        "Range: bytes=5-1",
        "If-None-Match: \"\"\"",
        "Origin: null",
        "Host: a, b",
        "Authorization: Basic !!!",
        "Authorization: Bearer ",
        "Cookie: =;=;=",
        "Pythia-Query-Id: ../../etc",
        "Traceparent: 00-zz",
        "X-Forwarded-For: 1.2.3.4.5, ::::",
        "Upgrade: h2c\r\nHTTP2-Settings: !!!\r\nConnection: Upgrade, HTTP2-Settings",
        "Upgrade: websocket\r\nConnection: Upgrade",
    ] {
        let request = format!(
            "GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: localhost\r\n{header}\r\nConnection: close\r\n\r\n"
        );
        if let Some(answer) = send(&served, request.as_bytes()) {
            let status = answer.status;
            assert!(
                (200..500).contains(&status),
                "{header}: {status} {}",
                answer.text()
            );
        }
        assert_alive(&served, header);
    }
}

#[test]
fn bodies_of_nonsense_are_refused_by_the_graph_store() {
    let served = served();
    let boundary = "b".repeat(60_000);
    let many = "--b\r\nContent-Disposition: form-data; name=x\r\n\r\n\r\n".repeat(5000);
    let bodies: [(&str, &[u8]); 16] = [
        ("text/turtle", b"<a> <b> ."),
        ("text/turtle", b"\xff\xfe\x00<\x00a"),
        ("text/turtle", b"<http://a> <http://b> \"\xff\" ."),
        ("text/turtle", b"@prefix : <:> . : : : : ."),
        ("application/n-triples", b"<a> <b> <c> ."),
        ("application/rdf+xml", b"<rdf:RDF>"),
        (
            "application/rdf+xml",
            b"<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]>\
              <rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>&b;",
        ),
        (
            "application/rdf+xml",
            b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>",
        ),
        ("application/ld+json", b"{\"@context\": \"http://127.0.0.1:1/\", \"@id\": 1}"),
        ("application/ld+json", b"[[[[[[[["),
        ("application/sparql-results+json", b"{}"),
        ("nonsense", b"<http://a> <http://b> <http://c> ."),
        ("/;=,", b"<http://a> <http://b> <http://c> ."),
        ("multipart/form-data", b"--b\r\n\r\n"),
        ("multipart/form-data; boundary=b", b"no boundary at all"),
        (
            "multipart/form-data; boundary=b",
            b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Type: text/turtle\r\n\r\n<http://a> ",
        ),
    ];
    for (media_type, body) in bodies {
        let put = Request::new("PUT", "/store?graph=http://ex.org/new")
            .header("Content-Type", media_type)
            .body(body);
        let answer = put.send(served.address).expect("an answer");
        let status = answer.status;
        assert!(
            (400..500).contains(&status),
            "{media_type}: {status} {}",
            answer.text()
        );
        assert!(!answer.body.is_empty(), "{media_type}");
    }
    for (media_type, body) in [
        (
            format!("multipart/form-data; boundary={boundary}"),
            "x".to_owned(),
        ),
        ("multipart/form-data; boundary=b".to_owned(), many),
    ] {
        let request = format!(
            "POST /store?default HTTP/1.1\r\n{HOST}Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_refused(&served, request.as_bytes());
    }
    let left = Request::new("GET", "/store?graph=http://ex.org/new").send(served.address);
    assert_eq!(left.expect("an answer").status, 404);
}

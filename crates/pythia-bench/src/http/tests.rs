//! Tests of the load generator with a minimal server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use super::*;

fn options(address: SocketAddr) -> Options {
    Options {
        address,
        dataset: String::new(),
        connections: 2,
        rate: None,
        time: Duration::from_millis(200),
        patience: Duration::from_secs(10),
        seed: 1,
    }
}

/// Starts a server that answers as the path of a request says, over any number of connections.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                let mut body = 0;
                for line in BufReader::new(stream).lines() {
                    let Ok(line) = line else { return };
                    if line.starts_with("GET ") && line.contains("busy") {
                        out.write_all(b"HTTP/1.1 503 x\r\nContent-Length: 2\r\n\r\nno")
                            .unwrap();
                    } else if line.starts_with("GET ") {
                        out.write_all(
                            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                              3\r\nabc\r\n0\r\nx: y\r\n\r\n",
                        )
                        .unwrap();
                    } else if line.starts_with("POST ") {
                        body = 1;
                        out.write_all(b"HTTP/1.1 204 x\r\n\r\n").unwrap();
                    }
                    assert!(body == 0 || !line.contains("garbage"));
                }
            });
        }
    });
    address
}

#[test]
fn answers_are_counted_by_status_and_template() {
    let options = options(serve());
    let text = r#"{"template": "point", "query": "ASK {}"}
                  {"template": "shed", "query": "busy"}"#;
    let requests = read(text, &options).unwrap();
    let report = run(&requests, &options).unwrap();
    assert_eq!(report.failed, BTreeMap::new());
    assert_eq!(report.sent, report.statuses[&200] + report.statuses[&503]);
    assert_eq!(report.without_retry_after, report.statuses[&503]);
    assert_eq!(report.templates["point"].count, report.statuses[&200]);
    assert_eq!(report.bytes, 3 * report.statuses[&200]);
    assert_eq!(report.timeline.iter().sum::<u64>(), report.statuses[&200]);
    assert!(report.text().contains("point"), "{}", report.text());
}

#[test]
fn an_open_loop_keeps_to_its_rate() {
    let mut options = options(serve());
    options.rate = Some(200.0);
    options.time = Duration::from_millis(500);
    let requests = read(r#"{"template": "a", "query": "ASK {}"}"#, &options).unwrap();
    let report = run(&requests, &options).unwrap();
    assert!((30..300).contains(&report.sent), "{}", report.sent);
    assert_eq!(report.offered_per_second, Some(200.0));
}

#[test]
fn failures_to_connect_are_told() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut options = options(address);
    options.time = Duration::from_millis(20);
    let requests = read(r#"{"template": "a", "update": "CLEAR ALL"}"#, &options).unwrap();
    let report = run(&requests, &options).unwrap();
    assert_eq!(report.failed.values().sum::<u64>(), report.sent);
    assert_eq!(report.latency.count, 0);
}

#[test]
fn requests_are_queries_or_updates() {
    let options = options(SocketAddr::from(([127, 0, 0, 1], 1)));
    for text in ["", r#"{"template": "a"}"#, "{"] {
        assert!(read(text, &options).is_err(), "{text}");
    }
    let request = &read(r#"{"template": "a", "query": "ASK { ?é }"}"#, &options).unwrap()[0];
    let text = String::from_utf8_lossy(&request.bytes).into_owned();
    assert!(text.starts_with("GET /query?query=ASK%20%7B%20%3F%C3%A9%20%7D HTTP/1.1\r\n"));
}

#[test]
fn answers_end_where_they_say() {
    let read =
        |text: &str| client::read(&mut BufReader::new(text.as_bytes()), &mut std::io::sink());
    let (answer, is_kept) =
        read("HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\nno").unwrap();
    assert_eq!(
        (answer.status, answer.has_retry_after, is_kept),
        (429, true, true)
    );
    let (answer, is_kept) = read("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall").unwrap();
    assert_eq!((answer.bytes, is_kept), (3, false));
    // Truncated: no end of the chunks, less than announced, no end of the head.
    for cut in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "",
    ] {
        assert!(read(cut).is_err(), "{cut}");
    }
}

//! Clients that take their time, so that a server keeps something for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{assert_alive, served};
use crate::support::Served;
use crate::wire;

/// Long after all limits of time.
const LONG: Duration = Duration::from_secs(10);

#[test]
fn heads_must_come_in_time() {
    let served = served();
    let mut clients: Vec<TcpStream> = (0..50)
        .map(|_| begin(&served, "GET /query HTTP/1.1\r\n"))
        .collect();
    let started = Instant::now();
    let mut open = clients.len();
    while open > 0 {
        assert!(
            started.elapsed() < LONG,
            "{open} clients still send their heads"
        );
        assert_alive(&served, "slow heads");
        std::thread::sleep(Duration::from_millis(50));
        clients.retain_mut(|client| client.write_all(b"X: x\r\n").is_ok() && !is_closed(client));
        open = clients.len();
    }
}

#[test]
fn connections_must_be_used() {
    let served = served();
    // Nothing, the beginning of a method, and the beginning of HTTP/2.
    for text in ["", "GE", "PRI * HTTP", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = begin(&served, text);
        let started = Instant::now();
        let _ = client.read_to_end(&mut Vec::new());
        assert!(started.elapsed() < LONG, "{text:?}: still waiting");
    }
    assert_alive(&served, "connections without a request");
}

#[test]
fn bodies_must_not_stall() {
    let served = served();
    for path in ["/query", "/update", "/store?default"] {
        let media_type = match path {
            "/query" => "application/sparql-query",
            "/update" => "application/sparql-update",
            _ => "text/turtle",
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n\
             Content-Length: 1000\r\n\r\nASK"
        );
        let mut client = begin(&served, &head);
        let started = Instant::now();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        assert!(started.elapsed() < LONG, "{path}: still waiting");
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{path}: {answer}"
        );
        assert_alive(&served, path);
    }
}

#[test]
fn bodies_must_not_drip() {
    let served = served();
    let head = "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n\
                Content-Length: 1000\r\n\r\n";
    let mut clients: Vec<TcpStream> = (0..50).map(|_| begin(&served, head)).collect();
    let started = Instant::now();
    while !clients.is_empty() {
        assert!(
            started.elapsed() < LONG,
            "{} clients still drip",
            clients.len()
        );
        assert_alive(&served, "dripping bodies");
        std::thread::sleep(Duration::from_millis(50));
        clients.retain_mut(|client| client.write_all(b" ").is_ok() && !is_closed(client));
    }
}

#[test]
fn answers_must_be_taken() {
    let served = served();
    // Some 60 MB of rows: more than the buffers between client and server hold.
    let values: String = (0..100).map(|n| format!(" {n}")).collect();
    let query = format!(
        "SELECT * {{ VALUES ?a {{{values}}} VALUES ?b {{{values}}} VALUES ?c {{{values}}} }}"
    );
    let head = format!(
        "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n\
         Accept: application/sparql-results+json\r\nContent-Length: {}\r\n\r\n{query}",
        query.len()
    );
    // Twice as many as may run at once.
    let clients: Vec<TcpStream> = (0..4).map(|_| begin(&served, &head)).collect();
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    assert_alive(&served, "answers that nobody takes");
    assert!(started.elapsed() < LONG);
    // What was begun for them ends, one pair after the other: all of them are cut off.
    std::thread::sleep(Duration::from_secs(3));
    for mut client in clients {
        let mut taken = Vec::new();
        let ended = client.read_to_end(&mut taken);
        assert!(
            ended.is_err() || !taken.ends_with(b"0\r\n\r\n"),
            "a cut answer looks whole"
        );
    }
}

fn begin(served: &Served, text: &str) -> TcpStream {
    let mut client = wire::connect(served.address).expect("a connection");
    client.write_all(text.as_bytes()).expect("sent");
    client
}

/// Whether the server has closed the connection, or answered.
fn is_closed(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).expect("a socket");
    let closed = match client.read(&mut [0; 100]) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    client.set_nonblocking(false).expect("a socket");
    closed
}

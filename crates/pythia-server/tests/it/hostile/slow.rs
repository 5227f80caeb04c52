//! Clients that take their time, so that a server keeps something for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pythia_server::config::{Config, Proxies};

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

/// Reads once, whatever signals this process gets meanwhile.
fn take(reader: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A request for some 400 MB of rows, by this client of a proxy.
fn long_answer(client: &str) -> String {
    let values: String = (0..120).map(|n| format!(" {n}")).collect();
    let query = format!(
        "SELECT * {{ VALUES ?a {{{values}}} VALUES ?b {{{values}}} VALUES ?c {{{values}}} }}"
    );
    format!(
        "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n\
         Accept: application/sparql-results+json\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{query}",
        query.len()
    )
}

/// A server with two places, whose clients have the addresses that they say.
fn behind_a_proxy(change: impl FnOnce(&mut Config)) -> Served {
    Served::configured(super::DATA, |config| {
        config.trusted_proxies = Proxies::parse(&["127.0.0.0/8"]).expect("networks");
        config.limits.running = 2;
        config.limits.queue_time = 12 * LONG;
        config.limits.timeout = 60 * LONG;
        change(config);
    })
}

fn value(served: &Served, name: &str) -> u64 {
    let text = served.get("/$/metrics", &[]).text().to_owned();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Clients that read next to nothing of long answers, six times as many as there are places: everybody else is
/// answered, and they have their answers still.
#[test]
fn slow_readers_leave_their_turns_to_others() {
    let served = behind_a_proxy(|_| ());
    let mut readers: Vec<TcpStream> = (0..12)
        .map(|_| begin(&served, &long_answer("127.0.0.1")))
        .collect();
    let until = Instant::now() + 12 * LONG;
    while value(&served, "pythia_answers_parked ") < 12 {
        assert!(Instant::now() < until, "some still have their turns");
        for reader in &mut readers {
            take(reader, &mut [0; 512]).expect("something");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    for client in ["192.0.2.1", "127.0.0.1", "2001:db8::1"] {
        for _ in 0..20 {
            let headers = [("x-forwarded-for", client)];
            let answer = served.get("/query?query=ASK%7B%3Fs%20%3Fp%20%3Fo%7D", &headers);
            assert_eq!(answer.status, 200, "{client}: {}", answer.text());
        }
    }
    assert_eq!(value(&served, "pythia_requests_running "), 0);
    assert_eq!(value(&served, "pythia_answers_given_up_total "), 0);
    // One of them makes up its mind to read, and gets all of its answer.
    let mut whole = readers.pop().expect("some");
    drop(readers);
    let (mut taken, mut end) = (0, Vec::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = take(&mut whole, &mut buffer).expect("the answer");
        if count == 0 {
            break;
        }
        taken += count;
        end.extend_from_slice(&buffer[..count]);
        end.drain(..end.len().saturating_sub(5));
    }
    assert_eq!(end, b"0\r\n\r\n", "it ends after {taken} bytes");
    assert!(taken > 100_000_000, "{taken} bytes");
}

#[test]
fn a_client_below_the_minimum_pace_loses_its_answer_and_sees_that() {
    let served = behind_a_proxy(|config| {
        // The kernel takes some megabytes at once, and the server sees nothing of them being read: less than these
        // three seconds' worth, at the pace of the reader below.
        config.limits.stall_time = Duration::from_secs(3);
        config.limits.header_time = Duration::from_millis(500);
        config.limits.answer_bytes_per_second = 100 << 20;
    });
    let mut reader = begin(&served, &long_answer("127.0.0.1"));
    let (mut taken, mut ended) = (Vec::new(), false);
    let until = Instant::now() + 6 * LONG;
    while !ended && Instant::now() < until {
        let mut piece = vec![0; 256 << 10];
        match take(&mut reader, &mut piece) {
            Ok(0) | Err(_) => ended = true,
            Ok(count) => taken.extend_from_slice(&piece[..count]),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(ended, "it is still read");
    assert!(!taken.ends_with(b"0\r\n\r\n"), "a cut answer looks whole");
    assert_eq!(value(&served, "pythia_answers_given_up_total "), 1);
    assert_eq!(value(&served, "pythia_answers_parked "), 0);
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

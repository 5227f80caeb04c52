//! What no good client sends: each is refused with a status of 4xx, or the connection is closed where
//! HTTP leaves no other way; and the next request is answered.

mod flood;
mod malformed;
mod slow;
mod sparql;

use std::io::{BufReader, Read, Write};
use std::time::Duration;

use pythia_server::config::Config;

use crate::support::Served;
use crate::wire::{self, Answer, Request};

const DATA: &str = "
    PREFIX ex: <http://ex.org/>
    ex:a ex:p ex:b, ex:c ; ex:name 'Ann' . ex:b ex:p ex:c ; ex:name 'Bob'@en .
    GRAPH ex:g { ex:a ex:q 7 }
";

/// Limits that are soon reached.
fn strict(config: &mut Config) {
    let limits = &mut config.limits;
    limits.timeout = Duration::from_secs(5);
    limits.text_bytes = 64 << 10;
    limits.upload_bytes = 1 << 20;
    limits.receive_bytes = 4 << 20;
    limits.url_bytes = 8 << 10;
    limits.header_time = Duration::from_millis(500);
    limits.stall_time = Duration::from_millis(500);
    limits.running = 2;
    limits.queue_time = Duration::from_secs(5);
}

fn served() -> Served {
    Served::configured(DATA, strict)
}

/// What comes back for these bytes, after which nothing more is sent, until the server closes the
/// connection; nothing if it does so without an answer.
fn send(served: &Served, bytes: &[u8]) -> Option<Answer> {
    let mut connection = wire::connect(served.address).expect("a connection");
    // A server may refuse before it has read all.
    let _ = connection.write_all(bytes);
    let mut received = Vec::new();
    let _ = connection.read_to_end(&mut received);
    if received.is_empty() {
        return None;
    }
    let is_head = bytes.starts_with(b"HEAD ");
    let answer = wire::read(&mut BufReader::new(received.as_slice()), is_head);
    Some(answer.expect("a whole answer, or none"))
}

/// The server refuses these bytes, and lives on.
fn assert_refused(served: &Served, bytes: &[u8]) {
    let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    if let Some(answer) = send(served, bytes) {
        assert!(
            (400..500).contains(&answer.status),
            "{} {} for {:?}",
            answer.status,
            answer.text(),
            shown()
        );
    }
    assert_alive(served, &shown());
}

/// The server answers a good request.
fn assert_alive(served: &Served, after: &str) {
    let answer = Request::new("GET", "/query?query=ASK%20%7B%20%3Fs%20%3Fp%20%3Fo%20%7D");
    let answer = answer.send(served.address);
    let answer = answer.unwrap_or_else(|error| panic!("{error} after {after:?}"));
    assert_eq!(answer.status, 200, "{} after {after:?}", answer.text());
    assert!(answer.text().contains("true"), "{}", answer.text());
}

/// Numbers that look random and are the same every time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % count as u64).expect("below a usize")
    }
}

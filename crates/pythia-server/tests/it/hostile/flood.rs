//! More than a server should take: of bytes, of headers, of connections, of streams.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::{assert_alive, assert_refused, send, served, strict};
use crate::support::Served;
use crate::wire::{self, Request};

const POST: &str =
    "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n";

#[test]
fn urls_and_headers_have_an_end() {
    let served = served();
    for (length, status) in [(10_000, 414), (60_000, 414), (200_000, 0), (5_000_000, 0)] {
        let target = format!("/query?query=ASK%7B%7D&x={}", "x".repeat(length));
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = send(&served, request.as_bytes());
        // Where a whole head would be too much already, the connection may just be closed.
        if let Some(answer) = answer {
            let refused = [414, 431].contains(&answer.status);
            assert!(refused, "{length}: {} {}", answer.status, answer.text());
        } else {
            assert_eq!(status, 0, "{length}: no answer");
        }
    }
    let big = format!("X: {}\r\n", "x".repeat(200_000));
    let many = "X: x\r\n".repeat(10_000);
    let names: String = (0..5000).map(|n| format!("X-{n}: x\r\n")).collect();
    for headers in [big, many, names] {
        let request =
            format!("GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        assert_refused(&served, request.as_bytes());
    }
}

#[test]
fn bodies_have_an_end() {
    let served = served();
    // What is announced is refused before it is sent.
    let head = format!("{POST}Content-Length: 1000000000000\r\n\r\n");
    let mut connection = wire::connect(served.address).expect("a connection");
    connection.write_all(head.as_bytes()).expect("sent");
    connection.write_all(&[b' '; 70_000]).expect("sent");
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    // What goes on and on is refused on the way.
    for path in [
        "/query",
        "/update",
        "/store?default",
        "/store?graph=http://ex.org/endless",
    ] {
        let kind = match path {
            "/query" => "application/sparql-query",
            "/update" => "application/sparql-update",
            _ => "application/n-triples",
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let mut connection = wire::connect(served.address).expect("a connection");
        connection.write_all(head.as_bytes()).expect("sent");
        let chunk = format!("{:x}\r\n{}\r\n", 4096, "#".repeat(4095) + "\n");
        // Much more than the system keeps for both ends of a connection.
        let sent = (0..20_000).take_while(|_| connection.write_all(chunk.as_bytes()).is_ok());
        assert!(sent.count() < 20_000, "{path}: 80 MB were taken");
        assert_alive(&served, path);
    }
    let left = Request::new("GET", "/store?graph=http://ex.org/endless").send(served.address);
    assert_eq!(left.expect("an answer").status, 404);
}

#[test]
fn what_is_small_when_packed_is_measured_unpacked() {
    let served = served();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..100 {
        packer.write_all(&[b'\n'; 1 << 20]).expect("memory");
    }
    let packed = packer.finish().expect("memory");
    for (path, media_type) in [
        ("/query", "application/sparql-query"),
        ("/update", "application/sparql-update"),
        ("/query", "application/x-www-form-urlencoded"),
        ("/store?graph=http://ex.org/bomb", "text/turtle"),
    ] {
        let request = Request::new("POST", path)
            .header("Content-Type", media_type)
            .header("Content-Encoding", "gzip")
            .body(packed.clone());
        let answer = request.send(served.address).expect("an answer");
        let refused = [413, 415].contains(&answer.status);
        assert!(refused, "{path}: {} {}", answer.status, answer.text());
    }
    assert_alive(&served, "a bomb");
}

/// A zstd frame that holds a text as it is, and says that a window of 2^n bytes is needed for it.
fn zstd_frame(window_log: u8, text: &str) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
    let last_raw_block = (text.len() as u32) << 3 | 1;
    frame.extend(&last_raw_block.to_le_bytes()[..3]);
    frame.extend(text.as_bytes());
    frame
}

#[test]
fn zstd_windows_are_limited_and_share_the_memory_for_what_is_received() {
    let served = Served::configured(super::DATA, |config| {
        strict(config);
        config.limits.upload_bytes = 16 << 20;
        config.limits.receive_bytes = 32 << 20;
    });
    let send = |path: &str, body: Vec<u8>| {
        Request::new("POST", path)
            .header("Content-Type", "text/turtle")
            .header("Content-Encoding", "zstd")
            .body(body)
            .send(served.address)
            .expect("an answer")
    };
    let path = "/store?graph=http://ex.org/packed";
    let text = "<http://ex.org/a> <http://ex.org/b> 1 .";
    let answer = send(path, zstd_frame(27, text));
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.text().contains("--long=23"), "{}", answer.text());
    let two = [zstd_frame(12, text), zstd_frame(27, text)].concat();
    assert_eq!(send(path, two).status, 413, "a later frame");
    let cut = &zstd_frame(20, text)[..30];
    assert_eq!(send(path, cut.to_vec()).status, 400);

    // Frames one after the other, a skipped one, a window of exactly 8 MiB, and texts as long as the decoder's pieces.
    let skipped = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let full = |bytes: usize| zstd::encode_all(" ".repeat(bytes).as_bytes(), 3).expect("packed");
    let whole_window = {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
        frame.extend((8_u32 << 20).to_le_bytes());
        let blocks = (8 << 20) / (128 << 10);
        for block in 1..=blocks {
            let repeated = (128_u32 << 10) << 3 | 2 | u32::from(block == blocks);
            frame.extend(&repeated.to_le_bytes()[..3]);
            frame.push(b' ');
        }
        frame
    };
    for body in [
        [zstd_frame(19, text), zstd_frame(12, text)].concat(),
        [zstd_frame(12, text), zstd_frame(21, text)].concat(),
        [&skipped[..], &zstd_frame(12, text)].concat(),
        [whole_window, zstd_frame(12, text)].concat(),
        [zstd_frame(12, text), full(64 << 10)].concat(),
        [zstd_frame(12, text), full(256 << 10)].concat(),
    ] {
        let answer = send(path, body);
        assert!(
            [200, 201, 204].contains(&answer.status),
            "{}",
            answer.text()
        );
    }
    let stored = Request::new("GET", path)
        .send(served.address)
        .expect("an answer");
    assert!(
        stored.text().contains("http://ex.org/b"),
        "{}",
        stored.text()
    );
    assert_alive(&served, "windows");
}

#[test]
fn connections_that_say_nothing_are_not_in_the_way() {
    let served = served();
    let idle: Vec<_> = (0..300)
        .map(|_| wire::connect(served.address).expect("a connection"))
        .collect();
    let started = Instant::now();
    assert_alive(&served, "300 idle connections");
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(idle);
}

/// HTTP/2 streams that are opened and cancelled at once, as in CVE-2023-44487.
#[test]
fn streams_that_are_cancelled_at_once_end_their_connection() {
    let served = served();
    let mut connection = wire::connect(served.address).expect("a connection");
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, b""));
    connection.write_all(&bytes).expect("sent");
    // :method GET, :scheme http and :path / of the static table, and an :authority.
    let mut headers = vec![0x82, 0x86, 0x84, 0x41, 9];
    headers.extend(b"localhost");
    let mut sent = 0;
    // More than the buffers of a connection hold: the kernel takes some megabytes before the server reads any.
    for stream in (1..4_000_000).step_by(2) {
        let mut bytes = frame(1, 0x5, stream, &headers);
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        if connection.write_all(&bytes).is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent < 2_000_000, "all streams were taken");
    assert_alive(&served, "rapid resets");
}

#[test]
fn frames_of_nonsense_end_their_connection() {
    let served = served();
    for frames in [
        frame(1, 0x5, 2, &[0x82, 0x86, 0x84]), // a stream of the server's
        frame(1, 0x5, 1, &[0xff; 64]),         // no such index
        frame(9, 0x4, 1, &[0x82]),             // a continuation of nothing
        frame(0, 0, 0, &[0; 16]),              // data on the connection itself
        frame(8, 0, 0, &[0; 4]),               // a window that grows by nothing
        frame(8, 0, 0, &0x7fff_ffff_u32.to_be_bytes()), // and by too much
        frame(0x42, 0xff, 7, &[0; 100]),       // of no known kind
        vec![0xff; 100],                       // longer than allowed
    ] {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, b""));
        bytes.extend(&frames);
        let mut connection = wire::connect(served.address).expect("a connection");
        let _ = connection.write_all(&bytes);
        let _ = connection.shutdown(std::net::Shutdown::Write);
        let _ = connection.read_to_end(&mut Vec::new());
        assert_alive(&served, "frames");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

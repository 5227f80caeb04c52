//! Graphs that many write at once, very many graphs, and graphs that are written again and again.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use crate::support::{Answer, Served};

const GRAPH: &str = "/store?graph=http://e/g";

fn assert_is(answer: &Answer, status: u16) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
}

/// Returns the number that a query counts.
fn count(served: &Served, query: &str) -> usize {
    let answer = served.query(query, "text/csv");
    assert_is(&answer, 200);
    let number = answer.text().lines().nth(1).expect("a row");
    number.trim().parse().expect("a number")
}

/// Makes a body of this many triples about a name; a long text makes it one that is read while it is received.
fn body(name: &str, triples: usize, length: usize) -> String {
    let text = "x".repeat(length);
    let mut body = String::new();
    for number in 0..triples {
        let _ = writeln!(body, "<http://e/{name}> <http://e/p{number}> \"{text}\" .");
    }
    body
}

/// Sends a write of the graph under a condition, by one of several methods.
fn write(served: &Served, writer: usize, tag: &str, round: usize, is_long: bool) -> u16 {
    let name = format!("writer{writer}");
    // Each round has other quads: a write that changes nothing does not conflict.
    let data = match is_long {
        true => body(&name, 1100, 1000 + round),
        false => body(&name, 3, 1 + round),
    };
    let (method, media_type, data) = match writer % 4 {
        0 | 1 => ("PUT", "application/n-triples", data),
        2 => ("POST", "application/n-triples", data),
        _ => {
            let update = format!("INSERT DATA {{ {data} }}");
            ("PATCH", "application/sparql-update", update)
        }
    };
    let headers = [("content-type", media_type), ("if-match", tag)];
    let answer = served.send(method, GRAPH, &headers, data.as_bytes());
    answer.status.as_u16()
}

#[test]
fn of_many_writes_with_the_same_tag_one_succeeds() {
    const WRITERS: usize = 8;
    let served = Served::with("<http://e/g> { <http://e/a> <http://e/p> 1 }");
    for round in 0..6 {
        let read = served.get(GRAPH, &[]);
        let tag = read.header("etag").expect("a tag");
        let writers = 0..WRITERS;
        let is_long = |writer: usize| round % 3 == 2 && writer < 4;
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let served = &served;
            let threads: Vec<_> = writers
                .map(|writer| {
                    scope.spawn(move || write(served, writer, tag, round, is_long(writer)))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.collect::<Result<_, _>>().expect("no panic")
        });
        let winners: Vec<usize> = (0..WRITERS).filter(|&at| statuses[at] == 204).collect();
        assert_eq!(winners.len(), 1, "round {round}: {statuses:?}");
        // 409: a body that can be read only once conflicted; nothing was written.
        let others = statuses.iter().filter(|&&status| status != 204);
        for status in others {
            assert!([409, 412].contains(status), "round {round}: {statuses:?}");
        }
        let query = "SELECT DISTINCT ?s { GRAPH <http://e/g> { ?s ?p ?o } }";
        let text = served.query(query, "text/csv").text().to_owned();
        let winner = format!("http://e/writer{}\r\n", winners[0]);
        assert!(text.contains(&winner), "round {round}: {text}");
        let others = text.matches("http://e/writer").count();
        // PUT replaces what was there; the other methods add to it.
        assert!(winners[0] % 4 > 1 || others == 1, "round {round}: {text}");
    }
}

/// Of requests that make the same graph, one makes it; of those that remove it, one removes it.
#[test]
fn a_graph_is_created_once_and_removed_once() {
    let served = Served::with("");
    for round in 0..4 {
        let put = |writer: usize| {
            let headers = [
                ("content-type", "application/n-triples"),
                ("if-none-match", "*"),
            ];
            let data = body(&format!("writer{writer}"), 2, 1);
            served.send("PUT", GRAPH, &headers, data.as_bytes()).status
        };
        let statuses = at_once(put);
        let created = statuses.iter().filter(|&&status| status == 201).count();
        assert_eq!(created, 1, "round {round}: {statuses:?}");
        let tag = served
            .get(GRAPH, &[])
            .header("etag")
            .expect("a tag")
            .to_owned();
        let delete = |_| {
            served
                .send("DELETE", GRAPH, &[("if-match", &tag)], b"")
                .status
        };
        let statuses = at_once(delete);
        let removed = statuses.iter().filter(|&&status| status == 204).count();
        assert_eq!(removed, 1, "round {round}: {statuses:?}");
        assert_is(&served.get(GRAPH, &[]), 404);
    }
}

/// Returns the statuses of several requests that are sent at once.
fn at_once(send: impl Fn(usize) -> ureq::http::StatusCode + Sync) -> Vec<u16> {
    std::thread::scope(|scope| {
        let send = &send;
        let threads: Vec<_> = (0..8).map(|at| scope.spawn(move || send(at))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|status| status.expect("no panic").as_u16())
            .collect()
    })
}

/// Returns the bytes of all files of a store but the log, and the number of its runs.
fn space(served: &Served) -> (u64, usize) {
    let (mut bytes, mut runs) = (0, 0);
    let mut folders = vec![served.store()];
    while let Some(folder) = folders.pop() {
        // The server may remove a folder meanwhile.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            runs += usize::from(name.starts_with("run-"));
            match entry.metadata() {
                Ok(data) if data.is_dir() && name != "log" => folders.push(entry.path()),
                Ok(data) if data.is_file() => bytes += data.len(),
                _ => {}
            }
        }
    }
    (bytes, runs)
}

#[test]
fn a_graph_that_is_written_and_removed_again_and_again_takes_no_more_space() {
    let served = Served::configured("<http://e/h> { <http://e/a> <http://e/p> 1 }", |config| {
        // Little, so that changes go to the device every few rounds.
        config.datasets[0].write.changes_memory_bytes = 1 << 20;
    });
    let (mut bytes_max, mut runs_max) = ([0, 0], 0);
    const ROUNDS: usize = 120;
    for round in 0..ROUNDS {
        let data = body(&format!("s{}", round % 7), 300, 8);
        let headers = [("content-type", "application/n-triples")];
        let put = served.send("PUT", GRAPH, &headers, data.as_bytes());
        assert_is(&put, 201);
        if round % 10 == 0 {
            let query = "SELECT (COUNT(*) AS ?n) { GRAPH <http://e/g> { ?s ?p ?o } }";
            assert_eq!(count(&served, query), 300);
        }
        match round % 2 {
            0 => assert_is(&served.send("DELETE", GRAPH, &[], b""), 204),
            _ => assert_is(&served.update("DROP GRAPH <http://e/g>"), 204),
        }
        assert_is(&served.get(GRAPH, &[]), 404);
        let (bytes, runs) = space(&served);
        let half = round * 2 / ROUNDS;
        bytes_max[half] = bytes_max[half].max(bytes);
        runs_max = runs_max.max(runs);
    }
    assert_eq!(
        count(&served, "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }"),
        1
    );
    assert!(runs_max <= 34, "{runs_max} runs");
    // Twice as many rounds take as much space.
    assert!(
        bytes_max[1] < 2 * bytes_max[0].max(1 << 20),
        "{bytes_max:?}"
    );
    let report = served.stopped();
    assert_eq!(report, [""; 0]);
}

#[test]
fn each_of_very_many_graphs_is_read_replaced_and_removed() {
    const GRAPHS: usize = 20_000;
    let quads: String = (0..GRAPHS)
        .map(|n| format!("<http://e/g{n}> {{ <http://e/s> <http://e/p> {n} }}\n"))
        .collect();
    let served = Served::with(&quads);
    let distinct = "SELECT (COUNT(DISTINCT ?g) AS ?n) { GRAPH ?g { ?s ?p ?o } }";
    assert_eq!(count(&served, distinct), GRAPHS);
    let one = "SELECT ?o { GRAPH <http://e/g12345> { ?s ?p ?o } }";
    assert_eq!(count(&served, one), 12_345);
    let list = served.query("SELECT DISTINCT ?g { GRAPH ?g { } }", "text/csv");
    let names: BTreeSet<&str> = list.text().lines().skip(1).collect();
    assert_eq!(names.len(), GRAPHS);
    let path = |n: usize| format!("/store?graph=http://e/g{n}");
    let headers = [("content-type", "application/n-triples")];
    let data = body("s", 3, 1);
    assert_is(
        &served.send("PUT", &path(7), &headers, data.as_bytes()),
        204,
    );
    assert_is(
        &served.send("PUT", &path(GRAPHS), &headers, data.as_bytes()),
        201,
    );
    assert_is(&served.send("DELETE", &path(8), &[], b""), 204);
    assert_is(&served.get(&path(8), &[]), 404);
    assert_eq!(count(&served, distinct), GRAPHS);
    let all = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }";
    assert_eq!(count(&served, all), GRAPHS + 4);
    assert_is(&served.update("MOVE <http://e/g9> TO <http://e/g10>"), 204);
    assert_eq!(count(&served, distinct), GRAPHS - 1);
    assert_is(&served.update("DROP ALL"), 204);
    assert_eq!(count(&served, all), 0);
    assert_is(&served.get(&path(7), &[]), 404);
    assert_eq!(served.stopped(), [""; 0]);
}

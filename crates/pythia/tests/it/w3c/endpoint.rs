//! Endpoints of the SPARQL protocol on this machine, which stand in for those that the federation
//! tests name.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use form_urlencoded::parse;
use pythia::{Database, HttpService, QueryOptions, ResultFormat};

use super::nquads;
use crate::support::database;

/// An endpoint of the tests that nobody serves.
const INVALID: &str = "http://invalid.endpoint.org/sparql";

/// The endpoints of one test. They are served until the process ends.
pub(crate) struct Endpoints {
    /// The IRI in the test's files, and the one that is served here.
    names: Vec<(String, String)>,
}

impl Endpoints {
    pub(crate) fn serve(services: &[(String, PathBuf)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let local = |place: usize| format!("http://{address}/{place}");
        let mut names: Vec<(String, String)> = services
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (name.clone(), local(place)))
            .collect();
        names.push((INVALID.to_owned(), local(services.len())));
        let endpoints = Self { names };
        let served: Vec<Database> = services
            .iter()
            .map(|(_, file)| {
                database(&endpoints.to_local(&nquads(std::slice::from_ref(file), &[])))
            })
            .collect();
        let served = Arc::new(served);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Answering may call another endpoint of the test.
                let served = Arc::clone(&served);
                std::thread::spawn(move || reply(&stream, &served));
            }
        });
        endpoints
    }

    /// The text with the endpoints served here in place of those of the test.
    pub(crate) fn to_local(&self, text: &str) -> String {
        let replace = |text: String, (name, local): &(String, String)| text.replace(name, local);
        self.names.iter().fold(text.to_owned(), replace)
    }

    /// The reverse.
    pub(crate) fn original(&self, text: &str) -> String {
        let replace = |text: String, (name, local): &(String, String)| text.replace(local, name);
        self.names.iter().fold(text.to_owned(), replace)
    }
}

fn reply(mut stream: &TcpStream, served: &[Database]) {
    let (path, query) = read_request(stream);
    let place: Option<usize> = path.trim_start_matches('/').parse().ok();
    let database = place.and_then(|place| served.get(place));
    let answer = database
        .ok_or("nothing here".to_owned())
        .and_then(|database| {
            let options = QueryOptions {
                service: Some(Arc::new(HttpService::default())),
                ..QueryOptions::default()
            };
            let results = database
                .prepare(&query, &options)
                .and_then(|prepared| prepared.execute())
                .map_err(|error| error.to_string())?;
            let mut body = Vec::new();
            pythia::write_results(results, ResultFormat::Json, &mut body)
                .map_err(|error| error.to_string())?;
            Ok(body)
        });
    let (status, body) = match answer {
        Ok(body) => ("200 OK", body),
        Err(error) => ("404 Not Found", error.into_bytes()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/sparql-results+json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The client may be gone.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

/// The path and the query of a request: by GET, by POST of a form, or by POST of the query.
fn read_request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request");
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        lines.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let bytes = header("content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).expect("the body");
    let body = String::from_utf8(body).expect("text");
    let target = lines[0].split(' ').nth(1).expect("a target").to_owned();
    let (path, parameters) = target.split_once('?').unwrap_or((&target, ""));
    let is_query = header("content-type").is_some_and(|kind| kind.contains("sparql-query"));
    let query = if is_query {
        body
    } else {
        let mut pairs = parse(parameters.as_bytes()).chain(parse(body.as_bytes()));
        let query = pairs.find(|(name, _)| name == "query");
        query.map_or_else(String::new, |(_, value)| value.into_owned())
    };
    (path.to_owned(), query)
}

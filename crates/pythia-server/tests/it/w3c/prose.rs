//! The graph store tests of 2012, which are exchanges written as text in comments. Their successors
//! replace them; they still say what clients of those days expect. One store lives through all of
//! them, in order.

use oxrdf::NamedNode;

use super::manifest::{Exchange, Expected, Manifest, Status, local_name};
use crate::wire::Request;

const COMMENT: &str = "http://www.w3.org/2000/01/rdf-schema#comment";

/// What the comments have wrong: in which test, what stands there, and what is right.
const ERRATA: [(&str, &str, &str); 8] = [
    // The default graph is always there: putting it may create nothing.
    ("put__default_graph", "201 Created", "201 or 204"),
    // Turtle ends a statement with a full stop.
    (
        "post__existing_graph",
        "foaf:name \"Jane Doe\"",
        "foaf:name \"Jane Doe\" .",
    ),
    (
        "post__multipart_formdata",
        "foaf:familyName \"Doe\"",
        "foaf:familyName \"Doe\" .",
    ),
    (
        "post__multipart_formdata",
        "foaf:givenName \"Jane\"",
        "foaf:givenName \"Jane\" .",
    ),
    // The graph was replaced by Jane's, and her name was posted.
    ("get_of_post__existing_graph", "John Doe", "Jane Doe"),
    (
        "get_of_post__existing_graph",
        "a foaf:Person;",
        "a foaf:Person; foaf:name \"Jane Doe\";",
    ),
    // Without Accept any format is right.
    (
        "get_of_post__multipart_formdata",
        "Host: $HOST$",
        "Accept: text/turtle",
    ),
    (
        "head_on_an_existing_graph",
        "Host: $HOST$",
        "Accept: text/turtle",
    ),
];

/// What must have been done before a test, and that no test before it does.
const BEFORE: [(&str, &str, &str, &str); 2] = [
    (
        "delete__existing_graph",
        "PUT",
        "$GRAPHSTORE$/person/2.ttl",
        "<http://example.org/s> <http://example.org/p> 1 .",
    ),
    ("get_of_post__after_noop", "POST", "$NEWPATH$", ""),
];

/// The exchanges of a test. They name `$HOST$`, `$GRAPHSTORE$` and `$NEWPATH$`.
pub(super) fn exchanges(manifest: &Manifest, entry: &NamedNode) -> Vec<Exchange> {
    let name = local_name(entry);
    let comments = manifest.texts(entry, COMMENT);
    let comment = comments
        .into_iter()
        .find(|comment| comment.contains("#### Request"))
        .unwrap_or_else(|| panic!("{name} describes no request"));
    let mut exchanges: Vec<Exchange> = BEFORE
        .iter()
        .filter(|(test, ..)| *test == name)
        .map(|(_, method, target, body)| before(method, target, body))
        .collect();
    exchanges.push(exchange(name, &corrected(name, comment)));
    exchanges
}

fn corrected(name: &str, mut comment: String) -> String {
    for (test, wrong, right) in ERRATA {
        if test == name {
            assert!(comment.contains(wrong), "{name} no longer has {wrong:?}");
            comment = comment.replace(wrong, right);
        }
    }
    comment
}

fn before(method: &str, target: &str, body: &str) -> Exchange {
    let request = Request::new(method, target).header("content-type", "text/turtle");
    let expected = Expected {
        statuses: vec![Status::Class(2)],
        ..Expected::default()
    };
    Exchange {
        request: request.body(body),
        expected,
    }
}

fn exchange(name: &str, comment: &str) -> Exchange {
    let (request, answer) = comment
        .split_once("#### Response")
        .unwrap_or_else(|| panic!("{name} expects nothing"));
    let (_, request) = request.split_once("#### Request").expect("a request");
    let (line, headers, body) = message(request);
    let mut words = line.split(' ');
    let mut request = Request::new(
        words.next().expect("a method"),
        words.next().expect("a target"),
    );
    request.headers = headers;
    request.headers.retain(|(header, _)| header != "Host");
    let is_multipart = request
        .headers
        .iter()
        .any(|(_, value)| value.starts_with("multipart/"));
    request.body = match body {
        body if body.trim().is_empty() => None,
        // Lines of MIME end with CR LF, which a comment cannot show.
        body if is_multipart => Some(body.replace('\n', "\r\n").into_bytes()),
        body => Some(body.into_bytes()),
    };
    let (line, headers, body) = message(answer);
    let value = |wanted: &str| {
        let found = headers.iter().find(|(header, _)| header == wanted);
        found.map(|(_, value)| value.clone())
    };
    let expected = Expected {
        statuses: statuses(&line),
        location: value("Location"),
        content_type: value("Content-Type"),
        body: Some(body).filter(|body| !body.trim().is_empty()),
        ..Expected::default()
    };
    Exchange { request, expected }
}

/// The numbers of a status line. Whether success has a body is the server's choice.
fn statuses(line: &str) -> Vec<Status> {
    let numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let mut statuses: Vec<Status> = numbers.map(Status::One).collect();
    if statuses.contains(&Status::One(200)) || statuses.contains(&Status::One(204)) {
        statuses.extend([Status::One(200), Status::One(204)]);
    }
    statuses
}

/// First line, headers and body of an indented message.
fn message(text: &str) -> (String, Vec<(String, String)>, String) {
    let lines = text
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line.trim()));
    let mut lines = lines.skip_while(|line| line.trim().is_empty());
    let first = lines.next().expect("a first line").trim_end().to_owned();
    let mut headers = Vec::new();
    for line in lines.by_ref().take_while(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').expect("a header");
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let body: Vec<&str> = lines.collect();
    (first, headers, body.join("\n"))
}

//! Who may do what, over HTTP.

use pythia_server::config::{
    Hosts, RoleConfig, RoleLimits, SecurityConfig, TokenConfig, UserConfig,
};
use pythia_server::{hash_password, new_token};

use crate::support::{Answer, Served};

const DATA: &str = "
    PREFIX : <http://e/>
    :a :p :b .
    :open { :a :p :c }
    :hidden { :a :p :secret . :b :p :secret }
";

/// `ada:enchantress`, who may read and write `open` and read the default graph.
const ADA: &str = "Basic YWRhOmVuY2hhbnRyZXNz";

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A server with Ada, a token for all of it, and whom it does not know.
fn served(anonymous: Option<&str>) -> (Served, String) {
    let (token, sha256) = new_token();
    let role = |name: &str, read: &[&str], write: &[&str]| RoleConfig {
        name: name.to_owned(),
        datasets: owned(&["ds"]),
        read: owned(read),
        write: owned(write),
        ..RoleConfig::default()
    };
    let security = SecurityConfig {
        anonymous: anonymous.map(str::to_owned),
        users: vec![UserConfig {
            name: "ada".to_owned(),
            password_hash: hash_password("enchantress").expect("a hash"),
            roles: owned(&["editor"]),
        }],
        tokens: vec![TokenConfig {
            name: "robot".to_owned(),
            sha256,
            roles: owned(&["all"]),
        }],
        roles: vec![
            role("editor", &["default"], &["http://e/open"]),
            role("all", &["*"], &["*"]),
            role("guest", &["default"], &[]),
        ],
        ..SecurityConfig::default()
    };
    let served = Served::configured(DATA, |config| config.security = security);
    (served, format!("Bearer {token}"))
}

fn ask(served: &Served, query: &str, authorization: &str) -> Answer {
    let headers = [
        ("content-type", "application/sparql-query"),
        ("accept", "text/csv"),
        ("authorization", authorization),
    ];
    let known = usize::from(!authorization.is_empty());
    served.send("POST", "/ds/query", &headers[..2 + known], query.as_bytes())
}

fn update(served: &Served, update: &str, authorization: &str) -> Answer {
    let headers = [
        ("content-type", "application/sparql-update"),
        ("authorization", authorization),
    ];
    served.send("POST", "/ds/update", &headers, update.as_bytes())
}

const COUNT: &str = "SELECT (COUNT(*) AS ?n) { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";

#[test]
fn a_query_sees_the_graphs_of_the_roles_of_who_asks() {
    let (served, robot) = served(Some("guest"));
    assert_eq!(ask(&served, COUNT, &robot).text(), "n\r\n4\r\n");
    assert_eq!(ask(&served, COUNT, ADA).text(), "n\r\n2\r\n");
    assert_eq!(ask(&served, COUNT, "").text(), "n\r\n1\r\n");
    let hidden = "/ds/store?graph=http://e/hidden";
    let with = |authorization| served.get(hidden, &[("authorization", authorization)]);
    assert_eq!(with(&robot).status, 200);
    let absent = served.get("/ds/store?graph=http://e/absent", &[("authorization", ADA)]);
    let refused = with(ADA);
    assert_eq!(
        (refused.status, absent.status),
        (absent.status, refused.status)
    );
    assert!(!refused.text().contains("secret"));
}

#[test]
fn an_update_of_a_graph_that_is_not_to_be_written_is_forbidden_and_changes_nothing() {
    let (served, robot) = served(None);
    let allowed = "INSERT DATA { GRAPH <http://e/open> { <http://e/x> <http://e/p> 1 } }";
    assert_eq!(update(&served, allowed, ADA).status, 204);
    for text in [
        "CLEAR ALL",
        "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } BIND(1 AS ?x) } ; CLEAR GRAPH <http://e/hidden>",
        "INSERT DATA { <http://e/x> <http://e/p> 1 }",
        "DROP GRAPH <http://e/absent>",
    ] {
        let answer = update(&served, text, ADA);
        assert_eq!(answer.status, 403, "{text}: {}", answer.text());
    }
    assert_eq!(ask(&served, COUNT, &robot).text(), "n\r\n5\r\n");
    let turtle = [("content-type", "text/turtle"), ("authorization", ADA)];
    let put = |path: &str| {
        served
            .send("PUT", path, &turtle, b"<a:s> <a:p> <a:o> .")
            .status
    };
    assert_eq!(put("/ds/store?graph=http://e/hidden"), 403);
    assert_eq!(put("/ds/store?graph=http://e/open"), 204);
}

/// A public endpoint and trusted users share a server.
#[test]
fn limits_of_a_role_hold_for_its_requests_only() {
    let (token, sha256) = new_token();
    let reader = |name: &str, limits: RoleLimits| RoleConfig {
        name: name.to_owned(),
        datasets: owned(&["*"]),
        read: owned(&["*"]),
        limits,
        ..RoleConfig::default()
    };
    let public = RoleLimits {
        rows: Some(2),
        requests_per_second: Some(3),
        ..RoleLimits::default()
    };
    let security = SecurityConfig {
        anonymous: Some("public".to_owned()),
        tokens: vec![TokenConfig {
            name: "robot".to_owned(),
            sha256,
            roles: owned(&["trusted"]),
        }],
        roles: vec![
            reader("public", public),
            reader("trusted", RoleLimits::default()),
        ],
        ..SecurityConfig::default()
    };
    let served = Served::configured(DATA, |config| config.security = security);
    let robot = format!("Bearer {token}");
    let all = "SELECT * { GRAPH ?g { ?s ?p ?o } }";
    assert_eq!(ask(&served, all, "").status, 413);
    assert_eq!(ask(&served, all, &robot).text().lines().count(), 4);
    let statuses = (0..30).map(|_| ask(&served, "ASK {}", "").status.as_u16());
    let statuses: Vec<u16> = statuses.collect();
    assert!(
        statuses.contains(&200) && statuses.contains(&429),
        "{statuses:?}"
    );
    let mut refused = ask(&served, "ASK {}", "");
    while refused.status == 200 {
        refused = ask(&served, "ASK {}", "");
    }
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(
        refused.text().contains("3 requests per second"),
        "{}",
        refused.text()
    );
    for _ in 0..10 {
        assert_eq!(ask(&served, "ASK {}", &robot).status, 200);
    }
}

#[test]
fn who_is_not_known_is_asked_and_learns_of_no_dataset() {
    let (served, _) = served(None);
    for path in ["/ds/query?query=ASK%7B%7D", "/none/query?query=ASK%7B%7D"] {
        let answer = served.get(path, &[]);
        assert_eq!(answer.status, 401, "{path}");
        let challenges = answer.headers.get_all("www-authenticate").iter();
        let challenges: Vec<&str> = challenges.map(|c| c.to_str().expect("text")).collect();
        assert!(challenges[0].starts_with("Basic realm="), "{challenges:?}");
        assert!(challenges[1].starts_with("Bearer realm="), "{challenges:?}");
    }
    let forbidden = served.get("/none/query?query=ASK%7B%7D", &[("authorization", ADA)]);
    assert_eq!(forbidden.status, 403);
    let wrong = ask(&served, COUNT, "Bearer pythia_guess");
    assert_eq!(wrong.status, 401);
    let challenge = wrong.headers.get_all("www-authenticate").iter().next_back();
    let challenge = challenge
        .and_then(|c| c.to_str().ok())
        .expect("a challenge");
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    let mut last = ask(&served, COUNT, "Bearer pythia_guess");
    for _ in 0..30 {
        last = ask(&served, COUNT, "Bearer pythia_guess");
    }
    assert_eq!(last.status, 429);
    let wait: u64 = last
        .header("retry-after")
        .expect("one")
        .parse()
        .expect("seconds");
    assert!((1..=61).contains(&wait));
}

/// Sends a request as it is written, for what a client would not send; gives the whole answer.
fn raw(served: &Served, request: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(served.address).expect("connected");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A name may stand for this machine's address: what a page of that name asks is refused by the name.
#[test]
fn a_request_for_a_name_that_is_not_listed_is_refused_with_the_setting_to_change() {
    let hosts = |names: &[&str]| Hosts::parse(names).expect("names");
    let served = Served::configured(DATA, |config| config.hosts = hosts(&["db.example"]));
    let port = served.address.port();
    let status = |line: &str, host: &str| {
        let answer = raw(
            &served,
            &format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        );
        answer[9..12].to_owned()
    };
    let ask = "GET /query?query=ASK%7B%7D";
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "db.example",
        "x.localhost",
    ] {
        assert_eq!(status(ask, &format!("{host}:{port}")), "200", "{host}");
    }
    for line in [
        ask,
        "GET /$/metrics",
        "GET /$/ping",
        "POST /$/compact/ds",
        "GET /",
        "GET /nowhere",
        "OPTIONS /query",
    ] {
        assert_eq!(status(line, "evil.example"), "421", "{line}");
    }
    let absolute = format!("GET http://evil.example:{port}/query?query=ASK%7B%7D");
    assert_eq!(status(&absolute, "localhost"), "421");
    assert_eq!(
        status(
            &format!("GET http://db.example:{port}/$/ping"),
            "db.example"
        ),
        "200"
    );
    let update = "CLEAR ALL";
    let told = raw(
        &served,
        &format!(
            "POST /update HTTP/1.1\r\nHost: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n\
             Content-Type: application/sparql-update\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{update}",
            update.len()
        ),
    );
    assert!(told.starts_with("HTTP/1.1 421 "), "{told}");
    assert!(told.contains("hosts = [\"evil.example\"]"), "{told}");
    assert_eq!(served.query(COUNT, "text/csv").text(), "n\r\n4\r\n");
}

#[test]
fn pages_of_other_origins_read_answers_only_if_they_are_listed() {
    let asked = |origins: &[&str], origin: &str| {
        let served = Served::configured(DATA, |config| config.cors_origins = owned(origins));
        let answer = served.get("/query?query=ASK%7B%7D", &[("origin", origin)]);
        assert_eq!(answer.status, 200);
        let allowed = answer.header("access-control-allow-origin");
        let preflight = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        let preflight = served.send("OPTIONS", "/update", &preflight, b"");
        assert_eq!(preflight.header("access-control-allow-origin"), allowed);
        allowed.map(str::to_owned)
    };
    let app = "https://app.example";
    assert_eq!(asked(&[], app), None);
    assert_eq!(asked(&["https://other.example"], app), None);
    assert_eq!(asked(&[app], app).as_deref(), Some(app));
    assert_eq!(asked(&["*"], app).as_deref(), Some(app));
}

#[test]
fn a_page_of_another_origin_may_read_but_not_write() {
    let served = Served::configured(DATA, |config| config.cors_origins = owned(&["*"]));
    let update = b"CLEAR ALL";
    let headers = |origin| {
        [
            ("content-type", "application/sparql-update"),
            ("origin", origin),
        ]
    };
    let foreign = served.send("POST", "/update", &headers("https://evil.example"), update);
    assert_eq!(foreign.status, 403);
    let query = served.get(
        "/query?query=ASK%7B%7D",
        &[("origin", "https://evil.example")],
    );
    assert_eq!(query.status, 200);
    let own = served.url("");
    assert_eq!(
        served
            .send("POST", "/update", &headers(&own), update)
            .status,
        204
    );
}

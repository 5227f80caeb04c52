//! Who may do what, over HTTP.

use pythia_server::config::{RoleConfig, SecurityConfig, TokenConfig, UserConfig};
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
        admin: false,
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

#[test]
fn a_page_of_another_origin_may_read_but_not_write() {
    let served = Served::with(DATA);
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

//! The page's files, as browsers ask for them.

use pythia_server::config::UserConfig;
use pythia_server::hash_password;

use crate::support::Served;

/// The script that the page loads.
fn script(page: &str) -> &str {
    let from = page.find("src=\"./assets/").expect("a script") + "src=\".".len();
    let end = page[from..].find('"').expect("a quote");
    &page[from..from + end]
}

#[test]
fn page_is_served_with_a_policy_that_forbids_foreign_code() {
    let served = Served::with("");
    let page = served.get("/", &[]);
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let script = served.get(script(page.text()), &[]);
    assert_eq!(script.status, 200);
    assert_eq!(
        script.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
}

#[test]
fn page_names_no_other_server() {
    let served = Served::with("");
    let page = served.get("/", &[]);
    assert!(!page.text().contains("//"), "{}", page.text());
}

#[test]
fn files_are_kept_by_their_tags_and_compressed_for_those_who_can() {
    let served = Served::with("");
    let page = served.get("/", &[("accept-encoding", "identity")]);
    let path = script(page.text());
    let plain = served.get(path, &[("accept-encoding", "identity, gzip;q=0")]);
    let keep = plain.header("cache-control").expect("how long");
    assert!(keep.contains("immutable"), "{keep}");
    assert_eq!(plain.header("content-encoding"), None);
    let gzip = served.get(path, &[("accept-encoding", "br, gzip")]);
    // The client of these tests unpacks what it gets, and takes the header away.
    assert_eq!(gzip.body, plain.body);
    let tags = [&plain, &gzip].map(|answer| answer.header("etag").expect("a tag"));
    assert_ne!(tags[0], tags[1]);
    let again = served.get(
        path,
        &[
            ("accept-encoding", "identity"),
            ("if-none-match", &format!("\"x\", W/{}", tags[0])),
        ],
    );
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    assert_eq!(served.get("/assets/nothing.js", &[]).status, 404);
}

#[test]
fn page_knows_the_prefixes_that_the_server_knows() {
    let known = include_str!("../../page/src/rdf/prefixes.ts");
    for (name, iri) in pythia::well_known_prefixes() {
        let line = format!("  {name}: \"{iri}\",\n");
        assert!(known.contains(&line), "{line}");
    }
}

#[test]
fn scripts_are_not_challenged_as_browsers_are() {
    let served = Served::configured("", |config| {
        config.security.users.push(UserConfig {
            name: "ada".to_owned(),
            password_hash: hash_password("enchantress").expect("a hash"),
            roles: Vec::new(),
        });
    });
    let page = served.get("/", &[]);
    assert_eq!(page.status, 200, "the page itself is for everybody");
    for (header, expected) in [("accept", "Basic "), ("x-requested-with", "X-Basic ")] {
        let asked = served.get("/query?query=ASK%7B%7D", &[(header, "*/*")]);
        assert_eq!(asked.status, 401);
        let challenges = asked.headers.get_all("www-authenticate");
        let mut challenges = challenges.iter().map(|c| c.to_str().expect("text"));
        let challenge = challenges.next().expect("a challenge");
        assert!(challenge.starts_with(expected), "{challenge}");
        assert_eq!(challenges.next(), None);
    }
}

//! Conditional requests: entity tags, 304 and 412.

use std::path::Path;
use std::time::Duration;

use pythia_server::config::{ConfigSource, RoleConfig, SecurityConfig, TokenConfig};
use pythia_server::new_token;

use crate::support::{Answer, Served};

const DATA: &str = "
    PREFIX : <http://e/>
    :a :p :b, :c .
    :open { :a :p 1, 2, 3 }
    :hidden { :a :p :secret }
";
const OPEN: &str = "/store?graph=http://e/open";
const HIDDEN: &str = "/store?graph=http://e/hidden";
const NEW: &str = "/store?graph=http://e/new";
/// `SELECT * { GRAPH ?g { ?s ?p ?o } }`
const QUERY: &str = "/query?query=SELECT%20*%20%7B%20GRAPH%20?g%20%7B%20?s%20?p%20?o%20%7D%20%7D";

fn tag(answer: &Answer) -> &str {
    answer.header("etag").expect("a tag")
}

/// Asserts that an answer has a status.
fn assert_is(answer: &Answer, status: u16) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
}

/// Returns the tag that a path has now.
fn tag_of(served: &Served, path: &str) -> String {
    let answer = served.get(path, &[]);
    assert_is(&answer, 200);
    tag(&answer).to_owned()
}

/// Reads a path with a copy of this tag.
fn again(served: &Served, path: &str, known: &str) -> Answer {
    served.get(path, &[("if-none-match", known)])
}

fn insert(served: &Served, graph: &str, object: &str) {
    let quad = format!("<http://e/a> <http://e/p> <http://e/{object}>");
    let update = match graph {
        "" => format!("INSERT DATA {{ {quad} }}"),
        graph => format!("INSERT DATA {{ GRAPH <http://e/{graph}> {{ {quad} }} }}"),
    };
    assert_is(&served.update(&update), 204);
}

/// Writes a graph of one triple if a condition is met.
fn put(served: &Served, path: &str, condition: (&str, &str), object: &str) -> u16 {
    let headers = [("content-type", "text/turtle"), condition];
    let body = format!("<http://e/a> <http://e/p> <http://e/{object}> .");
    let answer = served.send("PUT", path, &headers, body.as_bytes());
    answer.status.as_u16()
}

#[test]
fn a_graph_has_a_strong_tag_that_changes_with_the_graph_alone() {
    let served = Served::with(DATA);
    for (path, graph) in [(OPEN, "open"), ("/store?default", "")] {
        let first = served.get(path, &[]);
        assert_is(&first, 200);
        assert_eq!(first.header("cache-control"), Some("no-cache"));
        assert_eq!(first.header("vary"), Some("accept, accept-encoding"));
        let known = tag(&first).to_owned();
        assert!(known.starts_with('"') && known.ends_with('"'), "{known}");
        insert(&served, "other", graph);
        let second = served.get(path, &[]);
        assert_eq!((tag(&second), &second.body), (&*known, &first.body));
        assert_eq!(tag(&served.send("HEAD", path, &[], b"")), known);

        for method in ["GET", "HEAD"] {
            let unmodified = served.send(method, path, &[("if-none-match", &known)], b"");
            assert_is(&unmodified, 304);
            assert_eq!((tag(&unmodified), unmodified.text()), (&*known, ""));
            assert_eq!(unmodified.header("cache-control"), Some("no-cache"));
            assert_eq!(unmodified.header("vary"), Some("accept, accept-encoding"));
            assert_eq!(unmodified.header("content-type"), None);
        }
        let list = format!("\"other\", W/{known}");
        assert_is(&again(&served, path, &list), 304);
        assert_is(&again(&served, path, "*"), 304);
        assert_is(&again(&served, path, "\"other\""), 200);
        assert_is(&again(&served, path, "malformed"), 200);
        assert_is(&served.get(path, &[("if-match", &known)]), 200);
        assert_is(&served.get(path, &[("if-match", "\"other\"")]), 412);
        assert_is(&served.get(path, &[("if-match", "malformed")]), 400);

        insert(&served, graph, "more");
        let changed = again(&served, path, &known);
        assert_is(&changed, 200);
        assert_ne!(tag(&changed), known);
        assert!(changed.body.len() > first.body.len());
    }
    let absent = served.get(NEW, &[("if-none-match", "*")]);
    assert_is(&absent, 404);
    assert_eq!(absent.header("etag"), None);
}

#[test]
fn a_dataset_has_the_tag_of_its_last_commit() {
    let served = Served::with(DATA);
    let known = tag_of(&served, "/data");
    assert_is(&again(&served, "/data", &known), 304);
    assert_is(&again(&served, "/ds", &known), 304);
    insert(&served, "other", "b");
    assert_is(&again(&served, "/data", &known), 200);
}

#[test]
fn every_format_and_coding_has_a_tag_of_its_own() {
    let many: String = (0..2000)
        .map(|n| format!("<http://e/{n}> <http://e/p> {n} ."))
        .collect();
    let served = Served::with(&many);
    let read = |accept: &str, coding: &str, known: &str| {
        let headers = [
            ("accept", accept),
            ("accept-encoding", coding),
            ("if-none-match", known),
        ];
        let answer = served.get("/data?default", &headers);
        (answer.status.as_u16(), tag(&answer).to_owned())
    };
    let (nt, turtle) = ("application/n-triples", "text/turtle");
    let (_, plain) = read(nt, "identity", "");
    let (_, gzip) = read(nt, "gzip", "");
    assert_eq!(gzip, format!("{}-gzip\"", plain.trim_end_matches('"')));
    let (_, other) = read(turtle, "identity", "");
    assert_ne!(other, plain);

    // Whoever has a copy gets its tag, if it can be used.
    assert_eq!(read(nt, "gzip", &gzip), (304, gzip.clone()));
    assert_eq!(read(nt, "gzip", &plain), (304, plain.clone()));
    assert_eq!(read(nt, "identity", &gzip).0, 200);
    assert_eq!(read(nt, "zstd", &gzip).0, 200);
    assert_eq!(read(turtle, "gzip", &plain).0, 200);
    // All of them know the state.
    for known in [&plain, &gzip, &other] {
        let headers = [("if-match", known.as_str())];
        assert_is(&served.get("/data?default", &headers), 200);
    }
    let headers = [("content-type", turtle), ("if-match", gzip.as_str())];
    assert_is(
        &served.send("POST", "/data?default", &headers, b"<a:a> <a:b> 1 ."),
        204,
    );
    assert_is(
        &served.send("POST", "/data?default", &headers, b"<a:a> <a:b> 2 ."),
        412,
    );
}

#[test]
fn a_write_is_made_if_its_condition_is_met() {
    let served = Served::with(DATA);
    let known = tag_of(&served, OPEN);
    for wrong in ["\"other\"", &format!("W/{known}"), "\"a\", \"b\""] {
        assert_eq!(put(&served, OPEN, ("if-match", wrong), "x"), 412, "{wrong}");
    }
    assert_eq!(put(&served, OPEN, ("if-match", "malformed"), "x"), 400);
    assert_eq!(put(&served, OPEN, ("if-none-match", "malformed"), "x"), 400);
    assert_eq!(put(&served, OPEN, ("if-none-match", "*"), "x"), 412);
    assert_eq!(put(&served, OPEN, ("if-none-match", &known), "x"), 412);
    assert_eq!(tag_of(&served, OPEN), known, "nothing was written");
    insert(&served, "other", "b");
    let list = format!("\"other\", {known}");
    assert_eq!(put(&served, OPEN, ("if-match", &list), "x"), 204);
    assert_eq!(put(&served, OPEN, ("if-match", &known), "y"), 412);
    let second = tag_of(&served, OPEN);
    assert_ne!(second, known);
    assert!(served.get(OPEN, &[]).text().contains("http://e/x"));

    let patch = |known: &str| {
        let headers = [
            ("content-type", "application/sparql-update"),
            ("if-match", known),
        ];
        let update = "INSERT DATA { <http://e/a> <http://e/p> <http://e/patched> }";
        served
            .send("PATCH", OPEN, &headers, update.as_bytes())
            .status
            .as_u16()
    };
    assert_eq!(
        (patch(&known), patch(&second), patch(&second)),
        (412, 204, 412)
    );
    let delete = |path, known: &str| {
        let headers = [("if-match", known)];
        served.send("DELETE", path, &headers, b"").status.as_u16()
    };
    let third = tag_of(&served, OPEN);
    assert_eq!((delete(OPEN, &second), delete(OPEN, &third)), (412, 204));
    assert_eq!(delete(OPEN, &third), 404, "it is gone");

    // A graph that does not exist has no state.
    for wrong in ["*", &third, &known] {
        assert_eq!(put(&served, NEW, ("if-match", wrong), "x"), 412, "{wrong}");
    }
    assert_eq!(put(&served, NEW, ("if-none-match", "*"), "x"), 201);
    assert_eq!(put(&served, NEW, ("if-none-match", "*"), "x"), 412);
    assert_eq!(put(&served, NEW, ("if-match", "*"), "y"), 204);
    let refused = served.send("DELETE", NEW, &[("if-match", "\"a\"")], b"");
    assert!(refused.text().contains("If-Match"), "{}", refused.text());

    let dataset = tag_of(&served, "/data");
    let quad = b"<http://e/a> <http://e/p> <http://e/b> <http://e/q> .";
    let headers = [
        ("content-type", "application/n-quads"),
        ("if-match", dataset.as_str()),
    ];
    assert_is(&served.send("PUT", "/data", &headers, quad), 204);
    assert_is(&served.send("PUT", "/data", &headers, quad), 412);
    assert_is(&served.send("POST", "/store", &headers, quad), 412);
}

/// Bodies of more than 1 MiB are read once, while they are received, by the loader.
#[test]
fn conditions_hold_for_long_bodies() {
    let served = Served::with(DATA);
    let long = "x".repeat(1000);
    let body = |from: usize| -> String {
        (from..from + 1100)
            .map(|n| format!("<http://e/s/{n}> <http://e/p> \"{long}\" .\n"))
            .collect()
    };
    assert!(body(0).len() > 1 << 20);
    let write = |method, known: &str, from| {
        let headers = [("content-type", "text/turtle"), ("if-match", known)];
        let answer = served.send(method, OPEN, &headers, body(from).as_bytes());
        answer.status.as_u16()
    };
    for method in ["PUT", "POST"] {
        let known = tag_of(&served, OPEN);
        assert_eq!(write(method, "\"other\"", 0), 412);
        assert_eq!(write(method, &known, 10_000), 204);
        assert_eq!(write(method, &known, 20_000), 412);
        let text = served.get(OPEN, &[]).text().to_owned();
        assert!(text.contains("<http://e/s/10000>") && !text.contains("<http://e/s/20000>"));
        assert_eq!(
            put(&served, OPEN, ("if-match", &tag_of(&served, OPEN)), "x"),
            204
        );
    }
}

/// Everyone adds lines to the list that they have read, and writes it if nobody else has meanwhile.
#[test]
fn concurrent_writes_lose_no_update() {
    const WRITERS: usize = 4;
    const LINES: usize = 12;
    let served = Served::with(DATA);
    let add = |line: &str| {
        loop {
            let read = served.get(NEW, &[("accept", "application/n-triples")]);
            let condition = match read.status.as_u16() {
                404 => ("if-none-match", "*".to_owned()),
                _ => ("if-match", tag(&read).to_owned()),
            };
            let before = match read.status.as_u16() {
                404 => "",
                _ => read.text(),
            };
            let headers = [
                ("content-type", "application/n-triples"),
                (condition.0, condition.1.as_str()),
            ];
            let written = served.send("PUT", NEW, &headers, format!("{before}{line}").as_bytes());
            match written.status.as_u16() {
                201 | 204 => return,
                // 409: the update conflicted too often; nothing was written.
                412 | 409 => {}
                _ => panic!("{}", written.text()),
            }
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for line in 0..LINES {
                    add(&format!(
                        "<http://e/{writer}> <http://e/wrote> \"{line}\" .\n"
                    ));
                }
            });
        }
    });
    let all = served.get(NEW, &[("accept", "application/n-triples")]);
    assert_eq!(all.text().lines().count(), WRITERS * LINES);
}

#[test]
fn a_query_has_a_weak_tag_that_changes_with_every_commit() {
    let served = Served::with(DATA);
    let first = served.get(QUERY, &[]);
    let known = tag(&first).to_owned();
    assert!(known.starts_with("W/\""), "{known}");
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    for method in ["GET", "HEAD"] {
        let unmodified = served.send(method, QUERY, &[("if-none-match", &known)], b"");
        assert_is(&unmodified, 304);
        assert_eq!((tag(&unmodified), unmodified.text()), (&*known, ""));
    }
    assert_is(&served.get(QUERY, &[("if-match", &known)]), 412);
    // What else decides about the answer.
    for other in [
        format!("{QUERY}%20"),
        format!("{QUERY}&format=csv"),
        format!("{QUERY}&named-graph-uri=http://e/open"),
        format!("{QUERY}&default-graph-uri=http://e/open"),
        format!("/ds{QUERY}"),
    ] {
        assert_is(&again(&served, &other, &known), 200);
        assert_ne!(tag_of(&served, &other), known);
    }
    let headers = [("accept", "text/csv"), ("if-none-match", known.as_str())];
    assert_is(&served.get(QUERY, &headers), 200);
    insert(&served, "other", "b");
    let second = again(&served, QUERY, &known);
    assert_is(&second, 200);
    assert_ne!(tag(&second), known);

    let text = b"SELECT * { GRAPH ?g { ?s ?p ?o } }";
    let headers = [("content-type", "application/sparql-query")];
    let asked = served.send("QUERY", "/query", &headers, text);
    let headers = [headers[0], ("if-none-match", tag(&asked))];
    assert_is(&served.send("QUERY", "/query", &headers, text), 304);
    let headers = [headers[0], ("if-none-match", "*")];
    let posted = served.send("POST", "/query", &headers, text);
    assert_is(&posted, 200);
    assert_eq!(posted.header("etag"), None);
}

#[test]
fn a_query_that_changes_by_itself_has_no_tag() {
    let served = Served::with(DATA);
    for (query, is_tagged) in [
        ("SELECT%20(NOW()%20AS%20?now)%20%7B%7D", false),
        (
            "ASK%20%7B%20FILTER%20EXISTS%20%7B%20BIND(rand()%20AS%20?x)%20%7D%20%7D",
            false,
        ),
        (
            "ASK%20%7B%20SERVICE%20SILENT%20%3Chttp://127.0.0.1:1/%3E%20%7B%7D%20%7D",
            false,
        ),
        ("SELECT%20(%22NOW()%22%20AS%20?now)%20%7B%7D", true),
    ] {
        let path = format!("/query?query={query}");
        let answer = served.get(&path, &[("if-none-match", "*")]);
        assert_is(&answer, if is_tagged { 304 } else { 200 });
        assert_eq!(answer.header("etag").is_some(), is_tagged, "{query}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let plan = served.get(&format!("{path}&explain=plan"), &[("if-none-match", "*")]);
        assert_is(&plan, 200);
        assert_eq!(plan.header("etag"), None);
    }
    let wrong = served.get("/query?query=SELECT", &[("if-none-match", "*")]);
    assert_is(&wrong, 400);
}

/// Waits for a task.
fn finish(served: &Served, started: &Answer) {
    assert_is(started, 200);
    let id = started.json()["taskId"]
        .as_str()
        .expect("a number")
        .to_owned();
    while served
        .get(&format!("/$/tasks/{id}"), &[])
        .json()
        .get("finished")
        .is_none()
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server whose configuration is a file.
fn from_file(folder: &Path, more: &str) -> Served {
    configure(folder, more);
    let file = folder.join("pythia.toml");
    Served::from(ConfigSource::new(Some(file), std::sync::Arc::new(|_| ())))
}

fn configure(folder: &Path, more: &str) {
    let store = folder.join("ds").display().to_string();
    let text =
        format!("bind = \"127.0.0.1:0\"\n[datasets.ds]\npath = \"{store}\"\ncreate = true\n{more}");
    std::fs::write(folder.join("pythia.toml"), text).expect("written");
}

/// Ids are assigned again, so the bytes may differ, but the state is the same.
#[test]
fn compaction_and_restarts_keep_the_states_of_tags() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let served = from_file(folder.path(), "");
    insert(&served, "open", "z");
    insert(&served, "", "y");
    insert(&served, "open", "a");
    let (graph, query) = (tag_of(&served, OPEN), tag_of(&served, QUERY));
    let state = |tag: &str| tag.split('-').next().expect("one at least").to_owned();
    let check = |served: &Served| {
        let known = again(served, OPEN, &graph);
        assert_is(&known, 304);
        assert_eq!(tag(&known), graph);
        let now = tag_of(served, OPEN);
        assert_ne!(now, graph, "the layout is another");
        assert_eq!(state(&now), state(&graph));
    };
    finish(&served, &served.send("POST", "/$/compact/ds", &[], b""));
    check(&served);
    assert_is(&again(&served, QUERY, &query), 304);
    drop(served);
    // The log is replayed, or the new base has all of it: then a graph has another tag once.
    let served = from_file(folder.path(), "");
    let after = tag_of(&served, OPEN);
    drop(served);
    let served = from_file(folder.path(), "");
    assert_is(&again(&served, OPEN, &after), 304);
    insert(&served, "open", "c");
    let replayed = tag_of(&served, OPEN);
    drop(served);
    let served = from_file(folder.path(), "");
    assert_is(&again(&served, OPEN, &replayed), 304);
    assert_eq!(put(&served, OPEN, ("if-match", &replayed), "x"), 204);
    assert_eq!(put(&served, OPEN, ("if-match", &replayed), "y"), 412);
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A server with a guest, who may read graphs by the beginning of their names, and tokens of two users: one whose graphs
/// are listed by name, and one who may do everything.
fn with_users() -> (Served, [String; 2]) {
    let role = |name: &str, read: &[&str], write: &[&str]| RoleConfig {
        name: name.to_owned(),
        datasets: owned(&["ds"]),
        read: owned(read),
        write: owned(write),
        ..RoleConfig::default()
    };
    let tokens = [(); 2].map(|()| new_token());
    let token = |(name, (_, sha256)): (&str, &(String, String))| TokenConfig {
        name: name.to_owned(),
        sha256: sha256.clone(),
        roles: owned(&[name]),
    };
    let security = SecurityConfig {
        anonymous: Some("guest".to_owned()),
        tokens: ["listed", "all"]
            .into_iter()
            .zip(&tokens)
            .map(token)
            .collect(),
        roles: vec![
            role("guest", &["http://e/o*"], &[]),
            role("listed", &["default", "http://e/open"], &["http://e/new"]),
            role("all", &["*"], &["*"]),
        ],
        ..SecurityConfig::default()
    };
    let served = Served::configured(DATA, |config| config.security = security);
    (served, tokens.map(|(token, _)| format!("Bearer {token}")))
}

#[test]
fn users_have_tags_of_what_they_may_read() {
    let (served, [listed, all]) = with_users();
    let read = |path: &str, user: &str, known: &str| {
        let headers = [("if-none-match", known), ("authorization", user)];
        let is_known = usize::from(!user.is_empty());
        let answer = served.get(path, &headers[..1 + is_known]);
        let control = answer.header("cache-control");
        assert_eq!(control, Some("private, no-cache"), "{path} {user}");
        (answer.status.as_u16(), tag(&answer).to_owned())
    };
    let insert = |graph: &str, number: usize| {
        let headers = [
            ("content-type", "application/sparql-update"),
            ("authorization", &*all),
        ];
        let update = format!(
            "INSERT DATA {{ GRAPH <http://e/{graph}> {{ <http://e/a> <http://e/p> {number} }} }}"
        );
        assert_is(
            &served.send("POST", "/update", &headers, update.as_bytes()),
            204,
        );
    };
    for (number, path) in [OPEN, QUERY, "/data"].into_iter().enumerate() {
        let [guests, listeds, alls] = ["", &listed, &all].map(|user| read(path, user, "").1);
        assert!(guests != listeds && listeds != alls && alls != guests);
        assert_eq!(read(path, &all, &listeds).0, 200);
        assert_eq!(read(path, &listed, &listeds).0, 304);
        insert("hidden", number);
        // Commits to other graphs do not show if the own ones are listed by name.
        assert_eq!(read(path, &listed, &listeds).0, 304, "{path}");
        let others = if path == OPEN { 304 } else { 200 };
        assert_eq!(read(path, &all, &alls).0, others, "{path}");
        assert_eq!(read(path, "", &guests).0, others, "{path}");
        insert("open", 100 + number);
        assert_eq!(read(path, &listed, &listeds).0, 200, "{path}");
    }
}

#[test]
fn conditions_tell_nothing_about_hidden_graphs() {
    const NOWHERE: &str = "/store?graph=http://e/nowhere";
    let (served, [listed, _]) = with_users();
    let write = |method: &str, path: &str, condition: (&str, &str)| {
        let headers = [
            ("content-type", "text/turtle"),
            condition,
            ("authorization", &*listed),
        ];
        let answer = served.send(method, path, &headers, b"<a:a> <a:b> 1 .");
        answer.status.as_u16()
    };
    for condition in [("if-match", "*"), ("if-none-match", "*")] {
        for path in [HIDDEN, OPEN, NOWHERE] {
            assert_eq!(write("PUT", path, condition), 403, "{path} {condition:?}");
            assert_eq!(
                write("DELETE", path, condition),
                403,
                "{path} {condition:?}"
            );
        }
    }
    for path in [HIDDEN, NOWHERE] {
        assert_eq!(write("POST", path, ("if-match", "*")), 412, "{path}");
        assert_eq!(write("POST", path, ("if-none-match", "*")), 403, "{path}");
    }
    assert_eq!(write("PUT", NEW, ("if-none-match", "*")), 201);
}

#[test]
fn no_tag_outlives_a_change_of_roles() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (token, sha256) = new_token();
    let secured = |read: &str| {
        format!(
            "[[security.tokens]]\nname = \"robot\"\nsha256 = \"{sha256}\"\nroles = [\"r\"]\n\
             [[security.roles]]\nname = \"r\"\ndatasets = [\"*\"]\nread = [{read}]\n\
             write = [\"http://e/open\"]\nadmin = true\n"
        )
    };
    let served = from_file(folder.path(), &secured("\"default\""));
    let robot = format!("Bearer {token}");
    let user = ("authorization", robot.as_str());
    let put = |condition: Option<(&str, &str)>| {
        let mut headers = vec![user, ("content-type", "text/turtle")];
        headers.extend(condition);
        served
            .send("PUT", OPEN, &headers, b"<a:a> <a:b> 1 .")
            .status
            .as_u16()
    };
    assert_eq!(put(None), 201);
    let read = |known: &str| {
        [OPEN, QUERY].map(|path| {
            let answer = served.get(path, &[user, ("if-none-match", known)]);
            (answer.status.as_u16(), tag(&answer).to_owned())
        })
    };
    let before = read("").map(|(_, tag)| tag);
    let known = before.join(", ");
    assert_eq!(read(&known).map(|(status, _)| status), [304, 304]);
    configure(folder.path(), &secured("\"http://e/other\""));
    assert_is(&served.send("POST", "/$/reload", &[user], b""), 200);
    assert_eq!(read(&known).map(|(status, _)| status), [200, 200]);
    assert_eq!(put(Some(("if-match", before[0].as_str()))), 412);
    configure(folder.path(), &secured("\"default\""));
    assert_is(&served.send("POST", "/$/reload", &[user], b""), 200);
    assert_eq!(read(&known).map(|(status, _)| status), [304, 304]);
    assert_eq!(put(Some(("if-match", before[0].as_str()))), 204);
}

/// Nothing else tells a store without a log from another one with files of the same lengths.
#[test]
fn a_store_that_is_only_read_has_other_tags_at_each_start() {
    let served = || Served::configured(DATA, |config| config.datasets[0].read_only = true);
    let first = tag_of(&served(), OPEN);
    let served = served();
    assert_is(&again(&served, OPEN, &first), 200);
    assert_is(&again(&served, OPEN, &tag_of(&served, OPEN)), 304);
}

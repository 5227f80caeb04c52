//! Optional indexes that are built over HTTP while queries and updates are answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pythia_server::config::TokenConfig;
use pythia_server::{ServerFile, new_token};
use serde_json::{Value, json};

use crate::support::{Answer, Served};

const JSON: (&str, &str) = ("content-type", "application/json");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// Places within each other, and people with genders.
fn places() -> String {
    let mut text = "PREFIX e: <http://e/>\n".to_owned();
    for place in 1..2000 {
        text.push_str(&format!("e:l{place} e:in e:l{} .\n", place / 3));
        text.push_str(&format!(
            "e:p{place} e:at e:l{place} ; e:is e:g{} .\n",
            place % 2
        ));
    }
    text
}

fn ended(served: &Served, started: &Answer) -> Value {
    assert_eq!(started.status, 200, "{}", started.text());
    let id = started.json()["taskId"].as_str().map(str::to_owned);
    let path = format!("/$/tasks/{}", id.expect("a number"));
    loop {
        let task = served.get(&path, &[]).json();
        if task.get("finished").is_some() {
            return task;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count(served: &Served, pattern: &str) -> String {
    let query = format!("PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) {{ {pattern} }}");
    let answer = served.query(&query, "text/csv");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines: Vec<&str> = answer.text().lines().collect();
    lines[1].to_owned()
}

#[test]
fn indexes_are_built_beside_queries_and_updates() {
    let served = Served::with(&places());
    let pattern = "?p e:at ?l . ?l e:in+ e:l1";
    let expected = count(&served, pattern);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let update = format!(
                    "PREFIX e: <http://e/> DELETE DATA {{ e:new e:in e:l{} }} ; INSERT DATA {{ e:new e:in e:l{} }}",
                    number % 7 + 1,
                    (number + 1) % 7 + 1
                );
                assert_eq!(served.update(&update).status.as_u16() / 100, 2);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(count(&served, pattern), expected);
            }
        });
        let wanted = json!({
            "reachability": ["http://e/in"],
            "attributes": [{ "predicate": "http://e/is", "along": ["http://e/at"] }],
            "degrees": true,
        });
        let wanted = wanted.to_string();
        for _ in 0..3 {
            let started = served.send("POST", "/$/optimize/ds", &[JSON], wanted.as_bytes());
            let task = ended(&served, &started);
            assert_eq!(task["success"], true, "{task}");
            let message = task["message"].as_str().unwrap_or_default();
            assert!(
                message.contains("built: reachability of <http://e/in>"),
                "{message}"
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(count(&served, pattern), expected);
    let listed = served.get("/$/optimize/ds", &[]).json();
    let indexes = listed["indexes"].as_array().expect("a list");
    assert_eq!(indexes.len(), 3);
    assert!(
        indexes.iter().all(|index| index["used"] == true),
        "{listed}"
    );
    let dropped = served.send("POST", "/$/optimize/ds", &[FORM], b"drop&degrees");
    let task = ended(&served, &dropped);
    assert_eq!(task["message"], "dropped: degrees of all nodes");
    let all = served.send("POST", "/$/optimize/ds", &[FORM], b"drop=true");
    assert_eq!(ended(&served, &all)["success"], true);
    let listed = served.get("/$/optimize/ds", &[]).json();
    assert_eq!(listed["indexes"], json!([]));
}

#[test]
fn forms_name_indexes_as_the_command_does() {
    let served = Served::with(&places());
    let form = b"reachability=http://e/in&cache-attribute=http://e/is&for=http://e/at";
    let started = served.send("POST", "/$/optimize/ds", &[FORM], form);
    let task = ended(&served, &started);
    let message = task["message"].as_str().unwrap_or_default();
    let built = "built: values of <http://e/is> beside neighbours by <http://e/at>, ";
    assert!(message.contains(built), "{task}");
    for (headers, body, status, said) in [
        (FORM, "", 400, "name an index"),
        (FORM, "degrees=perhaps", 400, "true or false"),
        (
            FORM,
            "reachability=http://e/inn",
            400,
            "did you mean http://e/in?",
        ),
        (JSON, "{\"reachability\": 1}", 400, "the body: "),
        (JSON, "{\"labels\": []}", 400, "unknown field `labels`"),
        (
            ("content-type", "text/plain"),
            "degrees",
            415,
            "application/json",
        ),
    ] {
        let refused = served.send("POST", "/$/optimize/ds", &[headers], body.as_bytes());
        assert_eq!(
            refused.status.as_u16(),
            status,
            "{body}: {}",
            refused.text()
        );
        assert!(refused.text().contains(said), "{body}: {}", refused.text());
    }
    let wrong = served.send("PUT", "/$/optimize/ds", &[FORM], b"degrees");
    assert_eq!(wrong.header("allow"), Some("GET, HEAD, POST"));
}

#[test]
fn a_build_is_cancelled_and_leaves_nothing() {
    let served = Served::with(&places());
    let form = b"reachability=http://e/in&degrees";
    for _ in 0..20 {
        let started = served.send("POST", "/$/optimize/ds", &[FORM], form);
        let id = started.json()["taskId"].as_str().map(str::to_owned);
        let path = format!("/$/tasks/{}", id.expect("a number"));
        assert_eq!(served.send("DELETE", &path, &[], b"").status, 200);
        let task = ended(&served, &started);
        if task["success"] == false {
            let message = task["message"].as_str().unwrap_or_default();
            assert!(message.contains("cancelled"), "{task}");
            let listed = served.get("/$/optimize/ds", &[]).json();
            assert_eq!(listed["indexes"], json!([]));
            return;
        }
        let dropped = served.send("POST", "/$/optimize/ds", &[FORM], b"drop");
        ended(&served, &dropped);
    }
    panic!("each of many builds ended before it was cancelled");
}

#[test]
fn the_file_of_a_server_permits_what_operators_do_and_goes_with_it() {
    let mut store = None;
    let (_, sha256) = new_token();
    let served = Served::configured(&places(), |config| {
        store = Some(config.datasets[0].path.clone());
        config.security.tokens = vec![TokenConfig {
            name: "robot".to_owned(),
            sha256,
            roles: Vec::new(),
        }];
    });
    let store = store.expect("configured");
    let file = ServerFile::read(&store).expect("it was written");
    assert_eq!(file.url, served.url(""));
    let owner = format!("Bearer {}", file.token);
    let status = |method, path, who: &str| {
        let answer = served.send(method, path, &[("authorization", who), FORM], b"degrees");
        answer.status.as_u16()
    };
    let path = format!("/$/optimize/{}", file.dataset);
    assert_eq!(status("GET", &path, &owner), 200);
    assert_eq!(status("POST", &path, &owner), 200);
    assert_eq!(served.get(&path, &[]).status, 401);
    let other = format!("{}0", &owner[..owner.len() - 1]);
    if other != owner {
        assert_eq!(status("GET", &path, &other), 401);
    }
    assert_ne!(
        status("GET", "/ds/query", &owner),
        200,
        "only for operators"
    );
    drop(served);
    assert_eq!(ServerFile::read(&store), None);
}

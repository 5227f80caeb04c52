//! What operators look at and do.

use std::path::Path;
use std::time::{Duration, Instant};

use pythia_server::config::{
    ConfigSource, DatasetConfig, MetricsFor, Proxies, RoleConfig, TokenConfig,
};
use pythia_server::new_token;
use serde_json::Value;

use crate::support::{Answer, Served};

const DATA: &str = "
    PREFIX ex: <http://ex.org/>
    ex:a ex:p ex:b, ex:c . ex:b ex:q ex:c .
    GRAPH ex:g { ex:a ex:q 'é' }
";

/// The value of a metric with these labels.
fn metric(text: &str, line_start: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(line_start))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn metrics(served: &Served) -> String {
    let answer = served.get("/$/metrics", &[]);
    assert_eq!(answer.status, 200);
    let media_type = answer.header("content-type").expect("a media type");
    assert!(media_type.starts_with("application/openmetrics-text; version=1.0.0"));
    answer.text().to_owned()
}

/// The metrics, once the one that begins like this has a value.
fn metrics_with(served: &Served, line_start: &str) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let text = metrics(served);
        if metric(&text, line_start).is_some() || Instant::now() > until {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn finished(served: &Served, started: &Answer) -> Value {
    assert_eq!(started.status, 200, "{}", started.text());
    let id = started.json()["taskId"]
        .as_str()
        .expect("a number")
        .to_owned();
    loop {
        let task = served.get(&format!("/$/tasks/{id}"), &[]).json();
        if task.get("finished").is_some() {
            return task;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_tells_that_it_is_well() {
    let served = Served::with(DATA);
    let ping = served.get("/$/ping", &[]);
    assert_eq!(ping.status, 200);
    assert!(pythia::parse_time(ping.text()).is_ok(), "{}", ping.text());
    assert_eq!(served.send("POST", "/$/ping", &[], b"").status, 200);
    assert_eq!(served.get("/$/health", &[]).status, 200);
    let ready = served.get("/$/ready", &[]);
    assert_eq!((ready.status.as_u16(), ready.text()), (200, "ready\n"));
    let wrong = served.send("DELETE", "/$/ready", &[], b"");
    assert_eq!(
        (wrong.status.as_u16(), wrong.header("allow")),
        (405, Some("GET, HEAD"))
    );
    let wrong = served.get("/$/compact/ds", &[]);
    assert_eq!(
        (wrong.status.as_u16(), wrong.header("allow")),
        (405, Some("POST"))
    );
    assert_eq!(served.get("/$/stats/none", &[]).status, 404);
    assert_eq!(served.get("/$/tasks/77", &[]).status, 404);
}

#[test]
fn requests_are_counted_by_what_they_are_and_how_they_end() {
    let served = Served::with(DATA);
    for _ in 0..3 {
        let answer = served.query("SELECT * { ?s ?p ?o }", "text/csv");
        assert_eq!(answer.status, 200);
    }
    assert_eq!(served.query("SELECT * {", "text/csv").status, 400);
    assert_eq!(
        served
            .update("INSERT DATA { <urn:a> <urn:b> 1 }")
            .status
            .as_u16()
            / 100,
        2
    );
    assert_eq!(served.get("/nowhere/query", &[]).status, 404);
    let bad = "pythia_requests_total{dataset=\"ds\",operation=\"query\",status=\"400\"}";
    metrics_with(&served, bad);
    let text = metrics_with(
        &served,
        "pythia_run_duration_seconds_count{dataset=\"ds\",operation=\"update\"}",
    );
    let value = |line: &str| metric(&text, line).unwrap_or_else(|| panic!("{line}\n{text}"));
    assert_eq!(value(bad), 1.0);
    let queries = "{dataset=\"ds\",operation=\"query\"";
    let done = format!("pythia_requests_total{queries},status=\"200\"}}");
    assert_eq!(value(&done), 3.0);
    assert_eq!(value(&format!("pythia_rows_total{queries}}}")), 9.0);
    assert!(value(&format!("pythia_response_bytes_total{queries}}}")) > 100.0);
    assert_eq!(
        value(&format!("pythia_responses_aborted_total{queries}}}")),
        0.0
    );
    assert_eq!(
        value(&format!("pythia_request_duration_seconds_count{queries}}}")),
        4.0
    );
    let all = "{le=\"+Inf\",dataset=\"ds\",operation=\"query\"}";
    let bucket = format!("pythia_request_duration_seconds_bucket{all}");
    assert_eq!(value(&bucket), 4.0);
    assert_eq!(value("pythia_commits_total{dataset=\"ds\"}"), 1.0);
    assert_eq!(value("pythia_quads{dataset=\"ds\"}"), 5.0);
    assert_eq!(value("pythia_changes_quads{dataset=\"ds\"}"), 1.0);
    assert_eq!(value("pythia_requests_running"), 0.0);
    assert_eq!(
        value("pythia_requests_shed_total{reason=\"queue_full\"}"),
        0.0
    );
    assert!(value("pythia_connections_open") >= 1.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("pythia_cache_misses_total{dataset=\"ds\",file=\"spo\"}") >= 0.0);
    assert!(text.ends_with("# EOF\n"));
}

/// Says who asks.
fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[test]
fn operators_paths_are_for_admins() {
    let ((admin, admin_hash), (reader, reader_hash)) = (new_token(), new_token());
    let token = |name: &str, sha256: String| TokenConfig {
        name: name.to_owned(),
        sha256,
        roles: vec![name.to_owned()],
    };
    let everything = || vec!["*".to_owned()];
    let roles = vec![
        RoleConfig {
            name: "admin".to_owned(),
            datasets: everything(),
            read: everything(),
            write: everything(),
            admin: true,
            ..RoleConfig::default()
        },
        RoleConfig {
            name: "reader".to_owned(),
            datasets: vec!["ds".to_owned()],
            read: vec!["default".to_owned()],
            ..RoleConfig::default()
        },
    ];
    let served = Served::configured(DATA, |config| {
        config.operate.metrics = MetricsFor::Admins;
        config.security.tokens = vec![token("admin", admin_hash), token("reader", reader_hash)];
        config.security.roles = roles;
    });
    let (admin, reader) = (bearer(&admin), bearer(&reader));
    let asked_by = |method: &str, path: &str, who: Option<&str>| {
        let headers: Vec<_> = who.iter().map(|who| ("authorization", *who)).collect();
        served.send(method, path, &headers, b"")
    };
    for (method, path) in [
        ("GET", "/$/metrics"),
        ("GET", "/$/tasks"),
        ("GET", "/$/stats/ds"),
        ("POST", "/$/reload"),
        ("POST", "/$/compact/ds"),
    ] {
        let status = |who| asked_by(method, path, who).status.as_u16();
        assert_eq!(status(None), 401, "{path}");
        assert_eq!(status(Some(&reader)), 403, "{path}");
        assert_eq!(status(Some(&admin)), 200, "{path}");
    }
    for path in ["/$/ping", "/$/health", "/$/ready"] {
        assert_eq!(asked_by("GET", path, None).status, 200, "{path}");
    }
    let listed = |who| asked_by("GET", "/$/datasets", who).json()["datasets"].clone();
    assert_eq!(listed(None), serde_json::json!([]));
    assert_eq!(listed(Some(&reader))[0]["ds.name"], "/ds");
    let stats = asked_by("GET", "/$/stats", Some(&reader)).json();
    assert_eq!(stats, serde_json::json!({ "datasets": {} }));
}

#[test]
fn this_machine_reads_metrics_but_not_whoever_a_proxy_speaks_for() {
    let served = Served::configured(DATA, |config| {
        let (_, sha256) = new_token();
        config.security.tokens = vec![TokenConfig {
            name: "somebody".to_owned(),
            sha256,
            roles: Vec::new(),
        }];
        config.trusted_proxies = Proxies::parse(&["127.0.0.0/8"]).expect("a network");
    });
    assert_eq!(served.get("/$/metrics", &[]).status, 200);
    let forwarded = [("x-forwarded-for", "192.0.2.7")];
    assert_eq!(served.get("/$/metrics", &forwarded).status, 401);
}

#[test]
fn fuseki_s_listings_are_there() {
    let served = Served::with(DATA);
    let server = served.get("/$/server", &[]).json();
    assert_eq!(server["datasets"][0]["ds.name"], "/ds");
    assert!(server["uptime"].is_u64() && server["startDateTime"].is_string());
    let datasets = served.get("/$/datasets", &[]).json();
    let services = datasets["datasets"][0]["ds.services"]
        .as_array()
        .expect("a list");
    assert!(
        services
            .iter()
            .any(|service| service["srv.type"] == "gsp-rw")
    );
    assert_eq!(served.get("/$/datasets/ds", &[]).json()["ds.state"], true);
    served.query("ASK {}", "text/csv");
    metrics_with(
        &served,
        "pythia_requests_total{dataset=\"ds\",operation=\"query\"",
    );
    let stats = served.get("/$/stats", &[]).json();
    let counts = &stats["datasets"]["/ds"];
    assert_eq!(
        (&counts["Requests"], &counts["RequestsGood"]),
        (&1.into(), &1.into())
    );
    assert_eq!(counts["endpoints"]["query"]["Requests"], 1);
    let held = served.get("/$/stats/ds", &[]).json()["pythia"].clone();
    assert_eq!(
        (&held["quads"], &held["named_graphs"]),
        (&4.into(), &1.into())
    );
    let predicates = held["predicates"].as_array().expect("a list");
    let count = |iri: &str| {
        let found = predicates.iter().find(|predicate| predicate["iri"] == iri);
        found.map(|predicate| predicate["quads"].clone())
    };
    assert_eq!(count("http://ex.org/p"), Some(2.into()));
    assert_eq!(count("http://ex.org/q"), Some(2.into()));
    assert!(held["bytes"].as_u64() > Some(1000));
}

#[test]
fn stores_are_compacted_and_backed_up_in_the_background() {
    let backups = tempfile::tempdir().expect("a temporary folder");
    let folder = backups.path().to_owned();
    let served = Served::configured(DATA, |config| config.operate.backup_folder = Some(folder));
    served.update("INSERT DATA { <urn:a> <urn:b> 1 }");
    let compacted = finished(&served, &served.send("POST", "/$/compact/ds", &[], b""));
    assert_eq!(compacted["success"], true, "{compacted}");
    assert_eq!(compacted["task"], "Compact");
    let stats = served.get("/$/stats/ds", &[]).json();
    assert_eq!(stats["pythia"]["changes"]["quads"], 0);
    let backed_up = finished(&served, &served.send("POST", "/$/backup/ds", &[], b""));
    assert_eq!(backed_up["success"], true, "{backed_up}");
    let restored = backups.path().join("restored");
    pythia::restore(&backups.path().join("ds"), &restored, &Default::default()).expect("whole");
    let database = pythia::Database::open(&restored).expect("a store");
    assert_eq!(database.snapshot().statistics().quads, 5);
    assert_eq!(
        served.get("/$/tasks", &[]).json().as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn without_a_folder_there_are_no_backups() {
    let served = Served::with(DATA);
    let refused = served.send("POST", "/$/backup/ds", &[], b"");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("operate.backup_folder"));
}

/// A server whose configuration is a file.
fn from_file(folder: &Path, text: &str) -> Served {
    let file = folder.join("pythia.toml");
    std::fs::write(&file, text).expect("written");
    Served::from(ConfigSource::new(Some(file), std::sync::Arc::new(|_| ())))
}

fn rewrite(folder: &Path, text: &str) {
    std::fs::write(folder.join("pythia.toml"), text).expect("written");
}

#[test]
fn a_new_configuration_is_taken_over_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stores = folder.path().join("stores").display().to_string();
    let datasets = |names: &[&str]| -> String {
        let all = names
            .iter()
            .map(|n| format!("[datasets.{n}]\npath = \"{stores}/{n}\"\ncreate = true\n"));
        all.collect()
    };
    let bind = "bind = \"127.0.0.1:0\"\n";
    let served = from_file(folder.path(), &format!("{bind}{}", datasets(&["a", "b"])));
    assert_eq!(served.get("/a/query?query=ASK%20%7B%7D", &[]).status, 200);
    let unnamed = served.get("/query?query=ASK%20%7B%7D", &[]);
    assert_eq!(unnamed.status, 404);
    let said = "no dataset is served at /query, but a and b; ask /a/query";
    assert!(unnamed.text().contains(said), "{}", unnamed.text());
    let reload = || served.send("POST", "/$/reload", &[], b"");

    let text = format!("{bind}{}[limits]\nurl_size = 100\n", datasets(&["b", "c"]));
    rewrite(folder.path(), &text);
    let answer = reload();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = answer.json();
    assert_eq!(told["datasets_added"], serde_json::json!(["c"]));
    assert_eq!(told["datasets_removed"], serde_json::json!(["a"]));
    assert_eq!(told["needs_restart"], serde_json::json!([]));
    assert_eq!(served.get("/a/query?query=ASK%20%7B%7D", &[]).status, 404);
    assert_eq!(served.get("/c/query?query=ASK%20%7B%7D", &[]).status, 200);
    let long = format!("/b/query?query=ASK%7B%7D&x={}", "y".repeat(100));
    assert_eq!(served.get(&long, &[]).status, 414);

    for wrong in [
        format!("{text}rows = \"many\"\n"),
        format!(
            "{bind}{}[datasets.d]\npath = \"/dev/null/d\"\ncreate = true\n",
            datasets(&["c"])
        ),
    ] {
        rewrite(folder.path(), &wrong);
        let refused = reload();
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.text().starts_with("nothing was changed: "));
        assert_eq!(served.get("/b/query?query=ASK%20%7B%7D", &[]).status, 200);
        assert_eq!(served.get(&long, &[]).status, 414);
    }

    let changed = datasets(&["b"]).replace("\n[", "\ncache = \"1M\"\n[");
    let text = format!("bind = \"127.0.0.2:0\"\n{changed}cache = \"9M\"\n");
    rewrite(folder.path(), &text);
    let told = reload().json();
    assert_eq!(
        told["needs_restart"],
        serde_json::json!(["bind", "datasets.b"])
    );
    assert_eq!(served.get(&long, &[]).status, 200);
    // A dataset that is gone is closed once nobody asks it any more: it can be opened again.
    rewrite(folder.path(), &format!("{bind}{}", datasets(&["a", "b"])));
    assert_eq!(reload().json()["datasets_added"], serde_json::json!(["a"]));
}

#[test]
fn a_configuration_that_lost_its_security_does_not_open_the_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("ds").display().to_string();
    let (token, sha256) = new_token();
    let open =
        format!("bind = \"127.0.0.1:0\"\n[datasets.ds]\npath = \"{store}\"\ncreate = true\n");
    let role =
        "[[security.roles]]\nname = \"all\"\ndatasets = [\"*\"]\nread = [\"*\"]\nadmin = true\n";
    let tokens = format!(
        "[[security.tokens]]\nname = \"robot\"\nsha256 = \"{sha256}\"\nroles = [\"all\"]\n"
    );
    let secured = format!("{open}{role}{tokens}");
    let served = from_file(folder.path(), &secured);
    let robot = bearer(&token);
    let reload = || served.send("POST", "/$/reload", &[("authorization", &robot)], b"");
    let stranger = || served.get("/query?query=ASK%7B%7D", &[]).status;
    for lost in [
        open.clone(),
        String::new(),
        format!("{open}[security]\n"),
        format!("{open}[security]\nfailures_per_minute = 5\nusers = []\n"),
    ] {
        rewrite(folder.path(), &lost);
        let refused = reload();
        assert_eq!(refused.status, 422, "{lost}: {}", refused.text());
        assert!(
            refused.text().contains("security.open"),
            "{}",
            refused.text()
        );
        assert_eq!(stranger(), 401, "{lost}");
    }
    // With a role left nobody is known, so nobody may do anything.
    rewrite(folder.path(), &format!("{open}{role}"));
    assert_eq!(reload().status, 200);
    assert_eq!((reload().status.as_u16(), stranger().as_u16()), (401, 403));
}

#[test]
fn a_server_is_opened_while_it_runs_if_that_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("ds").display().to_string();
    let (token, sha256) = new_token();
    let open =
        format!("bind = \"127.0.0.1:0\"\n[datasets.ds]\npath = \"{store}\"\ncreate = true\n");
    let secured = format!(
        "{open}[[security.roles]]\nname = \"all\"\ndatasets = [\"*\"]\nread = [\"*\"]\nadmin = true\n\
         [[security.tokens]]\nname = \"robot\"\nsha256 = \"{sha256}\"\nroles = [\"all\"]\n"
    );
    let served = from_file(folder.path(), &secured);
    rewrite(folder.path(), &format!("{open}[security]\nopen = true\n"));
    let robot = bearer(&token);
    let answer = served.send("POST", "/$/reload", &[("authorization", &robot)], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(served.get("/query?query=ASK%7B%7D", &[]).status, 200);
}

#[test]
fn a_new_or_empty_folder_becomes_an_empty_store_unless_it_is_read_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("new");
    let served = Served::configured(DATA, |config| {
        config.datasets.push(DatasetConfig {
            create: true,
            ..DatasetConfig::new("new", &path)
        });
    });
    let headers = [("content-type", "application/sparql-update")];
    let update = b"INSERT DATA { <urn:a> <urn:b> 1 }";
    let answer = served.send("POST", "/new/update", &headers, update);
    assert!(answer.status.is_success(), "{}", answer.text());
    drop(served);
    let config = |dataset: DatasetConfig| pythia_server::Config {
        bind: vec!["127.0.0.1:0".parse().expect("an address")],
        datasets: vec![dataset],
        ..Default::default()
    };
    let read_only = DatasetConfig {
        read_only: true,
        create: true,
        ..DatasetConfig::new("x", folder.path().join("other"))
    };
    let refused = pythia_server::Server::start(config(read_only))
        .err()
        .expect("no store");
    assert!(refused.to_string().contains('x'), "{refused}");
    std::fs::write(folder.path().join("file"), "text").expect("written");
    let foreign = DatasetConfig {
        create: true,
        ..DatasetConfig::new("x", folder.path())
    };
    assert!(pythia_server::Server::start(config(foreign)).is_err());
}

/// Its device may not be mounted: an empty store in its place would take updates and hide the data.
#[test]
fn a_dataset_whose_folder_is_missing_is_not_made_unless_that_is_wanted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("missing");
    let start = || {
        pythia_server::Server::start(pythia_server::Config {
            bind: vec!["127.0.0.1:0".parse().expect("an address")],
            datasets: vec![DatasetConfig::new("x", &path)],
            ..Default::default()
        })
    };
    for made in [false, true] {
        if made {
            std::fs::create_dir(&path).expect("an empty folder, as a mount point is");
        }
        let error = start().err().expect("no store");
        let cause = std::error::Error::source(&error)
            .expect("a cause")
            .to_string();
        assert!(cause.contains(&path.display().to_string()), "{cause}");
        assert!(cause.contains("create = true"), "{cause}");
        let left = std::fs::read_dir(&path).map_or(0, Iterator::count);
        assert_eq!((path.exists(), left), (made, 0));
    }
}

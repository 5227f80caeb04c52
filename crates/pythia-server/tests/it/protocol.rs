//! Queries, updates and graphs as clients send them.

use std::time::{Duration, Instant};

use crate::support::Served;
use crate::wire;

const DATA: &str = "
    PREFIX ex: <http://ex.org/>
    ex:a ex:p ex:b, ex:c . ex:b ex:p ex:c .
    GRAPH ex:g { ex:a ex:q 'é' }
";

#[test]
fn queries_are_answered_by_every_method() {
    let served = Served::with(DATA);
    let select = "SELECT ?o { <http://ex.org/a> <http://ex.org/p> ?o } ORDER BY ?o";
    let encoded = "query=SELECT%20%3Fo%20%7B%20%3Chttp%3A%2F%2Fex.org%2Fa%3E+%3Chttp://ex.org/p%3E%20?o%7D%20ORDER+BY+?o";
    let csv = "o\r\nhttp://ex.org/b\r\nhttp://ex.org/c\r\n";
    let accept = ("accept", "text/csv");
    for path in ["/query", "/sparql", "/ds/query", "/ds/sparql", "/ds"] {
        let get = served.get(&format!("{path}?{encoded}"), &[accept]);
        assert_eq!((get.status.as_u16(), get.text()), (200, csv), "{path}");
        assert_eq!(get.header("content-type"), Some("text/csv; charset=utf-8"));
        for (method, media_type, body) in [
            ("POST", "application/sparql-query", select),
            ("QUERY", "application/sparql-query; charset=UTF-8", select),
            ("POST", "application/x-www-form-urlencoded", encoded),
        ] {
            let headers = [accept, ("content-type", media_type)];
            let answer = served.send(method, path, &headers, body.as_bytes());
            assert_eq!(answer.text(), csv, "{method} {path} {media_type}");
        }
    }
}

#[test]
fn answers_come_in_the_format_that_is_liked_best() {
    let served = Served::with(DATA);
    let format = |query: &str, accept: &str| {
        let answer = served.query(query, accept);
        (
            answer.status.as_u16(),
            answer.header("content-type").map(str::to_owned),
        )
    };
    let table = "SELECT * { ?s ?p ?o }";
    for (accept, wanted) in [
        ("*/*", "application/sparql-results+json"),
        (
            "application/sparql-results+xml, */*;q=0.1",
            "application/sparql-results+xml",
        ),
        (
            "text/csv;q=0.1, text/tab-separated-values",
            "text/tab-separated-values; charset=utf-8",
        ),
        (
            "application/vnd.apache.arrow.stream",
            "application/vnd.apache.arrow.stream",
        ),
    ] {
        assert_eq!(
            format(table, accept),
            (200, Some(wanted.to_owned())),
            "{accept}"
        );
    }
    let graph = "CONSTRUCT WHERE { ?s ?p ?o }";
    for (accept, wanted) in [
        ("*/*", "application/n-triples"),
        ("text/turtle", "text/turtle; charset=utf-8"),
        (
            "application/rdf+xml;q=0.5, application/ld+json",
            "application/ld+json",
        ),
    ] {
        assert_eq!(
            format(graph, accept),
            (200, Some(wanted.to_owned())),
            "{accept}"
        );
    }
    assert_eq!(served.query(graph, "text/csv").status, 406);
    let named = served.get("/query?query=ASK%7B%7D&format=xml", &[]);
    assert_eq!(
        named.header("content-type"),
        Some("application/sparql-results+xml")
    );
    let named = served.get(
        "/query?query=CONSTRUCT%20WHERE%7B?s%20?p%20?o%7D&output=xml",
        &[],
    );
    assert_eq!(named.header("content-type"), Some("application/rdf+xml"));
    assert_eq!(named.header("vary"), Some("accept, accept-encoding"));
}

/// SPARQLWrapper sends names under all parameters that some server reads, known or not.
#[test]
fn the_first_known_name_of_a_format_counts() {
    let served = Served::with(DATA);
    let ask = "/query?query=ASK%7B%7D";
    for (parameters, wanted) in [
        (
            "format=tsv&format=text/tab-separated-values",
            "text/tab-separated-values; charset=utf-8",
        ),
        (
            "format=n3&output=xml&results=n3",
            "application/sparql-results+xml",
        ),
        (
            "format=x,application/json",
            "application/sparql-results+json",
        ),
        ("format=unheard-of", "text/csv; charset=utf-8"),
    ] {
        let answer = served.get(&format!("{ask}&{parameters}"), &[("accept", "text/csv")]);
        assert_eq!(answer.header("content-type"), Some(wanted), "{parameters}");
    }
    let answer = wire::Request::new("GET", &format!("{ask}&format=unheard-of"));
    assert_eq!(answer.send(served.address).expect("an answer").status, 400);
}

#[test]
fn requests_name_graphs() {
    let served = Served::with(DATA);
    let query = "query=SELECT%20*%20%7B%20?s%20?p%20?o%20%7D";
    let rows = |parameters: &str| {
        let answer = served.get(
            &format!("/query?{query}{parameters}"),
            &[("accept", "text/csv")],
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().lines().count() - 1
    };
    assert_eq!(rows(""), 3);
    assert_eq!(rows("&default-graph-uri=http://ex.org/g"), 1);
    assert_eq!(rows("&named-graph-uri=http://ex.org/g"), 0);
    let insert = "INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }";
    let path = "/update?using-graph-uri=http://ex.org/g";
    let headers = [("content-type", "application/sparql-update")];
    assert_eq!(
        served
            .send("POST", path, &headers, insert.as_bytes())
            .status,
        204
    );
    assert_eq!(rows(""), 4);
    let with = format!("WITH <http://ex.org/g> {insert}");
    let refused = served.send("POST", path, &headers, with.as_bytes());
    assert_eq!(refused.status, 400);
    let wrong = served.get(&format!("/query?{query}&default-graph-uri=no%20iri"), &[]);
    assert_eq!(wrong.status, 400);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let served = Served::with(DATA);
    let wrong = "SELECT * {\n  ?s ?p }";
    let text = served.query(wrong, "*/*");
    assert_eq!(text.status, 400);
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(
        text.text().starts_with("line 2, column 9: "),
        "{}",
        text.text()
    );
    assert!(text.text().contains("2 |   ?s ?p }\n"), "{}", text.text());
    let problem = served.query(
        wrong,
        "application/sparql-results+json, application/json;q=0.9",
    );
    assert_eq!(
        problem.header("content-type"),
        Some("application/problem+json")
    );
    let problem = problem.json();
    assert_eq!(
        (&problem["line"], &problem["column"]),
        (&2.into(), &9.into())
    );
    for (method, path, media_type, body, status) in [
        ("POST", "/query", "text/plain", "ASK {}", 415),
        (
            "POST",
            "/query",
            "application/sparql-query; charset=utf-16",
            "ASK {}",
            415,
        ),
        ("PUT", "/query", "application/sparql-query", "ASK {}", 405),
        ("GET", "/update", "", "", 405),
        ("POST", "/update", "application/sparql-query", "ASK {}", 415),
        (
            "POST",
            "/update",
            "application/x-www-form-urlencoded",
            "query=ASK%7B%7D",
            400,
        ),
        (
            "POST",
            "/sparql",
            "application/x-www-form-urlencoded",
            "query=ASK%7B%7D&update=",
            400,
        ),
        (
            "POST",
            "/sparql",
            "application/x-www-form-urlencoded",
            "query=%",
            400,
        ),
        ("GET", "/query?query=ASK%7B%7D&query=ASK%7B%7D", "", "", 400),
        ("GET", "/query?query=ASK%7B%7D&timeout=soon", "", "", 400),
        ("GET", "/query?query=%FF", "", "", 400),
        ("GET", "/none/query?query=ASK%7B%7D", "", "", 404),
        ("GET", "/query/none", "", "", 404),
        ("GET", "/store?graph=urn:none", "", "", 404),
        ("GET", "/store?graph=no", "", "", 400),
        ("GET", "/store?graph=urn:a&default", "", "", 400),
        ("PUT", "/store?default", "text/csv", "a,b", 415),
        ("PUT", "/store?default", "application/n-quads", "", 415),
        ("PUT", "/get?default", "text/turtle", "", 405),
        (
            "PUT",
            "/store?default",
            "text/turtle",
            "<urn:a> <urn:b> ",
            400,
        ),
        ("DELETE", "/store?graph=urn:none", "", "", 404),
        ("PATCH", "/store?default", "text/turtle", "", 415),
    ] {
        let headers = [("content-type", media_type)];
        let headers = &headers[usize::from(media_type.is_empty())..];
        let answer = served.send(method, path, headers, body.as_bytes());
        assert_eq!(
            answer.status,
            status,
            "{method} {path} {body}: {}",
            answer.text()
        );
        assert!(!answer.body.is_empty(), "{method} {path} {body}");
    }
}

#[test]
fn graphs_are_stored() {
    let served = Served::with(DATA);
    let turtle = [("content-type", "text/turtle")];
    let graph = "/store?graph=http://ex.org/new/";
    let get = |path: &str| served.get(path, &[("accept", "application/n-triples")]);
    assert_eq!(
        served.send("PUT", graph, &turtle, b"<a> <b> 'c' .").status,
        201
    );
    let triple = "<http://ex.org/new/a> <http://ex.org/new/b> \"c\" .\n";
    assert_eq!(get(graph).text(), triple);
    assert_eq!(
        served.send("PUT", graph, &turtle, b"<a> <b> 'd' .").status,
        204
    );
    assert_eq!(get(graph).text(), triple.replace("\"c\"", "\"d\""));
    assert_eq!(
        served.send("POST", graph, &turtle, b"<a> <b> 'c' .").status,
        204
    );
    assert_eq!(get(graph).text().lines().count(), 2);
    let update = [("content-type", "application/sparql-update")];
    let patch = b"DELETE WHERE { ?s ?p 'd' }";
    assert_eq!(served.send("PATCH", graph, &update, patch).status, 204);
    assert_eq!(get(graph).text(), triple);
    let elsewhere = b"CLEAR DEFAULT";
    assert_eq!(served.send("PATCH", graph, &update, elsewhere).status, 400);
    assert_eq!(served.send("HEAD", graph, &[], b"").status, 200);
    assert_eq!(served.send("DELETE", graph, &[], b"").status, 204);
    assert_eq!(get(graph).status, 404);
    // The rest of the dataset is as it was.
    let all = served.get("/ds", &[]);
    assert_eq!(all.header("content-type"), Some("application/n-quads"));
    assert_eq!(all.text().lines().count(), 4);
    let created = served.send("POST", "/store", &turtle, b"<urn:a> <urn:b> 1 .");
    assert_eq!(created.status, 201);
    let location = created.header("location").expect("a name");
    let direct = location
        .strip_prefix(&served.url(""))
        .expect("in this store");
    assert_eq!(get(direct).text().lines().count(), 1);
    let quads = [("content-type", "application/n-quads")];
    let quad = b"<urn:a> <urn:b> \"q\" <urn:g> .\n";
    assert_eq!(served.send("POST", "/ds/data", &quads, quad).status, 204);
    assert_eq!(get("/data?graph=urn:g").text(), "<urn:a> <urn:b> \"q\" .\n");
    assert_eq!(served.send("PUT", "/ds", &quads, quad).status, 204);
    assert_eq!(served.get("/store", &[]).text().as_bytes(), quad);
    assert_eq!(served.send("DELETE", "/store", &[], b"").status, 204);
    assert_eq!(served.get("/store", &[]).text(), "");
}

#[test]
fn what_is_wrong_in_a_graph_is_said_with_its_place() {
    let served = Served::with("");
    let headers = [
        ("content-type", "text/turtle"),
        ("accept", "application/json"),
    ];
    let wrong = b"<urn:a> <urn:b> 1 .\n<urn:a> <urn:b> .\n";
    let refused = served.send("PUT", "/store?default", &headers, wrong);
    assert_eq!(refused.status, 400);
    let problem = refused.json();
    assert_eq!(problem["line"], 2, "{problem}");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.starts_with("body:2:"), "{detail}");
}

#[test]
fn files_of_a_form_are_stored() {
    let served = Served::with("");
    let form = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a.nt\"\r\n\r\n\
                <urn:a> <urn:b> \"1\" .\r\n--x\r\n\
                Content-Disposition: form-data; name=\"b\"\r\nContent-Type: text/turtle\r\n\r\n\
                <urn:a> <urn:b> '2' .\r\n--x--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let stored = served.send("POST", "/store?default", &headers, form.as_bytes());
    assert_eq!(stored.status, 204, "{}", stored.text());
    assert_eq!(served.get("/store?default", &[]).text().lines().count(), 2);
    let broken = served.send("POST", "/store?default", &headers, b"--y\r\n");
    assert_eq!(broken.status, 400);
}

#[test]
fn long_bodies_are_loaded_while_they_come() {
    let served = Served::with(DATA);
    let many: String = (0..60_000)
        .map(|i| format!("<urn:s{i}> <urn:p> \"a value that is {i}\" .\n"))
        .collect();
    assert!(many.len() > 2 << 20);
    let triples = [("content-type", "application/n-triples")];
    for method in ["POST", "PUT"] {
        let graph = format!("/store?graph=urn:{method}");
        assert_eq!(
            served
                .send(method, &graph, &triples, many.as_bytes())
                .status,
            201
        );
        assert_eq!(served.get(&graph, &[]).text().lines().count(), 60_000);
        let broken = format!("{many}<urn:s> <urn:p> .\n");
        let refused = served.send(method, &graph, &triples, broken.as_bytes());
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains("60001"), "{}", refused.text());
        assert_eq!(served.get(&graph, &[]).text().lines().count(), 60_000);
    }
}

#[test]
fn a_long_body_replaces_a_graph_whoever_changes_it_meanwhile() {
    let served = Served::with(DATA);
    let lines = |numbers: std::ops::Range<usize>| -> String {
        let line = |n| format!("<urn:s{n}> <urn:p> \"a value that is {n}\" .\n");
        numbers.map(line).collect()
    };
    let count = |target: &str| served.get(target, &[]).text().lines().count();
    let triples = [("content-type", "application/n-triples")];
    let named = "/store?graph=urn:long";
    let open = "GRAPH <urn:long> {";
    for (target, [open, close]) in [(named, [open, "}"]), ("/store?default", ["", ""])] {
        let before = served.send("PUT", target, &triples, lines(0..30_000).as_bytes());
        assert!(before.status.is_success());
        let replacing = lines(20_000..60_000);
        assert!(replacing.len() > 1 << 20);
        // The other graph stays.
        let other = if target == named {
            "/store?default"
        } else {
            named
        };
        let others = count(other);
        std::thread::scope(|scope| {
            let put = scope.spawn(|| served.send("PUT", target, &triples, replacing.as_bytes()));
            let mut number = 0;
            while !put.is_finished() && number < 10_000 {
                let quad = format!("<urn:s{number}> <urn:p> \"a value that is {number}\"");
                let added = format!("<urn:added{number}> <urn:p> 1");
                let update = format!(
                    "DELETE DATA {{ {open} {quad} {close} }} ; INSERT DATA {{ {open} {added} {close} }}"
                );
                let headers = [("content-type", "application/sparql-update")];
                assert_eq!(
                    served
                        .send("POST", "/update", &headers, update.as_bytes())
                        .status,
                    204
                );
                number += 1;
            }
            assert_eq!(put.join().expect("sent").status, 204);
        });
        // The last commits may be after the PUT, and may add quads.
        let after = served.get(target, &[]).text().to_owned();
        assert!(after.lines().count() >= 40_000);
        assert!(!after.contains("<urn:s19999>"));
        for left in ["<urn:s20000>", "<urn:s59999>"] {
            assert!(after.contains(left), "{left}");
        }
        assert_eq!(count(other), others);
    }
    let quads = [("content-type", "application/n-quads")];
    let all = lines(0..40_000).replace(" .\n", " <urn:g> .\n");
    assert_eq!(
        served.send("PUT", "/data", &quads, all.as_bytes()).status,
        204
    );
    assert_eq!(count("/data"), 40_000);
    assert_eq!(count("/store?graph=urn:g"), 40_000);
}

#[test]
fn an_update_with_a_key_is_done_once() {
    let served = Served::with(DATA);
    let headers = [
        ("content-type", "application/sparql-update"),
        ("idempotency-key", "order-7"),
        ("accept", "application/json"),
    ];
    let send = |update: &str| served.send("POST", "/update", &headers, update.as_bytes());
    let first = send("INSERT DATA { <urn:a> <urn:b> 1 }");
    assert_eq!(first.json()["added"], 1);
    let second = send("INSERT DATA { <urn:a> <urn:b> 2 }");
    assert_eq!(second.json()["position"], first.json()["position"]);
    assert_eq!(
        second.header("pythia-commit"),
        first.header("pythia-commit")
    );
    let ask = served.query("ASK { <urn:a> <urn:b> 2 }", "text/csv");
    assert_eq!(ask.text(), "false");
}

#[test]
fn an_update_can_be_serializable() {
    let served = Served::with(DATA);
    let update = "INSERT { <urn:a> <urn:b> 1 } WHERE { FILTER NOT EXISTS { ?x <urn:b> ?y } }";
    let headers = [
        ("content-type", "application/sparql-update"),
        ("accept", "application/json"),
    ];
    let send = |level: &str, update: &str| {
        let path = format!("/update?isolation={level}");
        served.send("POST", &path, &headers, update.as_bytes())
    };
    assert_eq!(send("serializable", update).json()["added"], 1);
    assert_eq!(send("serializable", update).json()["added"], 0);
    let clear = "DELETE WHERE { ?x <urn:b> ?y }";
    assert_eq!(send("snapshot", clear).json()["removed"], 1);
    // As a field of a form.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = "isolation=serializable&update=INSERT+DATA+%7B%3Curn%3Aa%3E+%3Curn%3Ab%3E+2%7D";
    let sent = served.send("POST", "/update", &form, body.as_bytes());
    assert_eq!(sent.status, 204);
    for level in [
        "serialisable",
        "SERIALIZABLE",
        "",
        "snapshot&isolation=snapshot",
    ] {
        let refused = send(level, clear);
        assert_eq!(refused.status, 400, "{level}");
        assert!(refused.text().contains("isolation"), "{}", refused.text());
    }
    let told = send("repeatable", clear);
    let told = told.text();
    assert!(told.contains("snapshot or serializable"), "{told}");
    let ask = served.query("ASK { <urn:a> <urn:b> 2 }", "text/csv");
    assert_eq!(ask.text(), "true");
}

#[test]
fn of_serializable_updates_at_the_same_time_one_finds_nothing() {
    const CLIENTS: usize = 6;
    let served = Served::with(DATA);
    let headers = [("content-type", "application/sparql-update")];
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let served = &served;
            scope.spawn(move || {
                let update = format!(
                    "INSERT {{ <urn:c{client}> <urn:is> <urn:first> }}
                     WHERE {{ FILTER NOT EXISTS {{ ?x <urn:is> <urn:first> }} }}"
                );
                let path = "/update?isolation=serializable";
                let sent = served.send("POST", path, &headers, update.as_bytes());
                assert_eq!(sent.status, 204, "{}", sent.text());
            });
        }
    });
    let first = served.query("SELECT ?x { ?x <urn:is> <urn:first> }", "text/csv");
    assert_eq!(first.text().lines().count(), 2, "{}", first.text());
}

/// Solutions that never end, for this data.
const ENDLESS: &str = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o . ?q ?r ?s .
                       ?t ?u ?v . ?w ?x ?y . ?z ?aa ?ab . ?ac ?ad ?ae . ?af ?ag ?ah . ?ai ?aj ?ak .
                       ?al ?am ?an . ?ao ?ap ?aq . ?ar ?as ?at . ?au ?av ?aw }";

/// A sum over the first and the last pattern, which needs each of the solutions.
fn endless_sum() -> String {
    ENDLESS.replace('*', "(SUM(STRLEN(STR(?a)) + STRLEN(STR(?aw))) AS ?n)")
}

#[test]
fn what_fails_in_mid_stream_is_cut_so_that_it_is_seen() {
    let served = Served::with(DATA);
    let headers = [
        ("content-type", "application/sparql-query"),
        ("accept", "text/csv"),
    ];
    let mut request = ureq::post(served.url("/query?timeout=0.3"));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut response = request.send(ENDLESS).expect("it begins");
    assert_eq!(response.status(), 200);
    let read = response
        .body_mut()
        .with_config()
        .limit(u64::MAX)
        .read_to_vec();
    read.expect_err("it is cut");
    // Before the first byte, the status tells.
    let late = served.send(
        "POST",
        "/query?timeout=0.3",
        &headers,
        endless_sum().as_bytes(),
    );
    assert_eq!(late.status, 504, "{}", late.text());
    let rows = served.send("POST", "/query?rows=5", &headers, ENDLESS.as_bytes());
    assert_eq!(rows.status, 413);
}

/// More long queries than threads that serve connections, while others are answered.
#[test]
fn long_queries_leave_connections_to_other_threads() {
    let served = Served::with(DATA);
    let counted = endless_sum();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ids: Vec<String> = (0..2 * cores).map(|n| format!("long-{n}")).collect();
    let running = || {
        let listed = served.get("/$/queries", &[]).json();
        listed["queries"].as_array().map_or(0, Vec::len)
    };
    std::thread::scope(|scope| {
        for id in &ids {
            let (served, counted) = (&served, counted.as_bytes());
            scope.spawn(move || {
                let headers = [
                    ("content-type", "application/sparql-query"),
                    ("pythia-query-id", id),
                ];
                let stopped = served.send("POST", "/query?timeout=600", &headers, counted);
                assert_eq!(stopped.status, 503, "{}", stopped.text());
            });
        }
        let begun = Instant::now();
        while running() < ids.len() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..20 {
            assert_eq!(served.query("ASK {}", "text/csv").text(), "true");
        }
        assert_eq!(running(), ids.len());
        for id in &ids {
            let stopped = served.send("DELETE", &format!("/$/queries/{id}"), &[], b"");
            assert_eq!(stopped.status, 204);
        }
    });
}

#[test]
fn plans_are_told() {
    let served = Served::with(DATA);
    let headers = [("content-type", "application/sparql-query")];
    let query = b"SELECT * { ?s <http://ex.org/p> ?o }";
    let plan = served.send("POST", "/query?explain=plan", &headers, query);
    assert_eq!(plan.header("content-type"), Some("application/json"));
    assert!(plan.json().is_object());
    let measured = served.send("POST", "/query?explain=analyze", &headers, query);
    assert!(
        measured.text().contains("\"rows\": 3"),
        "{}",
        measured.text()
    );
}

#[test]
fn timeouts_may_have_a_unit() {
    let served = Served::with(DATA);
    for (timeout, status) in [
        ("300s", 200),
        ("0.5", 200),
        ("5m", 200),
        ("5x", 400),
        ("0s", 400),
    ] {
        let answer = served.get(&format!("/query?query=ASK%7B%7D&timeout={timeout}"), &[]);
        assert_eq!(answer.status, status, "{timeout}: {}", answer.text());
    }
}

#[test]
fn triple_terms_are_not_acceptable_as_json_ld() {
    let served = Served::with(DATA);
    let data = "<urn:r> <urn:reifies> <<( <urn:a> <urn:b> <urn:c> )>> .";
    let turtle = [("content-type", "text/turtle")];
    let stored = served.send("POST", "/store?default", &turtle, data.as_bytes());
    assert!(stored.status.is_success(), "{}", stored.text());
    let query = "/query?query=CONSTRUCT%20WHERE%20%7B%20%3Furn%20%3Curn:reifies%3E%20%3Fo%20%7D";
    let json = [("accept", "application/ld+json")];
    for path in [query, "/store", "/store?default"] {
        let answer = served.get(path, &json);
        assert_eq!(answer.status, 406, "{path}: {}", answer.text());
        assert!(answer.text().contains("triple term"), "{}", answer.text());
    }
    let lines = served.get(query, &[("accept", "application/n-triples")]);
    assert_eq!(lines.status, 200);
}

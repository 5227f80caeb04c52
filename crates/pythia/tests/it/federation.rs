//! `SERVICE`: what endpoints are asked, how often, and what becomes of answers that are late or broken.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use oxrdf::{Literal, NamedNode, Term, Variable};
use pythia::{
    Database, HttpService, QueryError, QueryOptions, Results, ServiceError, ServiceHandler,
    ServiceSolutions,
};

use crate::support::{database, ours, ours_with};

type Rows = Vec<Result<Vec<Option<Term>>, ServiceError>>;

/// An endpoint in this process, which keeps what it was asked.
struct Remote {
    database: Database,
    asked: Mutex<Vec<String>>,
    /// The endpoints of these questions.
    endpoints: Mutex<Vec<String>>,
    /// Breaks off after this number of solutions.
    breaks_after: Option<usize>,
    delay: Duration,
}

impl Remote {
    fn new(nquads: &str) -> Self {
        Self {
            database: database(nquads),
            asked: Mutex::default(),
            endpoints: Mutex::default(),
            breaks_after: None,
            delay: Duration::ZERO,
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl ServiceHandler for Remote {
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        _: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        self.asked.lock().unwrap().push(query.to_owned());
        let name = endpoint.as_str().to_owned();
        self.endpoints.lock().unwrap().push(name);
        std::thread::sleep(self.delay);
        if endpoint.as_str().ends_with("absent") {
            return Err(ServiceError("not there".to_owned()));
        }
        let failed = |error: QueryError| ServiceError(error.to_string());
        let results = self.database.query(query).map_err(failed)?;
        let Results::Solutions(mut solutions) = results else {
            panic!("a SELECT");
        };
        let variables: Vec<Variable> = solutions.variables().to_vec();
        let mut rows: Rows = Vec::new();
        while let Some(batch) = solutions.next_batch().map_err(failed)? {
            for row in 0..batch.len() {
                rows.push(Ok(batch.row(row).map(|(_, term)| term.cloned()).collect()));
            }
        }
        if let Some(after) = self.breaks_after {
            rows.truncate(after);
            rows.push(Err(ServiceError("broke off".to_owned())));
        }
        Ok(ServiceSolutions {
            variables,
            rows: Box::new(rows.into_iter()),
        })
    }

    fn check(&self, endpoint: &NamedNode) -> Result<(), ServiceError> {
        match endpoint.as_str().contains("forbidden") {
            true => Err(ServiceError("it may not be asked".to_owned())),
            false => Ok(()),
        }
    }
}

fn asking(remote: &Arc<Remote>) -> QueryOptions {
    QueryOptions {
        service: Some(Arc::clone(remote) as Arc<dyn ServiceHandler>),
        ..QueryOptions::default()
    }
}

/// Subjects with a number here, names of some of them there.
const COUNT: usize = 3000;

fn here() -> String {
    let line = |n| format!("<http://e/n{n}> <http://e/p> <http://e/m{}> .\n", n % 1000);
    (0..COUNT).map(line).collect()
}

fn there(graph: &str) -> String {
    let line = |n: usize| {
        let (name, kind) = (n / 2, n % 3);
        format!(
            "<http://e/m{n}> <http://e/name> \"name {name}\" {graph} .\n\
             <http://e/m{n}> <http://e/kind> <http://e/k{kind}> {graph} .\n"
        )
    };
    (0..1000).step_by(2).map(line).collect()
}

/// Each pattern gives the same with the endpoint's data in a graph here.
#[test]
fn bound_joins_give_what_a_graph_would() {
    let graph = "<http://e/there>";
    let both = database(&(here() + &there(graph)));
    let remote = Arc::new(Remote::new(&there("")));
    for pattern in [
        "?s e:p ?m . AT { ?m e:name ?name }",
        "?s e:p ?m . AT { ?m e:name ?name FILTER(?name > \"name 200\") }",
        "?s e:p ?m OPTIONAL { AT { ?m e:name ?name } }",
        "?s e:p ?m OPTIONAL { AT { ?m e:name ?name } } FILTER(!BOUND(?name))",
        "?s e:p ?m OPTIONAL { AT { ?m e:name ?name } FILTER(?m = e:m4) }",
        "?s e:p ?m . AT { ?m e:kind ?k OPTIONAL { ?m e:name ?name } }",
        "VALUES (?m ?name) { (e:m2 UNDEF) (UNDEF \"name 2\") (e:m4 \"x\") } AT { ?m e:name ?name }",
        "VALUES ?s { e:n1 e:n2 } AT { SELECT ?k (COUNT(*) AS ?n) { ?m e:kind ?k } GROUP BY ?k }",
        "VALUES ?m { e:m2 e:m4 } AT { BIND(COALESCE(?m, 1) AS ?x) }",
        "AT { ?m e:kind e:k1 } ?s e:p ?m . AT { ?m e:name ?name }",
        "?s e:p e:m1 AT { ?m e:kind e:k0 }",
        "?s e:p ?m MINUS { AT { ?m e:kind e:k0 } }",
        "?s e:p ?m LATERAL { AT { ?m e:name ?name } }",
        "VALUES ?s { e:n1 e:n2 e:n2 } ?s e:p ?m LATERAL { OPTIONAL { AT { ?m e:name ?name } } }",
        "VALUES ?s { e:n1 e:n2 e:n4 } ?s e:p ?m LATERAL { AT { ?m e:name ?n } BIND(STRLEN(?n) AS ?l) }",
        "VALUES ?s { e:n2 e:n4 e:n1002 } ?s e:p ?m \
         LATERAL { SELECT ?m ?k { AT { ?m ?p ?k } } ORDER BY DESC(?k) LIMIT 1 }",
    ] {
        let query = |at: &str| {
            let pattern = pattern.replace("AT {", &format!("{at} {{"));
            format!("PREFIX e: <http://e/> SELECT * {{ {pattern} }}")
        };
        let expected = ours(&both, &query("GRAPH e:there")).unwrap().sorted();
        let found = ours_with(&both, &query("SERVICE e:endpoint"), &asking(&remote));
        let found = found
            .unwrap()
            .with_columns(&expected.variables)
            .expect("columns");
        assert_eq!(found.sorted(), expected, "{pattern}");
    }
}

#[test]
fn terms_are_sent_along_once_and_many_at_a_time() {
    let here = database(&here());
    let remote = Arc::new(Remote::new(&there("")));
    for pattern in [
        "SERVICE e:x { ?m e:name ?name }",
        "OPTIONAL { SERVICE e:x { ?m e:name ?name } }",
    ] {
        remote.asked.lock().unwrap().clear();
        let query = format!("PREFIX e: <http://e/> SELECT * {{ ?s e:p ?m {pattern} }}");
        ours_with(&here, &query, &asking(&remote)).unwrap();
        let asked = remote.asked();
        assert!((6..20).contains(&asked.len()), "{} requests", asked.len());
        for query in asked {
            let sent = query.matches("<http://e/m").count();
            assert!(
                (1..=512).contains(&sent) && query.contains("VALUES"),
                "{sent}: {query}"
            );
        }
    }
}

#[test]
fn what_shares_nothing_is_asked_once() {
    let here = database(&here());
    let remote = Arc::new(Remote::new(&there("")));
    let query = "PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) { ?s e:p ?m SERVICE e:x { ?x e:kind e:k0 } }";
    let found = ours_with(&here, query, &asking(&remote)).unwrap().lines;
    let expected = COUNT * (0..1000).step_by(2).filter(|n| n % 3 == 0).count();
    assert!(
        found[0].starts_with(&format!("\"{expected}\"")),
        "{found:?}"
    );
    assert_eq!(remote.asked().len(), 1);
}

#[test]
fn a_silent_endpoint_that_breaks_off_gives_nothing_and_is_left_alone() {
    let here = database(&here());
    let mut remote = Remote::new(&there(""));
    remote.breaks_after = Some(3);
    let remote = Arc::new(remote);
    let query = |silent: &str| {
        format!(
            "PREFIX e: <http://e/> SELECT * {{ ?s e:p ?m SERVICE {silent} e:x {{ ?m e:name ?name }} }}"
        )
    };
    let error = ours_with(&here, &query(""), &asking(&remote)).unwrap_err();
    assert!(matches!(error, QueryError::Service { .. }), "{error}");
    assert!(error.to_string().contains("broke off") && error.to_string().contains("http://e/x"));
    remote.asked.lock().unwrap().clear();
    let found = ours_with(&here, &query("SILENT"), &asking(&remote))
        .unwrap()
        .lines;
    assert_eq!(found.len(), COUNT);
    assert!(found.iter().all(|line| line.ends_with("\t-")));
    assert_eq!(remote.asked().len(), 1);
}

#[test]
fn each_endpoint_is_asked_for_its_own_solutions() {
    let here = database(&here());
    let remote = Arc::new(Remote::new(&there("")));
    let query = |silent: &str, last: &str| {
        format!(
            "PREFIX e: <http://e/> SELECT ?m ?name {{
                VALUES (?e ?m) {{ (e:one e:m2) (e:two e:m4) (e:one e:m6) {last} }}
                SERVICE {silent} ?e {{ ?m e:name ?name }} }}"
        )
    };
    let found = ours_with(&here, &query("", ""), &asking(&remote)).unwrap();
    assert_eq!(found.lines.len(), 3);
    assert_eq!(remote.asked().len(), 2);
    for last in ["(e:absent e:m8)", "(\"text\" e:m8)", "(UNDEF e:m8)"] {
        let error = ours_with(&here, &query("", last), &asking(&remote)).unwrap_err();
        assert!(matches!(error, QueryError::Service { .. }), "{error}");
        let found = ours_with(&here, &query("SILENT", last), &asking(&remote)).unwrap();
        assert_eq!(found.lines.len(), 4, "{last}");
        assert!(found.lines.contains(&"<http://e/m8>\t-".to_owned()));
    }
}

/// The parts that bind the endpoint may stand anywhere in the group.
#[test]
fn the_endpoint_is_bound_anywhere_in_the_group() {
    let at = "<http://e/here> <http://e/at> <http://e/one> .\n\
              <http://e/here> <http://e/at> <http://e/two> .\n\
              <http://e/m2> <http://e/in> <http://e/one> .\n";
    let here = database(&(here() + at));
    let remote = Arc::new(Remote::new(&there("")));
    let service = "SERVICE ?e { ?m e:name ?name }";
    for (binder, rows) in [
        ("VALUES ?e { e:one }", 500),
        (
            "VALUES (?e ?m) { (e:one e:m2) (e:two e:m4) (e:two UNDEF) }",
            502,
        ),
        ("BIND(e:one AS ?e)", 500),
        ("BIND(IRI(CONCAT(\"http://e/\", \"one\")) AS ?e)", 500),
        ("e:here e:at ?e .", 1000),
        ("?m e:in ?e .", 1),
        ("?x e:at|e:in ?e .", 1500),
        (
            "{ SELECT DISTINCT ?e { ?x e:at ?e } ORDER BY ?e LIMIT 1 }",
            500,
        ),
        ("{ e:here e:at ?e } UNION { ?m e:in ?e }", 1001),
        ("{ { VALUES ?e { e:one } } }", 500),
        ("GRAPH ?g {} VALUES ?e { e:one }", 0),
    ] {
        for group in [
            format!("{binder} {service}"),
            format!("{service} {binder}"),
            format!("{service} OPTIONAL {{ ?s e:none ?m }} {binder}"),
            format!("{service} BIND(STRLEN(?name) AS ?l) FILTER(?l > 1) {binder}"),
            format!("FILTER(BOUND(?e)) {service} MINUS {{ ?m e:none ?z }} {binder}"),
        ] {
            let query = format!("PREFIX e: <http://e/> SELECT ?e ?m ?name {{ {group} }}");
            let found = ours_with(&here, &query, &asking(&remote)).expect(&query);
            assert_eq!(found.lines.len(), rows, "{group}");
            let is_bound = |line: &String| line.starts_with("<http://e/");
            assert!(found.lines.iter().all(is_bound), "{group}");
        }
    }
    // Behind the group, and for each solution.
    let query = format!("PREFIX e: <http://e/> SELECT * {{ {service} }} VALUES ?e {{ e:one }}");
    let found = ours_with(&here, &query, &asking(&remote)).unwrap();
    assert_eq!(found.lines.len(), 500);
    let query = "PREFIX e: <http://e/> SELECT * { e:here e:at ?e FILTER EXISTS { SERVICE ?e { e:m2 e:name ?n } } }";
    let found = ours_with(&here, query, &asking(&remote)).unwrap();
    assert_eq!(found.lines.len(), 2);
}

#[test]
fn nothing_is_asked_if_an_endpoint_of_the_data_is_forbidden() {
    // More solutions than wait in memory.
    let mut data = here();
    for endpoint in ["one", "two", "three"] {
        data.push_str(&format!(
            "<http://e/here> <http://e/at> <http://e/{endpoint}> .\n"
        ));
    }
    let here = database(&data);
    let bad = [
        ("e:forbidden", "<http://e/forbidden>: it may not be asked"),
        ("\"text\"", "\"text\": it is a value of ?e, but no IRI"),
        ("5", "\"5\""),
        ("UNDEF", "?e is unbound"),
    ];
    for (value, message) in bad {
        let remote = Arc::new(Remote::new(&there("")));
        let query = |silent: &str| {
            format!(
                "PREFIX e: <http://e/> SELECT ?e ?m ?name {{
                    {{ e:here e:at ?e . ?s e:p ?m }} UNION {{ VALUES (?e ?m) {{ ({value} e:m2) }} }}
                    SERVICE {silent} ?e {{ ?m e:name ?name }} }}"
            )
        };
        let error = ours_with(&here, &query(""), &asking(&remote)).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(remote.asked(), Vec::<String>::new(), "{value}");
        let found = ours_with(&here, &query("SILENT"), &asking(&remote)).unwrap();
        // The failed one counts as one solution that binds nothing.
        assert_eq!(found.lines.len(), 3 * COUNT / 2 + 1, "{value}");
        let endpoints = remote.endpoints.lock().unwrap();
        assert!(
            endpoints
                .iter()
                .all(|endpoint| !endpoint.contains("forbidden"))
        );
    }
    let remote = Arc::new(Remote::new(&there("")));
    let query = "PREFIX e: <http://e/> SELECT ?e ?m ?name {
        SERVICE ?e { ?m e:name ?name } e:here e:at ?e . ?s e:p ?m }";
    let found = ours_with(&here, query, &asking(&remote)).unwrap();
    assert_eq!(found.lines.len(), 3 * COUNT / 2);
    // An endpoint that the query names is refused before anything else is done.
    let query = "SELECT * { VALUES ?e { <http://e/one> } SERVICE ?e { ?s ?p ?o }
        SERVICE <http://e/forbidden> { ?s ?p ?o } }";
    let remote = Arc::new(Remote::new(&there("")));
    let error = ours_with(&here, query, &asking(&remote)).unwrap_err();
    assert!(matches!(error, QueryError::Refused { .. }), "{error}");
    assert_eq!(remote.asked().len(), 0);
}

#[test]
fn an_endpoint_that_nothing_binds_is_an_error_that_says_what_to_do() {
    let here = database(&here());
    let remote = Arc::new(Remote::new(""));
    for (group, place, message) in [
        (
            "\n  SERVICE ?e { ?s ?p ?o }",
            "line 2, column 11",
            "nothing binds ?e",
        ),
        (
            "VALUES ?f { <http://e/x> } SERVICE ?f { ?a ?b ?c } SERVICE SILENT ?e { ?s ?p ?o } FILTER(?e != ?f)",
            "line 1, column 78",
            "nothing binds ?e",
        ),
        (
            "SERVICE ?e { ?s ?p ?o } OPTIONAL { ?x <http://e/at> ?e }",
            "",
            "binds ?e",
        ),
        (
            "SERVICE ?e { ?s ?p ?o } BIND(IRI(?o) AS ?e)",
            "",
            "binds ?e",
        ),
        ("SERVICE ?e { ?s ?p ?e }", "", "binds ?e"),
        ("FILTER EXISTS { SERVICE ?e { ?s ?p ?o } }", "", "binds ?e"),
    ] {
        let query = format!("SELECT * {{ {group} }}");
        let error = ours_with(&here, &query, &asking(&remote))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(message) && error.contains(place),
            "{group}: {error}"
        );
        assert!(error.contains("VALUES or BIND"), "{error}");
    }
    assert_eq!(remote.asked().len(), 0);
    let update = "INSERT { ?s ?p ?o } WHERE {\n SERVICE ?e { ?s ?p ?o } }";
    let error = pythia::Update::parse(update, None).unwrap_err().to_string();
    assert!(
        error.contains("line 2, column 10: nothing binds ?e"),
        "{error}"
    );
}

#[test]
fn a_query_that_waits_can_be_stopped() {
    let here = database(&here());
    let mut remote = Remote::new(&there(""));
    remote.delay = Duration::from_secs(20);
    let remote = Arc::new(remote);
    let query = "SELECT * { SERVICE SILENT <http://e/x> { ?m <http://e/name> ?name } }";
    let started = Instant::now();
    let timeout = QueryOptions {
        timeout: Some(Duration::from_millis(200)),
        ..asking(&remote)
    };
    let error = ours_with(&here, query, &timeout).unwrap_err();
    assert!(matches!(error, QueryError::Timeout), "{error}");
    let cancel = Arc::new(AtomicBool::new(false));
    let cancelled = QueryOptions {
        cancel: Some(Arc::clone(&cancel)),
        ..asking(&remote)
    };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
        });
        ours_with(&here, query, &cancelled).unwrap_err()
    });
    assert!(matches!(error, QueryError::Cancelled), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// An endpoint that never ends its list of numbers by itself.
struct Numbers(i64);

impl ServiceHandler for Numbers {
    fn select(
        &self,
        _: &NamedNode,
        _: &str,
        _: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        let number = |n: i64| Ok(vec![Some(Literal::from(n).into())]);
        Ok(ServiceSolutions {
            variables: vec![Variable::new_unchecked("n")],
            rows: Box::new((0..self.0).map(number)),
        })
    }
}

#[test]
fn long_answers_take_no_memory_unless_they_must_be_kept() {
    let here = database(&here());
    let options = |count| QueryOptions {
        service: Some(Arc::new(Numbers(count))),
        memory_bytes: Some(2 << 20),
        ..QueryOptions::default()
    };
    let query = |silent: &str| {
        format!(
            "SELECT (SUM(?n) AS ?s) {{ SERVICE {silent} <http://e/x> {{ ?m <http://e/p> ?n }} }}"
        )
    };
    let found = ours_with(&here, &query(""), &options(500_000)).unwrap();
    assert!(
        found.lines[0].starts_with("\"124999750000\""),
        "{:?}",
        found.lines
    );
    let error = ours_with(&here, &query("SILENT"), &options(500_000)).unwrap_err();
    assert!(matches!(error, QueryError::Memory(_)), "{error}");
    // Only as many as are wanted are read.
    let some = "SELECT * { SERVICE <http://e/x> { ?m <http://e/p> ?n } } LIMIT 3";
    assert_eq!(
        ours_with(&here, some, &options(i64::MAX))
            .unwrap()
            .lines
            .len(),
        3
    );
}

/// Answers over HTTP, one after the other.
fn serve(answers: &'static [&'static str]) -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let count = Arc::new(Mutex::new(0));
    let asked = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = {
                let mut count = asked.lock().unwrap();
                *count += 1;
                answers[(*count - 1).min(answers.len() - 1)]
            };
            let mut request = [0; 8192];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (format!("http://{address}/sparql"), count)
}

const BUSY: &str =
    "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BUSY_LONG: &str =
    "HTTP/1.1 429 Later\r\nRetry-After: 600\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwait";
const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\nContent-Length: 16\r\nConnection: close\r\n\r\n?x\n<http://e/a>\n";
const CUT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\nContent-Length: 99\r\nConnection: close\r\n\r\n?x\n<http://e/a>\n";
const WEB_PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

fn over_http(url: &str, silent: &str) -> Result<Vec<String>, QueryError> {
    let options = QueryOptions {
        service: Some(Arc::new(HttpService::default())),
        timeout: Some(Duration::from_secs(10)),
        ..QueryOptions::default()
    };
    let query = format!("SELECT * {{ SERVICE {silent} <{url}> {{ ?x ?y ?z }} }}");
    Ok(ours_with(&database(""), &query, &options)?.lines)
}

#[test]
fn busy_endpoints_are_asked_again_and_broken_ones_are_not_believed() {
    let (url, asked) = serve(&[BUSY, BUSY, GOOD]);
    assert_eq!(over_http(&url, "").unwrap(), ["<http://e/a>\t-\t-"]);
    assert_eq!(*asked.lock().unwrap(), 3);
    let (url, asked) = serve(&[BUSY]);
    let error = over_http(&url, "").unwrap_err().to_string();
    assert!(error.contains("503") && error.contains(&url), "{error}");
    assert_eq!(*asked.lock().unwrap(), 4);
    // Longer than the query may take.
    let (url, asked) = serve(&[BUSY_LONG]);
    let error = over_http(&url, "").unwrap_err().to_string();
    assert!(error.contains("429") && error.contains("wait"), "{error}");
    assert_eq!(*asked.lock().unwrap(), 1);
    for broken in [&[CUT], &[WEB_PAGE]] {
        let (url, _) = serve(broken);
        assert!(matches!(
            over_http(&url, ""),
            Err(QueryError::Service { .. })
        ));
        assert_eq!(over_http(&url, "SILENT").unwrap(), ["-\t-\t-"]);
    }
}

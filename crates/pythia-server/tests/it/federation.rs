//! SERVICE on behalf of clients, with endpoints on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Answer, Served};

/// An endpoint with one solution, which counts the connections to it.
struct Endpoint {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Endpoint {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 8192];
                let _ = stream.read(&mut request);
                let body = "?x\n<http://e/found>\n";
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\n\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, asked }
    }

    fn url(&self) -> String {
        format!("http://{}/sparql", self.address)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[test]
fn an_endpoint_of_the_data_is_asked_only_if_all_of_them_are_allowed() {
    let [allowed, other, forbidden] = [Endpoint::new(), Endpoint::new(), Endpoint::new()];
    let data = format!(
        "PREFIX : <http://e/> :a :at <{}> . :b :at <{}> . :c :not <{}> . :d :text \"{}\" .",
        allowed.url(),
        other.url(),
        forbidden.url(),
        allowed.url(),
    );
    let served = Served::configured(&data, |config| {
        config.outbound.allow = vec![allowed.url(), other.url()];
    });
    let ask = |query: &str| -> Answer {
        served.query(&format!("PREFIX : <http://e/> {query}"), "text/csv")
    };
    let rows = |answer: &Answer| {
        assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
        answer.text().lines().count() - 1
    };
    let refused = |answer: &Answer, part: &str| {
        assert_ne!(answer.status.as_u16(), 200, "{}", answer.text());
        assert!(answer.text().contains(part), "{}", answer.text());
    };
    let all = "{ ?s :at|:not ?e }";
    let query = |silent: &str, binder: &str| {
        format!("SELECT * {{ SERVICE {silent} ?e {{ ?x ?y ?z }} {binder} }}")
    };
    refused(&ask(&query("", all)), "outbound.allow");
    refused(&ask(&query("", "?s :at|:text ?e")), "no IRI");
    assert_eq!(
        (allowed.asked(), other.asked(), forbidden.asked()),
        (0, 0, 0)
    );

    assert_eq!(rows(&ask(&query("", "?s :at ?e"))), 2);
    assert_eq!(
        (allowed.asked(), other.asked(), forbidden.asked()),
        (1, 1, 0)
    );
    assert_eq!(rows(&ask(&query("SILENT", all))), 3);
    assert_eq!(
        (allowed.asked(), other.asked(), forbidden.asked()),
        (2, 2, 0)
    );
    let values = format!("VALUES ?e {{ <{}> <{}> }}", allowed.url(), forbidden.url());
    assert_eq!(rows(&ask(&query("SILENT", &values))), 2);
    refused(&ask(&query("", &values)), "outbound.allow");
    let bind = format!("BIND(<{}> AS ?e)", forbidden.url());
    refused(&ask(&query("", &bind)), "outbound.allow");
    assert_eq!(
        (allowed.asked(), other.asked(), forbidden.asked()),
        (3, 2, 0)
    );
    // An update sends nothing either.
    let update = format!("INSERT {{ ?s ?y ?x }} WHERE {{ SERVICE ?e {{ ?x ?y ?z }} {all} }}");
    let answer = served.update(&format!("PREFIX : <http://e/> {update}"));
    assert_ne!(answer.status.as_u16(), 204, "{}", answer.text());
    assert_eq!(
        (allowed.asked(), other.asked(), forbidden.asked()),
        (3, 2, 0)
    );
}

/// Rules for networks apply to an address in a URL before the first request as well.
#[test]
fn addresses_outside_the_allowed_networks_are_refused_first() {
    let allowed = Endpoint::new();
    let served = Served::configured("", |config| {
        config.outbound.allow = vec!["127.0.0.1/32".to_owned()];
    });
    let query = |silent: &str| {
        let values = format!("VALUES ?e {{ <{}> <http://127.0.0.2:9/> }}", allowed.url());
        format!("SELECT * {{ {values} SERVICE {silent} ?e {{ ?x ?y ?z }} }}")
    };
    let answer = served.query(&query(""), "text/csv");
    assert!(answer.text().contains("127.0.0.2"), "{}", answer.text());
    assert_eq!(allowed.asked(), 0);
    let answer = served.query(&query("SILENT"), "text/csv");
    assert_eq!(answer.text().lines().count(), 3, "{}", answer.text());
    assert_eq!(allowed.asked(), 1);
}

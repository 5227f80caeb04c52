//! Tests with servers on this machine, only some of which are allowed.

use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that gives the same answer to every request and counts the requests.
struct Fixed {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Fixed {
    fn serve(answer: &str) -> Self {
        Self::serve_at("127.0.0.1:0", answer)
    }

    fn serve_at(address: &str, answer: &str) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (answer.to_owned(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                // The request fits into one read, and the answer does not depend on it.
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

fn redirect(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

fn outbound(allow: &[String]) -> Outbound {
    let config = OutboundConfig {
        allow: allow.to_vec(),
        timeout: Duration::from_secs(5),
        response_bytes: 1000,
        ..OutboundConfig::default()
    };
    Outbound::new(&config).expect("right")
}

/// Returns the number of solutions from an endpoint.
fn solutions(outbound: &Outbound, url: &str) -> Result<usize, ServiceError> {
    let endpoint = NamedNode::new_unchecked(url);
    let deadline = Some(Instant::now() + Duration::from_secs(10));
    let found = outbound
        .service()
        .select(&endpoint, "SELECT * {}", deadline)?;
    let rows: Result<Vec<_>, _> = found.rows.collect();
    Ok(rows?.len())
}

fn refusal(outbound: &Outbound, url: &str) -> String {
    solutions(outbound, url).expect_err(url).to_string()
}

const ONE: &str = "?x\n<http://e/a>\n";

#[test]
fn only_what_is_allowed_is_asked_whatever_a_name_stands_for() {
    let server = Fixed::serve(&answer("text/tab-separated-values", ONE));
    let port = server.address.port();
    let (local, numeric) = (
        format!("http://localhost:{port}/sparql"),
        format!("http://{}/sparql", server.address),
    );
    for (allow, url, told) in [
        (vec![], &local, "outbound.allow is empty"),
        (
            vec!["https://query.example/*".to_owned()],
            &local,
            "not in outbound",
        ),
        (vec![format!("http://*:{port}/*")], &local, "may not reach"),
        (
            vec![format!("http://*:{port}/*")],
            &numeric,
            "may not reach",
        ),
        (vec!["10.0.0.0/8".to_owned()], &numeric, "not in outbound"),
        (
            vec![format!("http://*:{port}/*")],
            &format!("http://2130706433:{port}/"),
            "",
        ),
        (
            vec![format!("http://*:{port}/*")],
            &format!("http://[::ffff:127.0.0.1]:{port}/"),
            "may not reach",
        ),
    ] {
        let told_then = refusal(&outbound(&allow), url);
        assert!(told_then.contains(told), "{url}: {told_then}");
    }
    assert_eq!(server.asked(), 0);
    for (allow, url) in [
        (local.clone(), &local),
        (numeric.clone(), &numeric),
        ("127.0.0.0/8".to_owned(), &numeric),
        (format!("http://localhost:{port}/*"), &local),
    ] {
        assert_eq!(solutions(&outbound(&[allow]), url), Ok(1), "{url}");
    }
    assert_eq!(server.asked(), 4);
}

#[test]
fn redirects_are_checked_like_requests() {
    let secret = Fixed::serve(&answer("text/turtle", "<a:s> <a:p> <a:o> ."));
    let secret_url = format!("http://{}/secret", secret.address);
    let door = Fixed::serve(&redirect(&secret_url));
    let door_url = format!("http://{}/door", door.address);
    let narrow = outbound(std::slice::from_ref(&door_url));
    let refused = refusal(&narrow, &door_url);
    assert!(refused.contains("redirects"), "{refused}");
    let open = |outbound: &Outbound| {
        let opened = outbound
            .load()
            .open(&NamedNode::new_unchecked(&door_url), None);
        opened.map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = open(&narrow).expect_err("refused");
    assert!(refused.contains("not in outbound"), "{refused}");
    assert_eq!((secret.asked(), door.asked()), (0, 2));
    assert_eq!(open(&outbound(&[door_url.clone(), secret_url])), Ok(()));
    assert_eq!(secret.asked(), 1);
    let around = Fixed::serve(&redirect("/again"));
    let around_url = format!("http://{}/", around.address);
    let all = outbound(&[format!("{around_url}*")]);
    let turned = all.load().open(&NamedNode::new_unchecked(around_url), None);
    assert!(turned.is_err());
    assert_eq!(around.asked(), 1 + REDIRECTS_MAX as usize);
}

#[test]
fn answers_are_of_limited_size_and_files_of_one_folder() {
    let long = format!("?x\n{}", "<http://e/a>\n".repeat(100));
    let server = Fixed::serve(&answer("text/tab-separated-values", &long));
    let url = format!("http://{}/", server.address);
    let outbound = outbound(std::slice::from_ref(&url));
    let error = refusal(&outbound, &url);
    assert!(error.contains("limit"), "{error}");
    let file = |path: &str| {
        let opened = outbound.load().open(&NamedNode::new_unchecked(path), None);
        opened.map(|_| ()).expect_err(path).to_string()
    };
    assert!(file("file:///etc/passwd").contains("may not be loaded"));
}

/// Returns URLs with this port that write an address of this machine in unusual ways, or hide it.
fn disguises(port: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "017700000001",
        "0",
        "0.0.0.0",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1%25lo]",
        "[::1%25lo]",
        "[::1%lo]",
        "query.example@127.0.0.1",
        "query.example:80@127.0.0.1",
        "query.example%40127.0.0.1",
        "query.example%2f@127.0.0.1",
        "127.0.0.1%00.query.example",
        "127.0.0.1#.query.example",
        "127.0.0.1\\@query.example",
    ];
    let hosts = hosts.iter();
    hosts
        .map(|host| format!("http://{host}:{port}/sparql"))
        .collect()
}

#[test]
fn no_way_to_write_an_address_leads_to_this_machine() {
    let server = Fixed::serve(&answer("text/tab-separated-values", ONE));
    let port = server.address.port();
    // All public addresses are allowed.
    let outbound = outbound(&[format!("http://*:{port}/*"), "http://*/*".to_owned()]);
    for url in disguises(port) {
        assert!(solutions(&outbound, &url).is_err(), "{url}");
        let endpoint = NamedNode::new_unchecked(&url);
        assert!(outbound.load().open(&endpoint, None).is_err(), "{url}");
    }
    assert_eq!(server.asked(), 0);
}

#[test]
fn no_redirect_leads_to_this_machine() {
    let secret = Fixed::serve(&answer("text/turtle", "<a:s> <a:p> <a:o> ."));
    let port = secret.address.port();
    let mut targets = disguises(port);
    targets.push(format!("//127.0.0.1:{port}/"));
    targets.push("file:///etc/passwd".to_owned());
    targets.push(format!("ftp://127.0.0.1:{port}/"));
    targets.push(format!("https://127.0.0.1:{port}/"));
    for target in targets {
        let door = Fixed::serve(&redirect(&target));
        let door_url = format!("http://{}/door", door.address);
        let outbound = outbound(&[
            door_url.clone(),
            format!("http://*:{port}/*"),
            "https://*/*".to_owned(),
        ]);
        assert!(solutions(&outbound, &door_url).is_err(), "{target}");
        let opened = outbound
            .load()
            .open(&NamedNode::new_unchecked(&door_url), None);
        assert!(opened.is_err(), "{target}");
        assert_eq!(door.asked(), 2, "{target}");
    }
    assert_eq!(secret.asked(), 0);
}

/// A resolver that returns one address first, and another one each time after.
#[derive(Debug)]
struct Changing {
    first: SocketAddr,
    then: SocketAddr,
    asked: AtomicUsize,
}

impl Resolver for Changing {
    fn resolve(
        &self,
        _: &Uri,
        _: &AgentConfig,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let mut found = self.empty();
        found.push(match self.asked.fetch_add(1, Ordering::SeqCst) {
            0 => self.first,
            _ => self.then,
        });
        Ok(found)
    }
}

/// The checked address is the one that is connected to, and each connection is checked.
#[test]
fn a_name_that_changes_its_address_leads_nowhere_else() {
    let allowed = Fixed::serve(&answer("text/tab-separated-values", ONE));
    // On an address that is not allowed.
    let secret = Fixed::serve_at("127.0.0.2:0", &answer("text/tab-separated-values", ONE));
    let names = |first: &Fixed, then: &Fixed| Changing {
        first: first.address,
        then: then.address,
        asked: AtomicUsize::new(0),
    };
    let rules = Arc::new(Rules::new(&["127.0.0.1".to_owned()]).expect("right"));
    let ask = |agent: &Agent| {
        agent
            .get("http://changing.example/sparql")
            .call()
            .map(|_| ())
    };
    let agent_with = |names| agent(&rules, names, Duration::from_secs(5), REDIRECTS_MAX);
    let changing = agent_with(names(&allowed, &secret));
    assert!(ask(&changing).is_ok());
    assert!(ask(&changing).is_err());
    assert_eq!((allowed.asked(), secret.asked()), (1, 0));
    let back = agent_with(names(&secret, &allowed));
    assert!(ask(&back).is_err());
    assert!(ask(&back).is_ok());
    assert_eq!((allowed.asked(), secret.asked()), (2, 0));
    // A redirect to the same name resolves it again.
    let door = Fixed::serve(&redirect("http://changing.example/again"));
    let redirected = agent_with(names(&door, &secret));
    assert!(ask(&redirected).is_err());
    assert_eq!((door.asked(), secret.asked()), (1, 0));
}

/// If one of several addresses of a name is not allowed, no address is used.
#[test]
fn a_name_with_one_hidden_address_is_not_asked() {
    #[derive(Debug)]
    struct Both([SocketAddr; 2]);
    impl Resolver for Both {
        fn resolve(
            &self,
            _: &Uri,
            _: &AgentConfig,
            _: NextTimeout,
        ) -> Result<ResolvedSocketAddrs, Error> {
            let mut found = self.empty();
            self.0.into_iter().for_each(|address| found.push(address));
            Ok(found)
        }
    }
    let allowed = Fixed::serve(&answer("text/tab-separated-values", ONE));
    let secret = Fixed::serve_at("127.0.0.2:0", &answer("text/tab-separated-values", ONE));
    let rules = Arc::new(Rules::new(&["127.0.0.1".to_owned()]).expect("right"));
    let both = Both([allowed.address, secret.address]);
    let agent = agent(&rules, both, Duration::from_secs(5), 0);
    assert!(agent.get("http://both.example/").call().is_err());
    assert_eq!((allowed.asked(), secret.asked()), (0, 0));
}

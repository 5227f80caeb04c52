//! Servers of this machine, some of which may be asked.

use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that gives the same answer to all, and counts them.
struct Fixed {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Fixed {
    fn serve(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (answer.to_owned(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                // The request is small, and whatever it is, this is the answer.
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

/// How many solutions an endpoint gives.
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
            "not among",
        ),
        (vec![format!("http://*:{port}/*")], &local, "may not ask"),
        (vec![format!("http://*:{port}/*")], &numeric, "may not ask"),
        (vec!["10.0.0.0/8".to_owned()], &numeric, "not among"),
        (
            vec![format!("http://*:{port}/*")],
            &format!("http://2130706433:{port}/"),
            "",
        ),
        (
            vec![format!("http://*:{port}/*")],
            &format!("http://[::ffff:127.0.0.1]:{port}/"),
            "may not ask",
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
    assert!(refused.contains("not among"), "{refused}");
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

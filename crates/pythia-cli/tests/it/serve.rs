//! `pythia serve`: how it is started, told what to do, and stopped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::command;

/// How long anything may take.
const LONG: Duration = Duration::from_secs(30);

fn output(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    command.output().expect("pythia runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// A server in a process of its own, which is killed if it does not end by itself.
struct Serving {
    child: Child,
    address: SocketAddr,
    /// What it writes to standard error, line by line.
    lines: Receiver<String>,
    seen: Vec<String>,
    _reader: JoinHandle<()>,
}

impl Serving {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("pythia runs");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut serving = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            lines,
            seen: Vec::new(),
            _reader: reader,
        };
        // As text, or in JSON.
        let line = serving.line_with("addresses");
        let (_, after) = line.split_once('[').expect("a list");
        let address = after.split([',', ']']).next().expect("an address");
        serving.address = address.parse().expect("an address");
        serving
    }

    /// The next line that has this in it.
    fn line_with(&mut self, part: &str) -> String {
        let until = Instant::now() + LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {part:?} in:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill")
            .args([format!("-{name}"), pid])
            .status();
        assert!(kill.expect("kill runs").success());
    }

    /// Whether it ends by itself, and well.
    fn ends_well(mut self) -> bool {
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// The status line and the body of what is answered; nothing if nobody listens.
    fn get(&self, path: &str) -> Option<String> {
        self.answer(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    /// Sends a request that begins with some lines.
    fn answer(&self, head: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(LONG)).expect("a socket");
        let length = body.len();
        let request = format!(
            "{head}host: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn is_ok(&self, path: &str) -> bool {
        let answer = self.get(path);
        answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

const ASK: &str = "query?query=ASK%7B%7D";
const ANY_PORT: &str = "127.0.0.1:0";

#[test]
fn a_new_store_is_made_served_and_closed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "new.pythia");
    let arguments = ["serve", "-l", &store, "--bind", ANY_PORT, "--access-log"];
    let mut serving = Serving::start(&mut command(&arguments));
    let page = format!("open http://{}/ in a browser", serving.address);
    assert!(serving.seen.iter().any(|line| line.contains(&page)));
    assert!(serving.is_ok(&format!("/{ASK}")));
    assert!(serving.is_ok(&format!("/new/{ASK}")));
    let line = serving.line_with("pythia::access");
    assert!(
        line.contains("operation=\"query\"") && line.contains("status=200"),
        "{line}"
    );
    serving.signal("TERM");
    assert!(serving.ends_well());
    let stats = output(&["stats", "-l", &store], &[]);
    assert!(stats.status.success(), "{}", text(&stats.stderr));
}

#[test]
fn a_server_is_asked_whether_it_is_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "new.pythia");
    let serving = Serving::start(&mut command(&["serve", "-l", &store, "--bind", ANY_PORT]));
    let url = format!("http://{}", serving.address);
    for (arguments, said) in [
        (vec!["ping", &url], "healthy\n"),
        (vec!["ping", "--ready", &url], "ready\n"),
    ] {
        let answer = output(&arguments, &[]);
        assert!(
            answer.status.success() && text(&answer.stdout) == said,
            "{answer:?}"
        );
    }
    let not_found = output(&["ping", &format!("{url}/nowhere")], &[]);
    assert_eq!(not_found.status.code(), Some(1));
    assert!(
        text(&not_found.stderr).contains("answers 404"),
        "{not_found:?}"
    );
    serving.signal("TERM");
    assert!(serving.ends_well());
    let gone = output(&["ping", &url, "--timeout", "2s"], &[]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("no answer from"), "{gone:?}");
}

#[test]
fn indexes_of_a_served_store_are_built_by_its_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "ds.pythia");
    let data = path(folder.path(), "data.nt");
    std::fs::write(
        &data,
        "<urn:a> <urn:in> <urn:b> .\n<urn:b> <urn:in> <urn:c> .\n",
    )
    .expect("written");
    assert!(output(&["load", "-l", &store, &data], &[]).status.success());
    let optimize = |more: &[&str]| output(&[&["optimize", "-l", &store], more].concat(), &[]);
    let serving = Serving::start(&mut command(&["serve", "-l", &store, "--bind", ANY_PORT]));
    let file = folder.path().join("ds.pythia/SERVER");
    let left = std::fs::read(&file).expect("the server has written it");

    let built = optimize(&["--reachability", "urn:in", "--degrees"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let expected = "built: reachability of <urn:in>, ";
    assert!(
        text(&built.stdout).contains(expected),
        "{}",
        text(&built.stdout)
    );
    let server = format!("the server at http://{}", serving.address);
    assert!(
        text(&built.stderr).contains(&server),
        "{}",
        text(&built.stderr)
    );
    let listed = optimize(&[]);
    assert_eq!(text(&listed.stdout).lines().count(), 2);
    let wrong = optimize(&["--reachability", "urn:im"]);
    assert!(!wrong.status.success());
    assert!(
        text(&wrong.stderr).contains("did you mean urn:in?"),
        "{}",
        text(&wrong.stderr)
    );
    let dropped = optimize(&["--drop", "--degrees"]);
    assert_eq!(text(&dropped.stdout), "dropped: degrees of all nodes\n");

    // Without the file the server is a process like any other that has the store open.
    std::fs::remove_file(&file).expect("there");
    let refused = optimize(&["--degrees"]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("another process has the store open"),
        "{}",
        text(&refused.stderr)
    );
    std::fs::write(&file, &left).expect("written");
    serving.signal("TERM");
    assert!(serving.ends_well());
    assert!(!file.exists(), "the server has removed it");
    // What a killed server leaves is no hindrance.
    std::fs::write(&file, left).expect("written");
    let alone = optimize(&["--degrees"]);
    assert!(alone.status.success(), "{}", text(&alone.stderr));
    assert!(text(&alone.stdout).contains("built: degrees of all nodes"));
}

#[test]
fn configurations_are_checked_and_printed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = path(folder.path(), "pythia.toml");
    std::fs::write(
        &file,
        "[datasets.a]\npath = \"/srv/a\"\n[limits]\ntimeuot = \"1s\"\n",
    )
    .expect("written");
    let wrong = output(&["serve", "--config", &file, "--check-config"], &[]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = text(&wrong.stderr);
    assert!(message.contains(&format!("{file}:4:1: ")), "{message}");
    assert!(message.contains("did you mean timeout?"), "{message}");

    std::fs::write(
        &file,
        "[datasets.a]\npath = \"/srv/a\"\n[limits]\ntimeout = \"1s\"\nrows = 5\n",
    )
    .expect("written");
    let sound = output(&["serve", "--config", &file, "--check-config"], &[]);
    assert_eq!(
        text(&sound.stdout),
        "the configuration is valid; it has the dataset a\n"
    );
    let arguments = [
        "serve",
        "--config",
        &file,
        "--print-config",
        "--max-rows",
        "7",
        "-l",
        "b=/srv/b",
    ];
    let variables = [
        ("PYTHIA_SERVE_LIMITS__TIMEOUT", "3s"),
        ("PYTHIA_SERVE_LIMITS__ROWS", "6"),
    ];
    let printed = output(&arguments, &variables);
    let printed = text(&printed.stdout);
    for line in [
        "timeout = \"3s\"",
        "rows = 7",
        "[datasets.a]",
        "[datasets.b]",
        "cache = \"256M\"",
    ] {
        assert!(
            printed.lines().any(|other| other == line),
            "{line}:\n{printed}"
        );
    }
    let nothing = output(&["serve"], &[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(&nothing.stderr).contains("nothing to serve"));
    let missing = output(
        &["serve", "--read-only", "-l", &path(folder.path(), "none")],
        &[],
    );
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

#[test]
fn a_changed_file_is_taken_over_and_a_wrong_one_is_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = path(folder.path(), "pythia.toml");
    let config = |names: &[&str], more: &str| {
        let mut text = format!("bind = \"{ANY_PORT}\"\n[log]\nformat = \"text\"\n{more}");
        for name in names {
            let path = path(folder.path(), name);
            text.push_str(&format!(
                "[datasets.{name}]\npath = \"{path}\"\ncreate = true\n"
            ));
        }
        std::fs::write(&file, text).expect("written");
    };
    config(&["a"], "");
    let mut serving = Serving::start(command(&["serve"]).env("PYTHIA_SERVE_CONFIG", &file));
    assert!(serving.is_ok(&format!("/a/{ASK}")) && !serving.is_ok(&format!("/b/{ASK}")));
    // The change is seen without being told.
    config(&["a", "b"], "");
    serving.line_with("reloaded the configuration");
    assert!(serving.is_ok(&format!("/b/{ASK}")));
    config(&["c"], "levle = \"debug\"\n");
    serving.signal("HUP");
    let line = serving.line_with("reload failed");
    assert!(line.contains("did you mean level?"), "{line}");
    assert!(serving.is_ok(&format!("/a/{ASK}")));
    // From now on lines are JSON.
    config(&["a"], "access = true\n");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("\"text\"", "\"json\"")).expect("written");
    serving.signal("HUP");
    serving.line_with("\"message\":\"reloaded the configuration\"");
    assert!(serving.is_ok(&format!("/a/{ASK}")));
    let line = serving.line_with("\"target\":\"pythia::access\"");
    assert!(
        line.contains("\"dataset\":\"a\"") && line.contains("\"rows\":1"),
        "{line}"
    );
    serving.signal("INT");
    assert!(serving.ends_well());
}

/// What is sent to systemd until a message has this in it.
fn told(socket: &UnixDatagram, part: &str) -> String {
    let mut message = [0; 4096];
    loop {
        let length = socket
            .recv(&mut message)
            .unwrap_or_else(|error| panic!("{part}: {error}"));
        let message = text(&message[..length]);
        if message.contains(part) {
            return message.to_owned();
        }
    }
}

#[test]
fn systemd_is_told_of_readiness_reloads_life_and_the_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let address = folder.path().join("notify");
    let socket = UnixDatagram::bind(&address).expect("a socket");
    socket.set_read_timeout(Some(LONG)).expect("a socket");
    let store = path(folder.path(), "store");
    let mut command = command(&["serve", "-l", &store, "--bind", ANY_PORT]);
    command
        .env("NOTIFY_SOCKET", &address)
        .env("WATCHDOG_USEC", "200000");
    let serving = Serving::start(&mut command);
    told(&socket, "READY=1\n");
    told(&socket, "WATCHDOG=1\n");
    serving.signal("HUP");
    assert!(told(&socket, "RELOADING=1\n").contains("MONOTONIC_USEC="));
    told(&socket, "READY=1\n");
    serving.signal("TERM");
    assert!(told(&socket, "STOPPING=1\n").contains("EXTEND_TIMEOUT_USEC=30000000"));
    assert!(serving.ends_well());
}

/// A query that runs for minutes.
fn long_query() -> String {
    let numbers: String = (0..400).map(|n| format!("{n}%20")).collect();
    let values: String = ["a", "b", "c", "d"]
        .map(|name| format!("VALUES%20%3F{name}%7B{numbers}%7D"))
        .concat();
    let sum = "FILTER(%3Fa%2B%3Fb%2B%3Fc%2B%3Fd%3D-1)";
    format!("/query?query=SELECT*%7B{values}{sum}%7D")
}

/// Asks something that takes long; the answer, once there is one.
fn ask_long(serving: &Serving) -> JoinHandle<String> {
    let address = serving.address;
    let asked = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = format!("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", long_query());
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        // The connection may be cut.
        let _ = stream.read_to_string(&mut answer);
        answer
    });
    let until = Instant::now() + LONG;
    let runs = |text: String| text.contains("\npythia_requests_running 1\n");
    while !serving.get("/$/metrics").is_some_and(runs) {
        assert!(Instant::now() < until, "it does not begin to run");
        std::thread::sleep(Duration::from_millis(10));
    }
    asked
}

#[test]
fn what_runs_too_long_when_the_server_is_stopped_is_cancelled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "store");
    let mut command = command(&[
        "serve",
        "-l",
        &store,
        "--bind",
        ANY_PORT,
        "--timeout",
        "10m",
    ]);
    let mut serving = Serving::start(command.env("PYTHIA_SERVE_LIMITS__GRACE_TIME", "300ms"));
    let asked = ask_long(&serving);
    serving.signal("TERM");
    serving.line_with("stopping");
    assert!(serving.ends_well());
    let answer = asked.join().expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "store");
    let mut serving = Serving::start(&mut command(&[
        "serve",
        "-l",
        &store,
        "--bind",
        ANY_PORT,
        "--timeout",
        "10m",
    ]));
    let asked = ask_long(&serving);
    serving.signal("INT");
    serving.line_with("stopping");
    serving.signal("INT");
    let started = Instant::now();
    assert!(serving.ends_well());
    assert!(started.elapsed() < Duration::from_secs(10));
    asked.join().expect("cut");
}

#[test]
fn slow_queries_are_logged_with_text_and_measured_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "store");
    let mut command = command(&[
        "serve",
        "-l",
        &store,
        "--bind",
        ANY_PORT,
        "--log-format",
        "json",
    ]);
    command.env("PYTHIA_SERVE_LOG__SLOW_QUERY", "0s");
    command.env("PYTHIA_SERVE_LOG__MEASURE", "true");
    let mut serving = Serving::start(&mut command);
    assert!(serving.is_ok("/query?query=SELECT*%7BVALUES%20%3Fx%7B1%202%7D%7D"));
    let line = serving.line_with("\"target\":\"pythia::slow\"");
    assert!(line.contains("SELECT*{VALUES ?x{1 2}}"), "{line}");
    assert!(line.contains("→ 2 rows"), "{line}");
    assert!(line.contains("\"run_ms\":"), "{line}");
}

#[test]
fn functions_that_nothing_implements_are_logged_for_queries_and_updates() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "store");
    let mut serving = Serving::start(&mut command(&["serve", "-l", &store, "--bind", ANY_PORT]));
    assert!(serving.is_ok("/query?query=ASK%7BFILTER(%3Curn:q%3E(1))%7D"));
    let line = serving.line_with("nothing implements the function <urn:q>");
    assert!(line.contains("pythia::query"), "{line}");
    let update = "INSERT {<urn:a> <urn:b> ?x} WHERE {BIND(<urn:u>(1) AS ?x)}";
    let head = "POST /update HTTP/1.1\r\ncontent-type: application/sparql-update\r\n";
    let answer = serving.answer(head, update).unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    let line = serving.line_with("nothing implements the function <urn:u>");
    assert!(line.contains("pythia::query"), "{line}");
}

/// A collector of traces: gives the bodies that are sent to it.
fn collector() -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind(ANY_PORT).expect("a socket");
    let address = listener.local_addr().expect("an address");
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                head.push_str(&lower);
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.get_mut().write_all(answer).expect("sent");
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, received)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn traces_are_sent_as_children_of_the_client_s() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = path(folder.path(), "store");
    let (collector, received) = collector();
    let mut command = command(&["serve", "-l", &store, "--bind", ANY_PORT]);
    command.env(
        "PYTHIA_SERVE_TRACING__ENDPOINT",
        format!("http://{collector}/v1/traces"),
    );
    command.env("PYTHIA_SERVE_TRACING__SAMPLE", "0.0");
    command.env(
        "PYTHIA_SERVE_TRACING__HEADERS",
        "{ authorization = 'Bearer x' }",
    );
    let serving = Serving::start(&mut command);
    // Not sampled; then one that is, as its client says so.
    assert!(serving.is_ok("/query?query=ASK%7B%7D"));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut stream = TcpStream::connect(serving.address).expect("it listens");
    let request = format!(
        "GET /{ASK} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntraceparent: 00-{trace}-b7ad6b7169203331-01\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    stream
        .read_to_string(&mut String::new())
        .expect("an answer");
    serving.signal("TERM");
    assert!(serving.ends_well());
    let (head, body) = received
        .recv_timeout(LONG)
        .expect("traces are sent at the end at the latest");
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("authorization: bearer x"), "{head}");
    let bytes = hex::decode(trace).expect("hexadecimal");
    assert!(has(&body, &bytes));
    for name in [
        "GET query",
        "queue",
        "prepare",
        "run",
        "pythia",
        "db.operation.name",
    ] {
        assert!(has(&body, name.as_bytes()), "{name}");
    }
    assert!(
        received.recv_timeout(Duration::from_millis(100)).is_err(),
        "one request, one trace"
    );
}

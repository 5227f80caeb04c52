//! A server over a store of its own, and a client that takes any answer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;

use pythia::{Compression, RdfFormat, Source};
use pythia_server::Server;
use pythia_server::config::{Config, ConfigSource, DatasetConfig};
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request, StatusCode};

/// A server that stops when it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    handle: pythia_server::Handle,
    thread: Option<JoinHandle<()>>,
    agent: Agent,
    /// The stores, which go with the server.
    folder: tempfile::TempDir,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Served {
    /// Serves one dataset, `ds`, with these quads (TriG).
    pub(crate) fn with(quads: &str) -> Self {
        Self::configured(quads, |_| ())
    }

    /// The same, with a configuration that is changed.
    pub(crate) fn configured(quads: &str, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("ds");
        load(&path, quads);
        let mut config = Config {
            bind: vec!["127.0.0.1:0".parse().expect("an address")],
            datasets: vec![DatasetConfig::new("ds", path)],
            ..Config::default()
        };
        change(&mut config);
        Self::run(Server::start(config).expect("a server"), folder)
    }

    /// A server with this configuration.
    pub(crate) fn from(source: ConfigSource) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::run(Server::start_from(source).expect("a server"), folder)
    }

    fn run(server: Server, folder: tempfile::TempDir) -> Self {
        let (address, handle) = (server.addresses()[0], server.handle());
        let agent = Agent::config_builder()
            // A server that refuses a request before it has read the body may close the connection, and the next
            // request over it would fail.
            .max_idle_connections(0)
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .build();
        Self {
            address,
            handle,
            thread: Some(std::thread::spawn(move || server.run())),
            agent: agent.into(),
            folder,
        }
    }

    /// The folder of the dataset.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("ds")
    }

    /// Stops the server; returns what is wrong with the dataset's store then.
    pub(crate) fn stopped(mut self) -> Vec<String> {
        self.stop();
        let report = pythia::verify(&self.store(), Default::default(), &mut |_| {});
        let problems = report.expect("a store").problems.into_iter();
        problems.map(|problem| format!("{problem:?}")).collect()
    }

    fn stop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(ended) = ended.filter(|_| !std::thread::panicking()) {
            ended.expect("the server ends without a panic");
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, b"")
    }

    /// A query's answer in JSON, CSV or what else is accepted.
    pub(crate) fn query(&self, query: &str, accept: &str) -> Answer {
        let headers = [
            ("accept", accept),
            ("content-type", "application/sparql-query"),
        ];
        self.send("POST", "/query", &headers, query.as_bytes())
    }

    pub(crate) fn update(&self, update: &str) -> Answer {
        let headers = [("content-type", "application/sparql-update")];
        self.send("POST", "/update", &headers, update.as_bytes())
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).expect("a request");
        let mut response = self.agent.run(request).expect("an answer");
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.body_mut().read_to_vec().expect("a whole body"),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Makes a store with these quads.
pub(crate) fn load(path: &std::path::Path, quads: &str) {
    let source = Source::from_reader(
        "quads".to_owned(),
        std::io::Cursor::new(quads.to_owned().into_bytes()),
        RdfFormat::TriG,
        Compression::None,
    );
    let sources = vec![source.expect("a source")];
    pythia::load(path, sources, &Default::default(), &Default::default()).expect("a store");
}

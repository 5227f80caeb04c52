//! The address of a SPARQL endpoint, and requests to it.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail, ensure};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use pythia::QueryForm;

/// A SPARQL endpoint with its parsed URL.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: String,
    address: SocketAddr,
    authority: String,
    path: String,
    /// Parameters of the URL; they are sent with each query, such as Virtuoso's `default-graph-uri`.
    parameters: String,
    /// The path and the parameters for updates.
    updates: (String, String),
}

impl Endpoint {
    /// Parses a URL and resolves its host. Only `http` is supported.
    pub fn parse(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!("{url} is not an endpoint that can be measured: write http://HOST:PORT/PATH");
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
        let mut host = authority.to_owned();
        if !authority.ends_with(|c: char| c.is_ascii_digit()) || !authority.contains(':') {
            host.push_str(":80");
        }
        let mut addresses = host
            .to_socket_addrs()
            .with_context(|| format!("find the address of {url}"))?;
        let address = addresses.next();
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            url: url.to_owned(),
            address: address.with_context(|| format!("{url} has no address"))?,
            authority: authority.to_owned(),
            path: path.to_owned(),
            parameters: parameters.to_owned(),
            updates: (path.to_owned(), parameters.to_owned()),
        })
    }

    /// Sets another URL of the same server for updates.
    pub fn with_updates(self, url: &str) -> Result<Self> {
        let other = Self::parse(url)?;
        ensure!(
            other.address == self.address,
            "{url} is on another server than {}: write both with the same host and port",
            self.url
        );
        Ok(Self {
            updates: (other.path, other.parameters),
            ..self
        })
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address of the server.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a query as a form by POST, which every endpoint accepts at every length.
    pub(super) fn query(&self, query: &str, form: QueryForm) -> Vec<u8> {
        let accept = match form {
            QueryForm::Graph => "application/n-triples",
            QueryForm::Select | QueryForm::Ask => "application/sparql-results+json",
        };
        self.post(&self.path, &self.parameters, accept, "query", query)
    }

    /// Returns an update as a form by POST.
    pub(super) fn update(&self, update: &str) -> Vec<u8> {
        let (path, parameters) = &self.updates;
        self.post(path, parameters, "*/*", "update", update)
    }

    fn post(&self, path: &str, parameters: &str, accept: &str, name: &str, text: &str) -> Vec<u8> {
        let mut body = format!("{name}={}", utf8_percent_encode(text, NON_ALPHANUMERIC));
        if !parameters.is_empty() {
            body = format!("{body}&{parameters}");
        }
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAccept: {accept}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            self.authority,
            body.len()
        )
        .into_bytes()
    }
}

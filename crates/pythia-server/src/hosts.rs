//! The host names that a server answers to.
//!
//! Protects against DNS rebinding: the owner of a domain may point it to this machine's address. A browser then
//! treats requests from that domain's pages as same-origin, and no rule for other origins stops them. But the
//! request carries the name. So a request is answered only if its host is an address, a name that nobody else can
//! register (`localhost`), or a name that the configuration lists. Every port that speaks HTTP calls
//! [`Hosts::check`] first.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::{Request, StatusCode, Version};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::protocol::error::HttpError;

/// Host names, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Name>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Any,
    Exactly(String),
    /// All names with this ending: a dot and at least one more label before it.
    Below(String),
}

impl Hosts {
    /// Reads host names (`sparql.example.org`), endings (`*.example.org`), and `*` for any name.
    ///
    /// # Errors
    /// Returns an error with advice if an entry is not a name.
    pub fn parse(entries: &[impl AsRef<str>]) -> Result<Self, String> {
        let names = entries.iter().map(|entry| Name::parse(entry.as_ref()));
        names.collect::<Result<_, _>>().map(Self)
    }

    /// Adds names.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Checks the host of a request: in its URI, in its header `Host`, or in both.
    ///
    /// # Errors
    /// 421 with the setting to change, if the server does not answer to the name; 400 if an HTTP/1.1 request has
    /// no host (RFC 9112 §3.2).
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), HttpError> {
        let authority = request.uri().authority().map(|a| a.as_str().as_bytes());
        let headers = request.headers().get_all(HOST).iter();
        let mut named = authority
            .into_iter()
            .chain(headers.map(|h| h.as_bytes()))
            .peekable();
        if named.peek().is_none() && request.version() == Version::HTTP_11 {
            return Err(HttpError::bad_request("the request has no Host header"));
        }
        for host in named {
            let host = std::str::from_utf8(host).unwrap_or_default();
            if !self.has(host) {
                return Err(refusal(host));
            }
        }
        Ok(())
    }

    fn has(&self, authority: &str) -> bool {
        let host = host_of(authority);
        if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            let address = address.split('%').next().unwrap_or_default();
            return address.parse::<Ipv6Addr>().is_ok();
        }
        if host.parse::<Ipv4Addr>().is_ok() {
            return true;
        }
        let Some(name) = as_name(host) else {
            return false;
        };
        let is_loopback = name == "localhost" || name.ends_with(".localhost");
        is_loopback || self.0.iter().any(|listed| listed.has(&name))
    }
}

impl Name {
    fn parse(entry: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{entry:?} is not a host name: write a name without scheme, port and path, such as \
                 \"sparql.example.org\", an ending such as \"*.example.org\", or \"*\" for any name"
            )
        };
        match entry.strip_prefix('*') {
            Some("") => Ok(Self::Any),
            Some(end) => {
                let end = end.strip_prefix('.').and_then(as_name);
                end.map(|end| Self::Below(format!(".{end}")))
                    .ok_or_else(wrong)
            }
            None => as_name(entry).map(Self::Exactly).ok_or_else(wrong),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(listed) => listed == name,
            Self::Below(end) => name.len() > end.len() && name.ends_with(end.as_str()),
        }
    }
}

/// Returns the host without the port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Returns a name in lower case, without a final dot, if it is a possible DNS name.
fn as_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    let is_name = !name.is_empty() && name.chars().all(is_plain);
    is_name.then(|| name.to_ascii_lowercase())
}

fn refusal(host: &str) -> HttpError {
    let message = match as_name(host_of(host)) {
        Some(name) => format!(
            "this server does not answer to the name {name}; to allow it, add it to the \
             configuration (hosts = [\"{name}\"]) or start the server with --host {name}"
        ),
        None => "the request's host is neither an address nor a name that this server answers to \
                 (setting `hosts`)"
            .to_owned(),
    };
    HttpError::new(StatusCode::MISDIRECTED_REQUEST, message)
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let entries = Vec::<String>::deserialize(from)?;
        Self::parse(&entries).map_err(de::Error::custom)
    }
}

impl Serialize for Hosts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|name| match name {
            Name::Any => "*".to_owned(),
            Name::Exactly(name) => name.clone(),
            Name::Below(end) => format!("*{end}"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> Hosts {
        Hosts::parse(entries).expect("names")
    }

    #[test]
    fn addresses_and_names_of_this_machine_are_answered_and_other_names_if_they_are_listed() {
        let listed = hosts(&["db.example", "*.Example.org."]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:7878",
            "192.0.2.7:80",
            "[::1]",
            "[::1]:7878",
            "[fe80::1%25eth0]:80",
            "localhost",
            "LocalHost.:7878",
            "a.localhost:1",
            "db.example",
            "DB.example.:443",
            "a.example.org",
            "a.b.example.org:1",
        ] {
            assert!(listed.has(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "evil.example:7878",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1.evil.example",
            "2130706433",
            "0x7f.1",
            "127.1",
            "example.org",
            "evilexample.org",
            "db.example.evil",
            "a.db.example",
            "evil@localhost",
            "evil.example,localhost",
            "evil/.localhost",
            "[::1].evil.example",
            "[evil]",
            "::1",
        ] {
            assert!(!listed.has(host), "{host}");
        }
        assert!(hosts(&["*"]).has("any.name"));
    }

    #[test]
    fn every_name_of_a_request_must_be_one() {
        let check = |uri: &str, headers: &[&str]| {
            let mut request = Request::builder().uri(uri);
            for host in headers {
                request = request.header(HOST, *host);
            }
            let request = request.body(()).expect("a request");
            let outcome = hosts(&["db.example"]).check(&request);
            outcome.map_err(|error| (error.status.as_u16(), error.message))
        };
        let (status, message) = check("/query", &[]).expect_err("no name");
        assert!(status == 400 && message.contains("Host"), "{message}");
        let old = Request::builder().version(Version::HTTP_10).body(());
        assert!(hosts(&[]).check(&old.expect("a request")).is_ok());
        assert_eq!(check("/query", &["localhost"]), Ok(()));
        assert_eq!(check("http://db.example/query", &["127.0.0.1"]), Ok(()));
        for (uri, headers) in [
            ("/query", &["evil.example"][..]),
            ("/query", &["localhost", "evil.example"]),
            ("http://evil.example/query", &["localhost"]),
            ("http://localhost/query", &["evil.example"]),
            ("http://evil.example:7878/query", &[]),
        ] {
            let (status, message) = check(uri, headers).expect_err(uri);
            assert_eq!(status, 421);
            assert!(message.contains("hosts = [\"evil.example\"]"), "{message}");
        }
        let (_, message) = check("/query", &["<script>"]).expect_err("no name");
        assert!(
            message.contains("`hosts`") && !message.contains("script"),
            "{message}"
        );
    }

    #[test]
    fn entries_that_are_no_names_are_refused_with_what_to_write() {
        for wrong in [
            "",
            "http://a",
            "a:80",
            "a/b",
            "*a",
            "a.*",
            "*.",
            "[::1]",
            "ü.example",
        ] {
            let error = Hosts::parse(&[wrong]).expect_err(wrong);
            assert!(error.contains("not a host name"), "{error}");
        }
        let read: Hosts = serde_json::from_str(r#"["*.A.b.", "c"]"#).expect("names");
        let written = serde_json::to_string(&read).expect("written");
        assert_eq!(written, r#"["*.a.b","c"]"#);
    }
}

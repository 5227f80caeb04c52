//! The allow-list of URLs and addresses.

use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;

use super::address::{Reach, reach};

/// The parsed entries of the allow-list.
#[derive(Debug, Default)]
pub(super) struct Rules {
    patterns: Vec<UrlPattern>,
    networks: Vec<IpNet>,
}

/// An entry for URLs.
#[derive(Debug)]
struct UrlPattern {
    scheme: String,
    host: Host,
    port: Option<u16>,
    /// Path and query string, or their beginning.
    path: String,
    is_prefix: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Host {
    Named(String),
    /// Names with this ending: a dot and a domain, or empty for any name.
    EndsWith(String),
    Address(IpAddr),
}

/// The parts of a requested URL.
struct RequestedUrl<'u> {
    scheme: &'u str,
    host: Host,
    port: u16,
    path: &'u str,
}

/// The addresses that the host of a URL may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Public ones: the entry covers other hosts too.
    Public,
    /// Those of private networks too: an entry has this very name.
    Private,
    /// Loopback too: an entry says `localhost`.
    Loopback,
    /// This one: an entry has this very address.
    Exactly(IpAddr),
    /// Those of allowed networks: no entry has the URL.
    Networks,
}

impl Rules {
    pub(super) fn new(entries: &[String]) -> Result<Self, String> {
        let mut rules = Self::default();
        for entry in entries {
            if let Ok(network) = entry.parse::<IpNet>() {
                rules.networks.push(network);
            } else if let Ok(address) = entry.parse::<IpAddr>() {
                rules.networks.push(address.into());
            } else {
                rules.patterns.push(UrlPattern::parse(entry)?);
            }
        }
        Ok(rules)
    }

    /// Checks a URL against the entries. Returns which addresses its host may have.
    pub(super) fn check_url(&self, url: &Uri) -> Result<Trust, String> {
        let requested = RequestedUrl::of(url)?;
        let matching = self
            .patterns
            .iter()
            .filter(|pattern| pattern.has(&requested));
        let trust = matching
            .map(|pattern| pattern.trust())
            .max_by_key(|trust| match trust {
                Trust::Public | Trust::Networks => 0,
                Trust::Private => 1,
                Trust::Loopback | Trust::Exactly(_) => 2,
            });
        match trust {
            Some(trust) => Ok(trust),
            None if !self.networks.is_empty() => Ok(Trust::Networks),
            None => Err(self.refusal(url)),
        }
    }

    /// Checks a URL, and the address of its host if the URL has that instead of a name.
    pub(super) fn check_unresolved(&self, url: &Uri) -> Result<(), String> {
        let trust = self.check_url(url)?;
        match RequestedUrl::of(url)?.host {
            Host::Address(address) => self.check_address(url, trust, address),
            Host::Named(_) | Host::EndsWith(_) => Ok(()),
        }
    }

    /// Checks that the host may have this address.
    pub(super) fn check_address(
        &self,
        url: &Uri,
        trust: Trust,
        address: IpAddr,
    ) -> Result<(), String> {
        let address = address.to_canonical();
        if self
            .networks
            .iter()
            .any(|network| network.contains(&address))
        {
            return Ok(());
        }
        let is_fine = match trust {
            Trust::Networks => return Err(self.refusal(url)),
            Trust::Public => reach(address) == Reach::Public,
            Trust::Private => reach(address) != Reach::Restricted,
            Trust::Loopback => address.is_loopback() || reach(address) != Reach::Restricted,
            Trust::Exactly(exactly) => address == exactly.to_canonical(),
        };
        match is_fine {
            true => Ok(()),
            // The address is not revealed: private names must not be resolvable through error messages.
            false => Err(format!(
                "{} is in a network that this server may not reach; the server's operator can allow the \
                 network's addresses (outbound.allow)",
                url.host().unwrap_or_default()
            )),
        }
    }

    fn refusal(&self, url: &Uri) -> String {
        let host = url.host().unwrap_or_default();
        match self.patterns.is_empty() && self.networks.is_empty() {
            true => format!(
                "this server may not reach {host} or any other host (outbound.allow is empty)"
            ),
            false => format!("this server may not reach {host} (not in outbound.allow)"),
        }
    }
}

impl UrlPattern {
    fn parse(entry: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "outbound.allow: {entry:?} {what}; write a URL such as \"https://example.org/sparql\", \
                 the beginning of URLs such as \"https://example.org/*\", or a network such as \
                 \"10.0.0.0/8\""
            )
        };
        let (scheme, rest) = entry
            .split_once("://")
            .ok_or_else(|| wrong("is not a URL"))?;
        if scheme != "http" && scheme != "https" {
            return Err(wrong("is neither http nor https"));
        }
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        if authority.contains('@') {
            return Err(wrong("names a user"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| wrong("has an invalid port"))?;
                (host, Some(port))
            }
            _ => (authority, None),
        };
        let host = match host.strip_prefix('*') {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => {
                Host::EndsWith(rest.to_ascii_lowercase())
            }
            _ => Host::parse(host),
        };
        let is_empty = host == Host::Named(String::new());
        let (path, is_prefix) = match path.strip_suffix('*') {
            Some(path) => (path, true),
            None => (path, false),
        };
        let has_star = |text: &str| text.contains('*');
        if is_empty || has_star(path) || matches!(&host, Host::Named(name) if has_star(name)) {
            return Err(wrong(
                "has no host, or a * that is neither first in the host nor last",
            ));
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            host,
            port,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            is_prefix,
        })
    }

    fn has(&self, requested: &RequestedUrl<'_>) -> bool {
        let default = if self.scheme == "https" { 443 } else { 80 };
        let host = match (&self.host, &requested.host) {
            (Host::EndsWith(end), Host::Named(name)) => name.ends_with(end.as_str()),
            (Host::EndsWith(end), Host::Address(_)) => end.is_empty(),
            (named, requested) => named == requested,
        };
        let path = match self.is_prefix {
            true => requested.path.starts_with(&self.path),
            false => requested.path == self.path,
        };
        host && path
            && self.scheme == requested.scheme
            && self.port.unwrap_or(default) == requested.port
    }

    fn trust(&self) -> Trust {
        match &self.host {
            Host::Address(address) => Trust::Exactly(*address),
            Host::Named(name) if name == "localhost" => Trust::Loopback,
            Host::Named(_) => Trust::Private,
            Host::EndsWith(_) => Trust::Public,
        }
    }
}

impl Host {
    fn parse(host: &str) -> Self {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host).parse() {
            Ok(address) => Self::Address(address),
            Err(_) => Self::Named(host.trim_end_matches('.').to_ascii_lowercase()),
        }
    }
}

impl<'u> RequestedUrl<'u> {
    fn of(url: &'u Uri) -> Result<Self, String> {
        let scheme = url.scheme_str().unwrap_or_default();
        let default = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err("only http: and https: URLs are allowed".to_owned()),
        };
        let authority = url.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("URLs with a user name are not allowed".to_owned());
        }
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let steps = url.path().split('/');
        let climbs = |step: &str| {
            matches!(
                step.replace("%2e", ".").replace("%2E", ".").as_str(),
                "." | ".."
            )
        };
        if steps.into_iter().any(climbs) {
            return Err("URLs with . or .. in the path are not allowed".to_owned());
        }
        Ok(Self {
            scheme,
            host: Host::parse(url.host().unwrap_or_default()),
            port: url.port_u16().unwrap_or(default),
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(entries: &[&str]) -> Rules {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        Rules::new(&entries).expect("right")
    }

    /// Returns whether a URL may be requested at an address.
    fn asks(rules: &Rules, url: &str, address: &str) -> bool {
        let url: Uri = url.parse().expect(url);
        let address = address.parse().expect(address);
        let trust = rules.check_url(&url);
        trust.is_ok_and(|trust| rules.check_address(&url, trust, address).is_ok())
    }

    const PUBLIC: &str = "8.8.8.8";

    #[test]
    fn urls_match_by_all_their_parts() {
        let rules = rules(&[
            "https://query.example/sparql",
            "http://data.example:3030/ds/*",
            "https://*.example.org/*",
        ]);
        for url in [
            "https://query.example/sparql",
            "https://QUERY.example./sparql",
            "https://query.example:443/sparql",
            "http://data.example:3030/ds/query?x=1",
            "https://a.example.org/x",
        ] {
            assert!(asks(&rules, url, PUBLIC), "{url}");
        }
        for url in [
            "http://query.example/sparql",
            "https://query.example/sparql2",
            "https://query.example/sparql?x",
            "https://query.example:444/sparql",
            "https://query.example.evil/sparql",
            "https://user@query.example/sparql",
            "http://data.example:3030/other",
            "http://data.example:3030/ds/../other",
            "http://data.example:3030/ds/%2e%2E/other",
            "http://data.example/ds/query",
            "https://example.org/x",
            "https://evilexample.org/x",
            "ftp://a.example.org/x",
        ] {
            assert!(!asks(&rules, url, PUBLIC), "{url}");
        }
    }

    #[test]
    fn addresses_are_those_that_an_entry_trusts() {
        let rules = rules(&[
            "https://*.example.org/*",
            "http://inner.example/*",
            "http://localhost:1/*",
            "http://192.168.1.5/*",
            "http://[fd00::5]/*",
        ]);
        for (url, address, expected) in [
            ("https://a.example.org/", "10.0.0.1", false),
            ("https://a.example.org/", "169.254.169.254", false),
            ("http://inner.example/", "10.0.0.1", true),
            ("http://inner.example/", "127.0.0.1", false),
            ("http://inner.example/", "169.254.169.254", false),
            ("http://inner.example/", "::ffff:127.0.0.1", false),
            ("http://localhost:1/", "127.0.0.1", true),
            ("http://localhost:1/", "::1", true),
            ("http://localhost:1/", "169.254.169.254", false),
            ("http://192.168.1.5/", "192.168.1.5", true),
            ("http://192.168.1.6/", "192.168.1.6", false),
            ("http://[fd00::5]/", "fd00::5", true),
            ("http://[fd00::6]/", "fd00::6", false),
        ] {
            assert_eq!(asks(&rules, url, address), expected, "{url} {address}");
        }
    }

    #[test]
    fn a_network_allows_what_is_in_it() {
        let rules = rules(&["10.0.0.0/8", "127.0.0.1", "https://*/*"]);
        for (url, address, expected) in [
            ("http://any.example/x", "10.1.2.3", true),
            ("http://10.1.2.3:99/x", "10.1.2.3", true),
            ("http://any.example/x", "127.0.0.1", true),
            ("http://any.example/x", "127.0.0.2", false),
            ("http://any.example/x", PUBLIC, false),
            ("https://any.example/x", PUBLIC, true),
            ("https://any.example/x", "192.168.0.1", false),
        ] {
            assert_eq!(asks(&rules, url, address), expected, "{url} {address}");
        }
    }

    #[test]
    fn nothing_is_allowed_by_default_and_slips_are_refused() {
        let nothing = rules(&[]);
        let url: Uri = "https://a.example/".parse().expect("a URL");
        let refusal = nothing.check_url(&url).expect_err("refused");
        assert!(refusal.contains("outbound.allow is empty"), "{refusal}");
        for slip in [
            "a.example",
            "ftp://a/",
            "https://",
            "https://a*b/",
            "http://a/*/b",
            "http://u@a/",
            "http://a:x/",
            "10.0.0.0/33",
        ] {
            let error = Rules::new(&[slip.to_owned()]).expect_err(slip);
            assert!(error.contains("outbound.allow"), "{error}");
        }
    }
}

//! Proxies whose header `X-Forwarded-For` is trusted.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Addresses and networks of proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Reads addresses (`127.0.0.1`) and networks (`10.0.0.0/8`).
    pub fn parse(entries: &[impl AsRef<str>]) -> Result<Self, String> {
        let networks = entries.iter().map(|entry| {
            let entry = entry.as_ref();
            let address = entry.parse::<IpAddr>().map(IpNet::from);
            address.or_else(|_| entry.parse()).map_err(|_| {
                format!("{entry:?} is neither an address nor a network such as 10.0.0.0/8")
            })
        });
        networks.collect::<Result<_, _>>().map(Self)
    }

    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client's address. If the request comes from a trusted proxy, that is the last address in
    /// `X-Forwarded-For` that is not a trusted proxy itself; clients may write anything before it.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        let lists = headers.get_all("x-forwarded-for").iter().rev();
        let said = lists.flat_map(|list| list.to_str().unwrap_or_default().rsplit(','));
        for text in said {
            let (true, Ok(address)) = (self.has(client), text.trim().parse::<IpAddr>()) else {
                break;
            };
            client = address.to_canonical();
        }
        client
    }
}

impl<'de> Deserialize<'de> for Proxies {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let entries = Vec::<String>::deserialize(from)?;
        Self::parse(&entries).map_err(de::Error::custom)
    }
}

impl Serialize for Proxies {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(IpNet::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, said: &[&str]) -> String {
        let proxies = Proxies::parse(&["127.0.0.1", "10.0.0.0/8"]).expect("sound");
        let mut headers = HeaderMap::new();
        for list in said {
            headers.append("x-forwarded-for", list.parse().expect("a header"));
        }
        let peer = peer.parse().expect("an address");
        proxies.client(peer, &headers).to_string()
    }

    #[test]
    fn only_proxies_are_believed_and_only_as_far_as_there_are_proxies() {
        assert_eq!(client("127.0.0.1", &["1.2.3.4"]), "1.2.3.4");
        assert_eq!(client("::ffff:127.0.0.1", &["1.2.3.4"]), "1.2.3.4");
        assert_eq!(
            client("127.0.0.1", &["6.6.6.6, 1.2.3.4, 10.1.1.1"]),
            "1.2.3.4"
        );
        assert_eq!(
            client("127.0.0.1", &["6.6.6.6", "1.2.3.4", "10.1.1.1"]),
            "1.2.3.4"
        );
        assert_eq!(client("9.9.9.9", &["1.2.3.4"]), "9.9.9.9");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["nobody"]), "127.0.0.1");
        assert!(Proxies::parse(&["localhost"]).is_err());
    }
}

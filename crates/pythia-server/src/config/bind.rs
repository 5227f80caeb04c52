//! Addresses to listen on: one text, or a list.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};

/// Reads an address with a port; a host name stands for all its addresses.
fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    let found = text.to_socket_addrs().map_err(|error| {
        format!("{text:?} is not an address with a port, for example 127.0.0.1:7878 ({error})")
    })?;
    Ok(found.collect())
}

/// Reads a comma-separated list of addresses.
pub fn parse(text: &str) -> Result<Vec<SocketAddr>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        for address in addresses(part.trim())? {
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    Ok(all)
}

struct BindVisitor;

impl<'de> Visitor<'de> for BindVisitor {
    type Value = Vec<SocketAddr>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address with a port, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            all.extend(parse(&text).map_err(de::Error::custom)?);
        }
        Ok(all)
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
    from.deserialize_any(BindVisitor)
}

pub(super) fn serialize<S: Serializer>(value: &[SocketAddr], to: S) -> Result<S::Ok, S::Error> {
    value.serialize(to)
}

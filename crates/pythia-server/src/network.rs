//! Addresses of the same client.

use std::net::{IpAddr, Ipv6Addr};

/// Returns an IPv4 address itself, and the /64 network of an IPv6 address: one host has 2^64 of those addresses.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

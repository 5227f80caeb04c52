//! Addresses that belong to the same client.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address, of IPv6 the network that it is in: whoever has an address has 2^64 of them.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

//! Classes of addresses: public, private, or reachable only from this machine or its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The Internet.
    Public,
    /// A private network: RFC 1918, RFC 4193, RFC 6598.
    Private,
    /// Loopback, link-local (cloud metadata services among them), multicast and reserved addresses.
    Restricted,
}

/// Returns the class of an address; addresses embedded in others count as themselves.
pub(super) fn reach(address: IpAddr) -> Reach {
    match address.to_canonical() {
        IpAddr::V4(address) => of_v4(address),
        IpAddr::V6(address) => of_v6(address),
    }
}

fn of_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Reach::Private,
        [0 | 127 | 224.., ..]
        | [169, 254, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Reach::Restricted,
        _ => Reach::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Reach {
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // IPv4 addresses embedded in IPv6: NAT64 and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0xfc00..=0xfdff, ..] => Reach::Private,
        // Protocol assignments, Teredo among them, and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Restricted,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Restricted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_where_the_registries_say() {
        let of = |text: &str| reach(text.parse().expect(text));
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2600::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(of(public), Reach::Public, "{public}");
        }
        for private in [
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:c0a8:1::1",
        ] {
            assert_eq!(of(private), Reach::Private, "{private}");
        }
        for restricted in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.18.0.1",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
        ] {
            assert_eq!(of(restricted), Reach::Restricted, "{restricted}");
        }
    }
}

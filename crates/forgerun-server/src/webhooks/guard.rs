//! Addresses that webhooks must not reach (ruling C-75): a server that calls URLs of its users must
//! not be a way into its own network.
//!
//! An address embedded in another counts, too: `::ffff:10.0.0.1`, NAT64, 6to4 and Teredo are judged
//! by the IPv4 address they lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::PrivateTargets;

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefused {
    /// Link-local, or a cloud's metadata service.
    #[error("must not lead to a link-local or metadata address")]
    Never,
    /// Loopback, private or otherwise not part of the public network.
    #[error("must not lead to a private address")]
    Private,
}

/// Checks whether the server may call this address.
pub fn judge(address: IpAddr, private: PrivateTargets) -> Result<(), AddressRefused> {
    match (place(address), private) {
        (AddressClass::Never, _) => Err(AddressRefused::Never),
        (AddressClass::Private, PrivateTargets::Deny) => Err(AddressRefused::Private),
        (AddressClass::Private, PrivateTargets::Allow | PrivateTargets::Local)
        | (AddressClass::Public, _) => Ok(()),
    }
}

/// The class of an address, from harmless to always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressClass {
    Public,
    Private,
    Never,
}

fn place(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(v4) => place_v4(v4),
        IpAddr::V6(v6) => {
            let inside = embedded(v6).into_iter().flatten().map(place_v4).max();
            inside.map_or(place_v6(v6), |inside| inside.max(place_v6(v6)))
        }
    }
}

/// Metadata services outside the link-local range: Alibaba, Azure, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// Networks that are not public, by the registry of special addresses: network and prefix length.
const PRIVATE_V4: [([u8; 4], u32); 14] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

fn place_v4(address: Ipv4Addr) -> AddressClass {
    if address.is_link_local() || METADATA_V4.contains(&address) {
        return AddressClass::Never;
    }
    let bits = address.to_bits();
    let within = |(network, length): &([u8; 4], u32)| {
        (bits ^ Ipv4Addr::from(*network).to_bits()) >> (32 - length) == 0
    };
    if PRIVATE_V4.iter().any(within) { AddressClass::Private } else { AddressClass::Public }
}

/// Metadata services of Amazon and Google, in private ranges.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

fn place_v6(address: Ipv6Addr) -> AddressClass {
    if address.is_unicast_link_local() || METADATA_V6.contains(&address) {
        return AddressClass::Never;
    }
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is assigned to the public network; NAT64 leads there.
    let outside = first & 0xe000 != 0x2000 && !is_nat64(address) && address.to_ipv4_mapped().is_none();
    let special = match first {
        // Protocol assignments; Teredo is judged by its target.
        0x2001 => (second < 0x200 && second != 0) || second == 0xdb8,
        0x3fff => second < 0x1000,
        _ => false,
    };
    if outside || special { AddressClass::Private } else { AddressClass::Public }
}

fn is_nat64(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x64, 0xff9b, 0, 0, 0, 0, _, _])
}

/// The IPv4 addresses that an IPv6 address leads to.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let pair = |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        // Compatible, mapped, translated, NAT64 with the well-known prefix and with a local one.
        [0, 0, 0, 0, 0, 0 | 0xffff, a, b]
        | [0, 0, 0, 0, 0xffff, 0, a, b]
        | [0x64, 0xff9b, 0, 0, 0, 0, a, b]
        | [0x64, 0xff9b, 1, _, _, _, a, b] => [pair(a, b), None],
        [0x2002, a, b, ..] => [pair(a, b), None],
        // Teredo: the server as it is, the client with all bits inverted.
        [0x2001, 0, a, b, _, _, c, d] => [pair(a, b), pair(!c, !d)],
        // ISATAP, under any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, a, b] => [pair(a, b), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], expected: AddressClass) {
        for address in addresses {
            assert_eq!(place(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn link_local_and_metadata_addresses_are_never_called() {
        check(
            &[
                "169.254.169.254",
                "169.254.0.0",
                "169.254.255.255",
                "100.100.100.200",
                "168.63.129.16",
                "fe80::1",
                "febf::1",
                "fd00:ec2::254",
                "fd20:ce::254",
                "::ffff:169.254.169.254",
                "::169.254.169.254",
                "64:ff9b::a9fe:a9fe",
                "64:ff9b:1::a9fe:a9fe",
                "2002:a9fe:a9fe::1",
                "2001:0:a9fe:a9fe::1",
                "2001:0:808:808:0:0:5601:5601",
                "2001:db8::5efe:169.254.169.254",
                "::ffff:0:a9fe:a9fe",
            ],
            AddressClass::Never,
        );
    }

    #[test]
    fn whatever_is_not_the_public_network_is_private() {
        check(
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.1",
                "10.255.255.255",
                "100.64.0.1",
                "100.127.255.255",
                "127.0.0.1",
                "127.255.255.254",
                "172.16.0.1",
                "172.31.255.255",
                "192.0.0.1",
                "192.0.2.1",
                "192.168.0.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.7",
                "203.0.113.9",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::1",
                "fc00::1",
                "fdff::1",
                "fec0::1",
                "ff02::1",
                "2001:db8::1",
                "3fff::1",
                "100::1",
                "2001:10::1",
                "4000::1",
                "::ffff:127.0.0.1",
                "::127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b:1::808:808",
                "2002:0a00:0001::",
                "2001:0:7f00:1::",
                "::ffff:0:808:808",
            ],
            AddressClass::Private,
        );
    }

    #[test]
    fn the_public_network_is_open() {
        check(
            &[
                "1.1.1.1",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "192.167.255.255",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2606:4700::1111",
                "2001:4860:4860::8888",
                "::ffff:8.8.8.8",
                "64:ff9b::808:808",
                "2002:808:808::1",
            ],
            AddressClass::Public,
        );
    }

    #[test]
    fn private_addresses_are_a_matter_of_configuration_and_metadata_is_not() {
        let judge = |address: &str, private| judge(address.parse().unwrap(), private);
        assert_eq!(judge("10.0.0.1", PrivateTargets::Allow), Ok(()));
        assert_eq!(judge("10.0.0.1", PrivateTargets::Deny), Err(AddressRefused::Private));
        assert_eq!(judge("fe80::1", PrivateTargets::Allow), Err(AddressRefused::Never));
        assert_eq!(judge("8.8.8.8", PrivateTargets::Deny), Ok(()));
    }
}

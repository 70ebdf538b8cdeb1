//! The client's address behind trusted proxies (`server.trusted_proxies`).
//!
//! Proxies append the address they were called from to `Forwarded` and `X-Forwarded-For`, so the
//! lists are read from their end: the first address that is not a trusted proxy is the client.
//! Earlier entries may be forged. A proxy usually writes one of the headers and passes the others
//! unchanged, so if several are sent they must agree; otherwise none is used.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

use crate::config::Network;

/// The address that limits count against. `peer` is the connected address.
pub(crate) fn real_address(trusted: &[Network], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(trusted, peer) {
        return peer;
    }
    let said = [
        last_untrusted(trusted, elements(headers, "forwarded").map(|element| forwarded_for(element))),
        last_untrusted(trusted, elements(headers, "x-forwarded-for").map(Some)),
        last_untrusted(trusted, elements(headers, "x-real-ip").map(Some)),
    ];
    let mut said = said.into_iter().filter(|said| *said != Said::Nothing);
    match said.next() {
        Some(Said::Address(address)) if said.all(|other| other == Said::Address(address)) => address,
        Some(_) | None => peer,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Missing, or only trusted proxies.
    Nothing,
    Address(IpAddr),
    Unclear,
}

fn is_trusted(trusted: &[Network], address: IpAddr) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

fn last_untrusted<'a>(trusted: &[Network], nodes: impl DoubleEndedIterator<Item = Option<&'a str>>) -> Said {
    for node in nodes.rev() {
        match node.and_then(address) {
            Some(address) if is_trusted(trusted, address) => {}
            Some(address) => return Said::Address(address),
            None => return Said::Unclear,
        }
    }
    Said::Nothing
}

/// The elements of a list over several lines. Bytes that are not text make an unreadable element.
fn elements<'a>(headers: &'a HeaderMap, name: &'static str) -> impl DoubleEndedIterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// The `for` of an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
    })
}

/// An address, perhaps in brackets, perhaps with a port.
fn address(node: &str) -> Option<IpAddr> {
    let bare = node.strip_prefix('[').and_then(|node| node.strip_suffix(']')).unwrap_or(node);
    let address = bare.parse().ok().or_else(|| Some(node.parse::<SocketAddr>().ok()?.ip()))?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn real(peer: &str, lines: &[(&str, &str)]) -> String {
        let trusted = ["127.0.0.1", "10.0.0.0/8"].map(|text| Network::parse(text).unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        real_address(&trusted, peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn a_trusted_proxy_says_who_calls() {
        for (lines, expected) in [
            (&[][..], "127.0.0.1"),
            (&[("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "192.0.2.1:4711")], "192.0.2.1"),
            (&[("x-forwarded-for", "1.1.1.1, 192.0.2.1, 10.0.0.7")], "192.0.2.1"),
            (&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "10.0.0.7")], "127.0.0.1"),
            (&[("x-real-ip", "192.0.2.1")], "192.0.2.1"),
            (&[("forwarded", "for=192.0.2.1;proto=http;by=203.0.113.43")], "192.0.2.1"),
            (&[("forwarded", "for=1.1.1.1, For=\"[2001:db8::1]:4711\"")], "2001:db8::1"),
            (&[("forwarded", "proto=https;for=\"192.0.2.1:80\", for=10.1.1.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "::ffff:192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "1.1.1.1, 192.0.2.1"), ("x-real-ip", "192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "192.0.2.1, 10.0.0.7"), ("x-real-ip", "10.0.0.7")], "192.0.2.1"),
        ] {
            assert_eq!(real("127.0.0.1", lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_is_hidden_unreadable_or_in_dispute_is_not_believed() {
        for lines in [
            &[("forwarded", "for=unknown")][..],
            &[("forwarded", "for=192.0.2.1, for=_hidden")],
            &[("forwarded", "by=10.0.0.1")],
            &[("x-forwarded-for", "192.0.2.1, nonsense")],
            &[("x-forwarded-for", "192.0.2.1,")],
            &[("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.2")],
            &[("x-forwarded-for", "192.0.2.1"), ("x-real-ip", "192.0.2.2")],
        ] {
            assert_eq!(real("127.0.0.1", lines), "127.0.0.1", "{lines:?}");
        }
    }

    #[test]
    fn nobody_else_says_who_calls() {
        for name in ["forwarded", "x-forwarded-for", "x-real-ip"] {
            assert_eq!(real("192.0.2.9", &[(name, "192.0.2.1")]), "192.0.2.9", "{name}");
            assert_eq!(real("::ffff:192.0.2.9", &[(name, "192.0.2.1")]), "192.0.2.9", "{name}");
        }
    }
}

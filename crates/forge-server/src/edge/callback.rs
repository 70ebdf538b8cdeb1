//! Where a job may report to: an http or https URL with a host, and not where the server must not go (ruling C-75).
//!
//! Names are not resolved here: what they lead to can change, so it is checked again when something is sent.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::Uri;

use crate::config::PrivateTargets;
use crate::limits::CALLBACK_BYTES_MAX;

/// Why a URL will not do; `None` if it will.
pub(crate) fn objection(url: &str, private: PrivateTargets) -> Option<&'static str> {
    if url.len() > CALLBACK_BYTES_MAX {
        return Some("is longer than 2048 bytes");
    }
    let Some(uri) = url.parse::<Uri>().ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
    else {
        return Some("must be an http:// or https:// URL");
    };
    let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
        return Some("must name a host");
    };
    let place = authority.as_str().rsplit('@').next().unwrap_or_default();
    let has_port = place.strip_prefix(host).is_some_and(|rest| !rest.is_empty());
    if has_port && authority.port_u16().is_none() {
        return Some("names a port that does not exist");
    }
    match address(host) {
        Some(address) if is_link_local(address) => Some("must not lead to a link-local address"),
        Some(address) if is_private(address) && private == PrivateTargets::Deny => {
            Some("must not lead to a private address")
        }
        Some(_) => None,
        None if !is_name(host) => Some("must name a valid host"),
        None if is_local_name(host) && private == PrivateTargets::Deny => {
            Some("must not lead to this machine")
        }
        None => None,
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let address: IpAddr = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => IpAddr::V6(v6.parse::<Ipv6Addr>().ok()?),
        None => host.parse().ok()?,
    };
    Some(address.to_canonical())
}

/// Where clouds keep the credentials of their machines.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_loopback() || v4.is_private() || v4.is_unspecified() || v4.is_broadcast() || shared
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local(),
    }
}

fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    // A last label of digits is an address that went wrong.
    let all_digits =
        host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    host.len() <= 253 && host.split('.').all(label) && !all_digits
}

fn is_local_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_with_a_valid_host_will_do() {
        for (url, fine) in [
            ("http://example.com", true),
            ("https://example.com:8443/hook?a=b#c", true),
            ("HTTPS://EXAMPLE.COM/", true),
            ("http://user:password@example.com/x", true),
            ("http://127.0.0.1:9000/hook", true),
            ("http://[::1]:9000/hook", true),
            ("http://hooks_internal", true),
            ("ftp://example.com", false),
            ("https://", false),
            ("https:///path", false),
            ("not a url", false),
            ("example.com/hook", false),
            ("/hook", false),
            ("", false),
            ("http://exa mple.com", false),
            ("http://.example.com", false),
            ("http://-example.com", false),
            ("http://1.2.3.999", false),
            ("http://[::1", false),
            ("http://example.com:99999", false),
            ("javascript:alert(1)", false),
        ] {
            assert_eq!(objection(url, PrivateTargets::Allow).is_none(), fine, "{url}");
        }
        assert!(
            objection(&format!("http://example.com/{}", "x".repeat(2048)), PrivateTargets::Allow).is_some()
        );
    }

    #[test]
    fn link_local_addresses_are_refused_always_and_private_ones_in_public() {
        for url in ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://[::ffff:169.254.1.1]/"] {
            assert!(objection(url, PrivateTargets::Allow).is_some(), "{url}");
        }
        for url in [
            "http://127.0.0.1/",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://localhost:8080/",
            "http://api.localhost./",
        ] {
            assert_eq!(objection(url, PrivateTargets::Allow), None, "{url}");
            assert!(objection(url, PrivateTargets::Deny).is_some(), "{url}");
        }
        assert_eq!(objection("http://93.184.216.34/", PrivateTargets::Deny), None);
    }
}

//! Whether a request is local and was meant for this machine (ruling C-115). Relaxed rules on
//! loopback apply to such requests only: a proxy on the same host, or a page in a browser, connects
//! from 127.0.0.1 too.
//!
//! Also the rule for `Host` that every request must keep (RFC 9112, section 3.2).

use std::net::IpAddr;

use axum::http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::{Uri, Version};
use forgerun_core::catalog::Kind;

use crate::config::{Reach, Server};
use crate::http::ApiError;

/// Refuses a request without exactly one valid host.
pub(crate) fn check_host(version: Version, headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = |detail: &str| Err(ApiError::new(Kind::MalformedRequest, detail));
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version < Version::HTTP_11 => Ok(()),
        (None, _) => refused("The request has no Host header."),
        (Some(_), Some(_)) => refused("The request has more than one Host header."),
        // Empty means that the target has no host.
        (Some(host), None) if host.is_empty() || text(host).and_then(host_of).is_some() => Ok(()),
        (Some(_), None) => refused("The Host header is not a host, or a host and a port."),
    }
}

/// What a request shows about its origin.
#[derive(Clone, Copy)]
pub(crate) struct RequestOrigin<'a> {
    pub(crate) version: Version,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
}

/// Why a request does not count as local, in words that follow "because"; `Ok` if it does.
pub(crate) fn check(server: &Server, origin: RequestOrigin<'_>) -> Result<(), String> {
    if server.reach() == Reach::Public {
        return Err("the server does not listen on loopback".to_owned());
    }
    if server.public_base_url.is_some() {
        return Err("the server has a public address (server.public_base_url)".to_owned());
    }
    if let Some(name) = origin.headers.keys().find(|name| is_forwarding(name)) {
        return Err(format!("the request came by way of a proxy (it has the header {name})"));
    }
    // Proxies that add no header commonly use HTTP/1.0 to the server behind them.
    if origin.version < Version::HTTP_11 {
        return Err("the request is HTTP/1.0, as proxies send it".to_owned());
    }
    if let Some(authority) = origin.uri.authority()
        && !is_loopback(authority.as_str())
    {
        return Err("the request is for a host that is not on loopback".to_owned());
    }
    if !origin.headers.get(HOST).and_then(text).is_some_and(is_loopback) {
        return Err("its Host header names no loopback address, nor localhost".to_owned());
    }
    let of_pages = origin.headers.get_all(ORIGIN);
    if !of_pages.iter().all(|origin| text(origin).is_some_and(is_loopback_origin)) {
        return Err("its Origin header names a page that is not on loopback".to_owned());
    }
    Ok(())
}

fn is_forwarding(name: &HeaderName) -> bool {
    matches!(name.as_str(), "forwarded" | "via" | "x-real-ip") || name.as_str().starts_with("x-forwarded-")
}

fn is_loopback_origin(origin: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(is_loopback)
}

/// Whether a host, with or without a port, can only be this machine.
fn is_loopback(authority: &str) -> bool {
    let Some(host) = host_of(authority) else { return false };
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// The host of `host`, `host:port` or `[address]:port`, without brackets.
fn host_of(authority: &str) -> Option<&str> {
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let port = if port.is_empty() { "" } else { port.strip_prefix(':')? };
        let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
        return (is_address && is_port(port)).then_some(address);
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    // As in RFC 3986; `@` and spaces are not allowed.
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_name_byte) && is_port(port)).then_some(host)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};

    fn server(settings: &[(&str, &str)]) -> Server {
        let environment = settings.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Config::load(&Sources { environment, ..Sources::default() }).unwrap().server
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn is_local(server: &Server, version: Version, uri: &str, lines: &[(&'static str, &str)]) -> bool {
        let (uri, headers) = (uri.parse().unwrap(), headers(lines));
        check(server, RequestOrigin { version, uri: &uri, headers: &headers }).is_ok()
    }

    #[test]
    fn only_a_request_for_loopback_that_nobody_passed_on_is_local() {
        let server = server(&[]);
        let local = |lines: &[(&'static str, &str)]| is_local(&server, Version::HTTP_11, "/v1/jobs", lines);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "app.localhost:1",
            "127.0.0.1:8080",
            "127.8.8.8",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(local(&[("host", host)]), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "notlocalhost",
            "127.0.0.1.nip.io",
            "0.0.0.0:8080",
            "10.0.0.1",
            "[::]",
            "[::2]:80",
            "::1",
            "user@localhost",
        ] {
            assert!(!local(&[("host", host)]), "{host}");
        }
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"] {
            assert!(local(&[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        for origin in
            ["null", "", "https://example.org", "http://localhost.example.org", "file://", "localhost"]
        {
            assert!(!local(&[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        for name in
            ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"]
        {
            assert!(!local(&[("host", "localhost"), (name, "127.0.0.1")]), "{name}");
        }
        assert!(!local(&[]));
    }

    #[test]
    fn what_proxies_and_public_servers_get_is_never_local() {
        let host = [("host", "localhost")];
        let loopback = server(&[]);
        assert!(!is_local(&loopback, Version::HTTP_10, "/", &host));
        assert!(is_local(&loopback, Version::HTTP_11, "http://localhost/", &host));
        assert!(!is_local(&loopback, Version::HTTP_11, "http://example.org/", &host));
        let named = server(&[("FORGERUN_SERVER__PUBLIC_BASE_URL", "https://jobs.example.org")]);
        assert!(!is_local(&named, Version::HTTP_11, "/", &host));
        let public = server(&[
            ("FORGERUN_SERVER__LISTEN", "0.0.0.0:80"),
            ("FORGERUN_AUTH__ADMIN_TOKEN", "a-token-of-the-operator"),
        ]);
        assert!(!is_local(&public, Version::HTTP_11, "/", &host));
    }

    #[test]
    fn a_request_names_its_host_once() {
        let fine = |version, lines: &[(&'static str, &str)]| check_host(version, &headers(lines)).is_ok();
        for host in ["localhost", "example.org:8080", "[::1]:80", "", "a_b.example", "example.org:"] {
            assert!(fine(Version::HTTP_11, &[("host", host)]), "{host}");
        }
        for host in ["a b", "user@example.org", "example.org:http", "[::1", "[nonsense]", "a/b", ":80"] {
            assert!(!fine(Version::HTTP_11, &[("host", host)]), "{host}");
        }
        assert!(!fine(Version::HTTP_11, &[]));
        assert!(fine(Version::HTTP_10, &[]));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(!fine(version, &[("host", "localhost"), ("host", "localhost")]));
        }
    }
}

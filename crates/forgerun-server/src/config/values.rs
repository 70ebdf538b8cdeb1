//! Types of configuration values, and their parsers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use axum::http::{HeaderName, HeaderValue, Uri, header};

use super::secret::Secret;
use crate::webhooks::Target;

/// An address, or all addresses with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// Parses `10.0.0.1` or `10.0.0.0/8`. Bits behind the prefix must be zero: otherwise one of the
    /// two is a mistake.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= bits)?,
            None => bits,
        };
        let network = Network { address, prefix_bits };
        (network.first() == network.key(address)).then_some(network)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && self.key(address) & self.mask() == self.first()
    }

    fn first(&self) -> u128 {
        self.key(self.address) & self.mask()
    }

    /// The bits of an address, left-aligned.
    fn key(&self, address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }

    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - self.prefix_bits).unwrap_or(0)
    }
}

/// From where the server can be reached, by its listen address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Loopback,
    Public,
}

impl Reach {
    pub(crate) fn of(address: SocketAddr) -> Reach {
        if address.ip().to_canonical().is_loopback() { Reach::Loopback } else { Reach::Public }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// In memory: lost when the server stops.
    Memory,
    Sqlite(PathBuf),
    /// The URL may contain a password.
    Postgres(Secret),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    Keys,
    /// Requests without a key belong to the client `default`.
    Open,
}

/// Who may create clients and first keys; `auto` is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    Open,
    /// Local callers, and holders of the admin token (C-115).
    Local,
    /// Holders of the admin token.
    Admin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryMode {
    Manual,
    Auto,
    /// As the retry policy of the job says.
    Policy,
}

/// The answer to plain HTTP on a port with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    Refuse,
    Redirect,
}

/// Whether webhooks may call loopback and private addresses; `auto` is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateTargets {
    Allow,
    /// Allowed for local requests (C-115), by address or as `localhost`: the target of any other
    /// name is its owner's choice, who may be a stranger.
    Local,
    Deny,
}

/// The `status` member of a stored failure report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobReportStatus {
    /// The equivalent HTTP status.
    Equivalent,
    /// The status of the answer with the report.
    Http,
    /// No member.
    Omit,
}

pub(crate) const PATH: &str = "the path of a file, without spaces around it";

pub(crate) fn path(text: &str) -> Option<PathBuf> {
    (text.trim() == text).then(|| PathBuf::from(text))
}

pub(crate) const ADDRESS: &str =
    "an IP address and a port, or localhost and a port, such as 127.0.0.1:8080 or [::1]:0";

pub(crate) fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?)),
        None => text.parse().ok(),
    }
}

pub(crate) const NETWORK: &str = "addresses and networks such as 127.0.0.1 or 10.0.0.0/8";

pub(crate) const DATABASE: &str =
    "sqlite:PATH, postgres://…, memory:, or nothing for the file in server.data";

pub(crate) fn database(text: &str) -> Option<Database> {
    if text == "memory:" {
        return Some(Database::Memory);
    }
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Some(Database::Postgres(Secret::new(text.to_owned())));
    }
    let path = text.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    // `sqlite::memory:` would create a file of that name.
    (!path.is_empty() && path != ":memory:").then(|| Database::Sqlite(PathBuf::from(path)))
}

pub(crate) const URL: &str =
    "an http or https URL without query, such as https://jobs.example.org, or nothing";

/// A URL without a trailing slash, so that a path can follow.
pub(crate) fn url(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let http = matches!(uri.scheme_str(), Some("http" | "https"));
    let plain = uri.query().is_none() && !text.contains(['#', '?']);
    let whole = http && plain && uri.host().is_some_and(|host| !host.is_empty());
    whole.then(|| text.trim_end_matches('/').to_owned())
}

pub(crate) const ORIGIN: &str =
    "origins such as https://app.example.org or http://localhost:3000, or \"*\" for all";

/// The origin of a page, as browsers send it, or `*`.
pub(crate) fn origin(text: &str) -> Option<String> {
    if text == "*" {
        return Some(text.to_owned());
    }
    let uri: Uri = text.parse().ok()?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_bare = text.to_ascii_lowercase() == text && !text.contains('@') && text.matches('/').count() == 2;
    (has_scheme && is_bare && uri.host().is_some_and(|host| !host.is_empty())).then(|| text.to_owned())
}

pub(crate) const COLLECTOR: &str =
    "an http or https URL without query and without a password, such as http://127.0.0.1:4318, or nothing";

/// The URL of a collector, without a trailing slash.
pub(crate) fn collector(text: &str) -> Option<String> {
    let uri: Uri = text.parse().ok()?;
    let has_password = uri.authority()?.as_str().contains('@');
    url(text).filter(|_| !has_password)
}

pub(crate) const ISSUER: &str = "the https URL of an identity provider, such as https://login.example.org; \
     with http only on this machine, such as http://127.0.0.1:3000";

/// The issuer of an identity provider, unchanged: tokens name it to the last character.
pub(crate) fn issuer(text: &str) -> Option<String> {
    collector(text)?;
    let target = Target::parse(text, PrivateTargets::Allow).ok()?;
    (target.is_https() || target.is_loopback()).then(|| text.to_owned())
}

pub(crate) const HEADERS: &str = "header fields, each as name=value, such as authorization=Bearer abc";

/// A header field in the form of `OTEL_EXPORTER_OTLP_HEADERS`. Its value is not printed.
pub(crate) fn header_field(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once('=')?;
    let name =
        HeaderName::from_bytes(name.trim().as_bytes()).ok().filter(|name| !OWN_FIELDS.contains(name))?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// Fields that the request sets itself.
const OWN_FIELDS: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
];

pub(crate) const TOKEN: &str =
    "letters, digits and signs without spaces (it travels in a header), or nothing";

pub(crate) fn token(text: &str) -> Option<Secret> {
    text.bytes().all(|byte| byte.is_ascii_graphic()).then(|| Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_know_their_reach() {
        for (text, expected) in [
            ("127.0.0.1:8080", Some(Reach::Loopback)),
            ("127.8.8.8:1", Some(Reach::Loopback)),
            ("localhost:0", Some(Reach::Loopback)),
            ("[::1]:8080", Some(Reach::Loopback)),
            ("[::ffff:127.0.0.1]:8080", Some(Reach::Loopback)),
            ("0.0.0.0:8080", Some(Reach::Public)),
            ("[::]:8080", Some(Reach::Public)),
            ("192.168.1.4:8080", Some(Reach::Public)),
            ("8080", None),
            (":8080", None),
            ("localhost", None),
            ("localhost:99999", None),
            ("example.org:80", None),
        ] {
            assert_eq!(address(text).map(Reach::of), expected, "{text}");
        }
    }

    #[test]
    fn a_network_is_an_address_or_all_that_begin_alike() {
        for (text, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.128/25", "192.0.2.255", "192.0.2.127"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "127.0.0.1"),
        ] {
            let network = Network::parse(text).unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{inside} in {text}");
            assert!(!network.contains(outside.parse().unwrap()), "{outside} in {text}");
        }
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "::/129", "10.0.0.0/-1", "10"]
        {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }

    #[test]
    fn databases_are_told_apart() {
        let sqlite = |path: &str| Some(Database::Sqlite(PathBuf::from(path)));
        let postgres = |url: &str| Some(Database::Postgres(Secret::new(url.to_owned())));
        for (text, expected) in [
            ("memory:", Some(Database::Memory)),
            ("sqlite:jobs.db", sqlite("jobs.db")),
            ("sqlite:/var/jobs.db", sqlite("/var/jobs.db")),
            ("sqlite:///var/jobs.db", sqlite("/var/jobs.db")),
            ("postgres://u:p@h/d", postgres("postgres://u:p@h/d")),
            ("postgresql:///d?host=/run", postgres("postgresql:///d?host=/run")),
            ("sqlite:", None),
            ("sqlite::memory:", None),
            ("mysql://h/d", None),
            ("jobs.db", None),
        ] {
            assert_eq!(database(text), expected, "{text}");
        }
    }

    #[test]
    fn urls_lose_their_last_slash_and_nothing_else() {
        for (text, expected) in [
            ("https://jobs.example.org", Some("https://jobs.example.org")),
            ("https://example.org/forge/", Some("https://example.org/forge")),
            ("http://[::1]:4318", Some("http://[::1]:4318")),
            ("jobs.example.org", None),
            ("ftp://example.org", None),
            ("https://example.org/?a=b", None),
            ("https://example.org/#top", None),
            ("/relative", None),
            ("https://", None),
        ] {
            assert_eq!(url(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_collector_has_a_url_without_a_password() {
        for (text, expected) in [
            ("http://127.0.0.1:4318/", Some("http://127.0.0.1:4318")),
            ("http://otel.internal/collect", Some("http://otel.internal/collect")),
            ("https://otel.example.org", Some("https://otel.example.org")),
            ("http://user:secret@otel.internal", None),
            ("127.0.0.1:4318", None),
        ] {
            assert_eq!(collector(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_issuer_is_in_the_clear_on_this_machine_only() {
        for (text, fits) in [
            ("https://login.example.org", true),
            ("https://login.example.org/realms/x/", true),
            ("http://127.0.0.1:3000", true),
            ("http://localhost:3000/x", true),
            ("http://[::1]:3000", true),
            ("http://login.example.org", false),
            ("http://10.0.0.1", false),
            ("https://user:secret@login.example.org", false),
            ("https://login.example.org/?a=b", false),
            ("login.example.org", false),
        ] {
            assert_eq!(issuer(text).as_deref(), fits.then_some(text), "{text}");
        }
    }

    #[test]
    fn a_token_fits_in_a_header() {
        assert!(token("f0rg3-run_token.~+/=").is_some());
        assert!(token("two words").is_none());
        assert!(token("line\n").is_none());
        assert!(token("schlüssel").is_none());
    }
}

//! Allowed webhook URLs: http or https, a host, no user info, and no refused address.
//!
//! Names are not resolved here: their addresses can change, so they are checked with each
//! connection.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::guard;
use crate::config::PrivateTargets;
use crate::limits::CALLBACK_BYTES_MAX;

/// An allowed URL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Target(Url);

/// Why a URL is refused; follows the name of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    #[error("is longer than {CALLBACK_BYTES_MAX} bytes")]
    TooLong,
    #[error("must be an http:// or https:// URL")]
    NotHttp,
    #[error("must name a valid host")]
    NoHost,
    #[error("names a port that does not exist")]
    NoSuchPort,
    #[error("must not hold a user name or password")]
    UserInfo,
    #[error("must not lead to this machine")]
    ThisMachine,
    #[error(transparent)]
    Address(#[from] guard::AddressRefused),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A literal address.
    Address(IpAddr),
    /// A name, to be resolved.
    Name(String),
}

impl Target {
    pub fn parse(text: &str, private: PrivateTargets) -> Result<Target, Objection> {
        if text.len() > CALLBACK_BYTES_MAX {
            return Err(Objection::TooLong);
        }
        if !has_plain_start(text) {
            return Err(Objection::NotHttp);
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::InvalidPort => Objection::NoSuchPort,
            _ => Objection::NoHost,
        })?;
        if url.port() == Some(0) {
            return Err(Objection::NoSuchPort);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Objection::UserInfo);
        }
        match url.host() {
            Some(Host::Ipv4(address)) => guard::judge(address.into(), private)?,
            Some(Host::Ipv6(address)) => guard::judge(address.into(), private)?,
            Some(Host::Domain(name)) if !is_name(name) => return Err(Objection::NoHost),
            Some(Host::Domain(name)) if is_local_name(name) && private == PrivateTargets::Deny => {
                return Err(Objection::ThisMachine);
            }
            Some(Host::Domain(_)) => {}
            None => return Err(Objection::NoHost),
        }
        let mut url = url;
        // Fragments are never sent, so they must not be signed either.
        url.set_fragment(None);
        Ok(Target(url))
    }

    /// Checks a URL that is to be stored: normalised as [`Target::as_str`], so that all spellings
    /// of a place are one webhook, and the shown URL is the signed one.
    pub fn parse_new(text: &str, private: PrivateTargets) -> Result<Target, Objection> {
        let target = Target::parse(text, private)?;
        // Encoding makes other scripts longer, and the stored URL is checked again before each
        // call.
        if target.as_str().len() > CALLBACK_BYTES_MAX { Err(Objection::TooLong) } else { Ok(target) }
    }

    /// The URL as it is called and signed.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The URL for logs: query and path may contain secrets of the receiver.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether it is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.peer() {
            Peer::Address(address) => address.is_loopback(),
            Peer::Name(name) => is_local_name(&name),
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        match self.0.host() {
            Some(Host::Ipv4(address)) => Peer::Address(address.into()),
            Some(Host::Ipv6(address)) => Peer::Address(address.into()),
            Some(Host::Domain(name)) => Peer::Name(name.to_owned()),
            None => Peer::Name(String::new()),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(80)
    }

    /// For the `Host` header: the port only if it is not the default.
    pub(crate) fn authority(&self) -> &str {
        self.0.authority()
    }

    /// For the request line.
    pub(crate) fn path_and_query(&self) -> String {
        match self.0.query() {
            Some(query) => format!("{}?{query}", self.0.path()),
            None => self.0.path().to_owned(),
        }
    }
}

/// Shows the origin only, which is never secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.origin())
    }
}

/// The URL standard tolerates typing errors: missing and extra slashes, backslashes, tabs.
/// Registrations are stricter.
fn has_plain_start(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    web && !rest.starts_with('/') && !text.contains(odd)
}

/// Stricter than the URL standard, which leaves names to DNS.
fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    host.len() <= 253 && host.split('.').all(label)
}

pub(crate) fn is_local_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objection(url: &str, private: PrivateTargets) -> Option<Objection> {
        Target::parse(url, private).err()
    }

    #[test]
    fn only_urls_with_a_valid_host_will_do() {
        use Objection::{NoHost, NoSuchPort, NotHttp, UserInfo};
        for (url, expected) in [
            ("http://example.com", None),
            ("https://example.com:8443/hook?a=b#c", None),
            ("HTTPS://EXAMPLE.COM/", None),
            ("http://127.0.0.1:9000/hook", None),
            ("http://[::1]:9000/hook", None),
            ("http://hooks_internal", None),
            ("http://example.com:65535/", None),
            ("http://user:password@example.com/x", Some(UserInfo)),
            ("http://user@example.com/x", Some(UserInfo)),
            ("http://:password@example.com/x", Some(UserInfo)),
            ("ftp://example.com", Some(NotHttp)),
            ("file:///etc/passwd", Some(NotHttp)),
            ("file://example.com/etc/passwd", Some(NotHttp)),
            ("https://", Some(NoHost)),
            ("https:///path", Some(NotHttp)),
            ("http:example.com", Some(NotHttp)),
            ("http:\\\\example.com", Some(NotHttp)),
            ("http://example.com\\@10.0.0.1/", Some(NotHttp)),
            ("http://exa\tmple.com", Some(NotHttp)),
            ("not a url", Some(NotHttp)),
            ("example.com/hook", Some(NotHttp)),
            ("/hook", Some(NotHttp)),
            ("", Some(NotHttp)),
            ("http://exa mple.com", Some(NotHttp)),
            ("http://exa%20mple.com", Some(NoHost)),
            ("http://.example.com", Some(NoHost)),
            ("http://-example.com", Some(NoHost)),
            ("http://1.2.3.999", Some(NoHost)),
            ("http://[::1", Some(NoHost)),
            ("http://[fe80::1%25eth0]/", Some(NoHost)),
            ("http://example.com:99999", Some(NoSuchPort)),
            ("http://example.com:65536", Some(NoSuchPort)),
            ("http://example.com:0", Some(NoSuchPort)),
            ("http://example.com:-1", Some(NoSuchPort)),
            ("javascript:alert(1)", Some(NotHttp)),
        ] {
            assert_eq!(objection(url, PrivateTargets::Allow), expected, "{url}");
        }
        let long = format!("http://example.com/{}", "x".repeat(2048));
        assert_eq!(objection(&long, PrivateTargets::Allow), Some(Objection::TooLong));
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
            "http://LOCALHOST/",
            "http://api.localhost./",
        ] {
            assert_eq!(objection(url, PrivateTargets::Allow), None, "{url}");
            assert!(objection(url, PrivateTargets::Deny).is_some(), "{url}");
        }
        assert_eq!(objection("http://93.184.216.34/", PrivateTargets::Deny), None);
    }

    #[test]
    fn odd_forms_of_an_address_are_that_address() {
        for (url, address) in [
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://0177.0.0.1/", "127.0.0.1"),
            ("http://127.1/", "127.0.0.1"),
            ("http://127.0.0.1./", "127.0.0.1"),
            ("http://0xa9fea9fe/", "169.254.169.254"),
            ("http://169.16689662/", "169.254.169.254"),
            ("http://%31%32%37.0.0.1/", "127.0.0.1"),
            ("http://①②⑦.⓪.⓪.①/", "127.0.0.1"),
            ("http://127。0。0。1/", "127.0.0.1"),
            ("http://[::ffff:7f00:1]/", "::ffff:127.0.0.1"),
            ("http://[0:0:0:0:0:0:0:1]/", "::1"),
        ] {
            assert!(objection(url, PrivateTargets::Deny).is_some(), "{url}");
            if let Ok(target) = Target::parse(url, PrivateTargets::Allow) {
                assert_eq!(target.peer(), Peer::Address(address.parse().unwrap()), "{url}");
            }
        }
    }

    #[test]
    fn a_name_of_another_script_is_called_by_its_ascii_form() {
        let target = Target::parse("https://bücher.example/ü?q=ü#part", PrivateTargets::Deny).unwrap();
        assert_eq!(target.as_str(), "https://xn--bcher-kva.example/%C3%BC?q=%C3%BC");
        assert_eq!(target.peer(), Peer::Name("xn--bcher-kva.example".into()));
        assert_eq!(target.path_and_query(), "/%C3%BC?q=%C3%BC");
    }

    #[test]
    fn all_spellings_of_a_place_are_kept_alike() {
        for (url, kept) in [
            ("http://example.com", "http://example.com/"),
            ("HTTP://Example.COM:80/", "http://example.com/"),
            ("https://example.com/a/../b", "https://example.com/b"),
            ("https://example.com/b#part", "https://example.com/b"),
            ("https://example.com/?x=ü", "https://example.com/?x=%C3%BC"),
        ] {
            let target = Target::parse_new(url, PrivateTargets::Deny).unwrap();
            assert_eq!(target.as_str(), kept, "{url}");
            assert_eq!(Target::parse_new(kept, PrivateTargets::Deny).unwrap(), target, "{url}");
        }
        let long = format!("http://example.com/{}", "ü".repeat(700));
        assert!(Target::parse(&long, PrivateTargets::Deny).is_ok());
        assert_eq!(Target::parse_new(&long, PrivateTargets::Deny), Err(Objection::TooLong));
    }

    #[test]
    fn what_is_shown_has_neither_path_nor_query() {
        let target =
            Target::parse("https://example.com:8443/hook?token=secret", PrivateTargets::Deny).unwrap();
        assert_eq!(format!("{target:?}"), "Target(https://example.com:8443)");
        assert_eq!((target.authority(), target.port()), ("example.com:8443", 8443));
    }
}

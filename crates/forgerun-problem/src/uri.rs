//! URI references for `type` and `instance`.
//!
//! A [`UriRef`] keeps exactly the text it was made from: fragments, `urn:` and `tag:` URIs and
//! relative references survive. A [`BaseUri`] turns relative references into absolute ones (RFC
//! 3986, section 5). Nothing here ever fetches anything.

use std::fmt;

/// The problem type of an object that names none.
pub const ABOUT_BLANK: &str = "about:blank";

/// A checked URI reference (RFC 3986), kept as it was written.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UriRef(Box<str>);

impl UriRef {
    /// Checks `text` against the grammar of RFC 3986.
    ///
    /// # Errors
    /// When `text` is not a URI reference, for example because of a blank or a letter outside
    /// ASCII.
    pub fn new(text: impl Into<String>) -> Result<Self, UriError> {
        let text = text.into();
        match fluent_uri::UriRef::parse(text.as_str()) {
            Ok(_) => Ok(Self(text.into_boxed_str())),
            Err(_) => Err(UriError::NotAReference(text)),
        }
    }

    /// The reference as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the reference has a scheme, so that it means the same everywhere.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.parsed().has_scheme()
    }

    /// Whether the reference is absolute or at least carries its full path (`/types/123`).
    ///
    /// Other references change their meaning with the resource they were served from.
    #[must_use]
    pub fn has_full_path(&self) -> bool {
        self.is_absolute() || self.0.starts_with('/')
    }

    fn parsed(&self) -> fluent_uri::UriRef<&str> {
        fluent_uri::UriRef::parse(&*self.0).expect("checked when it was made")
    }
}

impl fmt::Debug for UriRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.0)
    }
}

impl fmt::Display for UriRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An absolute URI against which relative references are resolved: where the document came from.
#[derive(Debug, Clone)]
pub struct BaseUri(fluent_uri::Uri<String>);

impl BaseUri {
    /// Takes an absolute URI; a fragment is cut off, as it plays no part in resolution.
    ///
    /// # Errors
    /// When `text` is not an absolute URI.
    pub fn new(text: impl Into<String>) -> Result<Self, UriError> {
        let mut text = text.into();
        text.truncate(text.find('#').unwrap_or(text.len()));
        match fluent_uri::Uri::parse(text) {
            Ok(uri) => Ok(Self(uri)),
            Err((_, text)) => Err(UriError::NotAbsolute(text)),
        }
    }

    /// Resolves `reference`; an absolute one is returned unchanged.
    ///
    /// # Errors
    /// When the base is opaque (`urn:…`) and can not carry a relative path.
    pub fn resolve(&self, reference: &UriRef) -> Result<UriRef, UriError> {
        if reference.is_absolute() {
            return Ok(reference.clone());
        }
        match reference.parsed().resolve_against(&self.0) {
            Ok(uri) => Ok(UriRef(uri.into_string().into_boxed_str())),
            Err(_) => Err(UriError::OpaqueBase(self.0.as_str().to_owned())),
        }
    }
}

/// Why a text can not stand where a URI is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The text does not follow the grammar.
    #[error("{0:?} is not a URI reference; percent-encode blanks and letters outside ASCII")]
    NotAReference(String),
    /// A base needs a scheme.
    #[error("{0:?} is not an absolute URI; give it a scheme")]
    NotAbsolute(String),
    /// A base such as `urn:x` has no path to resolve against.
    #[error("nothing relative can be resolved against the opaque base {0:?}")]
    OpaqueBase(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_fragments_urns_and_tags() {
        for text in [
            "https://iana.org/assignments/http-problem-types#date",
            "urn:uuid:550e8400-e29b-41d4-a716-446655440000",
            "tag:mnot@mnot.net,2021-09-17:OutOfLuck",
            "about:blank",
            "/types/123",
            "example-problem",
            "#fragment-only",
            "",
        ] {
            assert_eq!(UriRef::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for text in ["a b", "http://[::1", "%zz", "sch\u{e9}me:x", "a\nb", "<x>"] {
            assert_eq!(UriRef::new(text), Err(UriError::NotAReference(text.into())));
        }
    }

    #[test]
    fn the_same_relative_reference_means_different_things_under_different_bases() {
        let resolve = |base: &str, reference: &str| {
            let resolved = BaseUri::new(base).unwrap().resolve(&UriRef::new(reference).unwrap());
            resolved.unwrap().as_str().to_owned()
        };
        let (foo, widget) = ("https://api.example.org/foo/bar/123", "https://api.example.org/widget/456");
        assert_eq!(resolve(foo, "example-problem"), "https://api.example.org/foo/bar/example-problem");
        assert_eq!(resolve(widget, "example-problem"), "https://api.example.org/widget/example-problem");
        assert_eq!(resolve(widget, "/types/123"), "https://api.example.org/types/123");
        assert_eq!(resolve(widget, "urn:x:y#z"), "urn:x:y#z");
        assert_eq!(resolve("https://a.example/b#cut", "#kept"), "https://a.example/b#kept");
    }

    #[test]
    fn a_base_must_be_absolute_and_not_opaque_for_relative_references() {
        assert!(matches!(BaseUri::new("/only/a/path"), Err(UriError::NotAbsolute(_))));
        let urn = BaseUri::new("urn:x:y").unwrap();
        assert!(matches!(urn.resolve(&UriRef::new("a/b").unwrap()), Err(UriError::OpaqueBase(_))));
    }
}

//! Documents that are the same for every caller while the server runs. Unlike answers about jobs
//! they are public: any cache may keep them for a while, and a caller that has one already gets 304
//! by its `ETag`.
//!
//! - `openapi`: the routes as a document: `rows` gathers them, `refusals` says what follows for
//!   each, `headers` and `problems` are components;
//! - `asyncapi`: the same for events; `messages`, and `yaml` to write it down.

pub mod asyncapi;
mod headers;
mod messages;
pub mod openapi;
mod problems;
mod refusals;
mod rows;
mod yaml;

use axum::http::header::{CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use forgerun_problem::Digest;

use crate::http::exchange::BodyMemory;

/// An hour: a new version of the server is noticed the same day, and no session fetches a document
/// twice.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// A document, ready to be sent.
#[derive(Clone, Debug)]
pub struct Document {
    media_type: &'static str,
    language: Option<&'static str>,
    tag: HeaderValue,
    bytes: Bytes,
}

impl Document {
    pub fn new(media_type: &'static str, text: String) -> Document {
        let bytes = Bytes::from(text);
        let digest: String = Digest::of(&bytes).0[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("\"{digest}\"")).expect("hexadecimal digits are ASCII");
        Document { media_type, language: None, tag, bytes }
    }

    /// The same, in a language.
    pub fn in_language(self, language: &'static str) -> Document {
        Document { language: Some(language), ..self }
    }

    /// The tag of this version.
    pub fn version(&self) -> &str {
        self.tag.to_str().unwrap_or_default().trim_matches('"')
    }

    /// The document, or 304 if the client has it.
    pub fn answer(&self, headers: &HeaderMap) -> Response {
        let has_it = headers.get_all(IF_NONE_MATCH).iter().any(|line| self.is_named(line));
        let mut response = if has_it {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(CONTENT_TYPE, self.media_type)], self.bytes.clone()).into_response()
        };
        response.extensions_mut().insert(BodyMemory::Shared);
        let headers = response.headers_mut();
        headers.insert(ETAG, self.tag.clone());
        headers.insert(CACHE_CONTROL, CACHED);
        headers.extend(self.language.map(|tag| (CONTENT_LANGUAGE, HeaderValue::from_static(tag))));
        response
    }

    /// Weak and strong tags compare alike here (RFC 9110, 13.1.2).
    fn is_named(&self, tags: &HeaderValue) -> bool {
        let Ok(tags) = tags.to_str() else { return false };
        tags.split(',')
            .map(|tag| tag.trim().trim_start_matches("W/"))
            .any(|tag| tag == "*" || self.tag == *tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(document: &Document, if_none_match: &str) -> u16 {
        let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(if_none_match).unwrap())]);
        document.answer(&headers).status().as_u16()
    }

    #[test]
    fn whoever_has_the_document_does_not_get_it_again() {
        let document = Document::new("text/plain", "hello".into());
        let tag = document.tag.to_str().unwrap().to_owned();
        for (if_none_match, status) in [
            (tag.clone(), 304),
            (format!("W/{tag}"), 304),
            (format!("\"other\", {tag}"), 304),
            ("*".into(), 304),
            ("\"other\"".into(), 200),
            (String::new(), 200),
        ] {
            assert_eq!(asked(&document, &if_none_match), status, "{if_none_match}");
        }
        assert_eq!(document.answer(&HeaderMap::new()).status(), 200);
        assert_ne!(tag, Document::new("text/plain", "hallo".into()).tag.to_str().unwrap());
    }
}

//! `If-Match`: a change applies only to the version that the client has seen (RFC 9110 §13.1.1).
//!
//! Webhooks and results have an `ETag`. On other resources the header is refused.

use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use forgerun_core::catalog::Kind;

use crate::http::ApiError;

/// The tags in `If-Match`; `None` if any version will do. As sent: strong ones in quotes; weak ones
/// match nothing, as they should.
pub(crate) fn wanted(headers: &HeaderMap) -> Option<Vec<&str>> {
    let mut lines = headers.get_all(IF_MATCH).iter().peekable();
    lines.peek()?;
    let tags = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let tags: Vec<&str> = tags.map(str::trim).filter(|tag| !tag.is_empty()).collect();
    if tags.contains(&"*") { None } else { Some(tags) }
}

/// Refuses a request whose tags do not include `etag`.
pub(crate) fn check(headers: &HeaderMap, etag: &str) -> Result<(), ApiError> {
    match wanted(headers) {
        Some(tags) if !tags.contains(&etag) => {
            let detail = format!("If-Match names another version; the ETag is {etag} now.");
            Err(ApiError::new(Kind::PreconditionFailed, detail))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses `If-Match` on a resource without a tag.
pub(crate) fn check_untagged(headers: &HeaderMap) -> Result<(), ApiError> {
    match wanted(headers) {
        Some(_) => {
            let detail = "If-Match names a version, and there are none here; leave it out.";
            Err(ApiError::new(Kind::PreconditionFailed, detail))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (IF_MATCH, HeaderValue::from_static(line))).collect()
    }

    #[test]
    fn a_strong_tag_matches_itself_and_a_star_matches_everything() {
        for (lines, matches) in [
            (&[][..], true),
            (&["*"], true),
            (&["\"a\""], true),
            (&["\"b\", \"a\""], true),
            (&["\"b\"", "\"a\""], true),
            (&["\"b\""], false),
            (&["W/\"a\""], false),
            (&["a"], false),
            (&[""], false),
        ] {
            assert_eq!(check(&headers(lines), "\"a\"").is_ok(), matches, "{lines:?}");
        }
        assert!(check_untagged(&headers(&["\"a\""])).is_err());
        assert!(check_untagged(&headers(&["*"])).is_ok() && check_untagged(&headers(&[])).is_ok());
    }
}

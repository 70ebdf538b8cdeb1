//! Texts of a job: its type, bounds, and media types.

use alloc::string::String;

use super::{Head, JobForm};
use crate::limits;

impl JobForm {
    /// ForgeRun's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            JobForm::Execute => "EXECUTE",
            JobForm::Deferred => "DEFERRED",
            JobForm::EmitEvent => "EMIT_EVENT",
        }
    }
}

impl Head {
    /// The type of the job; of one without, the word for its form.
    pub fn type_name(&self) -> &str {
        if self.job_type.is_empty() { self.form.as_str() } else { &self.job_type }
    }
}

/// Whether a text is a media type of RFC 9110: two tokens and a slash, then parameters. Browsers
/// guess the type of anything else.
pub fn is_media_type(text: &str) -> bool {
    let is_token = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let is_value = |value: &str| {
        let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        is_token(value)
            || quoted.is_some_and(|text| {
                text.bytes().all(|b| (b' '..=b'~').contains(&b) && !b"\"\\;".contains(&b))
            })
    };
    let mut parts = text.split(';').map(|part| part.trim_matches([' ', '\t']));
    let essence = parts.next().and_then(|essence| essence.split_once('/'));
    essence.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parts
            .all(|part| part.split_once('=').is_some_and(|(name, value)| is_token(name) && is_value(value)))
}

/// Whether a media type is JSON, including `+json`.
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().as_bytes();
    let ends = |suffix: &[u8]| {
        essence.len() >= suffix.len() && essence[essence.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
    };
    is_media_type(media_type) && (essence.eq_ignore_ascii_case(b"application/json") || ends(b"+json"))
}

/// At most [`limits::TEXT_BYTES_MAX`] bytes of `text`.
pub(crate) fn bounded(text: String) -> String {
    cut(text, limits::TEXT_BYTES_MAX)
}

/// At most `bytes_max` bytes of `text`, cut between characters.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_has_two_tokens_and_parameters() {
        for text in ["text/csv", "application/vnd.a+json", "text/plain; charset=utf-8", "a/b ;x=\"y z\"; q=1"]
        {
            assert!(is_media_type(text), "{text}");
        }
        for text in [
            "",
            "text",
            "text/",
            "/csv",
            "a/b/c",
            "text/html +json",
            "text/html; x",
            "text/html, a/b",
            "a/b; x=\"",
            "a/\u{e4}",
            "a/b;x=\"\\\"",
        ] {
            assert!(!is_media_type(text), "{text}");
        }
        assert!(
            is_json("application/problem+json; a=b")
                && !is_json("text/html +json")
                && !is_json("text/html;+json")
        );
    }
}

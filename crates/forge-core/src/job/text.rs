//! Texts that come with a job: how they are cut, and what their media type says.

use alloc::string::String;

use crate::limits;

/// Whether a media type is one of JSON, `+json` types included.
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().as_bytes();
    let ends = |suffix: &[u8]| {
        essence.len() >= suffix.len() && essence[essence.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
    };
    essence.eq_ignore_ascii_case(b"application/json") || ends(b"+json")
}

/// At most [`limits::TEXT_BYTES_MAX`] bytes of `text`.
pub(crate) fn bounded(text: String) -> String {
    cut(text, limits::TEXT_BYTES_MAX)
}

/// At most so many bytes of `text`, cut between characters.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

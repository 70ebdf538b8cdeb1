//! The requested range of a result (RFC 9110, section 14). A single byte range is served as a part;
//! several ranges, other units or malformed fields get the whole, as the RFC allows; the status
//! shows which.

use axum::http::header::{IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderValue};

/// Bytes from `first` to `end`, exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) first: u64,
    pub(super) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeRequest {
    Whole,
    /// Within the result, and not empty.
    Part(ByteRange),
    Nothing,
}

/// The range that a `GET` asks for, given size and `ETag`.
pub(super) fn wanted(headers: &HeaderMap, etag: &HeaderValue, size: u64) -> RangeRequest {
    let mut lines = headers.get_all(RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return RangeRequest::Whole };
    // A part of an outdated version would be useless. Only the same strong tag matches; there are
    // no dates.
    if headers.get(IF_RANGE).is_some_and(|known| known != etag) {
        return RangeRequest::Whole;
    }
    line.to_str().ok().and_then(|line| parse(line, size)).unwrap_or(RangeRequest::Whole)
}

/// `None` if it is malformed.
fn parse(line: &str, size: u64) -> Option<RangeRequest> {
    let (unit, ranges) = line.trim().split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || ranges.contains(',') {
        return None;
    }
    let (first, last) = ranges.trim().split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", last) => match number(last)? {
            0 => Some(RangeRequest::Nothing),
            // The last bytes of an empty result are the whole.
            _ if size == 0 => Some(RangeRequest::Whole),
            n => Some(RangeRequest::Part(ByteRange { first: size.saturating_sub(n), end: size })),
        },
        (first, last) => {
            let first = number(first)?;
            let last = if last.is_empty() { u64::MAX } else { number(last)? };
            match first <= last {
                // An inverted range is invalid.
                false => None,
                true if first >= size => Some(RangeRequest::Nothing),
                true => Some(RangeRequest::Part(ByteRange { first, end: last.saturating_add(1).min(size) })),
            }
        }
    }
}

/// Digits only; saturates.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: &str, size: u64) -> RangeRequest {
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).unwrap())]);
        wanted(&headers, &HeaderValue::from_static("\"a\""), size)
    }

    #[test]
    fn one_range_of_bytes_is_a_part() {
        for (range, size, first, end) in [
            ("bytes=0-0", 10, 0, 1),
            ("bytes=0-9", 10, 0, 10),
            ("bytes=2-5", 10, 2, 6),
            ("bytes=5-", 10, 5, 10),
            ("bytes=5-100", 10, 5, 10),
            ("bytes=9-99999999999999999999999999", 10, 9, 10),
            ("bytes=0-18446744073709551615", 10, 0, 10),
            ("bytes=-1", 10, 9, 10),
            ("bytes=-10", 10, 0, 10),
            ("bytes=-99999999999999999999999999", 10, 0, 10),
            ("Bytes = 2 - 5 ", 10, 2, 6),
            ("bytes=18446744073709551613-", u64::MAX, u64::MAX - 2, u64::MAX),
        ] {
            assert_eq!(of(range, size), RangeRequest::Part(ByteRange { first, end }), "{range} of {size}");
        }
    }

    #[test]
    fn what_begins_beyond_the_end_is_nothing() {
        for (range, size) in [
            ("bytes=10-", 10),
            ("bytes=10-20", 10),
            ("bytes=99999999999999999999999999-", 10),
            ("bytes=0-", 0),
            ("bytes=0-0", 0),
            ("bytes=-0", 10),
            ("bytes=-0", 0),
        ] {
            assert_eq!(of(range, size), RangeRequest::Nothing, "{range} of {size}");
        }
    }

    #[test]
    fn what_is_no_single_range_of_bytes_leaves_it_at_the_whole() {
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=1-b",
            "bytes=0x1-2",
            "bytes=+1-2",
            "bytes=--5",
            "bytes=1-2-3",
            "bytes=1",
            "bytes=0-1,3-4",
            "bytes=,",
            "items=0-5",
            "=0-5",
            "bytes 0-5",
            "bytes=99999999999999999999999999-1",
        ] {
            assert_eq!(of(range, 10), RangeRequest::Whole, "{range}");
        }
        assert_eq!(of("bytes=-5", 0), RangeRequest::Whole);
        assert_eq!(wanted(&HeaderMap::new(), &HeaderValue::from_static("\"a\""), 10), RangeRequest::Whole);
    }

    #[test]
    fn a_field_that_comes_twice_leaves_it_at_the_whole() {
        let mut headers = HeaderMap::new();
        headers.append(RANGE, HeaderValue::from_static("bytes=0-1"));
        headers.append(RANGE, HeaderValue::from_static("bytes=2-3"));
        assert_eq!(wanted(&headers, &HeaderValue::from_static("\"a\""), 10), RangeRequest::Whole);
    }

    #[test]
    fn a_part_is_served_only_of_the_state_that_the_caller_knows() {
        let part = RangeRequest::Part(ByteRange { first: 5, end: 10 });
        for (if_range, expected) in [
            ("\"a\"", part),
            ("\"b\"", RangeRequest::Whole),
            ("W/\"a\"", RangeRequest::Whole),
            ("a", RangeRequest::Whole),
            ("Sun, 15 Nov 2026 00:00:00 GMT", RangeRequest::Whole),
        ] {
            let field = |name, text| (name, HeaderValue::from_str(text).unwrap());
            let headers = HeaderMap::from_iter([field(RANGE, "bytes=5-"), field(IF_RANGE, if_range)]);
            assert_eq!(wanted(&headers, &HeaderValue::from_static("\"a\""), 10), expected, "{if_range}");
        }
    }
}

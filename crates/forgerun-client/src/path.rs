//! Ids in addresses. An id is opaque: it is never parsed, only made safe for a path.

/// The id as one segment of a path.
pub(crate) fn segment(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(byte.into()),
            // A segment of dots would be taken for a step up.
            b'.' if id.bytes().any(|byte| byte != b'.') => text.push('.'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn an_id_stays_one_segment() {
        assert_eq!(segment("019a-b_c.d~e"), "019a-b_c.d~e");
        assert_eq!(segment("../keys?a#b"), "..%2Fkeys%3Fa%23b");
        assert_eq!(segment("ä"), "%C3%A4");
        // The address itself would read %2E%2E as "..", so what is left is an id that does not exist.
        assert_eq!(segment(".."), "%2E%2E");
    }
}

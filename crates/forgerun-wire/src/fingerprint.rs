//! What makes two requests the same one: a digest of what was sent, exactly. Layout, the order of members and the spelling of
//! characters do not matter; anything else does. Numbers are taken as they are written and never become doubles, in which
//! 9007199254740993 and 9007199254740992 are one.
//!
//! Every object and every array becomes a digest of its own, from the inside out. So the work grows with the length of the body alone,
//! and neither deep nesting nor a number without bounds is judged here: whoever read the body has done that.

use std::borrow::Cow;

use forgerun_core::catalog::Kind;
use forgerun_problem::Digest;

use crate::problem::RefusedRequest;

/// Not part of what is asked: it may as well stand in the header.
const KEY: &[u8] = b"idempotency_key";

/// The fingerprint of a body that was found to be JSON.
pub fn fingerprint(body: &[u8]) -> Result<[u8; 32], Box<RefusedRequest>> {
    let digest = Walk { rest: body, open: Vec::new(), entries: Vec::new(), name: None }.digest();
    digest.ok_or_else(|| {
        Box::new(RefusedRequest::new(Kind::MalformedRequest, "The body is not a JSON object."))
    })
}

/// A value, and under which name it stands in an object.
struct Entry<'a> {
    name: Option<Cow<'a, [u8]>>,
    value: DigestInput<'a>,
}

enum DigestInput<'a> {
    /// A number, `true`, `false` or `null`, as it is written.
    Literal(&'a [u8]),
    /// A string without its escapes.
    Text(Cow<'a, [u8]>),
    /// An object or an array.
    Digest([u8; 32]),
}

/// An object or array that is being read.
struct Open<'a> {
    is_object: bool,
    /// Where its entries begin.
    first: usize,
    /// Under which name it stands itself.
    name: Option<Cow<'a, [u8]>>,
}

/// Goes over valid JSON, where commas and colons say nothing that the order of values does not say too.
struct Walk<'a> {
    rest: &'a [u8],
    open: Vec<Open<'a>>,
    /// The entries of all that is open, outermost first.
    entries: Vec<Entry<'a>>,
    /// The name whose value comes next.
    name: Option<Cow<'a, [u8]>>,
}

impl<'a> Walk<'a> {
    /// The digest of the object that all of it is.
    fn digest(mut self) -> Option<[u8; 32]> {
        while let Some((first, rest)) = self.rest.split_first() {
            match first {
                b'{' | b'[' => {
                    let (name, is_object) = (self.name.take(), *first == b'{');
                    self.open.push(Open { is_object, first: self.entries.len(), name });
                    self.rest = rest;
                }
                b'}' | b']' => {
                    self.rest = rest;
                    self.close()?;
                }
                b'"' => {
                    let text = self.text()?;
                    self.add_text(text);
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => self.rest = rest,
                _ => {
                    let literal = self.literal();
                    self.add(DigestInput::Literal(literal));
                }
            }
        }
        match (self.open.is_empty(), self.entries.as_slice()) {
            (true, [Entry { value: DigestInput::Digest(digest), .. }]) => Some(*digest),
            _ => None,
        }
    }

    fn add(&mut self, value: DigestInput<'a>) {
        let name = self.name.take();
        self.entries.push(Entry { name, value });
    }

    /// The first string of a pair is its name.
    fn add_text(&mut self, text: Cow<'a, [u8]>) {
        if self.name.is_none() && self.open.last().is_some_and(|open| open.is_object) {
            self.name = Some(text);
        } else {
            self.add(DigestInput::Text(text));
        }
    }

    fn close(&mut self) -> Option<()> {
        let Open { is_object, first, name } = self.open.pop()?;
        let entries = &mut self.entries[first..];
        if is_object {
            // Names that stand there twice keep their order: which of them counts is for the reader to say.
            entries.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let outermost = self.open.is_empty();
        let mut bytes = vec![if is_object { b'{' } else { b'[' }];
        for entry in entries {
            if outermost && entry.name.as_deref() == Some(KEY) {
                continue;
            }
            if let Some(name) = &entry.name {
                write(&mut bytes, b':', name);
            }
            match &entry.value {
                DigestInput::Literal(literal) => write(&mut bytes, b'0', literal),
                DigestInput::Text(text) => write(&mut bytes, b'"', text),
                DigestInput::Digest(digest) => write(&mut bytes, b'#', digest),
            }
        }
        self.entries.truncate(first);
        self.entries.push(Entry { name, value: DigestInput::Digest(Digest::of(&bytes).0) });
        Some(())
    }

    /// The string that begins here. One that no text can be made of, as half of a pair of surrogates, is taken as it is written.
    fn text(&mut self) -> Option<Cow<'a, [u8]>> {
        let mut end = 1;
        let mut has_escapes = false;
        loop {
            match self.rest.get(end)? {
                b'"' => break,
                b'\\' => (has_escapes, end) = (true, end + 2),
                _ => end += 1,
            }
        }
        let (written, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        let plain = &written[1..end];
        if !has_escapes {
            return Some(Cow::Borrowed(plain));
        }
        let text = serde_json::from_slice::<String>(written);
        Some(text.map_or(Cow::Borrowed(plain), |text| Cow::Owned(text.into_bytes())))
    }

    fn literal(&mut self) -> &'a [u8] {
        let ends = |byte: &u8| {
            matches!(byte, b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"') || byte.is_ascii_whitespace()
        };
        let end = self.rest.iter().position(ends).unwrap_or(self.rest.len());
        let (literal, rest) = self.rest.split_at(end);
        self.rest = rest;
        literal
    }
}

/// With its length, so that no two lists of pieces have the same bytes.
fn write(bytes: &mut Vec<u8>, kind: u8, piece: &[u8]) {
    bytes.push(kind);
    bytes.extend_from_slice(&(piece.len() as u64).to_be_bytes());
    bytes.extend_from_slice(piece);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> [u8; 32] {
        fingerprint(body.as_bytes()).unwrap()
    }

    #[test]
    fn the_fingerprint_sees_the_request_and_not_its_layout_or_its_key() {
        let plain = of(r#"{"type":"EXECUTE","payload":{"a":[1,"x",null],"b":true}}"#);
        for same in [
            " { \"payload\" : {\"b\":true,\n\"a\":[1 ,\t\"x\",null]}, \"type\":\"EXECUTE\" }\r\n",
            r#"{"idempotency_key":"a","type":"EXECUTE","payload":{"a":[1,"x",null],"b":true}}"#,
            r#"{"type":"\u0045XECUTE","payload":{"\u0061":[1,"x",null],"b":true}}"#,
        ] {
            assert_eq!(plain, of(same), "{same}");
        }
        for other in [
            r#"{"type":"EXECUTE","payload":{"a":["x",1,null],"b":true}}"#,
            r#"{"type":"EXECUTE","payload":{"a":["1","x",null],"b":true}}"#,
            r#"{"type":"EXECUTE","payload":{"a":[1,"x"],"b":true}}"#,
            r#"{"type":"EXECUTE","payload":{"a":[1,"x",null],"b":true,"idempotency_key":"a"}}"#,
            r#"{"type":"EXECUTE","payload":{"a":[[1,"x",null]],"b":true}}"#,
            r#"{"type":"EXECUTE","payload":{"a":{"1":"x"},"b":true}}"#,
            r#"{"type":"EXECUTE"}"#,
        ] {
            assert_ne!(plain, of(other), "{other}");
        }
    }

    #[test]
    fn numbers_that_share_a_double_are_two_numbers() {
        let number = |number: &str| of(&format!(r#"{{"payload":{number}}}"#));
        assert_ne!(number("9007199254740992"), number("9007199254740993"));
        assert_ne!(number("1e999"), number("1e998"));
        assert_ne!(number("0.1"), number("0.10000000000000000001"));
        assert_eq!(number("12345678901234567890123"), number("12345678901234567890123"));
    }

    #[test]
    fn strings_are_told_apart_by_what_they_say() {
        let text = |text: &str| of(&format!(r#"{{"payload":{text}}}"#));
        assert_eq!(text(r#""\ud83d\ude00""#), text("\"😀\""));
        assert_ne!(text(r#""\ud800""#), text(r#""\ud801""#), "no text, but still two");
        assert_ne!(text(r#""a\"b""#), text(r#""a","b""#));
        assert_ne!(text(r#""""#), text("null"));
    }

    #[test]
    fn deep_nesting_costs_no_more_than_its_length() {
        let nested = |depth: usize, end: &str| {
            let (open, close) = ("{\"b\":1,\"a\":".repeat(depth), "}".repeat(depth));
            of(&format!("{open}{end}{close}"))
        };
        assert_ne!(nested(8_000, "1"), nested(8_000, "2"));
        assert_ne!(of(&format!("{{\"a\":{}{}}}", "[".repeat(40_000), "]".repeat(40_000))), nested(1, "1"));
    }

    #[test]
    fn what_is_no_object_has_no_fingerprint_and_causes_no_panic() {
        for body in ["", "1", "\"", "\"\\", "{", "}", "[}", "{\"a", "]]", "{}{}", "\\", "{\"a\":\"\\"] {
            let _ = fingerprint(body.as_bytes());
        }
        assert!(fingerprint(b"1").is_err() && fingerprint(b"{").is_err() && fingerprint(b"").is_err());
    }
}

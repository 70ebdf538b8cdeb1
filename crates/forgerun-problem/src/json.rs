//! Writing JSON: in the model's order, or canonically (RFC 8785).
//!
//! Both forms are one line and differ only in the order of members. Numbers and strings are written
//! the way ECMAScript does, as RFC 8785 asks, so the canonical form of an object read back is the
//! same bytes again. Writing can not fail: depth and numbers were checked when the object was
//! built.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

use crate::member::{Member, Node};
use crate::problem::Problem;
use crate::timestamp::TEXT_BYTES;

impl Problem {
    /// JSON in one line: standard members, job members, then extensions in their order.
    #[must_use]
    pub fn to_json(&self) -> String {
        JsonWriter::write(self, Order::AsBuilt)
    }

    /// Canonical JSON (RFC 8785): the same object always gives the same bytes.
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        JsonWriter::write(self, Order::Canonical)
    }

    /// SHA-256 of the canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_canonical_json().as_bytes())
    }
}

/// A SHA-256 digest; prints as lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of stored bytes, to compare with [`Problem::digest`].
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

/// Canonical JSON (RFC 8785) of any value, for those who digest more than problems.
///
/// Integers beyond ±2^53 are written as the double next to them, as the RFC has it. The depth of
/// `value` is the caller's care.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut writer = JsonWriter::with_capacity(estimate(Node::Value(value)), Order::Canonical);
    writer.node(Node::Value(value));
    writer.out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsBuilt,
    Canonical,
}

/// Members a typical object has with its nested ones on the way down; more costs another
/// allocation.
const MEMBERS_USUAL: usize = 32;

struct JsonWriter<'a> {
    out: String,
    /// Members of the objects being written, outermost first, so that sorting needs one allocation
    /// in all.
    open: Vec<Member<'a>>,
    order: Order,
}

impl<'a> JsonWriter<'a> {
    fn write(problem: &'a Problem, order: Order) -> String {
        let bytes: usize = problem.members().map(|(name, node)| name.len() + 4 + estimate(node)).sum();
        let mut writer = Self::with_capacity(bytes + 2, order);
        writer.object(problem.members());
        writer.out
    }

    fn with_capacity(bytes: usize, order: Order) -> Self {
        Self { out: String::with_capacity(bytes), open: Vec::with_capacity(MEMBERS_USUAL), order }
    }

    fn object(&mut self, members: impl Iterator<Item = Member<'a>>) {
        let start = self.open.len();
        self.open.extend(members);
        let end = self.open.len();
        if self.order == Order::Canonical {
            self.open[start..].sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
        }
        self.out.push('{');
        for index in start..end {
            let (name, node) = self.open[index];
            if index > start {
                self.out.push(',');
            }
            self.string(name);
            self.out.push(':');
            self.node(node);
        }
        self.out.push('}');
        self.open.truncate(start);
    }

    fn array(&mut self, nodes: impl Iterator<Item = Node<'a>>) {
        self.out.push('[');
        for (index, node) in nodes.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.node(node);
        }
        self.out.push(']');
    }

    fn node(&mut self, node: Node<'a>) {
        match node {
            Node::Text(text) => self.string(text),
            Node::Whole(number) => self.integer(number),
            Node::Flag(flag) => self.out.push_str(if flag { "true" } else { "false" }),
            Node::Time(time) => {
                self.out.push('"');
                self.out.push_str(time.text(&mut [0; TEXT_BYTES]));
                self.out.push('"');
            }
            Node::Items(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.object(item.members());
                }
                self.out.push(']');
            }
            Node::Value(value) => self.value(value),
        }
    }

    fn value(&mut self, value: &'a Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(flag) => self.node(Node::Flag(*flag)),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.string(text),
            Value::Array(values) => self.array(values.iter().map(Node::Value)),
            Value::Object(map) => {
                self.object(map.iter().map(|(name, value)| (name.as_str(), Node::Value(value))));
            }
        }
    }

    fn number(&mut self, number: &Number) {
        match number.as_u64() {
            Some(whole) if whole < 1 << 53 => self.integer(whole),
            _ => {
                let double = number.as_f64().expect("every JSON number has a double");
                self.out.push_str(ryu_js::Buffer::new().format(double));
            }
        }
    }

    fn integer(&mut self, number: u64) {
        write!(self.out, "{number}").expect("writing to a string can not fail");
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut written = 0;
        for (index, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.out.push_str(&text[written..index]);
            written = index + 1;
            match byte {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                0x08 => self.out.push_str("\\b"),
                0x0c => self.out.push_str("\\f"),
                _ => write!(self.out, "\\u{byte:04x}").expect("writing to a string can not fail"),
            }
        }
        self.out.push_str(&text[written..]);
        self.out.push('"');
    }
}

/// Roughly how many bytes a value takes, so that the output is allocated once. Escapes may exceed
/// it.
fn estimate(node: Node<'_>) -> usize {
    match node {
        Node::Text(text) => text.len() + 2,
        Node::Time(_) => TEXT_BYTES + 2,
        Node::Whole(_) | Node::Flag(_) => 20,
        Node::Items(items) => {
            let members = items.iter().flat_map(|item| item.members());
            2 + 3 * items.len() + members.map(|(name, node)| name.len() + 4 + estimate(node)).sum::<usize>()
        }
        Node::Value(value) => match value {
            Value::Null | Value::Bool(_) => 5,
            Value::Number(_) => 25,
            Value::String(text) => text.len() + 2,
            Value::Array(values) => {
                2 + values.iter().map(|value| 1 + estimate(Node::Value(value))).sum::<usize>()
            }
            Value::Object(map) => {
                let members = map.iter().map(|(name, value)| name.len() + 4 + estimate(Node::Value(value)));
                2 + members.sum::<usize>()
            }
        },
    }
}

/// The order of RFC 8785: by UTF-16 code units.
///
/// It differs from the order of the bytes in one way: characters beyond U+FFFF (first byte F0 and
/// up) are surrogates in UTF-16 and come before U+E000 to U+FFFF (first byte EE and EF).
fn utf16_order(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| match byte {
        0xF0.. => u16::from(byte) - 2,
        0xEE | 0xEF => u16::from(byte) + 5,
        _ => u16::from(byte),
    };
    match a.bytes().zip(b.bytes()).find(|(x, y)| x != y) {
        Some((x, y)) => rank(x).cmp(&rank(y)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_by_utf16_code_units() {
        let keys =
            ["", "a", "ab", "b", "\u{7ff}", "\u{d7ff}", "\u{10000}", "\u{10ffff}", "\u{e000}", "\u{ffff}"];
        for a in keys {
            for b in keys {
                assert_eq!(utf16_order(a, b), a.encode_utf16().cmp(b.encode_utf16()), "{a:?} {b:?}");
            }
        }
    }
}

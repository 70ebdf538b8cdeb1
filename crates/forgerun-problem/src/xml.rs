//! Writing `application/problem+xml`.
//!
//! Every member becomes an element of its name in the namespace `urn:ietf:rfc:7807`; an array
//! becomes an element with `<i>` children, an object one with other children. XML can carry less
//! than JSON, and what it can not carry is left out rather than disguised:
//!
//! - members whose name is no XML name (or has a colon), at any depth;
//! - `null`, empty arrays and empty objects, which would all look like an empty text;
//! - characters XML 1.0 does not allow, such as U+0001;
//! - the types of extension scalars: `30` and `"30"` read back as the same text.
//!
//! An object whose only member is called `i` would look like an array; its member is called `item`
//! instead.

use std::fmt::Write as _;

use serde_json::Value;

use crate::member::{Member, Node};
use crate::problem::Problem;
use crate::timestamp::TEXT_BYTES;
use crate::uri::UriRef;

/// The namespace of all elements. It kept the number of the first RFC.
pub const XML_NAMESPACE: &str = "urn:ietf:rfc:7807";

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

impl Problem {
    /// The problem as an XML document in UTF-8.
    #[must_use]
    pub fn to_xml(&self) -> String {
        self.xml_after(DECLARATION.to_owned())
    }

    /// As [`Problem::to_xml`], asking browsers to show the document through an XSLT stylesheet.
    #[must_use]
    pub fn to_xml_with_stylesheet(&self, stylesheet: &UriRef) -> String {
        let mut prolog = DECLARATION.to_owned();
        prolog.push_str("<?xml-stylesheet type=\"text/xsl\" href=\"");
        push_text(&mut prolog, stylesheet.as_str());
        prolog.push_str("\"?>\n");
        self.xml_after(prolog)
    }

    fn xml_after(&self, mut out: String) -> String {
        write!(out, "<problem xmlns=\"{XML_NAMESPACE}\">").expect("writing to a string can not fail");
        for (name, node) in self.members() {
            push_element(&mut out, name, node);
        }
        out.push_str("</problem>");
        out
    }
}

/// Whether something was written, or had to be left out.
#[derive(PartialEq, Eq)]
enum Written {
    Yes,
    No,
}

fn push_element(out: &mut String, name: &str, node: Node<'_>) -> Written {
    if !is_xml_name(name) {
        return Written::No;
    }
    let start = out.len();
    let _ = write!(out, "<{name}>");
    if push_content(out, node) == Written::No {
        out.truncate(start);
        return Written::No;
    }
    let _ = write!(out, "</{name}>");
    Written::Yes
}

fn push_content(out: &mut String, node: Node<'_>) -> Written {
    match node {
        Node::Text(text) => push_text(out, text),
        Node::Whole(number) => drop(write!(out, "{number}")),
        Node::Flag(flag) => drop(write!(out, "{flag}")),
        Node::Time(time) => out.push_str(time.text(&mut [0; TEXT_BYTES])),
        Node::Items(items) => {
            return push_array(out, items.iter(), |out, item| push_item(out, || item.members()));
        }
        Node::Value(value) => return push_value(out, value),
    }
    Written::Yes
}

fn push_value(out: &mut String, value: &Value) -> Written {
    match value {
        Value::Null => return Written::No,
        Value::Bool(flag) => drop(write!(out, "{flag}")),
        Value::Number(number) => match number.as_f64() {
            Some(double) if number.is_f64() => out.push_str(ryu_js::Buffer::new().format(double)),
            _ => drop(write!(out, "{number}")),
        },
        Value::String(text) => push_text(out, text),
        Value::Array(values) => {
            return push_array(out, values.iter(), |out, value| push_element(out, "i", Node::Value(value)));
        }
        Value::Object(map) => {
            let members = || map.iter().map(|(name, value)| (name.as_str(), Node::Value(value)));
            return push_object(out, members);
        }
    }
    Written::Yes
}

fn push_array<T>(
    out: &mut String,
    values: impl Iterator<Item = T>,
    mut push: impl FnMut(&mut String, T) -> Written,
) -> Written {
    let written = values.filter_map(|value| (push(out, value) == Written::Yes).then_some(())).count();
    if written > 0 { Written::Yes } else { Written::No }
}

fn push_item<'a, I: Iterator<Item = Member<'a>>>(out: &mut String, members: impl Fn() -> I) -> Written {
    out.push_str("<i>");
    push_object(out, members);
    out.push_str("</i>");
    Written::Yes
}

fn push_object<'a, I: Iterator<Item = Member<'a>>>(out: &mut String, members: impl Fn() -> I) -> Written {
    let start = out.len();
    let mut names = members().filter_map(|(name, node)| {
        let written = push_element(out, name, node);
        (written == Written::Yes).then_some(name)
    });
    let (first, more) = (names.next(), names.count() > 0);
    match first {
        None => Written::No,
        // A lone `i` is renamed, or the reader would take the object for an array.
        Some("i") if !more => {
            out.truncate(start);
            let lone = members().find(|(name, _)| *name == "i").expect("it was just written");
            push_element(out, "item", lone.1)
        }
        Some(_) => Written::Yes,
    }
}

/// Escapes what markup would misread, and leaves out what XML 1.0 does not allow.
fn push_text(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A raw carriage return would be read as a line feed.
            '\r' => out.push_str("&#13;"),
            _ if is_xml_char(c) => out.push(c),
            _ => {}
        }
    }
}

/// `Char` of XML 1.0, section 2.2. Rust's `char` already excludes surrogates.
pub(crate) fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{FFFD}' | '\u{10000}'..)
}

/// `Name` of XML 1.0, section 2.3, without colons, which namespaces keep for themselves.
pub(crate) fn is_xml_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(is_name_start) && chars.all(is_name_char)
}

fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}'
        | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn xml(name: &str, value: Value) -> String {
        let problem = Problem::untyped().extension(name, value).build().unwrap();
        let xml = problem.to_xml();
        let inner = xml.strip_prefix(DECLARATION).unwrap();
        let inner = inner.strip_prefix("<problem xmlns=\"urn:ietf:rfc:7807\">").unwrap();
        inner.strip_suffix("</problem>").unwrap().to_owned()
    }

    #[test]
    fn arrays_become_i_and_objects_become_names() {
        assert_eq!(xml("list", json!(["a", 1, [true]])), "<list><i>a</i><i>1</i><i><i>true</i></i></list>");
        assert_eq!(xml("map", json!({"one": 1, "i": 2})), "<map><one>1</one><i>2</i></map>");
    }

    #[test]
    fn an_object_with_the_lone_member_i_gets_it_renamed() {
        assert_eq!(xml("map", json!({"i": 1})), "<map><item>1</item></map>");
        assert_eq!(xml("map", json!({"i": 1, "not a name": 2})), "<map><item>1</item></map>");
        assert_eq!(
            xml("map", json!([{"i": [{"i": 2}]}])),
            "<map><i><item><i><item>2</item></i></item></i></map>"
        );
    }

    #[test]
    fn null_and_empty_containers_are_left_out_with_all_that_becomes_empty() {
        for empty in [json!(null), json!([]), json!({}), json!([[], {}]), json!({"inner": {"a b": 1}})] {
            assert_eq!(xml("gone", empty), "");
        }
        assert_eq!(xml("text", json!("")), "<text></text>");
    }

    #[test]
    fn names_xml_does_not_know_are_left_out() {
        for name in ["has space", "1st", "-dash", "", "a:b", "a<b", "*", "\u{d7}"] {
            assert_eq!(xml(name, json!(1)), "", "{name}");
        }
        for name in ["caf\u{e9}", "_x", "a-b.c", "i", "\u{10000}x"] {
            assert_eq!(xml(name, json!(1)), format!("<{name}>1</{name}>"));
        }
    }

    #[test]
    fn text_is_escaped_and_illegal_characters_are_left_out() {
        let escaped = xml("note", json!("<a>&\"']]>\r\n\u{1}\u{b}\u{fffe}\u{1f600}"));
        assert_eq!(escaped, "<note>&lt;a&gt;&amp;\"']]&gt;&#13;\n\u{1f600}</note>");
    }

    #[test]
    fn a_stylesheet_can_be_asked_for() {
        let xml = Problem::default().to_xml_with_stylesheet(&UriRef::new("/p.xsl?a&b").unwrap());
        let start = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<?xml-stylesheet type=\"text/xsl\" ";
        assert!(xml.starts_with(&format!("{start}href=\"/p.xsl?a&amp;b\"?>\n<problem ")), "{xml}");
    }
}

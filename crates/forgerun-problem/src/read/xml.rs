//! XML into members. Elements of other namespaces, attributes, comments and processing instructions
//! are passed over.

use std::borrow::Cow;

use quick_xml::events::{BytesDecl, BytesRef, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use serde_json::{Map, Value};

use super::assemble::{Scalars, assemble};
use super::{ReadError, Reader, Reading, Syntax, Warnings};
use crate::xml::{XML_NAMESPACE, is_xml_char};

pub(super) fn read(reader: &Reader, document: &[u8]) -> Result<Reading, ReadError> {
    let text = std::str::from_utf8(document).map_err(|_| ReadError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.chars().all(is_xml_char) {
        return Err(malformed("a character XML does not allow"));
    }
    let root = XmlParse { depth_max: reader.depth_max(), open: Vec::new(), root: None }.run(text)?;
    Ok(assemble(reader, root.into_members()?, Scalars::Text, Warnings::default()))
}

/// An element whose end has not been met, or the finished root.
struct Element {
    name: String,
    text: String,
    children: Vec<(String, Value)>,
}

impl Element {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), text: String::new(), children: Vec::new() }
    }

    /// Without children a text, with children called `i` only an array, otherwise an object.
    fn into_value(self) -> Result<Value, ReadError> {
        if self.children.is_empty() {
            return Ok(Value::String(self.text));
        }
        if self.children.iter().all(|(name, _)| name == "i") {
            return Ok(Value::Array(self.children.into_iter().map(|(_, value)| value).collect()));
        }
        Ok(Value::Object(self.into_members()?))
    }

    fn into_members(self) -> Result<Map<String, Value>, ReadError> {
        let mut members = Map::new();
        for (name, value) in self.children {
            if members.contains_key(&name) {
                return Err(ReadError::Duplicate { member: name });
            }
            members.insert(name, value);
        }
        Ok(members)
    }
}

struct XmlParse {
    depth_max: usize,
    open: Vec<Element>,
    root: Option<Element>,
}

impl XmlParse {
    fn run(mut self, text: &str) -> Result<Element, ReadError> {
        let mut xml = NsReader::from_str(text);
        xml.config_mut().enable_all_checks(true);
        loop {
            let (namespace, event) = xml.read_resolved_event().map_err(malformed)?;
            let ours = namespace == ResolveResult::Bound(Namespace(XML_NAMESPACE));
            match event {
                Event::Start(start) if ours => self.start(start.local_name().as_ref())?,
                Event::Empty(start) if ours => {
                    self.start(start.local_name().as_ref())?;
                    self.end()?;
                }
                Event::Start(_) | Event::Empty(_) if self.open.is_empty() => {
                    return Err(ReadError::NotAProblem);
                }
                Event::Start(start) => {
                    xml.read_to_end(start.name()).map_err(malformed)?;
                }
                Event::End(_) => self.end()?,
                Event::Text(text) => self.text(&text.xml10_content())?,
                Event::CData(text) => self.text(&text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let character = resolve(&reference)?;
                    self.text(character.encode_utf8(&mut [0; 4]))?;
                }
                Event::Decl(declaration) => check_encoding(&declaration)?,
                Event::DocType(_) => return Err(ReadError::DocumentType),
                Event::Empty(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        match self.root {
            Some(root) if self.open.is_empty() => Ok(root),
            _ => Err(malformed("the document ends too early")),
        }
    }

    fn start(&mut self, name: &str) -> Result<(), ReadError> {
        if self.open.is_empty() && (name != "problem" || self.root.is_some()) {
            return Err(ReadError::NotAProblem);
        }
        if self.open.len() > self.depth_max {
            return Err(ReadError::TooDeep { depth_max: self.depth_max });
        }
        self.open.push(Element::new(name));
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReadError> {
        let ended = self.open.pop().ok_or_else(|| malformed("an end without a start"))?;
        match self.open.last_mut() {
            Some(parent) => {
                let name = ended.name.clone();
                parent.children.push((name, ended.into_value()?));
            }
            None => self.root = Some(ended),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), ReadError> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim_ascii().is_empty() => {}
            None => return Err(malformed("text outside the root element")),
        }
        Ok(())
    }
}

/// A character reference or one of the five predefined entities; there can be no others without a
/// document type.
fn resolve(reference: &BytesRef<'_>) -> Result<char, ReadError> {
    if let Some(character) = reference.resolve_char_ref().map_err(malformed)? {
        return if is_xml_char(character) {
            Ok(character)
        } else {
            Err(malformed("a reference to an illegal character"))
        };
    }
    match reference.xml10_content().as_ref() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        name => Err(ReadError::UnknownEntity { name: name.to_owned() }),
    }
}

fn check_encoding(declaration: &BytesDecl<'_>) -> Result<(), ReadError> {
    let encoding = declaration.encoding().transpose().map_err(malformed)?;
    match encoding.map(Cow::into_owned) {
        Some(name) if !name.eq_ignore_ascii_case("utf-8") && !name.eq_ignore_ascii_case("us-ascii") => {
            Err(ReadError::NotUtf8)
        }
        _ => Ok(()),
    }
}

fn malformed(reason: impl ToString) -> ReadError {
    ReadError::Malformed { syntax: Syntax::Xml, reason: reason.to_string() }
}

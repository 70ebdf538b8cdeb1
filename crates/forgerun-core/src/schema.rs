//! JSON Schemas of job types, registered by a client.
//!
//! A client has one *index*, which names its schemas, and a record per schema with the text. The
//! index is small and suffices for lists, bounds and the choice of a version; a text is read only
//! to validate arguments. Validation happens outside: the rules do not parse JSON.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::ClientId;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaEntry {
    pub job_type: String,
    /// A number, or numbers with dots. Unique within the type.
    pub version: String,
    /// Address. Unique within the client.
    pub uri: String,
    pub created_at: Time,
}

impl SchemaEntry {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let mut out = Writer(&mut bytes);
        out.text(1, Some(&self.job_type));
        out.text(2, Some(&self.version));
        out.text(3, Some(&self.uri));
        out.time(4, Some(self.created_at));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<SchemaEntry, Corrupt> {
        let mut entry = SchemaEntry {
            job_type: String::new(),
            version: String::new(),
            uri: String::new(),
            created_at: Time::ZERO,
        };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => entry.job_type = field.text()?,
                2 => entry.version = field.text()?,
                3 => entry.uri = field.text()?,
                4 => entry.created_at = field.time()?,
                _ => {}
            }
        }
        Ok(entry)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaIndex {
    pub client: ClientId,
    pub revision: u64,
    /// By type, and within a type by version, the newest last.
    pub entries: Vec<SchemaEntry>,
}

impl SchemaIndex {
    pub const fn new(client: ClientId) -> SchemaIndex {
        SchemaIndex { client, revision: 0, entries: Vec::new() }
    }

    /// The versions of a type, the newest last.
    pub fn versions(&self, job_type: &str) -> impl DoubleEndedIterator<Item = &SchemaEntry> {
        self.entries.iter().filter(move |entry| entry.job_type == job_type)
    }

    pub fn latest(&self, job_type: &str) -> Option<&SchemaEntry> {
        self.versions(job_type).next_back()
    }

    pub fn find(&self, job_type: &str, version: &str) -> Option<&SchemaEntry> {
        self.versions(job_type).find(|entry| entry.version == version)
    }

    pub fn by_uri(&self, uri: &str) -> Option<&SchemaEntry> {
        self.entries.iter().find(|entry| entry.uri == uri)
    }

    pub(crate) fn insert(&mut self, entry: SchemaEntry) {
        let place = |known: &SchemaEntry| {
            known.job_type.cmp(&entry.job_type).then_with(|| by_precedence(&known.version, &entry.version))
        };
        let at = self.entries.partition_point(|known| place(known) == Ordering::Less);
        self.entries.insert(at, entry);
        self.revision += 1;
    }

    pub(crate) fn remove(&mut self, job_type: &str, version: &str) -> Option<SchemaEntry> {
        let is_it = |entry: &SchemaEntry| entry.job_type == job_type && entry.version == version;
        let at = self.entries.iter().position(is_it)?;
        self.revision += 1;
        Some(self.entries.remove(at))
    }
}

/// Compares two versions as Semantic Versioning does: numbers by value, and a pre-release
/// (`2.0.0-rc.1`) before its release. Shorter versions are padded with zeros; of `1` and `1.0` the
/// shorter text comes first.
pub fn by_precedence(one: &str, other: &str) -> Ordering {
    parts(one).cmp(&parts(other)).then_with(|| one.cmp(other))
}

/// The numbers of a version, whether it is a release, and its pre-release identifiers.
fn parts(version: &str) -> (Vec<Identifier<'_>>, bool, Vec<Identifier<'_>>) {
    let version = version.split('+').next().unwrap_or_default();
    let (core, pre) = version.split_once('-').map_or((version, None), |(core, pre)| (core, Some(pre)));
    let mut numbers: Vec<Identifier<'_>> = core.split('.').map(Identifier::of).collect();
    while numbers.last() == Some(&Identifier::Number("")) {
        numbers.pop();
    }
    let pre: Vec<Identifier<'_>> =
        pre.map(|pre| pre.split('.').map(Identifier::of).collect()).unwrap_or_default();
    // A release comes after its pre-releases.
    (numbers, pre.is_empty(), pre)
}

/// A part of a version: numbers sort before words.
#[derive(PartialEq, Eq)]
enum Identifier<'a> {
    /// Digits without leading zeros; the number may exceed any integer type.
    Number(&'a str),
    Word(&'a str),
}

impl<'a> Identifier<'a> {
    fn of(text: &'a str) -> Identifier<'a> {
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Identifier::Number(text.trim_start_matches('0')),
            false => Identifier::Word(text),
        }
    }
}

impl Ord for Identifier<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Identifier::Number(one), Identifier::Number(other)) => {
                one.len().cmp(&other.len()).then_with(|| one.cmp(other))
            }
            (Identifier::Number(_), Identifier::Word(_)) => Ordering::Less,
            (Identifier::Word(_), Identifier::Number(_)) => Ordering::Greater,
            (Identifier::Word(one), Identifier::Word(other)) => one.cmp(other),
        }
    }
}

impl PartialOrd for Identifier<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Stored for SchemaIndex {
    const KIND: RecordKind = RecordKind::SchemaIndex;

    fn key(&self) -> String {
        self.client.to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer(&mut bytes);
        out.number(1, self.revision);
        for entry in &self.entries {
            out.bytes(2, &entry.encode());
        }
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<SchemaIndex, Corrupt> {
        let mut index = SchemaIndex::new(key.parse().map_err(|_| Corrupt)?);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => index.revision = field.number()?,
                2 => index.entries.push(SchemaEntry::decode(field.bytes)?),
                _ => {}
            }
        }
        Ok(index)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaText {
    pub client: ClientId,
    pub job_type: String,
    pub version: String,
    pub text: Vec<u8>,
}

impl SchemaText {
    pub fn key_of(client: ClientId, job_type: &str, version: &str) -> String {
        // Neither a type nor a version has a slash.
        format!("{client}/{job_type}/{version}")
    }
}

impl Stored for SchemaText {
    const KIND: RecordKind = RecordKind::SchemaText;

    fn key(&self) -> String {
        SchemaText::key_of(self.client, &self.job_type, &self.version)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.text.len() + 8);
        Writer(&mut bytes).bytes(1, &self.text);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<SchemaText, Corrupt> {
        let mut parts = key.splitn(3, '/');
        let mut part = || parts.next().ok_or(Corrupt);
        let client = part()?.parse().map_err(|_| Corrupt)?;
        let (job_type, version) = (part()?.to_string(), part()?.to_string());
        let mut text = Vec::new();
        for field in Fields(bytes) {
            let field = field?;
            if field.tag == 1 {
                text = field.bytes.to_vec();
            }
        }
        Ok(SchemaText { client, job_type, version, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_as_they_were_written() {
        let client = ClientId::from_u128(7);
        let mut index = SchemaIndex::new(client);
        for version in ["2", "1"] {
            index.insert(SchemaEntry {
                job_type: "a.b".into(),
                version: version.into(),
                uri: format!("urn:x:{version}"),
                created_at: Time::from_millis(3),
            });
        }
        assert_eq!(SchemaIndex::of(&index.to_record(1)), Ok(index));
        let text =
            SchemaText { client, job_type: "a.b".into(), version: "1.0.0".into(), text: b"{}".to_vec() };
        assert_eq!(SchemaText::of(&text.to_record(1)), Ok(text));
        assert_eq!(SchemaIndex::decode("no client", &[]), Err(Corrupt));
        assert_eq!(SchemaText::decode("7", &[]), Err(Corrupt));
    }

    #[test]
    fn versions_have_the_order_of_semantic_versioning() {
        let in_order = [
            "0",
            "0.9",
            "1",
            "1.0.0",
            "1.2.0-alpha",
            "1.2.0-alpha.1",
            "1.2.0-alpha.beta",
            "1.2.0-rc.2",
            "1.2.0-rc.11",
            "1.2.0",
            "1.10.0",
            "2",
            "10",
            "99999999999999999999",
            "100000000000000000000",
        ];
        for (at, one) in in_order.iter().enumerate() {
            for (there, other) in in_order.iter().enumerate() {
                assert_eq!(by_precedence(one, other), at.cmp(&there), "{one} and {other}");
            }
        }
    }
}

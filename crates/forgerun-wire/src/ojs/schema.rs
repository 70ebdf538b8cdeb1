//! Schemas of OJS: what a client sends to register one, and how one is shown. SDKs name it by an address, published cases by type and version (D30).

use forgerun_core::catalog::Kind;
use forgerun_core::limits::{NAME_BYTES_MAX, SCHEMA_BYTES_MAX};
use forgerun_core::schema::SchemaEntry;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::envelope::is_job_type;
use super::members::{Members, ViolationList};
use crate::problem::RefusedRequest;
use crate::time;

/// Bytes of a version.
const VERSION_BYTES_MAX: usize = 64;

const BAD: Kind = Kind::MalformedRequest;

/// A schema that a client wants to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRequest {
    /// The type of the jobs.
    pub job_type: String,
    /// Which version.
    pub version: String,
    /// Its address.
    pub uri: String,
    /// The schema.
    pub text: Vec<u8>,
}

/// Reads the body of a registration that names everything.
pub fn read_schema(body: &[u8]) -> Result<SchemaRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let name = if members.has("job_type") { "job_type" } else { "type" };
    let job_type: Option<String> = violations.typed(BAD, name, members.get(name), "a job type");
    if members.get(name).is_none() {
        violations.add(BAD, name, "is required", "required");
    }
    if job_type.as_deref().is_some_and(|job_type| !is_job_type(job_type)) {
        violations.add(Kind::UnknownJobType, name, "must be a job type, such as email.send", "format");
    }
    let version = members.get("version").and_then(|value| version(value, &mut violations));
    if members.get("version").is_none() {
        violations.add(BAD, "version", "is required", "required");
    }
    let uri: Option<String> = violations.typed(BAD, "uri", members.get("uri"), "an address");
    let bad = |uri: &String| uri.is_empty() || uri.len() > NAME_BYTES_MAX || uri.contains(char::is_control);
    if uri.as_ref().is_some_and(bad) {
        let detail = format!("must have 1 to {NAME_BYTES_MAX} bytes and no control characters");
        violations.add(BAD, "uri", detail, "format");
    }
    let text = read_text(&members, &mut violations);
    let request = job_type.zip(version).zip(text).map(|((job_type, version), text)| SchemaRequest {
        uri: uri.unwrap_or_else(|| default_uri(&job_type, &version)),
        job_type,
        version,
        text,
    });
    violations.settle(request)
}

/// Reads the body of a registration whose path names type and version.
pub fn read_schema_of(
    job_type: &str,
    version: &str,
    body: &[u8],
) -> Result<SchemaRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    if !is_job_type(job_type) {
        violations.add(Kind::UnknownJobType, "type", "must be a job type, such as email.send", "format");
    }
    if !is_version(version) {
        violations.add(BAD, "version", VERSION_RULE, "format");
    }
    let text = read_text(&members, &mut violations);
    let request = text.map(|text| SchemaRequest {
        uri: default_uri(job_type, version),
        job_type: job_type.into(),
        version: version.into(),
        text,
    });
    violations.settle(request)
}

fn default_uri(job_type: &str, version: &str) -> String {
    format!("urn:ojs:schema:{job_type}:{version}")
}

/// A version is a text, or a whole number.
fn version(value: &RawValue, violations: &mut ViolationList) -> Option<String> {
    let version = match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => Some(text),
        Ok(Value::Number(number)) if number.is_u64() => Some(number.to_string()),
        _ => None,
    };
    let version = version.filter(|version| is_version(version));
    if version.is_none() {
        violations.add_value(BAD, "version", value, VERSION_RULE, "format");
    }
    version
}

const VERSION_RULE: &str =
    "must begin with a digit and have letters, digits, dots, hyphens and plus signs, 64 at most";

fn is_version(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    text.len() <= VERSION_BYTES_MAX
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

fn read_text(members: &Members<'_>, violations: &mut ViolationList) -> Option<Vec<u8>> {
    let Some(value) = members.get("schema") else {
        violations.add(BAD, "schema", "is required", "required");
        return None;
    };
    if value.get().len() > SCHEMA_BYTES_MAX {
        let detail = format!("must have at most {} KB", SCHEMA_BYTES_MAX / 1024);
        violations.add(Kind::JobPayloadTooLarge, "schema", detail, "maxLength");
    }
    Some(value.get().as_bytes().to_vec())
}

/// Who reads it: SDKs know versions as texts, published cases look for numbers where they sent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaReader {
    /// By address.
    Address,
    /// By type and version.
    Version,
}

/// A schema, with its text where that is known.
pub fn schema_view(entry: &SchemaEntry, text: Option<&[u8]>, reader: SchemaReader) -> Map<String, Value> {
    let number = entry.version.parse::<u64>().ok().filter(|_| reader == SchemaReader::Version);
    let version = number.map_or_else(|| Value::from(entry.version.as_str()), Value::from);
    let mut view = Map::new();
    view.insert("uri".into(), entry.uri.as_str().into());
    view.insert("type".into(), entry.job_type.as_str().into());
    view.insert("job_type".into(), entry.job_type.as_str().into());
    view.insert("version".into(), version);
    view.insert("created_at".into(), time::millis(entry.created_at).into());
    if let Some(text) = text {
        view.insert("schema".into(), serde_json::from_slice(text).unwrap_or_default());
    }
    view
}

/// The answer about one. By its address it is within `schema`, and its members beside; by its version, `schema` is the text itself.
pub fn schema_answer(entry: &SchemaEntry, text: &[u8], reader: SchemaReader) -> Value {
    let whole = schema_view(entry, Some(text), reader);
    if reader == SchemaReader::Version {
        return whole.into();
    }
    let mut answer = schema_view(entry, None, reader);
    answer.insert("schema".into(), whole.into());
    answer.into()
}

#[cfg(test)]
mod tests {
    use forgerun_core::time::Time;

    use super::*;

    fn pointers(body: &str) -> Vec<String> {
        let refused = read_schema(body.as_bytes()).unwrap_err();
        refused.violations.into_iter().map(|violation| violation.pointer).collect()
    }

    #[test]
    fn both_words_for_the_type_are_read_and_an_address_is_made_up() {
        let sdk = read_schema(br#"{"uri":"urn:x","type":"a.b","version":"1.0","schema":{"type":"array"}}"#);
        let spec = read_schema(br#"{"job_type":"a.b","version":"1.0","schema":{"type":"array"}}"#).unwrap();
        assert_eq!(spec.uri, "urn:ojs:schema:a.b:1.0");
        assert_eq!(SchemaRequest { uri: "urn:x".into(), ..spec.clone() }, sdk.unwrap());
        let number = read_schema_of("a.b", "1.0", br#"{"schema":{"type":"array"}}"#).unwrap();
        assert_eq!(number, spec);
    }

    #[test]
    fn everything_that_is_wrong_is_said() {
        assert_eq!(pointers("{}"), ["#/type", "#/version", "#/schema"]);
        for version in ["\"\"", "\"v1\"", "\"1/2\"", "-1", "1.5", "true"] {
            let body = format!(r#"{{"type":"a.b","version":{version},"schema":true}}"#);
            assert_eq!(pointers(&body), ["#/version"], "{version}");
        }
        assert_eq!(pointers(r#"{"type":"A B","version":"1","schema":{},"uri":""}"#), ["#/type", "#/uri"]);
        let large = format!(r#"{{"type":"a","version":"1","schema":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        assert_eq!(pointers(&large), ["#/schema"]);
        assert!(read_schema_of("A", "x", b"{}").is_err());
    }

    #[test]
    fn a_version_is_a_text_by_address_and_a_number_where_it_is_one() {
        let entry = SchemaEntry {
            job_type: "a.b".into(),
            version: "2".into(),
            uri: "urn:x".into(),
            created_at: Time::from_millis(0),
        };
        let by_address = schema_answer(&entry, b"{\"type\":\"array\"}", SchemaReader::Address);
        assert_eq!((&by_address["version"], &by_address["schema"]["version"]), (&"2".into(), &"2".into()));
        assert_eq!(by_address["schema"]["schema"]["type"], "array");
        let by_version = schema_answer(&entry, b"{\"type\":\"array\"}", SchemaReader::Version);
        assert_eq!((&by_version["version"], &by_version["schema"]["type"]), (&2.into(), &"array".into()));
    }
}

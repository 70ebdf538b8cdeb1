//! A JSON Schema that this server takes: valid, whole in itself, and cheap to judge by.
//!
//! A schema is a program that clients hand in and that runs with every job. So it must not fetch anything, must not lead in circles,
//! and what it unfolds to is bounded; patterns are matched by an engine that never goes back over its text.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::limits::{SCHEMA_NODES_MAX, SCHEMA_PATTERN_BYTES_MAX, SCHEMA_REFERENCES_DEEP_MAX};

/// A schema, ready to judge.
pub struct SchemaDocument {
    validator: Validator,
    /// How many places it has, each reference counted with what it leads to.
    n_nodes: usize,
    /// It speaks of an object where arguments are a list.
    about_object: bool,
}

/// Why something is no schema for this server: where, and what.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    /// A JSON pointer into the schema.
    pub pointer: String,
    /// What is the matter.
    pub detail: String,
}

impl Unfit {
    fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Unfit {
        Unfit { pointer: pointer.into(), detail: detail.into() }
    }
}

/// One thing that does not fit.
pub struct Misfit {
    /// A JSON pointer into the arguments.
    pub pointer: String,
    /// What is the matter, without the value.
    pub detail: String,
}

/// Misfits that are told of one job.
const MISFITS_MAX: usize = 10;

/// Bytes of what is told of one.
const DETAIL_BYTES_MAX: usize = 240;

impl SchemaDocument {
    /// Reads a schema.
    pub fn parse(text: &[u8]) -> Result<SchemaDocument, Unfit> {
        let schema: Value =
            serde_json::from_slice(text).map_err(|error| Unfit::new("", error.to_string()))?;
        if !schema.is_object() && !schema.is_boolean() {
            return Err(Unfit::new("", "must be an object, true or false"));
        }
        let n_nodes = SchemaWalk { root: &schema, following: Vec::new() }.count(&schema, "")?;
        let draft = draft_of(&schema)?;
        // Patterns that need going back (look-around, back references) are refused by this engine.
        let patterns = PatternOptions::regex().size_limit(SCHEMA_PATTERN_BYTES_MAX);
        let built =
            jsonschema::options().with_draft(draft).with_pattern_options(patterns).offline().build(&schema);
        let validator = built
            .map_err(|error| Unfit::new(error.instance_path().to_string(), shortened(&error.to_string())))?;
        let about_object = schema.get("type").is_some_and(|kind| kind == "object");
        Ok(SchemaDocument { validator, n_nodes, about_object })
    }

    /// How much work it is to judge arguments with so many values in so many bytes.
    pub fn work(&self, n_values: usize, n_bytes: usize) -> usize {
        self.n_nodes.saturating_mul(n_values.saturating_add(n_bytes / 16))
    }

    /// What of the arguments does not fit. SDKs send an object as a list of one; a schema of an object is then about that object.
    pub fn judge(&self, args: &Value) -> Vec<Misfit> {
        let (judged, at) = match args {
            Value::Array(list) if self.about_object && list.len() == 1 => (&list[0], "/0"),
            args => (args, ""),
        };
        let errors = self.validator.iter_errors(judged).take(MISFITS_MAX);
        let misfit = |error: jsonschema::ValidationError<'_>| Misfit {
            pointer: format!("{at}{}", error.instance_path()),
            detail: shortened(&error.masked().to_string()),
        };
        errors.map(misfit).collect()
    }
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(DETAIL_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Which edition of JSON Schema it is written in. Without a word it is 2020-12, or 7 if only that fits: published schemas list the
/// items of a list in the older way.
fn draft_of(schema: &Value) -> Result<Draft, Unfit> {
    let known = [
        (Draft::Draft202012, "json-schema.org/draft/2020-12/schema"),
        (Draft::Draft201909, "json-schema.org/draft/2019-09/schema"),
        (Draft::Draft7, "json-schema.org/draft-07/schema"),
        (Draft::Draft6, "json-schema.org/draft-06/schema"),
        (Draft::Draft4, "json-schema.org/draft-04/schema"),
    ];
    let is_valid = |draft: Draft| jsonschema::options().with_draft(draft).offline().build(schema).is_ok();
    match schema.get("$schema") {
        None if !is_valid(Draft::Draft202012) && is_valid(Draft::Draft7) => Ok(Draft::Draft7),
        None => Ok(Draft::Draft202012),
        Some(named) => {
            let named = named.as_str().unwrap_or_default().trim_end_matches('#');
            let bare = named.strip_prefix("https://").or(named.strip_prefix("http://")).unwrap_or_default();
            let found = known.into_iter().find(|(_, name)| *name == bare).map(|(draft, _)| draft);
            found.ok_or_else(|| {
                Unfit::new("/$schema", "must be an edition of JSON Schema from draft 4 to 2020-12")
            })
        }
    }
}

/// Counts the places of a schema.
struct SchemaWalk<'a> {
    root: &'a Value,
    /// References that lead to where the walk is.
    following: Vec<&'a str>,
}

/// What is in there is data, and no schema.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// Keywords whose meaning depends on more than this document.
const DYNAMIC: [&str; 4] = ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

impl<'a> SchemaWalk<'a> {
    fn count(&mut self, at: &'a Value, pointer: &str) -> Result<usize, Unfit> {
        let mut n = 1;
        match at {
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    n += self.count(value, &format!("{pointer}/{index}"))?;
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    let inside = format!("{pointer}/{name}");
                    n += match (name.as_str(), value) {
                        ("$ref", Value::String(target)) => self.follow(target, &inside)?,
                        (name, _) if DYNAMIC.contains(&name) => {
                            return Err(Unfit::new(inside, "is not supported"));
                        }
                        ("$id" | "id", Value::String(_)) if !pointer.is_empty() && name != "id" => {
                            return Err(Unfit::new(inside, "is supported at the top only"));
                        }
                        (name, _) if DATA.contains(&name) => 1,
                        _ => self.count(value, &inside)?,
                    };
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if n > SCHEMA_NODES_MAX {
            let detail = format!("unfolds to more than {SCHEMA_NODES_MAX} places");
            return Err(Unfit::new(pointer, detail));
        }
        Ok(n)
    }

    /// Counts what a reference leads to.
    fn follow(&mut self, target: &'a str, pointer: &str) -> Result<usize, Unfit> {
        let Some(path) = target.strip_prefix('#').filter(|path| path.is_empty() || path.starts_with('/'))
        else {
            return Err(Unfit::new(pointer, "must lead to a place in this schema, such as #/$defs/name"));
        };
        if self.following.contains(&path) || path.is_empty() {
            return Err(Unfit::new(pointer, "leads in a circle"));
        }
        if self.following.len() >= SCHEMA_REFERENCES_DEEP_MAX {
            let detail = format!("follows more than {SCHEMA_REFERENCES_DEEP_MAX} references");
            return Err(Unfit::new(pointer, detail));
        }
        let Some(found) = self.root.pointer(path) else {
            return Err(Unfit::new(pointer, "leads to nothing"));
        };
        self.following.push(path);
        let n = self.count(found, path);
        self.following.pop();
        n
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(schema: &Value) -> SchemaDocument {
        SchemaDocument::parse(schema.to_string().as_bytes())
            .unwrap_or_else(|unfit| panic!("{unfit:?} in {schema}"))
    }

    fn misfits(schema: &Value, args: &Value) -> Vec<String> {
        document(schema).judge(args).into_iter().map(|misfit| misfit.pointer).collect()
    }

    #[test]
    fn arguments_are_judged_by_place_and_without_being_repeated() {
        let schema = json!({"type": "array", "prefixItems": [{"type": "object", "required": ["to"],
            "properties": {"to": {"type": "string", "pattern": "^[a-z]+@", "maxLength": 9}}}]});
        assert_eq!(misfits(&schema, &json!([{"to": "a@b"}])), [""; 0]);
        assert_eq!(misfits(&schema, &json!([{"to": 7}])), ["/0/to"]);
        assert_eq!(misfits(&schema, &json!({})), [""]);
        let told = document(&schema).judge(&json!([{"to": "SECRET VALUE"}]));
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|misfit| !misfit.detail.contains("SECRET")), "{}", told[0].detail);
    }

    #[test]
    fn a_schema_of_an_object_is_about_the_one_object_of_a_list() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
        assert_eq!(misfits(&schema, &json!([{"a": 1}])), [""; 0]);
        assert_eq!(misfits(&schema, &json!({"a": 1})), [""; 0]);
        assert_eq!(misfits(&schema, &json!([{"a": "x"}])), ["/0/a"]);
        assert_eq!(misfits(&schema, &json!([{"a": 1}, 2])), [""]);
    }

    #[test]
    fn the_edition_is_the_named_one_or_the_one_that_fits() {
        let old = json!({"type": "array", "items": [{"type": "string"}], "minItems": 1});
        assert_eq!(misfits(&old, &json!([7])), ["/0"]);
        let named =
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]});
        assert_eq!(misfits(&named, &json!([7])), ["/0"]);
        let unknown = SchemaDocument::parse(br#"{"$schema":"https://example.com/mine"}"#).err().unwrap();
        assert_eq!(unknown.pointer, "/$schema");
    }

    #[test]
    fn what_is_no_schema_or_too_much_of_one_is_refused() {
        let chain: serde_json::Map<String, Value> = (0..40)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"allOf": [next, next]}))
            })
            .chain([("d40".to_owned(), json!({}))])
            .collect();
        let long: serde_json::Map<String, Value> = (0..2000)
            .map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)})))
            .chain([("d2000".to_owned(), json!({}))])
            .collect();
        let wide: Vec<Value> = (0..SCHEMA_NODES_MAX).map(|n| json!({"minimum": n})).collect();
        for (schema, pointer) in [
            (json!(7), ""),
            (json!({"type": "no such type"}), "/type"),
            (json!({"$ref": "#"}), "/$ref"),
            (json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}), "/$defs/a/$ref"),
            (json!({"items": {"$ref": "https://example.com/x"}}), "/items/$ref"),
            (json!({"items": {"$ref": "file:///etc/passwd"}}), "/items/$ref"),
            (json!({"$ref": "#/$defs/none"}), "/$ref"),
            (json!({"items": {"$dynamicRef": "#a"}}), "/items/$dynamicRef"),
            (json!({"items": {"$id": "https://example.com/x"}}), "/items/$id"),
        ] {
            let unfit = SchemaDocument::parse(schema.to_string().as_bytes()).err();
            assert_eq!(unfit.map(|unfit| unfit.pointer).as_deref(), Some(pointer), "{schema}");
        }
        let patterns = json!({"pattern": "(a)\\1"});
        for schema in [json!({"$defs": chain}), json!({"$defs": long}), json!({"allOf": wide}), patterns] {
            assert!(SchemaDocument::parse(schema.to_string().as_bytes()).is_err());
        }
        assert!(SchemaDocument::parse(b"{").is_err());
    }

    #[test]
    fn what_looks_like_a_reference_in_data_is_data() {
        let schema =
            json!({"enum": [{"$ref": "https://example.com"}], "properties": {"$ref": {"type": "string"}}});
        assert_eq!(misfits(&schema, &json!({"$ref": "https://example.com"})), [""; 0]);
        let shared = json!({"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}});
        assert_eq!(misfits(&shared, &json!([1, "x"])), ["/1"]);
    }
}

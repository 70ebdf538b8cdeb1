//! JSON Schemas that the server accepts: valid, self-contained, and cheap to validate with.
//!
//! A schema is a program of a client that runs with every job. So it must not fetch documents or
//! refer to itself, and its expanded size is bounded; patterns are matched by an engine without
//! backtracking.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::limits::{
    MISFITS_WORK_MAX, PATTERN_BYTES, PATTERN_BYTES_MAX, PATTERN_PLACES_MAX, PATTERN_STEPS_PER_WORK,
    PATTERNS_BYTES_MAX,
};
use crate::walk::{SchemaSize, measure};

/// A compiled schema.
pub struct SchemaDocument {
    validator: Validator,
    /// Places and values to compare with, each reference counted with its target.
    weight: usize,
    /// Pattern places that one value can meet: worst case of matching steps per byte.
    pattern_places: usize,
    /// Rough bound on its memory, in bytes.
    n_bytes: usize,
    /// Whether it describes an object, although arguments are a list.
    about_object: bool,
}

/// Why a schema was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidSchema {
    /// JSON pointer into the schema.
    pub pointer: String,
    pub detail: String,
}

impl InvalidSchema {
    pub(crate) fn new(pointer: impl Into<String>, detail: impl Into<String>) -> InvalidSchema {
        InvalidSchema { pointer: pointer.into(), detail: detail.into() }
    }
}

/// A violation of a schema.
pub struct Misfit {
    /// JSON pointer into the arguments.
    pub pointer: String,
    /// The violation, without the value.
    pub detail: String,
}

/// Violations reported per job.
const MISFITS_MAX: usize = 10;

/// Bytes of a reported violation.
const DETAIL_BYTES_MAX: usize = 240;

impl SchemaDocument {
    pub fn parse(text: &[u8]) -> Result<SchemaDocument, InvalidSchema> {
        let schema: Value =
            serde_json::from_slice(text).map_err(|error| InvalidSchema::new("", error.to_string()))?;
        if !schema.is_object() && !schema.is_boolean() {
            return Err(InvalidSchema::new("", "must be an object, true or false"));
        }
        let size = measure(&schema)?;
        let draft = draft_of(&schema)?;
        let bytes_max = PATTERNS_BYTES_MAX / size.n_patterns.max(1);
        let (validator, pattern_bytes) = match compiled(&schema, draft, PATTERN_BYTES) {
            Ok(validator) => (validator, PATTERN_BYTES),
            Err(_) => {
                let larger = bytes_max.min(PATTERN_BYTES_MAX);
                (compiled(&schema, draft, larger)?, larger)
            }
        };
        // A compiled place has some hundred bytes, and a pattern as much again for its cache.
        let n_bytes = text.len() + 512 * size.weight + 2 * size.n_patterns * pattern_bytes;
        let about_object = schema.get("type").is_some_and(|kind| kind == "object");
        let SchemaSize { weight, pattern_places, .. } = size;
        Ok(SchemaDocument { validator, weight, pattern_places, n_bytes, about_object })
    }

    /// Rough bound on its memory, in bytes.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Worst case cost of validating arguments with so many values and bytes.
    pub fn work(&self, n_values: usize, n_bytes: usize) -> usize {
        let visits = self.weight.saturating_mul(n_values.saturating_add(n_bytes / 16));
        let steps = self.pattern_places.saturating_mul(n_bytes);
        visits.saturating_add(steps / PATTERN_STEPS_PER_WORK)
    }

    /// Why it cannot be registered, although stored schemas like it are still used: its patterns
    /// could be matched against short texts only.
    pub fn too_costly(&self) -> Option<String> {
        let places = self.pattern_places;
        (places > PATTERN_PLACES_MAX).then(|| {
            format!(
                "has patterns with {places} places, repetitions such as {{100}} written out; at most \
                 {PATTERN_PLACES_MAX} are accepted; use maxLength to bound a text"
            )
        })
    }

    /// The violations in the arguments. SDKs send an object as a list of one; a schema of an object
    /// applies to that object.
    ///
    /// All violations are collected before the first is returned, so beyond a bound of work (see
    /// [`SchemaDocument::work`]) only their existence is reported.
    pub fn judge(&self, args: &Value, work: usize) -> Vec<Misfit> {
        let (judged, at) = match args {
            Value::Array(list) if self.about_object && list.len() == 1 => (&list[0], "/0"),
            args => (args, ""),
        };
        if self.validator.is_valid(judged) {
            return Vec::new();
        }
        if work > MISFITS_WORK_MAX {
            let detail = "do not fit the schema of this type; there are too many values to say where";
            return vec![Misfit { pointer: at.to_owned(), detail: detail.to_owned() }];
        }
        let errors = self.validator.iter_errors(judged).take(MISFITS_MAX);
        let misfit = |error: jsonschema::ValidationError<'_>| Misfit {
            pointer: format!("{at}{}", error.instance_path()),
            detail: shortened(&error.masked().to_string()),
        };
        errors.map(misfit).collect()
    }
}

/// Compiles a schema, with a bound on the bytes of each pattern. The engine refuses patterns that
/// need backtracking (look-around, back references).
fn compiled(schema: &Value, draft: Draft, pattern_bytes_max: usize) -> Result<Validator, InvalidSchema> {
    let patterns = PatternOptions::regex().size_limit(pattern_bytes_max).dfa_size_limit(pattern_bytes_max);
    let built =
        jsonschema::options().with_draft(draft).with_pattern_options(patterns).offline().build(schema);
    built
        .map_err(|error| InvalidSchema::new(error.instance_path().to_string(), shortened(&error.to_string())))
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(DETAIL_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The JSON Schema edition. Without `$schema` it is 2020-12, or 7 if only that is valid: published
/// schemas use the older form for the items of a list. Nothing is compiled for this.
fn draft_of(schema: &Value) -> Result<Draft, InvalidSchema> {
    let known = [
        (Draft::Draft202012, "json-schema.org/draft/2020-12/schema"),
        (Draft::Draft201909, "json-schema.org/draft/2019-09/schema"),
        (Draft::Draft7, "json-schema.org/draft-07/schema"),
        (Draft::Draft6, "json-schema.org/draft-06/schema"),
        (Draft::Draft4, "json-schema.org/draft-04/schema"),
    ];
    let only_old_fits =
        || !jsonschema::draft202012::meta::is_valid(schema) && jsonschema::draft7::meta::is_valid(schema);
    match schema.get("$schema") {
        None if only_old_fits() => Ok(Draft::Draft7),
        None => Ok(Draft::Draft202012),
        Some(named) => {
            let named = named.as_str().unwrap_or_default().trim_end_matches('#');
            let bare = named.strip_prefix("https://").or(named.strip_prefix("http://")).unwrap_or_default();
            let found = known.into_iter().find(|(_, name)| *name == bare).map(|(draft, _)| draft);
            found.ok_or_else(|| {
                InvalidSchema::new("/$schema", "must be an edition of JSON Schema from draft 4 to 2020-12")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::{NODES_MAX, PATTERNS_MAX, WORK_MAX};

    fn document(schema: &Value) -> SchemaDocument {
        SchemaDocument::parse(schema.to_string().as_bytes())
            .unwrap_or_else(|unfit| panic!("{unfit:?} in {schema}"))
    }

    fn misfits(schema: &Value, args: &Value) -> Vec<String> {
        document(schema).judge(args, 1).into_iter().map(|misfit| misfit.pointer).collect()
    }

    #[test]
    fn arguments_are_judged_by_place_and_without_being_repeated() {
        let schema = json!({"type": "array", "prefixItems": [{"type": "object", "required": ["to"],
            "properties": {"to": {"type": "string", "pattern": "^[a-z]+@", "maxLength": 9}}}]});
        assert_eq!(misfits(&schema, &json!([{"to": "a@b"}])), [""; 0]);
        assert_eq!(misfits(&schema, &json!([{"to": 7}])), ["/0/to"]);
        assert_eq!(misfits(&schema, &json!({})), [""]);
        let told = document(&schema).judge(&json!([{"to": "SECRET VALUE"}]), 1);
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
        let wide: Vec<Value> = (0..NODES_MAX).map(|n| json!({"minimum": n})).collect();
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
            (json!({"items": {"id": "https://example.com/x"}}), "/items/id"),
            (json!({"$ref": "#/$defs/a%62", "$defs": {"ab": true}}), "/$ref"),
            (json!({"$ref": "#/default/a", "default": {"$id": "x:y", "a": {}}}), "/$ref"),
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

    /// Each of these refers to the next twice.
    fn doubling(of: &str) -> Value {
        let next = |n: u32| json!({"$ref": format!("#/$defs/{of}/d{n}")});
        let mut links: serde_json::Map<String, Value> =
            (0..30).map(|n| (format!("d{n}"), json!({"allOf": [next(n + 1), next(n + 1)]}))).collect();
        links.insert("d30".to_owned(), json!({}));
        json!(links)
    }

    #[test]
    fn a_property_with_the_name_of_a_keyword_for_data_hides_nothing() {
        for name in ["default", "const", "enum", "examples"] {
            for keyword in ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"] {
                let twice = json!([{"$ref": "#/$defs/x/d0"}, {"$ref": "#/$defs/x/d0"}]);
                let mut schema = json!({keyword: {name: {"allOf": twice}}});
                schema["$defs"]["x"] = doubling("x");
                assert!(SchemaDocument::parse(schema.to_string().as_bytes()).is_err(), "{keyword} {name}");
            }
            let mut schema = json!({"properties": {name: {"type": "string", "minLength": 2}}});
            assert_eq!(misfits(&schema, &json!({name: "x"})), [format!("/{name}")]);
            schema["properties"][name] = json!({"$ref": "https://example.com"});
            assert!(SchemaDocument::parse(schema.to_string().as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn unevaluated_members_within_each_other_are_bounded() {
        let nested = |n: usize| {
            (0..n).fold(json!({}), |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": false}))
        };
        assert!(SchemaDocument::parse(nested(3).to_string().as_bytes()).is_ok());
        assert!(SchemaDocument::parse(nested(20).to_string().as_bytes()).is_err());
    }

    #[test]
    fn values_to_compare_with_count_as_work() {
        let list: Vec<usize> = (0..10_000).collect();
        let document = document(&json!({"items": {"enum": list}}));
        assert!(document.work(1, 0) >= 10_000);
        assert!(document.work(500_000, 1_000_000) > WORK_MAX);
    }

    #[test]
    fn places_of_patterns_count_as_work_for_each_byte() {
        let costly = document(&json!({"properties": {"a": {"pattern": "[ab]{9000}[^ab]"}}}));
        assert!(costly.work(1, 120_000) > WORK_MAX);
        assert!(costly.too_costly().is_some());
        // A value meets one of the properties, whatever their number, and a definition where it is
        // referred to.
        let short = json!({"pattern": "^[a-z0-9-]{36}$"});
        let fields: serde_json::Map<String, Value> =
            (0..50).map(|n| (format!("f{n}"), json!({"$ref": "#/$defs/id"}))).collect();
        let common = document(&json!({"$defs": {"id": short}, "properties": fields}));
        assert!(common.too_costly().is_none());
        assert!(common.work(2_000, 100_000) < WORK_MAX);
        let stacked = document(&json!({"allOf": vec![short; 60]}));
        assert!(stacked.too_costly().is_some());
    }

    #[test]
    fn of_much_work_only_the_fact_is_told_that_something_does_not_fit() {
        let schema = json!({"items": {"allOf": vec![json!({"type": "string"}); 600]}});
        let (document, args) = (document(&schema), json!(vec![1; 24_000]));
        let told = document.judge(&args, document.work(24_001, 48_000));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].pointer, "");
        let few = json!([1]);
        assert_eq!(document.judge(&few, document.work(2, 3)).len(), MISFITS_MAX);
    }

    #[test]
    fn patterns_are_bounded_in_number_and_together() {
        let with = |n: usize, pattern: &dyn Fn(usize) -> String| {
            let each: Vec<Value> = (0..n).map(|n| json!({"pattern": pattern(n)})).collect();
            SchemaDocument::parse(json!({"allOf": each}).to_string().as_bytes())
        };
        let plain = |n: usize| format!("^a{n}$");
        assert!(with(PATTERNS_MAX, &plain).is_ok());
        assert!(with(PATTERNS_MAX + 1, &plain).is_err());
        assert!(with(PATTERNS_MAX + 1, &|_| "^same$".to_owned()).is_ok());
        // Each takes some hundred kilobytes: one may, many may not.
        let large = |n: usize| format!("^x{n}[a-z]{{9000}}$");
        assert!(with(1, &large).is_ok());
        assert!(with(PATTERNS_MAX, &large).is_err());
    }
}

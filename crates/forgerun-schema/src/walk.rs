//! Measures a schema before it is compiled: expanded size, validation cost, patterns.
//!
//! The walk goes by position, as JSON Schema does: below `properties` and similar keywords names
//! are only names, and below `enum` and similar ones there is data. Anything that would lead the
//! validator elsewhere (other documents, addresses of parts, cycles) is refused.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::document::InvalidSchema;
use crate::limits::{NODES_MAX, PATTERNS_MAX, REFERENCES_DEEP_MAX, UNEVALUATED_FACTOR, WEIGHT_MAX};
use crate::pattern::places;

pub(crate) struct SchemaSize {
    /// Places and compared values, each reference counted with its target.
    pub(crate) weight: usize,
    /// Distinct patterns; each is compiled once.
    pub(crate) n_patterns: usize,
    /// Pattern places that one value can meet.
    pub(crate) pattern_places: usize,
}

/// Measures a schema, or returns why it is refused.
pub(crate) fn measure(schema: &Value) -> Result<SchemaSize, InvalidSchema> {
    let mut walk = SchemaWalk {
        root: schema,
        following: Vec::new(),
        factor: 1,
        n_nodes: 0,
        weight: 0,
        patterns: HashSet::new(),
    };
    let pattern_places = walk.schema(schema, "")?;
    Ok(SchemaSize { weight: walk.weight, n_patterns: walk.patterns.len(), pattern_places })
}

struct SchemaWalk<'a> {
    root: &'a Value,
    /// References that lead to the current place.
    following: Vec<&'a str>,
    /// How often the validator visits this place for one value.
    factor: usize,
    n_nodes: usize,
    weight: usize,
    patterns: HashSet<&'a str>,
}

/// Their members are schemas, whatever their names.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Their content is data that every value is compared with.
const COMPARED: [&str; 2] = ["const", "enum"];

/// Their content is data that is ignored.
const IGNORED: [&str; 2] = ["default", "examples"];

/// Keywords whose meaning depends on more than this document.
const DYNAMIC: [&str; 4] = ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

/// Keywords for which the validator evaluates the other parts of the schema a second time.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Pattern places that one value can meet below a place of the schema.
type PatternPlaces = usize;

impl<'a> SchemaWalk<'a> {
    /// A schema, a list of schemas, or a plain value of a keyword.
    fn schema(&mut self, at: &'a Value, pointer: &str) -> Result<PatternPlaces, InvalidSchema> {
        self.place(pointer)?;
        let mut places: PatternPlaces = 0;
        match at {
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    places = places.saturating_add(self.schema(value, &format!("{pointer}/{index}"))?);
                }
            }
            Value::Object(members) => {
                let factor = self.factor;
                if UNEVALUATED.iter().any(|keyword| members.contains_key(*keyword)) {
                    self.factor = factor.saturating_mul(UNEVALUATED_FACTOR);
                }
                for (keyword, value) in members {
                    places = places.saturating_add(self.keyword(keyword, value, pointer)?);
                }
                self.factor = factor;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(places)
    }

    fn keyword(
        &mut self,
        keyword: &'a str,
        value: &'a Value,
        pointer: &str,
    ) -> Result<PatternPlaces, InvalidSchema> {
        let inside = format!("{pointer}/{keyword}");
        match (keyword, value) {
            ("$ref", Value::String(target)) => self.follow(target, &inside),
            ("$id" | "id", Value::String(_)) if !pointer.is_empty() => {
                Err(InvalidSchema::new(inside, "is supported at the top only"))
            }
            ("pattern", Value::String(pattern)) => self.pattern(pattern, &inside),
            (keyword, Value::Object(members)) if NAMED.contains(&keyword) => {
                self.named(keyword, members, &inside)
            }
            (keyword, _) if DYNAMIC.contains(&keyword) => Err(InvalidSchema::new(inside, "is not supported")),
            (keyword, _) if COMPARED.contains(&keyword) => self.data(value, &inside).map(|()| 0),
            (keyword, _) if IGNORED.contains(&keyword) => self.place(&inside).map(|()| 0),
            _ => self.schema(value, &inside),
        }
    }

    /// Schemas by name. A value has one name, so it meets one of the `properties`; definitions
    /// count where they are referred to.
    fn named(
        &mut self,
        keyword: &str,
        members: &'a Map<String, Value>,
        pointer: &str,
    ) -> Result<PatternPlaces, InvalidSchema> {
        self.place(pointer)?;
        let (mut together, mut largest): (PatternPlaces, PatternPlaces) = (0, 0);
        for (name, value) in members {
            let inside = format!("{pointer}/{name}");
            if keyword == "patternProperties" {
                together = together.saturating_add(self.pattern(name, &inside)?);
            }
            let places = self.schema(value, &inside)?;
            together = together.saturating_add(places);
            largest = largest.max(places);
        }
        Ok(match keyword {
            "properties" => largest,
            "$defs" | "definitions" => 0,
            _ => together,
        })
    }

    /// Counts the target of a reference.
    fn follow(&mut self, target: &'a str, pointer: &str) -> Result<PatternPlaces, InvalidSchema> {
        // Escapes would allow two spellings of one place.
        let path = target.strip_prefix('#').filter(|path| path.is_empty() || path.starts_with('/'));
        let Some(path) = path.filter(|path| !path.contains('%')) else {
            return Err(InvalidSchema::new(
                pointer,
                "must lead to a place in this schema, such as #/$defs/name",
            ));
        };
        if self.following.contains(&path) || path.is_empty() {
            return Err(InvalidSchema::new(pointer, "leads in a circle"));
        }
        if self.following.len() >= REFERENCES_DEEP_MAX {
            let detail = format!("follows more than {REFERENCES_DEEP_MAX} references");
            return Err(InvalidSchema::new(pointer, detail));
        }
        let found = self.root.pointer(path).ok_or_else(|| InvalidSchema::new(pointer, "leads to nothing"))?;
        if crosses_id(self.root, path) {
            return Err(InvalidSchema::new(pointer, "leads into a part with an address of its own"));
        }
        self.following.push(path);
        let places = self.schema(found, path)?;
        self.following.pop();
        Ok(places)
    }

    fn pattern(&mut self, pattern: &'a str, pointer: &str) -> Result<PatternPlaces, InvalidSchema> {
        self.patterns.insert(pattern);
        if self.patterns.len() > PATTERNS_MAX {
            let detail = format!("is one of more than {PATTERNS_MAX} patterns");
            return Err(InvalidSchema::new(pointer, detail));
        }
        self.place(pointer)?;
        Ok(places(pattern).saturating_mul(self.factor))
    }

    fn place(&mut self, pointer: &str) -> Result<(), InvalidSchema> {
        self.n_nodes = self.n_nodes.saturating_add(self.factor);
        if self.n_nodes > NODES_MAX {
            let detail = format!("unfolds to more than {NODES_MAX} places");
            return Err(InvalidSchema::new(pointer, detail));
        }
        self.weigh(1, pointer)
    }

    fn data(&mut self, value: &Value, pointer: &str) -> Result<(), InvalidSchema> {
        self.place(pointer)?;
        self.weigh(values(value), pointer)
    }

    fn weigh(&mut self, n: usize, pointer: &str) -> Result<(), InvalidSchema> {
        self.weight = self.weight.saturating_add(self.factor.saturating_mul(n));
        if self.weight > WEIGHT_MAX {
            let detail = format!("unfolds to more than {WEIGHT_MAX} values to compare with");
            return Err(InvalidSchema::new(pointer, detail));
        }
        Ok(())
    }
}

/// Whether an ancestor, the root excepted, has an address: below it the validator resolves
/// references differently.
fn crosses_id(root: &Value, path: &str) -> bool {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let has_id = |at: &Value| ["$id", "id"].iter().any(|name| at.get(*name).is_some_and(Value::is_string));
    ends.filter_map(|end| root.pointer(&path[..end])).any(has_id)
}

/// Number of values within a value, itself included.
pub fn values(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(values).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

//! The names in a JSON text, found in one walk: those of the object itself, and the first that an object anywhere in it has twice.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Members whose content is the caller's own, in any dialect and at any depth.
const OPAQUE: &[&str] = &["payload", "parameters", "args", "meta", "metadata", "result", "details", "state"];

/// What the walk found.
#[derive(Default)]
pub(super) struct BodyNames<'a> {
    /// The members of the object, in their order.
    pub(super) names: Vec<Cow<'a, str>>,
    /// Where a member is that its object has twice, as a JSON pointer; the first one found.
    pub(super) twice: Option<String>,
}

/// Walks through a text; `None` if it is no JSON object.
pub(super) fn read(bytes: &[u8]) -> Option<BodyNames<'_>> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    // A number that no reader of numbers takes ends the whole walk, and not that through the names alone.
    walk(bytes, WalkDepth::Whole).or_else(|| walk(bytes, WalkDepth::Names))
}

fn walk(bytes: &[u8], how_deep: WalkDepth) -> Option<BodyNames<'_>> {
    let mut found = BodyNames::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let walk = NameWalk { found: &mut found, path: &mut Vec::new(), how_deep };
    walk.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(found)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkDepth {
    /// Through everything but payloads.
    Whole,
    /// Through the members of the object alone.
    Names,
}

/// One step into a value.
enum PathStep<'a> {
    Member(Cow<'a, str>),
    Place(usize),
}

/// Walks through one value.
struct NameWalk<'w, 'a> {
    found: &'w mut BodyNames<'a>,
    /// Where the value is. Written out only if something is wrong.
    path: &'w mut Vec<PathStep<'a>>,
    how_deep: WalkDepth,
}

/// A name, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> NameWalk<'_, 'a> {
    /// The walk through what is one step further in.
    fn inside(&mut self, step: PathStep<'a>) -> NameWalk<'_, 'a> {
        self.path.push(step);
        NameWalk { found: &mut *self.found, path: &mut *self.path, how_deep: self.how_deep }
    }

    fn note_twice(&mut self, names: &mut [Cow<'a, str>]) {
        if self.found.twice.is_some() {
            return;
        }
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        self.found.twice = twice.map(|pair| format!("{}/{}", pointer(self.path), super::shown(&pair[0])));
    }
}

fn pointer(path: &[PathStep<'_>]) -> String {
    let mut pointer = String::from("#");
    for step in path {
        pointer.push('/');
        match step {
            PathStep::Member(name) => pointer.push_str(&super::shown(name)),
            PathStep::Place(place) => pointer.push_str(&place.to_string()),
        }
    }
    pointer
}

impl<'de> DeserializeSeed<'de> for NameWalk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NameWalk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut names: Vec<Cow<'de, str>> = Vec::new();
        while let Some(MemberName(name)) = members.next_key()? {
            if self.how_deep == WalkDepth::Names || OPAQUE.contains(&&*name) {
                members.next_value::<IgnoredAny>()?;
            } else {
                members.next_value_seed(self.inside(PathStep::Member(name.clone())))?;
                self.path.pop();
            }
            names.push(name);
        }
        if self.path.is_empty() {
            self.found.names.clone_from(&names);
        }
        self.note_twice(&mut names);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        for place in 0.. {
            let value = values.next_element_seed(self.inside(PathStep::Place(place)))?;
            self.path.pop();
            if value.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

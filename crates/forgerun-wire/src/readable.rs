//! JSON that every reader can read. The grammar allows two things that no value can be made of: half of a pair of surrogates
//! (`"\ud83d"`), and a number beyond those of a double (`1e400`). Payloads are kept as they were written, so such a text would be taken, and
//! then be in the way of everybody who wants a value of it. [`check`] refuses it where it comes in, whatever the dialect; [`mended`] is for what
//! must be taken all the same, and for what is stored already.
//!
//! All of it is one walk over the bytes, which makes no value.

use std::borrow::Cow;
use std::ops::Range;

use forgerun_core::catalog::Kind;
use serde_json::value::RawValue;

use crate::body::quoted;
use crate::language::Language;
use crate::members;
use crate::ojs::members::{DEPTH_MAX, Members};
use crate::problem::{RefusedRequest, Violation, summary};

/// What a walk over a JSON text finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// How deep its brackets are nested.
    pub depth: usize,
    /// The first place that cannot be read.
    pub unreadable: Option<Range<usize>>,
}

/// Walks over a text, whether it is JSON or not.
pub(crate) fn walk(text: &[u8]) -> Findings {
    let mut walk = UnreadablePlaces::over(text);
    let unreadable = walk.next();
    walk.by_ref().for_each(drop);
    Findings { depth: walk.deepest, unreadable }
}

/// Refuses a JSON text that no value can be made of, or that common readers do not read because it is nested too deeply; `at` is the member whose
/// value it is.
pub fn check(text: &str, at: &str) -> Result<(), Violation> {
    match walk(text.as_bytes()) {
        Findings { depth, .. } if depth > DEPTH_MAX => {
            let detail = format!("is nested deeper than {DEPTH_MAX} levels");
            Err(Violation { pointer: format!("#/{at}"), detail, constraint: "depth" })
        }
        Findings { unreadable: Some(place), .. } => Err(violation(text, place, at)),
        Findings { unreadable: None, .. } => Ok(()),
    }
}

/// The refusal of a body in which this place cannot be read.
pub(crate) fn refused(body: &str, place: Range<usize>) -> Box<RefusedRequest> {
    let wrong = violation(body, place, "");
    let refused = RefusedRequest::new(Kind::MalformedRequest, "");
    Box::new(match wrong.pointer.as_str() {
        // In the name of a member, or too far behind in the body.
        "#" => RefusedRequest { detail: format!("The body {}.", wrong.detail), ..refused },
        _ => {
            let violations = vec![wrong];
            let detail = summary(&violations, Language::English);
            RefusedRequest { detail, ..refused }.violations(violations)
        }
    })
}

fn violation(text: &str, place: Range<usize>, at: &str) -> Violation {
    let mut pointer = String::from("#");
    if !at.is_empty() {
        pointer = format!("#/{at}");
    }
    add_steps(&mut pointer, text, place.start);
    let wrong = quoted(&text[place]);
    let detail = match wrong.starts_with('\\') {
        true => format!("has {wrong}, half of a pair of surrogates, which is no character"),
        false => format!("has the number {wrong}, which is too large for a double"),
    };
    Violation { pointer, detail, constraint: "format" }
}

/// Steps of a pointer to what cannot be read. Each costs a walk, and who sent the text finds the place from there.
const STEPS_MAX: usize = 4;

/// Adds the way from a value to the place `at` in it.
fn add_steps(pointer: &mut String, text: &str, at: usize) {
    let (mut text, mut at) = (text, at);
    for _ in 0..STEPS_MAX {
        let begin = text.as_ptr() as usize;
        let holds = |value: &RawValue| {
            let start = value.get().as_ptr() as usize - begin;
            (start..start + value.get().len()).contains(&at)
        };
        let found = if let Ok(members) = serde_json::from_str::<Members<'_>>(text) {
            let found = members.0.into_iter().find(|(_, value)| holds(value));
            found.map(|(name, value)| (members::shown(&name), value))
        } else {
            let entries: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            let found = entries.into_iter().enumerate().find(|(_, value)| holds(value));
            found.map(|(index, value)| (index.to_string(), value))
        };
        let Some((step, value)) = found else { return };
        pointer.push('/');
        pointer.push_str(&step);
        at -= value.get().as_ptr() as usize - begin;
        text = value.get();
    }
}

/// A JSON text that can be read: U+FFFD stands for each half of a pair, and a number that is too large becomes text.
pub fn mended(text: &[u8]) -> Cow<'_, [u8]> {
    let (mut mended, mut done) = (Vec::new(), 0);
    for place in UnreadablePlaces::over(text) {
        mended.extend_from_slice(&text[done..place.start]);
        done = place.end;
        if text[place.start] == b'\\' {
            mended.extend_from_slice(b"\\ufffd");
        } else {
            mended.push(b'"');
            mended.extend_from_slice(&text[place]);
            mended.push(b'"');
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    mended.extend_from_slice(&text[done..]);
    Cow::Owned(mended)
}

/// Goes over a text from one place that cannot be read to the next.
struct UnreadablePlaces<'a> {
    text: &'a [u8],
    at: usize,
    is_quoted: bool,
    depth: usize,
    deepest: usize,
}

/// Digits that surely fit a double.
const DIGITS_SAFE: usize = 300;

impl<'a> UnreadablePlaces<'a> {
    fn over(text: &'a [u8]) -> UnreadablePlaces<'a> {
        UnreadablePlaces { text, at: 0, is_quoted: false, depth: 0, deepest: 0 }
    }

    /// To the end of the string, or to the next half of a pair in it.
    fn in_string(&mut self) -> Option<Range<usize>> {
        while let Some(skipped) = memchr::memchr2(b'"', b'\\', &self.text[self.at..]) {
            let at = self.at + skipped;
            if self.text[at] == b'"' {
                (self.at, self.is_quoted) = (at + 1, false);
                return None;
            }
            match self.escaped(at) {
                None => self.at = self.text.len().min(at + 2),
                Some(0xd800..=0xdbff) if matches!(self.escaped(at + 6), Some(0xdc00..=0xdfff)) => {
                    self.at = at + 12;
                }
                Some(0xd800..=0xdfff) => {
                    self.at = at + 6;
                    return Some(at..at + 6);
                }
                Some(_) => self.at = at + 6,
            }
        }
        (self.at, self.is_quoted) = (self.text.len(), false);
        None
    }

    /// What `\u` and four digits say at this place.
    fn escaped(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |sum, digit| Some(sum << 4 | char::from(*digit).to_digit(16)? as u16))
    }

    /// To the end of a number, which is told if it is too large.
    fn number(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let n_bytes = self.text[start..].iter().position(|byte| !is_part(byte));
        self.at = n_bytes.map_or(self.text.len(), |n_bytes| start + n_bytes);
        let written = &self.text[start..self.at];
        let may_be_large = written.len() > DIGITS_SAFE || memchr::memchr2(b'e', b'E', written).is_some();
        // Whether it is too large is for the reader to say that will read it. What is no number is none that is too large.
        let is_number = || serde_json::from_slice::<&RawValue>(written).is_ok();
        let is_read = || serde_json::from_slice::<f64>(written).is_ok();
        (may_be_large && is_number() && !is_read()).then_some(start..self.at)
    }
}

impl Iterator for UnreadablePlaces<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let found = if self.is_quoted {
                self.in_string()
            } else {
                match self.text.get(self.at)? {
                    b'0'..=b'9' | b'-' => self.number(),
                    byte => {
                        match byte {
                            b'"' => self.is_quoted = true,
                            b'{' | b'[' => {
                                self.depth += 1;
                                self.deepest = self.deepest.max(self.depth);
                            }
                            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                            _ => {}
                        }
                        self.at += 1;
                        None
                    }
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_what_no_value_can_be_made_of() {
        let long = "9".repeat(400);
        for text in [
            r#""\ud83d""#,
            r#""a\ude00b""#,
            r#""\ud83d\n""#,
            r#""\ud83d\u0041""#,
            r#"{"a":{"\udfff":1}}"#,
            "1e400",
            "[-1E+999]",
            "1.5e309",
            &long,
            r#"[1,{"a":["x","\ud800\ud800\udc00"]}]"#,
            r#""\ud83d\ude00""#,
            r#""\\ud83d""#,
            r#""\u00e9 \" \\ 1e400""#,
            "1e308",
            "0e999",
            "1e-999",
            "12345678901234567890123456789",
            r#"{"1e400":true,"e":[false,null,-0.5e-3]}"#,
        ] {
            let raw: &RawValue = serde_json::from_str(text).expect("the grammar allows it");
            let is_read = serde_json::from_str::<Value>(raw.get()).is_ok();
            assert_eq!(check(text, "").is_ok(), is_read, "{text:.40}");
            let mended = mended(text.as_bytes());
            assert!(serde_json::from_slice::<Value>(&mended).is_ok(), "{text:.40}");
            assert_eq!(*mended == *text.as_bytes(), is_read, "{text:.40}");
        }
    }

    #[test]
    fn the_place_is_named_and_what_is_wrong_there() {
        let wrong = |text: &str, at: &str| {
            let wrong = check(text, at).unwrap_err();
            (wrong.pointer, wrong.detail)
        };
        let (pointer, detail) = wrong(r#"{"jobs":[1,{"args":["x","caf\ud83d"]}]}"#, "");
        assert_eq!(pointer, "#/jobs/1/args/1");
        assert_eq!(detail, r"has \ud83d, half of a pair of surrogates, which is no character");
        let (pointer, detail) = wrong(r#"{"a/b":{"c":{"d":{"e":1e400}}}}"#, "payload");
        assert_eq!(pointer, "#/payload/a~1b/c/d/e");
        assert_eq!(detail, "has the number 1e400, which is too large for a double");
        assert_eq!(wrong(r#"{"a":{"\ud800":1}}"#, "").0, "#/a", "a name is no place of its own");
    }

    #[test]
    fn what_is_mended_shows_all_that_can_be_read() {
        let text = br#"{"a":"caf\ud83d\ude00 \ud83d!","b":[1e400,-2E999],"c":"\\ud83d"}"#;
        let shown = br#"{"a":"caf\ud83d\ude00 \ufffd!","b":["1e400","-2E999"],"c":"\\ud83d"}"#;
        assert_eq!(*mended(text), *shown);
        assert!(matches!(mended(b"[1]"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_no_json_is_walked_over_without_harm() {
        for text in [
            "",
            "\"",
            "\"\\",
            "\"\\u",
            "\"\\ud8",
            "\"\\ud800\\u",
            "]]][",
            "1e",
            "--1e9",
            "{\"a\":\"\\",
            "é\\",
        ] {
            let _ = (walk(text.as_bytes()), mended(text.as_bytes()), check(text, ""));
        }
        assert_eq!(walk(b"]]][").depth, 1);
        assert_eq!(walk(br#"{"[[[\"[[":[{}]}"#).depth, 3);
        assert_eq!(walk(br#"["\ud800",[[]]]"#), Findings { depth: 3, unreadable: Some(2..8) });
    }
}

//! Data as YAML that people like to read: blocks, and quotes only where they are needed. Every JSON
//! value can be written; what is quoted is quoted as JSON does it, which YAML 1.2 reads alike.

use std::fmt::Write;

use serde_json::Value;

/// The value as a document.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

/// Writes a value that begins on a line of its own.
fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                indent(text, depth);
                let _ = write!(text, "{}:", scalar(name));
                after(text, member, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                after_dash(text, item, depth + 1);
            }
        }
        _ => {
            indent(text, depth);
            text.push_str(&inline(value));
            text.push('\n');
        }
    }
}

/// Writes a value after a colon.
fn after(text: &mut String, value: &Value, depth: usize) {
    if is_block(value) {
        text.push('\n');
        block(text, value, depth);
    } else {
        let _ = writeln!(text, " {}", inline(value));
    }
}

/// Writes a value after a dash; the first line of a block stands right behind it.
fn after_dash(text: &mut String, value: &Value, depth: usize) {
    if is_block(value) {
        let mut inner = String::new();
        block(&mut inner, value, depth);
        text.push(' ');
        text.push_str(inner.trim_start_matches(' '));
    } else {
        let _ = writeln!(text, " {}", inline(value));
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

/// Whether a text means itself without quotes. Rather too few than too many.
fn is_plain(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '$' | '_');
    let rest = |c: char| c.is_ascii_alphanumeric() || " $/_.,;()+-".contains(c);
    // Words that YAML 1.1 takes for something else.
    let odd = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(first)
        && text.chars().all(rest)
        && !text.ends_with(' ')
        && !odd.contains(&text.to_ascii_lowercase().as_str())
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_lists_and_scalars_are_laid_out_for_reading() {
        let value = json!({
            "name": "a plain text", "3": "2026-05-28", "empty": {}, "none": [], "no": null, "n": 3.5,
            "list": [1, "x: y", {"a": true, "b": ["c", {"d": "e"}]}, [["f"]]],
            "odd": ["yes", "NULL", "", " a", "a ", "#", "- a", "a\nb", "\u{e4}", "1e3", "*a", "@a", "~"],
        });
        let expected = r##"name: a plain text
"3": "2026-05-28"
empty: {}
none: []
"no": null
"n": 3.5
list:
  - 1
  - "x: y"
  - a: true
    b:
      - c
      - d: e
  - - - f
odd:
  - "yes"
  - "NULL"
  - ""
  - " a"
  - "a "
  - "#"
  - "- a"
  - "a\nb"
  - "ä"
  - "1e3"
  - "*a"
  - "@a"
  - "~"
"##;
        assert_eq!(text(&value), expected);
    }
}

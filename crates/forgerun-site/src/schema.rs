//! JSON Schemas as tables of members.

use maud::{Markup, html};
use serde_json::Value;

use crate::address::{self, Style};

/// Values of an enumeration that are listed.
const VALUES_MAX: usize = 12;

/// How names of schemas become links.
pub(crate) struct Names<'a> {
    /// The address of the page that links.
    pub(crate) from: &'a str,
    /// The address of the page of schemas.
    pub(crate) page: &'a str,
    pub(crate) style: Style,
}

/// A text whose parts between backticks are code.
pub(crate) fn prose(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() {
            @if n % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// The members of an object; nothing for other schemas.
pub(crate) fn members(schema: &Value, names: &Names<'_>) -> Markup {
    let Some(properties) = schema["properties"].as_object().filter(|members| !members.is_empty()) else {
        return html! {};
    };
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    html! {
        div .table tabindex="0" {
            table {
                thead { tr { th scope="col" { "Member" } th scope="col" { "Type" } th scope="col" { "Meaning" } } }
                tbody {
                    @for (name, member) in properties {
                        tr {
                            td { code { (name) } @if required(name) { " *" } }
                            td { (kind(member, names)) }
                            td { (prose(member["description"].as_str().unwrap_or(""))) (bounds(member)) }
                        }
                    }
                }
            }
        }
    }
}

/// The type of a value in words; named schemas are links.
pub(crate) fn kind(schema: &Value, names: &Names<'_>) -> Markup {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        let page = if names.from == names.page {
            String::new()
        } else {
            address::link(names.from, names.page, names.style)
        };
        return html! { a href=(format!("{page}#{name}")) { (name) } };
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(parts) = schema[several].as_array() {
            return html! {
                @for (n, part) in parts.iter().enumerate() { @if n > 0 { " or " } (kind(part, names)) }
            };
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    html! {
        @for (n, name) in types.iter().enumerate() {
            @if n > 0 { " or " }
            (name)
            @if *name == "array" && schema["items"].is_object() { " of " (kind(&schema["items"], names)) }
            @if let Some(format) = schema["format"].as_str().filter(|_| *name == "string") { " (" (format) ")" }
        }
    }
}

/// Listed values, default and bounds of a member.
fn bounds(schema: &Value) -> Markup {
    let values: Vec<&str> =
        schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let words = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("maxLength", "letters at most"),
        ("maxItems", "entries at most"),
    ];
    let limits: Vec<String> = words
        .iter()
        .filter_map(|(name, words)| {
            schema[*name].as_number().filter(|n| n.as_u64() != Some(0)).map(|n| format!("{words} {n}"))
        })
        .collect();
    html! {
        @if !values.is_empty() {
            " One of "
            @for (n, value) in values.iter().take(VALUES_MAX).enumerate() { @if n > 0 { ", " } code { (value) } }
            @if values.len() > VALUES_MAX { " and " (values.len() - VALUES_MAX) " more" }
            "."
        }
        @if !limits.is_empty() { " " (limits.join(", ")) "." }
        @if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            " Default " code { (default.to_string()) } "."
        }
    }
}

//! The rendered site: links and anchors lead somewhere, nothing comes from elsewhere, sizes are
//! bounded.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_site::{Site, Style, file_name};
use serde_json::{Value, json};

/// The largest page, in bytes, with a reference of this size.
const PAGE_MAX: usize = 300_000;

fn openapi() -> Value {
    json!({
        "info": {"description": "Every error is a problem."},
        "tags": [{"name": "jobs", "description": "Submit and watch."}],
        "paths": {"/v1/jobs": {"post": {
            "operationId": "submitJob",
            "tags": ["jobs"],
            "summary": "Submit a job.",
            "security": [{"apiKey": []}],
            "parameters": [{"$ref": "#/components/parameters/Prefer"}],
            "requestBody": {"required": true, "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Job"},
                "examples": {"at_once": {"value": {"type": "EXECUTE"}}},
            }}},
            "responses": {
                "202": {"description": "Accepted.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}}},
                "400": {"$ref": "#/components/responses/bad"},
            },
        }}},
        "components": {
            "schemas": {"Job": {"type": "object", "required": ["type"], "properties": {
                "type": {"type": "string", "enum": ["EXECUTE"], "description": "What to do."},
                "items": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}},
            }}},
            "parameters": {"Prefer": {"name": "Prefer", "in": "header", "description": "How long to wait."}},
            "responses": {"bad": {"content": {"application/problem+json": {"examples": {
                "Malformed": {"$ref": "#/components/examples/Malformed"},
            }}}}},
            "examples": {"Malformed": {"value": {"title": "Malformed Request", "rfa_code": "RFA_REQ_MALFORMED"}}},
        },
    })
}

fn attributes<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let start = match name {
        "href" => " href=\"",
        "src" => " src=\"",
        "action" => " action=\"",
        _ => " id=\"",
    };
    text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Where a link of a file leads, as the name of a file.
fn target(from: &str, link: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => assert!(parts.pop().is_some(), "{from}: {link} leads out of the site"),
            "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_link_and_anchor_of_the_site_leads_somewhere() {
    for style in [Style::Served, Style::Files] {
        // As a browser sees them: the served start page is `docs`, the others are below `docs/`.
        let name = |address: &str| match (style, address) {
            (Style::Served, "") => "docs".to_owned(),
            (Style::Served, address) => format!("docs/{address}"),
            (Style::Files, address) => file_name(address),
        };
        let site = Site::new(&openapi(), style);
        let files: BTreeMap<String, &str> =
            site.files.iter().map(|(address, file)| (name(address), file.text.as_str())).collect();
        let mut dead = Vec::new();
        for (from, text) in files.iter().filter(|(_, text)| text.starts_with("<!DOCTYPE")) {
            let ids: Vec<&str> = attributes(text, "id").collect();
            assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{from}: an id occurs twice");
            let links = attributes(text, "href").chain(attributes(text, "src"));
            for link in links.chain(attributes(text, "action")).filter(|link| !link.contains("://")) {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let to = if path.is_empty() { from.clone() } else { target(from, path) };
                if to == "docs/search" {
                    continue;
                }
                match files.get(&to) {
                    None => dead.push(format!("{from}: {link}")),
                    Some(page) if !anchor.is_empty() && !attributes(page, "id").any(|id| id == anchor) => {
                        dead.push(format!("{from}: {link} has no such heading"));
                    }
                    Some(_) => {}
                }
            }
        }
        assert!(dead.is_empty(), "{style:?}: {}", dead.join("\n"));
    }
}

#[test]
fn pages_are_bounded_and_load_nothing_from_elsewhere() {
    let site = Site::new(&openapi(), Style::Served);
    for (address, file) in &site.files {
        assert!(file.text.len() < PAGE_MAX, "{address} has {} bytes", file.text.len());
        for source in attributes(&file.text, "src") {
            assert!(!source.contains("://"), "{address} loads {source}");
        }
        assert!(!file.text.contains(" style=\"") && !file.text.contains("<style"), "{address}");
    }
    let assets: usize = ["site.css", "site.js"].iter().map(|name| site.files[*name].text.len()).sum();
    assert!(assets < 20_000, "{assets} bytes of style and script");
}

#[test]
fn the_reference_shows_parameters_bodies_answers_and_refusals() {
    let site = Site::new(&openapi(), Style::Served);
    let page = &site.files["api/jobs"].text;
    for words in [
        "id=\"submitJob\"",
        "<code>/v1/jobs</code>",
        "Needs the key of a client.",
        "<code>Prefer</code>",
        "href=\"../api/schemas#Job\"",
        "<code>type</code> *",
        "&quot;EXECUTE&quot;",
        "RFA_REQ_MALFORMED",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    assert!(site.files["api"].text.contains("href=\"api/jobs#submitJob\""));
}

#[test]
fn a_search_shows_the_sections_that_have_all_words_and_escapes_the_query() {
    let site = Site::new(&openapi(), Style::Served);
    let found = site.search.page("submit job").text;
    assert!(found.contains("href=\"api/jobs#submitJob\""), "{found}");
    let none = site.search.page("<script>no such words</script>").text;
    assert!(none.contains("No section has all of these words") && !none.contains("<script>no"), "{none}");
}

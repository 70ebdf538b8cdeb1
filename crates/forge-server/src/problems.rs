//! The pages that the `type` of a problem leads to: what it means, whether to try again, an example. As HTML for people
//! (no script needed), as JSON and as XML for programs.

use std::fmt::Write;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, CONTENT_LANGUAGE, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use forge_core::catalog::{Entry, Kind, Level};
use forge_core::job::Dialect;
use forge_wire::problem::Refused;
use forge_wire::status;
use serde_json::{Value, json};

/// What the pages need to know: the public address, without a trailing slash.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// Empty when none is configured.
    pub base: String,
}

/// Where they are.
pub const PATHS: [&str; 2] = ["/problems", "/problems/{slug}"];

/// The routes.
pub fn router(pages: Pages) -> Router {
    let [all, one] = PATHS;
    Router::new().route(all, get(index)).route(one, get(page)).with_state(pages)
}

async fn index(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let types = slugs().into_iter().map(|slug| describe(&pages, slug)).collect();
    let document = json!({"problems": Value::Array(types)});
    answer(&headers, &document, html_index)
}

async fn page(State(pages): State<Pages>, Path(slug): Path<String>, headers: HeaderMap) -> Response {
    match slugs().into_iter().find(|known| *known == slug) {
        Some(slug) => answer(&headers, &describe(&pages, slug), html_page),
        // Said like everything else that is not there, by the edge.
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Every slug once, in the order of the catalog.
fn slugs() -> Vec<&'static str> {
    let mut slugs: Vec<&str> = Vec::new();
    for kind in Kind::ALL {
        let slug = kind.entry().slug;
        if !slugs.contains(&slug) {
            slugs.push(slug);
        }
    }
    slugs
}

fn entries(slug: &str) -> Vec<&'static Entry> {
    Kind::ALL.iter().map(|kind| kind.entry()).filter(|entry| entry.slug == slug).collect()
}

/// A problem type as data. Kinds that share a slug share a page.
fn describe(pages: &Pages, slug: &str) -> Value {
    let entries = entries(slug);
    let first = entries[0];
    let level = match first.level {
        Level::Request => "request",
        Level::Job => "job",
    };
    let statuses = |dialect| {
        let mut codes: Vec<u16> = entries.iter().map(|entry| status::http(entry.kind, dialect)).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    };
    let refused = Refused::new(first.kind, first.meaning);
    let example =
        refused.problem(Dialect::Forge, &pages.base, "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057");
    let example: Value = serde_json::from_str(&example.to_json()).expect("we wrote it");
    json!({
        "type": format!("{}/problems/{slug}", pages.base),
        "slug": slug,
        "title": first.title,
        "level": level,
        "status": {
            "v1": statuses(Dialect::Forge),
            "api": statuses(Dialect::Operations),
            "ojs": statuses(Dialect::Ojs),
        },
        "retryable": first.retryable,
        "stage": first.stage.map(|stage| stage.as_str()),
        "codes": entries.iter().map(|entry| json!({
            "rfa_code": entry.rfa,
            "ojs_code": entry.ojs_or_custom(),
            "meaning": entry.meaning,
            "remedy": entry.remedy,
        })).collect::<Vec<_>>(),
        "extensions": {
            "code": "string; the code of the dialect that was called",
            "rfa_code": "string; sf-string in the Problem field",
            "ojs_code": "string; sf-string in the Problem field",
            "retryable": "boolean; sf-boolean in the Problem field",
        },
        "example": example,
    })
}

fn answer(headers: &HeaderMap, document: &Value, html: fn(&Value) -> String) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let (content_type, body) = match preferred(accept) {
        Form::Html => ("text/html; charset=utf-8", html(document)),
        Form::Json => ("application/json", document.to_string()),
        Form::Xml => ("application/xml", xml(document)),
    };
    ([(CONTENT_TYPE, content_type), (VARY, "accept"), (CONTENT_LANGUAGE, "en")], body).into_response()
}

enum Form {
    Html,
    Json,
    Xml,
}

/// The form with the highest quality; at equal quality HTML, which is what the type of a problem promises.
fn preferred(accept: &str) -> Form {
    let quality = |names: &[&str]| {
        let mut best = 0.0_f32;
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or("").to_ascii_lowercase();
            let weight =
                parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok()).unwrap_or(1.0);
            if names.contains(&name.as_str()) {
                best = best.max(weight);
            }
        }
        best
    };
    let html = quality(&["text/html", "application/xhtml+xml", "text/*", "*/*"]);
    let json = quality(&["application/json", "application/problem+json", "application/*"]);
    let xml = quality(&["application/xml", "text/xml", "application/problem+xml"]);
    match () {
        () if html >= json && html >= xml && html > 0.0 => Form::Html,
        () if xml > json => Form::Xml,
        () if json > 0.0 => Form::Json,
        () => Form::Html,
    }
}

fn html_index(document: &Value) -> String {
    let mut rows = String::new();
    for problem in document["problems"].as_array().into_iter().flatten() {
        let slug = problem["slug"].as_str().unwrap_or_default();
        let again = if problem["retryable"] == true { "yes" } else { "no" };
        let _ = write!(
            rows,
            "<tr><td><a href=\"/problems/{slug}\">{}</a></td><td>{}</td><td>{}</td><td>{again}</td></tr>",
            escape(problem["title"].as_str().unwrap_or_default()),
            escape(slug),
            escape(problem["level"].as_str().unwrap_or_default()),
        );
    }
    layout(
        "Problem types",
        &format!(
            "<p>Every error of this server has one of these types. The address of the page is the <code>type</code> \
             of the problem.</p><table><tr><th>title</th><th>name</th><th>about</th><th>try again?</th></tr>{rows}</table>"
        ),
    )
}

fn html_page(document: &Value) -> String {
    let mut codes = String::new();
    for code in document["codes"].as_array().into_iter().flatten() {
        let _ = write!(
            codes,
            "<dt><code>{}</code> · <code>{}</code></dt><dd>{}<br><strong>What to do:</strong> {}</dd>",
            escape(code["rfa_code"].as_str().unwrap_or_default()),
            escape(code["ojs_code"].as_str().unwrap_or_default()),
            escape(code["meaning"].as_str().unwrap_or_default()),
            escape(code["remedy"].as_str().unwrap_or_default()),
        );
    }
    let again = if document["retryable"] == true {
        "Yes, after the time that <code>Retry-After</code> or <code>retryAfter</code> gives."
    } else {
        "No: the same request would fail again."
    };
    let statuses = &document["status"];
    let example = serde_json::to_string_pretty(&document["example"]).unwrap_or_default();
    layout(
        document["title"].as_str().unwrap_or_default(),
        &format!(
            "<p>Type: <code>{}</code></p><dl>{codes}</dl><p>HTTP status: {} on <code>/v1</code>, {} on \
             <code>/api/v1</code>, {} on <code>/ojs/v1</code>.</p><h2>Try again?</h2><p>{again}</p>\
             <h2>Example</h2><pre>{}</pre><p><a href=\"/problems\">All problem types</a></p>",
            escape(document["type"].as_str().unwrap_or_default()),
            statuses["v1"],
            statuses["api"],
            statuses["ojs"],
            escape(&example),
        ),
    )
}

fn layout(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title} · ForgeRun</title><style>body{{font:16px/1.5 system-ui,sans-serif;\
         max-width:48rem;margin:2rem auto;padding:0 1rem}}pre{{background:#8882;padding:1rem;overflow:auto}}td,th{{\
         text-align:left;padding:.2rem 1rem .2rem 0}}dd{{margin:0 0 1rem}}:root{{color-scheme:light dark}}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n"
    )
}

/// The document as XML: members become elements, items of an array become `i`.
fn xml(document: &Value) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write_xml(&mut text, "problem-type", document);
    text.push('\n');
    text
}

fn write_xml(text: &mut String, name: &str, value: &Value) {
    if value.is_null() {
        return;
    }
    let _ = write!(text, "<{name}>");
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| write_xml(text, name, value)),
        Value::Array(items) => items.iter().for_each(|item| write_xml(text, "i", item)),
        Value::String(string) => text.push_str(&escape(string)),
        other => {
            let _ = write!(text, "{other}");
        }
    }
    let _ = write!(text, "</{name}>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> &'static str {
        match preferred(accept) {
            Form::Html => "html",
            Form::Json => "json",
            Form::Xml => "xml",
        }
    }

    #[test]
    fn the_accept_header_picks_the_form_and_html_is_the_default() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, wanted) in [
            ("*/*", "html"),
            ("", "html"),
            (browser, "html"),
            ("application/json", "json"),
            ("application/json;q=0.5, application/xml", "xml"),
            ("application/problem+json", "json"),
            ("image/png", "html"),
        ] {
            assert_eq!(form(accept), wanted, "{accept}");
        }
    }

    #[test]
    fn every_kind_has_a_page_with_uri_title_status_meaning_and_remedy() {
        let pages = Pages { base: "https://forge.example".into() };
        for kind in Kind::ALL {
            let entry = kind.entry();
            let document = describe(&pages, entry.slug);
            assert_eq!(document["type"], format!("https://forge.example/problems/{}", entry.slug));
            assert!(!document["title"].as_str().unwrap().is_empty());
            assert!(!document["status"]["v1"].as_array().unwrap().is_empty());
            let page = html_page(&document);
            assert!(
                page.contains(&escape(entry.meaning)) && page.contains(&escape(entry.remedy)),
                "{kind:?}"
            );
            assert!(!page.contains("<script"));
        }
    }

    #[test]
    fn text_can_not_break_out_of_a_page() {
        assert_eq!(escape("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}

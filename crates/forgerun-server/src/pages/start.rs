//! `GET /`: the root page. Browsers get HTML, others the same links as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

/// The links: a name for programs, the path, and a description.
const LINKS: [(&str, &str, &str); 8] = [
    ("docs", "/docs", "the documentation of this version"),
    ("dashboard", "/dashboard", "what goes on here, for the operator"),
    ("openapi", "/openapi.json", "the HTTP interface, as OpenAPI"),
    ("asyncapi", "/asyncapi.yaml", "events and webhooks, as AsyncAPI"),
    ("problems", "/problems", "every problem type: what it means and what to do"),
    ("health", "/health", "whether the process answers"),
    ("ready", "/ready", "whether the server can do its work now"),
    ("metrics", "/metrics", "what the server counts, for Prometheus"),
];

/// The page for newcomers, by its path in the source.
const GUIDE: &str = "docs/start/sixty-seconds.md";

pub(super) fn json(base: &str) -> String {
    let links =
        LINKS.into_iter().map(|(name, path, _)| (name.to_owned(), Value::from(format!("{base}{path}"))));
    let links: serde_json::Map<String, Value> = links.collect();
    json!({"name": "ForgeRun", "version": env!("CARGO_PKG_VERSION"), "guide": GUIDE, "links": links})
        .to_string()
}

/// The HTML page: no script, nothing external. Its links are relative, so they work behind a proxy.
pub(super) fn html() -> String {
    let mut items = String::new();
    for (_, path, what) in LINKS {
        let _ = writeln!(items, "<li><a href=\"{path}\">{path}</a>: {what}</li>");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>ForgeRun</title>\n</head>\n<body>\n<main>\n\
         <h1>ForgeRun</h1>\n<p>A job server. Submit work with <code>POST /v1/jobs</code>; \
         <code>{GUIDE}</code> shows it in sixty seconds.</p>\n<ul>\n{items}</ul>\n</main>\n</body>\n</html>\n"
    )
}

//! The pages as HTML: accessible, light or dark as the system is, without scripts or external
//! resources.

use std::fmt::Write;

use forgerun_core::catalog::ErrorLevel;
use forgerun_wire::language::Language;

use super::labels::{Labels, labels};
use super::problem_type::ProblemType;
use super::xml::escape;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #f1f3f5; --line: #ccd2d8; --link: #0b57d0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --paper: #15181b; --soft: #20252a; --line: #414a52; --link: #8ab4f8 }
}
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem; color: var(--ink); background: var(--paper) }
a { color: var(--link) }
h1 { line-height: 1.2 }
h2 { margin-top: 2rem; font-size: 1.2rem }
code, pre { font: .9em/1.5 ui-monospace, monospace; background: var(--soft) }
code { padding: .1em .25em; overflow-wrap: anywhere }
pre { padding: 1rem; overflow: auto; border: 1px solid var(--line) }
pre code { padding: 0; overflow-wrap: normal }
table { border-collapse: collapse; width: 100% }
caption { text-align: left; padding: .3rem 0 }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line) }
dd { margin: .2rem 0 1rem 0 }
footer { margin-top: 3rem; border-top: 1px solid var(--line) }
";

pub(super) fn index(types: &[ProblemType], language: Language) -> String {
    let labels = labels(language);
    let mut rows = String::new();
    for about in types {
        let level = match about.level {
            ErrorLevel::Request => labels.of_request,
            ErrorLevel::Job => labels.of_job,
        };
        let again = if about.retryable { labels.yes } else { labels.no };
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><a href=\"/problems/{slug}\">{title}</a></th><td><code>{slug}</code></td>\
             <td>{level}</td><td>{again}</td></tr>",
            slug = about.slug,
            title = escape(about.title),
        );
    }
    let Labels { types, intro, title, name, about, again, .. } = labels;
    let main = format!(
        "<p>{}</p>\n<table>\n<caption>{types}</caption>\n<thead><tr><th scope=\"col\">{title}</th>\
         <th scope=\"col\">{name}</th><th scope=\"col\">{about}</th><th scope=\"col\">{again}</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n",
        marked(intro),
    );
    layout(types, &main, "/problems", language)
}

pub(super) fn page(about: &ProblemType, language: Language) -> String {
    let labels = labels(language);
    let mut main = format!("<p>{}: <code>{}</code></p>\n", labels.type_uri, escape(&about.type_uri));
    let _ = write!(main, "<h2>{}</h2>\n<dl>\n", labels.meaning);
    for code in &about.codes {
        let _ = writeln!(
            main,
            "<dt><code>{}</code> · <a href=\"{}\"><code>{}</code></a></dt>\n<dd>{}<br><strong>{}</strong> {}</dd>",
            code.rfa_code,
            escape(&code.doc_url),
            code.ojs_code,
            escape(code.meaning),
            labels.remedy,
            escape(code.remedy),
        );
    }
    main.push_str("</dl>\n");
    if let Some(stage) = about.stage {
        let _ = writeln!(main, "<p>{} <code>{stage}</code></p>", labels.stage);
    }
    let _ = write!(main, "<h2>{}</h2>\n<p>{}</p>\n", labels.again, marked(about.retry));
    main.push_str(&statuses(about, labels));
    main.push_str(&members(about, labels));
    let _ = write!(
        main,
        "<h2>{}</h2>\n<pre><code>{}</code></pre>\n<p><a href=\"/problems\">{}</a></p>\n",
        labels.example,
        escape(&indented(&about.example.to_json())),
        labels.all,
    );
    layout(about.title, &main, &format!("/problems/{}", about.slug), language)
}

fn statuses(about: &ProblemType, labels: &Labels) -> String {
    let mut rows = String::new();
    for (path, codes) in
        [("/v1", &about.status.v1), ("/api/v1", &about.status.api), ("/ojs/v1", &about.status.ojs)]
    {
        let codes: Vec<String> = codes.iter().map(u16::to_string).collect();
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><code>{path}</code></th><td>{}</td></tr>",
            codes.join(", ")
        );
    }
    let Labels { status, dialect, .. } = labels;
    format!(
        "<h2>{status}</h2>\n<table>\n<thead><tr><th scope=\"col\">{dialect}</th><th scope=\"col\">{status}</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n"
    )
}

fn members(about: &ProblemType, labels: &Labels) -> String {
    let mut rows = String::new();
    for (name, kind) in about.extensions.all() {
        let _ =
            writeln!(rows, "<tr><th scope=\"row\"><code>{name}</code></th><td>{}</td></tr>", marked(kind));
    }
    let Labels { members, member, kind, .. } = labels;
    format!(
        "<h2>{members}</h2>\n<table>\n<thead><tr><th scope=\"col\">{member}</th><th scope=\"col\">{kind}</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n"
    )
}

fn layout(title: &str, main: &str, path: &str, language: Language) -> String {
    let (title, tag, labels) = (escape(title), language.tag(), labels(language));
    format!(
        "<!doctype html>\n<html lang=\"{tag}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} · ForgeRun</title>\n\
         <link rel=\"alternate\" type=\"application/json\" href=\"{path}\">\n\
         <link rel=\"alternate\" type=\"application/xml\" href=\"{path}\">\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{main}</main>\n\
         <footer>\n<nav aria-label=\"{}\">\n<p><a href=\"/problems\">{}</a> · <a href=\"/openapi.json\">OpenAPI</a> · \
         <a href=\"/asyncapi.yaml\">AsyncAPI</a> · \
         <a href=\"/schemas/async-job-problem-details.json\">JSON Schema</a></p>\n</nav>\n</footer>\n</body>\n</html>\n",
        labels.documents, labels.all,
    )
}

/// Text between backticks is code.
fn marked(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in text.split('`').enumerate() {
        let part = escape(part);
        let _ = if place % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

fn indented(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).expect("we wrote it");
    serde_json::to_string_pretty(&value).expect("it was JSON before")
}

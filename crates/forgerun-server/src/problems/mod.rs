//! The pages of problem types: meaning, statuses, retry advice, remedy, example. As HTML, JSON and
//! XML, in every language that problems have.
//!
//! - `problem_type`: the content of a page, from the catalog and the code that makes problems;
//! - `html`, `xml`: its formats; JSON is the content itself;
//! - `labels`: the labels.

mod html;
mod labels;
mod problem_type;
mod xml;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use forgerun_core::catalog::Kind;
use forgerun_wire::language::Language;
use schemars::JsonSchema;
use serde::Serialize;

use crate::documents::Document;
use crate::http::{
    language_of,
    routing::operation::{ACCEPT_LANGUAGE, IF_NONE_MATCH, Operation, Reply},
};
use crate::pages;
use problem_type::ProblemType;

/// All pages of a server.
#[derive(Clone)]
pub struct Pages {
    /// Public base URL, without a trailing slash; empty if not configured.
    base: String,
    /// Generated for the first request: most servers never show one.
    made: Arc<OnceLock<HashMap<PageKey, [Document; 3]>>>,
}

/// Slug and language; the index has no slug.
type PageKey = (Option<&'static str>, Language);

/// Where they are, with what the OpenAPI document says of them.
pub const ROUTES: [(&str, Operation); 2] = [
    (
        "/problems",
        Operation {
            headers: &[ACCEPT_LANGUAGE, IF_NONE_MATCH],
            replies: &[
                Reply::types_or_json::<ProblemTypes<'static>>(200, "All of them.", FORMS).headers(SHOWN),
                pages::SAME,
            ],
            ..Operation::new("listProblemTypes", "List every problem type.")
        },
    ),
    (
        "/problems/{slug}",
        Operation {
            headers: &[ACCEPT_LANGUAGE, IF_NONE_MATCH],
            replies: &[
                Reply::types_or_json::<ProblemType>(200, "The page.", FORMS).headers(SHOWN),
                pages::SAME,
            ],
            refusals: &[Kind::RouteNotFound],
            ..Operation::new("getProblemType", "Read what a problem type means.")
        },
    ),
];

/// The media types of a page beside JSON.
const FORMS: &[&str] = &["text/html", "application/xml"];

/// Header fields of a page.
const SHOWN: &[&str] = &["Vary", "Content-Language", "ETag"];

/// Every problem type.
#[derive(Serialize, JsonSchema)]
struct ProblemTypes<'a> {
    /// The language of titles and sentences.
    language: &'static str,
    /// The types.
    problems: &'a [ProblemType],
}

pub fn router(base: &str) -> Router {
    let pages = Pages { base: base.to_owned(), made: Arc::default() };
    let [(all, _), (one, _)] = ROUTES;
    Router::new().route(all, get(index)).route(one, get(page)).with_state(pages)
}

async fn index(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    pages.answer(None, &headers)
}

async fn page(State(pages): State<Pages>, Path(slug): Path<String>, headers: HeaderMap) -> Response {
    match problem_type::slugs().into_iter().find(|known| *known == slug) {
        Some(slug) => pages.answer(Some(slug), &headers),
        // The edge answers unknown pages.
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Pages {
    fn answer(&self, slug: Option<&'static str>, headers: &HeaderMap) -> Response {
        let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        let form = preferred(&lines.collect::<Vec<_>>().join(","));
        let pages = self.made.get_or_init(|| make(&self.base));
        let documents =
            pages.get(&(slug, language_of(headers))).expect("every page is made in every language");
        let mut response = documents[form as usize].answer(headers);
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept, Accept-Language"));
        response
    }
}

fn make(base: &str) -> HashMap<PageKey, [Document; 3]> {
    let mut pages = HashMap::new();
    for language in Language::ALL {
        let types: Vec<ProblemType> =
            problem_type::slugs().into_iter().map(|slug| ProblemType::new(base, slug, language)).collect();
        let forms = |html: String, json: String, xml: String| {
            [("text/html; charset=utf-8", html), ("application/json", json), ("application/xml", xml)]
                .map(|(media_type, text)| Document::new(media_type, text).in_language(language.tag()))
        };
        let all = ProblemTypes { language: language.tag(), problems: &types };
        let json = serde_json::to_string(&all).expect("texts and numbers");
        let index = forms(html::index(&types, language), json, xml::index(&types, language));
        pages.insert((None, language), index);
        for about in &types {
            let json = serde_json::to_string(about).expect("texts and numbers");
            let page = forms(html::page(about, language), json, xml::page(about, language));
            pages.insert((Some(about.slug), language), page);
        }
    }
    pages
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageFormat {
    Html = 0,
    Json = 1,
    Xml = 2,
}

/// The format with the highest quality; among equals HTML, which the type of a problem promises.
fn preferred(accept: &str) -> PageFormat {
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
        () if html >= json && html >= xml && html > 0.0 => PageFormat::Html,
        () if xml > json => PageFormat::Xml,
        () if json > 0.0 => PageFormat::Json,
        () => PageFormat::Html,
    }
}

#[cfg(test)]
mod tests {
    use forgerun_wire::language;

    use super::*;

    #[test]
    fn the_accept_header_picks_the_form_and_html_is_the_default() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, wanted) in [
            ("*/*", PageFormat::Html),
            ("", PageFormat::Html),
            (browser, PageFormat::Html),
            ("application/json", PageFormat::Json),
            ("application/json;q=0.5, application/xml", PageFormat::Xml),
            ("application/problem+json", PageFormat::Json),
            ("image/png", PageFormat::Html),
        ] {
            assert_eq!(preferred(accept), wanted, "{accept}");
        }
    }

    #[test]
    fn every_kind_has_a_page_with_uri_title_status_meaning_and_remedy() {
        for language in Language::ALL {
            for kind in Kind::ALL {
                let (entry, words) = (kind.entry(), language::words(*kind, language));
                let about = ProblemType::new("https://forge.example", entry.slug, language);
                assert_eq!(about.type_uri, format!("https://forge.example/problems/{}", entry.slug));
                assert_eq!(about.title, words.title);
                assert!(!about.status.v1.is_empty());
                let page = html::page(&about, language);
                for text in [words.title, words.meaning, words.remedy, entry.rfa, entry.ojs_or_custom()] {
                    assert!(page.contains(&xml::escape(text)), "{kind:?}: {text}");
                }
                assert!(!page.contains("<script"));
            }
        }
    }
}

//! The documentation as a site: the pages of `docs/` in the order of `docs/SUMMARY.md`, a search,
//! and the HTTP reference made from an OpenAPI document.
//!
//! | file | what |
//! |---|---|
//! | `book.rs` | the pages and their order |
//! | `markdown.rs`, `code.rs` | a page as HTML: headings with anchors, links of the site, code with tabs |
//! | `address.rs` | links between pages, relative, so that they work below any prefix |
//! | `search.rs` | sections of all pages, and which of them a query finds |
//! | `api.rs`, `schema.rs` | the HTTP reference |
//! | `layout.rs` | the frame of all pages |
//!
//! Pages work without script; a script adds copy buttons, the choice of light or dark, and one
//! choice of language for all tabs. Nothing is loaded from other hosts.

mod address;
mod api;
mod book;
mod code;
mod layout;
mod markdown;
mod schema;
mod search;

use std::collections::BTreeMap;

use serde_json::Value;

pub use address::Style;

const HTML: &str = "text/html; charset=utf-8";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All sections as a script: pages that are opened as files may not fetch.
pub(crate) const SEARCH_INDEX: &str = "search-index.js";

/// Path of the search.
pub const SEARCH: &str = "search";

/// A file of the site.
#[derive(Clone, Debug)]
pub struct File {
    pub media_type: &'static str,
    pub text: String,
}

/// The whole site, rendered.
pub struct Site {
    /// Every file by its address: without a leading slash, empty for the start page.
    pub files: BTreeMap<String, File>,
    pub search: Search,
}

/// The sections of all pages.
pub struct Search(Vec<search::Section>);

impl Site {
    /// Renders all pages. `openapi` is the document that the HTTP reference is made from.
    pub fn new(openapi: &Value, style: Style) -> Site {
        let book = book::Book::read();
        let mut files = BTreeMap::new();
        let mut sections = Vec::new();
        for page in book.pages() {
            let rendered = markdown::render(page, &book, style);
            let text = layout::page(&book, page, &rendered, style);
            files.insert(page.address().to_owned(), html(text));
            sections.extend(rendered.sections);
        }
        for page in api::pages(openapi, style) {
            files.insert(page.address.clone(), html(layout::api(&book, &page, style)));
            sections.extend(page.sections);
        }
        files.insert(String::new(), html(layout::home(&book, style)));
        files.insert("site.css".into(), asset("text/css; charset=utf-8", include_str!("assets/site.css")));
        files.insert("site.js".into(), asset(SCRIPT, include_str!("assets/site.js")));
        files.insert("icon.svg".into(), asset("image/svg+xml", include_str!("assets/icon.svg")));
        if style == Style::Files {
            files.insert(SEARCH.into(), html(layout::search(&book, "", &[], style)));
            files.insert(SEARCH_INDEX.into(), asset(SCRIPT, &search::index(&sections, style)));
        }
        Site { files, search: Search(sections) }
    }
}

impl Search {
    /// The page of a served site with what a query finds.
    pub fn page(&self, query: &str) -> File {
        let found = search::find(&self.0, query);
        html(layout::search(&book::Book::read(), query, &found, Style::Served))
    }
}

/// The name of the file for an address, in a folder.
pub fn file_name(address: &str) -> String {
    match address {
        "" => "index.html".to_owned(),
        address if address.rsplit('/').next().is_some_and(|name| name.contains('.')) => address.to_owned(),
        address => format!("{address}.html"),
    }
}

fn html(text: String) -> File {
    File { media_type: HTML, text }
}

fn asset(media_type: &'static str, text: &str) -> File {
    File { media_type, text: text.to_owned() }
}

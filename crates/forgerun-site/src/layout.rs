//! The frame of all pages: search, list of pages, contents of the page, the pages before and after.

use maud::{DOCTYPE, Markup, Render, html};

use crate::SEARCH_INDEX;
use crate::address::{self, Style};
use crate::api::{ApiPage, OVERVIEW};
use crate::book::{Book, Page, Part};
use crate::markdown::{Heading, Rendered};
use crate::search::Found;

/// Headings of a page from which on its contents are worth a list.
const CONTENTS_MIN: usize = 3;

/// The page that the HTTP reference follows.
const HTTP: &str = "reference/http.md";

/// A page without its frame.
struct Content<'a> {
    address: &'a str,
    title: &'a str,
    main: Markup,
    headings: &'a [Heading],
}

pub(crate) fn page(book: &Book, page: &Page, rendered: &Rendered, style: Style) -> String {
    let (before, after) = book.neighbours(page);
    let link = |to: &Page| address::link(page.address(), to.address(), style);
    let main = html! {
        (rendered.render())
        nav .turn aria-label="Next pages" {
            @if let Some(before) = before { a rel="prev" href=(link(before)) { "← " (before.title) } }
            @if let Some(after) = after { a rel="next" href=(link(after)) { (after.title) " →" } }
        }
    };
    let headings = &rendered.headings;
    framed(book, &Content { address: page.address(), title: page.title, main, headings }, style)
}

pub(crate) fn api(book: &Book, page: &ApiPage, style: Style) -> String {
    let main = page.markup.clone();
    let content = Content { address: &page.address, title: &page.title, main, headings: &page.headings };
    framed(book, &content, style)
}

/// The start page: every part with its pages.
pub(crate) fn home(book: &Book, style: Style) -> String {
    let main = html! {
        h1 { "ForgeRun " small { (env!("CARGO_PKG_VERSION")) } }
        p .lead {
            "A job server: submit work over HTTP, run it with workers in any language, and learn how it ended. "
            "One binary, on SQLite or PostgreSQL."
        }
        div .parts {
            @for part in &book.parts {
                section .part {
                    h2 { (part.title) }
                    ul {
                        @for (address, title) in entries(part) {
                            li { a href=(address::link("", address, style)) { (title) } }
                        }
                    }
                }
            }
        }
    };
    framed(book, &Content { address: "", title: "Documentation", main, headings: &[] }, style)
}

/// What a query finds; for a folder of files a page that a script fills.
pub(crate) fn search(book: &Book, query: &str, found: &[Found<'_>], style: Style) -> String {
    let from = crate::SEARCH;
    let main = html! {
        h1 { "Search" }
        @if style == Style::Files {
            p #results-note aria-live="polite" { "The search needs JavaScript." }
            ol #results .results { li { "…" } }
            script src=(address::asset(from, SEARCH_INDEX, style)) {}
        } @else if query.trim().is_empty() {
            p { "Enter words above. A section is found if it has all of them." }
        } @else if found.is_empty() {
            p { "No section has all of these words: " strong { (query) } "." }
        } @else {
            p { (found.len()) " sections for " strong { (query) } "." }
            ol .results {
                @for Found { section, excerpt } in found {
                    li {
                        a href=(section.link(from, style)) {
                            (section.page) @if !section.heading.is_empty() { ": " (section.heading) }
                        }
                        p { (excerpt) }
                    }
                }
            }
        }
    };
    framed_with(book, &Content { address: from, title: "Search", main, headings: &[] }, query, style)
}

fn framed(book: &Book, content: &Content<'_>, style: Style) -> String {
    framed_with(book, content, "", style)
}

fn framed_with(book: &Book, content: &Content<'_>, query: &str, style: Style) -> String {
    let from = content.address;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (content.title) " · ForgeRun" }
                link rel="icon" href=(address::asset(from, "icon.svg", style));
                link rel="stylesheet" href=(address::asset(from, "site.css", style));
                script src=(address::asset(from, "site.js", style)) defer {}
            }
            body {
                a .skip href="#main" { "Skip to the text" }
                header .top {
                    a .name href=(address::link(from, "", style)) { "ForgeRun" }
                    form role="search" action=(address::link(from, crate::SEARCH, style)) {
                        label .hidden for="q" { "Search the documentation" }
                        input #q type="search" name="q" value=(query) placeholder="Search" maxlength="100" autocomplete="off";
                    }
                    button #theme type="button" hidden { "Dark" }
                }
                div .columns {
                    (pages(book, from, style))
                    main #main tabindex="-1" { (content.main) }
                    (contents(content.headings))
                }
            }
        }
    };
    page.into_string()
}

/// Address and title of the pages of a part. The HTTP reference follows the page about HTTP.
fn entries(part: &Part) -> Vec<(&'static str, &'static str)> {
    let mut entries = Vec::new();
    for page in &part.pages {
        entries.push((page.address(), page.title));
        if page.path == HTTP {
            entries.push((OVERVIEW, "HTTP reference"));
        }
    }
    entries
}

/// The list of all pages. On a small screen it is folded.
fn pages(book: &Book, from: &str, style: Style) -> Markup {
    let current = |address: &str| (address == from).then_some("page");
    html! {
        nav .pages aria-label="Pages" {
            details open {
                summary { "Pages" }
                @for part in &book.parts {
                    p .part-title { (part.title) }
                    ul {
                        @for (address, title) in entries(part) {
                            li { a href=(address::link(from, address, style)) aria-current=[current(address)] { (title) } }
                        }
                    }
                }
            }
        }
    }
}

/// The headings of the page.
fn contents(headings: &[Heading]) -> Markup {
    if headings.len() < CONTENTS_MIN {
        return html! {};
    }
    html! {
        nav .contents aria-label="On this page" {
            p .part-title { "On this page" }
            ul {
                @for heading in headings {
                    li .inner[heading.is_inner] { a href=(format!("#{}", heading.anchor)) { (heading.text) } }
                }
            }
        }
    }
}

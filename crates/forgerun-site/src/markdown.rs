//! A page of Markdown as HTML of the site.
//!
//! Headings get anchors, links to other pages lead to their addresses, and links to files of the
//! source become plain text: the site does not have them. Raw HTML is shown as text, but for line
//! breaks; comments are dropped.

use std::collections::BTreeMap;

use maud::{PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::address::{self, Style, slug};
use crate::book::{Book, Page};
use crate::code::{self, CodeBlock};
use crate::search::Section;

/// A page, ready for its frame.
pub(crate) struct Rendered {
    pub(crate) html: String,
    pub(crate) headings: Vec<Heading>,
    pub(crate) sections: Vec<Section>,
}

/// A heading below the title of the page.
pub(crate) struct Heading {
    pub(crate) is_inner: bool,
    pub(crate) anchor: String,
    pub(crate) text: String,
}

pub(crate) fn render(page: &Page, book: &Book, style: Style) -> Rendered {
    let mut renderer = Renderer::new(page, book, style);
    for event in Parser::new_ext(page.text, Options::ENABLE_TABLES) {
        renderer.take(event);
    }
    renderer.finish()
}

struct Renderer<'a> {
    page: &'a Page,
    book: &'a Book,
    style: Style,
    output: Vec<Event<'a>>,
    headings: Vec<Heading>,
    sections: Vec<Section>,
    /// How often each anchor occurs.
    anchors: BTreeMap<String, usize>,
    /// Blocks of code that follow each other directly.
    blocks: Vec<CodeBlock>,
    /// Between `<!-- tabs -->` and its end.
    in_tabs: bool,
    n_tabs: usize,
    /// The name of the next tab.
    label: Option<String>,
    gather: Gather,
    /// Text and inline events of what is gathered.
    text: String,
    inline: Vec<Event<'a>>,
    table: Option<Table>,
    /// Links that lead out of the site, which are open.
    dropped_links: Vec<bool>,
}

/// What is gathered until it ends.
#[derive(Clone, Copy, PartialEq)]
enum Gather {
    Nothing,
    Heading(HeadingLevel),
    Code,
    /// A paragraph between tabs, which names one.
    Label,
    Picture,
}

/// Alignments of the columns, and where the table stands.
struct Table {
    alignments: Vec<pulldown_cmark::Alignment>,
    column: usize,
    in_head: bool,
}

impl<'a> Renderer<'a> {
    fn new(page: &'a Page, book: &'a Book, style: Style) -> Renderer<'a> {
        let first = Section::new(page.title, page.address());
        Renderer {
            page,
            book,
            style,
            output: Vec::new(),
            headings: Vec::new(),
            sections: vec![first],
            anchors: BTreeMap::new(),
            blocks: Vec::new(),
            in_tabs: false,
            n_tabs: 0,
            label: None,
            gather: Gather::Nothing,
            text: String::new(),
            inline: Vec::new(),
            table: None,
            dropped_links: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => self.begin_code(&kind),
            Event::End(TagEnd::CodeBlock) => self.end_code(),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Html(html) => self.raw(&html),
            event if self.gather != Gather::Nothing => self.gather(event),
            Event::Start(Tag::Paragraph) if self.in_tabs => self.gather = Gather::Label,
            Event::Start(Tag::Heading { level, .. }) => {
                self.flush();
                self.gather = Gather::Heading(level);
            }
            event => {
                self.flush();
                self.note(&event);
                self.pass(event);
            }
        }
    }

    /// Takes an event within a heading, a block of code or the name of a tab.
    fn gather(&mut self, event: Event<'a>) {
        match (self.gather, event) {
            (Gather::Heading(level), Event::End(TagEnd::Heading(_))) => self.end_heading(level),
            (Gather::Label, Event::End(TagEnd::Paragraph)) => {
                self.label = Some(std::mem::take(&mut self.text));
                self.gather = Gather::Nothing;
            }
            (Gather::Code | Gather::Label, Event::Text(text) | Event::Code(text)) => self.text += &text,
            (Gather::Heading(_), event) => {
                if let Event::Text(text) | Event::Code(text) = &event {
                    self.text += text;
                }
                self.inline.push(event);
            }
            _ => {}
        }
    }

    fn end_heading(&mut self, level: HeadingLevel) {
        let text = std::mem::take(&mut self.text);
        let n = self.anchors.entry(slug(&text)).or_default();
        let anchor = if *n == 0 { slug(&text) } else { format!("{}-{n}", slug(&text)) };
        *n += 1;
        self.gather = Gather::Nothing;
        let inline = std::mem::take(&mut self.inline);
        let name = match level {
            HeadingLevel::H1 => "h1",
            HeadingLevel::H2 => "h2",
            _ => "h3",
        };
        self.html(format!("<{name} id=\"{anchor}\">"));
        self.output.extend(inline);
        if level != HeadingLevel::H1 {
            let label = format!("Link to {text}");
            let link = html! { " " a .anchor href=(format!("#{anchor}")) aria-label=(label) { "#" } };
            self.html(link.into_string());
            let section = Section::new(self.page.title, self.page.address());
            self.sections.push(section.under(&text, &anchor));
            let is_inner = level != HeadingLevel::H2;
            self.headings.push(Heading { is_inner, anchor, text });
        }
        self.html(format!("</{name}>\n"));
    }

    fn begin_code(&mut self, kind: &CodeBlockKind<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or(""),
            CodeBlockKind::Indented => "",
        };
        let language = language.to_owned();
        let label = self.label.take();
        self.blocks.push(CodeBlock { label, language, text: String::new() });
        self.gather = Gather::Code;
    }

    fn end_code(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.gather = Gather::Nothing;
        self.section().add(&text);
        if let Some(block) = self.blocks.last_mut() {
            block.text = text;
        }
    }

    /// Writes the blocks of code that came directly before.
    fn flush(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        if blocks.is_empty() {
            return;
        }
        let is_tabs = blocks.len() > 1 && (self.in_tabs || code::are_tabs(&blocks));
        let markup = match is_tabs {
            true => code::tabs(&blocks, self.n_tabs),
            false => code::plain(&blocks),
        };
        self.n_tabs += usize::from(is_tabs);
        self.html(markup.into_string());
    }

    /// Raw HTML between blocks: comments, and pictures, which the site does not have.
    fn raw(&mut self, html: &str) {
        match html.trim() {
            "<!-- tabs -->" => {
                self.flush();
                self.in_tabs = true;
            }
            "<!-- /tabs -->" => {
                self.flush();
                self.in_tabs = false;
            }
            comment if comment.starts_with("<!--") => {}
            start if start.starts_with("<picture") => self.gather = Gather::Picture,
            end if end.starts_with("</picture") => self.gather = Gather::Nothing,
            _ if self.gather == Gather::Picture => {}
            other => self.html(html! { p { (other) } }.into_string()),
        }
    }

    /// Keeps the text of an event for the search.
    fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Text(text) | Event::Code(text) => self.section().add(text),
            Event::SoftBreak | Event::HardBreak | Event::End(_) => self.section().add(" "),
            _ => {}
        }
    }

    fn section(&mut self) -> &mut Section {
        self.sections.last_mut().expect("the title of the page begins one")
    }

    fn pass(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Link { dest_url, link_type, title, id }) => {
                let link = self.link(&dest_url);
                self.dropped_links.push(link.is_none());
                if let Some(dest_url) = link.map(Into::into) {
                    self.output.push(Event::Start(Tag::Link { dest_url, link_type, title, id }));
                }
            }
            Event::End(TagEnd::Link) if self.dropped_links.pop() == Some(true) => {}
            Event::InlineHtml(html) if html.starts_with("<!--") => {}
            Event::InlineHtml(html) if !html.starts_with("<br") => self.output.push(Event::Text(html)),
            event => self.pass_table(event),
        }
    }

    /// Tables are written here: they scroll by themselves, and styles are classes.
    fn pass_table(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Table(alignments)) => {
                self.table = Some(Table { alignments, column: 0, in_head: false });
                self.html("<div class=\"table\" tabindex=\"0\"><table>\n".into());
            }
            Event::End(TagEnd::Table) => {
                self.table = None;
                self.html("</tbody></table></div>\n".into());
            }
            Event::Start(Tag::TableHead) => self.begin_row(true, "<thead><tr>"),
            Event::End(TagEnd::TableHead) => self.html("</tr></thead><tbody>\n".into()),
            Event::Start(Tag::TableRow) => self.begin_row(false, "<tr>"),
            Event::End(TagEnd::TableRow) => self.html("</tr>\n".into()),
            Event::Start(Tag::TableCell) => self.begin_cell(),
            Event::End(TagEnd::TableCell) => {
                let in_head = self.table.as_ref().is_some_and(|table| table.in_head);
                self.html(if in_head { "</th>" } else { "</td>" }.into());
            }
            event => self.output.push(event),
        }
    }

    fn begin_row(&mut self, in_head: bool, html: &str) {
        if let Some(table) = &mut self.table {
            (table.in_head, table.column) = (in_head, 0);
        }
        self.html(html.into());
    }

    fn begin_cell(&mut self) {
        let Some(table) = &mut self.table else { return };
        let is_right = table.alignments.get(table.column) == Some(&pulldown_cmark::Alignment::Right);
        table.column += 1;
        let html = match (table.in_head, is_right) {
            (true, false) => "<th scope=\"col\">",
            (true, true) => "<th scope=\"col\" class=\"right\">",
            (false, false) => "<td>",
            (false, true) => "<td class=\"right\">",
        };
        self.html(html.into());
    }

    /// Where a link of the page leads in the site; `None` if it leads to a file of the source.
    fn link(&self, target: &str) -> Option<String> {
        if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
            return Some(target.to_owned());
        }
        let (file, anchor) = match target.split_once('#') {
            Some((file, anchor)) => (file, format!("#{anchor}")),
            None => (target, String::new()),
        };
        let path = address::resolve(self.page.folder(), file)?;
        let page = self.book.pages().find(|page| page.path == path)?;
        Some(address::link(self.page.address(), page.address(), self.style) + &anchor)
    }

    fn html(&mut self, html: String) {
        self.output.push(Event::Html(html.into()));
    }

    fn finish(mut self) -> Rendered {
        self.flush();
        let mut html = String::new();
        pulldown_cmark::html::push_html(&mut html, self.output.into_iter());
        Rendered { html, headings: self.headings, sections: self.sections }
    }
}

/// The HTML of a page, for a frame.
impl maud::Render for Rendered {
    fn render(&self) -> maud::Markup {
        PreEscaped(self.html.clone())
    }
}

#[cfg(test)]
mod tests;

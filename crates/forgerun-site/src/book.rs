//! The pages in their order. `docs/SUMMARY.md` has a heading per part and a line per page.

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// All parts.
pub(crate) struct Book {
    pub(crate) parts: Vec<Part>,
}

/// A part, such as *Learn*.
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) pages: Vec<Page>,
}

/// A page of Markdown.
pub(crate) struct Page {
    pub(crate) title: &'static str,
    /// Path below `docs/`, such as `reference/cli.md`.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
}

impl Page {
    /// The path without its extension.
    pub(crate) fn address(&self) -> &'static str {
        self.path.trim_end_matches(".md")
    }

    /// The folder of the page; empty for the root.
    pub(crate) fn folder(&self) -> &'static str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

impl Book {
    pub(crate) fn read() -> Book {
        Book::of(SUMMARY, FILES)
    }

    fn of(summary: &'static str, files: &[(&'static str, &'static str)]) -> Book {
        let mut parts: Vec<Part> = Vec::new();
        for line in summary.lines() {
            if let Some(title) = line.strip_prefix("# ") {
                parts.push(Part { title, pages: Vec::new() });
            }
            let Some((title, path)) = entry(line) else { continue };
            let Some((_, text)) = files.iter().find(|(known, _)| *known == path) else { continue };
            if let Some(part) = parts.last_mut() {
                part.pages.push(Page { title, path, text });
            }
        }
        parts.retain(|part| !part.pages.is_empty());
        Book { parts }
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = &Page> {
        self.parts.iter().flat_map(|part| &part.pages)
    }

    /// The pages before and after one.
    pub(crate) fn neighbours(&self, page: &Page) -> (Option<&Page>, Option<&Page>) {
        let pages: Vec<&Page> = self.pages().collect();
        let place = pages.iter().position(|known| known.path == page.path).unwrap_or(0);
        (place.checked_sub(1).map(|before| pages[before]), pages.get(place + 1).copied())
    }
}

/// `- [Title](path.md)`.
fn entry(line: &'static str) -> Option<(&'static str, &'static str)> {
    let (title, rest) = line.trim_start().strip_prefix("- [")?.split_once("](")?;
    Some((title, rest.split_once(')')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_the_order_of_the_summary() {
        let files = [("b.md", "# B"), ("a/c.md", "# C")];
        let book =
            Book::of("# Start\n\n- [See](a/c.md)\n- [Gone](gone.md)\n\n# Learn\n\n- [Be](b.md)\n", &files);
        let found: Vec<_> = book.pages().map(|page| (page.title, page.address(), page.folder())).collect();
        assert_eq!(found, [("See", "a/c", "a"), ("Be", "b", "")]);
        assert_eq!(book.parts.iter().map(|part| part.title).collect::<Vec<_>>(), ["Start", "Learn"]);
        let (before, after) = book.neighbours(&book.parts[0].pages[0]);
        assert!(before.is_none() && after.is_some_and(|page| page.title == "Be"));
    }

    #[test]
    fn the_pages_of_the_repository_are_in_the_binary() {
        assert!(Book::read().pages().count() > 20);
    }

    #[test]
    fn all_pages_together_take_less_than_a_megabyte() {
        let bytes: usize = FILES.iter().map(|(path, text)| path.len() + text.len()).sum();
        assert!(bytes < 1_000_000, "{bytes} bytes");
    }
}

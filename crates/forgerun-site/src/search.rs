//! The search: every section of every page, and the sections in which all words of a query occur.

use serde_json::json;

use crate::address::{self, Style};

/// Letters of a query that count.
const QUERY_MAX: usize = 100;

/// Words of a query that count.
const WORDS_MAX: usize = 8;

/// Sections that one answer shows.
const FOUND_MAX: usize = 40;

/// Letters of an excerpt before and after the first word found.
const EXCERPT: (usize, usize) = (60, 140);

/// A heading of a page with the text below it.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) page: String,
    pub(crate) address: String,
    /// Empty for the text above the first heading.
    pub(crate) heading: String,
    pub(crate) anchor: String,
    pub(crate) text: String,
}

impl Section {
    pub(crate) fn new(page: &str, address: &str) -> Section {
        let [heading, anchor, text] = [String::new(), String::new(), String::new()];
        Section { page: page.to_owned(), address: address.to_owned(), heading, anchor, text }
    }

    pub(crate) fn under(self, heading: &str, anchor: &str) -> Section {
        Section { heading: heading.to_owned(), anchor: anchor.to_owned(), ..self }
    }

    /// Adds text, with single spaces.
    pub(crate) fn add(&mut self, text: &str) {
        let is_apart = text.starts_with(char::is_whitespace) || self.text.is_empty();
        if is_apart && !self.text.ends_with(' ') && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text += &text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.len() > 1 && text.ends_with(char::is_whitespace) {
            self.text.push(' ');
        }
    }

    pub(crate) fn link(&self, from: &str, style: Style) -> String {
        let link = address::link(from, &self.address, style);
        if self.anchor.is_empty() { link } else { format!("{link}#{}", self.anchor) }
    }

    /// How well the section fits; 0 if a word is missing.
    fn score(&self, words: &[String]) -> usize {
        let title = self.page.to_lowercase();
        let heading = self.heading.to_lowercase();
        let text = self.text.to_lowercase();
        let mut sum = 0;
        for word in words {
            let in_text = starts(&text, word).take(5).count();
            let in_heading = starts(&heading, word).take(1).count();
            let in_title = starts(&title, word).take(1).count();
            let score = in_heading * 20 + in_title * 8 + in_text;
            if score == 0 {
                return 0;
            }
            sum += score;
        }
        // Pages for contributors come after those for users.
        let share = if self.address.starts_with("internals/") { 8 } else { 1 };
        (sum + usize::from(heading.is_empty()) * 2).div_ceil(share)
    }

    /// The text around the first word.
    fn excerpt(&self, words: &[String]) -> String {
        let letters: Vec<char> = self.text.chars().collect();
        let lower: String = letters.iter().map(|c| c.to_lowercase().next().unwrap_or(*c)).collect();
        let first = words.iter().filter_map(|word| starts(&lower, word).next()).min().unwrap_or(0);
        let middle = lower[..first].chars().count();
        let start = middle.saturating_sub(EXCERPT.0);
        let end = (middle + EXCERPT.1).min(letters.len());
        let text: String = letters[start..end].iter().collect();
        let before = if start == 0 { "" } else { "… " };
        let after = if end == letters.len() { "" } else { " …" };
        format!("{before}{}{after}", text.trim())
    }
}

/// A section that a query finds.
pub(crate) struct Found<'a> {
    pub(crate) section: &'a Section,
    pub(crate) excerpt: String,
}

/// Where words of a text begin like this one.
fn starts<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_start = |at: &usize| !text[..*at].chars().next_back().is_some_and(char::is_alphanumeric);
    text.match_indices(word).map(|(at, _)| at).filter(is_start)
}

/// The words of a query, in lower case.
fn words(query: &str) -> Vec<String> {
    let query: String = query.chars().take(QUERY_MAX).collect();
    query.to_lowercase().split_whitespace().take(WORDS_MAX).map(str::to_owned).collect()
}

/// Sections that have all words, best first.
pub(crate) fn find<'a>(sections: &'a [Section], query: &str) -> Vec<Found<'a>> {
    let words = words(query);
    if words.is_empty() {
        return Vec::new();
    }
    let scored = sections.iter().map(|section| (section.score(&words), section));
    let mut found: Vec<(usize, &Section)> = scored.filter(|(score, _)| *score > 0).collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.truncate(FOUND_MAX);
    found.into_iter().map(|(_, section)| Found { section, excerpt: section.excerpt(&words) }).collect()
}

/// All sections for the search in a folder of files, which a script does.
pub(crate) fn index(sections: &[Section], style: Style) -> String {
    let rows = sections.iter().map(|section| {
        json!([section.page, section.heading, section.link(crate::SEARCH, style), section.text])
    });
    format!("globalThis.SECTIONS = {};\n", serde_json::Value::from_iter(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(heading: &str, text: &str) -> Section {
        let mut section = Section::new("Leases", "learn/leases").under(heading, "x");
        section.add(text);
        section
    }

    #[test]
    fn all_words_must_occur_and_headings_count_most() {
        let sections = [
            section("Heartbeats", "A worker extends its lease."),
            section("Fencing", "A token per claim."),
            section("The end of a lease", "The job goes back. A worker that is late is refused."),
        ];
        let headings = |query: &str| -> Vec<String> {
            find(&sections, query).iter().map(|found| found.section.heading.clone()).collect()
        };
        assert_eq!(headings("LEASE worker"), ["The end of a lease", "Heartbeats"]);
        assert_eq!(headings("token nowhere"), [""; 0]);
        assert_eq!(headings("  "), [""; 0]);
    }

    #[test]
    fn words_are_found_by_their_beginning_and_pages_for_contributors_come_last() {
        let mut inner = Section::new("Decisions", "internals/adr").under("Leases of leases", "y");
        inner.add("A lease.");
        let sections = [inner, section("Release", "A release."), section("Other", "Its leases.")];
        let found: Vec<_> =
            find(&sections, "lease").iter().map(|found| found.section.heading.clone()).collect();
        assert_eq!(found, ["Other", "Release", "Leases of leases"]);
    }

    #[test]
    fn an_excerpt_is_cut_around_the_first_word() {
        let text = format!("{} needle {}", "ä ".repeat(100), "z ".repeat(200));
        let long = [section("", &text)];
        let found = find(&long, "needle");
        assert!(found[0].excerpt.starts_with("… ä") && found[0].excerpt.ends_with("z …"));
        assert!(found[0].excerpt.contains("needle") && found[0].excerpt.chars().count() < 210);
    }

    #[test]
    fn a_long_query_is_cut() {
        assert_eq!(words(&"a ".repeat(1000)).len(), WORDS_MAX);
        assert_eq!(words(&"a".repeat(1000))[0].len(), QUERY_MAX);
    }
}

//! The language of pages for users: no internal words, no riddles, short sentences, and few words
//! in all; short entries in the changelog.

use crate::repo::{self, File};
use crate::words;

/// Words of all pages for users together: 40,000 for version 0.2, and room for what is built since:
/// flows, access, shares, doors and proofs.
const WORDS_MAX: usize = 48_000;

/// Words of a sentence.
const SENTENCE_MAX: usize = 30;

/// Words of an entry of the changelog.
const ENTRY_MAX: usize = 20;

/// Words of an average sentence.
const AVERAGE_MAX: usize = 16;

/// Words that name parts of the program, and verbs that the field says otherwise. Pronouns for roles
/// are in [`words::RIDDLES`].
const WORDS: [&str; 13] = [
    "shelf",
    "shelves",
    "facet",
    "facets",
    "chore",
    "chores",
    "hear of",
    "hears of",
    "told of",
    "tells of",
    "call off",
    "called off",
    "calls off",
];

/// Folders of pages for users: one per part, without what contributors need.
const PARTS: [&str; 5] = ["docs/start/", "docs/learn/", "docs/do/", "docs/reference/", "docs/understand/"];

fn is_for_users(page: &File) -> bool {
    PARTS.iter().any(|part| page.path.starts_with(part))
}

/// Prose without code: paragraphs and items of lists, each as one text, with its line.
fn passages(text: &str) -> Vec<(usize, String)> {
    let mut passages: Vec<(usize, String)> = Vec::new();
    let mut in_code = false;
    let mut goes_on = false;
    for (n, line) in text.lines().enumerate() {
        let plain = line.trim();
        if plain.starts_with("```") {
            in_code = !in_code;
        }
        let is_prose = !in_code && !plain.is_empty() && !plain.starts_with(['|', '#', '<', '`', '!']);
        let begins = ["- ", "* "].iter().any(|mark| plain.starts_with(mark))
            || plain.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        match (is_prose, goes_on && !begins) {
            (true, true) => {
                let (_, text) = passages.last_mut().expect("one goes on");
                *text += " ";
                *text += plain;
            }
            (true, false) => passages.push((n + 1, plain.to_owned())),
            (false, _) => {}
        }
        goes_on = is_prose;
    }
    passages.into_iter().map(|(line, text)| (line, without_code(&text))).collect()
}

/// A text with one word for each piece of code, and without the addresses of links.
fn without_code(text: &str) -> String {
    let mut plain = String::new();
    for (n, part) in text.split('`').enumerate() {
        plain += if n % 2 == 0 { part } else { "code" };
    }
    let mut parts = plain.split("](");
    let mut result = parts.next().unwrap_or("").to_owned();
    for part in parts {
        result += part.split_once(')').map_or("", |(_, rest)| rest);
    }
    result
}

/// The sentences of a passage.
fn sentences(passage: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for word in passage.split_whitespace() {
        let sentence = sentences.last_mut().expect("never empty");
        *sentence += word;
        *sentence += " ";
        let bare = word.trim_end_matches(['*', ')', '"', '_']);
        if bare.ends_with(['.', '?', '!', ':', ';', '…']) && !matches!(bare, "e.g." | "i.e." | "…") {
            sentences.push(String::new());
        }
    }
    sentences.retain(|sentence| n_words(sentence) > 0);
    sentences
}

fn n_words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

fn complaints(page: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, passage) in passages(&page.text) {
        for sentence in sentences(&passage) {
            let n = n_words(&sentence);
            if n > SENTENCE_MAX {
                complaints
                    .push(format!("{}:{line}: {n} words, at most {SENTENCE_MAX}: {sentence}", page.path));
            }
        }
    }
    for (n, line) in page.text.lines().enumerate() {
        let lower =
            format!(" {} ", line.to_lowercase().replace(|c: char| !c.is_alphanumeric() && c != '\'', " "));
        let words = WORDS.iter().chain(&words::RIDDLES);
        for word in words.filter(|word| lower.contains(&format!(" {word} "))) {
            complaints.push(format!("{}:{}: say {word:?} in other words", page.path, n + 1));
        }
        if let Some(number) = ruling(line) {
            complaints.push(format!("{}:{}: {number} is for the page of rulings", page.path, n + 1));
        }
    }
    complaints
}

/// Entries of the changelog that are too long, or have more than one line.
fn long_entries(changelog: &str) -> Vec<String> {
    let entries = changelog.lines().filter(|line| line.starts_with("- ") || line.starts_with("  "));
    let long = entries.filter(|entry| entry.starts_with("  ") || n_words(entry) > ENTRY_MAX);
    long.map(|entry| format!("CHANGELOG.md: one line of {ENTRY_MAX} words at most: {entry}")).collect()
}

/// The number of a ruling, such as `C-116`.
fn ruling(line: &str) -> Option<&str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '-').find(|word| {
        word.strip_prefix("C-").is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
    })
}

mod can_fail {
    use super::*;

    #[test]
    fn long_sentences_internal_words_and_rulings_are_named() {
        let long = "word ".repeat(SENTENCE_MAX + 1);
        let text =
            format!("# A\n\nShort. {long}end.\n\n- The shelf (C-116).\n\n| {long} |\n\n```sh\n{long}\n```\n");
        let found = complaints(&File::new("docs/a.md", &text));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:3: 32 words"), "{found:?}");
        assert!(found[1].contains("\"shelf\"") && found[2].contains("C-116"), "{found:?}");
    }

    #[test]
    fn an_entry_of_several_lines_or_many_words_is_named() {
        let changelog = format!("# A\n\n- Short.\n- Two\n  lines.\n- {}\n", "word ".repeat(ENTRY_MAX + 1));
        assert_eq!(long_entries(&changelog).len(), 2);
    }

    #[test]
    fn lines_of_a_paragraph_and_items_of_a_list_are_told_apart() {
        let found = passages("a `b c`\n[d](e f) g.\n- h\n  i\n2. j\n\nk");
        let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["a code [d g.", "- h i", "2. j", "k"]);
    }
}

#[test]
fn pages_for_users_are_in_plain_english() {
    let pages = repo::files("docs", "md");
    crate::assert_tidy(
        &pages.iter().filter(|page| is_for_users(page)).flat_map(complaints).collect::<Vec<_>>(),
    );
}

#[test]
fn pages_for_users_have_few_words_and_short_sentences() {
    let pages = repo::files("docs", "md");
    let (mut n_all, mut lengths) = (0, Vec::new());
    for page in pages.iter().filter(|page| is_for_users(page)) {
        n_all += n_words(&page.text);
        let passages = passages(&page.text);
        lengths.extend(passages.iter().flat_map(|(_, text)| sentences(text)).map(|one| n_words(&one)));
    }
    let average = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
    println!("{n_all} words; {} sentences of {average:.1} words", lengths.len());
    assert!(n_all <= WORDS_MAX, "{n_all} words, at most {WORDS_MAX}");
    assert!(average <= AVERAGE_MAX as f64, "{average:.1} words in an average sentence");
}

#[test]
fn entries_of_the_changelog_are_short() {
    crate::assert_tidy(&long_entries(&repo::read("CHANGELOG.md")));
}

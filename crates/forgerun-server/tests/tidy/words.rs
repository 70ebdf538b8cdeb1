//! Plain English: comments and messages name roles instead of pronouns, and comments end at column 100.

use crate::repo::{self, File};

/// Crates whose comments and messages follow the rules. The others join when they do.
const CRATES: [&str; 7] = [
    "forgerun-core",
    "forgerun-engine",
    "forgerun-sim",
    "forgerun-schema",
    "forgerun-probe",
    "forgerun-cli",
    "forgerun-server",
];

/// Words and phrases that a reader has to translate: the role (client, worker, operator) or the condition is plainer.
pub(crate) const RIDDLES: [&str; 8] = [
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "that is none",
    "an id of nothing",
    "what there is to",
];

const WIDTH_MAX: usize = 100;

fn counts(file: &File) -> bool {
    let of_tests = file.path.contains("/tests/") || file.path.ends_with("tests.rs");
    file.is_shipped() && CRATES.contains(&file.crate_name()) && !of_tests
}

/// The lines before the test module, with their numbers.
fn lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let shipped = file.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    shipped.enumerate().map(|(index, line)| (index + 1, line))
}

/// The comment or the string literals of a line: what people read.
fn prose(line: &str) -> String {
    match line.trim_start().strip_prefix("//") {
        Some(comment) => comment.to_lowercase(),
        None => line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ").to_lowercase(),
    }
}

fn says(prose: &str, phrase: &str) -> bool {
    let is_letter = |edge: Option<char>| edge.is_some_and(char::is_alphanumeric);
    prose.match_indices(phrase).any(|(at, _)| {
        !is_letter(prose[..at].chars().next_back()) && !is_letter(prose[at + phrase.len()..].chars().next())
    })
}

fn riddles(file: &File) -> Vec<String> {
    let found = lines(file).flat_map(|(number, line)| {
        let prose = prose(line);
        let said = RIDDLES.into_iter().filter(move |phrase| says(&prose, phrase));
        said.map(move |phrase| (number, phrase)).collect::<Vec<_>>()
    });
    found
        .map(|(number, phrase)| format!("{}:{number}: name the role instead of \"{phrase}\"", file.path))
        .collect()
}

/// Comments that are too wide. Blocks of text, such as pictures, and tables cannot be wrapped.
fn wide(file: &File) -> Vec<String> {
    let mut in_block = false;
    let mut found = Vec::new();
    for (number, line) in lines(file) {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        in_block ^= text.starts_with("```");
        if !in_block && !text.starts_with('|') && line.chars().count() > WIDTH_MAX {
            found.push(format!("{}:{number}: wrap the comment at column {WIDTH_MAX}", file.path));
        }
    }
    found
}

mod can_fail {
    use super::*;

    fn file(text: &str) -> File {
        File::new("crates/forgerun-core/src/job.rs", text)
    }

    #[test]
    fn a_pronoun_in_a_comment_or_message_is_named() {
        let text = "/// Whoever asks.\nlet x = \"nobody answers\"; // fine\nlet nobody = 1;\n/// Nobodys.\n";
        let place = |n: usize, phrase: &str| {
            format!("crates/forgerun-core/src/job.rs:{n}: name the role instead of \"{phrase}\"")
        };
        assert_eq!(riddles(&file(text)), [place(1, "whoever"), place(2, "nobody")]);
    }

    #[test]
    fn tests_may_say_what_they_like() {
        assert_eq!(
            riddles(&file("fn a() {}\n#[cfg(test)]\nmod tests {\n    // Nobody reads this.\n}\n")),
            [""; 0]
        );
        assert!(!counts(&File::new("crates/forgerun-core/src/job/tests.rs", "")));
        assert!(!counts(&File::new("crates/forgerun-store/src/lib.rs", "")));
        assert!(counts(&file("")));
    }

    #[test]
    fn a_wide_comment_is_named_and_a_wide_picture_is_not() {
        let word = "word ".repeat(20);
        assert_eq!(wide(&file(&format!("/// {word}\n"))).len(), 1);
        let picture = format!("//! ```text\n//! ──► {word}\n//! ```\n//! | {word}|\nlet text = 1; {word}\n");
        assert_eq!(wide(&file(&picture)), [""; 0]);
        assert_eq!(wide(&file(&format!("{picture}// {word}\n"))).len(), 1);
        assert_eq!(wide(&file(&format!("/// {}\n", "x".repeat(96)))), [""; 0]);
    }
}

fn checked(complaints: impl Fn(&File) -> Vec<String>) {
    let files = repo::files("crates", "rs");
    let files: Vec<&File> = files.iter().filter(|file| counts(file)).collect();
    assert!(files.len() > 100, "found no files");
    crate::assert_tidy(&files.into_iter().flat_map(complaints).collect::<Vec<_>>());
}

#[test]
fn comments_and_messages_name_roles() {
    checked(riddles);
}

#[test]
fn comments_are_no_wider_than_a_page() {
    checked(wide);
}

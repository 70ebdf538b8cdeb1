//! The languages in which problems are explained. English is the catalog's own; German shows that there can be more.
//!
//! - [`Language::wanted`] picks one by `Accept-Language` (RFC 4647 lookup);
//! - [`words`] are the title, meaning and remedy of a kind: an exhaustive match, so a new kind does not compile before it
//!   has German words;
//! - [`sentence`] and [`clause`] translate what the server says about one occurrence, by the English text.
//!
//! A text that has no translation is said in general, by the kind, or not at all in German: nothing is ever called German
//! that is not. OJS's `message` stays English whatever is asked for (ruling C-38).

mod german;
mod sentences;

use forgerun_core::catalog::Kind;
use forgerun_problem::negotiate;

pub use sentences::{clause, sentence};

/// A language that problems can be explained in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// What everybody gets who asks for nothing else.
    #[default]
    English,
    /// The second one.
    German,
}

/// What is said of a kind, whatever the occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The title of its problem type.
    pub title: &'static str,
    /// One sentence: what happened.
    pub meaning: &'static str,
    /// One sentence: what the reader can do about it.
    pub remedy: &'static str,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 2] = [Language::English, Language::German];

    /// The language tag, as in `Content-Language`.
    pub const fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::German => "de",
        }
    }

    /// The language with this tag.
    pub fn parse(tag: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.tag() == tag)
    }

    /// The one that an `Accept-Language` header asks for; English where it asks for none of ours.
    pub fn wanted(accept_language: Option<&str>) -> Language {
        let Some(accept_language) = accept_language else { return Language::English };
        let tag =
            negotiate::language(Some(accept_language), Language::English.tag(), &[Language::German.tag()]);
        Language::parse(tag).unwrap_or_default()
    }

    /// How a job remembers it: English is remembered by saying nothing.
    pub fn stored(self) -> Option<String> {
        (self != Language::English).then(|| self.tag().to_owned())
    }
}

/// What is said of a kind in a language.
pub fn words(kind: Kind, language: Language) -> Words {
    match language {
        Language::English => {
            let entry = kind.entry();
            Words { title: entry.title, meaning: entry.meaning, remedy: entry.remedy }
        }
        Language::German => german::words(kind),
    }
}

/// What is said about a failure of this kind, in the language: the kind's own meaning, or a sentence of the server. `None` if
/// there is no translation.
pub fn phrase(kind: Kind, english: &str, language: Language) -> Option<String> {
    if english == kind.entry().meaning {
        return Some(words(kind, language).meaning.to_owned());
    }
    sentence(english, language)
}

/// The title that the async-operations pattern has for all that is wrong with a body.
pub const fn of_any_bad_body(language: Language) -> &'static str {
    match language {
        Language::English => "One or more validation errors occurred.",
        Language::German => "Die Angaben sind fehlerhaft.",
    }
}

/// The reason phrase of a status code, as the title of a problem without a type of its own; `None` where there is none in
/// this language.
pub fn reason(status: u16, language: Language) -> Option<&'static str> {
    match language {
        Language::English => {
            forgerun_problem::Status::new(status).ok().and_then(forgerun_problem::Status::reason)
        }
        Language::German => german::reason(status),
    }
}

/// The language a title of ours is written in. Titles differ between the languages, so a stored object needs no mark.
pub fn of_title(title: &str) -> Language {
    let german = Kind::ALL.iter().any(|kind| german::words(*kind).title == title);
    if german { Language::German } else { Language::English }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use forgerun_core::job::Dialect;

    use super::*;
    use crate::status;

    #[test]
    fn the_accept_language_header_picks_the_language() {
        for (accept, expected) in [
            ("de", Language::German),
            ("DE", Language::German),
            ("de-CH-1996", Language::German),
            ("de;q=0.5, en;q=0.4", Language::German),
            ("en;q=0.1,de;q=0.9", Language::German),
            ("fr, de;q=0.1", Language::German),
            ("en, de", Language::English),
            ("en-GB, de;q=0.9", Language::English),
            ("de;q=0", Language::English),
            ("de;q=nonsense", Language::English),
            ("den", Language::English),
            ("fr", Language::English),
            ("*", Language::English),
            ("", Language::English),
            (";;;,,,---\u{e9}", Language::English),
        ] {
            assert_eq!(Language::wanted(Some(accept)), expected, "{accept}");
        }
        assert_eq!(Language::wanted(None), Language::English);
    }

    #[test]
    fn a_stored_language_is_read_as_it_is_written_and_english_needs_no_mark() {
        for language in Language::ALL {
            let stored = language.stored();
            assert_eq!(stored.as_deref().and_then(Language::parse).unwrap_or_default(), language);
        }
        assert_eq!(Language::English.stored(), None);
        assert_eq!(Language::parse("de-AT"), None);
    }

    #[test]
    fn every_kind_has_german_words_of_its_own() {
        let mut titles = BTreeMap::new();
        for kind in Kind::ALL {
            let (english, german) = (words(*kind, Language::English), words(*kind, Language::German));
            for (english, german) in [
                (english.title, german.title),
                (english.meaning, german.meaning),
                (english.remedy, german.remedy),
            ] {
                assert!(!german.is_empty() && german != english, "{kind:?}: {german}");
                assert!(!german.contains("  ") && german == german.trim(), "{kind:?}: {german}");
            }
            for sentence in [german.meaning, german.remedy] {
                assert!(sentence.ends_with('.') && !sentence.contains(". "), "{kind:?}: {sentence}");
                assert!(sentence.starts_with(char::is_uppercase), "{kind:?}: {sentence}");
            }
            // One title per type, in German as in English.
            assert_eq!(*titles.entry(kind.entry().slug).or_insert(german.title), german.title, "{kind:?}");
        }
    }

    #[test]
    fn a_title_tells_its_language() {
        for kind in Kind::ALL {
            for language in Language::ALL {
                assert_eq!(of_title(words(*kind, language).title), language, "{kind:?}");
            }
        }
    }

    #[test]
    fn every_status_a_refusal_can_have_has_a_reason_phrase_in_both() {
        for kind in Kind::ALL {
            for dialect in [Dialect::Forge, Dialect::Operations, Dialect::Ojs] {
                let code = status::http(*kind, dialect);
                let [english, german] = Language::ALL.map(|language| reason(code, language));
                assert!(english.is_some() && german.is_some() && english != german, "{code}");
            }
        }
    }
}

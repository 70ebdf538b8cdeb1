//! The worst case cost of matching a pattern.
//!
//! The engine usually needs one step per byte. A pattern such as `[ab]{9000}[^ab]` makes it track
//! thousands of places at once, and then it needs a step per byte and place. So the cost of a
//! pattern is its number of places, with repetitions expanded.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::limits::PATTERN_PLACES_MAX;

/// The places of a pattern. An unparsable one counts as too many.
pub(crate) fn places(pattern: &str) -> usize {
    let unreadable = PATTERN_PLACES_MAX + 1;
    let Ok(pattern) = jsonschema_regex::to_rust_regex(pattern) else { return unreadable };
    regex_syntax::parse(&pattern).map_or(unreadable, |hir| places_of(&hir))
}

fn places_of(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        // A character beyond ASCII has up to four bytes, and a place for each.
        HirKind::Class(Class::Unicode(class)) if !class.is_ascii() => 4,
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            places_of(&repetition.sub).saturating_mul(times as usize)
        }
        // The engine records where a group begins and ends.
        HirKind::Capture(capture) => places_of(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(places_of).fold(0, usize::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_written_out() {
        for (pattern, expected) in [
            ("^abc$", 5),
            ("[ab]{9000}[^ab]", 9004),
            ("([a-z]{10}-){3}", 39),
            ("(()a){10}", 60),
            ("x*|y+|z{2,}", 6),
            (r"\d{5}", 5),
            (r"\/", 1),
        ] {
            assert_eq!(places(pattern), expected, "{pattern}");
        }
        assert!(places("(") > PATTERN_PLACES_MAX);
    }
}

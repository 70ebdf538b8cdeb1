//! Near misses in objects whose unknown members are kept (C-122): `max_atempts` would be kept and change nothing.

use forgerun_core::catalog::Kind;
use strsim::damerau_levenshtein;

use super::members::{Members, ViolationList};
use crate::body::quoted;

/// Complains about members of the object at `at` whose names nearly are known ones.
pub(super) fn check(at: &str, members: &Members<'_>, known: &[&str], violations: &mut ViolationList) {
    for (name, _) in &members.0 {
        if let Some(meant) = meant(name, known) {
            let path = format!("{at}.{}", quoted(name));
            let detail = format!("is unknown; did you mean `{meant}`?");
            violations.add(Kind::InvalidArgs, &path, detail, "unknown");
        }
    }
}

/// The known name that a name nearly is: two edits from seven letters on, one for five and six.
pub(super) fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let edits_max = match name.chars().count() {
        0..=4 => return None,
        5 | 6 => 1,
        7..=64 => 2,
        _ => return None,
    };
    if known.contains(&name) {
        return None;
    }
    let near = known.iter().map(|known| (damerau_levenshtein(name, known), *known));
    near.filter(|(edits, _)| *edits <= edits_max).min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_near_miss_by_its_length() {
        const KNOWN: &[&str] = &["queue", "tags", "timeout", "max_attempts"];
        for (name, expected) in [
            ("quue", None),
            ("queues", Some("queue")),
            ("qeueu", None),
            ("queu1e", Some("queue")),
            ("tag", None),
            ("timout", Some("timeout")),
            ("timeouuut", Some("timeout")),
            ("max_atempts", Some("max_attempts")),
            ("maxAttempts", Some("max_attempts")),
            ("max_attempts", None),
            ("colour", None),
            ("x-trace", None),
        ] {
            assert_eq!(meant(name, KNOWN), expected, "{name}");
        }
    }
}

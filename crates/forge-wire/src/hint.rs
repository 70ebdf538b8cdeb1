//! Near misses: what somebody probably meant to write.

use strsim::damerau_levenshtein;

/// The candidate that is `word` but for case, separators and a few letters; failing that, the only one with the same
/// last part (a key in the wrong section, or in none).
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let wanted = letters(word);
    let slips_max = (wanted.len() / 5).max(1);
    let close = candidates
        .clone()
        .map(|candidate| (damerau_levenshtein(&wanted, &letters(candidate)), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips);
    close.map(|(_, candidate)| candidate).or_else(|| same_last_part(word, candidates))
}

fn same_last_part<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(last_part(word));
    let mut same = candidates.filter(|candidate| letters(last_part(candidate)) == wanted);
    match (same.next(), same.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// What is left when case and separators are ignored.
fn letters(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &[
        "limits.rate_per_minute",
        "limits.quota",
        "retry.base_ms",
        "webhooks.base_ms",
        "jobRetention.failedJobs.defaultDays",
    ];

    #[test]
    fn a_near_miss_finds_the_key() {
        for (word, expected) in [
            ("limits.rate_per_minut", Some("limits.rate_per_minute")),
            ("limits.ratePerMinute", Some("limits.rate_per_minute")),
            ("limit.quota", Some("limits.quota")),
            ("limits_quota", Some("limits.quota")),
            ("quota", Some("limits.quota")),
            ("server.quota", Some("limits.quota")),
            ("jobretention.failedjobs.default_days", Some("jobRetention.failedJobs.defaultDays")),
            ("base_ms", None),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, KEYS.iter().copied()), expected, "{word}");
        }
    }
}

//! Near misses: what somebody probably meant to write.

use strsim::damerau_levenshtein;

/// The candidate that is `word` but for case, separators and a few letters; failing that, the only one with the same
/// last part (a key in the wrong section, or in none), or the only one that `word` is short for.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let wanted = letters(word);
    let slips_max = (wanted.len() / 5).max(1);
    let close = candidates
        .clone()
        .map(|candidate| (damerau_levenshtein(&wanted, &letters(candidate)), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips);
    close
        .map(|(_, candidate)| candidate)
        .or_else(|| same_last_part(word, candidates.clone()))
        .or_else(|| only(candidates, |candidate| is_short_for(&wanted, candidate)))
}

/// Letters that a short form has at least.
const SHORT_FORM_MIN: usize = 4;

/// Whether a word is what is left of a candidate without some of its letters (`params` of `parameters`), or its last word
/// (`id` of `job_id`).
fn is_short_for(wanted: &str, candidate: &str) -> bool {
    if !wanted.is_empty()
        && candidate.rsplit('_').next().is_some_and(|last| candidate.contains('_') && last == wanted)
    {
        return true;
    }
    let whole = letters(candidate);
    let mut rest = whole.chars();
    wanted.len() >= SHORT_FORM_MIN
        && wanted.chars().next() == whole.chars().next()
        && wanted.chars().last() == whole.chars().last()
        && wanted.chars().all(|letter| rest.any(|other| other == letter))
}

fn only<'a>(candidates: impl Iterator<Item = &'a str>, fits: impl Fn(&str) -> bool) -> Option<&'a str> {
    let mut fitting = candidates.filter(|candidate| fits(candidate));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

fn same_last_part<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(last_part(word));
    only(candidates, |candidate| letters(last_part(candidate)) == wanted)
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

    #[test]
    fn a_short_form_finds_the_member() {
        let members = ["type", "parameters", "queue", "job_id", "worker_id"];
        for (word, expected) in [
            ("params", Some("parameters")),
            ("Params", Some("parameters")),
            ("parms", Some("parameters")),
            ("id", None),
            ("pars", Some("parameters")),
            ("ps", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, members.into_iter()), expected, "{word}");
        }
        assert_eq!(nearest("id", ["job_id", "queue"].into_iter()), Some("job_id"));
    }
}

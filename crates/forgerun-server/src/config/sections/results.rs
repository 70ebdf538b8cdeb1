//! Where large results are kept: `[results]`.

use crate::config::reader::SettingsReader;
use crate::config::secret::Secret;
use crate::config::values::{URL, url};

#[derive(Clone, Debug)]
pub struct Results {
    /// `None`: in the database's store.
    pub store: Option<ResultStore>,
    /// Without a trailing slash; `None` for AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret>,
}

/// A part of an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultStore {
    pub bucket: String,
    /// Prefix of object names; may be empty.
    pub prefix: String,
}

const STORE: &str = "s3://bucket or s3://bucket/prefix";
const WORD: &str = "a text without spaces";

impl Results {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Results {
        Results {
            store: from.text_or_unset("results.store", STORE, ResultStore::parse),
            endpoint: from.text_or_unset("results.endpoint", URL, url),
            region: from.text_or_unset("results.region", WORD, word),
            access_key_id: from.text_or_unset("results.access_key_id", WORD, word),
            secret_access_key: from
                .text_or_unset("results.secret_access_key", WORD, |text| word(text).map(Secret::new)),
        }
    }
}

impl ResultStore {
    pub fn parse(text: &str) -> Option<ResultStore> {
        let place = text.strip_prefix("s3://")?;
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_name = |name: &str| {
            let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
            (3..=63).contains(&name.len()) && name.chars().all(is_fine)
        };
        let prefix = prefix.trim_end_matches('/');
        let is_path = prefix.split('/').all(|part| word(part).is_some() && part != "." && part != "..");
        let is_right = is_name(bucket) && (prefix.is_empty() || is_path);
        is_right.then(|| ResultStore { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

fn word(text: &str) -> Option<String> {
    let is_word = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
    is_word.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_bucket_and_perhaps_a_prefix() {
        let parsed = |text| ResultStore::parse(text).map(|store| (store.bucket, store.prefix));
        let some = |bucket: &str, prefix: &str| Some((bucket.to_owned(), prefix.to_owned()));
        assert_eq!(parsed("s3://jobs"), some("jobs", ""));
        assert_eq!(parsed("s3://jobs/"), some("jobs", ""));
        assert_eq!(parsed("s3://my.jobs-2/a/b/"), some("my.jobs-2", "a/b"));
        for wrong in [
            "jobs",
            "s3:jobs",
            "s3://",
            "s3://Jobs",
            "s3://ab",
            "s3://jobs/a//b",
            "s3://jobs/../a",
            "https://jobs",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}

//! Keys that encrypt contents at rest: `[encryption]`.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forgerun_store::sealed::{KEY_BYTES, KeyRing};

use crate::config::reader::SettingsReader;
use crate::config::values::{PATH, path};

#[derive(Clone, Debug)]
pub struct Encryption {
    pub(in crate::config) keys: Vec<Key>,
    /// A file with one key a line, in place of `keys`.
    pub(in crate::config) key_file: Option<PathBuf>,
}

/// A list of keys that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {reason}")]
pub struct BadKeys {
    pub setting: &'static str,
    pub reason: String,
}

/// A key and its id.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::config) struct Key(String, [u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

const KEYS: &str = "texts like \"id:base64\", with 32 bytes in base64";

impl Encryption {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Encryption {
        Encryption {
            keys: from.list_explained("encryption.keys", KEYS, key_of),
            key_file: from.text_or_unset("encryption.key_file", PATH, path),
        }
    }

    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty() || self.key_file.is_some()
    }

    /// The keys, the one that writes first. Without keys nothing is encrypted.
    pub fn key_ring(&self) -> Result<KeyRing, BadKeys> {
        let (setting, keys) = match &self.key_file {
            Some(_) if !self.keys.is_empty() => {
                ("encryption.key_file", Err("is set, and encryption.keys too; leave one of them out".into()))
            }
            Some(path) => ("encryption.key_file", in_file(path)),
            None => ("encryption.keys", Ok(self.keys.clone())),
        };
        let keys = keys.and_then(distinct).map_err(|reason| BadKeys { setting, reason })?;
        Ok(KeyRing::new(keys.into_iter().map(|Key(id, key)| (id, key)).collect()))
    }
}

/// The keys of a file, in its order. Empty lines and lines that begin with `#` are skipped.
fn in_file(path: &Path) -> Result<Vec<Key>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(|(n, line)| key_of(line).map_err(|reason| format!("line {} {reason}", n + 1)));
    let keys = keys.collect::<Result<Vec<Key>, String>>()?;
    if keys.is_empty() { Err("has no key; expected one \"id:base64\" a line".into()) } else { Ok(keys) }
}

fn distinct(keys: Vec<Key>) -> Result<Vec<Key>, String> {
    let twice = keys.iter().enumerate().find(|(n, Key(id, _))| keys[..*n].iter().any(|key| key.0 == *id));
    match twice {
        Some((_, Key(id, _))) => Err(format!("the id {id:?} is there twice")),
        None => Ok(keys),
    }
}

/// Never quotes what may be a secret.
fn key_of(entry: &str) -> Result<Key, String> {
    let (id, key) = entry.split_once(':').ok_or("has no \":\"; expected \"id:base64\"")?;
    if !KeyRing::is_key_id(id) {
        return Err("has a bad id; expected 1 to 32 letters, digits, \".\", \"_\" or \"-\"".into());
    }
    let bytes = STANDARD.decode(key).map_err(|_| format!("with the id {id:?} is not base64"))?;
    let n = bytes.len();
    let key =
        bytes.try_into().map_err(|_| format!("with the id {id:?} has {n} bytes; expected {KEY_BYTES}"))?;
    Ok(Key(id.to_owned(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> String {
        STANDARD.encode(vec![7; n])
    }

    #[test]
    fn a_key_is_an_id_and_32_bytes() {
        assert_eq!(key_of(&format!("2026-01:{}", key(32))), Ok(Key("2026-01".into(), [7; 32])));
        for (entry, expected) in [
            (key(32), "has no \":\""),
            (format!("b:{}", key(16)), "with the id \"b\" has 16 bytes; expected 32"),
            ("b:%%".into(), "with the id \"b\" is not base64"),
            (format!("a b:{}", key(32)), "has a bad id"),
        ] {
            let reason = key_of(&entry).expect_err("it is malformed");
            assert!(reason.starts_with(expected), "{reason}");
        }
    }

    #[test]
    fn a_file_has_a_key_a_line_and_comments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let encryption = Encryption { keys: Vec::new(), key_file: Some(path.clone()) };
            encryption.key_ring().map(|ring| format!("{ring:?}")).map_err(|error| error.to_string())
        };
        let line = |id: &str| format!("{id}:{}", key(32));
        assert_eq!(of(&format!("# new\n{}\n\n{}\n", line("b"), line("a"))), Ok(r#"["b", "a"]"#.into()));
        for (text, expected) in [
            ("# none\n".into(), "encryption.key_file: has no key"),
            (format!("{}\nb", line("a")), "encryption.key_file: line 2 has no \":\""),
            (format!("{}\n{}", line("a"), line("a")), "encryption.key_file: the id \"a\" is there twice"),
        ] {
            let reason = of(&text).expect_err("it is malformed");
            assert!(reason.starts_with(expected), "{reason}");
        }
    }
}

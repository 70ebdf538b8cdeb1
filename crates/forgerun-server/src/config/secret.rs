//! Values that are never shown: not in logs, messages, or by `forgerun config`.

use std::fmt;

use toml::Value;

use crate::limits::SHOWN_CHARS_MAX;

/// Shown in place of a secret.
pub(crate) const HIDDEN: &str = "(hidden)";

/// Keys whose whole value is secret. A URL with a password is detected in any value.
const SECRET_KEYS: &[&str] = &["auth.admin_token", "encryption.keys", "telemetry.otlp_headers"];

/// Words that make a key suspicious. An unknown key may be a misspelled secret one.
const SECRET_WORDS: &[&str] = &["token", "secret", "password", "passwd"];

/// A text that is not printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text; the caller must not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Whether the value of this key must not be shown.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET_KEYS.contains(&key.as_str()) || SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// The value as messages show it: as TOML, secrets hidden, shortened.
pub(crate) fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::Array(list) if list.is_empty() => "[]".to_owned(),
        _ if is_secret(key) => HIDDEN.to_owned(),
        Value::String(text) => shorten(&Value::String(without_password(text)).to_string()),
        other => shorten(&other.to_string()),
    }
}

/// Whether `shown` hides part of this value.
pub(crate) fn hides(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty() && (is_secret(key) || without_password(text) != *text),
        Value::Array(list) => !list.is_empty() && is_secret(key),
        _ => false,
    }
}

/// Replaces everything that may be a password: in `user:password@`, and after `password=`. Hides
/// too much rather than too little: the text may be a malformed URL, and the password may contain
/// `@`, `/` or `?`.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.find("://").map_or(("", text), |at| text.split_at(at + 3));
    let rest = match rest.rsplit_once('@') {
        Some((who, place)) => match who.split_once(':') {
            Some((user, _)) => format!("{user}:***@{place}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let hide = |piece: &str| match piece.split_once('=') {
        Some((name, value)) if is_secret(name) => {
            let separator = value.rfind(SEPARATORS).map_or("", |at| &value[at..]);
            format!("{name}=***{separator}")
        }
        _ => piece.to_owned(),
    };
    rest.split_inclusive(SEPARATORS).fold(scheme.to_owned(), |shown, piece| shown + &hide(piece))
}

/// Separators between settings in a URL or in a list of URLs.
const SEPARATORS: [char; 4] = ['?', '&', ';', ' '];

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_shown() {
        for (key, value, expected) in [
            ("auth.admin_token", "hunter2", HIDDEN),
            ("auth.admin_token", "", "\"\""),
            ("server.password", "hunter2", HIDDEN),
            ("server.database_url", "postgres://u:p@h/d", "\"postgres://u:***@h/d\""),
            ("server.database_url", "postgres://u:p@s?s/w@h/d", "\"postgres://u:***@h/d\""),
            ("server.database_url", "postgres://u@h/d", "\"postgres://u@h/d\""),
            (
                "server.database_url",
                "postgres://h/d?user=u&password=p",
                "\"postgres://h/d?user=u&password=***\"",
            ),
            ("server.database_url", "postgres//u:p@h", "\"postgres//u:***@h\""),
            ("server.database_url", "host=h password=p dbname=d", "\"host=h password=*** dbname=d\""),
            ("server.listen", "nowhere:80", "\"nowhere:80\""),
        ] {
            assert_eq!(shown(key, &Value::String(value.to_owned())), expected, "{key} = {value}");
        }
        assert_eq!(shown("limits.quota", &Value::Integer(7)), "7");
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let shown = shown("server.data", &Value::String("ü".repeat(500)));
        assert_eq!(shown.chars().count(), SHOWN_CHARS_MAX + 1);
    }

    #[test]
    fn a_secret_does_not_debug_itself() {
        assert_eq!(format!("{:?}", Secret::new("hunter2".to_owned())), HIDDEN);
    }
}

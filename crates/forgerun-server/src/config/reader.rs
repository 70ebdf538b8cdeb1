//! Parses values: each key is read once, with its type and bounds.
//!
//! A bad value is reported and replaced by the default, so that all errors are found together. The
//! caller must check the errors before using the values.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::complaint::{Complaint, Origin};
use super::secret::shown;
use super::sections::operation_key;
use super::settings::Settings;
use forgerun_wire::hint::nearest;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses settings, collects errors, and records which keys were read.
pub(crate) struct SettingsReader<'a> {
    settings: &'a Settings,
    pub(crate) complaints: Vec<Complaint>,
    pub(crate) asked: Vec<String>,
}

impl<'a> SettingsReader<'a> {
    pub(crate) fn new(settings: &'a Settings) -> SettingsReader<'a> {
        SettingsReader { settings, complaints: Vec::new(), asked: Vec::new() }
    }

    pub(crate) fn whole<N: TryFrom<i64>>(&mut self, key: &str, range: RangeInclusive<i64>) -> N {
        self.take(key, &between("a whole number", &range), |value| whole(value, &range)?.try_into().ok())
    }

    /// A number; zero means "no limit".
    pub(crate) fn whole_or_off<N: TryFrom<i64>>(&mut self, key: &str, max: i64) -> Option<N> {
        let accepts = format!("a whole number from 1 to {max}, or 0 for off");
        self.take(key, &accepts, |value| match whole(value, &(0..=max))? {
            0 => Some(None),
            n => n.try_into().ok().map(Some),
        })
    }

    /// A number; -1 means the value of `elsewhere`.
    pub(crate) fn whole_or_inherited<N: TryFrom<i64>>(
        &mut self,
        key: &str,
        max: i64,
        elsewhere: &str,
    ) -> Option<N> {
        let accepts = format!("a whole number from 0 to {max}, or -1 for that of {elsewhere}");
        self.take(key, &accepts, |value| match whole(value, &(-1..=max))? {
            -1 => Some(None),
            n => n.try_into().ok().map(Some),
        })
    }

    pub(crate) fn millis(&mut self, key: &str, range: RangeInclusive<i64>) -> Duration {
        let accepts = between("a whole number of milliseconds", &range);
        self.take(key, &accepts, |value| whole(value, &range)?.try_into().ok().map(Duration::from_millis))
    }

    pub(crate) fn seconds(&mut self, key: &str, range: RangeInclusive<i64>) -> Duration {
        let accepts = between("a whole number of seconds", &range);
        self.take(key, &accepts, |value| whole(value, &range)?.try_into().ok().map(Duration::from_secs))
    }

    pub(crate) fn days(&mut self, key: &str, range: RangeInclusive<i64>) -> Duration {
        let accepts = between("a whole number of days", &range);
        self.take(key, &accepts, |value| Some(DAY * u32::try_from(whole(value, &range)?).ok()?))
    }

    pub(crate) fn decimal(&mut self, key: &str, range: RangeInclusive<f64>) -> f64 {
        self.take(key, &between("a number", &range), |value| {
            // `1` is accepted for `1.0`. NaN is in no range.
            let number = value.as_float().or_else(|| whole(value, &(0..=1_000_000)).map(|n| n as f64));
            number.filter(|number| range.contains(number))
        })
    }

    pub(crate) fn truth(&mut self, key: &str) -> bool {
        self.take(key, "true or false", Value::as_bool)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, key: &str, choices: &[(&'static str, T)]) -> T {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.take_near(key, &format!("one of {}", names.join(", ")), &names, |value| {
            let chosen = choices.iter().find(|(name, _)| value.as_str() == Some(name));
            chosen.map(|(_, choice)| *choice)
        })
    }

    /// A text that `parse` accepts.
    pub(crate) fn text<T>(&mut self, key: &str, accepts: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        self.take(key, accepts, |value| parse(value.as_str()?))
    }

    /// Like [`SettingsReader::text`]; the empty text means "not set".
    pub(crate) fn text_or_unset<T>(
        &mut self,
        key: &str,
        accepts: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.text(key, accepts, |text| if text.is_empty() { Some(None) } else { parse(text).map(Some) })
    }

    /// A list of texts that `parse` accepts. A text is split at commas; the empty text is the empty
    /// list.
    pub(crate) fn list<T>(&mut self, key: &str, accepts: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        self.take(key, &format!("a list of {accepts}"), |value| match value {
            Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
            Value::String(text) => text.split(',').map(|one| parse(one.trim())).collect(),
            Value::Array(values) => values.iter().map(|value| parse(value.as_str()?)).collect(),
            _ => None,
        })
    }

    /// Like [`SettingsReader::list`]; the error says what is wrong with which text, without
    /// quoting it.
    pub(crate) fn list_explained<T>(
        &mut self,
        key: &str,
        accepts: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let (position, wrong) = (Cell::new(0), RefCell::new(None));
        let n_complaints = self.complaints.len();
        let list = self.list(key, accepts, |text| {
            position.set(position.get() + 1);
            parse(text).map_err(|reason| wrong.replace(Some((position.get(), reason)))).ok()
        });
        if let (Some(Complaint::BadValue { accepts, .. }), Some((position, reason))) =
            (self.complaints.get_mut(n_complaints), wrong.into_inner())
        {
            *accepts += &format!("; text {position} {reason}");
        }
        list
    }

    /// A list of distinct choices, or `all`. A text is split at commas.
    pub(crate) fn some_of<T: Copy>(&mut self, key: &str, choices: &[(&'static str, T)]) -> Vec<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let accepts = format!("\"all\", or a list of {}", names.join(", "));
        self.take(key, &accepts, |value| {
            let wanted: Vec<&str> = match value {
                Value::String(text) if text == "all" => names.clone(),
                Value::String(text) => text.split(',').map(str::trim).collect(),
                Value::Array(values) => values.iter().map(Value::as_str).collect::<Option<_>>()?,
                _ => return None,
            };
            let known = wanted.iter().all(|name| names.contains(name));
            let chosen = choices.iter().filter(|(name, _)| wanted.contains(name));
            (known && !wanted.is_empty()).then(|| chosen.map(|(_, choice)| *choice).collect())
        })
    }

    /// Names with a choice each. A text is split at commas, into `NAME=CHOICE`.
    pub(crate) fn choices_by_name<T: Copy>(
        &mut self,
        key: &str,
        choices: &[(&'static str, T)],
    ) -> Vec<(String, T)> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let accepts = format!("a table from names to one of {}, or NAME=WORD,NAME=WORD", words.join(", "));
        let chosen = |name: &str, word: &str| {
            let (_, choice) = choices.iter().find(|(known, _)| *known == word.trim())?;
            Some((name.trim().to_owned(), *choice))
        };
        self.take(key, &accepts, |value| match value {
            Value::Table(table) => table.iter().map(|(name, word)| chosen(name, word.as_str()?)).collect(),
            Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
            Value::String(text) => {
                let pair = |pair: &str| pair.rsplit_once('=').and_then(|(name, word)| chosen(name, word));
                text.split(',').map(pair).collect()
            }
            _ => None,
        })
    }

    /// Whether `forgerun dev` set the value of a key.
    pub(crate) fn is_of_dev(&self, key: &str) -> bool {
        self.settings.get(key).origin == Origin::Dev
    }

    pub(crate) fn operations(&self) -> Vec<String> {
        self.settings.operations()
    }

    /// Reports an invalid operation name.
    pub(crate) fn complain_of_operation(&mut self, name: &str, accepts: &str) {
        let setting = self.settings.get(&operation_key(name, "enabled"));
        self.complaints.push(Complaint::BadValue {
            key: "operations".to_owned(),
            value: shown("operations", &Value::String(name.to_owned())),
            origin: setting.origin.clone(),
            accepts: accepts.to_owned(),
            hint: None,
        });
    }

    fn take<T>(&mut self, key: &str, accepts: &str, parse: impl Fn(&Value) -> Option<T>) -> T {
        self.take_near(key, accepts, &[], parse)
    }

    /// Parses the value. `names` are the accepted words, for hints.
    fn take_near<T>(
        &mut self,
        key: &str,
        accepts: &str,
        names: &[&str],
        parse: impl Fn(&Value) -> Option<T>,
    ) -> T {
        self.asked.push(key.to_owned());
        let setting = self.settings.get(key);
        if let Some(read) = parse(&setting.value) {
            return read;
        }
        let meant = setting.value.as_str().and_then(|text| nearest(text, names.iter().copied()));
        self.complaints.push(Complaint::BadValue {
            key: key.to_owned(),
            value: shown(key, &setting.value),
            origin: setting.origin.clone(),
            accepts: accepts.to_owned(),
            hint: meant.map(|meant| format!("{meant:?}")),
        });
        parse(setting.default).unwrap_or_else(|| panic!("the default of {key} is not accepted by its reader"))
    }
}

fn whole(value: &Value, range: &RangeInclusive<i64>) -> Option<i64> {
    value.as_integer().filter(|number| range.contains(number))
}

fn between<N: Display>(what: &str, range: &RangeInclusive<N>) -> String {
    format!("{what} from {} to {}", range.start(), range.end())
}

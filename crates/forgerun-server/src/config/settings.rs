//! The layers: default, file, environment, flags, and the fixed settings of `forgerun dev`. The
//! result has one value and origin for every key of the manual; [`super::reader`] checks types and
//! bounds.
//!
//! The keys are those of the manual, so there is no second list that could differ from it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::sync::LazyLock;

use toml::{Table, Value};

use super::MANUAL;
use super::complaint::{Complaint, Origin};
use super::secret::{HIDDEN, is_secret, shown};
use super::sections::operation_key;
use super::sources::{CommandMode, File, Flag, Sources};
use forgerun_cli::worker::JOB_VARIABLES;
use forgerun_wire::hint::nearest;

/// Prefix of our environment variables.
const PREFIX: &str = "FORGERUN_";

/// Variables of the client commands, the SDKs and the installer. They may be set permanently where
/// a server is started.
const OF_CLIENTS: &[&str] = &[
    "FORGERUN_URL",
    "FORGERUN_API_KEY",
    "FORGERUN_CA",
    "FORGERUN_CERT",
    "FORGERUN_CERT_KEY",
    "FORGERUN_ADMIN_TOKEN",
    "FORGERUN_OUTBOX_SOURCE",
    "FORGERUN_WORKER_SECRET",
    "FORGERUN_BIN",
    "FORGERUN_DOWNLOAD_URL",
];

/// Keys whose values are tables.
const TABLES: &[&str] = &["auth.oidc.roles"];

/// Fixed settings of `forgerun dev`.
const DEV: &[(&str, &str)] =
    &[("auth.mode", "open"), ("server.database_url", "memory:"), ("log.format", "text")];

/// Defaults of `forgerun dev`.
const DEV_DEFAULTS: &[(&str, &str)] =
    if cfg!(feature = "grpc") { &[("grpc.addr", "127.0.0.1:9090")] } else { &[] };

static DEFAULTS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    let manual: Table = MANUAL.parse().expect("the manual is TOML, as every test shows");
    leaves("", manual)
});

/// A key with its effective value.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) key: Cow<'static, str>,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    pub(crate) default: &'static Value,
}

/// Every key, in the order of the manual.
#[derive(Clone)]
pub(crate) struct Settings(pub(crate) Vec<Setting>);

impl fmt::Debug for Settings {
    /// Without the values: some are secrets, and `Config` has the typed ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({} keys)", self.0.len())
    }
}

impl Settings {
    /// Layers all sources over the defaults. Unknown keys are reported and skipped.
    pub(crate) fn gather(sources: &Sources, complaints: &mut Vec<Complaint>) -> Settings {
        let mut settings = Settings::defaults();
        if sources.mode == CommandMode::Dev {
            DEV_DEFAULTS.iter().for_each(|(key, value)| settings.lay_text(key, value, Origin::Dev));
        }
        if let Some(file) = &sources.file {
            settings.lay_file(file, complaints);
        }
        settings.lay_environment(sources, complaints);
        for Flag { key, name, value } in &sources.flags {
            settings.lay_text(key, value, Origin::Flag(name));
        }
        match sources.mode {
            CommandMode::Serve => {}
            CommandMode::Dev => {
                DEV.iter().for_each(|(key, value)| settings.lay_text(key, value, Origin::Dev))
            }
        }
        settings
    }

    fn defaults() -> Settings {
        let setting = |(key, value): &'static (String, Value)| Setting {
            key: Cow::Borrowed(key),
            value: value.clone(),
            origin: Origin::Default,
            default: value,
        };
        Settings(DEFAULTS.iter().map(setting).collect())
    }

    /// The setting of a key that the program itself names.
    pub(crate) fn get(&self, key: &str) -> &Setting {
        let found = self.0.iter().find(|setting| setting.key == key);
        found.unwrap_or_else(|| panic!("{key} is not in forgerun.default.toml"))
    }

    fn find(&mut self, matches: impl Fn(&str) -> bool) -> Option<&mut Setting> {
        self.0.iter_mut().find(|setting| matches(&setting.key))
    }

    fn lay_file(&mut self, file: &File, complaints: &mut Vec<Complaint>) {
        let table: Table = match file.text.parse() {
            Ok(table) => table,
            Err(error) => {
                complaints.push(bad_toml(file, &error));
                return;
            }
        };
        for (key, value) in leaves("", table) {
            let origin = Origin::File(file.path.clone());
            if let Some(name) = declared_by(&key, &value) {
                self.declare(name, &origin);
            }
            match self.find(|known| known == key) {
                Some(setting) => (setting.value, setting.origin) = (value, origin),
                // An empty section has no effect.
                None if value.is_table() && (is_section(&key) || declared_by(&key, &value).is_some()) => {}
                None => complaints.push(unknown_key(&key, &value, origin)),
            }
        }
    }

    /// Declares an operation, if it is new. Missing members have the values of the manual, except
    /// those that suit only its example.
    fn declare(&mut self, name: &str, origin: &Origin) {
        if self.0.iter().any(|setting| setting.key == operation_key(name, "enabled")) {
            return;
        }
        for (member, default) in operation_members() {
            let value = left_out(member).unwrap_or_else(|| default.clone());
            let key = Cow::Owned(operation_key(name, member));
            self.0.push(Setting { key, value, origin: origin.clone(), default });
        }
    }

    pub(crate) fn operations(&self) -> Vec<String> {
        let named = self.0.iter().filter_map(|setting| operation_of(&setting.key));
        let names = named.filter(|(_, member)| *member == "enabled").map(|(name, _)| name.to_owned());
        names.collect()
    }

    fn lay_environment(&mut self, sources: &Sources, complaints: &mut Vec<Complaint>) {
        let mut variables: Vec<_> =
            sources.environment.iter().filter(|(name, value)| is_meant(name, value)).collect();
        // Sorted, because the order of the environment is random.
        variables.sort();
        for (name, value) in variables {
            let name = name.to_string_lossy();
            let origin = Origin::Variable(name.clone().into_owned());
            let key = name[PREFIX.len()..].replace("__", ".");
            let Some(setting) = self.find(|known| in_words(known).eq_ignore_ascii_case(&in_words(&key)))
            else {
                let value = Value::String(value.to_string_lossy().into_owned());
                complaints.push(unknown_variable(&name, &key, &value));
                continue;
            };
            let key = setting.key.clone();
            if let Origin::Variable(other) = &setting.origin {
                complaints.push(set_twice(&key, other, origin));
            } else if let Some(value) = value.to_str() {
                self.lay_text(&key, value, origin);
            } else {
                complaints.push(not_utf8(&key, origin));
            }
        }
    }

    /// Sets a key to a text, parsed as the type of its default. An unparsable text stays a text,
    /// and the reader reports it.
    fn lay_text(&mut self, key: &str, text: &str, origin: Origin) {
        let setting = self.find(|known| known == key).expect("flags and dev name keys of the manual");
        let typed = match setting.default {
            Value::Integer(_) => text.parse().ok().map(Value::Integer),
            Value::Float(_) => text.parse().ok().map(Value::Float),
            Value::Boolean(_) => text.parse().ok().map(Value::Boolean),
            _ => None,
        };
        (setting.value, setting.origin) = (typed.unwrap_or_else(|| Value::String(text.to_owned())), origin);
    }
}

/// Whether a variable is meant for the server's configuration, not for our clients and workers or
/// set by Kubernetes.
fn is_meant(name: &OsStr, value: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let is_of_others = OF_CLIENTS.contains(&&*name) || JOB_VARIABLES.contains(&&*name);
    !is_of_others && !is_service_link(rest, &value.to_string_lossy())
}

/// Whether Kubernetes set the variable: it sets `FORGERUN_SERVICE_HOST`, `FORGERUN_PORT=tcp://…`,
/// `FORGERUN_PORT_8080_TCP_ADDR` and the like in every pod beside a service `forgerun`, and
/// `FORGERUN_DB_…` beside `forgerun-db`.
fn is_service_link(rest: &str, value: &str) -> bool {
    let words: Vec<&str> = rest.split('_').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_protocol = |word: &str| matches!(word, "TCP" | "UDP" | "SCTP");
    let has_place = words.ends_with(&["SERVICE", "HOST"])
        || words.windows(2).any(|pair| pair == ["SERVICE", "PORT"])
        || words.windows(3).any(|three| three[0] == "PORT" && is_number(three[1]) && is_protocol(three[2]));
    let is_url = words.ends_with(&["PORT"]) && value.contains("://");
    !rest.contains("__") && (has_place || is_url)
}

pub(crate) fn keys() -> impl Iterator<Item = &'static str> + Clone {
    DEFAULTS.iter().map(|(key, _)| key.as_str())
}

/// The environment variable of a key.
pub(crate) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", in_words(key).replace('.', "__").to_uppercase())
}

/// A key without characters that shells refuse in names of variables.
fn in_words(key: &str) -> String {
    key.replace(['/', '-'], "_")
}

/// The example operation of the manual.
pub(crate) const EXAMPLE: &str = "reports/generate";

/// The default of a member that the manual sets for its example only: real work of any duration.
fn left_out(member: &str) -> Option<Value> {
    match member {
        "expected_duration_s" => Some(Value::Integer(0)),
        "work_kind" => Some(Value::String(String::new())),
        _ => None,
    }
}

/// The keys of every operation, with the values of the manual.
fn operation_members() -> impl Iterator<Item = (&'static str, &'static Value)> {
    DEFAULTS.iter().filter_map(|(key, value)| {
        let (name, member) = operation_of(key)?;
        (name == EXAMPLE).then_some((member, value))
    })
}

/// The operation name and member in a key.
fn operation_of(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("operations.")?.rsplit_once('.')
}

/// The operation that a key of a file declares: by one of its members, or by an empty table.
fn declared_by<'a>(key: &'a str, value: &Value) -> Option<&'a str> {
    if value.as_table().is_some_and(Table::is_empty) {
        return key.strip_prefix("operations.");
    }
    let (name, member) = operation_of(key)?;
    operation_members().any(|(known, _)| known == member).then_some(name)
}

/// All values with their dotted keys. An empty table counts as one, so that an unknown section is
/// reported.
fn leaves(prefix: &str, table: Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) if !inner.is_empty() && !TABLES.contains(&&*key) => {
                found.extend(leaves(&key, inner));
            }
            value => found.push((key, value)),
        }
    }
    found
}

fn is_section(name: &str) -> bool {
    keys().any(|key| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

fn unknown_key(key: &str, value: &Value, origin: Origin) -> Complaint {
    let hint = nearest(key, keys());
    Complaint::UnknownKey {
        key: key.to_owned(),
        value: shown_as(key, hint, value),
        origin,
        hint: hint.map(str::to_owned),
        accepts: what_there_is(key),
    }
}

fn unknown_variable(name: &str, key: &str, value: &Value) -> Complaint {
    let hint = nearest(key, keys());
    Complaint::UnknownKey {
        key: name.to_owned(),
        value: shown_as(key, hint, value),
        origin: Origin::Variable(name.to_owned()),
        hint: hint.map(variable),
        accepts: what_there_is(&key.to_lowercase()),
    }
}

/// The value of an unknown key, hidden if the key that was meant is secret.
fn shown_as(key: &str, hint: Option<&str>, value: &Value) -> String {
    if hint.is_some_and(is_secret) { HIDDEN.to_owned() } else { shown(key, value) }
}

/// The keys of the section, or all sections if it does not exist.
fn what_there_is(key: &str) -> String {
    if let Some((name, _)) = operation_of(key) {
        let members: Vec<&str> = operation_members().map(|(member, _)| member).collect();
        return format!("[operations.{name:?}] has {}", members.join(", "));
    }
    let section =
        if is_section(key) { key } else { key.rsplit_once('.').map_or(key, |(section, _)| section) };
    let inside = keys().filter_map(|known| known.strip_prefix(section)?.strip_prefix('.'));
    let names: Vec<&str> = inside.collect();
    if !names.is_empty() {
        return format!("[{section}] has {}", names.join(", "));
    }
    let mut sections: Vec<&str> = keys().filter_map(|key| key.split('.').next()).collect();
    sections.dedup();
    format!("sections are {}", sections.join(", "))
}

fn set_twice(key: &str, other: &str, origin: Origin) -> Complaint {
    let reason = format!("{other} sets the same key; keep one of them");
    Complaint::Conflict { key: key.to_owned(), value: "…".to_owned(), origin, reason }
}

fn not_utf8(key: &str, origin: Origin) -> Complaint {
    Complaint::BadValue {
        key: key.to_owned(),
        value: "…".to_owned(),
        origin,
        accepts: "text in UTF-8".to_owned(),
        hint: None,
    }
}

/// The parser's message without the excerpt of the file, which may contain a secret.
fn bad_toml(file: &File, error: &toml::de::Error) -> Complaint {
    let before = error.span().and_then(|span| file.text.get(..span.start));
    let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
    let reason = format!("{}{}", line.unwrap_or_default(), error.message());
    Complaint::BadFile { path: file.path.clone(), reason }
}

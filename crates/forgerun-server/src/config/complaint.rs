//! What is wrong with a configuration, in words that lead to the way out: which key, which value, where it came from,
//! what is accepted.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it; it is the default of the manual.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable, as it was spelt.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// It belongs to what `forgerun dev` is.
    Dev,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the default"),
            Origin::File(path) => write!(f, "from {}", path.display()),
            Origin::Variable(name) => write!(f, "from {name}"),
            Origin::Flag(name) => write!(f, "from {name}"),
            Origin::Dev => f.write_str("set by forgerun dev"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// There is no such key.
    #[error("{key} = {value} ({origin}): there is no such key{}; {accepts}", did_you_mean(hint))]
    UnknownKey {
        /// As it was spelt: a dotted key, or the name of a variable.
        key: String,
        /// What it was set to, as messages show it.
        value: String,
        /// Where it stands.
        origin: Origin,
        /// The key that was probably meant, spelt for the same place.
        hint: Option<String>,
        /// Which keys there are.
        accepts: String,
    },
    /// The value does not fit the key.
    #[error("{key} = {value} ({origin}): accepted is {accepts}{}", did_you_mean(hint))]
    BadValue {
        /// The dotted key.
        key: String,
        /// What it was set to, as messages show it.
        value: String,
        /// Where it was set.
        origin: Origin,
        /// What would be accepted.
        accepts: String,
        /// The value that was probably meant.
        hint: Option<String>,
    },
    /// The value is fine by itself but not together with others.
    #[error("{key} = {value} ({origin}): {reason}")]
    Conflict {
        /// The dotted key to change.
        key: String,
        /// What it is set to, as messages show it.
        value: String,
        /// Where it was set.
        origin: Origin,
        /// The rule that it breaks, and the way out.
        reason: String,
    },
    /// The file cannot be read as TOML, or not at all.
    #[error("--config {}: accepted is the path of a readable TOML file: {reason}", path.display())]
    BadFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it; a mistake in TOML has line and column.
        reason: String,
    },
}

fn did_you_mean(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!(" (did you mean {hint}?)")).unwrap_or_default()
}

/// A configuration that is refused, with all that is wrong with it: whoever mends it should need one run, not five.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub Vec<Complaint>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is refused (RFA_CONFIG_INVALID):")?;
        self.0.iter().try_for_each(|complaint| write!(f, "\n  {complaint}"))
    }
}

impl std::error::Error for Invalid {}

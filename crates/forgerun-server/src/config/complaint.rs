//! Errors in the configuration, worded so that they can be fixed: key, value, origin, and what is
//! accepted.

use std::fmt;
use std::path::PathBuf;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default of the manual.
    Default,
    File(PathBuf),
    /// An environment variable, as spelled.
    Variable(String),
    /// A command line flag.
    Flag(&'static str),
    /// A fixed setting of `forgerun dev`.
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    #[error("{key} = {value} ({origin}): there is no such key{}; {accepts}", did_you_mean(hint))]
    UnknownKey {
        /// As spelled: a dotted key, or the name of a variable.
        key: String,
        /// The value, as messages show it.
        value: String,
        origin: Origin,
        /// The key that was probably meant, in the same spelling.
        hint: Option<String>,
        accepts: String,
    },
    /// The value is invalid for the key.
    #[error("{key} = {value} ({origin}): accepted is {accepts}{}", did_you_mean(hint))]
    BadValue {
        key: String,
        /// As messages show it.
        value: String,
        origin: Origin,
        accepts: String,
        /// The value that was probably meant.
        hint: Option<String>,
    },
    /// The value conflicts with others.
    #[error("{key} = {value} ({origin}): {reason}")]
    Conflict {
        /// The dotted key to change.
        key: String,
        /// As messages show it.
        value: String,
        origin: Origin,
        /// The violated rule, and how to fix it.
        reason: String,
    },
    /// The file cannot be read, or is not TOML.
    #[error("--config {}: accepted is the path of a readable TOML file: {reason}", path.display())]
    BadFile {
        path: PathBuf,
        /// The reason; an error in TOML has line and column.
        reason: String,
    },
}

fn did_you_mean(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!(" (did you mean {hint}?)")).unwrap_or_default()
}

/// An invalid configuration, with all its errors: so that fixing it takes one run, not five.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub Vec<Complaint>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is refused (RFA_CONFIG_INVALID):")?;
        self.0.iter().try_for_each(|complaint| write!(f, "\n  {complaint}"))
    }
}

impl std::error::Error for Invalid {}

//! What can go wrong with a store: the world's failures, told apart so that the caller can act on them.

use std::error::Error as StdError;
use std::fmt;

/// A store could not do what it was asked. Nothing was written, unless [`Fault::Unknown`] says that nobody can tell.
#[derive(Debug)]
pub struct Error {
    /// What kind of trouble it is.
    pub fault: Fault,
    source: Box<dyn StdError + Send + Sync>,
}

/// The kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The database cannot be reached, or is starting or stopping. Worth another try later.
    Unavailable,
    /// It did not answer in time.
    Timeout,
    /// Others hold what is needed, for longer than is worth waiting, or a race was lost too often.
    Busy,
    /// There is no room left. Reads still work.
    Full,
    /// The database, or a row in it, is damaged or of a form this version does not know.
    Corrupt,
    /// The content is encrypted, and no configured key opens it. Everything else of the row can be read.
    Sealed,
    /// The database does not accept these data, and will not next time. One bad command spoils its batch: split it.
    Rejected,
    /// The schema was made by a newer version.
    TooNew,
    /// The connection broke while committing: the batch may have been written or not.
    Unknown,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 9] = [
        Fault::Unavailable,
        Fault::Timeout,
        Fault::Busy,
        Fault::Full,
        Fault::Corrupt,
        Fault::Sealed,
        Fault::Rejected,
        Fault::TooNew,
        Fault::Unknown,
    ];
}

impl Fault {
    /// Whether a content is lost, at least for now, and another try finds the same.
    pub const fn is_unreadable(self) -> bool {
        matches!(self, Fault::Corrupt | Fault::Sealed)
    }
}

impl Error {
    /// Trouble of this kind, caused by `source`.
    pub fn new(fault: Fault, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error { fault, source: source.into() }
    }
}

/// What was read of a row among others; one that is damaged counts as not there, and is logged. A list goes on without it, and
/// whoever asks for it by name is told.
#[cfg(any(feature = "encryption", feature = "sqlite", feature = "postgres"))]
pub(crate) fn readable<T>(read: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.fault.is_unreadable() => {
            tracing::warn!(%error, "a row that cannot be read is left out");
            Ok(None)
        }
        read => read,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            Fault::Unavailable => "store unavailable",
            Fault::Timeout => "store timed out",
            Fault::Busy => "store busy",
            Fault::Full => "store has no room left",
            Fault::Corrupt => "store is damaged",
            Fault::Sealed => "content cannot be decrypted",
            Fault::Rejected => "store rejected the data",
            Fault::TooNew => "store was made by a newer version",
            Fault::Unknown => "store lost while committing",
        };
        write!(f, "{what}: {}", self.source)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_ref())
    }
}

impl From<forgerun_core::codec::Corrupt> for Error {
    fn from(corrupt: forgerun_core::codec::Corrupt) -> Error {
        Error::new(Fault::Corrupt, corrupt)
    }
}

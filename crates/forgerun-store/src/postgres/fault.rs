//! What the database said, told apart: what to try again at once, what to report as which [`Fault`].

use std::error::Error as _;

use tokio_postgres::Error as PgError;
use tokio_postgres::error::SqlState;

use crate::{Error, Fault};

/// Constraints that another node may violate for us: it inserted the same key while we decided. Seen again, the batch is
/// decided differently.
const RACES: [&str; 5] = [JOBS_PKEY, "idempotency_pkey", "uniques_pkey", "webhooks_url", "records_pkey"];

/// The identity of a job.
pub(super) const JOBS_PKEY: &str = "jobs_pkey";

/// Whether loading and deciding again may well succeed.
pub(super) fn is_race(error: &PgError) -> bool {
    match error.code() {
        Some(code)
            if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED =>
        {
            true
        }
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => {
            constraint(error).is_some_and(|name| RACES.contains(&name))
        }
        _ => false,
    }
}

/// The constraint that was violated.
pub(super) fn constraint(error: &PgError) -> Option<&str> {
    error.as_db_error()?.constraint()
}

/// Whether the connection is of no use any more. One to a server that takes no writes is not: another has taken its place.
pub(super) fn is_fatal(error: &PgError) -> bool {
    match error.as_db_error() {
        Some(db) if *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION => true,
        Some(db) => matches!(db.severity(), "FATAL" | "PANIC"),
        None => true,
    }
}

/// Whether a connection could not be opened for a reason that will not pass by itself: a wrong password or name.
pub(super) fn is_lasting(error: &PgError) -> bool {
    error.code().is_some_and(|code| matches!(&code.code()[..2], "28" | "3D"))
        || error.to_string().contains("TLS")
}

/// The error as the store reports it.
pub(crate) fn report(error: PgError) -> Error {
    let fault = match error.code() {
        Some(code) => fault_of(code.code()),
        None => fault_of_driver(&error),
    };
    Error::new(fault, Described::from(error))
}

/// The same, with the servers that it happened at: whoever reads the log of several nodes wants to know which.
pub(crate) fn at(place: &str, error: Error) -> Error {
    Error::new(error.fault, Placed { place: place.into(), error })
}

/// An error, and where it happened.
#[derive(Debug)]
struct Placed {
    place: Box<str>,
    error: Error,
}

impl std::fmt::Display for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cause = self.error.source().map(ToString::to_string).unwrap_or_default();
        write!(f, "PostgreSQL at {}: {cause}", self.place)
    }
}

impl std::error::Error for Placed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// What ends the transaction was under way when this happened: unless it could not even be sent or was refused, nobody knows what became of it.
pub(super) fn report_commit(error: PgError) -> Error {
    let may_be_done = match error.as_db_error() {
        Some(db) => matches!(db.severity(), "FATAL" | "PANIC"),
        None => fault_of_driver(&error) != Fault::Rejected,
    };
    if may_be_done {
        return Error::new(Fault::Unknown, Described::from(error));
    }
    report(error)
}

/// By SQLSTATE, <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn fault_of(code: &str) -> Fault {
    match code {
        // statement_timeout; idle_in_transaction_session_timeout.
        "57014" | "25P03" => Fault::Timeout,
        "53100" => Fault::Full,
        "XX001" | "XX002" => Fault::Corrupt,
        _ => match &code[..2] {
            // Data that do not fit; a violated constraint; something too large for an index or a row.
            "22" | "23" | "54" => Fault::Rejected,
            // Rolled back; a lock not to be had.
            "40" | "55" => Fault::Busy,
            // The schema is not the one this version knows.
            "42" if code != "42501" => Fault::Corrupt,
            // The rest is trouble of the server or of its settings (08, 28, 3D, 53, 57P01 to 57P03, 58, 25006, 42501, XX000):
            // nothing is wrong with the data, and it may pass.
            _ => Fault::Unavailable,
        },
    }
}

/// What the driver itself complains of. It has no better way to tell than its words.
fn fault_of_driver(error: &PgError) -> Fault {
    let text = error.to_string();
    match () {
        () if error.is_closed() => Fault::Unavailable,
        // A value of ours that does not fit into a message.
        () if text.starts_with("error serializing") || text.starts_with("error encoding") => Fault::Rejected,
        // A value of theirs that we cannot read.
        () if text.starts_with("error deserializing") || text.starts_with("error parsing") => Fault::Corrupt,
        () => Fault::Unavailable,
    }
}

/// The driver says "db error" and leaves the rest to its cause; here both stand in one line, with the code.
#[derive(Debug)]
struct Described {
    text: String,
    error: PgError,
}

impl From<PgError> for Described {
    fn from(error: PgError) -> Described {
        let text = match (error.as_db_error(), error.source()) {
            (Some(db), _) => match db.detail() {
                Some(detail) => format!("{} ({}; {detail})", db.message(), db.code().code()),
                None => format!("{} ({})", db.message(), db.code().code()),
            },
            (None, Some(cause)) => format!("{error}: {cause}"),
            (None, None) => error.to_string(),
        };
        Described { text, error }
    }
}

impl std::fmt::Display for Described {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Described {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_trouble_has_its_name() {
        let table = [
            ("08006", Fault::Unavailable),
            ("57P01", Fault::Unavailable),
            ("57P03", Fault::Unavailable),
            ("53300", Fault::Unavailable),
            ("58030", Fault::Unavailable),
            ("25006", Fault::Unavailable),
            ("42501", Fault::Unavailable),
            ("57014", Fault::Timeout),
            ("25P03", Fault::Timeout),
            ("55P03", Fault::Busy),
            ("40001", Fault::Busy),
            ("40P01", Fault::Busy),
            ("53100", Fault::Full),
            ("XX001", Fault::Corrupt),
            ("XX002", Fault::Corrupt),
            ("42P01", Fault::Corrupt),
            ("22021", Fault::Rejected),
            ("22001", Fault::Rejected),
            ("23505", Fault::Rejected),
            ("54000", Fault::Rejected),
        ];
        for (code, fault) in table {
            assert_eq!(fault_of(code), fault, "{code}");
        }
    }
}

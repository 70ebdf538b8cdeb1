//! What SQLite's errors mean to a caller.

use std::error::Error as _;

use rusqlite::ErrorCode;
use rusqlite::ffi::{self, SQLITE_IOERR_SHMSIZE};

use crate::{Error, Fault};

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::new(fault_of(&error), error)
    }
}

/// The trouble when the commit itself failed. Where the disk did not answer as it should, the commit may be in the log
/// all the same and come to light at the next start: nobody can tell.
pub(super) fn of_commit(error: rusqlite::Error) -> Error {
    match fault_of(&error) {
        Fault::Unavailable => Error::new(Fault::Unknown, error),
        fault => Error::new(fault, error),
    }
}

/// Whether SQLite says that the file is damaged, and not only that one value is not what the schema allows.
pub(super) fn is_of_file(error: &Error) -> bool {
    let error = error.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    let code = error.and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn fault_of(error: &rusqlite::Error) -> Fault {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => fault_of_code(failure),
        rusqlite::Error::SqlInputError { error, .. } => fault_of_code(error),
        // A column holds what the schema does not allow there.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => Fault::Corrupt,
        // A value that cannot be bound at all.
        _ => Fault::Rejected,
    }
}

fn fault_of_code(failure: &ffi::Error) -> Fault {
    // Growing the index of the log is the one write whose lack of room SQLite does not call FULL.
    if failure.extended_code == SQLITE_IOERR_SHMSIZE {
        return Fault::Full;
    }
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            Fault::Busy
        }
        ErrorCode::DiskFull => Fault::Full,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Fault::Corrupt,
        ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => Fault::Rejected,
        ErrorCode::CannotOpen
        | ErrorCode::SystemIoFailure
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted
        | ErrorCode::NoLargeFileSupport => Fault::Unavailable,
        // "no such table" and the like: this is not the schema we know.
        ErrorCode::Unknown | ErrorCode::SchemaChanged | ErrorCode::NotFound => Fault::Corrupt,
        // Our own misuse; the same call would fail again.
        _ => Fault::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, expected: Fault) {
        let error = || rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert_eq!(Error::from(error()).fault, expected, "{:?}", error());
    }

    #[test]
    fn each_code_of_sqlite_is_one_kind_of_trouble() {
        check(ffi::SQLITE_BUSY, Fault::Busy);
        check(ffi::SQLITE_BUSY_SNAPSHOT, Fault::Busy);
        check(ffi::SQLITE_LOCKED, Fault::Busy);
        check(ffi::SQLITE_FULL, Fault::Full);
        check(ffi::SQLITE_IOERR_SHMSIZE, Fault::Full);
        check(ffi::SQLITE_CORRUPT, Fault::Corrupt);
        check(ffi::SQLITE_NOTADB, Fault::Corrupt);
        check(ffi::SQLITE_TOOBIG, Fault::Rejected);
        check(ffi::SQLITE_CONSTRAINT_UNIQUE, Fault::Rejected);
        check(ffi::SQLITE_MISMATCH, Fault::Rejected);
        check(ffi::SQLITE_CANTOPEN, Fault::Unavailable);
        check(ffi::SQLITE_IOERR_READ, Fault::Unavailable);
        check(ffi::SQLITE_READONLY, Fault::Unavailable);
    }

    #[test]
    fn a_commit_that_met_a_broken_disk_may_have_happened() {
        let failed = |code| of_commit(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).fault;
        assert_eq!(failed(ffi::SQLITE_IOERR_FSYNC), Fault::Unknown);
        assert_eq!(failed(ffi::SQLITE_FULL), Fault::Full);
    }
}

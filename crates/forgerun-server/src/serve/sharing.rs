//! Detects other servers on the same SQLite file. Sharing is allowed, but a second server started
//! by mistake should be reported.
//!
//! Every server holds a shared lock (`flock`) on a separate file beside the database, and tries the
//! exclusive one first: if that fails, it is not alone. The process's end releases the lock, so a
//! remaining file means nothing. The lock is not on the database itself: closing any handle of that
//! would release SQLite's own locks.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Kept while the server runs.
#[derive(Debug)]
pub(super) struct DatabaseUse {
    _lock: File,
    /// Whether others use it, too.
    pub(super) is_shared: bool,
}

impl DatabaseUse {
    /// Registers this server's use of the database, and detects others.
    pub(super) fn beside(database: &Path) -> io::Result<DatabaseUse> {
        let lock = open(&lock_file(database))?;
        let is_shared = match lock.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        // The exclusive lock is held for this moment only.
        lock.lock_shared()?;
        Ok(DatabaseUse { _lock: lock, is_shared })
    }
}

fn lock_file(database: &Path) -> PathBuf {
    let mut path: OsString = database.into();
    path.push("-servers");
    path.into()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_second_knows_and_who_comes_after_all_have_gone_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let enter = || DatabaseUse::beside(&database).unwrap();
        let first = enter();
        assert!(!first.is_shared);
        let second = enter();
        assert!(second.is_shared);
        drop(first);
        assert!(enter().is_shared, "the second is still there");
        drop(second);
        assert!(!enter().is_shared);
    }
}

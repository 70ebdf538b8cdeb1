//! Whether other servers use the same SQLite file. They may: what one writes the others see. But
//! who starts a second one by mistake wants to know.
//!
//! Every server holds a shared lock (`flock`) on a file of its own beside the database, and tries
//! for the exclusive one first: whoever cannot have it is not alone. The lock goes with the
//! process, however that ends, so a file that was left behind means nothing. Not on the database
//! itself: closing any handle of it would release SQLite's own locks.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Kept while the server runs.
#[derive(Debug)]
pub(super) struct DatabaseUse {
    _lock: File,
    /// Whether others were there first.
    pub(super) is_shared: bool,
}

impl DatabaseUse {
    /// Tells others that this server uses the database, and finds out whether others do.
    pub(super) fn beside(database: &Path) -> io::Result<DatabaseUse> {
        let lock = open(&lock_file(database))?;
        let is_shared = match lock.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        // Nobody holds the exclusive lock for longer than it takes to get here.
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

//! Opening connections: one that writes, a few that read. What is set on each, and why.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::checkpoint::LOG_BYTES_MAX;
use super::private;
use crate::{Error, Fault, ObjectPlace};

/// How to open a store. The defaults are right unless a test or an operator knows better.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// The file may grow to so many pages of 4 KiB; past that it is full. `None` leaves it to the disk.
    pub pages_max: Option<u32>,
    /// The longest row in bytes; `None` for SQLite's own bound of a billion.
    pub row_bytes_max: Option<u32>,
    /// Connections for lookups, which run on the caller's thread.
    pub lookups: usize,
    /// Where the bytes of new blobs go; `None` for files beside the database.
    pub objects: Option<Arc<dyn ObjectPlace>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            busy_timeout: Duration::from_secs(5),
            pages_max: None,
            row_bytes_max: None,
            lookups: 4,
            objects: None,
        }
    }
}

/// A file, and how to open connections to it.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFile {
    pub(super) path: PathBuf,
    pub(super) options: Options,
}

/// More statements than there are, so that none is ever prepared twice.
pub(super) const STATEMENTS_MAX: usize = 192;

/// `synchronous` FULL: a commit returns when the log is on the disk, and nobody sees it before. Copying the log back is not left to the commit, see
/// [`checkpoint`](super::checkpoint). The cache is in KiB.
const WRITER: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
";

/// Copies pages from the log to the file without looking at them, so it needs hardly any cache.
const COPIER: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA cache_size = -64;
";

/// Small caches: what is read often is in the cache of the operating system.
const READER: &str = "
    PRAGMA query_only = ON;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -1024;
";

/// Waits for whoever is writing, by taking their place for a moment.
const WAIT: &str = "BEGIN IMMEDIATE; ROLLBACK;";

impl DatabaseFile {
    /// The connection that writes. Makes the folder and the file where there is none.
    pub(super) fn writer(&self) -> Result<Connection, Error> {
        if let Some(folder) = self.path.parent() {
            private::make_folder(folder).map_err(|error| cannot_make(folder, error))?;
        }
        private::make_file(&self.path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = self.open(flags)?;
        self.check_writable(&connection)?;
        use_log(&connection)?;
        connection.execute_batch(WRITER)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
        if let Some(pages) = self.options.pages_max {
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        if let Some(bytes) = self.options.row_bytes_max {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)?;
        }
        Ok(connection)
    }

    /// SQLite opens a file that it may not write for reading, and says so only when it is to write.
    fn check_writable(&self, connection: &Connection) -> Result<(), Error> {
        if connection.is_readonly(MAIN_DB)? {
            let what = format!("{} may not be written by this user", self.path.display());
            return Err(Error::new(Fault::Unavailable, what));
        }
        Ok(())
    }

    /// A connection that copies the log back into the file.
    pub(super) fn copier(&self) -> Result<Connection, Error> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch(COPIER)?;
        Ok(connection)
    }

    /// A connection that only reads. It never waits for the writer: in WAL mode it sees the last commit.
    pub(super) fn reader(&self) -> Result<Connection, Error> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.execute_batch(READER)?;
        Ok(connection)
    }

    /// A connection that copies the whole database to another file. It reads as of one moment, and no writer waits for it.
    pub(super) fn source(&self) -> Result<Connection, Error> {
        self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn open(&self, flags: OpenFlags) -> Result<Connection, Error> {
        // Each connection belongs to one thread at a time, so SQLite's own mutex around it is wasted.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(self.options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        plan_once(&connection)?;
        Ok(connection)
    }
}

/// Keeps SQLite from making plans by what is bound: a statement with `LIMIT ?` would be prepared anew each time.
pub(super) fn plan_once(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Switches the file to WAL mode. Of several processes that make the file together only one can; SQLite answers the
/// others "busy" at once rather than let them wait, so they wait here and look again.
fn use_log(connection: &Connection) -> Result<(), Error> {
    const TRIES_MAX: usize = 10;
    for _ in 0..TRIES_MAX {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(Error::new(Fault::Unavailable, format!("journal mode is {mode}, not WAL")));
            }
            Err(error) => match Error::from(error) {
                error if error.fault == Fault::Busy => connection.execute_batch(WAIT)?,
                error => return Err(error),
            },
        }
    }
    Err(Error::new(Fault::Busy, "others keep the file from being switched to WAL mode"))
}

fn cannot_make(folder: &Path, error: std::io::Error) -> Error {
    let fault = match error.kind() {
        std::io::ErrorKind::StorageFull => Fault::Full,
        _ => Fault::Unavailable,
    };
    Error::new(fault, format!("folder {}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_of_the_writer_is_on_the_disk_before_it_returns() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let writer = file.writer().unwrap();
        let synchronous: i64 = writer.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        let mode: String = writer.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        const FULL: i64 = 2;
        assert_eq!((synchronous, mode.as_str()), (FULL, "wal"));
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let _writer = file.writer().unwrap();
        let error = Error::from(file.reader().unwrap().execute_batch("CREATE TABLE t (x)").unwrap_err());
        assert_eq!(error.fault, Fault::Unavailable);
    }

    #[test]
    fn a_file_that_may_not_be_written_is_refused_when_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        file.check_writable(&file.writer().unwrap()).unwrap();
        // As SQLite opens it then; root may write whatever the mode says.
        let error = file.check_writable(&file.reader().unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("jobs.db may not be written by this user"), "{error}");
    }
}

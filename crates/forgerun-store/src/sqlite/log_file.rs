//! The log, written in one piece per commit.
//!
//! SQLite writes a page of its log with two calls to the system, one of 24 bytes and one of 4096, of which the second touches two pages of the system's
//! cache. With some fifty pages to a commit that was a fifth of the writer's time. So the writer opens its files through a file system (a *VFS*) that is
//! the system's own but for this: what is written to the log is kept in memory until the log is synced, read, measured or cut, and then written at once.
//!
//! Nobody misses what is not written yet. A commit becomes visible to other connections after its sync, because the writer has
//! `synchronous` FULL; whatever was not synced when a process ends was not committed. And the writer itself reads through here.
//!
//! Nobody may get it who should not. Of a transaction that outgrew the cache of pages something is kept before its end; if it is rolled back, another process may
//! write to the same places next. So a connection whose transaction failed must be closed, which forgets what is kept.
#![expect(unsafe_code, reason = "a file system of SQLite is a table of C functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::slice;
use std::sync::OnceLock;

use rusqlite::Connection;
use rusqlite::ffi::{
    self, SQLITE_IOCAP_POWERSAFE_OVERWRITE, SQLITE_OK, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_int64,
};
use rusqlite::ffi::{sqlite3_io_methods, sqlite3_vfs};

use super::commits::database_file;
use crate::{Error, Fault};

const NAME: &CStr = c"forgerun";

/// More than this is not kept. A transaction that is larger is written in pieces.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// SQLite writes less than 128 KiB with one call, and takes more for a full disk.
const WRITE_BYTES_MAX: usize = 124 * 1024;

/// The file system of the system.
struct System(*mut sqlite3_vfs);

// SAFETY: SQLite has it from its beginning to its end, and any thread may use it.
unsafe impl Send for System {}
// SAFETY: likewise.
unsafe impl Sync for System {}

/// `None` if SQLite has none or takes none from us.
static SYSTEM: OnceLock<Option<System>> = OnceLock::new();

/// The name of the file system, which is there from the first call on.
pub(super) fn vfs() -> Result<&'static CStr, Error> {
    let registered = SYSTEM.get_or_init(register).is_some();
    registered.then_some(NAME).ok_or_else(|| Error::new(Fault::Unavailable, "SQLite takes no file system"))
}

/// Whether a connection may be opened through it. Where a disk may lose bytes beside those that it writes, SQLite fills up sectors of the log *behind* its
/// sync, and these bytes would be missed.
pub(super) fn suits(db: &Connection) -> bool {
    let Some((file, methods)) = database_file(db) else { return false };
    // SAFETY: the file is open for as long as the connection is.
    let device = methods.xDeviceCharacteristics.map_or(0, |ask| unsafe { ask(file) });
    device & SQLITE_IOCAP_POWERSAFE_OVERWRITE != 0
}

fn register() -> Option<System> {
    // SAFETY: SQLite is initialised by this call if it was not, and keeps its file systems for ever.
    let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    // SAFETY: found, so it is there.
    let copied = unsafe { system.as_ref() }.copied()?;
    let ours = Box::leak(Box::new(sqlite3_vfs {
        szOsFile: copied.szOsFile + size_of::<LogFile>() as c_int,
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        xOpen: Some(open),
        ..copied
    }));
    // SAFETY: it is never freed. All but the four fields is the system's, which cannot tell one from the other.
    let code = unsafe { ffi::sqlite3_vfs_register(ours, 0) };
    (code == SQLITE_OK).then_some(System(system))
}

/// Our part of an open log. SQLite gives us room for it with the system's part behind it.
#[repr(C)]
struct LogFile {
    base: sqlite3_file,
    /// What is not written yet.
    kept: *mut KeptBytes,
}

#[derive(Default)]
struct KeptBytes {
    /// Where in the log they belong.
    at: sqlite3_int64,
    bytes: Vec<u8>,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of the system's part of a file.
macro_rules! system {
    ($file:expr, $method:ident $(, $value:expr)*) => {{
        let inner = inner($file);
        match (*(*inner).pMethods).$method {
            Some(method) => method(inner $(, $value)*),
            None => ffi::SQLITE_IOERR,
        }
    }};
}

/// The system's part of a file.
unsafe fn inner(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: `open` put it there, and SQLite has made the room.
    unsafe { file.cast::<LogFile>().add(1).cast() }
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let Some(Some(System(system))) = SYSTEM.get() else { return ffi::SQLITE_MISUSE };
    // SAFETY: SQLite hands over room for both parts of a file; whatever is no log has the system's part alone.
    unsafe {
        let Some(open) = (**system).xOpen else { return ffi::SQLITE_MISUSE };
        if flags & SQLITE_OPEN_WAL == 0 {
            return open(*system, name, file, flags, flags_out);
        }
        (*file).pMethods = ptr::null();
        let inner = inner(file);
        let code = open(*system, name, inner, flags, flags_out);
        // Where there are methods SQLite will close the file, and not where there are none.
        if !(*inner).pMethods.is_null() {
            (*file.cast::<LogFile>()).kept = Box::into_raw(Box::default());
            (*file).pMethods = &raw const METHODS;
        }
        code
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once, and uses it no more.
    unsafe {
        drop(Box::from_raw((*file.cast::<LogFile>()).kept));
        system!(file, xClose)
    }
}

/// What of a file is not written yet. Nobody else may have it at the same time.
unsafe fn kept<'a>(file: *mut sqlite3_file) -> &'a mut KeptBytes {
    // SAFETY: `open` made it, `close` frees it, and one thread uses a file at a time.
    unsafe { &mut *(*file.cast::<LogFile>()).kept }
}

/// Writes what was kept. Fails as the writing would have failed; what could not be written is then no part of any commit.
unsafe fn flush(file: *mut sqlite3_file, kept: &mut KeptBytes) -> c_int {
    let mut code = SQLITE_OK;
    for piece in kept.bytes.chunks(WRITE_BYTES_MAX) {
        if code == SQLITE_OK {
            // SAFETY: the bytes are there, and as many as it says.
            code = unsafe { system!(file, xWrite, piece.as_ptr().cast(), piece.len() as c_int, kept.at) };
            kept.at += piece.len() as sqlite3_int64;
        }
    }
    kept.bytes.clear();
    code
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    n: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite hands over an open file and `n` bytes.
    unsafe {
        let kept = kept(file);
        let n_bytes = usize::try_from(n).unwrap_or(0);
        let follows = at == kept.at + kept.bytes.len() as sqlite3_int64;
        if !follows || kept.bytes.len() + n_bytes > KEPT_BYTES_MAX {
            let code = flush(file, kept);
            if code != SQLITE_OK {
                return code;
            }
        }
        if kept.bytes.is_empty() {
            kept.at = at;
        }
        kept.bytes.extend_from_slice(slice::from_raw_parts(bytes.cast::<u8>(), n_bytes));
        SQLITE_OK
    }
}

/// Whatever looks at the file or ends it finds it written.
macro_rules! written_first {
    ($($name:ident = $method:ident($($value:ident: $type:ty),*);)*) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $value: $type)*) -> c_int {
            // SAFETY: SQLite hands over an open file; the values go on as they came.
            unsafe {
                match flush(file, kept(file)) {
                    SQLITE_OK => system!(file, $method $(, $value)*),
                    code => code,
                }
            }
        })*
    };
}

written_first! {
    read = xRead(bytes: *mut c_void, n: c_int, at: sqlite3_int64);
    truncate = xTruncate(size: sqlite3_int64);
    sync = xSync(flags: c_int);
    file_size = xFileSize(size: *mut sqlite3_int64);
}

/// The rest has nothing to do with what is written.
macro_rules! handed_on {
    ($($name:ident = $method:ident($($value:ident: $type:ty),*);)*) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $value: $type)*) -> c_int {
            // SAFETY: SQLite hands over an open file; the values go on as they came.
            unsafe { system!(file, $method $(, $value)*) }
        })*
    };
}

handed_on! {
    lock = xLock(kind: c_int);
    unlock = xUnlock(kind: c_int);
    check_reserved_lock = xCheckReservedLock(found: *mut c_int);
    file_control = xFileControl(what: c_int, value: *mut c_void);
    sector_size = xSectorSize();
    device_characteristics = xDeviceCharacteristics();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rusqlite::OpenFlags;

    use super::*;

    /// A cache of ten pages, so that a transaction of more is written before it is committed.
    const TABLES: &str = "
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA cache_size = 10;
        CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT NOT NULL);";

    fn writer(folder: &Path) -> Connection {
        writer_with(folder, "")
    }

    /// The same, with parameters.
    fn writer_with(folder: &Path, parameters: &str) -> Connection {
        let uri = format!("file:{}/jobs.db{parameters}", folder.display());
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags_and_vfs(uri, flags, vfs().unwrap()).unwrap();
        db.execute_batch(TABLES).unwrap();
        db
    }

    fn insert(db: &Connection, n_rows: usize) {
        let mut insert = db.prepare_cached("INSERT INTO t (text) VALUES (?)").unwrap();
        for n in 0..n_rows {
            insert.execute([format!("{n} {}", "x".repeat(1000))]).unwrap();
        }
    }

    /// Rows, their bytes, and what SQLite finds wrong.
    fn found(db: &Connection) -> (i64, i64, String) {
        let sql =
            "SELECT count(*), coalesce(sum(length(text)), 0), (SELECT * FROM pragma_integrity_check) FROM t";
        db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
    }

    /// What somebody finds who opens the files as they are on the disk now, as after a crash.
    fn found_after_a_crash(folder: &Path) -> (i64, i64, String) {
        let copy = tempfile::tempdir().unwrap();
        for name in ["jobs.db", "jobs.db-wal"] {
            fs::copy(folder.join(name), copy.path().join(name)).unwrap();
        }
        found(&Connection::open(copy.path().join("jobs.db")).unwrap())
    }

    #[test]
    fn a_commit_is_in_the_file_when_it_returns_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let db = writer(folder.path());
        let log = || fs::metadata(folder.path().join("jobs.db-wal")).unwrap().len();
        let before = log();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        insert(&db, 3);
        assert_eq!(log(), before);
        db.execute_batch("COMMIT").unwrap();
        assert!(log() > before);
        assert_eq!(found_after_a_crash(folder.path()), (3, 3 * 1002, "ok".to_owned()));
        let other = Connection::open(folder.path().join("jobs.db")).unwrap();
        assert_eq!(found(&other), found(&db));
    }

    #[test]
    fn a_transaction_that_does_not_fit_into_the_cache_reads_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let db = writer(folder.path());
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        // Some 4 MB: more than is kept, in many times ten pages, which are written again as they change.
        insert(&db, 4000);
        db.execute_batch("UPDATE t SET text = replace(text, 'x', 'yz') WHERE id % 7 = 0").unwrap();
        db.execute_batch("SAVEPOINT s; DELETE FROM t WHERE id > 100; UPDATE t SET text = ''; ROLLBACK TO s")
            .unwrap();
        let seen = found(&db);
        assert_eq!((seen.0, seen.2.as_str()), (4000, "ok"));
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(found_after_a_crash(folder.path()), seen);
        // Rolled back, and after the log has begun anew.
        db.execute_batch(
            "BEGIN; DELETE FROM t; ROLLBACK; PRAGMA wal_checkpoint(RESTART); DELETE FROM t WHERE id > 2000",
        )
        .unwrap();
        let seen = found(&db);
        assert_eq!((seen.0, seen.2.as_str()), (2000, "ok"));
        assert_eq!(found_after_a_crash(folder.path()), seen);
    }

    #[test]
    fn a_disk_behind_whose_sync_sqlite_writes_does_not_suit() {
        for (parameters, does) in [("", true), ("?psow=0", false)] {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(suits(&writer_with(folder.path(), parameters)), does, "{parameters}");
        }
    }
}

//! How often anybody has committed to the file, this process or another: one number in the memory that all of them share.
//!
//! SQLite keeps it in the index of its log, at a place that its documented format fixes
//! (<https://www.sqlite.org/walformat.html>, "iChange"). Looking at it takes a nanosecond; asking SQLite whether something has
//! changed takes a transaction. The number moves when a commit becomes visible, which is after it is on the disk.
//!
//! When a process is killed while it writes the index, the next one makes the index anew and counts from zero. So that an old
//! number does not come back as if nothing had happened, the checksum of the newest page in the log goes with it.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, ffi};

use super::connect::DatabaseFile;
use crate::Error;

/// SQLite maps the index in regions of this size.
const REGION_BYTES: i32 = 32 * 1024;

/// Where the number is in the index, counted in numbers of four bytes.
const N_PLACE: usize = 2;

/// Where the first half of the checksum is ("aFrameCksum"), likewise.
const PAGE_PLACE: usize = 6;

/// Methods of a file from this version on know shared memory.
const SHARES_MEMORY: i32 = 2;

/// A moment between two commits. Equal ones mean that nothing was committed in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CommitStamp {
    /// So many commits, modulo 2³².
    n: u32,
    /// The checksum of the newest page in the log.
    page: u32,
}

/// The number of commits, for as long as this lives.
pub(super) struct CommitCounter {
    index: LogIndex,
    /// What is mapped stays so while a connection is open. Behind a lock only because it may be used by one thread at a time.
    _anchor: Mutex<Connection>,
}

impl CommitCounter {
    /// `None` where the file system or SQLite has no shared memory to look at.
    pub(super) fn of(file: &DatabaseFile) -> Result<Option<CommitCounter>, Error> {
        let anchor = file.reader()?;
        // The index is mapped by the first transaction.
        anchor.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(index(&anchor).map(|index| CommitCounter { index, _anchor: Mutex::new(anchor) }))
    }

    /// The moment that this is.
    pub(super) fn now(&self) -> CommitStamp {
        CommitStamp { n: self.index.n.load(Ordering::Acquire), page: self.index.page.load(Ordering::Acquire) }
    }

    /// The moment after the commit that the caller made at `before`. If others have committed since, it is past already.
    pub(super) fn after(&self, before: CommitStamp) -> CommitStamp {
        CommitStamp { n: before.n.wrapping_add(1), page: self.now().page }
    }
}

/// What is looked at in the index of the log.
struct LogIndex {
    n: &'static AtomicU32,
    page: &'static AtomicU32,
}

/// The file of an open connection, and what can be done with it. `None` where SQLite has none.
#[expect(unsafe_code, reason = "rusqlite has no function for it")]
pub(super) fn database_file(db: &Connection) -> Option<(*mut ffi::sqlite3_file, &ffi::sqlite3_io_methods)> {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, and for this operation SQLite writes one pointer to the place it is given.
    let found = unsafe {
        let place = (&raw mut file).cast::<c_void>();
        ffi::sqlite3_file_control(db.handle(), c"main".as_ptr(), ffi::SQLITE_FCNTL_FILE_POINTER, place)
    };
    if found != ffi::SQLITE_OK || file.is_null() {
        return None;
    }
    // SAFETY: the file belongs to the open connection; a file that could not be opened has no methods.
    unsafe { (*file).pMethods.as_ref() }.map(|methods| (file, methods))
}

#[expect(unsafe_code, reason = "numbers that SQLite has no function for")]
fn index(db: &Connection) -> Option<LogIndex> {
    let (file, methods) = database_file(db)?;
    let map = methods.xShmMap.filter(|_| methods.iVersion >= SHARES_MEMORY)?;
    let mut region: *mut c_void = ptr::null_mut();
    // SAFETY: called as SQLite does, for a region that exists (`0`: do not make it); nobody else uses the connection meanwhile.
    let mapped = unsafe { map(file, 0, REGION_BYTES, 0, &raw mut region) };
    if mapped != ffi::SQLITE_OK || region.is_null() {
        return None;
    }
    // SAFETY: the region begins with the header, aligned to a page, and stays mapped while a connection to the file is open:
    // `CommitCounter` keeps one, and hands the references to nobody. Others write each number whole, so that no load sees half of it.
    let at = |place| unsafe { AtomicU32::from_ptr(region.cast::<u32>().add(place)) };
    Some(LogIndex { n: at(N_PLACE), page: at(PAGE_PLACE) })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use super::super::Options;
    use super::*;

    /// Bytes of the index before the second copy of its header's count.
    const SECOND_COPY: u64 = 48 + 8;

    #[test]
    fn every_commit_of_anybody_is_counted_by_one_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let (one, other) = (file.writer().unwrap(), file.writer().unwrap());
        one.execute_batch("CREATE TABLE t (x)").unwrap();
        let commits = CommitCounter::of(&file).unwrap().expect("SQLite shares memory here");
        let count = |what: &dyn Fn()| {
            let before = commits.now().n;
            what();
            commits.now().n.wrapping_sub(before)
        };
        assert_eq!(count(&|| one.execute_batch("INSERT INTO t VALUES (1)").unwrap()), 1);
        assert_eq!(
            count(&|| other.execute_batch("BEGIN; INSERT INTO t VALUES (2), (3); COMMIT").unwrap()),
            1
        );
        assert_eq!(count(&|| one.execute_batch("BEGIN; INSERT INTO t VALUES (4); ROLLBACK").unwrap()), 0);
        assert_eq!(count(&|| one.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap()), 0);
        assert_eq!(count(&|| one.execute_batch("DELETE FROM t WHERE x > 100").unwrap()), 0);
        assert_eq!(
            count(&|| file.copier().unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap()),
            0
        );
        assert_eq!(
            count(&|| one.execute_batch("INSERT INTO t VALUES (5)").unwrap()),
            1,
            "after the log began anew"
        );
    }

    #[test]
    fn a_transaction_too_large_for_the_cache_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let db = file.writer().unwrap();
        db.execute_batch("CREATE TABLE t (x); PRAGMA cache_size = 10").unwrap();
        let commits = CommitCounter::of(&file).unwrap().expect("SQLite shares memory here");
        let before = commits.now().n;
        db.execute_batch("BEGIN").unwrap();
        for _ in 0..200 {
            db.execute_batch("INSERT INTO t VALUES (zeroblob(4000))").unwrap();
        }
        assert_eq!(commits.now().n, before, "what is not committed is not seen");
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(commits.now().n, before.wrapping_add(1));
    }

    #[test]
    fn a_count_that_began_anew_is_not_taken_for_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let db = file.writer().unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let commits = CommitCounter::of(&file).unwrap().expect("SQLite shares memory here");
        let before = commits.now();
        // What a process leaves behind that was killed between the two copies of the header.
        let index = OpenOptions::new().write(true).open(folder.path().join("jobs.db-shm")).unwrap();
        index.write_all_at(&[0xff; 4], SECOND_COPY).unwrap();
        let mut n = 0;
        while n != before.n {
            db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            n = commits.now().n;
            assert!(n <= before.n, "it counts from zero again");
        }
        assert_ne!(commits.now(), before);
    }
}

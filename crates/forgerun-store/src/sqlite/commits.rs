//! How often anybody has committed to the file, this process or another: one number in the memory that all of them share.
//!
//! SQLite keeps it in the index of its log, a file at a place that its documented format fixes
//! (<https://www.sqlite.org/walformat.html>, "iChange"). Looking at it takes one read of a page in memory; asking SQLite whether
//! something has changed takes a transaction. The number moves when a commit becomes visible, which is after it is on the disk.
//!
//! When a process is killed while it writes the index, the next one makes the index anew and counts from zero. So that an old
//! number does not come back as if nothing had happened, the checksum of the newest page in the log goes with it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::connect::DatabaseFile;
use super::handles::handle;
use crate::Error;

/// Bytes of the index before the number.
const N_PLACE: u64 = 8;

/// Bytes from the number to the first half of the checksum ("aFrameCksum").
const PAGE_DISTANCE: usize = 16;

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
    index: Arc<File>,
    /// The index is deleted with the last connection, and made anew with the next.
    _anchor: Mutex<Connection>,
}

impl CommitCounter {
    /// `None` if there is no such file to look at.
    pub(super) fn of(file: &DatabaseFile) -> Result<Option<CommitCounter>, Error> {
        let anchor = file.reader()?;
        // The first transaction opens the index.
        anchor.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        let counter = match handle(&index_path(file)) {
            Ok(index) => CommitCounter { index, _anchor: Mutex::new(anchor) },
            Err(error) => {
                tracing::warn!(%error, "cannot read the index of the log; nothing that was read is kept");
                return Ok(None);
            }
        };
        Ok(counter.now().is_some().then_some(counter))
    }

    /// The moment that this is; `None` if the index cannot be read.
    pub(super) fn now(&self) -> Option<CommitStamp> {
        let mut header = [0; PAGE_DISTANCE + 4];
        self.index.read_exact_at(&mut header, N_PLACE).ok()?;
        // As the processor has it: all who share the index run on one machine.
        let number = |at: usize| header[at..].first_chunk().copied().map(u32::from_ne_bytes);
        Some(CommitStamp { n: number(0)?, page: number(PAGE_DISTANCE)? })
    }

    /// The moment after the commit that the caller made at `before`. If others have committed since, it is past already.
    pub(super) fn after(&self, before: CommitStamp) -> CommitStamp {
        // One that cannot be read is none that comes again.
        let page = self.now().map_or(before.page, |now| now.page);
        CommitStamp { n: before.n.wrapping_add(1), page }
    }
}

fn index_path(file: &DatabaseFile) -> PathBuf {
    let mut path = file.path.clone().into_os_string();
    path.push("-shm");
    path.into()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use super::super::Options;
    use super::*;

    /// Bytes of the index before the second copy of its header's count.
    const SECOND_COPY: u64 = 48 + 8;

    fn now(commits: &CommitCounter) -> CommitStamp {
        commits.now().expect("the index is there")
    }

    #[test]
    fn every_commit_of_anybody_is_counted_by_one_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let (one, other) = (file.writer().unwrap(), file.writer().unwrap());
        one.execute_batch("CREATE TABLE t (x)").unwrap();
        let commits = CommitCounter::of(&file).unwrap().expect("SQLite has an index here");
        let count = |what: &dyn Fn()| {
            let before = now(&commits).n;
            what();
            now(&commits).n.wrapping_sub(before)
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
        let commits = CommitCounter::of(&file).unwrap().expect("SQLite has an index here");
        let before = now(&commits).n;
        db.execute_batch("BEGIN").unwrap();
        for _ in 0..200 {
            db.execute_batch("INSERT INTO t VALUES (zeroblob(4000))").unwrap();
        }
        assert_eq!(now(&commits).n, before, "what is not committed is not seen");
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(now(&commits).n, before.wrapping_add(1));
    }

    #[test]
    fn a_count_that_began_anew_is_not_taken_for_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Options::default() };
        let db = file.writer().unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let commits = CommitCounter::of(&file).unwrap().expect("SQLite has an index here");
        let before = now(&commits);
        // What a process leaves behind that was killed between the two copies of the header.
        let index = OpenOptions::new().write(true).open(folder.path().join("jobs.db-shm")).unwrap();
        index.write_all_at(&[0xff; 4], SECOND_COPY).unwrap();
        let mut n = 0;
        while n != before.n {
            db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            n = now(&commits).n;
            assert!(n <= before.n, "it counts from zero again");
        }
        assert_ne!(now(&commits), before);
    }
}

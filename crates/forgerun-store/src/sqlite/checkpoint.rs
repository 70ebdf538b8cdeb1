//! Copying the log back into the file, beside the writer.
//!
//! SQLite by default does this within the commit that fills the log, and whoever waits for that commit waits for thousands
//! of pages more. Here a thread of its own, the copier, copies whatever is committed. The log can only begin anew
//! when all of it is copied, which under load the copier never achieves, since the writer goes on meanwhile. So at
//! [`PAGES_MAX`] the writer copies the rest itself, and the log begins anew.
//!
//! The rest must be little, for everybody waits for it:
//! - The copier is asked in ever smaller steps: whenever half of the way to [`PAGES_MAX`] is done, so 2000, 3000, 3500, 3750.
//! - SQLite syncs the file only when all of the log is copied, so the writer would wait for the pages of the copier, too. So the
//!   copier syncs them itself.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode};

use super::connect::DatabaseFile;
use super::handles::handle;
use crate::{Error, Fault};

/// Pages of 4 KiB at which the writer does it: a log of 16 MB, more only while a reader holds on to it.
const PAGES_MAX: i32 = 4000;

/// The smallest step in pages.
const STEP_MIN: i32 = 250;

/// Pages until the writer tries again when the log did not begin anew, because a reader holds on to it.
const AGAIN: i32 = 1000;

/// A log that a slow reader made longer than this many bytes is cut back. More than [`PAGES_MAX`]: writing over an
/// old log is faster than making it grow again.
pub(super) const LOG_BYTES_MAX: i32 = 2 * PAGES_MAX * 4096;

/// Asks for a copy. One request waiting is enough.
pub(super) type CheckpointRequests = SyncSender<()>;

/// The thread. Ends when nobody can ask any more.
pub(super) struct Checkpointer(Option<JoinHandle<()>>);

impl Checkpointer {
    pub(super) fn start(file: &DatabaseFile) -> Result<(Checkpointer, CheckpointRequests), Error> {
        let db = file.copier()?;
        let database = handle(&file.path).map_err(|error| Error::new(Fault::Unavailable, error))?;
        let (checkpoints, requests) = sync_channel(1);
        let thread = Builder::new().name("forge-copier".into()).spawn(move || run(&db, &database, &requests));
        let thread = thread.map_err(|error| Error::new(Fault::Unavailable, error))?;
        Ok((Checkpointer(Some(thread)), checkpoints))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that copies the log has panicked");
        }
    }
}

fn run(db: &Connection, database: &File, requests: &Receiver<()>) {
    while requests.recv().is_ok() {
        // Nothing is lost when it fails: the log stays as it is, and the next step tries again.
        match db.wal_checkpoint_v2(Some("main"), Default::default()) {
            Ok(_) if sync_ahead(database) => {}
            // The system tells each handle of a failed sync once. So nothing more goes by this one; that of the writer is told, too.
            Ok(_) => return,
            Err(error) if is_done_by_another(&error) => {}
            Err(error) => tracing::warn!(%error, "could not copy the log back"),
        }
    }
}

/// Makes the commits of the writing connection ask for a copy instead of copying themselves.
pub(super) fn watch(db: &mut Connection, checkpoints: CheckpointRequests) -> Result<(), Error> {
    let (mut seen, mut next) = (0, next_step(0));
    db.wal_hook(Some(move |log: &mut Wal, pages: i32| {
        if pages < seen {
            next = next_step(0);
        }
        seen = pages;
        if pages >= next {
            next = if pages < PAGES_MAX {
                // Full means that one is asked for already.
                let _ = checkpoints.try_send(());
                next_step(pages)
            } else {
                pages + copy_rest(log)
            };
        }
        Ok(())
    }))?;
    Ok(())
}

/// The pages at which something is done next.
fn next_step(pages: i32) -> i32 {
    pages + ((PAGES_MAX - pages) / 2).max(STEP_MIN)
}

/// After how many pages to try again, should the log not begin anew.
fn copy_rest(log: &mut Wal) -> i32 {
    // The commit is done, whatever becomes of this.
    match log.checkpoint() {
        Ok(()) => AGAIN,
        Err(error) if is_done_by_another(&error) => STEP_MIN,
        Err(error) => {
            tracing::warn!(%error, "could not copy the rest of the log back");
            AGAIN
        }
    }
}

/// Syncs the database file, only so that less is left for whoever must: the log is given up after their sync, not after this one. Whether that
/// worked.
fn sync_ahead(database: &File) -> bool {
    let synced = database.sync_data();
    if let Err(error) = &synced {
        tracing::error!(%error, "could not sync what was copied back; the writer copies from now on");
    }
    synced.is_ok()
}

/// One copies at a time, of all threads and processes that have the file open: whoever comes second has nothing to do.
fn is_done_by_another(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn the_copier_is_asked_in_ever_smaller_steps() {
        let steps = std::iter::successors(Some(next_step(0)), |pages| Some(next_step(*pages)));
        assert_eq!(steps.take(5).collect::<Vec<_>>(), [2000, 3000, 3500, 3750, PAGES_MAX]);
    }

    #[test]
    fn only_a_copy_that_another_makes_is_no_failure() {
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(is_done_by_another(&failed(ffi::SQLITE_BUSY)));
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_FULL, ffi::SQLITE_CORRUPT, ffi::SQLITE_LOCKED] {
            assert!(!is_done_by_another(&failed(code)), "{code}");
        }
    }
}

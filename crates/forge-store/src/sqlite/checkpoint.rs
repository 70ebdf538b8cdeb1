//! Copying the log back into the file, beside the writer.
//!
//! SQLite by default does this within the commit that fills the log, and whoever waits for that commit waits for thousands
//! of pages more. Here a thread of its own copies whatever is committed, every [`STEP`] pages. The log can only begin anew
//! when all of it is copied, which under load the thread never achieves, since the writer goes on meanwhile. So at
//! [`STEPS_MAX`] the writer copies the little that is left itself, and the log begins anew.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode};

use super::connect::DatabaseFile;
use crate::{Error, Fault};

/// Pages of 4 KiB. Larger steps make the writer's own share larger, which shows in the slowest commits.
const STEP: i32 = 1000;

/// Pages at which the writer does it: a log of 16 MB, more only while a reader holds on to it.
const STEPS_MAX: i32 = 4 * STEP;

/// A log that a slow reader made longer than this many bytes is cut back. More than [`STEPS_MAX`] pages: writing over an
/// old log is faster than making it grow again.
pub(super) const LOG_BYTES_MAX: i32 = 8 * STEP * 4096;

/// Asks for a copy. One request waiting is enough.
pub(super) type CheckpointRequests = SyncSender<()>;

/// The thread. Ends when every bell is gone.
pub(super) struct Checkpointer(Option<JoinHandle<()>>);

impl Checkpointer {
    pub(super) fn start(file: &DatabaseFile) -> Result<(Checkpointer, CheckpointRequests), Error> {
        let db = file.copier()?;
        let (bell, rings) = sync_channel(1);
        let thread = Builder::new().name("forge-copier".into()).spawn(move || run(&db, &rings));
        let thread = thread.map_err(|error| Error::new(Fault::Unavailable, error))?;
        Ok((Checkpointer(Some(thread)), bell))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that copies the log has panicked");
        }
    }
}

fn run(db: &Connection, rings: &Receiver<()>) {
    while rings.recv().is_ok() {
        // Nothing is lost when it fails: the log stays as it is, and the next step tries again.
        if let Err(error) = db.wal_checkpoint_v2(Some("main"), Default::default())
            && !is_done_by_another(&error)
        {
            tracing::warn!(%error, "could not copy the log back");
        }
    }
}

/// Makes the commits of the writing connection ring the bell instead of copying themselves.
pub(super) fn watch(db: &mut Connection, bell: CheckpointRequests) -> Result<(), Error> {
    let mut asked_at = 0;
    db.wal_hook(Some(move |log: &mut Wal, pages: i32| {
        if pages < asked_at {
            asked_at = 0;
        }
        if pages - asked_at >= STEP {
            asked_at = pages;
            match pages < STEPS_MAX {
                // Full means that one is asked for already.
                true => drop(bell.try_send(())),
                false => copy_rest(log),
            }
        }
        Ok(())
    }))?;
    Ok(())
}

fn copy_rest(log: &mut Wal) {
    // The commit is done, whatever becomes of this.
    if let Err(error) = log.checkpoint()
        && !is_done_by_another(&error)
    {
        tracing::warn!(%error, "could not copy the rest of the log back");
    }
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
    fn only_a_copy_that_another_makes_is_no_failure() {
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(is_done_by_another(&failed(ffi::SQLITE_BUSY)));
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_FULL, ffi::SQLITE_CORRUPT, ffi::SQLITE_LOCKED] {
            assert!(!is_done_by_another(&failed(code)), "{code}");
        }
    }
}

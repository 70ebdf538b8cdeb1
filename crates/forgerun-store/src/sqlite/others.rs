//! News of other processes on the same file. They tell nobody what they do; the writer notices when it begins its next transaction, but a
//! process that only waits for work begins none. So a thread looks several times a second whether the file has commits that are not ours.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::Mutex;

use super::read_cache::ReadCache;
use super::writer::SqliteWriter;
use crate::{Error, Fault};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The thread. Dropping it ends it.
pub(super) struct OtherProcesses {
    /// `None` only while it is dropped. Nothing is sent.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OtherProcesses {
    pub(super) fn watch(
        writer: Arc<Mutex<SqliteWriter>>,
        read_cache: Arc<ReadCache>,
    ) -> Result<OtherProcesses, Error> {
        let (end, ended) = sync_channel(0);
        let run = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if read_cache.is_behind() {
                    writer.blocking_lock().look();
                }
            }
        };
        let thread = Builder::new().name("forge-others".into()).spawn(run);
        let thread = thread.map_err(|error| Error::new(Fault::Unavailable, error))?;
        Ok(OtherProcesses { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for OtherProcesses {
    fn drop(&mut self) {
        drop(self.end.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that looks for other processes has panicked");
        }
    }
}

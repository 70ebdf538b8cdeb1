//! A fixed number of connections, handed out one caller at a time.
//!
//! A connection comes back only if its user says that it is clean. Whatever else happens to it (an error half way, a
//! panic, a dropped future) closes it, which rolls back what it had begun, and the next caller opens a new one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Options;
use super::connect::{self, Address, Connection};
use super::fault;
use crate::{Error, Fault};

/// Connections to one database.
pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    options: Options,
    n_entries: u32,
    /// The last attempt to open a connection failed, or has not succeeded yet.
    down: AtomicBool,
    free: Arc<Semaphore>,
    entries: Mutex<Vec<PoolEntry>>,
}

/// The room for one connection. The slot goes with the entry, so that connections that follow each other share it.
struct PoolEntry {
    slot: i16,
    connection: Option<Connection>,
}

/// A connection in use.
pub(super) struct PooledConnection {
    shared: Arc<Shared>,
    /// `None` once it was given back.
    entry: Option<PoolEntry>,
    // Dropped after the entry was put back, because the body of `drop` runs before the fields go.
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// A pool with one open connection per slot. They are opened at once: a session takes the server a while to make.
    pub(super) async fn open(address: &Address, options: &Options, slots: Vec<i16>) -> Result<Pool, Error> {
        let open = |slot| {
            let (address, options) = (address.clone(), options.clone());
            async move { Connection::open(&address, &options, slot).await }
        };
        let mut opening: JoinSet<_> = slots.into_iter().map(open).collect();
        let mut entries = Vec::with_capacity(opening.len());
        while let Some(opened) = opening.join_next().await {
            let opened = opened.map_err(|error| Error::new(Fault::Unavailable, error))?;
            let connection = opened.map_err(fault::report)?;
            entries.push(PoolEntry { slot: connection.slot, connection: Some(connection) });
        }
        let n_entries = u32::try_from(entries.len()).expect("a handful of connections");
        let free = Arc::new(Semaphore::new(entries.len()));
        let (address, options, entries) = (address.clone(), options.clone(), Mutex::new(entries));
        let shared = Shared { address, options, n_entries, down: AtomicBool::new(false), free, entries };
        Ok(Pool { shared: Arc::new(shared) })
    }

    /// Waits for a free connection, and for the database to be reachable, up to the bound of the options. Cancelled while it
    /// waits, it leaves the pool as it was.
    pub(super) async fn take(&self) -> Result<PooledConnection, Error> {
        let shared = &self.shared;
        let busy = |_| match shared.down.load(Ordering::Relaxed) {
            true => Error::new(Fault::Unavailable, "the database cannot be reached"),
            false => Error::new(Fault::Busy, "every database connection is in use"),
        };
        let permit = timeout(shared.options.wait, shared.free.clone().acquire_owned()).await.map_err(busy)?;
        let permit = permit.map_err(|_| Error::new(Fault::Unavailable, "the store is closed"))?;
        let mut entry = shared.entries().pop().expect("there is an entry for every permit");
        entry.connection = entry.connection.filter(|connection| !connection.is_closed());
        let mut pooled = PooledConnection { shared: shared.clone(), entry: Some(entry), _permit: permit };
        pooled.fill().await?;
        Ok(pooled)
    }

    /// Hands out no connection any more, waits for those in use, and closes them all.
    pub(super) async fn close(&self) {
        let shared = &self.shared;
        if let Ok(every) = shared.free.clone().acquire_many_owned(shared.n_entries).await {
            shared.free.close();
            drop(every);
        }
        shared.entries().iter_mut().for_each(|entry| entry.connection = None);
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, Vec<PoolEntry>> {
        // Nothing can panic while the list is being changed.
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PooledConnection {
    /// Opens a connection where there is none.
    async fn fill(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let entry = self.entry.as_mut().expect("a connection in use has its entry until it is given back");
        if entry.connection.is_none() {
            shared.down.store(true, Ordering::Relaxed);
            let opened = connect::open_patiently(&shared.address, &shared.options, entry.slot).await?;
            shared.down.store(false, Ordering::Relaxed);
            entry.connection = Some(opened);
        }
        Ok(())
    }

    /// The connection, to be used for one transaction or statement.
    pub(super) fn connection(&self) -> &Connection {
        let connection = self.entry.as_ref().and_then(|entry| entry.connection.as_ref());
        connection.expect("a connection in use has its connection until it is given back")
    }

    /// Gives back a connection that is outside any transaction.
    pub(super) fn give_back(mut self) {
        self.shared.entries().extend(self.entry.take());
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.shared.entries().push(PoolEntry { slot: entry.slot, connection: None });
        }
    }
}

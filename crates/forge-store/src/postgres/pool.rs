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
    n_places: u32,
    /// The last attempt to open a connection failed, or has not succeeded yet.
    down: AtomicBool,
    free: Arc<Semaphore>,
    places: Mutex<Vec<Place>>,
}

/// The room for one connection. The slot goes with the place, so that connections that follow each other share it.
struct Place {
    slot: i16,
    connection: Option<Connection>,
}

/// A connection in use.
pub(super) struct Loan {
    shared: Arc<Shared>,
    /// `None` once it was given back.
    place: Option<Place>,
    // Dropped after the place was put back, because the body of `drop` runs before the fields go.
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
        let mut places = Vec::with_capacity(opening.len());
        while let Some(opened) = opening.join_next().await {
            let opened = opened.map_err(|error| Error::new(Fault::Unavailable, error))?;
            let connection = opened.map_err(fault::report)?;
            places.push(Place { slot: connection.slot, connection: Some(connection) });
        }
        let n_places = u32::try_from(places.len()).expect("a handful of connections");
        let free = Arc::new(Semaphore::new(places.len()));
        let (address, options, places) = (address.clone(), options.clone(), Mutex::new(places));
        let shared = Shared { address, options, n_places, down: AtomicBool::new(false), free, places };
        Ok(Pool { shared: Arc::new(shared) })
    }

    /// Waits for a free connection, and for the database to be reachable, up to the bound of the options. Cancelled while it
    /// waits, it leaves the pool as it was.
    pub(super) async fn take(&self) -> Result<Loan, Error> {
        let shared = &self.shared;
        let busy = |_| match shared.down.load(Ordering::Relaxed) {
            true => Error::new(Fault::Unavailable, "the database cannot be reached"),
            false => Error::new(Fault::Busy, "every database connection is in use"),
        };
        let permit = timeout(shared.options.wait, shared.free.clone().acquire_owned()).await.map_err(busy)?;
        let permit = permit.map_err(|_| Error::new(Fault::Unavailable, "the store is closed"))?;
        let mut place = shared.places().pop().expect("there is a place for every permit");
        place.connection = place.connection.filter(|connection| !connection.is_closed());
        let mut loan = Loan { shared: shared.clone(), place: Some(place), _permit: permit };
        loan.fill().await?;
        Ok(loan)
    }

    /// Hands out no connection any more, waits for those in use, and closes them all.
    pub(super) async fn close(&self) {
        let shared = &self.shared;
        if let Ok(every) = shared.free.clone().acquire_many_owned(shared.n_places).await {
            shared.free.close();
            drop(every);
        }
        shared.places().iter_mut().for_each(|place| place.connection = None);
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        // Nothing can panic while the list is being changed.
        self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Loan {
    /// Opens a connection where there is none.
    async fn fill(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let place = self.place.as_mut().expect("a loan has its place until it is given back");
        if place.connection.is_none() {
            shared.down.store(true, Ordering::Relaxed);
            let opened = connect::open_patiently(&shared.address, &shared.options, place.slot).await?;
            shared.down.store(false, Ordering::Relaxed);
            place.connection = Some(opened);
        }
        Ok(())
    }

    /// The connection, to be used for one transaction or statement.
    pub(super) fn connection(&self) -> &Connection {
        let connection = self.place.as_ref().and_then(|place| place.connection.as_ref());
        connection.expect("a loan has its connection until it is given back")
    }

    /// Gives back a connection that is outside any transaction.
    pub(super) fn give_back(mut self) {
        self.shared.places().extend(self.place.take());
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.shared.places().push(Place { slot: place.slot, connection: None });
        }
    }
}

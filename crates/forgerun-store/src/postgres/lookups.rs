//! Lookups by id that come in at the same time share a statement and a trip: all that wait when a connection becomes free are asked for at once.
//!
//! Each is asked for after its caller called, so nobody is told what was true before. A database far away costs each of them one or two trips, and a
//! busy one is asked seldom for many instead of often for one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_postgres::Row;

use super::Options;
use super::connect::in_time;
use super::fault;
use super::pool::Pool;
use super::sql::Sql;
use super::value::Uuid;
use crate::{Error, Fault};

/// Callers that wait for a connection; whoever comes later waits before the queue.
const WAITING_MAX: usize = 4096;

/// Rows that one statement asks for: some hundred kilobytes, on the connection for some milliseconds.
const BATCH_MAX: usize = 256;

/// Statements under way at once. More of them would make smaller batches.
const LANES: usize = 2;

/// What one statement looks up.
pub(super) struct LookupKind<K, V> {
    /// Takes the ids, and gives a row for each that is there.
    pub(super) sql: Sql,
    /// The id of a row.
    pub(super) key: fn(&Row) -> Result<K, Error>,
    /// What the row says.
    pub(super) read: fn(&Row) -> Result<V, Error>,
}

/// Hands in lookups. The loop that does them ends with it.
pub(super) struct Lookups<K, V> {
    queue: mpsc::Sender<Lookup<K, V>>,
}

struct Lookup<K, V> {
    key: K,
    reply: oneshot::Sender<Result<Option<V>, Error>>,
}

impl<K, V> Lookups<K, V>
where
    K: Copy + Eq + Hash + Into<Uuid> + Send + 'static,
    V: Clone + Send + 'static,
{
    /// Starts to look up on connections of `pool`.
    pub(super) fn start(pool: Arc<Pool>, options: Options, kind: &'static LookupKind<K, V>) -> Lookups<K, V> {
        let (queue, mut waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            let lanes = Arc::new(Semaphore::new(LANES));
            loop {
                // First a free lane, then whatever has gathered meanwhile.
                let lane = lanes.clone().acquire_owned().await;
                let mut batch = Vec::new();
                if waiting.recv_many(&mut batch, BATCH_MAX).await == 0 {
                    return;
                }
                let (pool, options) = (pool.clone(), options.clone());
                tokio::spawn(async move {
                    look_up(&pool, &options, kind, batch).await;
                    drop(lane);
                });
            }
        });
        Lookups { queue }
    }

    /// Looks up one id.
    pub(super) async fn find(&self, key: K) -> Result<Option<V>, Error> {
        let (reply, found) = oneshot::channel();
        let closed = || Error::new(Fault::Unavailable, "the store is closed");
        self.queue.send(Lookup { key, reply }).await.map_err(|_| closed())?;
        found.await.unwrap_or_else(|_| Err(closed()))
    }
}

async fn look_up<K, V>(pool: &Pool, options: &Options, kind: &LookupKind<K, V>, mut batch: Vec<Lookup<K, V>>)
where
    K: Copy + Eq + Hash + Into<Uuid>,
    V: Clone,
{
    batch.retain(|lookup| !lookup.reply.is_closed());
    if batch.is_empty() {
        return;
    }
    let ids: Vec<Uuid> = batch.iter().map(|lookup| lookup.key.into()).collect();
    match rows(pool, options, kind.sql, &ids).await {
        Ok(rows) => hand_out(kind, &rows, batch),
        Err(error) => {
            for lookup in batch {
                let _ = lookup.reply.send(Err(Error::new(error.fault, error.to_string())));
            }
        }
    }
}

async fn rows(pool: &Pool, options: &Options, sql: Sql, ids: &[Uuid]) -> Result<Vec<Row>, Error> {
    let pooled = pool.take().await?;
    let rows = in_time(options, pooled.connection().query(sql, &[&ids])).await?;
    // A connection that answered at all is ready for the next question.
    if rows.as_ref().map_or_else(|error| !fault::is_fatal(error), |_| true) {
        pooled.give_back();
    }
    rows.map_err(fault::report)
}

/// Tells each caller what was found. A row that cannot be read is the trouble of those who asked for it.
fn hand_out<K: Copy + Eq + Hash, V: Clone>(kind: &LookupKind<K, V>, rows: &[Row], batch: Vec<Lookup<K, V>>) {
    let by_key: HashMap<K, &Row> = rows.iter().filter_map(|row| Some(((kind.key)(row).ok()?, row))).collect();
    let mut values: HashMap<K, V> = HashMap::with_capacity(by_key.len());
    for Lookup { key, reply } in batch {
        let found = match (values.get(&key), by_key.get(&key)) {
            (Some(value), _) => Ok(Some(value.clone())),
            (None, Some(row)) => (kind.read)(row).map(|value| {
                values.insert(key, value.clone());
                Some(value)
            }),
            (None, None) => Ok(None),
        };
        // Nobody waiting any more is fine.
        let _ = reply.send(found);
    }
}

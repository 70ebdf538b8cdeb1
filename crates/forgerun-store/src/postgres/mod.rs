//! Jobs in PostgreSQL 15 or newer: several nodes at once on one database, and no leader among them.
//!
//! A node has a few connections that write (`lanes`), a few that read, and one that listens for news of the others. They must be
//! sessions of their own: a pooler in between that shares sessions between transactions loses prepared statements,
//! settings and notifications.
//!
//! Isolation is READ COMMITTED. What a batch looks at is locked by row (`load.rs`); a key that does not exist yet cannot be,
//! so two nodes that insert it at once meet in its unique index, and the loser decides again
//! (`transact.rs`).
//!
//! | file | what |
//! |---|---|
//! | `sql.rs` | every statement |
//! | `journal.rs` | those of the journal, and how its numbers are drawn |
//! | `transact.rs` | one batch, from `BEGIN` to `COMMIT`, and again |
//! | `load.rs`, `write.rs`, `columns.rs`, `value.rs` | rows in, rows out |
//! | `read.rs`, `list.rs` | reading without locks |
//! | `lookups.rs`, `fronts.rs` | the same for many who ask at once |
//! | `aside.rs` | rows that nobody can use |
//! | `blobs.rs` | large results, in chunks |
//! | `logs.rs` | log lines of jobs |
//! | `pipeline.rs` | many statements in one trip |
//! | `connect.rs`, `tls.rs`, `pool.rs` | connections |
//! | `listen.rs` | news between nodes |
//! | `migrate.rs` | the schema |
//! | `fault.rs` | what went wrong |

mod aside;
mod beside;
mod blobs;
mod check;
mod columns;
mod connect;
mod deliveries;
mod fault;
mod fronts;
mod journal;
mod list;
mod listen;
mod load;
mod logs;
mod lookups;
mod marks;
mod migrate;
mod operator;
mod pipeline;
mod plain_queues;
mod pool;
mod read;
mod rewrite;
mod shelves;
mod sql;
mod tls;
mod transact;
mod turn_queues;
mod value;
mod write;

#[cfg(all(test, feature = "testing"))]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::Job;
use forgerun_core::log::LogBatch;
use forgerun_core::time::Time;
use forgerun_core::{Changes, Wants};
use tokio::sync::broadcast;

use crate::{
    Blobs, Boxed, Decide, Error, Fault, ObjectPlace, Page, Query, Rewrite, SchemaStatus, Store, StoredResult,
    Sweep, Swept, Wakeup,
};
pub(crate) use connect::{Address, NOTICE_PEER, open_bare};
pub(crate) use fault::{at as place_error, report};
use fronts::FrontCache;
use listen::Listener;
use lookups::Lookups;
use plain_queues::PlainQueues;
use pool::Pool;
use turn_queues::TurnQueues;

/// Wakeups kept for a subscriber that is slow to take them; past that it is told that it missed some.
const WAKEUPS_MAX: usize = 1024;

/// Rows of a queue in the table `counts`. Connections share a slot when there are more of them, and then now and then
/// wait for each other.
const SLOTS: u64 = 64;

/// How a node uses the database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tells this node from the others; drawn at random by whoever starts it.
    pub node: u64,
    /// Connections that write: transactions under way at once.
    pub lanes: usize,
    /// Connections that read.
    pub readers: usize,
    /// How long to wait for a free connection, or for the database to come back.
    pub wait: Duration,
    /// No statement may take longer.
    pub statement_timeout: Duration,
    /// No statement may wait longer for what others hold.
    pub lock_timeout: Duration,
    /// A node that is silent for so long in the middle of a transaction loses it: it is frozen or cut off, and others wait for what it holds.
    pub silence: Duration,
    /// Where the bytes of new blobs go; `None` for the database.
    pub objects: Option<Arc<dyn ObjectPlace>>,
}

impl Options {
    /// What suits most nodes.
    pub fn new(node: u64) -> Options {
        Options {
            node,
            lanes: 4,
            readers: 4,
            wait: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            silence: Duration::from_secs(5),
            objects: None,
        }
    }
}

/// Jobs in PostgreSQL.
pub struct Postgres {
    options: Options,
    /// Where the database is, for errors.
    place: Arc<str>,
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    jobs: Lookups<JobId, Arc<Job>>,
    results: Lookups<ExecutionId, Box<StoredResult>>,
    front_cache: Arc<FrontCache>,
    plain: Arc<PlainQueues>,
    turn_queues: Arc<TurnQueues>,
    /// Up to which job chunks of logs without a job were looked for.
    logs_swept_to: Mutex<JobId>,
    /// The part of the object store that belongs to this database.
    objects: Option<Arc<dyn ObjectPlace>>,
    news: broadcast::Sender<Wakeup>,
    _listener: Listener,
}

impl Postgres {
    /// What is wrong with a URL, as far as it can be told without connecting.
    pub fn check_url(url: &str) -> Result<(), String> {
        connect::parsed(url).map(|_| ())
    }

    /// Which steps the schema of a database still needs. Changes nothing.
    pub async fn schema(url: &str) -> Result<SchemaStatus, Error> {
        let address = Address::parse(url)?;
        let place = address.place();
        let status = async {
            let client = connect::open_bare(&address).await.map_err(fault::report)?;
            migrate::status(&client).await
        };
        status.await.map_err(|error| fault::at(&place, error))
    }

    /// Connects, brings the schema up to date, and opens all connections. The URL is `postgres://user:password@host:port/name`,
    /// or a list of `key=value`. Fails at once when the database cannot be reached.
    pub async fn connect(url: &str, options: Options) -> Result<Postgres, Error> {
        assert!(options.lanes > 0, "a node needs a connection to write");
        assert!(options.readers > 0, "a node needs a connection to read");
        let address = Address::parse(url)?;
        let place: Arc<str> = address.place().into();
        let opened = Postgres::open(address, place.clone(), options).await;
        opened.map_err(|error| fault::at(&place, error))
    }

    async fn open(address: Address, place: Arc<str>, options: Options) -> Result<Postgres, Error> {
        let news = broadcast::channel(WAKEUPS_MAX).0;
        let listener = Listener::start(address.clone(), options.node, news.clone()).await?;
        let mut client = connect::open_bare(&address).await.map_err(fault::report)?;
        listen::check(&client, options.node, news.subscribe()).await?;
        migrate::migrate(&mut client).await?;
        drop(client);
        let slot = |n: usize| {
            (options.node.wrapping_mul(options.lanes as u64).wrapping_add(n as u64) % SLOTS) as i16
        };
        let writers = Pool::open(&address, &options, (0..options.lanes).map(slot).collect()).await?;
        let readers = Pool::open(&address, &options, vec![0; options.readers]).await?;
        let (writers, readers) = (Arc::new(writers), Arc::new(readers));
        let jobs = Lookups::start(readers.clone(), options.clone(), &read::JOBS);
        let results = Lookups::start(readers.clone(), options.clone(), &read::RESULTS);
        let front_cache = Arc::default();
        let objects = match &options.objects {
            Some(objects) => Some(objects.below(read::store_id(&readers, &options).await?)),
            None => None,
        };
        Ok(Postgres {
            options,
            place,
            writers,
            readers,
            jobs,
            results,
            front_cache,
            plain: Arc::default(),
            turn_queues: Arc::default(),
            logs_swept_to: Mutex::new(JobId::from_u128(0)),
            objects,
            news,
            _listener: listener,
        })
    }

    /// Lets transactions and reads under way come to their end, then closes every connection.
    pub async fn close(self) {
        self.writers.close().await;
        self.readers.close().await;
    }
}

impl Store for Postgres {
    fn transact(&self, wants: Wants, decide: Decide) -> Boxed<'_, Changes> {
        Box::pin(async move {
            // A task of its own: a caller that goes away leaves the batch to its end, not its connection in mid-transaction.
            let batch = transact::transact(
                self.writers.clone(),
                self.options.clone(),
                self.plain.clone(),
                self.turn_queues.clone(),
                wants,
                decide,
            );
            let front_cache = self.front_cache.clone();
            let batch = async move {
                let changes = batch.await;
                front_cache.forget();
                changes
            };
            let lost = |error| Err(Error::new(Fault::Unknown, error));
            tokio::spawn(batch).await.unwrap_or_else(lost).map_err(|error| fault::at(&self.place, error))
        })
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        Box::pin(async move {
            let page = read::read(self, query).await;
            page.map_err(|error| fault::at(&self.place, error))
        })
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        Box::pin(async move {
            let swept = read::sweep(&self.writers, &self.options, sweep).await?;
            let log_chunks = self.sweep_logs(sweep.limit).await?;
            Ok(Swept { blobs: self.sweep_blobs(&sweep).await?, log_chunks, ..swept })
        })
    }

    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        Box::pin(async move {
            let appended = self.append(&batches, bytes_max).await;
            appended.map_err(|error| fault::at(&self.place, error))
        })
    }

    fn rewrite(&self, rows: Vec<Rewrite>) -> Boxed<'_, ()> {
        Box::pin(async move {
            let done = self.rewrite_all(rows).await;
            done.map_err(|error| fault::at(&self.place, error))
        })
    }

    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.news.subscribe()
    }

    fn lanes(&self) -> usize {
        self.options.lanes
    }

    fn now(&self) -> Boxed<'_, Option<Time>> {
        Box::pin(async move {
            let now = read::now(&self.readers, &self.options).await;
            now.map(Some).map_err(|error| fault::at(&self.place, error))
        })
    }
}

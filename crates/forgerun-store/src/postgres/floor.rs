//! The least that keeping a job in PostgreSQL costs: a channel to four connections that insert jobs and two events for each, in batches, and one
//! prepared select to read one. It decides nothing. A whole job is ended besides, in a transaction after that: its state changes, and an event, its
//! outcome and its result are inserted. Benchmarks hold the real store against it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use forgerun_core::id::JobId;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::{Client, Statement};

use super::connect::{self, Address};
use super::fault;
use super::value::Uuid;
use crate::{Error, Fault};

/// Connections that write, and as many that read.
const CONNECTIONS: usize = 4;

/// Jobs in one transaction, and in front of it.
const BATCH_MAX: usize = 1024;

/// Bytes that a job leaves when it ends: as many as an outcome and a small result of ours have.
const OUTCOME: [u8; 480] = [b'o'; 480];
const RESULT: [u8; 1024] = [b'r'; 1024];

const SCHEMA: &str = "
    CREATE TABLE floor_jobs (id uuid PRIMARY KEY, client bigint, queue text, state smallint, body bytea);
    CREATE INDEX ON floor_jobs (queue, state, id);
    CREATE INDEX ON floor_jobs (client, id);
    CREATE TABLE floor_events (n bigserial PRIMARY KEY, job uuid NOT NULL, name text);
    CREATE TABLE floor_ends (job uuid PRIMARY KEY, outcome bytea, result bytea)";

const INSERT: &str = "
      WITH new AS (SELECT * FROM unnest($1::uuid[], $2::bytea[]) AS new (id, body)),
           told AS (INSERT INTO floor_events (job, name)
                    SELECT id, name FROM new, (VALUES ('job_created'), ('job_queued')) AS names (name))
    INSERT INTO floor_jobs (id, client, queue, state, body) SELECT id, 1, 'default', 1, body FROM new";

const END: &str = "
      WITH gone AS (SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS gone (id, outcome, result)),
           told AS (INSERT INTO floor_events (job, name) SELECT id, 'job_succeeded' FROM gone),
           left_behind AS (INSERT INTO floor_ends (job, outcome, result) SELECT * FROM gone)
    UPDATE floor_jobs SET state = 4 FROM gone WHERE floor_jobs.id = gone.id";

const SELECT: &str = "SELECT body FROM floor_jobs WHERE id = $1::uuid";

/// A database that jobs are only written to and read from.
pub struct PostgresFloor {
    queue: mpsc::Sender<FloorWrite>,
    n_ended: Arc<AtomicU64>,
    readers: Vec<(Client, Statement)>,
    n_read: AtomicUsize,
}

enum FloorWrite {
    Insert { id: JobId, body: Bytes, told: oneshot::Sender<()> },
    End(JobId),
}

impl PostgresFloor {
    /// Makes its tables in an empty database.
    pub async fn make(url: &str) -> Result<PostgresFloor, Error> {
        let address = Address::parse(url)?;
        let first = connect::open_bare(&address).await.map_err(fault::report)?;
        first.batch_execute(SCHEMA).await.map_err(fault::report)?;
        let (queue, rows) = mpsc::channel(BATCH_MAX);
        let rows = Arc::new(Mutex::new(rows));
        let n_ended = Arc::<AtomicU64>::default();
        let mut readers = Vec::new();
        for _ in 0..CONNECTIONS {
            let (client, insert) = prepared(&address, INSERT).await?;
            let end = client.prepare(END).await.map_err(fault::report)?;
            let writer = FloorWriter { client, insert, end, n_ended: n_ended.clone() };
            tokio::spawn(writer.run(rows.clone()));
            readers.push(prepared(&address, SELECT).await?);
        }
        Ok(PostgresFloor { queue, n_ended, readers, n_read: AtomicUsize::new(0) })
    }

    /// Returns when the job is on the disk.
    pub async fn write_job(&self, id: JobId, body: Bytes) -> Result<(), Error> {
        let (told, hears) = oneshot::channel();
        self.queue.send(FloorWrite::Insert { id, body, told }).await.map_err(|_| gone())?;
        hears.await.map_err(|_| gone())
    }

    /// Returns before the job is ended.
    pub async fn end(&self, id: JobId) -> Result<(), Error> {
        self.queue.send(FloorWrite::End(id)).await.map_err(|_| gone())
    }

    /// How many jobs have ended, on the disk.
    pub fn n_ended(&self) -> u64 {
        self.n_ended.load(Ordering::Relaxed)
    }

    /// The body of a job.
    pub async fn find(&self, id: JobId) -> Result<Option<Vec<u8>>, Error> {
        let n = self.n_read.fetch_add(1, Ordering::Relaxed);
        let (client, select) = &self.readers[n % CONNECTIONS];
        let row = client.query_opt(select, &[&Uuid::from(id)]).await.map_err(fault::report)?;
        row.map(|row| row.try_get(0)).transpose().map_err(fault::report)
    }
}

async fn prepared(address: &Address, sql: &str) -> Result<(Client, Statement), Error> {
    let client = connect::open_bare(address).await.map_err(fault::report)?;
    let statement = client.prepare(sql).await.map_err(fault::report)?;
    Ok((client, statement))
}

fn gone() -> Error {
    Error::new(Fault::Unavailable, "the floor stopped writing")
}

/// One of the connections that write.
struct FloorWriter {
    client: Client,
    insert: Statement,
    end: Statement,
    n_ended: Arc<AtomicU64>,
}

impl FloorWriter {
    /// Whatever waits when this connection is free is its next transaction; of new jobs and ended ones one each, sent together.
    async fn run(self, rows: Arc<Mutex<mpsc::Receiver<FloorWrite>>>) {
        loop {
            let mut batch = Vec::new();
            if rows.lock().await.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return;
            }
            if let Err(error) = self.write(batch).await {
                tracing::error!(%error, "the floor stopped writing");
                return;
            }
        }
    }

    async fn write(&self, batch: Vec<FloorWrite>) -> Result<(), tokio_postgres::Error> {
        let (mut ids, mut bodies, mut tell): (Vec<Uuid>, Vec<Bytes>, Vec<_>) = Default::default();
        let mut ended: Vec<Uuid> = Vec::new();
        for write in batch {
            match write {
                FloorWrite::Insert { id, body, told } => {
                    ids.push(id.into());
                    bodies.push(body);
                    tell.push(told);
                }
                FloorWrite::End(id) => ended.push(id.into()),
            }
        }
        let bodies: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
        let n_ended = ended.len();
        let (outcomes, results) = (vec![&OUTCOME[..]; n_ended], vec![&RESULT[..]; n_ended]);
        let insert = async {
            match ids.is_empty() {
                true => Ok(0),
                false => self.client.execute(&self.insert, &[&ids, &bodies]).await,
            }
        };
        let end = async {
            match ended.is_empty() {
                true => Ok(0),
                false => self.client.execute(&self.end, &[&ended, &outcomes, &results]).await,
            }
        };
        tokio::try_join!(insert, end)?;
        self.n_ended.fetch_add(n_ended as u64, Ordering::Relaxed);
        for told in tell {
            // Whoever has gone meanwhile is not told.
            let _ = told.send(());
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[tokio::test]
    async fn what_was_kept_is_found() {
        let url = Cluster::shared().database().await;
        let floor = PostgresFloor::make(&url).await.unwrap();
        for n in 0..3 {
            floor.write_job(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
        }
        assert_eq!(floor.find(JobId::v7(1, 2)).await.unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(floor.find(JobId::v7(1, 3)).await.unwrap(), None);
        floor.end(JobId::v7(1, 2)).await.unwrap();
        for n in 3.. {
            floor.write_job(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
            if floor.n_ended() == 1 {
                break;
            }
        }
    }
}

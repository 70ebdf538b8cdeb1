//! The least that keeping a job in PostgreSQL costs: a channel to four connections that insert jobs and two events for each, in batches, and one
//! prepared select to read one. It decides nothing. Benchmarks hold the real store against it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use forge_core::id::JobId;
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

const SCHEMA: &str = "
    CREATE TABLE floor_jobs (id uuid PRIMARY KEY, client bigint, queue text, state smallint, body bytea);
    CREATE INDEX ON floor_jobs (queue, state, id);
    CREATE INDEX ON floor_jobs (client, id);
    CREATE TABLE floor_events (n bigserial PRIMARY KEY, job uuid NOT NULL, name text)";

const INSERT: &str = "
      WITH new AS (SELECT * FROM unnest($1::uuid[], $2::bytea[]) AS new (id, body)),
           told AS (INSERT INTO floor_events (job, name)
                    SELECT id, name FROM new, (VALUES ('job_created'), ('job_queued')) AS names (name))
    INSERT INTO floor_jobs (id, client, queue, state, body) SELECT id, 1, 'default', 1, body FROM new";

const SELECT: &str = "SELECT body FROM floor_jobs WHERE id = $1::uuid";

/// A database that jobs are only written to and read from.
pub struct PostgresFloor {
    queue: mpsc::Sender<FloorRow>,
    readers: Vec<(Client, Statement)>,
    n_read: AtomicUsize,
}

struct FloorRow {
    id: JobId,
    body: Bytes,
    told: oneshot::Sender<()>,
}

impl PostgresFloor {
    /// Makes its tables in an empty database.
    pub async fn make(url: &str) -> Result<PostgresFloor, Error> {
        let address = Address::parse(url)?;
        let first = connect::open_bare(&address).await.map_err(fault::report)?;
        first.batch_execute(SCHEMA).await.map_err(fault::report)?;
        let (queue, rows) = mpsc::channel(BATCH_MAX);
        let rows = Arc::new(Mutex::new(rows));
        let mut readers = Vec::new();
        for _ in 0..CONNECTIONS {
            let (writer, insert) = prepared(&address, INSERT).await?;
            tokio::spawn(write(writer, insert, rows.clone()));
            readers.push(prepared(&address, SELECT).await?);
        }
        Ok(PostgresFloor { queue, readers, n_read: AtomicUsize::new(0) })
    }

    /// Returns when the job is on the disk.
    pub async fn keep(&self, id: JobId, body: Bytes) -> Result<(), Error> {
        let (told, hears) = oneshot::channel();
        let gone = || Error::new(Fault::Unavailable, "the floor stopped writing");
        self.queue.send(FloorRow { id, body, told }).await.map_err(|_| gone())?;
        hears.await.map_err(|_| gone())
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

/// Whatever waits when this connection is free is its next transaction.
async fn write(client: Client, insert: Statement, rows: Arc<Mutex<mpsc::Receiver<FloorRow>>>) {
    loop {
        let mut batch = Vec::new();
        if rows.lock().await.recv_many(&mut batch, BATCH_MAX).await == 0 {
            return;
        }
        let ids: Vec<Uuid> = batch.iter().map(|row| row.id.into()).collect();
        let bodies: Vec<&[u8]> = batch.iter().map(|row| &row.body[..]).collect();
        if let Err(error) = client.execute(&insert, &[&ids, &bodies]).await {
            tracing::error!(%error, "the floor stopped writing");
            return;
        }
        for FloorRow { told, .. } in batch {
            // Whoever has gone meanwhile is not told.
            let _ = told.send(());
        }
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
            floor.keep(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
        }
        assert_eq!(floor.find(JobId::v7(1, 2)).await.unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(floor.find(JobId::v7(1, 3)).await.unwrap(), None);
    }
}

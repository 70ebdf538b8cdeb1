//! In PostgreSQL: a channel to four connections that insert jobs and two events for each, in batches,
//! and one prepared select to read one. A whole job is ended in a later transaction: its state changes,
//! and an event, its outcome and its result are inserted.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use forgerun_core::id::JobId;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use tokio_postgres::{Client, Statement};

use super::{BATCH_MAX, OUTCOME, RESULT, stopped};
use crate::scratch::connect;

/// Connections that write, and as many that read.
const CONNECTIONS: usize = 4;

const SCHEMA: &str = "
    CREATE TABLE baseline_jobs (id uuid PRIMARY KEY, client bigint, queue text, state smallint, body bytea);
    CREATE INDEX ON baseline_jobs (queue, state, id);
    CREATE INDEX ON baseline_jobs (client, id);
    CREATE TABLE baseline_events (n bigserial PRIMARY KEY, job uuid NOT NULL, name text);
    CREATE TABLE baseline_ends (job uuid PRIMARY KEY, outcome bytea, result bytea)";

const INSERT: &str = "
      WITH new AS (SELECT * FROM unnest($1::uuid[], $2::bytea[]) AS new (id, body)),
           inserted AS (INSERT INTO baseline_events (job, name)
                    SELECT id, name FROM new, (VALUES ('job_created'), ('job_queued')) AS names (name))
    INSERT INTO baseline_jobs (id, client, queue, state, body) SELECT id, 1, 'default', 1, body FROM new";

const END: &str = "
      WITH ended AS (SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS ended (id, outcome, result)),
           inserted AS (INSERT INTO baseline_events (job, name) SELECT id, 'job_succeeded' FROM ended),
           outcomes AS (INSERT INTO baseline_ends (job, outcome, result) SELECT * FROM ended)
    UPDATE baseline_jobs SET state = 4 FROM ended WHERE baseline_jobs.id = ended.id";

const SELECT: &str = "SELECT body FROM baseline_jobs WHERE id = $1::uuid";

/// A database that jobs are only written to and read from.
pub(crate) struct PostgresBaseline {
    queue: mpsc::Sender<Write>,
    n_ended: Arc<AtomicU64>,
    readers: Vec<(Client, Statement)>,
    n_read: AtomicUsize,
}

enum Write {
    Insert { id: JobId, body: Bytes, written: oneshot::Sender<()> },
    End(JobId),
}

impl PostgresBaseline {
    /// Creates its tables in an empty database.
    pub(super) async fn create(url: &str) -> io::Result<PostgresBaseline> {
        connect(url).await?.batch_execute(SCHEMA).await.map_err(io::Error::other)?;
        let (queue, rows) = mpsc::channel(BATCH_MAX);
        let rows = Arc::new(Mutex::new(rows));
        let n_ended = Arc::<AtomicU64>::default();
        let mut readers = Vec::new();
        for _ in 0..CONNECTIONS {
            let (client, insert) = prepared(url, INSERT).await?;
            let end = client.prepare(END).await.map_err(io::Error::other)?;
            let writer = Writer { client, insert, end, n_ended: n_ended.clone() };
            tokio::spawn(writer.run(rows.clone()));
            readers.push(prepared(url, SELECT).await?);
        }
        Ok(PostgresBaseline { queue, n_ended, readers, n_read: AtomicUsize::new(0) })
    }

    /// Returns when the job is on the disk.
    pub(super) async fn write_job(&self, id: JobId, body: Bytes) -> io::Result<()> {
        let (written, committed) = oneshot::channel();
        self.queue.send(Write::Insert { id, body, written }).await.map_err(|_| stopped())?;
        committed.await.map_err(|_| stopped())
    }

    /// Returns before the job is ended.
    pub(super) async fn end(&self, id: JobId) -> io::Result<()> {
        self.queue.send(Write::End(id)).await.map_err(|_| stopped())
    }

    /// Jobs ended on the disk.
    pub(super) fn n_ended(&self) -> u64 {
        self.n_ended.load(Ordering::Relaxed)
    }

    /// The body of a job.
    pub(crate) async fn find(&self, id: JobId) -> io::Result<Option<Vec<u8>>> {
        let n = self.n_read.fetch_add(1, Ordering::Relaxed);
        let (client, select) = &self.readers[n % CONNECTIONS];
        let row = client.query_opt(select, &[&Uuid::from(id)]).await.map_err(io::Error::other)?;
        row.map(|row| row.try_get(0)).transpose().map_err(io::Error::other)
    }
}

async fn prepared(url: &str, sql: &str) -> io::Result<(Client, Statement)> {
    let client = connect(url).await?;
    let statement = client.prepare(sql).await.map_err(io::Error::other)?;
    Ok((client, statement))
}

/// The id of a job, as the database has it.
#[derive(Debug)]
struct Uuid([u8; 16]);

impl From<JobId> for Uuid {
    fn from(id: JobId) -> Uuid {
        Uuid(id.to_bytes())
    }
}

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

/// One of the connections that write.
struct Writer {
    client: Client,
    insert: Statement,
    end: Statement,
    n_ended: Arc<AtomicU64>,
}

impl Writer {
    /// The writes that wait when this connection is free are its next transactions: one of new jobs, one of ends, sent together.
    async fn run(self, rows: Arc<Mutex<mpsc::Receiver<Write>>>) {
        loop {
            let mut batch = Vec::new();
            if rows.lock().await.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return;
            }
            if let Err(error) = self.write(batch).await {
                eprintln!("the baseline stopped writing: {error}");
                return;
            }
        }
    }

    async fn write(&self, batch: Vec<Write>) -> Result<(), tokio_postgres::Error> {
        let (mut ids, mut bodies, mut waiting): (Vec<Uuid>, Vec<Bytes>, Vec<_>) = Default::default();
        let mut ended: Vec<Uuid> = Vec::new();
        for write in batch {
            match write {
                Write::Insert { id, body, written } => {
                    ids.push(id.into());
                    bodies.push(body);
                    waiting.push(written);
                }
                Write::End(id) => ended.push(id.into()),
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
        for written in waiting {
            // The request may have been cancelled.
            let _ = written.send(());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use forgerun_store::testing::Cluster;

    use super::*;

    #[tokio::test]
    async fn stored_jobs_are_found() {
        let url = Cluster::shared().database().await;
        let baseline = PostgresBaseline::create(&url).await.unwrap();
        for n in 0..3 {
            baseline.write_job(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
        }
        assert_eq!(baseline.find(JobId::v7(1, 2)).await.unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(baseline.find(JobId::v7(1, 3)).await.unwrap(), None);
        baseline.end(JobId::v7(1, 2)).await.unwrap();
        for n in 3.. {
            baseline.write_job(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
            if baseline.n_ended() == 1 {
                break;
            }
        }
    }
}

//! The session of a forwarder: take rows, settle them, wait for more. An error leaves it unusable: open another.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error as PgError, Row};

use super::{NOT_INSTALLED, VERSION};
use crate::postgres::{Address, NOTICE_PEER, report};
use crate::{Error, Fault};

/// A forwarder that is silent for so long in the middle of a transaction loses it, and another takes over.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '60s'; \
     SET LOCAL statement_timeout = '30s'";

/// No row: another forwarder sends.
const LOCK: &str = "SELECT waits FROM forgerun.forwarder FOR UPDATE SKIP LOCKED";

const OLDEST: &str = "SELECT seq, id::text, type, args, options FROM ( \
      SELECT seq, id, type, args, options, \
             sum(octet_length(args) + octet_length(options)) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS before \
        FROM (SELECT seq, id, type, args::text, options::text FROM forgerun.outbox \
               WHERE refused_at IS NULL ORDER BY seq LIMIT $1) oldest) counted \
    WHERE coalesce(before, 0) < $2 ORDER BY seq";

const SET_WAITS: &str = "UPDATE forgerun.forwarder SET waits = $1, name = $2, active_at = clock_timestamp()";

const SENT: &str = "DELETE FROM forgerun.outbox WHERE seq = ANY($1)";

const REFUSED: &str =
    "UPDATE forgerun.outbox SET refused_at = clock_timestamp(), problem = $2::text::jsonb WHERE seq = $1";

const ACTIVE: &str = "UPDATE forgerun.forwarder SET name = $1, active_at = clock_timestamp(), sent = sent + $2, error = $3, \
     error_at = CASE WHEN $3 IS NULL THEN NULL ELSE clock_timestamp() END";

const SWEEP: &str = "DELETE FROM forgerun.outbox WHERE seq IN (SELECT seq FROM forgerun.outbox \
     WHERE refused_at < clock_timestamp() - make_interval(secs => $1) LIMIT 1000)";

/// How long a statement may take, beyond what the server itself allows.
const PATIENCE: Duration = Duration::from_secs(35);

/// How long our own notification may take. Without it there is a pooler in between, and notifications cannot be relied on.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// A job that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    pub seq: i64,
    /// The id of the job, a UUID of version 7.
    pub id: String,
    pub job_type: String,
    /// JSON.
    pub args: String,
    /// A JSON object.
    pub options: String,
}

/// What [`OutboxSession::take`] found.
#[derive(Debug)]
pub enum Taken {
    /// The oldest rows. They are this forwarder's until it settles them.
    Rows(Vec<OutboxRow>),
    /// No row waits.
    Nothing,
    /// Another forwarder sends.
    Busy,
}

/// A row that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub seq: i64,
    /// The problem object, as JSON.
    pub problem: String,
}

/// What became of rows that were taken. Rows in neither list wait on.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    pub sent: Vec<i64>,
    pub refused: Vec<Refused>,
    /// Why no more could be sent.
    pub error: Option<String>,
}

/// A forwarder's connection.
pub struct OutboxSession {
    client: Client,
    name: String,
    news: Arc<Notify>,
    hears: bool,
    /// As last read: whether submissions notify.
    waits: bool,
}

impl OutboxSession {
    pub(super) async fn open(address: &Address, name: &str) -> Result<OutboxSession, Error> {
        let (client, mut driver) = address.connect().await.map_err(report)?;
        let news = Arc::new(Notify::new());
        let heard = news.clone();
        tokio::spawn(async move {
            loop {
                match poll_fn(|context| driver.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(_))) => heard.notify_one(),
                    Some(Ok(_)) => {}
                    // Who uses the connection gets the error too.
                    Some(Err(_)) | None => return heard.notify_one(),
                }
            }
        });
        let mut session = OutboxSession { client, name: name.to_owned(), news, hears: false, waits: false };
        session.check_version().await?;
        session.listen().await?;
        Ok(session)
    }

    async fn check_version(&self) -> Result<(), Error> {
        let text = "SELECT version FROM forgerun.forwarder";
        let rows = in_time(self.client.query_typed(text, &[])).await?.map_err(report_missing)?;
        let installed: i32 = rows.first().map_or(0, |row| row.get(0));
        match installed {
            VERSION => Ok(()),
            newer if newer > VERSION => {
                Err(Error::new(Fault::TooNew, "the outbox was installed by a newer version of forgerun"))
            }
            _ => Err(Error::new(Fault::Corrupt, NOT_INSTALLED)),
        }
    }

    /// Listens, and finds out whether notifications arrive.
    async fn listen(&mut self) -> Result<(), Error> {
        let text = format!("{NOTICE_PEER}; LISTEN forgerun_outbox; SELECT pg_notify('forgerun_outbox', '')");
        in_time(self.client.batch_execute(&text)).await?.map_err(report)?;
        self.hears = timeout(HEARD_WITHIN, self.news.notified()).await.is_ok();
        Ok(())
    }

    /// Whether a notification wakes [`OutboxSession::wait`].
    pub fn hears(&self) -> bool {
        self.hears
    }

    /// Takes the oldest rows: at most `n_max`, and as many as `bytes_max` bytes hold, but at least one. If none is there,
    /// `may_wait` asks submissions from now on to notify; look once more before you wait.
    pub async fn take(&mut self, n_max: i64, bytes_max: i64, may_wait: bool) -> Result<Taken, Error> {
        in_time(self.client.batch_execute(BEGIN)).await?.map_err(report)?;
        let lock = self.query(LOCK, &[]).await?;
        let Some(lock) = lock.first() else {
            self.end("ROLLBACK").await?;
            return Ok(Taken::Busy);
        };
        self.waits = lock.get(0);
        let rows = self.query(OLDEST, &[(&n_max, Type::INT8), (&bytes_max, Type::INT8)]).await?;
        if rows.is_empty() {
            if may_wait && !self.waits {
                self.set_waits(true).await?;
            }
            self.end("COMMIT").await?;
            return Ok(Taken::Nothing);
        }
        let row = |row: &Row| OutboxRow {
            seq: row.get(0),
            id: row.get(1),
            job_type: row.get(2),
            args: row.get(3),
            options: row.get(4),
        };
        let rows: Vec<OutboxRow> = rows.iter().map(row).collect();
        // At full batches nobody waits, and notifications would only slow commits down.
        if self.waits && rows.len() as i64 >= n_max {
            self.set_waits(false).await?;
        }
        Ok(Taken::Rows(rows))
    }

    /// Ends what [`OutboxSession::take`] began.
    pub async fn settle(&mut self, settled: &Settled) -> Result<(), Error> {
        if !settled.sent.is_empty() {
            self.query(SENT, &[(&settled.sent, Type::INT8_ARRAY)]).await?;
        }
        for Refused { seq, problem } in &settled.refused {
            self.query(REFUSED, &[(seq, Type::INT8), (problem, Type::TEXT)]).await?;
        }
        let n_sent = settled.sent.len() as i64;
        self.query(ACTIVE, &[(&self.name, Type::TEXT), (&n_sent, Type::INT8), (&settled.error, Type::TEXT)])
            .await?;
        self.end("COMMIT").await
    }

    /// Deletes refused rows that are older than this, some at a time.
    pub async fn sweep(&mut self, older: Duration) -> Result<(), Error> {
        let seconds = older.as_secs_f64();
        self.query(SWEEP, &[(&seconds, Type::FLOAT8)]).await?;
        Ok(())
    }

    /// Waits for a notification, no longer than this.
    pub async fn wait(&self, most: Duration) {
        let _ = timeout(most, self.news.notified()).await;
    }

    async fn set_waits(&mut self, waits: bool) -> Result<(), Error> {
        self.query(SET_WAITS, &[(&waits, Type::BOOL), (&self.name, Type::TEXT)]).await?;
        self.waits = waits;
        Ok(())
    }

    async fn query(&self, text: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Error> {
        in_time(self.client.query_typed(text, values)).await?.map_err(report)
    }

    async fn end(&self, how: &str) -> Result<(), Error> {
        in_time(self.client.batch_execute(how)).await?.map_err(report)
    }
}

async fn in_time<T>(statement: impl Future<Output = T>) -> Result<T, Error> {
    let late = |_| Error::new(Fault::Timeout, "no answer from the database");
    timeout(PATIENCE, statement).await.map_err(late)
}

/// A missing table or schema means that nothing was installed.
pub(super) fn report_missing(error: PgError) -> Error {
    let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    match error.code() {
        Some(code) if missing.contains(code) => Error::new(Fault::Corrupt, NOT_INSTALLED),
        _ => report(error),
    }
}

//! The outbox in an application's own PostgreSQL: jobs that were submitted inside its transactions and wait to be sent.
//!
//! Not a [`Store`](crate::Store), and it knows no rule: it is here because only this crate speaks SQL and connects to PostgreSQL.
//! The forwarder, which sends the rows, is the crate `forgerun-outbox`.
//!
//! One forwarder at a time holds the lock of the row in `forgerun.forwarder`, in the transaction that reads rows, sends them and
//! deletes them. A forwarder that dies loses the transaction: its rows are sent again, and the server knows their ids. Rows are
//! found because they are there, not by a position, so one that commits late is sent late and never skipped.
//!
//! No session feature is needed but `LISTEN`, and without it (a pooler in transaction mode) the forwarder polls.

mod session;

use std::fmt;

use crate::postgres::{Address, open_bare, place_error, report};
use crate::{Error, Fault};

pub use session::{OutboxRow, OutboxSession, Refused, Settled, Taken};

/// The schema as SQL, to be run as it is; repeatable.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The version that [`SCHEMA`] leaves.
const VERSION: i32 = 1;

const NOT_INSTALLED: &str = "there is no outbox in this database; run `forgerun outbox install`";

const STATUS: &str = "SELECT \
    (SELECT count(*) FROM (SELECT FROM forgerun.outbox WHERE refused_at IS NULL LIMIT 1000000) waiting), \
    (SELECT count(*) FROM (SELECT FROM forgerun.outbox WHERE refused_at IS NOT NULL LIMIT 1000000) refused), \
    (SELECT extract(epoch FROM clock_timestamp() - submitted_at)::float8 FROM forgerun.outbox \
      WHERE refused_at IS NULL ORDER BY seq LIMIT 1), \
    name, extract(epoch FROM clock_timestamp() - active_at)::float8, sent, error FROM forgerun.forwarder";

/// Refused jobs that the status shows.
const REFUSED: &str = "SELECT id::text, type, problem::text FROM forgerun.outbox WHERE refused_at IS NOT NULL \
    ORDER BY refused_at DESC LIMIT 20";

/// Where an outbox is.
#[derive(Clone)]
pub struct OutboxDatabase {
    address: Address,
    place: String,
}

impl fmt::Debug for OutboxDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxDatabase").field("place", &self.place).finish_non_exhaustive()
    }
}

/// How an outbox stands.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxStatus {
    /// Rows that wait; counted up to a million.
    pub waiting: u64,
    /// Rows that the server refused; counted up to a million.
    pub refused: u64,
    /// Seconds since the oldest waiting row was submitted; `None` if none waits.
    pub lag_seconds: Option<f64>,
    /// The forwarder that last sent or tried to.
    pub forwarder: Option<String>,
    /// Seconds since then.
    pub active_seconds_ago: Option<f64>,
    /// Jobs sent since the installation.
    pub sent: u64,
    /// Why the last attempt to send failed; `None` if it succeeded.
    pub error: Option<String>,
    /// The latest refused jobs, at most 20.
    pub refusals: Vec<RefusedJob>,
}

/// A job that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedJob {
    pub id: String,
    pub job_type: String,
    /// The problem object, as JSON.
    pub problem: String,
}

impl OutboxDatabase {
    /// The outbox in the database of this URL. Does not connect.
    pub fn at(url: &str) -> Result<OutboxDatabase, Error> {
        let address = Address::parse(url)?;
        let place = address.place();
        Ok(OutboxDatabase { address, place })
    }

    /// Which server, without names and passwords.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Installs the schema, or upgrades an older one, in one transaction.
    pub async fn install(&self) -> Result<(), Error> {
        let installed = async {
            let client = open_bare(&self.address).await.map_err(report)?;
            // Two installations at once would meet in the catalogue; the key is "forgerun" in hexadecimal.
            let lock = "BEGIN; SELECT pg_advisory_xact_lock(x'666f726765727531'::bigint);";
            client.batch_execute(&[lock, SCHEMA, "COMMIT"].concat()).await.map_err(report)
        };
        installed.await.map_err(|error| place_error(&self.place, error))
    }

    /// How it stands.
    pub async fn status(&self) -> Result<OutboxStatus, Error> {
        let status = async {
            let client = open_bare(&self.address).await.map_err(report)?;
            let row = client.query_typed(STATUS, &[]).await.map_err(session::report_missing)?;
            let row = row.first().ok_or_else(|| Error::new(Fault::Corrupt, NOT_INSTALLED))?;
            let refusals = client.query_typed(REFUSED, &[]).await.map_err(report)?;
            let whole = |n: i64| u64::try_from(n).unwrap_or_default();
            Ok(OutboxStatus {
                waiting: whole(row.get(0)),
                refused: whole(row.get(1)),
                lag_seconds: row.get(2),
                forwarder: row.get(3),
                active_seconds_ago: row.get(4),
                sent: whole(row.get(5)),
                error: row.get(6),
                refusals: refusals
                    .iter()
                    .map(|row| RefusedJob { id: row.get(0), job_type: row.get(1), problem: row.get(2) })
                    .collect(),
            })
        };
        status.await.map_err(|error| place_error(&self.place, error))
    }

    /// A session for a forwarder of this name.
    pub async fn open(&self, name: &str) -> Result<OutboxSession, Error> {
        let opened = OutboxSession::open(&self.address, name).await;
        opened.map_err(|error| place_error(&self.place, error))
    }
}

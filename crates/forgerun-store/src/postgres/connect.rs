//! One connection: opened, told its settings, all statements prepared.

use std::error::Error as _;
use std::str::FromStr;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error as PgError, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Options;
use super::fault;
use super::pipeline::in_order;
use super::sql::Sql;
use super::tls::TlsSettings;
use crate::{Error, Fault};

/// Answers later than the server's own limit by this much will not come: the server or the way to it is gone.
const GRACE: Duration = Duration::from_secs(5);

/// What PostgreSQL has not acknowledged for so long will not arrive: the way to it is gone, whether anybody said so or not. Longer than a
/// server may wait for a lock without reading on.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// What makes PostgreSQL, too, notice a node that vanished without a word: within a minute rather than two hours, so that its sessions end. On the
/// way of a session through a pooler, these are about the pooler.
pub(crate) const NOTICE_PEER: &str = "SET tcp_keepalives_idle = 30;
     SET tcp_keepalives_interval = 10;
     SET tcp_keepalives_count = 3;
     SET tcp_user_timeout = '15s'";

/// Where PostgreSQL listens unless something else is said.
const PORT: u16 = 5432;

/// An open connection with its statements.
pub(super) struct Connection {
    client: Client,
    statements: Vec<Statement>,
    /// Where this connection counts; see the table `counts`.
    pub(super) slot: i16,
}

impl Connection {
    /// Opens a connection and prepares every statement. The schema must be there.
    pub(super) async fn open(address: &Address, options: &Options, slot: i16) -> Result<Connection, PgError> {
        let client = open_bare(address).await?;
        client.batch_execute(&settings(options)).await?;
        let requests = Sql::ALL.iter().map(|sql| Box::pin(client.prepare(sql.text()))).collect();
        let statements = in_order(requests).await.into_iter().collect::<Result<_, _>>()?;
        Ok(Connection { client, statements, slot })
    }

    /// Runs one prepared statement.
    pub(super) async fn query(&self, sql: Sql, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, PgError> {
        self.client.query(&self.statements[sql as usize], values).await
    }

    /// Runs one prepared statement and says how many rows it touched.
    pub(super) async fn execute(&self, sql: Sql, values: &[&(dyn ToSql + Sync)]) -> Result<u64, PgError> {
        self.client.execute(&self.statements[sql as usize], values).await
    }

    /// Whether the connection is known to be gone.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Where the database is, and how to get there unseen.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    tls: MakeRustlsConnect,
}

/// What moves the bytes of a connection.
pub(crate) type Driver =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

impl Address {
    /// Reads a `postgres://` URL or a list of `key=value`.
    pub(crate) fn parse(url: &str) -> Result<Address, Error> {
        let bad = |why| Error::new(Fault::Unavailable, format!("bad database URL: {why}"));
        let (config, tls_settings) = parsed(url).map_err(bad)?;
        Ok(Address { config, tls: tls_settings.connector()? })
    }

    /// Which servers, as an operator knows them: `db.example:5432`, or the folder of a socket. Never a name or a password.
    pub(crate) fn place(&self) -> String {
        let ports = self.config.get_ports();
        // One port may stand for all hosts.
        let port = |n: usize| ports.get(n).or(ports.first()).copied().unwrap_or(PORT);
        let hosts = self.config.get_hosts().iter().enumerate().map(|(n, host)| match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", port(n)),
            Host::Tcp(name) => format!("{name}:{}", port(n)),
            Host::Unix(folder) => format!("{}, port {}", folder.display(), port(n)),
        });
        hosts.collect::<Vec<_>>().join(" or ")
    }

    pub(crate) async fn connect(&self) -> Result<(Client, Driver), PgError> {
        self.config.connect(self.tls.clone()).await
    }
}

/// What a URL says, without looking at any file it names, or what is wrong with it.
pub(super) fn parsed(url: &str) -> Result<(Config, TlsSettings), String> {
    let tls_settings = TlsSettings::of(url)?;
    // The driver says only below the surface which parameter it is.
    let mut config = Config::from_str(&tls_settings.url)
        .map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))?;
    if config.get_application_name().is_none() {
        config.application_name("forgerun");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    // Where there are several servers, one of them takes writes, and which one may change.
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    // Without an answer it is asked every 5 s whether anybody is there: a server may vanish after it took the question, and its address may by then
    // be another's, who knows nothing of the connection.
    config
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED_MAX);
    }
    Ok((config, tls_settings))
}

/// A connection without settings or statements. The task that moves its bytes ends with the client.
pub(crate) async fn open_bare(address: &Address) -> Result<Client, PgError> {
    let (client, connection) = address.connect().await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            // Whoever uses the connection gets the error too, and reports it.
            tracing::debug!(%error, "database connection ended");
        }
    });
    Ok(client)
}

/// The settings of a session.
///
/// A server that waits for a lock on behalf of a node that is gone should notice, and let go of what it holds. So should one that cannot get rid of
/// an answer: neither of the timeouts counts while it writes, so the system has to end the connection.
///
/// Statements that are a transaction by themselves have the level that is said here, whatever is the default of the database.
///
/// All our statements look up rows by index, and say so in their order and limits. The planner guesses otherwise while a table
/// is small or its statistics are old, and a prepared plan stays: a sequential scan chosen for ten rows would still be in
/// use at a million. So every plan is made once, and may use nothing but indexes where there is one.
pub(super) fn settings(options: &Options) -> String {
    format!(
        "{NOTICE_PEER};
         SET tcp_user_timeout = {silence};
         SET statement_timeout = {};
         SET lock_timeout = {};
         SET idle_in_transaction_session_timeout = {silence};
         SET idle_session_timeout = 0;
         SET default_transaction_isolation = 'read committed';
         SET client_connection_check_interval = 1000;
         SET plan_cache_mode = force_generic_plan;
         SET enable_seqscan = off;
         SET enable_bitmapscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET jit = off;
         SELECT set_config('synchronous_commit', 'on', false)
          WHERE current_setting('synchronous_commit') = 'off'",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        silence = options.silence.as_millis(),
    )
}

/// Waits for a stage of statements no longer than the server itself would work on it.
pub(super) async fn in_time<T>(options: &Options, stage: impl Future<Output = T>) -> Result<T, Error> {
    let late = |_| Error::new(Fault::Timeout, "no answer from the database");
    timeout(options.statement_timeout + GRACE, stage).await.map_err(late)
}

/// Opens a connection, trying again with growing pauses until `options.wait` is over, because a database that restarts is
/// away for a moment. A wrong password is reported at once.
pub(super) async fn open_patiently(
    address: &Address,
    options: &Options,
    slot: i16,
) -> Result<Connection, Error> {
    let mut pause = Duration::from_millis(50);
    let mut last = None;
    let opened = timeout(options.wait, async {
        loop {
            match Connection::open(address, options, slot).await {
                Ok(connection) => return Ok(connection),
                Err(error) if fault::is_lasting(&error) => return Err(fault::report(error)),
                Err(error) => last = Some(fault::report(error)),
            }
            wait(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    });
    match opened.await {
        Ok(result) => result,
        Err(_) => {
            Err(last
                .unwrap_or_else(|| Error::new(Fault::Unavailable, "no connection to the database in time")))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "pauses between attempts to reach a server decide no rule")]
pub(super) async fn wait(pause: Duration) {
    tokio::time::sleep(pause).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_host_and_port_and_no_secret() {
        for (url, place) in [
            ("postgres://me:pass%40word@db.example:6432/jobs", "db.example:6432"),
            ("postgres://me:password@db.example/jobs", "db.example:5432"),
            ("postgres://me:password@[::1]:7/jobs", "[::1]:7"),
            ("postgres://me:password@a:1,b:2/jobs", "a:1 or b:2"),
            ("host=a,b port=9 user=me password=secret", "a:9 or b:9"),
            ("host=/run/postgresql user=me", "/run/postgresql, port 5432"),
        ] {
            assert_eq!(Address::parse(url).unwrap().place(), place, "{url}");
        }
    }
}

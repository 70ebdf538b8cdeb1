//! News between nodes: `NOTIFY` behind the commit of a transaction, `LISTEN` on a connection of its own.
//!
//! A notification is sent when what it tells of is committed, so whoever is woken finds what it is woken for. While the
//! listening connection is down news are lost; when it is back, everybody is told to look everywhere.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::time::Duration;

use forgerun_core::job::{Lane, Name, Shelf};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Error as PgError};

use super::connect::{self, Address, NOTICE_PEER};
use super::fault;
use crate::{Error, Fault, Wakeup};

/// An idle session is what this is for, whatever the server thinks of them.
const LISTEN: &str = "LISTEN forgerun; SET idle_session_timeout = 0; ";

/// PostgreSQL takes payloads below 8000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7999;

/// How long a notification may take on a busy server.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// No pause between two attempts to listen again is longer.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What other nodes are told: who speaks, a `d` if there is something to deliver, then a line for each shelf with claimable
/// work. Names have no line breaks.
pub(super) fn payload(node: u64, to_deliver: bool, wake_all: bool, woken: &BTreeSet<Shelf>) -> String {
    let mut text = format!("{node:016x}");
    if wake_all {
        text.push_str("\n*");
    }
    if to_deliver {
        text.push_str("\nd");
    }
    for shelf in woken {
        if text.len() + shelf.name.as_str().len() + 2 > PAYLOAD_BYTES_MAX {
            return format!("{node:016x}\n*");
        }
        text.push('\n');
        text.push(char::from(b'0' + shelf.lane as u8));
        text.push_str(shelf.name.as_str());
    }
    text
}

/// What a payload means to this node: nothing, if it speaks of itself.
fn wakeups(node: u64, payload: &str) -> Vec<Wakeup> {
    let mut lines = payload.split('\n');
    if lines.next() == Some(&format!("{node:016x}")) {
        return Vec::new();
    }
    let shelf = |line: &str| {
        let lane = match line.as_bytes().first()? {
            b'1' => Lane::External,
            b'2' => Lane::BuiltIn,
            b'3' => Lane::Parked,
            b'4' => Lane::Dead,
            b'5' => Lane::Failed,
            b'6' => Lane::Behind,
            _ => return None,
        };
        Some(Shelf { lane, name: Name::joined(&line[1..]) })
    };
    // A line that this version cannot read is from a newer one; looking everywhere is always right.
    let wakeup = |line: &str| match line {
        "d" => Wakeup::Deliveries,
        line => shelf(line).map_or(Wakeup::Everything, Wakeup::Shelf),
    };
    let mut news: Vec<Wakeup> = lines.map(wakeup).collect();
    news.push(Wakeup::Journal);
    news
}

/// Fails if notifications do not arrive: something in between has sessions of its own. Prepared statements and settings would get lost on such
/// connections too, but only now and then.
pub(super) async fn check(
    client: &Client,
    node: u64,
    mut news: broadcast::Receiver<Wakeup>,
) -> Result<(), Error> {
    // In the name of a node that is nobody. What others hear is that the journal may have grown, and a look does no harm.
    let text = payload(!node, false, false, &BTreeSet::new());
    client.execute("SELECT pg_notify('forgerun', $1)", &[&text]).await.map_err(fault::report)?;
    match timeout(HEARD_WITHIN, news.recv()).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(Fault::Unavailable, POOLED)),
    }
}

const POOLED: &str = "notifications do not arrive. A pooler that lends sessions for one transaction does this; ForgeRun needs sessions of its own: \
     for PgBouncer, set pool_mode = session for this database, or connect to PostgreSQL directly";

/// The task that listens; it ends when this is dropped.
pub(super) struct Listener {
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// Listens from now on, and again whenever the connection broke.
    pub(super) async fn start(
        address: Address,
        node: u64,
        news: broadcast::Sender<Wakeup>,
    ) -> Result<Listener, Error> {
        let mut session = Session::open(&address, node, news.clone()).await.map_err(fault::report)?;
        let task = tokio::spawn(async move {
            loop {
                session.ended().await;
                session = reopen(&address, node, &news).await;
                // Nobody listening is fine.
                let _ = news.send(Wakeup::Everything);
            }
        });
        Ok(Listener { task })
    }
}

async fn reopen(address: &Address, node: u64, news: &broadcast::Sender<Wakeup>) -> Session {
    let mut pause = Duration::from_millis(50);
    loop {
        match Session::open(address, node, news.clone()).await {
            Ok(session) => return session,
            Err(error) => {
                let error = fault::report(error);
                tracing::warn!(%error, "cannot hear of other nodes; trying again");
            }
        }
        connect::wait(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One connection that listens. Dropped, it ends.
struct Session {
    /// Kept, because the connection ends with its client.
    _client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Session {
    async fn open(address: &Address, node: u64, news: broadcast::Sender<Wakeup>) -> Result<Session, PgError> {
        let (client, mut connection) = address.connect().await?;
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    for wakeup in wakeups(node, notification.payload()) {
                        let _ = news.send(wakeup);
                    }
                }
            }
        });
        let session = Session { _client: client, driver };
        session._client.batch_execute(&format!("{LISTEN}{NOTICE_PEER}")).await?;
        Ok(session)
    }

    async fn ended(&mut self) {
        // An error here is a panic of the driver, after which the connection is gone too.
        let _ = (&mut self.driver).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf(name: &str) -> Shelf {
        Shelf { lane: Lane::External, name: Name::new(name).unwrap() }
    }

    #[test]
    fn another_node_hears_of_shelves_and_journal() {
        let text = payload(1, true, false, &BTreeSet::from([shelf("a"), shelf("b c")]));
        assert_eq!(
            wakeups(2, &text),
            [Wakeup::Deliveries, Wakeup::Shelf(shelf("a")), Wakeup::Shelf(shelf("b c")), Wakeup::Journal]
        );
    }

    #[test]
    fn a_node_does_not_hear_itself() {
        assert_eq!(wakeups(7, &payload(7, false, false, &BTreeSet::from([shelf("a")]))), []);
    }

    #[test]
    fn too_many_shelves_become_everything() {
        let many = (0..100).map(|n| shelf(&format!("{n}{}", "x".repeat(200)))).collect();
        let text = payload(1, false, false, &many);
        assert!(text.len() <= PAYLOAD_BYTES_MAX);
        assert_eq!(wakeups(2, &text), [Wakeup::Everything, Wakeup::Journal]);
    }

    #[test]
    fn lines_of_a_newer_version_become_everything() {
        assert_eq!(
            wakeups(2, "0000000000000001\n9a\n"),
            [Wakeup::Everything, Wakeup::Everything, Wakeup::Journal]
        );
    }
}

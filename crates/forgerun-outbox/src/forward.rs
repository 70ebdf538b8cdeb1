//! The loop: take, send, settle, and wait for more.

use std::time::Duration;

use forgerun_client::Client;
use forgerun_store::outbox::{OutboxDatabase, OutboxSession, Taken};
use forgerun_store::{Error, Fault};

use crate::send;

/// Rows of one transaction, and so of one request.
const ROWS_MAX: i64 = 1000;

/// Bytes of arguments and options of one transaction. A single row may have more.
const BYTES_MAX: i64 = 4 * 1024 * 1024;

/// The first look after a batch; the pause doubles from look to look.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// From this pause on submissions are asked to notify.
const NOTIFY_FROM: Duration = Duration::from_millis(100);

/// Longest pause where notifications arrive. It bounds the delay of a submission that read the old mark and committed late.
const LOOK: Duration = Duration::from_secs(1);

/// Longest pause where they do not.
const LOOK_DEAF: Duration = Duration::from_millis(100);

/// The first pause after trouble; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long refused rows are kept.
const REFUSED_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Looks between two sweeps: at least every hour of an idle forwarder.
const LOOKS_PER_SWEEP: u32 = 3600;

/// Sends the rows of one outbox to one server.
#[derive(Clone, Debug)]
pub struct Forwarder {
    outbox: OutboxDatabase,
    client: Client,
    name: String,
}

/// Pauses after trouble.
struct Backoff(Duration);

impl Backoff {
    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
        pause
    }
}

impl Forwarder {
    /// `client` should not repeat requests by itself: rows wait here. `name` is shown in the status.
    pub fn new(outbox: OutboxDatabase, client: Client, name: impl Into<String>) -> Forwarder {
        Forwarder { outbox, client, name: name.into() }
    }

    /// Forwards until it is dropped, whatever happens to the database or the server. Dropped at any moment, it loses nothing.
    pub async fn run(&self) {
        let mut backoff = Backoff(FIRST_PAUSE);
        loop {
            let error = match self.outbox.open(&self.name).await {
                Ok(mut session) => {
                    tracing::info!(outbox = %self.name, place = self.outbox.place(), hears = session.hears(), "outbox: forwarding");
                    self.forward(&mut session, &mut backoff).await
                }
                Err(error) => error,
            };
            let pause = backoff.next();
            let fix = error.fault == Fault::TooNew || error.fault == Fault::Corrupt;
            tracing::warn!(outbox = %self.name, %error, operator_must_act = fix, retry_ms = pause.as_millis(), "outbox: database unavailable");
            sleep(pause).await;
        }
    }

    /// Forwards over one session, until it fails.
    async fn forward(&self, session: &mut OutboxSession, backoff: &mut Backoff) -> Error {
        let mut pause = FIRST_LOOK;
        let mut n_looks = 0;
        loop {
            let done = self.look(session, backoff, &mut pause).await;
            if let Err(error) = done {
                return error;
            }
            n_looks += 1;
            if n_looks >= LOOKS_PER_SWEEP {
                n_looks = 0;
                if let Err(error) = session.sweep(REFUSED_KEPT).await {
                    return error;
                }
            }
        }
    }

    async fn look(
        &self,
        session: &mut OutboxSession,
        backoff: &mut Backoff,
        pause: &mut Duration,
    ) -> Result<(), Error> {
        let longest = if session.hears() { LOOK } else { LOOK_DEAF };
        let may_wait = session.hears() && *pause >= NOTIFY_FROM;
        match session.take(ROWS_MAX, BYTES_MAX, may_wait).await? {
            Taken::Busy => session.wait(longest).await,
            Taken::Nothing => {
                // The look behind the first that asked for notifications comes at once.
                let is_first_asked = may_wait && *pause < NOTIFY_FROM * 2;
                if !is_first_asked {
                    session.wait(*pause).await;
                }
                *pause = (*pause * 2).min(longest);
            }
            Taken::Rows(rows) => {
                *pause = FIRST_LOOK;
                let sent = send::send(&self.client, &rows).await;
                session.settle(&sent.settled).await?;
                match sent.settled.error {
                    None => *backoff = Backoff(FIRST_PAUSE),
                    Some(error) => {
                        let pause = backoff.next().max(sent.retry_after.unwrap_or_default());
                        tracing::warn!(outbox = %self.name, error, retry_ms = pause.as_millis(), "outbox: rows wait");
                        sleep(pause).await;
                    }
                }
            }
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "pauses between attempts decide no rule")]
async fn sleep(pause: Duration) {
    tokio::time::sleep(pause).await;
}

//! One batch: load, decide, write; and again, if a race was lost.
//!
//! ```text
//!   BEGIN, lock, read ──► decide ──► write, journal, COMMIT ──► done
//!          ▲                │                  │
//!          │                │ nothing to write │ key taken meanwhile, deadlock
//!          │                ▼                  │
//!          │             ROLLBACK              │
//!          └───────────────────────────────────┘  at most TRIES_MAX times
//! ```
//!
//! A batch that only brings jobs mostly does with one statement ([`plain_queues`](super::plain_queues)).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forgerun_core::job::Name;
use forgerun_core::{Changes, Rows, Wants};
use tokio_postgres::{Error as PgError, Row};

use super::Options;
use super::connect::{Connection, in_time};
use super::fault;
use super::load::{EarlierTries, load};
use super::pipeline::Pipeline;
use super::plain_queues::{PlainQueues, submit};
use super::pool::{Pool, PooledConnection};
use super::sql::Sql;
use super::turn_queues::TurnQueues;
use super::write::Writes;
use crate::{Decide, Error, Fault};

/// How often a batch is decided before it is reported as busy. Each lost race means that somebody else won one.
const TRIES_MAX: usize = 8;

/// Why an attempt did not end in a commit.
pub(super) struct FailedTry {
    error: Error,
    /// What trying again is worth.
    again: RetryReason,
    /// In what state the connection is.
    after: ConnectionState,
}

/// What trying again is worth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RetryReason {
    /// Nothing.
    No,
    /// Another node was faster; seen again, things look different.
    Race,
    /// A job with this id exists, and the batch did not ask to see every id it uses. Once may be a race; twice means that it
    /// uses an id that is taken.
    JobExists,
    /// Limits that were not asked for turned out to matter; with them in view it will work.
    Limits,
    /// So did other rows.
    More,
}

/// In what state a failed attempt leaves its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// The server has ended the transaction.
    Idle,
    /// The transaction is open, or failed and waits to be rolled back.
    Open,
    /// It cannot be used any more.
    Broken,
}

impl FailedTry {
    /// Trouble with what was loaded.
    pub(super) fn open(error: Error) -> FailedTry {
        FailedTry { error, again: RetryReason::No, after: ConnectionState::Open }
    }

    /// Another node was faster.
    pub(super) fn race(how: &'static str) -> FailedTry {
        FailedTry {
            error: Error::new(Fault::Busy, how),
            again: RetryReason::Race,
            after: ConnectionState::Open,
        }
    }

    /// An id that the batch asked to see was free when it looked: whoever has it now was faster, however often.
    pub(super) fn of(mut self, changes: &Changes, wants: &Wants) -> FailedTry {
        let mut born = changes.inserted.iter();
        if self.again == RetryReason::JobExists && born.all(|(job, _)| wants.jobs.contains(&job.id)) {
            self.again = RetryReason::Race;
            self.error.fault = Fault::Busy;
        }
        self
    }

    fn more() -> FailedTry {
        let error = Error::new(Fault::Busy, "rows were not loaded that a job needs to end");
        FailedTry { error, again: RetryReason::More, after: ConnectionState::Open }
    }

    fn limits() -> FailedTry {
        let error = Error::new(Fault::Busy, "a limit was not loaded, or a count was not exact");
        FailedTry { error, again: RetryReason::Limits, after: ConnectionState::Open }
    }
}

/// Runs the statements of one attempt, stage by stage.
pub(super) struct StatementRunner<'a> {
    pub(super) options: &'a Options,
    /// Whether a lost race can still be tried again.
    pub(super) may_retry: bool,
}

impl StatementRunner<'_> {
    /// Nothing has been written yet: whatever goes wrong, nothing will be.
    pub(super) async fn load(&self, pipeline: Pipeline<'_>) -> Result<Vec<Vec<Row>>, FailedTry> {
        let late = |error| FailedTry { error, again: RetryReason::No, after: ConnectionState::Broken };
        let answers = in_time(self.options, pipeline.run()).await.map_err(late)?;
        answers.into_iter().collect::<Result<_, PgError>>().map_err(|error| {
            let after = if fault::is_fatal(&error) { ConnectionState::Broken } else { ConnectionState::Open };
            let again = if fault::is_race(&error) { RetryReason::Race } else { RetryReason::No };
            FailedTry { error: fault::report(error), again, after }
        })
    }

    /// Behind `n_before` statements comes what ends the transaction: the commit, which counts only if all before it did, or a statement that is a
    /// transaction by itself. Behind it comes the notification, which changes nothing any more. Gives the rows of what ended it.
    pub(super) async fn commit(
        &self,
        pipeline: Pipeline<'_>,
        n_before: usize,
    ) -> Result<Vec<Row>, FailedTry> {
        let late = |error: Error| {
            let error = Error::new(Fault::Unknown, error);
            FailedTry { error, again: RetryReason::No, after: ConnectionState::Broken }
        };
        let answers = in_time(self.options, pipeline.run()).await.map_err(late)?;
        let commit_sent = answers.len() > n_before;
        let mut ended = Vec::new();
        for (n, answer) in answers.into_iter().enumerate() {
            let error = match answer {
                Ok(rows) if n == n_before => {
                    ended = rows;
                    continue;
                }
                Ok(_) => continue,
                Err(error) => error,
            };
            if n > n_before {
                tracing::warn!(error = %fault::report(error), "cannot tell other nodes of a batch");
            } else if !commit_sent {
                // Nothing has ended the transaction.
                let refused = refused(error, fault::report);
                let is_broken = refused.after == ConnectionState::Broken;
                let after = if is_broken { ConnectionState::Broken } else { ConnectionState::Open };
                return Err(FailedTry { after, ..refused });
            } else if n < n_before && error.code().is_some() {
                // The server told us of a statement that failed, so the commit behind it failed too.
                return Err(refused(error, fault::report));
            } else {
                // It is the commit that failed; or the connection broke, and the commit may have been on its way already.
                return Err(refused(error, fault::report_commit));
            }
        }
        Ok(ended)
    }
}

/// A stage that ended with a failed commit.
fn refused(error: PgError, report: fn(PgError) -> Error) -> FailedTry {
    let after = if fault::is_fatal(&error) { ConnectionState::Broken } else { ConnectionState::Idle };
    let again = match fault::constraint(&error) {
        Some(fault::JOBS_PKEY) => RetryReason::JobExists,
        _ if fault::is_race(&error) => RetryReason::Race,
        _ => RetryReason::No,
    };
    let mut error = report(error);
    if again == RetryReason::Race {
        error.fault = Fault::Busy;
    }
    FailedTry { error, again, after }
}

/// Runs a batch to its end.
pub(super) async fn transact(
    pool: Arc<Pool>,
    options: Options,
    plain: Arc<PlainQueues>,
    turn_queues: Arc<TurnQueues>,
    wants: Wants,
    mut decide: Decide,
) -> Result<Changes, Error> {
    let pooled = pool.take().await?;
    let mut earlier = EarlierTries::default();
    earlier.exact.turns.extend(turn_queues.of(&wants).cloned());
    let mut is_first = true;
    let mut job_existed = false;
    let mut n = 1;
    loop {
        let stage = StatementRunner { options: &options, may_retry: n < TRIES_MAX };
        let connection = pooled.connection();
        let tried = async {
            if std::mem::take(&mut is_first)
                && let Some(changes) = submit(connection, &stage, &wants, &plain, &mut decide).await?
            {
                return Ok(changes);
            }
            attempt(connection, &stage, &wants, &mut earlier, (&plain, &turn_queues), &mut decide).await
        };
        let failed_try = match tried.await {
            Ok(changes) => {
                pooled.give_back();
                return Ok(changes);
            }
            Err(failed_try) => failed_try,
        };
        let usable = clean_up(&pooled, failed_try.after, &options).await;
        let again = usable && stage.may_retry && failed_try.again != RetryReason::No;
        if !again || (failed_try.again == RetryReason::JobExists && job_existed) {
            give_back_if(pooled, usable);
            return Err(failed_try.error);
        }
        job_existed = failed_try.again == RetryReason::JobExists;
        tracing::debug!(error = %failed_try.error, tries = n, "lost a race; deciding again");
        // Each time more rows are asked for there are fewer that can be asked for: that ends by itself.
        n += usize::from(failed_try.again != RetryReason::More);
    }
}

fn give_back_if(pooled: PooledConnection, usable: bool) {
    if usable {
        pooled.give_back();
    }
}

/// Brings the connection out of its transaction. Says whether it can be used again.
async fn clean_up(pooled: &PooledConnection, after: ConnectionState, options: &Options) -> bool {
    match after {
        ConnectionState::Idle => true,
        ConnectionState::Broken => false,
        ConnectionState::Open => {
            matches!(in_time(options, pooled.connection().query(Sql::Rollback, &[])).await, Ok(Ok(_)))
        }
    }
}

async fn attempt(
    connection: &Connection,
    stage: &StatementRunner<'_>,
    wants: &Wants,
    earlier: &mut EarlierTries,
    (plain, turn_queues): (&PlainQueues, &TurnQueues),
    decide: &mut Decide,
) -> Result<Changes, FailedTry> {
    let wants = &wants.with(&earlier.more);
    let mut loaded = load(connection, stage, wants, earlier).await?;
    plain.note(wants, &loaded);
    turn_queues.note(earlier.exact.turns.iter(), &loaded.rows);
    let rows = std::mem::take(&mut loaded.rows);
    let changes = decide_safely(decide, Rows { more: earlier.more.clone(), ..rows })?;
    if !changes.more.is_empty() {
        earlier.more.extend(changes.more);
        return Err(FailedTry::more());
    }
    if !changes.exact.is_empty() {
        earlier.exact.queues.extend(changes.exact.queues);
        earlier.exact.turns.extend(changes.exact.turns);
        earlier.exact.active |= changes.exact.active;
        return Err(FailedTry::limits());
    }
    if changes.is_empty() {
        let mut pipeline = Pipeline::new(connection);
        pipeline.push(Sql::Rollback, []);
        stage.load(pipeline).await?;
        return Ok(changes);
    }
    let unseen: Vec<&Name> = changes.limits.keys().filter(|key| !loaded.limits.contains(*key)).collect();
    if !unseen.is_empty() {
        earlier.limits.extend(unseen.into_iter().cloned());
        return Err(FailedTry::limits());
    }
    let writes = Writes::new(&changes, &loaded, stage.options.node, connection.slot);
    if !writes.only_brings_jobs(connection) {
        plain.forget(wants);
    }
    let mut pipeline = Pipeline::new(connection);
    let n_writes = writes.push(&mut pipeline);
    stage.commit(pipeline, n_writes).await.map_err(|failed_try| failed_try.of(&changes, wants))?;
    drop(writes);
    Ok(changes)
}

/// A panic in a rule must not take the connection with it; and the same batch would panic again.
pub(super) fn decide_safely(decide: &mut Decide, rows: Rows) -> Result<Changes, FailedTry> {
    catch_unwind(AssertUnwindSafe(|| decide(rows))).map_err(|panic| {
        let text = format!("deciding the batch panicked: {}", panic_text(panic.as_ref()));
        FailedTry::open(Error::new(Fault::Rejected, text))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::postgres::connect::Address;
    use crate::testing::{self, Cluster};

    async fn connection(url: &str, options: &Options) -> Connection {
        crate::postgres::Postgres::connect(url, options.clone()).await.unwrap().close().await;
        Connection::open(&Address::parse(url).unwrap(), options, 0).await.unwrap()
    }

    #[tokio::test]
    async fn a_transaction_whose_commit_was_not_sent_is_open() {
        let url = Cluster::shared().database().await;
        let options = Options::new(1);
        let connection = connection(&url, &options).await;
        let failed = testing::connect(&url).await.query("SELECT 1 / 0", &[]).await.unwrap_err();
        let mut pipeline = Pipeline::new(&connection);
        pipeline.push_answer(ready(Err(failed)));
        pipeline.push(Sql::Commit, []);
        let stage = StatementRunner { options: &options, may_retry: true };
        let failed_try = stage.commit(pipeline, 1).await.expect_err("a statement failed");
        assert!(failed_try.after == ConnectionState::Open);
    }

    #[tokio::test]
    async fn what_became_of_the_end_is_unknown_unless_it_was_not_sent_or_refused() {
        let url = Cluster::shared().database().await;
        let options = Options::new(1);
        let connection = connection(&url, &options).await;
        let stage = StatementRunner { options: &options, may_retry: true };
        let client = testing::connect(&url).await;
        let unsendable = client.query("SELECT $1::integer", &[&"text"]).await.unwrap_err();
        let write = "BEGIN READ ONLY; INSERT INTO store VALUES (gen_random_uuid())";
        let read_only = client.batch_execute(write).await.unwrap_err();
        client.batch_execute("ROLLBACK").await.unwrap();
        let broken = client.query("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await.unwrap_err();
        let ends = [(unsendable, Fault::Rejected), (read_only, Fault::Unavailable), (broken, Fault::Unknown)];
        for (error, fault) in ends {
            let mut pipeline = Pipeline::new(&connection);
            pipeline.push_answer(ready(Err(error)));
            let failed_try = stage.commit(pipeline, 0).await.expect_err("it failed");
            assert_eq!(failed_try.error.fault, fault);
        }
    }
}

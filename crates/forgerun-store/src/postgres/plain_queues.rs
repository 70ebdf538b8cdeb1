//! Submissions without looking first.
//!
//! A batch that only brings jobs holds nothing; what it looks at are the counts and settings of its queues, and whether there are webhooks. Mostly nothing is
//! set, and there are none. So such a batch is decided by what an earlier one saw, and the statement that writes it looks whether that still holds
//! (`journal::SUBMIT`): one trip to the server instead of two, and one statement instead of five. Where it does not hold nothing is written, and the batch goes the usual way.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forgerun_core::job::Name;
use forgerun_core::rows::{CountSet, Counts};
use forgerun_core::state::State;
use forgerun_core::{Changes, Rows, Wants};
use tokio_postgres::types::ToSql;

use super::connect::Connection;
use super::load::Loaded;
use super::pipeline::Pipeline;
use super::transact::{FailedTry, StatementRunner, decide_safely};
use super::write::Writes;
use crate::Decide;

/// Queues that are remembered. When there are more, it starts over.
const QUEUES_MAX: usize = 1024;

/// So many jobs more than were seen may wait in a queue. Others may always have added some since one looked, and whoever comes near a bound looks exactly; this is
/// little beside the distance from which they do.
const MORE_WAITING_MAX: i64 = 1000;

/// Queues for which nothing was set when one last looked and there was no webhook, with their counts.
#[derive(Default)]
pub(super) struct PlainQueues(Mutex<HashMap<Name, Counts>>);

impl PlainQueues {
    /// The counts of these queues, if all are known to be plain.
    fn of(&self, wants: &Wants) -> Option<BTreeMap<Name, Counts>> {
        let queues = self.queues();
        wants.counts.iter().map(|queue| Some((queue.clone(), *queues.get(queue)?))).collect()
    }

    /// Notes what was found of the queues of a batch. Settings of queues are the only records that submissions want.
    pub(super) fn note(&self, wants: &Wants, loaded: &Loaded) {
        if !holds_nothing(wants) || wants.counts.is_empty() {
            return;
        }
        let is_plain = !loaded.webhooks_exist && loaded.rows.records.is_empty();
        let mut queues = self.queues();
        for queue in &wants.counts {
            match loaded.rows.counts.get(queue) {
                Some(counts) if is_plain => {
                    if queues.len() >= QUEUES_MAX {
                        queues.clear();
                    }
                    queues.insert(queue.clone(), *counts);
                }
                _ => {
                    queues.remove(queue);
                }
            }
        }
    }

    /// Adds what was written.
    fn add(&self, counts: &BTreeMap<Name, Counts>) {
        let mut queues = self.queues();
        for (queue, more) in counts {
            if let Some(counts) = queues.get_mut(queue) {
                counts.merge(more);
            }
        }
    }

    /// Submissions to these queues do not go this way, or not now: those after them need not be decided in vain.
    pub(super) fn forget(&self, wants: &Wants) {
        if !holds_nothing(wants) {
            return;
        }
        self.queues().retain(|queue, _| !wants.counts.contains(queue));
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Name, Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the statement compares with.
pub(super) struct PlainColumns<'a> {
    record_kinds: Vec<i16>,
    record_keys: Vec<&'a str>,
    queues: Vec<&'a str>,
    waiting_max: Vec<i64>,
}

impl<'a> PlainColumns<'a> {
    fn new(wants: &'a Wants, counts: &'a BTreeMap<Name, Counts>) -> PlainColumns<'a> {
        PlainColumns {
            record_kinds: wants.records.iter().map(|key| key.kind as i16).collect(),
            record_keys: wants.records.iter().map(|key| key.key.as_str()).collect(),
            queues: counts.keys().map(Name::as_str).collect(),
            waiting_max: counts.values().map(|counts| counts.of(State::Queued) + MORE_WAITING_MAX).collect(),
        }
    }

    /// What the statement takes, in its order.
    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.record_kinds, &self.record_keys, &self.queues, &self.waiting_max]
    }
}

/// Decides and writes a batch that only brings jobs to plain queues. `None` for any other, or if they are plain no more; nothing is written then.
pub(super) async fn submit(
    connection: &Connection,
    stage: &StatementRunner<'_>,
    wants: &Wants,
    plain: &PlainQueues,
    decide: &mut Decide,
) -> Result<Option<Changes>, FailedTry> {
    if !holds_nothing(wants) || wants.counts.is_empty() || wants.active {
        return Ok(None);
    }
    let Some(counts) = plain.of(wants) else { return Ok(None) };
    let uncertain = CountSet { queues: wants.counts.clone(), ..CountSet::default() };
    let changes = decide_safely(decide, Rows { counts: counts.clone(), uncertain, ..Rows::default() })?;
    if !changes.more.is_empty() || !changes.exact.is_empty() {
        return Ok(None);
    }
    let columns = PlainColumns::new(wants, &counts);
    let writes = Writes::new(&changes, &Loaded::default(), stage.options.node, connection.slot);
    if !writes.only_brings_jobs(connection) {
        plain.forget(wants);
        return Ok(None);
    }
    let mut pipeline = Pipeline::new(connection);
    writes.push_submit(&columns, &mut pipeline);
    let written = stage.commit(pipeline, 0).await.map_err(|failed_try| failed_try.of(&changes, wants))?;
    drop(writes);
    if written.is_empty() {
        plain.forget(wants);
        return Ok(None);
    }
    plain.add(&changes.counts);
    Ok(Some(changes))
}

/// Whether a batch only looks at what it wants.
fn holds_nothing(wants: &Wants) -> bool {
    #[rustfmt::skip]
    let Wants {
        records: _, counts: _, active: _, webhooks_of: _,
        jobs, jobs_sought, shelves, due, keys, uniques, uniques_of, clients, limits, exact,
        webhooks, deliveries, chains, deliveries_due, deliveries_failed, signing_keys,
    } = wants;
    jobs.is_empty()
        && jobs_sought.is_empty()
        && shelves.is_empty()
        && due.is_none()
        && keys.is_empty()
        && uniques.is_empty()
        && uniques_of.is_empty()
        && clients.is_empty()
        && limits.is_empty()
        && exact.is_empty()
        && webhooks.is_empty()
        && deliveries.is_empty()
        && chains.is_empty()
        && deliveries_due.is_none()
        && deliveries_failed.is_empty()
        && !signing_keys
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::sync::Arc;

    use forgerun_core::command::{NewJob, Submit};
    use forgerun_core::id::{ClientId, JobId};
    use forgerun_core::item::ItemEnd;
    use forgerun_core::job::{Head, Input, Job};
    use forgerun_core::record::RecordKind;
    use forgerun_core::rows::{Object, Render};
    use forgerun_core::time::Time;
    use forgerun_core::{Batch, Command};
    use tokio_postgres::Client;

    use super::*;
    use crate::postgres::connect::Address;
    use crate::postgres::{Options, Postgres};
    use crate::testing::{self, Cluster};
    use crate::{Fault, Store};

    /// Nobody asks for outcomes here.
    struct NoOutcomes;

    impl Render for NoOutcomes {
        fn outcome(&self, _: &Job, _: &[ItemEnd]) -> Object {
            unreachable!("no job ends")
        }
    }

    /// One job, whose id has this number.
    fn batch(n: u128) -> (Wants, Decide) {
        batch_with(n, |_| {})
    }

    /// The same with whatever `set` makes of its head.
    fn batch_with(n: u128, set: impl FnOnce(&mut Head)) -> (Wants, Decide) {
        let mut head = Head::new(ClientId::from_u128(7), Name::new("q").unwrap(), Time::from_millis(1));
        set(&mut head);
        let input = Input { payload: b"{}".to_vec(), ..Input::default() };
        let job =
            NewJob { id: JobId::v7(1, n), id_given: false, head: Arc::new(head), input: Arc::new(input) };
        let submit =
            Submit { jobs: vec![job], idempotency: None, queue_max: Some(10_000), refuse_paused: false };
        let batch = Batch { now: Time::from_millis(1), seed: 1, commands: vec![Command::Submit(submit)] };
        (forgerun_core::wants(&batch), Box::new(move |rows| forgerun_core::decide(&batch, rows, &NoOutcomes)))
    }

    /// A store, a connection like those that write, and one to look with.
    struct Place {
        store: Postgres,
        connection: Connection,
        client: Client,
        options: Options,
    }

    impl Place {
        async fn make() -> Place {
            let url = Cluster::shared().database().await;
            let options = Options::new(1);
            let store = Postgres::connect(&url, options.clone()).await.unwrap();
            let connection = Connection::open(&Address::parse(&url).unwrap(), &options, 0).await.unwrap();
            Place { store, connection, client: testing::connect(&url).await, options }
        }

        /// Submits the job with this number without looking first. Whether it could.
        async fn submit(&self, n: u128) -> Result<bool, FailedTry> {
            let stage = StatementRunner { options: &self.options, may_retry: true };
            let (wants, mut decide) = batch(n);
            let done = submit(&self.connection, &stage, &wants, &self.store.plain, &mut decide).await?;
            Ok(done.is_some())
        }

        /// Submits the job with this number as the engine would.
        async fn submit_anyhow(&self, n: u128) -> Result<Changes, crate::Error> {
            let (wants, decide) = batch(n);
            self.store.transact(wants, decide).await
        }

        /// Jobs, inputs, rows of the journal, and jobs that wait and that were submitted as they are counted.
        async fn counted(&self) -> [i64; 5] {
            let sql = "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM inputs), (SELECT count(*) FROM journal),
                              (SELECT sum(queued)::bigint FROM counts WHERE queue LIKE '%q'), (SELECT sum(submitted)::bigint FROM activity)";
            let row = self.client.query_one(sql, &[]).await.unwrap();
            [0, 1, 2, 3, 4].map(|n| row.get(n))
        }
    }

    #[tokio::test]
    async fn a_queue_that_was_seen_to_be_plain_is_not_looked_at_again() {
        let place = Place::make().await;
        assert!(matches!(place.submit(1).await, Ok(false)), "nothing is known of the queue");
        place.submit_anyhow(1).await.unwrap();
        assert!(matches!(place.submit(2).await, Ok(true)));
        place.submit_anyhow(3).await.unwrap();
        assert_eq!(place.counted().await, [3; 5]);
    }

    #[tokio::test]
    async fn after_a_job_with_a_callback_nothing_is_decided_in_vain() {
        let place = Place::make().await;
        place.submit_anyhow(1).await.unwrap();
        assert!(matches!(place.submit(2).await, Ok(true)));
        let (wants, decide) = batch_with(3, |head| head.callback = Some("https://example.com/hook".into()));
        let changes = place.store.transact(wants.clone(), decide).await.unwrap();
        assert!(!changes.deliveries.is_empty());
        assert_eq!(place.counted().await, [3; 5]);
        assert!(place.store.plain.of(&wants).is_none());
        place.submit_anyhow(4).await.unwrap();
        assert!(
            matches!(place.submit(5).await, Ok(true)),
            "a plain submission has found the queue plain again"
        );
    }

    #[tokio::test]
    async fn an_id_that_is_taken_writes_nothing_at_all() {
        let place = Place::make().await;
        place.submit_anyhow(1).await.unwrap();
        assert!(place.submit(1).await.is_err());
        assert_eq!(place.submit_anyhow(1).await.unwrap_err().fault, Fault::Rejected);
        assert_eq!(place.counted().await, [1; 5]);
        assert!(matches!(place.submit(2).await, Ok(true)), "the connection is as good as before");
    }

    #[tokio::test]
    async fn what_was_set_meanwhile_counts() {
        let changes = [
            "INSERT INTO webhooks (id, client, url, body) VALUES (gen_random_uuid(), gen_random_uuid(), 'u', '')",
            "INSERT INTO records (kind, key, grp, version, bytes) VALUES (1, 'q', '', 1, '')",
            "UPDATE counts SET queued = queued + 1001 WHERE queue LIKE '%q'",
            // Limits of the client.
            &format!(
                "INSERT INTO records (kind, key, grp, version, bytes) VALUES ({}, '{}', '', 1, '')",
                RecordKind::ClientLimits as u8,
                ClientId::from_u128(7)
            ),
        ];
        for change in changes {
            let place = Place::make().await;
            place.submit_anyhow(1).await.unwrap();
            assert!(matches!(place.submit(2).await, Ok(true)));
            assert!(place.client.execute(change, &[]).await.unwrap() > 0, "{change}");
            let before = place.counted().await;
            assert!(matches!(place.submit(3).await, Ok(false)), "{change}");
            assert_eq!(place.counted().await, before, "{change}");
            let (wants, _) = batch(4);
            assert!(place.store.plain.of(&wants).is_none(), "{change}");
        }
    }
}

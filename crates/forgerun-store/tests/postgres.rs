//! What only a database with several nodes can get wrong: starting together, locks, lost connections, crashes, news.
//! What every store must do is in the conformance suite.
#![cfg(all(feature = "testing", feature = "postgres"))]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Cancel, NewJob, Owned, Submit};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, Input, Job, Lane, Name, Shelf};
use forgerun_core::queue::Owner;
use forgerun_core::rows::{Object, Render};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Batch, Changes, Command, decide, wants};
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{self, Cluster, Durability};
use forgerun_store::{Error, Fault, Filter, Store, Wakeup};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::Client;

const NOW: Time = Time::from_millis(1_800_000_000_000);

struct Plain;

impl Render for Plain {
    fn outcome(&self, job: &Job, _: &[ItemEnd]) -> Object {
        Object { bytes: job.id.to_bytes().to_vec(), digest: [1; 32] }
    }
}

fn id(n: u64) -> JobId {
    JobId::v7(NOW.unix_ms(), u128::from(n))
}

fn job_of_type(n: u64, job_type: &str) -> Command {
    let mut head = Head::new(ClientId::from_u128(7), Name::new("q").unwrap(), NOW);
    head.job_type = job_type.into();
    let input = Arc::new(Input { payload: b"{}".to_vec(), ..Input::default() });
    let new = NewJob { id: id(n), id_given: false, head: Arc::new(head), input };
    Command::Submit(Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false })
}

fn submit(n: u64) -> Command {
    job_of_type(n, "")
}

fn cancel(n: u64) -> Command {
    let owned = Owned { job: id(n), client: None };
    Command::Cancel(Cancel {
        owned,
        execution: None,
        by: "user".into(),
        reason: String::new(),
        compensate: true,
    })
}

async fn commit(store: &Postgres, commands: Vec<Command>) -> Result<Changes, Error> {
    let batch = Batch { now: NOW, seed: 1, commands };
    store.transact(wants(&batch), Box::new(move |rows| decide(&batch, rows, &Plain))).await
}

async fn connect(url: &str, node: u64) -> Postgres {
    Postgres::connect(url, Options::new(node)).await.unwrap()
}

async fn database() -> String {
    Cluster::shared().database().await
}

/// Somebody else's transaction that holds job `n`, until it is dropped.
async fn hold(url: &str, n: u64) -> Client {
    let client = testing::connect(url).await;
    client.batch_execute("BEGIN").await.unwrap();
    let lock = format!("SELECT FROM jobs WHERE id = '{}' FOR UPDATE", id(n));
    assert_eq!(client.query(&lock, &[]).await.unwrap().len(), 1);
    client
}

async fn count_jobs(store: &Postgres) -> i64 {
    let store: &dyn Store = store;
    store.queues().await.unwrap().iter().map(|queue| queue.counts.0.iter().sum::<i64>()).sum()
}

#[tokio::test]
async fn nodes_that_start_together_migrate_once() {
    let url = database().await;
    let mut nodes: JoinSet<Postgres> = (1..=4)
        .map(|node| {
            let url = url.clone();
            async move { connect(&url, node).await }
        })
        .collect();
    let mut n_nodes = 0;
    while let Some(node) = nodes.join_next().await {
        n_nodes += 1;
        commit(&node.unwrap(), vec![submit(n_nodes)]).await.unwrap();
    }
    let applied = testing::connect(&url).await.query("SELECT FROM migrations", &[]).await.unwrap();
    assert_eq!((n_nodes, applied.len()), (4, n_migrations()));
}

/// As many as there are files.
fn n_migrations() -> usize {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres");
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let url = database().await;
    connect(&url, 1).await.close().await;
    let newer = "INSERT INTO migrations (version, name, checksum) VALUES (99, 'later', 1)";
    testing::connect(&url).await.batch_execute(newer).await.unwrap();
    let error = Postgres::connect(&url, Options::new(1)).await.err().unwrap();
    assert_eq!(error.fault, Fault::TooNew);
    let text = error.to_string();
    assert!(text.contains("knows version 99; this program knows versions up to "), "{text}");
    assert_eq!(Postgres::schema(&url).await.unwrap_err().to_string(), text);
}

#[tokio::test]
async fn looking_at_a_schema_changes_nothing() {
    let url = database().await;
    let status = Postgres::schema(&url).await.unwrap();
    assert_eq!((status.applied, status.pending.len()), (0, n_migrations()));
    let client = testing::connect(&url).await;
    let tables = "SELECT FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(client.query(tables, &[]).await.unwrap().len(), 0);

    connect(&url, 1).await.close().await;
    let status = Postgres::schema(&url).await.unwrap();
    assert_eq!((status.applied as usize, status.pending.len()), (n_migrations(), 0));
    // As the first versions left it, who did not say how far back a step goes.
    let older =
        "ALTER TABLE migrations DROP COLUMN compatible_from; DELETE FROM migrations WHERE version > 10";
    client.batch_execute(older).await.unwrap();
    let missing = Postgres::schema(&url).await.unwrap().pending;
    assert_eq!((missing.len(), missing[0]), (n_migrations() - 10, (11, "failed")));
}

#[tokio::test]
async fn errors_name_the_server_and_never_the_password() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://forgerun:hunter2@{gone}/jobs");
    let error = Postgres::connect(&url, Options::new(1)).await.err().unwrap();
    assert_eq!(error.fault, Fault::Unavailable);
    let text = format!("{error} {error:?}");
    assert!(error.to_string().contains(&format!("PostgreSQL at {gone}: ")), "{error}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn an_edited_migration_is_refused() {
    let url = database().await;
    connect(&url, 1).await.close().await;
    testing::connect(&url).await.batch_execute("UPDATE migrations SET checksum = 1").await.unwrap();
    assert_eq!(Postgres::connect(&url, Options::new(1)).await.err().unwrap().fault, Fault::Corrupt);
}

#[tokio::test]
async fn a_role_that_may_only_read_and_write_can_start_on_a_finished_schema() {
    let url = database().await;
    connect(&url, 1).await.close().await;
    let grants = "
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
        CREATE ROLE plain_worker LOGIN;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain_worker;
        GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO plain_worker";
    testing::connect(&url).await.batch_execute(grants).await.unwrap();
    let store = connect(&url.replace("forgerun@", "plain_worker@"), 1).await;
    commit(&store, vec![submit(1)]).await.unwrap();
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let admin = Cluster::shared().admin().await;
    let create = "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'";
    admin.batch_execute(create).await.unwrap();
    let (latin, _) =
        database().await.rsplit_once('/').map(|(host, name)| (format!("{host}/latin"), name.len())).unwrap();
    let error = Postgres::connect(&latin, Options::new(1)).await.err().unwrap();
    assert!(error.to_string().contains("LATIN1"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_at_once() {
    for url in ["postgres://nobody@127.0.0.1:1/none", &database().await.replace("test_", "missing_")] {
        let error = timeout(Duration::from_secs(5), Postgres::connect(url, Options::new(1))).await.unwrap();
        assert_eq!(error.err().unwrap().fault, Fault::Unavailable, "{url}");
    }
}

#[tokio::test]
async fn encryption_that_we_cannot_give_is_refused_not_ignored() {
    let url = format!("{}?sslmode=require", database().await);
    let error = Postgres::connect(&url, Options::new(1)).await.err().unwrap();
    assert_eq!(error.fault, Fault::Unavailable, "{error}");
}

#[tokio::test]
async fn a_text_the_database_cannot_keep_is_rejected_and_spoils_only_its_batch() {
    let store = connect(&database().await, 1).await;
    let error = commit(&store, vec![submit(1), job_of_type(2, "nul\0byte")]).await.unwrap_err();
    assert_eq!(error.fault, Fault::Rejected, "{error}");
    assert_eq!(count_jobs(&store).await, 0);
    commit(&store, vec![submit(1)]).await.unwrap();
    assert_eq!(count_jobs(&store).await, 1);
    let filter = Filter { job_type: Some("nul\0byte".into()), limit: 9, ..Filter::default() };
    assert_eq!((&store as &dyn Store).jobs(filter).await.unwrap(), []);
}

#[tokio::test]
async fn waiting_for_a_connection_ends() {
    let url = database().await;
    let options = Options { lanes: 1, wait: Duration::from_millis(100), ..Options::new(1) };
    let store = Arc::new(Postgres::connect(&url, options).await.unwrap());
    commit(&store, vec![submit(1)]).await.unwrap();
    let held = hold(&url, 1).await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, vec![cancel(1)]).await }
    });
    until_blocked(&url).await;
    let error = commit(&store, vec![submit(2)]).await.unwrap_err();
    assert_eq!(error.fault, Fault::Busy, "{error}");
    held.batch_execute("ROLLBACK").await.unwrap();
    waiting.await.unwrap().unwrap();
    commit(&store, vec![submit(2)]).await.unwrap();
}

#[tokio::test]
async fn waiting_for_what_others_hold_ends() {
    let url = database().await;
    let short = Duration::from_millis(100);
    let patient = connect(&url, 1).await;
    commit(&patient, vec![submit(1)]).await.unwrap();
    let _held = hold(&url, 1).await;
    let gives_up = Options { lock_timeout: short, ..Options::new(2) };
    let store = Postgres::connect(&url, gives_up).await.unwrap();
    assert_eq!(commit(&store, vec![cancel(1)]).await.unwrap_err().fault, Fault::Busy);
    // Long enough for every other statement on a busy machine.
    let slow = Options { statement_timeout: Duration::from_secs(2), ..Options::new(3) };
    let store = Postgres::connect(&url, slow).await.unwrap();
    assert_eq!(commit(&store, vec![cancel(1)]).await.unwrap_err().fault, Fault::Timeout);
    commit(&store, vec![submit(2)]).await.unwrap();
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_connection_usable() {
    let url = database().await;
    let store = Postgres::connect(&url, Options { lanes: 1, ..Options::new(1) }).await.unwrap();
    commit(&store, vec![submit(1)]).await.unwrap();
    let held = hold(&url, 1).await;
    let gone = timeout(Duration::from_millis(100), commit(&store, vec![cancel(1)])).await;
    assert!(gone.is_err(), "it waits for the job");
    held.batch_execute("ROLLBACK").await.unwrap();
    commit(&store, vec![submit(2)]).await.unwrap();
    assert_eq!(count_jobs(&store).await, 2);
}

#[tokio::test]
async fn the_other_node_is_told_and_a_node_does_not_hear_itself() {
    let url = database().await;
    let (first, second) = (connect(&url, 1).await, connect(&url, 2).await);
    let (mut at_first, mut at_second) = (first.wakeups(), second.wakeups());
    commit(&first, vec![submit(1)]).await.unwrap();
    let owner = Owner::client(ClientId::from_u128(7));
    let shelf = Shelf { lane: Lane::External, name: owner.scoped("q") };
    assert_eq!(at_second.recv().await.unwrap(), Wakeup::Shelf(shelf));
    assert_eq!(at_second.recv().await.unwrap(), Wakeup::Journal);
    // News come in order: had the first heard of its own job, it would hear of it before this.
    commit(&second, vec![cancel(1)]).await.unwrap();
    assert_eq!(at_first.recv().await.unwrap(), Wakeup::Journal);
    assert!(at_first.is_empty());
}

#[tokio::test]
async fn a_node_that_was_deaf_looks_everywhere() {
    let url = database().await;
    let store = connect(&url, 1).await;
    let mut news = store.wakeups();
    let deafen = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let ended = testing::connect(&url).await.query(deafen, &[]).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!(news.recv().await.unwrap(), Wakeup::Everything);
}

/// Numbers of the journal are not committed in their order. A reader that went on past one would never see it.
#[tokio::test]
async fn a_reader_does_not_pass_a_lower_number_that_is_under_way() {
    let url = database().await;
    let store = connect(&url, 1).await;
    commit(&store, vec![submit(1)]).await.unwrap();
    let journal = &store as &dyn Store;
    let before = journal.journal_end().await.unwrap();
    for (ending, n_more) in [("COMMIT", 2), ("ROLLBACK", 1)] {
        let slow = testing::connect(&url).await;
        let draw = "
            BEGIN;
            SELECT FROM journal_seq, pg_advisory_xact_lock_shared(x'4652'::bigint << 48 | last_value);
            INSERT INTO journal (seq, at, entries) VALUES (nextval('journal_seq'), 0, '')";
        slow.batch_execute(draw).await.unwrap();
        let end = journal.journal_end().await.unwrap();
        commit(&store, vec![submit(u64::try_from(end).unwrap() + 10)]).await.unwrap();
        assert_eq!(journal.journal_end().await.unwrap(), end, "a newer row waits for the one under way");
        assert_eq!(journal.journal(end, 9).await.unwrap(), []);
        slow.batch_execute(ending).await.unwrap();
        assert_eq!(journal.journal(end, 9).await.unwrap().len(), n_more, "after {ending}");
    }
    assert_eq!(journal.journal(before, 9).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_row_of_the_journal_or_an_outcome_that_cannot_be_read_hides_no_other() {
    let url = database().await;
    let store = connect(&url, 1).await;
    for n in [1, 2] {
        commit(&store, vec![submit(n)]).await.unwrap();
        commit(&store, vec![cancel(n)]).await.unwrap();
    }
    let store = &store as &dyn Store;
    let mut executions = Vec::new();
    for n in [1, 2] {
        executions.push(store.job(id(n)).await.unwrap().unwrap().execution);
    }
    let damage = "
        UPDATE outcomes SET digest = '\\x01' WHERE job = (SELECT min(job::text)::uuid FROM outcomes);
        UPDATE journal SET entries = '\\xff' WHERE seq = (SELECT min(seq) + 1 FROM journal)";
    testing::connect(&url).await.batch_execute(damage).await.unwrap();

    assert_eq!(store.outcome(executions[0]).await.unwrap_err().fault, Fault::Corrupt);
    let outcomes = store.outcomes(executions.clone()).await.unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.execution).collect::<Vec<_>>(), executions[1..]);
    let rows = store.journal(0, 9).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.entries.is_empty()).collect::<Vec<_>>(),
        [false, true, false, false]
    );
}

#[tokio::test]
async fn a_stopped_server_is_unavailable_and_comes_back() {
    let cluster = Cluster::start(Durability::None);
    let options = Options { wait: Duration::from_secs(3), ..Options::new(1) };
    let n_lanes = options.lanes;
    let store = Arc::new(Postgres::connect(&cluster.database().await, options).await.unwrap());
    commit(&store, vec![submit(1)]).await.unwrap();
    cluster.kill();
    // More callers than connections: those that wait for one are told the same. What is sent on a connection that nobody knows to be gone may have been
    // written, as far as can be told.
    let mut n_unknown = 0;
    let mut callers: JoinSet<Result<Changes, Error>> = (0..20)
        .map(|_| {
            let store = store.clone();
            async move { commit(&store, vec![submit(2)]).await }
        })
        .collect();
    while let Some(answer) = callers.join_next().await {
        let error = answer.unwrap().unwrap_err();
        assert!(matches!(error.fault, Fault::Unavailable | Fault::Unknown), "{error}");
        n_unknown += usize::from(error.fault == Fault::Unknown);
    }
    assert!(n_unknown <= n_lanes, "{n_unknown}");
    let error = (&*store as &dyn Store).job(id(1)).await.unwrap_err();
    assert_eq!(error.fault, Fault::Unavailable, "{error}");
    cluster.start_again();
    commit(&store, vec![submit(2)]).await.unwrap();
    assert_eq!(count_jobs(&store).await, 2);
}

/// What was acknowledged before a crash is there after it; what was not is there whole or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let cluster = Cluster::start(Durability::Full);
    let url = cluster.database().await;
    let options = Options { wait: Duration::from_secs(3), ..Options::new(1) };
    let store = Arc::new(Postgres::connect(&url, options).await.unwrap());
    let mut lanes: JoinSet<(BTreeSet<u64>, Fault)> = (0..4)
        .map(|lane| {
            let store = store.clone();
            async move {
                let mut acknowledged = BTreeSet::new();
                for n in (lane * 1_000_000..).step_by(8) {
                    match commit(&store, (n..n + 8).map(submit).collect()).await {
                        Ok(_) => acknowledged.extend(n..n + 8),
                        Err(error) => return (acknowledged, error.fault),
                    }
                }
                unreachable!("the server is killed before")
            }
        })
        .collect();
    let mut news = (&*store as &dyn Store).journal_end().await.unwrap();
    while news < 100 {
        news = (&*store as &dyn Store).journal_end().await.unwrap();
    }
    cluster.kill();
    let mut acknowledged = BTreeSet::new();
    while let Some(lane) = lanes.join_next().await {
        let (of_lane, fault) = lane.unwrap();
        assert!(matches!(fault, Fault::Unavailable | Fault::Unknown), "{fault:?}");
        acknowledged.extend(of_lane);
    }
    cluster.start_again();
    let rows =
        testing::connect(&url).await.query("SELECT count(*) FROM jobs GROUP BY client", &[]).await.unwrap();
    let n_jobs: i64 = rows[0].get(0);
    assert_eq!(n_jobs % 8, 0, "batches are whole");
    assert_eq!(count_jobs(&store).await, n_jobs, "counts agree with the jobs");
    for &n in &acknowledged {
        assert!((&*store as &dyn Store).job(id(n)).await.unwrap().is_some(), "job {n} was acknowledged");
    }
    let changes = commit(&store, vec![submit(99_000_000)]).await.unwrap();
    assert!(matches!(changes.answers[0], Answer::Submitted { existing: false, .. }));
}

/// Waits until a statement of ours waits for a lock.
async fn until_blocked(url: &str) {
    let client = testing::connect(url).await;
    let blocked =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query(blocked, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// A record as a newer version may leave it: of a kind that this one does not know, and due.
const UNKNOWN: &str =
    "INSERT INTO records (kind, key, grp, due_at, version, bytes) VALUES (62, 'k', '', 1, 1, '')";

#[tokio::test]
async fn a_due_record_of_a_kind_that_only_newer_versions_know_is_left_alone() {
    let url = database().await;
    let store = connect(&url, 1).await;
    testing::connect(&url).await.batch_execute(UNKNOWN).await.unwrap();
    let shared: &dyn Store = &store;
    assert_eq!(shared.next_due().await.unwrap(), None, "nobody waits for it");
    let due = commit(&store, vec![Command::Due(9)]).await.unwrap();
    assert!(matches!(due.answers[0], Answer::Due { n_records: 0, more: false, .. }), "{:?}", due.answers);
}

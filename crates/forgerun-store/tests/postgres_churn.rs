//! Jobs that come and go for long: retention keeps what is to be kept, and what has gone leaves no more behind than a vacuum takes away.
//!
//! `FORGE_CHURN_SECONDS=600 cargo test -p forgerun-store --all-features --test postgres_churn -- --ignored --nocapture` measures a longer run, with
//! nothing but autovacuum; its figures are in bench/notes/laboratory.md.
#![cfg(all(feature = "testing", feature = "postgres"))]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Claim, Held, Holder, NewJob, Submit, Succeed, WorkerKind};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::rows::{Object, Render};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Batch, Changes, Command, decide, limits, wants};
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{Cluster, Durability, connect};
use forgerun_store::{Store, Sweep};
use tokio_postgres::Client;

const CLIENT: ClientId = ClientId::from_u128(7);
/// Jobs of one batch that are kept for a moment.
const N_SHORT: usize = 250;
/// Jobs of one batch that are kept for good.
const N_LONG: usize = 2;

struct Ready;

impl Render for Ready {
    fn outcome(&self, _: &Job, _: &[ItemEnd]) -> Object {
        Object { bytes: vec![b'o'; 600], digest: [7; 32] }
    }
}

/// A database, and a clock that moves by a second with each batch of jobs.
struct Churn {
    store: Postgres,
    client: Client,
    now: Time,
    n_jobs: u128,
}

impl Churn {
    async fn on(cluster: &Cluster) -> Churn {
        let url = cluster.database().await;
        let store = Postgres::connect(&url, Options::new(1)).await.unwrap();
        Churn { store, client: connect(&url).await, now: Time::from_millis(1_800_000_000_000), n_jobs: 0 }
    }

    async fn tell(&self, commands: Vec<Command>) -> Changes {
        let batch = Batch { now: self.now, seed: 1, commands };
        let wants = wants(&batch);
        self.store.transact(wants, Box::new(move |rows| decide(&batch, rows, &Ready))).await.unwrap()
    }

    fn job(&mut self, retention: Duration) -> NewJob {
        self.n_jobs += 1;
        let mut head = Head::new(CLIENT, Name::new("q").unwrap(), self.now);
        head.retention = Some(retention);
        let input = Input { payload: vec![b'p'; 300], ..Input::default() };
        let id = JobId::v7(self.now.unix_ms(), self.n_jobs);
        NewJob { id, id_given: false, head: Arc::new(head), input: Arc::new(input) }
    }

    /// A batch of jobs lives; those of earlier batches go.
    async fn round(&mut self) {
        let short = (0..N_SHORT).map(|_| self.job(Duration::from_secs(5))).collect::<Vec<_>>();
        let long = (0..N_LONG).map(|_| self.job(Duration::from_secs(1_000_000_000))).collect::<Vec<_>>();
        let jobs = short.into_iter().chain(long).collect();
        let submit = Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false };
        self.tell(vec![Command::Submit(submit)]).await;
        let claimed = self.tell(vec![claim()]).await;
        self.tell(claimed.answers.iter().flat_map(succeed).collect()).await;
        self.now = self.now + Duration::from_secs(1);
        while !self.tell(vec![Command::Due(limits::DUE_JOBS_MAX)]).await.is_empty() {}
        let before = self.now - Duration::from_secs(10);
        let sweep = Sweep { journal_before: before, tombstones_before: before, ..Sweep::nothing(1000) };
        while self.store.sweep(sweep).await.unwrap().total() > 0 {}
    }

    /// Rows that are dead, by table.
    async fn dead(&self) -> BTreeMap<String, i64> {
        self.figures("SELECT relname::text, n_dead_tup FROM pg_stat_user_tables").await
    }

    /// Bytes, by table, with indexes.
    async fn sizes(&self) -> BTreeMap<String, i64> {
        self.figures("SELECT relname::text, pg_total_relation_size(relid) FROM pg_stat_user_tables").await
    }

    async fn figures(&self, sql: &str) -> BTreeMap<String, i64> {
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn count(&self, table: &str) -> i64 {
        self.client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }
}

fn claim() -> Command {
    Command::Claim(Claim {
        worker: Name::new("w-1").unwrap(),
        worker_kind: WorkerKind::External(Owner::client(CLIENT)),
        queues: vec![Name::new("q").unwrap()],
        limit: N_SHORT + N_LONG,
        lease: None,
        lease_default: Duration::from_secs(30),
        start: true,
        active_max: None,
    })
}

fn succeed(answer: &Answer) -> Vec<Command> {
    let Answer::Claimed { jobs, .. } = answer else { panic!("not claimed: {answer:?}") };
    let succeed = |job: &Job| {
        let held = Held { job: job.id, holder: Holder::Token(job.fence), client: None };
        Command::Succeed(Succeed { held, output: None })
    };
    jobs.iter().map(succeed).collect()
}

#[tokio::test]
async fn what_comes_and_goes_takes_no_more_room_with_time_and_what_is_kept_stays() {
    let mut churn = Churn::on(Cluster::shared()).await;
    let mut sizes = Vec::new();
    for n in 0..30 {
        churn.round().await;
        // What autovacuum does when enough has gone.
        churn.client.batch_execute("VACUUM").await.unwrap();
        if n == 12 || n == 29 {
            sizes.push(churn.sizes().await);
        }
    }
    let kept = 30 * N_LONG as i64;
    // Jobs are kept for five seconds, tombstones and the journal for ten; a batch is a second.
    let young = kept + 5 * N_SHORT as i64;
    for table in ["jobs", "inputs", "outcomes"] {
        let n_rows = churn.count(table).await;
        assert!((kept..=young).contains(&n_rows), "{n_rows} in {table}");
    }
    assert!(churn.count("journal").await >= 30, "at least three transactions a second, for ten seconds");
    for (table, size) in &sizes[1] {
        // What is kept for good has grown in between, by 34 rows.
        let room = sizes[0][table] * 3 / 2 + 128 * 1024;
        assert!(*size <= room, "{table} has grown from {} to {size} bytes", sizes[0][table]);
    }
}

#[tokio::test]
async fn every_table_that_loses_rows_says_when_it_is_vacuumed() {
    let churn = Churn::on(Cluster::shared()).await;
    let sql = "
        SELECT relname::text, count(*)
          FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
           AND NOT coalesce(array_to_string(reloptions, ','), '') LIKE '%autovacuum_vacuum_scale_factor%'
         GROUP BY relname";
    let left: Vec<String> = churn.figures(sql).await.into_keys().collect();
    // Few rows, or rows that hardly ever change.
    assert_eq!(left, ["api_keys", "clients", "migrations", "set_aside", "signing_keys", "store", "webhooks"]);
}

#[tokio::test]
#[ignore = "measures, for as long as FORGE_CHURN_SECONDS says"]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
async fn rate_and_dead_rows_over_a_long_time() {
    let seconds: u64 = std::env::var("FORGE_CHURN_SECONDS").map_or(60, |text| text.parse().unwrap());
    let cluster = Cluster::start(Durability::Full);
    let mut churn = Churn::on(&cluster).await;
    println!(
        "| minute | jobs/s | dead rows, all tables | most in one table | size, MB |\n|---|---|---|---|---|"
    );
    let begun = std::time::Instant::now();
    let mut minute = 0;
    let mut n_before = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        churn.round().await;
        if begun.elapsed().as_secs() / 60 > minute {
            minute += 1;
            let (dead, sizes) = (churn.dead().await, churn.sizes().await);
            let most = dead.iter().max_by_key(|(_, n)| **n).unwrap();
            println!(
                "| {minute} | {} | {} | {} {} | {} |",
                (churn.n_jobs - n_before) / 60,
                dead.values().sum::<i64>(),
                most.0,
                most.1,
                sizes.values().sum::<i64>() >> 20
            );
            n_before = churn.n_jobs;
        }
    }
}

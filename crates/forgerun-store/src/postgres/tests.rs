//! The statements on a real server: all of them are understood, and the hot ones use their index however large the table.

use std::cmp::Reverse;
use std::sync::Arc;
use std::task::{Context, Waker};

use forgerun_core::id::JobId;
use forgerun_core::job::{Lane, Name, Shelf};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::sql::Sql;
use super::{Options, Postgres, connect};
use crate::testing::{self, Cluster};
use crate::{Fault, Page, Query, Store as _};

/// A database with the schema, and a session as ours are.
async fn session() -> Client {
    let url = Cluster::shared().database().await;
    Postgres::connect(&url, Options::new(1)).await.unwrap().close().await;
    let client = testing::connect(&url).await;
    client.batch_execute(&connect::settings(&Options::new(1))).await.unwrap();
    client
}

#[tokio::test]
async fn the_level_of_transactions_is_ours_not_that_of_the_database() {
    let url = Cluster::shared().database().await;
    let alter = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
    END $$";
    testing::connect(&url).await.batch_execute(alter).await.unwrap();
    let client = testing::connect(&url).await;
    let level =
        async || client.query_one("SHOW transaction_isolation", &[]).await.unwrap().get::<_, String>(0);
    assert_eq!(level().await, "serializable");
    client.batch_execute(&connect::settings(&Options::new(1))).await.unwrap();
    assert_eq!(level().await, "read committed");
}

/// Ended jobs, workflows and settled deliveries, and some that wait, without telling the planner.
async fn fill(client: &Client) {
    let insert = "
        INSERT INTO jobs (id, client, due_at, state, priority, lane, shelf, queue, job_type, head, body)
        SELECT gen_random_uuid(), 'c0000000-0000-4000-8000-000000000000', n,
               CASE WHEN n % 50 = 0 THEN 1 ELSE 4 END, 0,
               CASE WHEN n % 50 = 0 THEN 1 END, CASE WHEN n % 50 = 0 THEN 'q' END, 'q',
               CASE WHEN n % 20 = 7 THEN 'forgerun.workflow' ELSE '' END, '\\x00', '\\x00'
          FROM generate_series(1, 20000) AS n";
    client.batch_execute(insert).await.unwrap();
    let insert = "INSERT INTO job_marks (mark, job, client) SELECT 't'::bytea, id, client FROM jobs";
    client.batch_execute(insert).await.unwrap();
    let insert = "
        INSERT INTO deliveries (id, job, endpoint, due_at, settled_at, place, status, body)
        SELECT gen_random_uuid(), gen_random_uuid(), ('00000000-0000-0000-0000-00000000000' || n % 10)::uuid,
               CASE WHEN n % 50 = 0 THEN n END, CASE WHEN n % 50 <> 0 THEN n END,
               CASE WHEN n % 50 = 0 THEN 1 END, CASE WHEN n % 50 = 0 THEN 0 WHEN n % 7 = 0 THEN 2 ELSE 1 END, '\\x00'
          FROM generate_series(1, 20000) AS n";
    client.batch_execute(insert).await.unwrap();
}

async fn plan(client: &Client, sql: Sql) -> String {
    let statement = client.prepare(sql.text()).await.unwrap();
    let nulls = statement.params().iter().map(null).collect::<Vec<_>>().join(", ");
    client.batch_execute(&format!("PREPARE p AS {}", sql.text())).await.unwrap();
    let explain =
        if nulls.is_empty() { "EXPLAIN EXECUTE p".into() } else { format!("EXPLAIN EXECUTE p ({nulls})") };
    let rows = client.query(&explain, &[]).await.unwrap();
    client.batch_execute("DEALLOCATE p").await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

fn null(of: &Type) -> String {
    format!("NULL::{}", of.name().strip_prefix('_').map_or(of.name().into(), |item| format!("{item}[]")))
}

#[tokio::test]
async fn the_server_understands_every_statement() {
    let client = session().await;
    for &sql in Sql::ALL {
        let prepared = client.prepare(sql.text()).await;
        assert!(prepared.is_ok(), "{sql:?}: {:?}", prepared.err());
    }
}

#[tokio::test]
async fn a_plan_made_for_an_empty_table_uses_its_index_all_the_same() {
    let client = session().await;
    check_plans(&client).await;
}

#[tokio::test]
async fn plans_use_their_index_on_a_filled_table_with_and_without_statistics() {
    let client = session().await;
    fill(&client).await;
    check_plans(&client).await;
    client.batch_execute("ANALYZE").await.unwrap();
    check_plans(&client).await;
}

async fn check_plans(client: &Client) {
    let expected = [
        (Sql::LockJobs, "using jobs_pkey"),
        (Sql::LockRelated, "using jobs_pkey"),
        (Sql::LockShelf, "using jobs_shelf"),
        (Sql::CountShelf, "using jobs_shelf"),
        (Sql::LockDue, "using jobs_due"),
        (Sql::UpdateJobs, "using jobs_pkey"),
        (Sql::DeleteJobs, "using jobs_pkey"),
        (Sql::FindKeys, "using idempotency_pkey"),
        (Sql::FindUniques, "using uniques_pkey"),
        (Sql::FindCounts, "using counts_pkey"),
        (Sql::FindContext, "using counts_pkey"),
        (Sql::FindContext, "using records_pkey"),
        (Sql::ReadJobs, "using jobs_pkey"),
        (Sql::ReadResults, "using results_pkey"),
        (Sql::ReadFront, "using jobs_shelf"),
        (Sql::ListJobs, "Backward using jobs_pkey"),
        (Sql::ListJobsOfClient, "Backward using jobs_client"),
        (Sql::ListMarked, "Backward using job_marks_pkey"),
        (Sql::ListMarked, "using jobs_pkey"),
        // Where one client has all marks, as here, either index has the same rows in the same order.
        (Sql::ListMarkedOfClient, "Backward using job_marks_"),
        (Sql::DeleteMarks, "using job_marks_job"),
        (Sql::ListWorkflows, "Backward using jobs_workflow on"),
        (Sql::ListWorkflowsOfClient, "Backward using jobs_workflow_client"),
        (Sql::ListJobsInStates, "Backward using jobs_state"),
        (Sql::ListJobsInStatesOfAll, "Backward using jobs_state"),
        (Sql::ReadShelf, "using jobs_shelf"),
        (Sql::ReadOldest, "using jobs_shelf"),
        (Sql::ReadDead, "using jobs_dead"),
        (Sql::CountDead, "using jobs_dead"),
        (Sql::ReadFailed, "using jobs_failed"),
        (Sql::CountFailed, "using jobs_failed"),
        (Sql::ReadNextDue, "using jobs_due"),
        (Sql::ReadJournal, "using journal_pkey"),
        (Sql::ReadJournalBefore, "using journal_at"),
        (Sql::SweepJournal, "using journal_at"),
        (Sql::SweepTombstones, "using tombstones_at"),
        (Sql::SweepLimits, "using limits_idle"),
        (Sql::ReadApiKey, "using api_keys_digest"),
        (Sql::LockChains, "using deliveries_chain"),
        (Sql::FindChains, "using deliveries_chain"),
        (Sql::LockDeliveries, "using deliveries_pkey"),
        (Sql::LockDueDeliveries, "using deliveries_due"),
        (Sql::LockFailedDeliveries, "using deliveries_failed"),
        (Sql::UpdateDeliveries, "using deliveries_pkey"),
        (Sql::DeleteDeliveriesOf, "using deliveries_job"),
        (Sql::ListDeliveriesTo, "Backward using deliveries_endpoint"),
        (Sql::ListDeliveriesOf, "Backward using deliveries_job"),
        (Sql::ListDeliveriesGivenUp, "Backward using deliveries_given_up"),
        (Sql::ReadNextDelivery, "using deliveries_due"),
        (Sql::SweepDeliveries, "using deliveries_settled"),
    ];
    for (sql, index) in expected {
        let plan = plan(client, sql).await;
        assert!(plan.contains(index), "{sql:?} should go {index}:\n{plan}");
        for table in ["jobs", "deliveries", "job_marks"] {
            let whole = format!("Seq Scan on {table}");
            assert!(!plan.contains(&whole), "{sql:?} reads the whole table:\n{plan}");
        }
        assert!(!plan.contains("Bitmap"), "{sql:?} collects all rows before the first:\n{plan}");
    }
}

/// In the order of the index: a sort would read the whole shelf, or everything that is due, to find the first. Lists sort what
/// they have looked at, which is bounded.
#[tokio::test]
async fn claims_and_timers_stop_after_the_last_row_wanted() {
    let client = session().await;
    fill(&client).await;
    let deliveries = [Sql::LockFailedDeliveries, Sql::ReadNextDelivery];
    let jobs = [Sql::LockShelf, Sql::ReadFront, Sql::LockDue, Sql::ReadDead, Sql::ReadFailed];
    for sql in jobs.into_iter().chain(deliveries) {
        let plan = plan(&client, sql).await;
        assert!(!plan.contains("Sort"), "{sql:?} sorts:\n{plan}");
    }
}

/// The async-operations document (§7.2): id, type, status, submission (in `head`) and input.
#[tokio::test]
async fn what_every_job_must_have_cannot_be_missing() {
    let client = session().await;
    let sql = "
        SELECT attrelid::regclass::text || '.' || attname
          FROM pg_attribute
         WHERE attrelid IN ('jobs'::regclass, 'inputs'::regclass) AND attnum > 0 AND NOT attnotnull
         ORDER BY 1";
    let optional: Vec<String> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(optional, ["jobs.due_at", "jobs.lane", "jobs.place", "jobs.shelf"]);
}

#[tokio::test]
async fn of_lookups_at_once_each_gets_its_own_answer() {
    let url = Cluster::shared().database().await;
    let store = Postgres::connect(&url, Options::new(1)).await.unwrap();
    let damaged = "
        INSERT INTO jobs (id, client, state, priority, queue, job_type, head, body)
        SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, gen_random_uuid(), 4, 0, 'q', '', '\\x00', '\\x00'
          FROM generate_series(1, 3) AS n";
    testing::connect(&url).await.batch_execute(damaged).await.unwrap();
    let id = |n: u128| JobId::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000 | n);
    let mut waiting = tokio::task::JoinSet::new();
    let store = Arc::new(store);
    for n in (1..=600).chain(1..=3) {
        let store = store.clone();
        waiting.spawn(async move {
            let found = store.read(Query::Job(id(n))).await;
            (n, found.map_err(|error| error.fault))
        });
    }
    let mut n_damaged = 0;
    while let Some(ended) = waiting.join_next().await {
        match ended.unwrap() {
            (1..=3, found) => {
                assert!(matches!(found, Err(Fault::Corrupt)));
                n_damaged += 1;
            }
            (n, found) => assert!(matches!(found, Ok(Page::Job(None))), "{n}"),
        }
    }
    assert_eq!(n_damaged, 6);
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_any_more_leaves_its_connection() {
    let url = Cluster::shared().database().await;
    let store = Postgres::connect(&url, Options { readers: 1, ..Options::new(1) }).await.unwrap();
    let client = testing::connect(&url).await;
    let sessions = async || {
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() ORDER BY pid";
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()
    };
    let before = sessions().await;
    let front = Query::Ahead {
        shelf: Shelf { lane: Lane::External, name: Name::new("q").unwrap() },
        order: (Reverse(0), JobId::from_u128(1)),
        limit: 10,
    };
    for query in [Query::SigningKeys, front] {
        let asked =
            std::pin::pin!(store.read(query)).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!asked, "it was asked and then dropped");
    }
    store.read(Query::SigningKeys).await.unwrap();
    assert_eq!(sessions().await, before);
}

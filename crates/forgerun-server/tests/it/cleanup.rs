//! What has outlived its time goes: by `forgerun cleanup`, also beside a running server, and by the
//! server itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{
    Cancel, DeliveryClaim, DeliveryCommand, NewJob, Owned, OwnedWebhook, SendResult, Settle, Submit,
    WebhookCommand,
};
use forgerun_core::delivery::DeliveryAttempt;
use forgerun_core::id::{ClientId, JobId, WebhookId};
use forgerun_core::job::{Head, Input, Name};
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope, Events, Health, Secrets, Webhook, WebhookFilter};
use forgerun_core::{Answer, Command, decide, wants};
use forgerun_engine::{Clock, DeliveryOptions, SystemClock};
use forgerun_store::Store;
use forgerun_store::sqlite::Sqlite;
use forgerun_wire::outcome::Outcomes;
use serde_json::Value;

use crate::process::{Server, forgerun, run};

/// Writes `n` jobs that were cancelled at `now` and are kept for `retention`.
async fn cancelled_jobs(store: &dyn Store, n: u128, now: Time, retention: Duration) {
    let client = ClientId::from_u128(1);
    let jobs: Vec<JobId> = (1..=n).map(|n| JobId::v7(now.unix_ms(), n)).collect();
    let new = |&id: &JobId| {
        let head =
            Head { retention: Some(retention), ..Head::new(client, Name::new("default").unwrap(), now) };
        NewJob { id, id_given: false, head: Arc::new(head), input: Arc::new(Input::default()) }
    };
    let submit = Submit {
        jobs: jobs.iter().map(new).collect(),
        idempotency: None,
        queue_max: None,
        refuse_paused: false,
    };
    let cancel = |&job: &JobId| {
        let owned = Owned { job, client: Some(client) };
        Command::Cancel(Cancel {
            owned,
            execution: None,
            by: "user".into(),
            reason: "done with it".into(),
            compensate: true,
        })
    };
    let commands = std::iter::once(Command::Submit(submit)).chain(jobs.iter().map(cancel)).collect();
    apply(store, now, commands).await;
}

async fn apply(store: &dyn Store, now: Time, commands: Vec<Command>) -> Vec<Answer> {
    let batch = forgerun_core::Batch { now, seed: 1, commands };
    let wants = wants(&batch);
    let decide = Box::new(move |rows| decide(&batch, rows, &Outcomes::default()));
    store.transact(wants, decide).await.unwrap().answers
}

#[tokio::test]
async fn cleanup_removes_what_has_outlived_its_time_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = Sqlite::open(&path).unwrap();
    let long_ago = Time::from_millis(1_700_000_000_000);
    cancelled_jobs(&store, 600, long_ago, Duration::from_secs(60)).await;
    cancelled_jobs(&store, 5, long_ago + Duration::from_secs(1), Duration::from_secs(1_000_000_000)).await;

    let url = format!("sqlite:{}", path.display());
    let first = run(&mut forgerun(&["cleanup", "--database-url", &url]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.stdout.starts_with("removed 600 jobs and "), "{}", first.stdout);
    let again = run(&mut forgerun(&["cleanup", "--database-url", &url]));
    assert_eq!(again.stdout, "removed 0 jobs and 0 old rows\n");

    let store: &dyn Store = &store;
    let left = store.jobs(forgerun_store::Filter { limit: 1000, ..Default::default() }).await.unwrap();
    assert_eq!(left.len(), 5);
}

#[test]
fn a_mistyped_path_does_not_pass_for_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("typo");
    let data = missing.to_str().unwrap();
    for command in [&["cleanup", "--data", data][..], &["webhook", "rotate-key", "--data", data]] {
        let ended = run(&mut forgerun(command));
        assert_eq!(ended.code, Some(1), "{command:?}");
        assert!(ended.stderr.contains(&format!("there is no store at {data}")), "{}", ended.stderr);
        assert!(!missing.exists(), "{command:?} left something behind");
    }
}

/// Writes a delivery that arrived at `now`.
async fn delivery(store: &dyn Store, now: Time) {
    let id = WebhookId::v7(now.unix_ms(), 1);
    let webhook = Webhook {
        id,
        client: ClientId::from_u128(1),
        url: format!("http://127.0.0.1:9/{id}"),
        events: Events::ALL,
        envelope: Envelope::None,
        filter: WebhookFilter::default(),
        description: None,
        secrets: Secrets { current: vec![1; 32], previous: None },
        created_at: now,
        updated_at: now,
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    };
    let test = WebhookCommand::Test(OwnedWebhook::new(id, webhook.client));
    apply(
        store,
        now,
        vec![Command::Webhook(WebhookCommand::Register(webhook.into())), Command::Webhook(test)],
    )
    .await;
    let take = DeliveryClaim { limit: 1, lease: Duration::from_secs(1), closed: BTreeMap::new() };
    let mut answers = apply(store, now, vec![Command::Delivery(DeliveryCommand::Take(take))]).await;
    let Some(Answer::Taken(taken)) = answers.pop() else { panic!("not taken") };
    let settle = Settle {
        delivery: taken.deliveries[0].id,
        client: taken.deliveries[0].client,
        chain: None,
        fence: taken.deliveries[0].fence,
        sent: SendResult::Delivered(DeliveryAttempt {
            at: now,
            took: Duration::ZERO,
            status: Some(204),
            error: None,
        }),
        policy: DeliveryOptions::default().policy,
        health_of: None,
    };
    apply(store, now, vec![Command::Delivery(DeliveryCommand::Settle(settle.into()))]).await;
}

#[tokio::test]
async fn how_long_deliveries_are_kept_is_the_operators_choice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = Sqlite::open(&path).unwrap();
    let url = format!("sqlite:{}", path.display());
    let three_days_ago = SystemClock.now() - Duration::from_secs(3 * 24 * 3600);
    let kept_for = |days: &str| {
        let mut cleanup = forgerun(&["cleanup", "--database-url", &url]);
        run(cleanup.env("FORGERUN_RETENTION__DELIVERIES_DAYS", days)).stdout
    };
    delivery(&store, three_days_ago).await;
    assert_eq!(kept_for("4"), "removed 0 jobs and 0 old rows\n");
    assert_eq!(kept_for("2"), "removed 0 jobs and 1 old rows\n");

    delivery(&store, three_days_ago + Duration::from_secs(1)).await;
    let mut serve = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]);
    let mut server = Server::start(serve.env("FORGERUN_RETENTION__DELIVERIES_DAYS", "2"));
    let line: Value = serde_json::from_str(&server.wait_for_log("sweep finished")).unwrap();
    assert_eq!((&line["deliveries"], &line["journal_rows"]), (&1.into(), &0.into()), "{line}");
}

#[tokio::test]
async fn a_running_server_logs_in_counts_what_it_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let long_ago = Time::from_millis(1_700_000_000_000);
    let store = Sqlite::open(&path).unwrap();
    cancelled_jobs(&store, 3, long_ago, Duration::from_secs(60)).await;

    let url = format!("sqlite:{}", path.display());
    let mut server =
        Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]));
    // The journal has one old row, which goes with the first sweep. The jobs go before it or after
    // it.
    let first: Value = serde_json::from_str(&server.wait_for_log("sweep finished")).unwrap();
    assert_eq!((&first["event"], &first["journal_rows"]), (&"cleanup".into(), &1.into()), "{first}");
    let store: &dyn Store = &store;
    while !store.jobs(forgerun_store::Filter { limit: 1, ..Default::default() }).await.unwrap().is_empty() {}
    server.signal("TERM");
    let log = server.wait().stderr;
    let rest = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rest = rest.filter(|line| line["event"] == "cleanup");
    let n_jobs: u64 = std::iter::once(first).chain(rest).map(|line| line["jobs"].as_u64().unwrap()).sum();
    assert_eq!(n_jobs, 3, "{log}");
}

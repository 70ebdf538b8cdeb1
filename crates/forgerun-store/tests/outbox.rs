//! The outbox in an application's database: what `forgerun.submit` does, who may do what, and how forwarders share it.
#![cfg(all(feature = "testing", feature = "postgres"))]

use std::time::Duration;

use forgerun_store::Fault;
use forgerun_store::outbox::{OutboxDatabase, OutboxSession, Refused, Settled, Taken};
use forgerun_store::testing::{Cluster, connect};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const BYTES_MAX: i64 = 1 << 20;

async fn installed() -> (String, OutboxDatabase) {
    let url = Cluster::shared().database().await;
    let outbox = OutboxDatabase::at(&url).unwrap();
    outbox.install().await.unwrap();
    (url, outbox)
}

async fn submit(client: &Client, job_type: &str) -> String {
    let text = "SELECT forgerun.submit($1, '[1]')::text";
    client.query_one(text, &[&job_type]).await.unwrap().get(0)
}

async fn take(session: &mut OutboxSession, n_max: i64) -> Vec<(String, String)> {
    match session.take(n_max, BYTES_MAX, false).await.unwrap() {
        Taken::Rows(rows) => rows.into_iter().map(|row| (row.id, row.job_type)).collect(),
        Taken::Nothing | Taken::Busy => Vec::new(),
    }
}

fn types(rows: &[(String, String)]) -> Vec<&str> {
    rows.iter().map(|(_, job_type)| job_type.as_str()).collect()
}

#[tokio::test]
async fn a_submission_is_part_of_its_transaction_and_ids_go_up() {
    let (url, outbox) = installed().await;
    let client = connect(&url).await;
    client.batch_execute("BEGIN").await.unwrap();
    submit(&client, "rolled.back").await;
    client.batch_execute("ROLLBACK; BEGIN").await.unwrap();
    let mut ids = Vec::new();
    for n in 0..300 {
        ids.push(submit(&client, &format!("t{n}")).await);
    }
    let mut session = outbox.open("test").await.unwrap();
    assert!(take(&mut session, 1000).await.is_empty(), "nothing is committed yet");
    client.batch_execute("COMMIT").await.unwrap();
    let rows = take(&mut session, 1000).await;
    assert_eq!(rows.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids, "in the order of the calls");
    assert!(ids.is_sorted() && ids.iter().all(|id| id.as_bytes()[14] == b'7'), "{ids:?}");
}

#[tokio::test]
async fn bad_submissions_are_refused_in_the_transaction() {
    let (url, _) = installed().await;
    let client = connect(&url).await;
    for text in [
        "SELECT forgerun.submit('', '[]')",
        "SELECT forgerun.submit('  ', '[]')",
        "SELECT forgerun.submit(NULL, '[]')",
        "SELECT forgerun.submit('a', '[]', '[]')",
        "SELECT forgerun.submit('a', '[]', '7')",
    ] {
        let error = client.query(text, &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_row_that_commits_late_is_sent_late() {
    let (url, outbox) = installed().await;
    let (slow, quick) = (connect(&url).await, connect(&url).await);
    slow.batch_execute("BEGIN").await.unwrap();
    submit(&slow, "slow").await;
    submit(&quick, "quick").await;
    let mut session = outbox.open("test").await.unwrap();
    assert_eq!(types(&take(&mut session, 10).await), ["quick"]);
    session.settle(&Settled { sent: vec![2], ..Settled::default() }).await.unwrap();
    slow.batch_execute("COMMIT").await.unwrap();
    assert_eq!(types(&take(&mut session, 10).await), ["slow"]);
}

#[tokio::test]
async fn one_forwarder_sends_and_another_takes_over_what_it_did_not_settle() {
    let (url, outbox) = installed().await;
    let client = connect(&url).await;
    for name in ["a", "b", "c"] {
        submit(&client, name).await;
    }
    let (mut first, mut second) = (outbox.open("first").await.unwrap(), outbox.open("second").await.unwrap());
    assert_eq!(types(&take(&mut first, 2).await), ["a", "b"]);
    assert!(matches!(second.take(10, BYTES_MAX, false).await.unwrap(), Taken::Busy));
    drop(first);
    let rows = loop {
        // The database notices the end of the first in a moment.
        let rows = take(&mut second, 10).await;
        if !rows.is_empty() {
            break rows;
        }
        second.wait(Duration::from_millis(20)).await;
    };
    assert_eq!(types(&rows), ["a", "b", "c"]);
    let problem = r#"{"title":"no"}"#.to_owned();
    let refused = vec![Refused { seq: 2, problem }];
    let settled = Settled { sent: vec![1], refused, error: Some("away".to_owned()) };
    second.settle(&settled).await.unwrap();
    let status = outbox.status().await.unwrap();
    assert_eq!((status.waiting, status.refused, status.sent), (1, 1, 1));
    assert_eq!((status.forwarder.as_deref(), status.error.as_deref()), (Some("second"), Some("away")));
    assert_eq!(
        (status.refusals[0].job_type.as_str(), status.refusals[0].problem.as_str()),
        ("b", r#"{"title": "no"}"#)
    );
    second.sweep(Duration::ZERO).await.unwrap();
    assert_eq!(outbox.status().await.unwrap().refused, 0, "old refusals go");
    assert_eq!(types(&take(&mut second, 10).await), ["c"]);
}

#[tokio::test]
async fn rows_of_one_turn_are_bounded_in_bytes_but_one_always_goes() {
    let (url, outbox) = installed().await;
    let client = connect(&url).await;
    for _ in 0..3 {
        let text = "SELECT forgerun.submit('big', to_jsonb(ARRAY[repeat('x', 1000)]))";
        client.query(text, &[]).await.unwrap();
    }
    let mut session = outbox.open("test").await.unwrap();
    for (bytes_max, n) in [(1, 1), (1500, 2), (10_000, 3)] {
        let Taken::Rows(rows) = session.take(10, bytes_max, false).await.unwrap() else {
            panic!("rows are there")
        };
        assert_eq!(rows.len(), n, "{bytes_max} bytes");
        session.settle(&Settled::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_commit_wakes_a_forwarder_that_waits() {
    let (url, outbox) = installed().await;
    let client = connect(&url).await;
    let mut session = outbox.open("test").await.unwrap();
    assert!(session.hears());
    assert!(matches!(session.take(10, BYTES_MAX, true).await.unwrap(), Taken::Nothing));
    submit(&client, "a").await;
    // Without the notification this would last ten minutes.
    session.wait(Duration::from_secs(600)).await;
    assert_eq!(types(&take(&mut session, 10).await), ["a"]);
}

#[tokio::test]
async fn roles_may_do_what_they_need_and_nothing_else() {
    let (url, outbox) = installed().await;
    outbox.install().await.expect("it can be installed again");
    let client = connect(&url).await;
    submit(&client, "a").await;
    let denied = async |role: &str, text: &str| {
        client.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
        let error = client.batch_execute(text).await.err();
        client.batch_execute("RESET ROLE").await.unwrap();
        error.is_some_and(|error| error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE))
    };
    let call = "SELECT forgerun.submit('b', '[]')";
    client.batch_execute("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger").await.unwrap();
    assert!(denied("stranger", call).await, "the function is not for everybody");
    assert!(!denied("forgerun_app", call).await);
    for text in
        ["SELECT * FROM forgerun.outbox", "DELETE FROM forgerun.outbox", "SELECT * FROM forgerun.forwarder"]
    {
        assert!(denied("forgerun_app", text).await, "{text}");
    }
    assert!(!denied("forgerun_forwarder", "SELECT * FROM forgerun.outbox").await);
    assert!(denied("forgerun_forwarder", "DROP TABLE forgerun.outbox").await);
    client.batch_execute("DROP ROLE stranger").await.unwrap();
}

#[tokio::test]
async fn a_missing_and_a_newer_outbox_are_named() {
    let url = Cluster::shared().database().await;
    let outbox = OutboxDatabase::at(&url).unwrap();
    let error = outbox.status().await.unwrap_err();
    assert!(error.to_string().contains("forgerun outbox install"), "{error}");
    outbox.install().await.unwrap();
    connect(&url).await.batch_execute("UPDATE forgerun.forwarder SET version = 2").await.unwrap();
    assert_eq!(outbox.open("test").await.err().unwrap().fault, Fault::TooNew);
    let error = outbox.install().await.unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
}

//! Waiting by the rules of the documents.

use std::time::Duration;

use forgerun_client::operations::{OperationStatus, Submission};
use forgerun_client::{Error, Schedule};
use serde_json::json;

use crate::foreign::{Foreign, Hurried, Reply};

/// Accepts, then says `Running` to this many questions, then `end`.
async fn server(n_running: usize, end: &'static str) -> Foreign {
    Foreign::start(move |request, n| match request.method.as_str() {
        "POST" => {
            Reply::json(202, &[("location", "/api/v1/jobs/7")], json!({"jobId": "7", "status": "Queued"}))
        }
        _ if n <= n_running => Reply::json(202, &[], json!({"jobId": "7", "status": "Running"})),
        _ => Reply::json(200, &[], json!({"jobId": "7", "status": end})),
    })
    .await
}

#[tokio::test]
async fn questions_come_after_2_4_8_16_30_30_seconds() {
    let server = server(6, "Completed").await;
    let clock = Hurried::new();
    let client = server.client(&clock);
    let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
    let ended = client.operations().wait(&accepted).await.unwrap();
    assert_eq!(ended.status, OperationStatus::Completed);
    assert_eq!(clock.waits_s(), [2, 4, 8, 16, 30, 30, 30]);
}

#[tokio::test]
async fn polling_stops_at_every_end_and_goes_on_at_words_it_does_not_know() {
    for end in ["Completed", "Failed", "Cancelled", "PartiallyCompleted"] {
        let server = server(1, end).await;
        let client = server.client(&Hurried::new());
        let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
        let ended = client.operations().wait(&accepted).await.unwrap();
        assert_eq!(ended.status, OperationStatus::new(end));
        assert_eq!(server.requests().len(), 3);
    }
    let server = server(1, "Finalizing").await;
    let client = server.client(&Hurried::new());
    let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
    let error = client.operations().wait(&accepted).await.unwrap_err();
    assert!(
        matches!(error, Error::TimedOut { waited, .. } if waited <= Duration::from_secs(300)),
        "{error:?}"
    );
}

#[tokio::test]
async fn retry_after_is_the_least_wait_and_a_429_is_waited_out() {
    let server = Foreign::start(|request, n| match (request.method.as_str(), n) {
        ("POST", _) => Reply::json(202, &[], json!({"jobId": "7", "statusUrl": "/elsewhere/7"})),
        (_, 1) => Reply::json(202, &[("retry-after", "20")], json!({"status": "Running"})),
        (_, 2..=7) => Reply::json(429, &[("retry-after", "9")], json!({"code": "RATE_LIMITED"})),
        _ => Reply::json(200, &[], json!({"status": "Completed"})),
    })
    .await;
    let clock = Hurried::new();
    let client = server.client(&clock);
    let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
    let ended = client.operations().wait(&accepted).await.unwrap();
    assert_eq!((ended.status, ended.job_id.as_str()), (OperationStatus::Completed, "7"));
    // 2 s, then what the server asked for; five repetitions of the 429; then the next question.
    assert_eq!(clock.waits_s(), [2, 20, 9, 9, 9, 9, 9, 9]);
    assert!(server.requests()[1..].iter().all(|request| request.path == "/elsewhere/7"));
}

#[tokio::test]
async fn a_job_that_is_gone_ends_the_wait() {
    let server = Foreign::start(|request, _| match request.method.as_str() {
        "POST" => Reply::json(202, &[], json!({"jobId": "7"})),
        _ => Reply::json(410, &[], json!({"title": "Job Expired"})),
    })
    .await;
    let client = server.client(&Hurried::new());
    let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
    assert!(client.operations().wait(&accepted).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_thousand_waits_share_a_few_connections_and_never_hurry() {
    let server = Foreign::start(|_, n| match n {
        0..2000 => Reply::json(200, &[], job("RUNNING", "PROCESSING")),
        _ => Reply::json(200, &[], job("SUCCEEDED", "COMPLETED")),
    })
    .await;
    let clock = Hurried::new();
    let client = server.builder().clock(clock.clone()).connections(8).build().unwrap();
    let waits: Vec<_> = (0..1000)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.forge().wait_by(&n.to_string(), Schedule::default()).await })
        })
        .collect();
    for wait in waits {
        assert_eq!(wait.await.unwrap().unwrap().state, "SUCCEEDED");
    }
    assert!(server.connections_max() <= 8, "{}", server.connections_max());
    // Every question was preceded by a wait of at least two seconds.
    assert!(clock.waits_s().iter().all(|wait| *wait >= 2));
    assert_eq!(clock.waits_s().len(), server.requests().len());
}

fn job(state: &str, status: &str) -> serde_json::Value {
    json!({"job_id": "1", "type": "EXECUTE", "state": state, "outcome": null, "created_at": "", "execution_at": null,
        "updated_at": "", "attempt": 1, "callback": null, "queue": "default", "definition": null, "errors": [],
        "jobId": "1", "jobStatus": status, "submittedAt": ""})
}

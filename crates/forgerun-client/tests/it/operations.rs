//! The async-operations pattern, as a server that is not ForgeRun might do it.

use forgerun_client::ResubmissionPolicy;
use forgerun_client::operations::{OperationStatus, Submission};
use serde_json::json;

use crate::foreign::{Foreign, Hurried, Reply};

#[tokio::test]
async fn a_foreign_server_is_followed_from_link_to_link() {
    let server = Foreign::start(|request, _| match request.path.as_str() {
        "/exports/orders/start" => {
            Reply::new(202, &[("location", "/exports/status/abc"), ("retry-after", "1")], b"")
        }
        "/exports/status/abc" => {
            Reply::json(200, &[], json!({"status": "completed", "resultUrl": "../files/abc.csv"}))
        }
        "/files/abc.csv" | "/exports/files/abc.csv" => {
            Reply::new(200, &[("content-type", "text/csv")], b"a,b\n")
        }
        other => Reply::json(404, &[], json!({"title": other})),
    })
    .await;
    let client = server.client(&Hurried::new());
    let operations = client.operations().below("/exports/");
    let accepted = operations
        .submit(&Submission::operation("orders/start").parameters(json!({"year": 2026})))
        .await
        .unwrap();
    assert_eq!((accepted.job_id.as_str(), accepted.status_url.as_str()), ("abc", "/exports/status/abc"));
    let ended = operations.wait(&accepted).await.unwrap();
    assert_eq!((ended.job_id.as_str(), &ended.status), ("abc", &OperationStatus::Completed));
    let result = operations.result(&ended).await.unwrap();
    assert_eq!(result.head().content_type, "text/csv");
    assert_eq!(result.bytes(100).await.unwrap(), "a,b\n");
    assert_eq!(server.requests()[0].json(), json!({"parameters": {"year": 2026}}));
}

#[tokio::test]
async fn a_redirect_to_the_result_means_that_the_job_is_done() {
    let server = Foreign::start(|request, _| match request.path.as_str() {
        "/api/v1/jobs" => Reply::json(202, &[], json!({"id": 17, "jobId": "17"})),
        "/api/v1/jobs/17" => Reply::new(303, &[("location", "/files/17")], b""),
        _ => Reply::new(200, &[], b"done"),
    })
    .await;
    let client = server.client(&Hurried::new());
    let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
    let ended = client.operations().wait(&accepted).await.unwrap();
    assert_eq!(client.operations().result(&ended).await.unwrap().bytes(10).await.unwrap(), "done");
}

#[tokio::test]
async fn a_result_elsewhere_is_fetched_without_the_key() {
    let storage = Foreign::start(|_, _| Reply::new(200, &[], b"far")).await;
    let far = format!("http://{}/f", storage.address);
    let server = Foreign::start(move |request, _| match request.method.as_str() {
        "POST" => Reply::json(202, &[], json!({"jobId": "7"})),
        _ => Reply::json(200, &[], json!({"status": "Completed", "resultUrl": far})),
    })
    .await;
    let client = server.builder().key("secret").clock(Hurried::new()).build().unwrap();
    let accepted = client.operations().submit(&Submission::job("t")).await.unwrap();
    let ended = client.operations().wait(&accepted).await.unwrap();
    assert_eq!(client.operations().result(&ended).await.unwrap().bytes(10).await.unwrap(), "far");
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer secret"));
    assert_eq!(storage.requests()[0].header("authorization"), None);
}

/// Every job fails as `error` says, until the n-th succeeds.
async fn failing(n_failures: usize, failure: serde_json::Value) -> Foreign {
    Foreign::start(move |request, n| match request.method.as_str() {
        "POST" => Reply::json(202, &[], json!({"jobId": format!("job-{}", n / 2)})),
        _ if n / 2 < n_failures => Reply::json(200, &[], failure.clone()),
        _ => Reply::json(200, &[], json!({"status": "Completed"})),
    })
    .await
}

#[tokio::test]
async fn failed_work_is_submitted_again_as_a_new_job_with_a_new_key() {
    let failure = json!({"status": "Failed", "retryable": true, "retryAfter": 0});
    let server = failing(2, failure).await;
    let clock = Hurried::new();
    let client = server.client(&clock);
    let work = Submission::job("t").idempotency_key("first");
    let ended = client.operations().run(&work, &ResubmissionPolicy::default()).await.unwrap();
    assert_eq!(ended.operation.status, OperationStatus::Completed);
    assert_eq!(ended.attempted.len(), 3);
    let mut keys: Vec<&str> =
        ended.attempted.iter().map(|attempted| attempted.idempotency_key.as_str()).collect();
    assert_eq!(keys[0], "first");
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 3, "every job has a key of its own");
    assert!(ended.attempted.iter().all(|attempted| attempted.job_id != attempted.idempotency_key));
    // 2 s before each question; a second and then two between the jobs, although the server says 0.
    assert_eq!(clock.waits_s(), [2, 1, 2, 2, 2]);
}

#[tokio::test]
async fn work_is_given_up_when_the_failure_says_so_or_says_nothing() {
    for failure in [
        json!({"status": "Failed", "retryable": false}),
        json!({"status": "Failed", "retryAfter": 5}),
        json!({"status": "Failed", "retryable": true, "retryAfter": 4000}),
        json!({"status": "Failed", "error": {"errorCode": "NON_RETRYABLE_ERROR"}}),
        json!({"status": "Cancelled"}),
    ] {
        let server = failing(9, failure.clone()).await;
        let client = server.client(&Hurried::new());
        let ended =
            client.operations().run(&Submission::job("t"), &ResubmissionPolicy::default()).await.unwrap();
        assert_eq!(ended.attempted.len(), 1, "{failure}");
    }
    let server = failing(99, json!({"status": "Failed", "error": {"errorCode": "HANDLER_ERROR"}})).await;
    let client = server.client(&Hurried::new());
    let ended = client.operations().run(&Submission::job("t"), &ResubmissionPolicy::default()).await.unwrap();
    assert_eq!(ended.attempted.len(), 6, "five retries and no more");
}

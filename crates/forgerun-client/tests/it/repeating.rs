//! What is sent again by itself, and what is not.

use forgerun_client::forge::Submit;
use forgerun_client::{Category, Client, Error};
use serde_json::json;

use crate::foreign::{Foreign, Hurried, Reply};

fn accepted() -> Reply {
    Reply::json(202, &[], json!({"job_id": "1", "state": "QUEUED", "created_at": "2026-01-01T00:00:00.000Z"}))
}

#[tokio::test]
async fn a_submission_keeps_its_key_however_often_it_is_sent() {
    let server = Foreign::start(|_, n| match n {
        0 => Reply::json(503, &[("retry-after", "3")], json!({"code": "BACKEND_UNAVAILABLE"})),
        1 => Reply::nothing(),
        2 => Reply::cut(202, &[], 100, b"{\"job"),
        _ => accepted(),
    })
    .await;
    let clock = Hurried::new();
    let client = server.client(&clock);
    let submitted = client.forge().submit(&Submit::execute()).await;
    // A head was there, so the third answer counts as one; its body broke, and the caller must know that the job may exist.
    assert!(matches!(submitted, Err(Error::Unreachable(_))), "{submitted:?}");
    let again = client.forge().submit(&Submit::execute().idempotency_key("mine")).await.unwrap();
    let keys: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!((&keys[0], &keys[1]), (&keys[1], &keys[2]));
    assert_eq!((keys[3].as_str(), again.idempotency_key.as_str()), ("mine", "mine"));
    assert_ne!(keys[0], "mine");
    assert_eq!(clock.waits_ms(), [3000, 200]);
}

#[tokio::test]
async fn two_submissions_have_two_keys() {
    let server = Foreign::start(|_, _| accepted()).await;
    let client = server.client(&Hurried::new());
    let first = client.forge().submit(&Submit::execute()).await.unwrap();
    let second = client.forge().submit(&Submit::execute()).await.unwrap();
    assert_ne!(first.idempotency_key, second.idempotency_key);
}

#[tokio::test]
async fn errors_of_the_caller_are_sent_once_even_if_flagged() {
    for (status, code, category) in [
        (400, "INVALID_ARGS", Category::Validation),
        (409, "DUPLICATE_JOB", Category::Conflict),
        (401, "UNAUTHENTICATED", Category::Auth),
        (500, "ACME_SOMETHING", Category::Unknown),
    ] {
        let flagged = category != Category::Unknown;
        let server = Foreign::start(move |_, _| {
            let body = if flagged { json!({"code": code, "retryable": true}) } else { json!({"code": code}) };
            Reply::json(status, &[], body)
        })
        .await;
        let error = server.client(&Hurried::new()).forge().get("1").await.unwrap_err();
        assert_eq!(error.api().unwrap().category, category);
        assert!(!error.is_retryable());
        assert_eq!(server.requests().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn trouble_of_the_server_is_sent_five_times_more_at_growing_distances() {
    let server = Foreign::start(|_, _| Reply::json(500, &[], json!({"code": "BACKEND_ERROR"}))).await;
    let clock = Hurried::new();
    let error = server.client(&clock).forge().get("1").await.unwrap_err();
    assert!(matches!(error, Error::Backend(_)));
    assert_eq!(server.requests().len(), 6);
    assert_eq!(clock.waits_ms(), [100, 200, 400, 800, 1600]);
}

#[tokio::test]
async fn what_has_no_key_and_may_have_arrived_is_not_sent_twice() {
    let server = Foreign::start(|_, _| Reply::nothing()).await;
    let client = server.client(&Hurried::new());
    assert!(matches!(client.forge().renew_key("c").await, Err(Error::Unreachable(_))));
    assert_eq!(server.requests().len(), 1);
    assert!(matches!(client.forge().cancel("j").await, Err(Error::Unreachable(_))));
    assert_eq!(server.requests().len(), 1 + 6, "cancelling twice is harmless");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::builder(format!("http://{free}")).clock(Hurried::new()).build().unwrap();
    let error = client.forge().get("1").await.unwrap_err();
    let Error::Unreachable(unreachable) = &error else { panic!("{error:?}") };
    assert!(!unreachable.maybe_sent);
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

#[tokio::test]
async fn no_type_of_a_problem_is_ever_fetched() {
    let server = Foreign::start(|request, _| {
        let host = request.header("host").unwrap();
        let body =
            json!({"type": format!("http://{host}/problems/x"), "code": "NOT_FOUND", "detail": "GET /y"});
        Reply::json(404, &[("content-type", "application/problem+json")], body)
    })
    .await;
    assert!(server.client(&Hurried::new()).forge().get("1").await.unwrap_err().is_not_found());
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v1/jobs/1"]);
}

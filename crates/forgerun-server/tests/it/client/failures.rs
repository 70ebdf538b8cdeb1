//! What a client is told when something fails.

use forgerun_client::forge::Submit;
use forgerun_client::operations::{OperationStatus, Submission};
use forgerun_client::{Category, Client, Error, ResubmissionPolicy, RetryPolicy};
use forgerun_core::catalog::Kind;

use super::pair;

#[tokio::test]
async fn refusals_have_the_type_of_their_category() {
    let (server, client) = pair(&[]).await;
    let forge = client.forge();
    let refused = forge.submit(&Submit::execute().work_kind("NOPE")).await.unwrap_err();
    let Error::Validation(said) = &refused else { panic!("{refused:?}") };
    assert_eq!((said.code.as_str(), said.status), ("RFA_JOB_VALIDATION_FAILED", Some(400)));
    assert!(said.details.contains_key("field") && said.request_id.is_some());
    assert!(said.problem.type_uri().ends_with("/problems/validation-failed"), "{}", said.problem.type_uri());

    let keyed = Submit::execute().idempotency_key("k");
    forge.submit(&keyed.clone().work_kind("SUCCESS_FAST")).await.unwrap();
    let conflict = forge.submit(&keyed.work_kind("FAIL_IMMEDIATE")).await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict(_)), "{conflict:?}");

    let missing = forge.get("019a0000-0000-7000-8000-000000000000").await.unwrap_err();
    assert!(matches!(missing, Error::Resource(_)) && missing.is_not_found());

    let stranger = Client::builder(format!("http://{}", server.address)).key("frk_wrong").build().unwrap();
    let denied = stranger.forge().submit(&Submit::execute()).await.unwrap_err();
    assert!(matches!(denied, Error::Auth(_)) && !denied.is_retryable(), "{denied:?}");
}

#[tokio::test]
async fn a_failed_job_is_a_report_and_not_an_error() {
    let (server, client) = pair(&[]).await;
    let submitted = client.forge().submit(&Submit::execute().work_kind("FAIL_IMMEDIATE")).await.unwrap();
    server.fail_saying(Kind::HandlerError, "no paper").await;
    let job = client.forge().wait(&submitted.job_id).await.unwrap();
    assert_eq!(job.state, "FAILED");
    let failure = client.forge().failure(&submitted.job_id).await.unwrap().unwrap();
    assert_eq!(failure.problem.job().retryable(), Some(false));
    assert!(failure.bytes.starts_with(b"{"));
    assert!(client.forge().result(&submitted.job_id).await.is_err());
}

#[tokio::test]
async fn work_that_failed_is_submitted_again_as_another_job() {
    let (server, client) = pair(&[]).await;
    let server = std::sync::Arc::new(server);
    let worker = server.clone();
    tokio::spawn(async move {
        worker.fail(Kind::HandlerTransient).await;
        worker.succeed().await;
    });
    let work = Submission::job("test").work_kind("RETRY_ON_FAIL").member("retry_mode", "manual");
    let ended = client.operations().run(&work, &ResubmissionPolicy::default()).await.unwrap();
    assert_eq!((&ended.operation.status, ended.attempted.len()), (&OperationStatus::Completed, 2));
    let first = client.operations().get(&ended.attempted[0].job_id).await.unwrap();
    assert_eq!(first.status, OperationStatus::Failed, "the old report stays as it was");
    assert_eq!(first.error.unwrap().category, Category::Execution);
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_or_reported_with_its_wait() {
    let (server, client) = pair(&[("limits.rate_per_minute", "3")]).await;
    for _ in 0..3 {
        let _ = client.forge().get("x").await;
    }
    let owner = server.client().await;
    let impatient =
        Client::builder(format!("http://{}", server.address)).key(owner.key).retry(RetryPolicy::NEVER);
    let impatient = impatient.build().unwrap();
    let mut last = None;
    for _ in 0..5 {
        last = impatient.forge().list(&forgerun_client::forge::Filter::default()).await.err().or(last);
    }
    let error = last.unwrap();
    let said = error.api().unwrap();
    assert_eq!((said.canonical.as_deref(), said.retryable), (Some("RATE_LIMITED"), true));
    assert!(said.retry_after.is_some());
}

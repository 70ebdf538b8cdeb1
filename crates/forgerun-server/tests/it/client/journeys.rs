//! Whole journeys of a client.

use forgerun_client::forge::{Filter, Submit};
use forgerun_client::operations::{OperationStatus, Submission};
use serde_json::json;

use super::pair;

#[tokio::test]
async fn a_job_is_submitted_waited_for_and_its_result_saved() {
    let (server, client) = pair(&[]).await;
    let forge = client.forge();
    let submitted =
        forge.submit(&Submit::execute().work_kind("SUCCESS_FAST").payload(json!({"a": 1}))).await.unwrap();
    server.succeed().await;
    let job = forge.wait(&submitted.job_id).await.unwrap();
    assert_eq!((job.state.as_ref(), job.job_id.as_str()), ("SUCCEEDED", submitted.job_id.as_str()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let size = forge.result(&job.job_id).await.unwrap().save(&path, |_| {}).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), r#"{"answer":42}"#);
    assert_eq!(size, 13);
    let report = forge.report(&job.job_id).await.unwrap();
    assert_eq!((report.outcome.as_str(), report.attempts), ("SUCCESS", 1));
    assert!(forge.failure(&job.job_id).await.unwrap().is_none());
    let listed = forge.list(&Filter { states: vec!["SUCCEEDED".into()], ..Filter::default() }).await.unwrap();
    assert_eq!(listed.jobs.len(), 1);
}

#[tokio::test]
async fn the_same_key_is_the_same_job_and_no_key_is_a_new_one() {
    let (_server, client) = pair(&[]).await;
    let submit = Submit::execute().work_kind("SUCCESS_FAST");
    let keyed = submit.clone().idempotency_key(client.new_key());
    let first = client.forge().submit(&keyed).await.unwrap();
    assert_eq!(client.forge().submit(&keyed).await.unwrap().job_id, first.job_id);
    assert_ne!(client.forge().submit(&submit).await.unwrap().job_id, first.job_id);
}

#[tokio::test]
async fn events_of_a_job_are_followed_to_its_end() {
    let (server, client) = pair(&[]).await;
    let submitted = client.forge().submit(&Submit::execute().work_kind("SUCCESS_FAST")).await.unwrap();
    let mut stream = client.forge().events(&submitted.job_id).unwrap();
    let mut names = Vec::new();
    names.push(stream.next().await.unwrap().unwrap().name);
    server.succeed().await;
    while let Some(event) = stream.next().await.unwrap() {
        names.push(event.name);
    }
    assert_eq!(names, ["job-created", "job-queued", "job-assigned", "job-started", "job-completed"]);
    let mut rest = client.forge().events(&submitted.job_id).unwrap().after(stream.last_id());
    assert_eq!(rest.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_declared_operation_is_run_to_its_result() {
    let (server, client) = pair(&[]).await;
    let operations = client.operations();
    let work = Submission::operation("reports/generate").parameters(json!({"region": "EU"}));
    let accepted = operations.submit(&work).await.unwrap();
    assert_eq!(operations.get(&accepted.job_id).await.unwrap().status, OperationStatus::Queued);
    server.succeed().await;
    let ended = operations.wait(&accepted).await.unwrap();
    assert_eq!(ended.status, OperationStatus::Completed);
    assert!(ended.result_url.as_deref().unwrap().contains("/reports/"), "{ended:?}");
    assert_eq!(operations.result(&ended).await.unwrap().bytes(1000).await.unwrap(), r#"{"answer":42}"#);
}

#[tokio::test]
async fn work_is_cancelled_and_retried_and_deleted() {
    let (_server, client) = pair(&[]).await;
    let forge = client.forge();
    let later = forge.submit(&Submit::deferred("2099-01-01T00:00:00Z")).await.unwrap();
    assert_eq!(forge.cancel(&later.job_id).await.unwrap().state, "CANCELED");
    assert_eq!(forge.cancel(&later.job_id).await.unwrap().state, "CANCELED");
    let failure = forge.failure(&later.job_id).await.unwrap().unwrap();
    assert_eq!(failure.problem.job().status().unwrap().as_str(), "CANCELLED");
    forge.delete(&later.job_id).await.unwrap();
    assert!(forge.get(&later.job_id).await.unwrap_err().is_not_found());
    let operation = client.operations().submit(&Submission::job("real-work").queue("q")).await.unwrap();
    assert_eq!(
        client.operations().cancel(&operation.job_id).await.unwrap().status,
        OperationStatus::Cancelled
    );
}

#[tokio::test]
async fn keys_are_issued_renewed_and_revoked() {
    let (server, _) = pair(&[]).await;
    let open = forgerun_client::Client::builder(format!("http://{}", server.address)).build().unwrap();
    let id = open.forge().create_client(None).await.unwrap().client_id;
    let key = open.forge().issue_key(&id, false).await.unwrap();
    let with = |key: String| {
        forgerun_client::Client::builder(format!("http://{}", server.address)).key(key).build().unwrap()
    };
    let client = with(key.api_key.unwrap());
    let renewed = client.forge().renew_key(&id).await.unwrap();
    let client = with(renewed.api_key.unwrap());
    client.forge().list(&Filter::default()).await.unwrap();
    client.forge().revoke_key(&id, &renewed.key_id).await.unwrap();
    let error = client.forge().list(&Filter::default()).await.unwrap_err();
    assert!(matches!(error, forgerun_client::Error::Auth(_)), "{error}");
}

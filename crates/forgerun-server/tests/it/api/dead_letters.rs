//! Dead letters: jobs that the server has tried as often as it may. They are listed, tell their
//! story, are counted, and are revived by hand.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::http::Answer;
use super::server::{Client, Server};

/// The server tries twice, without a wait.
const TWICE: [(&str, &str); 2] = [("retry.max", "1"), ("retry.base_ms", "0")];

/// A job that failed twice, each time for another reason.
async fn dead_letter(server: &Server, client: &Client) -> String {
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "retry_mode": "auto"});
    let id = client.job_like(body).await;
    server.fail_saying(Kind::HandlerTransient, "the other side is busy").await;
    server.fail(Kind::HandlerTimeout).await;
    id
}

/// How many dead letters a scrape tells of.
async fn depth(server: &Server) -> u64 {
    let scrape = server.call("GET", "/metrics").send().await;
    let line = scrape.text().lines().find_map(|line| line.strip_prefix("job_dead_letter_depth "));
    line.expect("the metric is there").parse().unwrap()
}

async fn retry(client: &Client, id: &str, body: Value) -> Answer {
    client.call("POST", &format!("/v1/jobs/{id}/retry")).json(body).send().await
}

async fn listed(client: &Client, filter: &str) -> Vec<Value> {
    let list = client.get(&format!("/v1/jobs?dead_letter={filter}")).await.expect(200);
    list["jobs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_dead_letter_is_listed_counted_and_tells_its_whole_story() {
    let server = Server::with(&TWICE).await;
    let client = server.client().await;
    let only_failed = client.job().await;
    server.fail(Kind::HandlerError).await;
    assert_eq!((listed(&client, "true").await.len(), depth(&server).await), (0, 0));
    let id = dead_letter(&server, &client).await;
    let list = listed(&client, "true").await;
    assert_eq!(list.len(), 1);
    assert_eq!(list[0], client.get(&format!("/v1/jobs/{id}")).await.expect(200));
    let job = &list[0];
    assert_eq!(job["dead_lettered_at"], job["completedAt"]);
    let story: Vec<_> = job["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (&error["attempt"], &error["type"], &error["detail"], &error["errorCode"]))
        .collect();
    let (first, second) = (json!("the other side is busy"), json!("it went wrong"));
    assert_eq!(
        story,
        [
            (&json!(1), &json!("HandlerTransient"), &first, &json!("HANDLER_ERROR")),
            (&json!(2), &json!("HandlerTimeout"), &second, &json!("HANDLER_TIMEOUT")),
        ]
    );
    assert_eq!(depth(&server).await, 1);
    assert_eq!(listed(&client, "false").await[0]["job_id"], only_failed);
    assert_eq!(listed(&server.client().await, "true").await, Vec::<Value>::new(), "it is the owner's");
    client.get("/v1/jobs?dead_letter=perhaps").await.refused(400, "RFA_REQUEST_MALFORMED");
}

#[tokio::test]
async fn a_dead_letter_has_no_retry_left_but_is_revived_with_all_its_attempts() {
    let server = Server::with(&TWICE).await;
    let client = server.client().await;
    let id = dead_letter(&server, &client).await;
    let problem = retry(&client, &id, json!({})).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(problem["type"], "/problems/retry-limit-reached");
    let revived = retry(&client, &id, json!({"revive": true})).await.expect(200);
    assert_eq!((&revived["state"], &revived["attempt"]), (&json!("QUEUED"), &json!(1)));
    retry(&client, &id, json!({"revive": true})).await.expect(200);
    assert_eq!((listed(&client, "true").await.len(), depth(&server).await), (0, 0));
    server.succeed().await;
    let job = client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!(job["state"], "SUCCEEDED");
    let errors = job["errors"].as_array().expect("the failures of the first execution stay");
    assert!(
        errors.iter().all(|error| error["execution"] == *id && error["execution"] != job["jobId"]),
        "{job}"
    );
}

#[tokio::test]
async fn only_a_dead_letter_is_revived() {
    let server = Server::with(&TWICE).await;
    let client = server.client().await;
    let id = client.job().await;
    retry(&client, &id, json!({"revive": true})).await.refused(409, "RFA_JOB_CONFLICT");
    server.fail(Kind::HandlerError).await;
    let problem = retry(&client, &id, json!({"revive": true})).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(problem["type"], "/problems/invalid-state-transition");
    let stranger = server.client().await;
    retry(&stranger, &id, json!({"revive": true})).await.refused(403, "RFA_AUTH_FORBIDDEN");
}

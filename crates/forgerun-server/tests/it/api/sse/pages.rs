//! `GET /v1/events` as pages.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::reader::Opening;
use super::{opened, progress};
use crate::api::server::{Client, Server};

async fn all(client: &Client, limit: usize) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/events?limit={limit}&cursor={cursor}")).await.expect(200);
        let found = page["events"].as_array().unwrap();
        assert!(found.len() <= limit);
        events.extend(found.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return events,
        }
    }
}

#[tokio::test]
async fn all_events_of_a_client_come_in_pages_and_no_other() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    assert_eq!(client.get("/v1/events").await.expect(200), json!({"events": [], "next_cursor": null}));
    let id = client.job().await;
    other.job().await;
    let job = server.claim(true).await;
    progress(&server, &job, 30).await;
    server.fail(Kind::HandlerError).await;
    client.job().await;
    let whole = all(&client, 200).await;
    let names: Vec<&str> = whole.iter().map(|event| event["event_name"].as_str().unwrap()).collect();
    let expected = [
        "job_created",
        "job_queued",
        "job_assigned",
        "job_started",
        "job_progress",
        "job_created",
        "job_queued",
    ];
    assert_eq!(names, expected);
    assert_eq!(whole[4]["progress"], 30);
    assert_eq!((&whole[4]["prev_state"], &whole[4]["next_state"]), (&json!("RUNNING"), &json!("RUNNING")));
    for limit in 1..=8 {
        assert_eq!(all(&client, limit).await, whole, "pages of {limit}");
    }
    let after = whole[5]["event_id"].as_str().unwrap();
    let rest = client.get(&format!("/v1/events?cursor={after}")).await.expect(200);
    assert_eq!(rest["events"], json!(whole[6..]), "the id of an event is a cursor too");
    let of_job = client.get(&format!("/v1/jobs/{id}/events")).await.expect(200);
    assert_eq!(of_job["events"], json!(whole[..4]));
}

#[tokio::test]
async fn the_events_of_a_deleted_job_are_on_no_page_and_replayed_on_no_stream() {
    let server = Server::start().await;
    let client = server.client().await;
    let gone = client.job().await;
    server.succeed().await;
    let kept = client.job().await;
    server.succeed().await;
    let whole = all(&client, 200).await;
    assert_eq!((whole.len(), &whole[0]["job_id"]), (10, &json!(gone)));
    client.call("DELETE", &format!("/v1/jobs/{gone}")).send().await.expect(200);
    for limit in [1, 4, 200] {
        assert_eq!(all(&client, limit).await, whole[5..], "pages of {limit}");
    }
    let first = whole[0]["event_id"].as_str().unwrap();
    let mut stream = opened(Opening::new(&client, "/v1/events").after(first)).await;
    for message in stream.take(5).await {
        assert!(message.data.contains(&kept) && !message.data.contains(&gone), "{message:?}");
    }
    // The same by age.
    server.clock.advance(31 * std::time::Duration::from_secs(24 * 3600));
    server.app.engine.run(forgerun_core::Command::Due(10)).await.unwrap();
    assert_eq!(all(&client, 200).await, Vec::<Value>::new());
}

#[tokio::test]
async fn many_events_of_others_do_not_hide_ours() {
    let server = Server::with(&[("limits.rate_per_minute", "1000000")]).await;
    let (client, other) = (server.client().await, server.client().await);
    let first = client.job().await;
    for _ in 0..700 {
        other.job().await;
    }
    let last = client.job().await;
    let jobs: Vec<Value> = all(&client, 50).await.iter().map(|event| event["job_id"].clone()).collect();
    assert_eq!(jobs, [&first, &first, &last, &last].map(|id| json!(id)));
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    other.job().await;
    let theirs = all(&other, 9).await[0]["event_id"].as_str().unwrap().to_owned();
    for query in ["cursor=x", "cursor=AAAAAAAAAAAAAAAA", "limit=0", "since=now", &format!("cursor={theirs}")]
    {
        client.get(&format!("/v1/events?{query}")).await.refused(400, "RFA_REQUEST_MALFORMED");
    }
    client.post("/v1/events").await.refused(405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
    let png = client.call("GET", "/v1/events").header("accept", "image/png").send().await;
    png.refused(406, "RFA_REQUEST_NOT_ACCEPTABLE");
}

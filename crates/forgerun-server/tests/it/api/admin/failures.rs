//! Failures by their reason.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::FailureCommand;
use forgerun_core::failure::FailureGroup;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use serde_json::{Value, json};

use super::super::server::Server;
use super::{get, operator, server};

/// Submits a job of a new client and fails it, saying this; its id, and the client's.
async fn fail(server: &Server, message: &str) -> (String, String) {
    let client = server.client().await;
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "retry_mode": "manual"});
    let job = client.job_like(body).await;
    server.fail_saying(Kind::HandlerError, message).await;
    (job, client.id)
}

async fn groups(server: &Server) -> Vec<Value> {
    get(server, "/admin/v1/failures").await["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn failures_are_grouped_by_their_reason_with_counts_and_examples() {
    let server = server().await;
    assert_eq!(groups(&server).await, Vec::<Value>::new());
    let mut full = Vec::new();
    for n in 1..=5 {
        full.push(fail(&server, &format!("disk {n} is full")).await);
    }
    let (gone, _) = fail(&server, "disk 7 is gone").await;
    let found = groups(&server).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0]["examples"], json!([gone]), "the one seen last comes first");
    let group = &found[1];
    assert_eq!((&group["message"], &group["count"]), (&json!("disk <n> is full"), &json!(5)));
    assert_eq!(group["type"], "/problems/job-failed");
    assert_eq!(group["operation"], "SUCCESS_FAST");
    let newest: Vec<&String> = full.iter().rev().take(3).map(|(job, _)| job).collect();
    assert_eq!(group["examples"], json!(newest));
    assert_eq!(group["clients"].as_array().unwrap().len(), 5);
    assert!(full.iter().all(|(_, client)| group["clients"].as_array().unwrap().contains(&json!(client))));
    assert_eq!(group["queues"], json!(["default"]));
    let trend = group["trend"].as_array().unwrap();
    assert_eq!(trend.len(), 24);
    // An hour may have ended meanwhile.
    assert_eq!(trend.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 5);
    assert!(group["first_seen"].as_str() <= group["last_seen"].as_str());

    let id = group["group"].as_str().unwrap();
    assert_eq!(&get(&server, &format!("/admin/v1/failures/{id}")).await, group);
    for unknown in ["0000000000000001", "nonsense"] {
        let path = format!("/admin/v1/failures/{unknown}");
        operator(&server, "GET", &path).send().await.refused(404, "RFA_JOB_NOT_FOUND");
    }
}

#[tokio::test]
async fn the_numbers_are_the_same_before_and_after_they_are_added_up() {
    let server = server().await;
    // At the beginning of an hour, so that none ends meanwhile.
    const HOUR_MS: i64 = 3_600_000;
    server.clock.stop_at(Time::from_millis(500_000 * HOUR_MS));
    for n in 0..4 {
        fail(&server, &format!("no {n}")).await;
    }
    let before = groups(&server).await;
    server.clock.advance(Duration::from_secs(2));
    // As the timers do, which sleep by the real clock.
    let engine = &server.app.engine;
    let Answer::Due { failures, .. } = engine.run(Command::Due(0)).await.unwrap() else { panic!("not due") };
    engine.run(Command::Failure(FailureCommand::Fold(failures))).await.unwrap();
    let folded: Vec<FailureGroup> = engine.store().records(None, String::new(), 10).await.unwrap();
    assert_eq!(folded.iter().map(|group| group.count).collect::<Vec<_>>(), [4]);
    assert_eq!(groups(&server).await, before);
}

#[tokio::test]
async fn the_list_comes_in_pages_and_can_begin_at_a_moment() {
    let server = server().await;
    for message in ["one", "two", "three"] {
        fail(&server, message).await;
        server.clock.advance(Duration::from_secs(60));
    }
    let page = get(&server, "/admin/v1/failures?limit=2").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = get(&server, &format!("/admin/v1/failures?limit=2&cursor={cursor}")).await;
    let messages = |page: &Value| -> Vec<Value> {
        page["items"].as_array().unwrap().iter().map(|group| group["message"].clone()).collect()
    };
    assert_eq!((messages(&page), messages(&rest)), (vec![json!("three"), json!("two")], vec![json!("one")]));
    assert_eq!(rest["next_cursor"], Value::Null);
    let since = page["items"][1]["last_seen"].as_str().unwrap();
    let young = get(&server, &format!("/admin/v1/failures?since={since}")).await;
    assert_eq!(messages(&young), ["three", "two"]);
    for wrong in ["since=yesterday", "cursor=7", "limit=0", "sine=x"] {
        let path = format!("/admin/v1/failures?{wrong}");
        operator(&server, "GET", &path).send().await.refused(400, "RFA_REQUEST_MALFORMED");
    }
}

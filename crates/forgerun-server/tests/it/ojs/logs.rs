//! Log lines: sent by workers, listed, followed, bounded.

use super::*;
use crate::api::sse::reader::{Opening, Stream};

async fn claimed(world: &World) -> (String, String) {
    let id = world.push(json!({"retry": {"max_attempts": 2, "initial_interval": "PT1S"}})).await;
    (id, token(world).await)
}

async fn token(world: &World) -> String {
    world.fetch().await["lease_token"].as_str().unwrap().to_owned()
}

async fn log(world: &World, id: &str, token: &str, lines: Value) -> Answer {
    world.post("workers/logs", json!({"job_id": id, "lease_token": token, "lines": lines})).await
}

async fn page(world: &World, id: &str, query: &str) -> Value {
    world.client.get(&format!("/v1/jobs/{id}/logs?{query}")).await.expect(200)
}

fn texts(page: &Value) -> Vec<&str> {
    page["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect()
}

async fn follow(world: &World, path: &str) -> Stream {
    let opened = Opening::new(&world.client, path).open().await;
    opened.unwrap_or_else(|answer| panic!("no stream but {answer:?}"))
}

#[tokio::test]
async fn lines_of_all_attempts_are_listed_filtered_and_paged() {
    let world = World::start().await;
    let (id, token) = claimed(&world).await;
    let empty = page(&world, &id, "").await;
    assert_eq!(empty, json!({"lines": [], "dropped": 0}));
    let lines = json!([
        {"text": "one", "at": "2026-01-02T03:04:05.678Z", "level": "warn", "stream": "stderr"},
        {"text": "two\u{0} \u{1F600}"},
    ]);
    let stored = log(&world, &id, &token, lines).await.expect(200);
    assert_eq!(stored, json!({"job_id": id, "lines": 2}));
    world.nack(&id, json!({"code": "handler_error", "message": "no"})).await.expect(200);
    let second = self::token(&world).await;
    log(&world, &id, &second, json!([{"text": "three", "stream": "output"}])).await.expect(200);

    let all = page(&world, &id, "").await;
    assert_eq!(texts(&all), ["one", "two\u{0} \u{1F600}", "three"]);
    let first = json!({
        "seq": 1, "at": "2026-01-02T03:04:05.678Z", "attempt": 1, "stream": "stderr", "level": "warn", "text": "one"
    });
    assert_eq!(all["lines"][0], first);
    assert_eq!((&all["lines"][1]["stream"], &all["lines"][1]["level"]), (&json!("log"), &json!("info")));
    assert_eq!((&all["lines"][2]["attempt"], &all["lines"][2]["seq"]), (&json!(2), &json!(3)));
    for (query, expected) in [
        ("attempt=2", &["three"][..]),
        ("stream=stderr", &["one"]),
        ("q=%F0%9F%98%80", &["two\u{0} \u{1F600}"]),
        ("after=2", &["three"]),
        ("attempt=1&after=1", &["two\u{0} \u{1F600}"]),
        ("attempt=9", &[]),
        ("q=nowhere", &[]),
    ] {
        let found = page(&world, &id, query).await;
        assert_eq!((texts(&found), found.get("next_cursor")), (expected.to_vec(), None), "{query}");
    }
    let one = page(&world, &id, "limit=1").await;
    assert_eq!((texts(&one), &one["next_cursor"]), (vec!["one"], &json!("1")));
    let rest = page(&world, &id, "limit=2&after=1").await;
    assert_eq!(texts(&rest).len(), 2);
}

#[tokio::test]
async fn only_the_holder_of_a_job_may_send_lines() {
    let world = World::start().await;
    let (id, token) = claimed(&world).await;
    let lines = json!([{"text": "a"}]);
    let lost = log(&world, &id, "nonsense", lines.clone()).await;
    assert_eq!(lost.expect(409)["details"]["reason"], "lease_lost");
    assert_eq!(log(&world, "01965000-0000-7000-8000-000000000000", &token, lines.clone()).await.status, 404);
    let other = world.server.client().await;
    let body = json!({"job_id": id, "lease_token": token, "lines": lines});
    refused(&post(&other, "workers/logs", body).await, 403, "TENANT_ACCESS_DENIED", "tenant_access_denied");
    let no_token = world.post("workers/logs", json!({"job_id": id, "lines": lines})).await;
    assert_eq!(no_token.status, 400);
    assert_eq!(log(&world, &id, &token, json!([])).await.status, 400);
    assert_eq!(log(&world, &id, &token, json!([{"text": "x".repeat(20_000)}])).await.status, 413);
    world.nack(&id, json!({"code": "handler_error", "message": "no"})).await.expect(200);
    assert_eq!(log(&world, &id, &token, lines.clone()).await.status, 409, "between two attempts");
    let second = self::token(&world).await;
    assert_eq!(log(&world, &id, &token, lines.clone()).await.status, 409, "the first worker is late");
    log(&world, &id, &second, lines.clone()).await.expect(200);
    world.ack(&id).await.expect(200);
    assert_eq!(log(&world, &id, &second, lines).await.status, 409, "it has ended");
    assert_eq!(texts(&page(&world, &id, "").await), ["a"]);
}

#[tokio::test]
async fn a_list_refuses_foreign_jobs_and_nonsense() {
    let world = World::start().await;
    let (id, _) = claimed(&world).await;
    let path = format!("/v1/jobs/{id}/logs");
    let other = world.server.client().await;
    assert_eq!(other.get(&path).await.status, 403);
    assert_eq!(world.client.get("/v1/jobs/01965000-0000-7000-8000-000000000000/logs").await.status, 404);
    for query in ["attempt=0", "attempt=x", "after=-1", "limit=0", "limit=1001", "tail=1"] {
        assert_eq!(world.client.get(&format!("{path}?{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn beyond_the_bound_the_oldest_lines_go_and_that_is_said() {
    let world = World::with(&[("limits.log_bytes", "262144")]).await;
    let (id, token) = claimed(&world).await;
    for n in 0..5 {
        let lines: Vec<Value> =
            (0..6).map(|_| json!({"text": format!("{n}{}", "x".repeat(15_000))})).collect();
        log(&world, &id, &token, json!(lines)).await.expect(200);
    }
    let kept = page(&world, &id, "").await;
    let n_kept = kept["lines"].as_array().unwrap().len();
    assert!((6..=17).contains(&n_kept), "{n_kept}");
    assert_eq!(kept["dropped"], 30 - n_kept);
    assert_eq!(kept["lines"][n_kept - 1]["seq"], 30);
    let mut stream = follow(&world, &format!("/v1/jobs/{id}/logs")).await;
    let first = stream.take(2).await;
    assert_eq!((&*first[0].name, &first[0].json()), ("dropped", &json!({"dropped": 30 - n_kept})));
    assert_eq!(first[1].json()["seq"], 31 - n_kept);
}

#[tokio::test]
async fn a_stream_follows_until_the_job_ends_and_goes_on_from_any_line() {
    let world = World::start().await;
    let (id, token) = claimed(&world).await;
    log(&world, &id, &token, json!([{"text": "one"}, {"text": "two", "stream": "output"}])).await.expect(200);
    let path = format!("/v1/jobs/{id}/logs");
    let mut stream = follow(&world, &path).await;
    let mut output = follow(&world, &format!("{path}?stream=output")).await;
    let first = stream.take(2).await;
    assert_eq!(first.iter().map(|message| &*message.name).collect::<Vec<_>>(), ["log", "log"]);
    assert_eq!((&*first[1].id, &first[1].json()["text"]), ("2", &json!("two")));
    log(&world, &id, &token, json!([{"text": "three"}])).await.expect(200);
    assert_eq!(stream.take(1).await[0].json()["seq"], 3);
    world.ack(&id).await.expect(200);
    let end = stream.rest().await;
    assert_eq!((end.len(), &*end[0].name, &end[0].json()), (1, "end", &json!({"state": "SUCCEEDED"})));
    let told = output.rest().await;
    assert_eq!(told.iter().map(|message| &*message.name).collect::<Vec<_>>(), ["log", "end"]);

    let resumed = Opening::new(&world.client, &path).after("1").open().await.ok().unwrap().rest().await;
    assert_eq!(resumed.iter().map(|message| &*message.id).collect::<Vec<_>>(), ["2", "3", "3"]);
    let over = Opening::new(&world.client, &path).after("3").open().await.err().unwrap();
    assert_eq!(over.status, 204);
    let nonsense = Opening::new(&world.client, &path).after("x").open().await.err().unwrap();
    assert_eq!(nonsense.status, 400);
}

#[tokio::test]
async fn the_log_is_gone_with_its_job() {
    let world = World::start().await;
    let (id, token) = claimed(&world).await;
    log(&world, &id, &token, json!([{"text": "one"}])).await.expect(200);
    world.ack(&id).await.expect(200);
    call_v1(&world, "DELETE", &format!("/v1/jobs/{id}")).await;
    assert_eq!(world.client.get(&format!("/v1/jobs/{id}/logs")).await.status, 404);
}

async fn call_v1(world: &World, method: &str, path: &str) {
    let answer = world.client.call(method, path).send().await;
    assert!((200..300).contains(&answer.status), "{}", answer.status);
}

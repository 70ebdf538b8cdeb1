//! Unique jobs: what a second one meets.

use super::*;

fn body(on_conflict: &str, n: u32, more: Value) -> Value {
    let mut unique = json!({"keys": ["type"], "on_conflict": on_conflict});
    unique.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"type": "report.build", "args": [n], "options": {"unique": unique}})
}

#[tokio::test]
async fn a_second_job_is_refused_ignored_or_takes_the_place_of_the_first() {
    let world = World::start().await;
    let first = world.post("jobs", body("reject", 1, json!({}))).await.expect(201)["job"]["id"].clone();
    let refusal = world.post("jobs", body("reject", 2, json!({}))).await;
    let refusal = refused(&refusal, 409, "DUPLICATE_JOB", "duplicate");
    let details = &refusal["details"];
    assert_eq!((&details["existing_job_id"], &details["existing_state"]), (&first, &json!("available")));
    assert_eq!(details["unique_key"].as_str().unwrap().len(), 64);
    let met = world.post("jobs", body("ignore", 3, json!({}))).await.expect(200);
    assert_eq!(
        (&met["job"]["id"], &met["job"]["args"], &met["deduplicated"]),
        (&first, &json!([1]), &json!(true))
    );
    let new = world.post("jobs", body("replace", 4, json!({}))).await.expect(201)["job"]["id"].clone();
    assert_eq!(world.job(first.as_str().unwrap()).await["state"], "cancelled");
    assert_eq!(world.fetch().await["id"], new);
    let held = world.post("jobs", body("replace", 5, json!({}))).await;
    refused(&held, 409, "DUPLICATE_JOB", "duplicate");
    let other = world.server.client().await;
    post(&other, "jobs", body("reject", 6, json!({}))).await.expect(201);
}

#[tokio::test]
async fn equal_jobs_of_one_batch_meet_each_other_as_if_they_came_one_after_the_other() {
    let world = World::start().await;
    let batch = |jobs: [Value; 2]| world.post("jobs/batch", json!({"jobs": jobs}));
    let met = batch([body("ignore", 1, json!({})), body("ignore", 2, json!({}))]).await.expect(201);
    let first = met["jobs"][0]["id"].as_str().unwrap();
    assert_eq!((&met["jobs"][1]["id"], &met["jobs"][1]["args"]), (&json!(first), &json!([1])));
    let again = batch([body("ignore", 3, json!({})), body("ignore", 4, json!({}))]).await.expect(200);
    assert_eq!((&again["jobs"][0]["id"], &again["jobs"][1]["id"]), (&json!(first), &json!(first)));
    let replaced = batch([body("replace", 5, json!({})), body("replace", 6, json!({}))]).await.expect(201);
    let states = (&replaced["jobs"][0]["state"], &replaced["jobs"][1]["state"]);
    assert_eq!(states, (&json!("cancelled"), &json!("available")));
    let holder = replaced["jobs"][1]["id"].as_str().unwrap();
    assert_eq!(world.fetch().await["id"], holder, "it is the only one to be done");
    let taken = batch([json!({"type": "a", "args": []}), body("reject", 7, json!({}))]).await;
    let details = refused(&taken, 409, "DUPLICATE_JOB", "duplicate")["details"].clone();
    assert_eq!((&details["index"], &details["existing_job_id"]), (&json!(1), &json!(holder)));
    world.ack(holder).await.expect(200);
    let twice = batch([body("reject", 8, json!({})), body("reject", 9, json!({}))]).await;
    let details = refused(&twice, 409, "DUPLICATE_JOB", "duplicate")["details"].clone();
    assert_eq!((&details["index"], details.get("existing_job_id")), (&json!(1), None));
    let id = "01965000-0000-7000-8000-000000000001";
    let of_that_id = || json!({"id": id, "type": "a", "args": []});
    let twice = batch([of_that_id(), of_that_id()]).await;
    assert_eq!(refused(&twice, 409, "DUPLICATE_JOB", "duplicate")["details"]["index"], 1);
    assert_eq!(world.get(&format!("jobs/{id}")).await.status, 404);
    let alone = world.post("jobs", body("reject", 10, json!({}))).await.expect(201);
    let refusal =
        refused(&world.post("jobs", body("reject", 11, json!({}))).await, 409, "DUPLICATE_JOB", "duplicate");
    let details = &refusal["details"];
    assert_eq!((&details["existing_job_id"], details.get("index")), (&alone["job"]["id"], None));
}

#[tokio::test]
async fn a_repeated_batch_with_equal_jobs_is_answered_as_the_first_time() {
    let world = World::start().await;
    let jobs = json!({"jobs": [body("ignore", 1, json!({})), body("ignore", 2, json!({}))]}).to_string();
    let send = || call(&world.client, "POST", "jobs/batch").header("idempotency-key", "k").body(jobs.clone());
    let first = send().send().await.expect(201);
    let again = send().send().await.expect(200);
    let ids = |answer: &Value| (answer["jobs"][0]["id"].clone(), answer["jobs"][1]["id"].clone());
    assert_eq!(ids(&first), ids(&again));
}

#[tokio::test]
async fn the_schedule_of_the_first_is_kept_where_that_is_asked_for() {
    let world = World::start().await;
    let mut first = body("reject", 1, json!({}));
    first["options"]["scheduled_at"] = json!("2099-01-01T00:00:00Z");
    world.post("jobs", first).await.expect(201);
    let mut second = body("replace_except_schedule", 2, json!({}));
    second["options"]["scheduled_at"] = json!("2098-01-01T00:00:00Z");
    let new = world.post("jobs", second).await.expect(201);
    assert_eq!((&new["job"]["state"], &new["job"]["args"]), (&json!("scheduled"), &json!([2])));
    assert_eq!(new["job"]["scheduled_at"], "2099-01-01T00:00:00.000Z", "what counts, not what was asked for");
}

#[tokio::test]
async fn only_the_states_that_are_named_count() {
    let world = World::start().await;
    let waiting = || body("reject", 1, json!({"states": ["available"]}));
    let first = world.post("jobs", waiting()).await.expect(201)["job"]["id"].clone();
    refused(&world.post("jobs", waiting()).await, 409, "DUPLICATE_JOB", "duplicate");
    assert_eq!(world.fetch().await["id"], first);
    world.post("jobs", waiting()).await.expect(201);
}

#[tokio::test]
async fn what_cannot_be_compared_cannot_be_unique() {
    let world = World::start().await;
    let body = r#"{"type":"a","args":[1e999],"options":{"unique":{"keys":["args"]}}}"#;
    let answer = call(&world.client, "POST", "jobs").body(body).send().await;
    refused(&answer, 400, "INVALID_PAYLOAD", "invalid_request");
}

#[tokio::test]
async fn of_many_at_once_exactly_one_is_taken() {
    let world = World::start().await;
    let pushes = (0..16).map(|n| world.post("jobs", body("reject", n, json!({}))));
    let answers = futures_join(pushes.collect()).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 409).count(), 15);
}

async fn futures_join<F: Future<Output = Answer>>(calls: Vec<F>) -> Vec<Answer> {
    let mut calls: Vec<_> = calls.into_iter().map(Box::pin).collect();
    let mut answers = Vec::new();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| match call.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    answers
}

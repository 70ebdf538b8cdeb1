//! `workers/exchange`: ends in, jobs out.

use super::*;

impl World {
    async fn exchange(&self, body: Value) -> Value {
        let mut body = body;
        body["worker_id"] = "w-1".into();
        self.post("workers/exchange", body).await.expect(200)
    }
}

fn statuses(answer: &Value) -> Vec<u64> {
    answer["results"].as_array().unwrap().iter().map(|entry| entry["status"].as_u64().unwrap()).collect()
}

fn end(job: &Value, end: Value) -> Value {
    let mut entry = json!({"job_id": job["id"], "lease_token": job["lease_token"]});
    entry.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
    entry
}

#[tokio::test]
async fn ends_of_many_jobs_go_in_and_new_jobs_come_out() {
    let world = World::start().await;
    for _ in 0..6 {
        world.push(json!({"retry": {"max_attempts": 1}})).await;
    }
    let first = world.exchange(json!({"queues": ["default"], "count": 4})).await;
    let jobs = first["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), statuses(&first)), (4, vec![]));
    let large = "x".repeat(200_000);
    let done = [
        end(&jobs[0], json!({"result": {"n": 1}})),
        end(&jobs[1], json!({"error": {"message": "no paper"}})),
        end(&jobs[2], json!({"requeue": true, "delay_ms": 600_000})),
        end(&jobs[3], json!({"result": large})),
    ];
    let second = world.exchange(json!({"queues": ["default"], "count": 4, "done": done})).await;
    assert_eq!(statuses(&second), [200, 200, 200, 200], "{second}");
    assert_eq!(second["jobs"].as_array().unwrap().len(), 2, "the snoozed job waits: {second}");
    let id = |n: usize| jobs[n]["id"].as_str().unwrap().to_owned();
    let succeeded = world.job(&id(0)).await;
    assert_eq!((&succeeded["state"], &succeeded["result"]), (&json!("completed"), &json!({"n": 1})));
    let failed = world.job(&id(1)).await;
    assert_eq!((&failed["state"], &failed["error"]["message"]), (&json!("discarded"), &json!("no paper")));
    assert_eq!(world.job(&id(2)).await["attempt"], 0, "no attempt is counted");
    let result = world.get(&format!("jobs/{}/result", id(3))).await.expect(200);
    assert_eq!(result.as_str().map(str::len), Some(200_000));
}

#[tokio::test]
async fn each_entry_is_settled_for_itself_and_a_refused_one_carries_its_problem() {
    let world = World::start().await;
    for _ in 0..2 {
        world.push(json!({})).await;
    }
    let fetched = world.exchange(json!({"queues": ["default"], "count": 2})).await;
    let jobs = fetched["jobs"].as_array().unwrap();
    let done = [
        json!({"job_id": "019a0000-0000-7000-8000-000000000001", "result": 1}),
        json!({"job_id": jobs[0]["id"], "lease_token": "0.9", "result": 1}),
        end(&jobs[0], json!({"result": 1, "error": {"message": "?"}})),
        end(&jobs[0], json!({"result": 1})),
        end(&jobs[0], json!({"error": {"message": "second end"}})),
        end(&jobs[1], json!({"result": 2})),
    ];
    // It would wait for jobs, but for the refusals.
    let answer =
        world.exchange(json!({"done": done, "queues": ["default"], "count": 1, "wait_ms": 30_000})).await;
    assert_eq!(statuses(&answer), [404, 409, 400, 200, 409, 200], "{answer}");
    let lost = &answer["results"][1]["problem"];
    assert_eq!((&lost["status"], &lost["details"]["reason"]), (&json!(409), &json!("lease_lost")), "{lost}");
    assert!(lost["type"].as_str().unwrap().contains("/problems/"), "{lost}");
}

#[tokio::test]
async fn an_end_that_is_sent_again_is_settled_once() {
    let world = World::start().await;
    for _ in 0..2 {
        world.push(json!({"retry": {"max_attempts": 1}})).await;
    }
    let fetched = world.exchange(json!({"queues": ["default"], "count": 2})).await;
    let jobs = fetched["jobs"].as_array().unwrap();
    let done =
        json!([end(&jobs[0], json!({"result": [1]})), end(&jobs[1], json!({"error": {"message": "m"}}))]);
    for _ in 0..2 {
        assert_eq!(statuses(&world.exchange(json!({"done": done})).await), [200, 200]);
    }
    let other = json!([end(&jobs[0], json!({"result": [2]})), end(&jobs[1], json!({"result": 1}))]);
    assert_eq!(statuses(&world.exchange(json!({"done": other})).await), [409, 409]);
}

#[tokio::test]
async fn an_extension_is_a_heartbeat_fenced_by_token() {
    let world = World::start().await;
    for _ in 0..3 {
        world.push(json!({})).await;
    }
    let fetched = world.exchange(json!({"queues": ["default"], "count": 3})).await;
    let jobs = fetched["jobs"].as_array().unwrap();
    call(&world.client, "DELETE", &format!("jobs/{}", jobs[1]["id"].as_str().unwrap()))
        .send()
        .await
        .expect(200);
    let extend = json!([
        end(&jobs[0], json!({"progress": 40})),
        end(&jobs[1], json!({})),
        {"job_id": jobs[2]["id"], "lease_token": "0.9"},
    ]);
    let answer = world.exchange(json!({"extend": extend})).await;
    let id = |n: usize| jobs[n]["id"].clone();
    assert_eq!(answer["extended"], json!([id(0)]), "{answer}");
    assert_eq!((&answer["cancelled"], &answer["lost"]), (&json!([id(1)]), &json!([id(2)])), "{answer}");
    assert_eq!((&answer["directive"], &answer["paused"]), (&json!("running"), &json!([])));
    let job = world.job(jobs[0]["id"].as_str().unwrap()).await;
    assert_eq!(job["progress"], 0.4, "{job}");
    let listed = world.get("workers").await.expect(200);
    assert_eq!(listed["workers"][0]["worker_id"], "w-1");
}

#[tokio::test]
async fn an_exchange_waits_for_the_first_job_after_its_ends_are_settled() {
    let world = World::start().await;
    world.push(json!({})).await;
    let fetched = world.exchange(json!({"queues": ["default"], "count": 1})).await;
    let job = &fetched["jobs"][0];
    let done = json!([end(job, json!({"result": 1}))]);
    let waiting = world.exchange(json!({"done": done, "queues": ["default"], "count": 1, "wait_ms": 20_000}));
    let pushing = async {
        // The end is durable although the answer waits.
        let id = job["id"].as_str().unwrap();
        while world.job(id).await["state"] != "completed" {}
        world.push(json!({})).await
    };
    let (answer, id) = tokio::join!(waiting, pushing);
    assert_eq!((statuses(&answer), &answer["jobs"][0]["id"]), (vec![200], &json!(id)));
}

#[tokio::test]
async fn a_malformed_exchange_settles_nothing() {
    let world = World::start().await;
    world.push(json!({})).await;
    let fetched = world.exchange(json!({"queues": ["default"], "count": 1})).await;
    let done = json!([end(&fetched["jobs"][0], json!({"result": 1}))]);
    let body = json!({"worker_id": "w-1", "done": done, "queues": [], "count": 1});
    world.post("workers/exchange", body).await.expect(400);
    let without_worker = json!({"done": done});
    world.post("workers/exchange", without_worker).await.expect(400);
    assert_eq!(world.job(fetched["jobs"][0]["id"].as_str().unwrap()).await["state"], "active");
}

#[tokio::test]
async fn a_nack_that_requeues_takes_a_delay() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let job = world.fetch().await;
    let nack = end(&job, json!({"requeue": true, "delay_ms": 600_000}));
    world.post("workers/nack", nack).await.expect(200);
    let fetched = world.post("workers/fetch", json!({"queues": ["default"]})).await.expect(200);
    assert_eq!(fetched["jobs"], json!([]));
    assert_eq!(world.job(&id).await["attempt"], 0, "no attempt is counted");
}

//! Submitting: what is accepted, and how it is shown.

use super::*;

#[tokio::test]
async fn a_job_is_accepted_and_shown_as_it_was_sent() {
    let world = World::start().await;
    let body = r#"{"type":"email.send","args":[1.50,"a",null,{"b":[ ]}],"meta":{"trace": "x"},"x_own":{"n": 1.0},
        "state":"completed","options":{"queue":"mail","priority":7,"expires_at":"2099-12-31T23:59:59+02:00","tags":["t"]}}"#;
    let answer = call(&world.client, "POST", "jobs").body(body).send().await;
    let job = answer.expect(201)["job"].clone();
    let id = job["id"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(format!("/ojs/v1/jobs/{id}").as_str()));
    for part in [r#""args":[1.50,"a",null,{"b":[ ]}]"#, r#""x_own":{"n": 1.0}"#, r#""meta":{"trace": "x"}"#] {
        assert!(answer.text().contains(part), "{part} in {}", answer.text());
    }
    assert_eq!(
        (&job["state"], &job["attempt"], &job["priority"]),
        (&json!("available"), &json!(0), &json!(7))
    );
    assert_eq!((&job["queue"], &job["expires_at"]), (&json!("mail"), &json!("2099-12-31T23:59:59+02:00")));
    let read = world.get(&format!("jobs/{id}")).await.expect(200);
    assert_eq!(read["job"], job);
    assert_eq!(read["x_own"], job["x_own"], "flat too");
}

#[tokio::test]
async fn a_given_id_is_kept_and_a_second_job_with_it_is_refused() {
    let world = World::start().await;
    let body = json!({"type": "a", "args": [], "id": "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f"});
    world.post("jobs", body.clone()).await.expect(201);
    let again = refused(&world.post("jobs", body.clone()).await, 409, "DUPLICATE_JOB", "duplicate");
    assert_eq!(again["details"]["existing_job_id"], body["id"]);
    assert_eq!(again["details"]["existing_state"], "available");
    // Of a job of others one learns nothing but that the id is taken.
    let other = world.server.client().await;
    let other = refused(&post(&other, "jobs", body).await, 409, "DUPLICATE_JOB", "duplicate");
    assert!(other["details"].get("existing_state").is_none(), "{other}");
}

#[tokio::test]
async fn an_old_id_that_a_client_chose_jumps_no_queue() {
    let world = World::start().await;
    let first = world.push(json!({})).await;
    let old = json!({"type": "a", "args": [], "id": "01900000-0000-7000-8000-000000000001"});
    let older = json!({"type": "a", "args": [], "id": "01900000-0000-7000-8000-000000000000"});
    world.post("jobs/batch", json!({"jobs": [old, older]})).await.expect(201);
    let last = world.push(json!({})).await;
    let taken = world.post("workers/fetch", json!({"queues": ["default"], "count": 9})).await.expect(200);
    let order: Vec<&Value> = taken["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!(order, [&json!(first), &old["id"], &older["id"], &json!(last)]);
}

#[tokio::test]
async fn scheduled_and_pending_jobs_wait_until_their_time_or_word() {
    let world = World::start().await;
    let scheduled = world.push(json!({"scheduled_at": "2099-01-01T00:00:00Z"})).await;
    let pending = world.push(json!({"pending": true})).await;
    assert_eq!(world.job(&scheduled).await["state"], "scheduled");
    assert_eq!(world.job(&pending).await["state"], "pending");
    let nothing = world.post("workers/fetch", json!({"queues": ["default"]})).await.expect(200);
    assert_eq!(nothing, json!({"jobs": []}));
    let activated = world.post(&format!("jobs/{pending}/activate"), json!({})).await.expect(200);
    assert_eq!((&activated["state"], &activated["previous_state"]), (&json!("available"), &json!("pending")));
    assert!(activated["activated_at"].is_string());
    assert_eq!(world.fetch().await["id"], pending.as_str());
    let again = world.post(&format!("jobs/{pending}/activate"), json!({})).await;
    refused(&again, 409, "INVALID_STATE_TRANSITION", "conflict");
}

#[tokio::test]
async fn a_delay_from_now_is_kept_to() {
    let world = World::start().await;
    let id = world.push(json!({"scheduled_at": "+PT0.3S"})).await;
    assert_eq!(world.job(&id).await["state"], "scheduled");
    assert_eq!(world.fetch().await["id"], id.as_str(), "a waiting fetch gets it when its time comes");
}

#[tokio::test]
async fn what_expired_is_discarded_and_never_handed_out() {
    let world = World::start().await;
    let id = world.push(json!({"expires_at": "1999-01-01T00:00:00Z"})).await;
    let nothing = world.post("workers/fetch", json!({"queues": ["default"]})).await.expect(200);
    assert_eq!(nothing, json!({"jobs": []}));
    let job = world.job(&id).await;
    assert_eq!(job["state"], "discarded");
    assert!(job.get("completed_at").is_none() && job["discarded_at"].is_string(), "{job}");
}

#[tokio::test]
async fn a_batch_is_taken_whole_or_not_at_all() {
    let world = World::start().await;
    let job = |name: &str| json!({"type": name, "args": []});
    let taken = world.post("jobs/batch", json!({"jobs": [job("a"), job("b")]})).await.expect(201);
    assert_eq!((&taken["count"], taken["jobs"].as_array().unwrap().len()), (&json!(2), 2));
    let before = world.server.traces().await;
    let answer = world.post("jobs/batch", json!({"jobs": [job("a"), job("B")]})).await;
    let body = refused(&answer, 400, "INVALID_JOB_TYPE", "invalid_request");
    assert_eq!((&body["details"]["index"], &body["details"]["field"]), (&json!(1), &json!("jobs.1.type")));
    assert_eq!(world.server.traces().await, before, "nothing was written");
}

#[tokio::test]
async fn bulk_takes_each_for_itself() {
    let world = World::start().await;
    let good = json!({"type": "a", "args": []});
    let mixed = world.post("jobs/bulk", json!({"jobs": [good, {"args": []}]})).await.expect(207);
    assert_eq!((&mixed["total"], &mixed["succeeded"], &mixed["failed"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(
        (&mixed["items"][0]["status"], &mixed["items"][1]["status"]),
        (&json!("created"), &json!("failed"))
    );
    assert_eq!(mixed["items"][1]["error"]["canonical_code"], "INVALID_PAYLOAD");
    world.post("jobs/bulk", json!({"jobs": [good]})).await.expect(200);
    let none = json!({"atomicity": "atomic", "jobs": [good, {"args": []}]});
    assert_eq!(world.post("jobs/bulk", none).await.expect(422)["succeeded"], 0);
}

#[tokio::test]
async fn a_submission_names_its_jobs_alone_if_that_is_preferred() {
    let world = World::start().await;
    let (job, jobs) = (json!({"type": "mail", "args": []}), json!({"jobs": [{"type": "mail", "args": []}]}));
    for (path, body, status, at) in [
        ("jobs", &job, 201, "/job"),
        ("jobs/batch", &jobs, 201, "/jobs/0"),
        ("jobs/bulk", &jobs, 200, "/items/0/job"),
    ] {
        let sent = call(&world.client, "POST", path).header("prefer", "return=minimal").json(body);
        let answer = sent.send().await.expect(status);
        let shown = answer.pointer(at).unwrap_or_else(|| panic!("{path}: {answer}"));
        let id = shown["id"].as_str().expect("an id");
        assert_eq!(shown, &json!({"id": id, "state": "available"}), "{path}");
        assert_eq!(world.job(id).await["type"], "mail", "{path}");
    }
}

#[tokio::test]
async fn a_repeated_request_with_its_key_meets_its_job() {
    let world = World::start().await;
    let send = async |body: Value| {
        let call = call(&world.client, "POST", "jobs").header("idempotency-key", "k-1");
        call.body(body.to_string()).send().await
    };
    let body = json!({"type": "a", "args": [1]});
    let first = send(body.clone()).await.expect(201);
    let again = send(body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let again = again.expect(200);
    assert_eq!((&again["job"]["id"], &again["deduplicated"]), (&first["job"]["id"], &json!(true)));
    refused(&send(json!({"type": "a", "args": [2]})).await, 409, "DUPLICATE_JOB", "duplicate");
}

#[tokio::test]
async fn a_job_of_another_dialect_is_shown_under_its_type_and_worked_like_any_other() {
    let world = World::start().await;
    let body = json!({"type": "Market Analysis", "parameters": {"year": 2025}, "queue": "default"});
    let accepted = world.client.call("POST", "/api/v1/jobs").json(body).send().await.expect(202);
    let id = accepted["jobId"].as_str().unwrap();
    let job = world.fetch().await;
    assert_eq!((&job["id"], &job["type"]), (&json!(id), &json!("Market Analysis")));
    assert_eq!(job["args"], json!([{"year": 2025}]));
    world.post("workers/ack", json!({"job_id": id, "result": {"pages": 3}})).await.expect(200);
    let result = world.client.get(&format!("/api/v1/jobs/{id}/result")).await.expect(200);
    assert_eq!(result, json!({"pages": 3}));
}

#[tokio::test]
async fn an_expired_job_is_discarded_in_all_that_is_said_of_it() {
    let world = World::start().await;
    let id = world.push(json!({"expires_at": "1999-01-01T00:00:00Z"})).await;
    let answer = world.post(&format!("jobs/{id}/activate"), json!({})).await.expect(409);
    assert_eq!(answer["details"]["current_state"], "discarded", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("is discarded"), "{answer}");
}

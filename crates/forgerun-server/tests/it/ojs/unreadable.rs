//! JSON that the grammar allows and no value can be made of: halves of pairs of surrogates, and
//! numbers beyond doubles. And numbers that only digits can hold.

use super::*;

const HALF: &str = r#""caf\ud83d""#;
const LARGE: &str = "12345678901234567890123456789";

async fn sent(world: &World, method: &str, path: &str, body: String) -> Answer {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/ojs/v1/{path}") };
    world.client.call(method, &path).header("content-type", "application/json").body(body).send().await
}

#[tokio::test]
async fn it_is_refused_wherever_it_comes_in_with_the_place() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    for bad in [HALF, "1e400"] {
        let of_job = |members: &str| format!(r#"{{"type":"a.b",{members}}}"#);
        let args = of_job(&format!(r#""args":[1,{{"a":{bad}}}]"#));
        for (method, path, body, field) in [
            ("POST", "jobs", args.clone(), "args.1.a"),
            ("POST", "jobs", of_job(&format!(r#""args":[],"meta":{{"a":{bad}}}"#)), "meta.a"),
            ("POST", "jobs", of_job(&format!(r#""args":[],"stranger":[{bad}]"#)), "stranger.0"),
            (
                "POST",
                "jobs",
                of_job(&format!(r#""args":[],"options":{{"unique":{{"x":{bad}}}}}"#)),
                "options.unique.x",
            ),
            ("POST", "jobs/batch", format!(r#"{{"jobs":[{args}]}}"#), "jobs.0.args.1"),
            ("POST", "jobs/bulk", format!(r#"{{"jobs":[{args}]}}"#), "jobs.0.args.1"),
            (
                "POST",
                "cron",
                format!(r#"{{"name":"c","cron":"@daily","job_template":{args}}}"#),
                "job_template.args.1.a",
            ),
            ("POST", "workflows", format!(r#"{{"type":"chain","steps":[{args}]}}"#), "steps.0.args.1"),
            ("POST", "workers/ack", format!(r#"{{"job_id":"{id}","result":[{bad}]}}"#), "result.0"),
            ("PUT", &format!("jobs/{id}/checkpoint"), format!(r#"{{"state":{bad}}}"#), "state"),
        ] {
            let answer = sent(&world, method, path, body).await.expect(400);
            assert_eq!(answer["details"]["field"], field, "{path}: {answer}");
        }
        for (path, body, pointer) in [
            ("/v1/jobs", format!(r#"{{"type":"EXECUTE","payload":[{bad}]}}"#), "#/payload/0"),
            ("/v1/jobs/batch", format!(r#"{{"items":[{{"payload":{bad}}}]}}"#), "#/items/0/payload"),
            ("/api/v1/jobs", format!(r#"{{"type":"a","parameters":{{"a":{bad}}}}}"#), "#/parameters/a"),
        ] {
            let answer = sent(&world, "POST", path, body).await;
            assert!(answer.text().contains(pointer), "{path}: {}", answer.text());
            answer.expect(400);
        }
    }
    assert_eq!(world.job(&id).await["state"], "active");
}

#[tokio::test]
async fn a_failure_in_such_words_is_taken_and_told() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}})).await;
    world.fetch().await;
    let body = format!(r#"{{"job_id":"{id}","error":{{"message":{HALF},"details":{{"n":1e400}}}}}}"#);
    let failed = sent(&world, "POST", "workers/nack", body).await.expect(200);
    assert_eq!(failed["job"]["error"]["message"], "caf\u{fffd}", "{failed}");
    let listed = world.get("dead-letter").await.expect(200);
    assert_eq!(listed["jobs"][0]["errors"][0]["details"], json!({"n": "1e400"}));
}

#[tokio::test]
async fn a_result_that_was_uploaded_is_shown_as_it_was_written() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let upload = world.client.call("PUT", &format!("/ojs/v1/jobs/{id}/result")).header("lease-token", &token);
    let deep = format!("{}{HALF}{}", "[".repeat(200), "]".repeat(200));
    let sent = upload.header("content-type", "application/json").body(deep.clone()).send().await;
    assert!(sent.status < 300, "{}", sent.text());
    for answer in [world.ack(&id).await, world.get(&format!("jobs/{id}")).await] {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains(&deep), "{}", answer.text());
    }
}

#[tokio::test]
async fn numbers_keep_their_digits_in_every_view() {
    let world = World::start().await;
    let job = format!(
        r#"{{"type":"a.b","args":[{LARGE}],"options":{{"retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}}}"#
    );
    let bulk = sent(&world, "POST", "jobs/bulk", format!(r#"{{"jobs":[{job}]}}"#)).await;
    let id = bulk.expect(200)["items"][0]["job"]["id"].as_str().unwrap().to_owned();
    let cron = format!(r#"{{"name":"c","cron":"@daily","job_template":{job}}}"#);
    let cron = sent(&world, "POST", "cron", cron).await;
    cron.expect(201);
    world.fetch().await;
    let checkpoint = format!(r#"{{"state":[{LARGE}],"metadata":{{"a":1}}}}"#);
    let checkpoint = sent(&world, "PUT", &format!("jobs/{id}/checkpoint"), checkpoint).await;
    assert_eq!(checkpoint.expect(200)["checkpoint"]["metadata"], json!({"a": 1}));
    let nack = world.nack(&id, json!({"code": "x"})).await;
    let lists = [world.get("dead-letter").await, world.get("cron").await, world.get("cron/c").await];
    let trigger = world.post("cron/c/trigger", json!({})).await;
    for answer in [bulk, cron, checkpoint, nack, trigger].iter().chain(&lists) {
        assert!(answer.text().contains(&format!("[{LARGE}]")), "{}", answer.text());
    }
}

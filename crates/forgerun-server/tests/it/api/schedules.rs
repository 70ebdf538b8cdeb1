//! Schedules under `/v1`.

use serde_json::{Value, json};

use super::http::Answer;
use super::server::{Client, Server};

fn nightly() -> Value {
    json!({"name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "job": {"type": "EXECUTE", "queue": "reports"}})
}

async fn put(client: &Client, path: &str, body: Value) -> Answer {
    client.call("PUT", path).json(body).send().await
}

async fn register(client: &Client, body: Value) -> Answer {
    client.call("POST", "/v1/schedules").json(body).send().await
}

#[tokio::test]
async fn a_schedule_is_registered_changed_and_deleted_by_its_name() {
    let server = Server::start().await;
    let client = server.client().await;
    let answer = register(&client, nightly()).await;
    let schedule = answer.expect(201);
    assert_eq!(answer.header("location"), Some("/v1/schedules/nightly"));
    assert_eq!((&schedule["job"]["queue"], &schedule["catch_up"]), (&json!("reports"), &json!("one")));
    assert_eq!(schedule["next_runs"].as_array().unwrap().len(), 5);
    let mut changed = nightly();
    changed.as_object_mut().unwrap().remove("name");
    changed["catch_up"] = json!("all");
    let schedule = put(&client, "/v1/schedules/nightly", changed).await.expect(200);
    assert_eq!((&schedule["catch_up"], &schedule["catch_up_max"]), (&json!("all"), &json!(100)));
    put(&client, "/v1/schedules/other", nightly()).await.refused(400, "RFA_REQUEST_MALFORMED");
    let other = server.client().await;
    assert_eq!(other.get("/v1/schedules/nightly").await.status, 404);
    assert_eq!(other.call("DELETE", "/v1/schedules/nightly").send().await.status, 404);
    assert_eq!(
        client.call("DELETE", "/v1/schedules/nightly").send().await.expect(200),
        json!({"deleted": true})
    );
    client.get("/v1/schedules/nightly").await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn schedules_are_listed_page_by_page_whichever_dialect_made_them() {
    let server = Server::start().await;
    let client = server.client().await;
    for name in ["a", "b"] {
        let mut body = nightly();
        body["name"] = json!(name);
        register(&client, body).await.expect(201);
    }
    let cron = json!({"name": "c", "cron": "@hourly", "type": "report.make"});
    client.call("POST", "/ojs/v1/cron").json(cron).send().await.expect(201);
    let first = client.get("/v1/schedules?limit=2").await.expect(200);
    assert_eq!(first["next_cursor"], "b");
    let last = client.get("/v1/schedules?limit=2&cursor=b").await.expect(200);
    assert_eq!(
        (&last["schedules"][0]["job"]["job_type"], &last["next_cursor"]),
        (&json!("report.make"), &json!(null))
    );
    // The other way round too.
    let crons = client.get("/ojs/v1/cron").await.expect(200);
    assert_eq!(
        (&crons["crons"][0]["name"], &crons["crons"][0]["type"]),
        (&json!("a"), &json!("forgerun.execute"))
    );
}

#[tokio::test]
async fn a_schedule_makes_jobs_at_its_ticks_and_when_asked() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut body = nightly();
    body["cron"] = json!("* * * * * *");
    body["overlap_policy"] = json!("allow");
    body["job"] = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"});
    register(&client, body).await.expect(201);
    let job = server.claim(true).await;
    let run = job.head.schedule.as_ref().expect("a schedule made it");
    assert_eq!((run.name.as_str(), run.tick.as_micros() % 1_000_000), ("nightly", 0));
    let paused = client.post("/v1/schedules/nightly/pause").await.expect(200);
    assert_eq!((&paused["enabled"], &paused["next_run_at"]), (&json!(false), &json!(null)));
    let triggered = client.post("/v1/schedules/nightly/trigger").await.expect(202);
    let id = triggered["job_id"].as_str().unwrap();
    assert_eq!(client.get("/v1/schedules/nightly").await.expect(200)["last_job_id"], id);
    client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    let resumed = client.post("/v1/schedules/nightly/resume").await.expect(200);
    assert!(resumed["next_run_at"].is_string(), "{resumed}");
}

#[tokio::test]
async fn what_is_wrong_with_a_schedule_is_named() {
    let server = Server::start().await;
    let client = server.client().await;
    let with = |name: &str, value: Value| {
        let mut body = nightly();
        body[name] = value;
        body
    };
    for (body, pointer) in [
        (with("cron", json!("61 * * * *")), "#/cron"),
        (with("timezone", json!("CET")), "#/timezone"),
        (with("job", json!({"type": "NOPE"})), "#/job/type"),
        (with("job", json!({"type": "EXECUTE", "queue": "A b"})), "#/queue"),
        (with("colour", json!(1)), "#/colour"),
        (with("catch_up", json!("later")), "#/catch_up"),
        (
            json!({"name": "often", "cron": "* * * * *", "jitter_ms": 60_001, "job": nightly()["job"]}),
            "#/jitter_ms",
        ),
    ] {
        let refused = register(&client, body.clone()).await.expect(400);
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body}");
    }
    let refused = register(&client, with("cron", json!("0 25 * * *"))).await.expect(400);
    let said = refused["errors"][0]["detail"].as_str().unwrap();
    assert!(said.starts_with("cannot be read: hour `25`: "), "{refused}");
    assert_eq!(client.get("/v1/schedules").await.expect(200)["schedules"], json!([]));
}

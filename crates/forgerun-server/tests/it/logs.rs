//! What the log says of requests, and what it never says.

use serde_json::{Value, json};

use crate::api::http::Call;
use crate::process::{Server, forgerun};

#[tokio::test]
async fn refused_credentials_are_logged_with_client_and_reason_and_without_the_key() {
    let server =
        Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]));
    let call = |method: &str, path: &str| Call::new(server.address, method, path);
    let client =
        call("POST", "/v1/clients").send().await.expect(201)["client_id"].as_str().unwrap().to_owned();
    let keys = format!("/v1/clients/{client}/keys");
    let key = call("POST", &keys).send().await.expect(201);
    let secret = key["api_key"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {secret}");
    let revoke = call("POST", &format!("{keys}/revoke")).header("authorization", &bearer);
    revoke.json(json!({"key_id": key["key_id"]})).send().await.expect(200);
    let submit = call("POST", "/v1/jobs").json(json!({"type": "EXECUTE", "payload": "top secret"}));
    let revoked = submit.clone().header("authorization", &bearer).send().await;
    revoked.refused(403, "RFA_AUTH_API_KEY_DISABLED");
    submit
        .header("authorization", "Bearer frk_made-up")
        .send()
        .await
        .refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    server.signal("TERM");
    let log = server.wait().stderr;

    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let refusals: Vec<&Value> =
        lines.iter().filter(|line| line["message"] == "request not authorised").collect();
    assert_eq!(refusals.len(), 2, "{log}");
    assert_eq!(refusals[0]["client_id"], client);
    assert_eq!(refusals[0]["error_code"], "RFA_AUTH_API_KEY_DISABLED");
    assert_eq!(refusals[0]["action"], "submit");
    assert_eq!(refusals[0]["request_id"].as_str(), revoked.header("x-request-id"));
    assert_eq!(refusals[1]["error_message"], "The API key is not known.");
    for secret in [secret.as_str(), "made-up", "top secret"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn the_first_lines_say_whether_simulation_is_on_and_how_to_change_that() {
    for (enabled, words) in [
        ("true", ["simulation is on", "sim.enabled = false"]),
        ("false", ["simulation is off", "sim.enabled = true"]),
    ] {
        let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
        let server = Server::start(command.env("FORGERUN_SIM__ENABLED", enabled));
        server.signal("TERM");
        let log = server.wait().stderr;
        let first: Vec<&str> = log.lines().take(5).collect();
        assert!(words.iter().all(|word| first.iter().any(|line| line.contains(word))), "{log}");
    }
}

/// Runs each action of the specification with the log at `level`; the log, and the secret of the
/// client.
async fn log_of_every_action(level: &str) -> (Vec<Value>, String) {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
    command.env("FORGERUN_LOG__LEVEL", level).env("FORGERUN_LOG__FORMAT", "json");
    let server = Server::start(command.env("FORGERUN_SIM__TIME_SCALE", "0"));
    let client = Call::new(server.address, "POST", "/v1/clients").send().await.expect(201);
    let keys = format!("/v1/clients/{}/keys", client["client_id"].as_str().unwrap());
    let key = Call::new(server.address, "POST", &keys).send().await.expect(201);
    let secret = key["api_key"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {secret}");
    let call = |method: &str, path: &str| {
        Call::new(server.address, method, path)
            .header("authorization", &bearer)
            .header("x-correlation-id", "order-7")
    };
    let failing = json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE", "payload": "top secret"});
    let submit = call("POST", "/v1/jobs").header("prefer", "wait=30").json(failing).send().await;
    let job = format!("/v1/jobs/{}", submit.expect(202)["job_id"].as_str().unwrap());
    call("GET", &job).send().await.expect(200);
    call("GET", &format!("{job}/report")).send().await.expect(200);
    call("POST", &format!("{job}/retry")).send().await.expect(200);
    call("POST", &format!("{job}/cancel")).send().await.expect(200);
    let none = "/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057";
    for (method, path) in [
        ("GET", none.to_owned()),
        ("GET", format!("{none}/report")),
        ("POST", format!("{none}/retry")),
        ("POST", format!("{none}/cancel")),
    ] {
        call(method, &path).send().await.refused(404, "RFA_JOB_NOT_FOUND");
    }
    call("POST", "/v1/jobs").json(json!({"type": "WRONG"})).send().await.expect(400);
    server.signal("TERM");
    let log = server.wait().stderr;
    for secret in [secret.as_str(), "top secret"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    (log.lines().map(|line| serde_json::from_str(line).expect(line)).collect(), job)
}

fn with<'a>(lines: &'a [Value], message: &str) -> Vec<(&'a str, &'a Value)> {
    let lines = lines.iter().filter(|line| line["message"] == message);
    lines.map(|line| (line["action"].as_str().unwrap(), line)).collect()
}

#[tokio::test]
async fn each_action_is_logged_with_the_fields_of_the_specification() {
    let (lines, job) = log_of_every_action("debug").await;
    let job = job.rsplit('/').next().unwrap();
    let done = with(&lines, "request done");
    let actions: Vec<&str> = done.iter().map(|(action, _)| *action).collect();
    assert_eq!(actions, ["register", "create_key", "submit", "get", "report", "retry", "cancel"]);
    for (action, line) in &done[2..] {
        let looks = matches!(*action, "get" | "report");
        assert_eq!(line["level"], if looks { "DEBUG" } else { "INFO" }, "{line}");
        assert_eq!(line["job_id"], job, "{line}");
        assert_eq!(line["correlation_id"], "order-7", "{line}");
        for field in ["request_id", "client_id", "current_state"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {line}");
        }
    }
    assert_eq!(done[2].1["current_state"], "FAILED");

    let refused = with(&lines, "request refused");
    let actions: Vec<&str> = refused.iter().map(|(action, _)| *action).collect();
    assert_eq!(actions, ["get", "report", "retry", "cancel", "submit"]);
    for (action, line) in refused {
        assert_eq!(line["job_id"].is_string(), action != "submit", "{line}");
        for field in ["request_id", "client_id", "error_code", "error_message"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {line}");
        }
    }

    let changes: Vec<&Value> = lines.iter().filter(|line| line["message"] == "job changed state").collect();
    let started = changes.iter().find(|line| line["next_state"] == "RUNNING").unwrap();
    assert_eq!((&started["level"], &started["scenario"]), (&json!("INFO"), &json!("FAIL_IMMEDIATE")));
    assert_eq!(started["expected_outcome"], "FAILED");
    assert!(started["duration_ms"].is_u64(), "{started}");
    let failed = changes.iter().find(|line| line["next_state"] == "FAILED").unwrap();
    assert_eq!((&failed["job_id"], &failed["current_state"]), (&json!(job), &json!("RUNNING")));
    assert!(failed["error_code"].is_string() && failed["error_message"].is_string(), "{failed}");
}

#[tokio::test]
async fn looking_at_jobs_is_not_logged_at_the_usual_level() {
    let (lines, _) = log_of_every_action("info").await;
    let actions: Vec<&str> = with(&lines, "request done").iter().map(|(action, _)| *action).collect();
    assert_eq!(actions, ["register", "create_key", "submit", "retry", "cancel"]);
}

#[tokio::test]
async fn dev_logs_a_line_per_change_worth_seeing_with_the_reason_of_a_failure() {
    let mut command = forgerun(&["dev", "--listen", "127.0.0.1:0"]);
    let server = Server::start(command.env("FORGERUN_SIM__TIME_SCALE", "0"));
    let failing = json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE"});
    let submit = Call::new(server.address, "POST", "/v1/jobs").header("prefer", "wait=30").json(failing);
    let job = submit.send().await.expect(202)["job_id"].as_str().unwrap().to_owned();
    server.signal("TERM");
    let log = server.wait().stderr;

    let of_job: Vec<&str> = log.lines().filter(|line| line.contains(&job)).collect();
    let states: Vec<&str> = of_job.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(states, ["QUEUED", "RUNNING", "FAILED"], "{log}");
    let columns: Vec<_> = of_job.iter().map(|line| line.find(&job)).collect();
    assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "not aligned: {log}");
    assert!(of_job[2].contains("FAIL_IMMEDIATE") && of_job[2].contains("  RFA_"), "{log}");
    assert!(!log.contains("client_id") && !log.contains('\u{1b}'), "{log}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_any_more_stops_nothing() {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
    let mut server = Server::start(command.env("FORGERUN_LOG__LEVEL", "trace"));
    server.close_log();
    let client = Call::new(server.address, "POST", "/v1/clients").send().await.expect(201);
    let keys = format!("/v1/clients/{}/keys", client["client_id"].as_str().unwrap());
    let key = Call::new(server.address, "POST", &keys).send().await.expect(201);
    let bearer = format!("Bearer {}", key["api_key"].as_str().unwrap());
    for _ in 0..3 {
        let submit = Call::new(server.address, "POST", "/v1/jobs").header("authorization", &bearer);
        submit.json(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"})).send().await.expect(202);
    }
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_of_an_address_are_one_line_a_minute() {
    let server =
        Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]));
    let address = server.address;
    for _ in 0..50 {
        let call = Call::new(address, "GET", "/v1/jobs").header("authorization", "Bearer frk_made-up");
        call.send().await.refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    }
    server.signal("TERM");
    let log = server.wait().stderr;
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("request not authorised")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let line: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((line["count"].as_u64(), line["address"].as_str()), (Some(1), Some("127.0.0.1")), "{line}");
}

#[tokio::test]
async fn a_failure_is_logged_with_the_workers_own_reason_and_heartbeats_are_not() {
    let server = Server::start(&mut forgerun(&["dev", "--listen", "127.0.0.1:0"]));
    let post =
        async |path: &str, body: Value| Call::new(server.address, "POST", path).json(body).send().await;
    post("/ojs/v1/jobs", json!({"type": "a", "args": []})).await.expect(201);
    let taken =
        post("/ojs/v1/workers/fetch", json!({"queues": ["default"], "worker_id": "w"})).await.expect(200);
    let (id, token) = (&taken["jobs"][0]["id"], &taken["jobs"][0]["lease_token"]);
    let beat = json!({"worker_id": "w", "active_jobs": [id], "lease_tokens": {id.as_str().unwrap(): token}});
    post("/ojs/v1/workers/heartbeat", beat).await.expect(200);
    let error = json!({"code": "no_paper", "message": "The printer has no paper.", "retryable": false});
    post("/ojs/v1/workers/nack", json!({"job_id": id, "lease_token": token, "error": error}))
        .await
        .expect(200);
    server.signal("TERM");
    let log = server.wait().stderr;
    assert!(log.contains("The printer has no paper."), "{log}");
    assert!(!log.contains("heartbeat"), "{log}");
}

#[tokio::test]
async fn a_job_token_is_never_logged() {
    let mut serve = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
    let server = Server::start(serve.env("FORGERUN_LOG__LEVEL", "trace"));
    let call = |method: &str, path: &str| Call::new(server.address, method, path);
    let client =
        call("POST", "/v1/clients").send().await.expect(201)["client_id"].as_str().unwrap().to_owned();
    let key = call("POST", &format!("/v1/clients/{client}/keys")).send().await.expect(201);
    let bearer = format!("Bearer {}", key["api_key"].as_str().unwrap());
    let submit = call("POST", "/v1/jobs").header("authorization", &bearer);
    let job = submit.json(json!({"type": "EXECUTE"})).send().await.expect(202);
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    let made =
        call("POST", &format!("{path}/token")).header("authorization", &bearer).send().await.expect(201);
    let token = made["token"].as_str().unwrap();
    call("GET", &format!("{path}?token={token}")).send().await.expect(200);
    call("GET", &format!("/v1/jobs?token={token}")).send().await.expect(401);
    call("DELETE", &path).header("authorization", &format!("Bearer {token}")).send().await.expect(403);
    server.signal("TERM");
    let log = server.wait().stderr;
    assert!(log.contains("issue_token") && !log.contains("frj_"), "{log}");
}

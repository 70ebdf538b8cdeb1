//! Refusals as such: their pages, their media types, their versions.

use super::*;

#[tokio::test]
async fn every_code_leads_to_a_page_of_this_server() {
    let world = World::start().await;
    let body = refused(&world.get("jobs/nobody").await, 404, "NOT_FOUND", "not_found");
    assert_eq!(body["details"]["resource_type"], "job");
    let url = body["doc_url"].as_str().unwrap();
    assert_eq!(url, "/ojs/errors/NOT_FOUND");
    let page = world.server.call("GET", url).send().await.expect(200);
    assert_eq!((&page["code"], &page["retryable"]), (&json!("NOT_FOUND"), &json!(false)));
    let html = world.server.call("GET", url).header("accept", "text/html").send().await;
    assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(html.text().contains("<h1>NOT_FOUND</h1>"));
    let all = world.server.call("GET", "/ojs/errors").send().await.expect(200);
    let codes: Vec<&str> =
        all["errors"].as_array().unwrap().iter().map(|page| page["code"].as_str().unwrap()).collect();
    assert_eq!(codes.len(), 36, "all of the catalogue");
    for code in codes {
        world.server.call("GET", &format!("/ojs/errors/{code}")).send().await.expect(200);
    }
    assert_eq!(world.server.call("GET", "/ojs/errors/NO_SUCH_CODE").send().await.status, 404);
}

#[tokio::test]
async fn whoever_reads_ojs_gets_its_errors_from_every_dialect() {
    let world = World::start().await;
    for path in ["/v1/jobs/nobody", "/api/v1/jobs/nobody"] {
        let answer = world.client.call("GET", path).header("accept", OJS).send().await;
        let body = answer.expect(404);
        assert_eq!(answer.header("content-type"), Some(OJS), "{path}");
        assert_eq!(
            (&body["code"], &body["error"]["code"]),
            (&json!("NOT_FOUND"), &json!("not_found")),
            "{path}"
        );
    }
    let usual = world.client.get("/v1/jobs/nobody").await;
    assert_eq!(usual.header("content-type"), Some("application/problem+json"));
    let problem =
        world.client.call("GET", "/ojs/v1/jobs/nobody").header("accept", "application/problem+json");
    assert_eq!(problem.send().await.header("content-type"), Some("application/problem+json"));
}

#[tokio::test]
async fn the_type_of_an_answer_is_the_one_that_is_read() {
    let world = World::start().await;
    let asked = |name: &str, value: &str| {
        let call = world.client.call("GET", "/ojs/v1/queues").header(name, value);
        async move { call.send().await }
    };
    assert_eq!(asked("accept", "*/*").await.header("content-type"), Some(OJS));
    assert_eq!(asked("accept", "application/json").await.header("content-type"), Some("application/json"));
    let sdk = "application/openjobspec+json; compat=\"application/json\"";
    for version in ["1.0", "1", "1.0.0-rc.1"] {
        let answer = asked("ojs-version", version).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(sdk)), "{version}");
    }
    let other = asked("ojs-version", "2.0").await;
    assert_eq!((other.status, &other.json()["code"]), (422, &json!("UNSUPPORTED_FEATURE")));
    let none = asked("accept", "image/png").await;
    assert_eq!(none.status, 406);
}

#[tokio::test]
async fn a_well_formed_request_id_comes_back_and_another_does_not() {
    let world = World::start().await;
    let asked = |path: &str, id: &str| {
        let call = world.client.call("GET", path).header("x-request-id", id);
        async move { call.send().await.header("x-request-id").unwrap().to_owned() }
    };
    for path in ["/ojs/v1/queues", "/ojs/v1/jobs/nobody", "/ojs/manifest", "/health", "/ready"] {
        assert_eq!(asked(path, "mine-1").await, "mine-1", "{path}");
    }
    assert!(asked("/ojs/v1/queues", &"x".repeat(129)).await.starts_with("req_"));
    assert_ne!(asked("/v1/jobs", "mine-1").await, "mine-1", "elsewhere it is the server's own (C-29)");
}

#[tokio::test]
async fn messages_are_english_whatever_language_is_asked_for() {
    let world = World::start().await;
    let call = world.client.call("GET", "/ojs/v1/jobs/nobody").header("accept-language", "de");
    let body = refused(&call.send().await, 404, "NOT_FOUND", "not_found");
    assert!(body["message"].as_str().unwrap().starts_with("There is no"), "{body}");
}

#[tokio::test]
async fn what_is_not_done_here_is_said_to_be_so() {
    let world = World::start().await;
    for (method, path) in [("PUT", "admin/pools/a"), ("PUT", "rate-limits/k"), ("GET", "ws")] {
        let answer = call(&world.client, method, path).body("{}").send().await;
        refused(&answer, 422, "UNSUPPORTED_FEATURE", "unsupported");
    }
    let answer = world.get("nothing").await;
    assert_eq!(answer.status, 404);
    let answer = call(&world.client, "PUT", "jobs").send().await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, POST")));
}

#[tokio::test]
async fn the_hooks_of_the_suite_are_there_only_when_asked_for() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    assert_eq!(world.post("admin/reset", json!({})).await.status, 404);
    assert_eq!(world.job(&id).await["state"], "available");
    let world = World::with(&[("ojs.test_hooks", "true")]).await;
    let id = world.push(json!({"metadata": {"test_directive": "terminate"}})).await;
    world.fetch().await;
    let beat = json!({"worker_id": "w-1", "active_jobs": [id]});
    assert_eq!(world.post("workers/heartbeat", beat).await.expect(200)["state"], "terminate");
    world.post("queues/default/pause", json!({})).await.expect(200);
    world.post("admin/reset", json!({})).await.expect(200);
    assert_eq!(world.get(&format!("jobs/{id}")).await.status, 404);
    world.push(json!({})).await;
    world.fetch().await;
    let far =
        call(&world.client, "POST", "admin/reset").header("x-forwarded-for", "198.51.100.7").send().await;
    assert_eq!(far.status, 404, "a proxy is not the user (C-115)");
}

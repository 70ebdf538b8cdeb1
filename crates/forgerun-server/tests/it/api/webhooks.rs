//! Webhooks over HTTP: register, look, change, delete; what was sent, and sending it again. Nobody
//! sends here: a test that wants a delivery settled plays the courier.

use std::collections::BTreeMap;
use std::time::Duration;

use forgerun_core::command::{DeliveryClaim, DeliveryCommand, SendResult, Settle};
use forgerun_core::delivery::{Delivery, DeliveryAttempt, DeliveryFailure, DeliveryPolicy, DeliverySchedule};
use forgerun_core::{Answer, Command};
use serde_json::{Value, json};

use super::server::{Client, Server};
use super::sse::reader::Opening;

async fn register(client: &Client, url: &str) -> Value {
    let body = json!({"url": url, "events": ["*"]});
    client.call("POST", "/v1/webhooks").json(body).send().await.expect(201)
}

fn path(webhook: &Value) -> String {
    format!("/v1/webhooks/{}", webhook["webhook_id"].as_str().unwrap())
}

/// Takes what is due and settles all of it like this.
async fn settle(server: &Server, sent: impl Fn(&Delivery) -> SendResult) -> usize {
    let take = DeliveryClaim { limit: 100, lease: Duration::from_secs(30), closed: BTreeMap::new() };
    let command = Command::Delivery(DeliveryCommand::Take(take));
    let Answer::Taken(taken) = server.app.engine.run(command).await.unwrap() else { panic!("not taken") };
    for delivery in &taken.deliveries {
        let settle = Settle {
            delivery: delivery.id,
            client: delivery.client,
            chain: delivery.chain(),
            fence: delivery.fence,
            sent: sent(delivery),
            policy: DeliveryPolicy {
                schedule: DeliverySchedule::Doubling {
                    attempts_max: 2,
                    base: Duration::ZERO,
                    max: Duration::ZERO,
                },
                disable_after: Duration::from_secs(3600),
            },
            health_of: Some(delivery.to.key()),
        };
        server.app.engine.run(Command::Delivery(DeliveryCommand::Settle(settle.into()))).await.unwrap();
    }
    taken.deliveries.len()
}

fn attempt(status: u16) -> DeliveryAttempt {
    let at = forgerun_core::time::Time::from_millis(1_000);
    let error = (status >= 300).then(|| format!("the receiver answered {status}"));
    DeliveryAttempt { at, took: Duration::from_millis(12), status: Some(status), error }
}

fn broke(_: &Delivery) -> SendResult {
    SendResult::Failed { attempt: attempt(503), retry_after: None }
}

#[tokio::test]
async fn a_webhook_is_registered_shown_and_listed_and_its_secret_shown_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({
        "url": "http://127.0.0.1:9/hook", "events": ["JOB.FAILED", "job-cancelled"],
        "envelope": "cloudevents", "description": "mine",
    });
    let made = client.call("POST", "/v1/webhooks").json(body).send().await.expect(201);
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    assert_eq!(made["events"], json!(["job_failed", "job_canceled"]));
    assert_eq!((&made["envelope"], &made["enabled"]), (&json!("cloudevents"), &json!(true)));
    let mut shown = client.get(&path(&made)).await.expect(200);
    assert_eq!(shown["health"]["failures_in_a_row"], 0);
    shown["secret"] = made["secret"].clone();
    assert_eq!(shown, made, "the same but for the secret");
    for n in 0..3 {
        register(&client, &format!("http://127.0.0.1:9/{n}")).await;
    }
    let page = client.get("/v1/webhooks?limit=3").await.expect(200);
    assert_eq!(page["webhooks"].as_array().unwrap().len(), 3);
    let rest = format!("/v1/webhooks?limit=3&cursor={}", page["next_cursor"].as_str().unwrap());
    let rest = client.get(&rest).await.expect(200);
    assert_eq!((rest["webhooks"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    assert!(!page.to_string().contains("whsec_"));
}

#[tokio::test]
async fn a_bad_url_or_event_is_refused_and_a_second_of_the_same_url_conflicts() {
    let server = Server::start().await;
    let client = server.client().await;
    let post = async |body: Value| client.call("POST", "/v1/webhooks").json(body).send().await;
    for (url, events) in [
        ("ftp://example.com/", json!(["*"])),
        ("file:///etc/passwd", json!(["*"])),
        ("http://user:secret@example.com/", json!(["*"])),
        ("http://169.254.169.254/latest", json!(["*"])),
        ("http://example.com:99999/", json!(["*"])),
        ("http://example.com/", json!(["job_exploded"])),
        ("http://example.com/", json!([])),
    ] {
        let refused = post(json!({"url": url, "events": events})).await;
        refused.refused(400, "RFA_JOB_VALIDATION_FAILED");
    }
    for body in [json!({}), json!({"url": "http://example.com/"}), json!({"url": 1, "events": ["*"]})] {
        post(body).await.refused(400, "RFA_REQUEST_MALFORMED");
    }
    let made = register(&client, "http://127.0.0.1:9").await;
    assert_eq!(made["url"], "http://127.0.0.1:9/", "as it is called and signed");
    for spelling in ["http://127.0.0.1:9/", "http://127.0.0.1:9", "HTTP://127.1:9/a/..#part"] {
        let twice = post(json!({"url": spelling, "events": ["*"]})).await;
        let problem = twice.refused(409, "RFA_JOB_CONFLICT");
        assert_eq!(problem["details"]["existing_webhook_id"], made["webhook_id"], "{spelling}");
    }
    let changed = json!({"url": "HTTPS://Example.com/ü"});
    let changed = client.call("PATCH", &path(&made)).json(changed).send().await.expect(200);
    assert_eq!(changed["url"], "https://example.com/%C3%BC");
    register(&server.client().await, "http://127.0.0.1:9/").await;
}

#[tokio::test]
async fn a_webhook_is_changed_rotated_and_deleted() {
    let server = Server::start().await;
    let client = server.client().await;
    let made = register(&client, "http://127.0.0.1:9/").await;
    let patch = async |body: Value| client.call("PATCH", &path(&made)).json(body).send().await;
    let changed = patch(json!({"events": ["job_failed"], "enabled": false})).await.expect(200);
    assert_eq!((&changed["events"], &changed["disabled_reason"]), (&json!(["job_failed"]), &json!("owner")));
    assert_eq!(changed["url"], made["url"]);
    patch(json!({"url": "gopher://example.com"})).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    client.post(&format!("{}/test", path(&made))).await.refused(409, "RFA_JOB_CONFLICT");
    let enabled = patch(json!({"enabled": true})).await.expect(200);
    assert_eq!(enabled["disabled_at"], Value::Null);
    let rotated = client
        .call("POST", &format!("{}/rotate-secret", path(&made)))
        .json(json!({"overlap_s": 60}))
        .send()
        .await
        .expect(200);
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["previous_secret_until"].is_string());
    server.clock.advance(Duration::from_secs(61));
    assert_eq!(client.get(&path(&made)).await.expect(200)["previous_secret_until"], Value::Null);
    let deleted = client.call("DELETE", &path(&made)).send().await.expect(200);
    assert_eq!(deleted, json!({"deleted": true}));
    client.call("DELETE", &path(&made)).send().await.refused(404, "RFA_JOB_NOT_FOUND");
    client.get(&path(&made)).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn a_filter_decides_about_which_jobs_a_webhook_hears() {
    let server = Server::start().await;
    let client = server.client().await;
    let url = "http://127.0.0.1:9/";
    let filter = json!({"queues": ["mail", "web"], "types": ["invoice.*"], "tags": ["eu"]});
    let body = json!({"url": url, "events": ["job_created"], "filter": filter});
    let made = client.call("POST", "/v1/webhooks").json(body).send().await.expect(201);
    assert_eq!(made["filter"], filter);
    let submit = async |job_type: &str, queue: &str, tags: Value| {
        let job = json!({"job_type": job_type, "queue": queue, "tags": tags});
        client.call("POST", "/v1/jobs").json(job).send().await.expect(202)["job_id"].clone()
    };
    let heard = submit("invoice.render", "web", json!(["eu", "big"])).await;
    submit("invoice.render", "other", json!(["eu"])).await;
    submit("mail.send", "mail", json!(["eu"])).await;
    submit("invoice.render", "mail", json!([])).await;
    let deliveries = async || {
        let page = client.get(&format!("{}/deliveries", path(&made))).await.expect(200);
        let jobs = page["deliveries"].as_array().unwrap().iter().map(|delivery| delivery["job_id"].clone());
        jobs.collect::<Vec<Value>>()
    };
    assert_eq!(deliveries().await, std::slice::from_ref(&heard));
    let patch =
        async |filter: Value| client.call("PATCH", &path(&made)).json(json!({"filter": filter})).send().await;
    patch(json!({"type": ["x"]})).await.refused(400, "RFA_REQUEST_MALFORMED");
    patch(json!({"types": [""]})).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    assert_eq!(patch(Value::Null).await.expect(200).get("filter"), None);
    let other = submit("mail.send", "mail", json!([])).await;
    assert_eq!(deliveries().await, [other, heard]);
}

#[tokio::test]
async fn nobody_else_reaches_a_webhook() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let made = register(&client, "http://127.0.0.1:9/").await;
    client.job().await;
    let page = client.get(&format!("{}/deliveries", path(&made))).await.expect(200);
    let delivery = page["deliveries"][0]["delivery_id"].as_str().unwrap().to_owned();
    let at = |rest: &str| format!("{}{rest}", path(&made));
    for (method, path) in [
        ("GET", at("")),
        ("PATCH", at("")),
        ("DELETE", at("")),
        ("POST", at("/rotate-secret")),
        ("POST", at("/test")),
        ("POST", at("/redeliver")),
        ("GET", at("/deliveries")),
        ("GET", at(&format!("/deliveries/{delivery}"))),
        ("POST", at(&format!("/deliveries/{delivery}/redeliver"))),
    ] {
        let problem = other.call(method, &path).send().await.refused(403, "RFA_AUTH_FORBIDDEN");
        assert!(problem["detail"].as_str().unwrap().contains("webhook"), "{problem}");
        server.call(method, &path).send().await.refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    }
    let own = register(&other, "http://127.0.0.1:9/").await;
    let crossed = format!("{}/deliveries/{delivery}", path(&own));
    other.get(&crossed).await.refused(404, "RFA_JOB_NOT_FOUND");
    assert_eq!(client.get(&path(&made)).await.expect(200)["enabled"], true, "nothing has happened to it");
}

#[tokio::test]
async fn deliveries_show_attempts_and_can_be_sent_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let made = register(&client, "http://127.0.0.1:9/").await;
    let job = client.job().await;
    let deliveries = format!("{}/deliveries", path(&made));
    let page = client.get(&deliveries).await.expect(200);
    let [second, first] = &page["deliveries"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&first["event"], &first["job_id"]), (&json!("job_created"), &json!(job)));
    assert_eq!((&second["event"], &second["reason"]), (&json!("job_queued"), &json!("in_order")));
    assert!(first["next_attempt_at"].is_string() && second["next_attempt_at"].is_null());

    assert_eq!(settle(&server, broke).await, 1);
    assert_eq!(settle(&server, broke).await, 1);
    let one = format!("{deliveries}/{}", first["delivery_id"].as_str().unwrap());
    let mut failed = client.get(&one).await.expect(200);
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("failed"), &json!("exhausted")));
    assert_eq!(failed["log"].as_array().unwrap().len(), 2);
    assert_eq!(failed["request"]["method"], "POST");
    assert!(failed["request"]["url"].as_str().unwrap().starts_with("http"), "{failed}");
    assert_eq!(failed["log"][0]["response_status"], 503);
    assert_eq!(failed["log"][0]["duration_ms"], 12);
    let listed = client.get(&format!("{deliveries}?status=failed")).await.expect(200);
    for alone in ["headers", "body"] {
        assert!(
            failed["request"].as_object_mut().unwrap().remove(alone).is_some(),
            "{alone} of one delivery"
        );
    }
    assert_eq!(listed["deliveries"], json!([failed]));
    client.get(&format!("{deliveries}?status=lost")).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    let health = client.get(&path(&made)).await.expect(200)["health"].clone();
    assert_eq!((&health["failures_in_a_row"], &health["given_up_in_a_row"]), (&json!(2), &json!(1)));

    let again = client.post(&format!("{one}/redeliver")).await.expect(202);
    assert_eq!((&again["status"], &again["attempts"]), (&json!("pending"), &json!(0)));
    settle(&server, |_| SendResult::Delivered(attempt(204))).await;
    assert_eq!(client.get(&one).await.expect(200)["status"], "delivered");
    client.post(&format!("{deliveries}/not-an-id/redeliver")).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn the_deliveries_of_a_job_are_listed_whomever_they_go_to() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let (kept, deleted) =
        (register(&client, "http://127.0.0.1:9/1").await, register(&client, "http://127.0.0.1:9/2").await);
    let job = client.job_like(json!({"type": "EXECUTE", "callback": "http://127.0.0.1:9/back"})).await;
    client.job().await;
    client.call("DELETE", &path(&deleted)).send().await.expect(200);
    let list = format!("/v1/jobs/{job}/deliveries");
    let all = client.get(&list).await.expect(200)["deliveries"].as_array().unwrap().clone();
    let mut told: Vec<(&str, Option<&str>)> = all
        .iter()
        .map(|known| (known["event"].as_str().unwrap(), known["request"]["url"].as_str()))
        .collect();
    told.sort_unstable();
    let urls = [None, Some("http://127.0.0.1:9/1"), Some("http://127.0.0.1:9/back")];
    let expected = ["job_created", "job_queued"].map(|event| urls.map(|url| (event, url)));
    assert_eq!(told, expected.concat(), "two events to three endpoints, of one job");
    assert!(all.iter().all(|known| known["job_id"] == json!(job)));

    // Pages, whose cursor is the last that was shown, and a filter.
    let mut paged = Vec::new();
    let mut next = format!("{list}?limit=4");
    while paged.len() < all.len() {
        let page = client.get(&next).await.expect(200);
        paged.extend(page["deliveries"].as_array().unwrap().iter().cloned());
        next = format!("{list}?limit=4&cursor={}", page["next_cursor"].as_str().unwrap_or("none"));
    }
    assert_eq!((paged, next.ends_with("none")), (all.clone(), true));
    assert_eq!(client.get(&format!("{list}?status=failed")).await.expect(200)["deliveries"], json!([]));
    for (query, code) in [("status=lost", "RFA_JOB_VALIDATION_FAILED"), ("cursor=x", "RFA_REQUEST_MALFORMED")]
    {
        client.get(&format!("{list}?{query}")).await.refused(400, code);
    }

    // One of them: also of a callback, which no webhook leads to.
    let of = |url: Option<&str>| {
        let found = all.iter().find(|known| known["request"]["url"].as_str() == url).unwrap();
        format!("{list}/{}", found["delivery_id"].as_str().unwrap())
    };
    let back = client.get(&of(urls[2])).await.expect(200);
    assert_eq!((&back["webhook_id"], &back["request"]["body"]["job_id"]), (&Value::Null, &json!(job)));
    let orphan = client.get(&of(None)).await.expect(200);
    assert_eq!((&orphan["webhook_id"], orphan["request"].get("body")), (&deleted["webhook_id"], None));
    client.post(&format!("{}/redeliver", of(None))).await.refused(404, "RFA_JOB_NOT_FOUND");
    settle(&server, |_| SendResult::Dropped(DeliveryFailure::Exhausted)).await;
    let again = client.post(&format!("{}/redeliver", of(urls[2]))).await.expect(202);
    assert_eq!((&again["status"], &again["request"]["url"]), (&json!("pending"), &json!(urls[2])));

    // Nobody else's, and nothing of another job's.
    for (method, path) in
        [("GET", list.clone()), ("GET", of(urls[2])), ("POST", format!("{}/redeliver", of(urls[2])))]
    {
        other.call(method, &path).send().await.refused(403, "RFA_AUTH_FORBIDDEN");
        server.call(method, &path).send().await.refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    }
    let elsewhere = client.get(&format!("{}/deliveries", path(&kept))).await.expect(200);
    let of_other_job = elsewhere["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|known| known["job_id"] != json!(job))
        .unwrap();
    let crossed = format!("{list}/{}", of_other_job["delivery_id"].as_str().unwrap());
    client.get(&crossed).await.refused(404, "RFA_JOB_NOT_FOUND");
    client.get("/v1/jobs/none/deliveries").await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn all_that_failed_since_a_moment_is_sent_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let made = register(&client, "http://127.0.0.1:9/").await;
    client.job().await;
    settle(&server, |_| SendResult::Dropped(DeliveryFailure::Exhausted)).await;
    settle(&server, |_| SendResult::Dropped(DeliveryFailure::Exhausted)).await;
    let again = format!("{}/redeliver", path(&made));
    let since = async |moment: &str| client.call("POST", &again).json(json!({"since": moment})).send().await;
    assert_eq!(since("2999-01-01T00:00:00Z").await.expect(202), json!({"redelivered": 0, "more": false}));
    since("yesterday").await.refused(400, "RFA_REQUEST_MALFORMED");
    assert_eq!(client.post(&again).await.expect(202), json!({"redelivered": 2, "more": false}));
    assert_eq!(settle(&server, |_| SendResult::Delivered(attempt(200))).await, 2);
}

#[tokio::test]
async fn a_receiver_that_is_gone_disables_its_webhook_until_it_is_enabled_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let made = register(&client, "http://127.0.0.1:9/").await;
    let test = client.post(&format!("{}/test", path(&made))).await.expect(202);
    assert_eq!((&test["event"], &test["job_id"]), (&json!("webhook_test"), &Value::Null));
    settle(&server, |_| SendResult::Gone(attempt(410))).await;
    let gone = client.get(&path(&made)).await.expect(200);
    assert_eq!((&gone["enabled"], &gone["disabled_reason"]), (&json!(false), &json!("gone")));
    client.job().await;
    let page = client.get(&format!("{}/deliveries", path(&made))).await.expect(200);
    assert_eq!(page["deliveries"].as_array().unwrap().len(), 1, "nothing new is written for it");
    client.call("PATCH", &path(&made)).json(json!({"enabled": true})).send().await.expect(200);
    client.post(&format!("{}/test", path(&made))).await.expect(202);
}

#[tokio::test]
async fn a_client_hears_that_its_webhook_was_disabled_on_every_road_that_is_left() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let [gone, left] =
        [register(&client, "http://127.0.0.1:9/1").await, register(&client, "http://127.0.0.1:9/2").await];
    register(&other, "http://127.0.0.1:9/3").await;
    let open = async |client: &Client| Opening::new(client, "/v1/events").open().await.unwrap();
    let (mut stream, mut elsewhere) = (open(&client).await, open(&other).await);
    client.post(&format!("{}/test", path(&gone))).await.expect(202);
    settle(&server, |_| SendResult::Gone(attempt(410))).await;

    let told = stream.take(1).await.remove(0);
    let event = told.json();
    assert_eq!((told.name.as_str(), &event["event_id"]), ("webhook-disabled", &json!(told.id)));
    let expected = json!({
        "event_id": told.id, "event_name": "webhook_disabled", "reason": "gone",
        "timestamp": event["timestamp"], "webhook_id": gone["webhook_id"],
    });
    assert_eq!(event, expected);
    assert_eq!(client.get("/v1/events").await.expect(200), json!({"events": [event], "next_cursor": null}));

    let sent = client.get(&format!("{}/deliveries", path(&left))).await.expect(200);
    let [delivery] = &sent["deliveries"].as_array().unwrap()[..] else { panic!("{sent}") };
    assert_eq!((&delivery["event"], &delivery["event_id"]), (&json!("webhook_disabled"), &json!(told.id)));
    assert_eq!((&delivery["job_id"], &delivery["status"]), (&Value::Null, &json!("pending")));
    let own = client.get(&format!("{}/deliveries", path(&gone))).await.expect(200);
    assert_eq!(own["deliveries"].as_array().unwrap().len(), 1, "the test alone: it does not hear of itself");

    // It is an event like others: a stream goes on after it, and so does a page.
    let id = client.job().await;
    let mut again = Opening::new(&client, "/v1/events").after(&told.id).open().await.unwrap();
    assert_eq!(again.take(1).await[0].json()["job_id"], id);
    let rest = client.get(&format!("/v1/events?cursor={}", told.id)).await.expect(200);
    assert_eq!(rest["events"][0]["job_id"], id);
    other.job().await;
    assert_eq!(elsewhere.take(1).await[0].name, "job-created", "others hear nothing of it");
}

#[tokio::test]
async fn a_webhook_is_changed_and_deleted_only_in_the_version_that_was_seen() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = path(&register(&client, "http://127.0.0.1:9/").await);
    let send = async |method: &str, path: &str, if_match: &str, body: Value| {
        client.call(method, path).header("if-match", if_match).json(body).send().await
    };
    let stale = |answer: super::http::Answer| {
        let problem = answer.refused(412, "RFA_REQUEST_PRECONDITION_FAILED");
        assert_eq!(problem["type"], "/problems/precondition-failed");
    };
    let first = client.get(&path).await.header("etag").unwrap().to_owned();
    let changed = send("PATCH", &path, &first, json!({"description": "mine"})).await;
    changed.expect(200);
    // No time has passed, and still it is another version.
    let second = changed.header("etag").unwrap().to_owned();
    assert_ne!(first, second);
    stale(send("PATCH", &path, &first, json!({"description": "too late"})).await);
    for action in ["rotate-secret", "test", "redeliver"] {
        stale(send("POST", &format!("{path}/{action}"), &first, json!({})).await);
    }
    stale(send("DELETE", &path, &first, json!({})).await);
    let now = client.get(&path).await;
    assert_eq!((&now.expect(200)["description"], now.header("etag")), (&json!("mine"), Some(&*second)));
    send("PATCH", &path, "*", json!({"description": null})).await.expect(200);
    stale(send("DELETE", &path, &format!("W/{second}"), json!({})).await);
    let both = format!("{second}, {}", client.get(&path).await.header("etag").unwrap());
    send("DELETE", &path, &both, json!({})).await.expect(200);
    send("DELETE", &path, &both, json!({})).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn a_version_of_what_has_none_is_never_the_right_one() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.job().await;
    for (method, path) in [
        ("POST", format!("/v1/jobs/{job}/cancel")),
        ("POST", format!("/v1/jobs/{job}/retry")),
        ("DELETE", format!("/v1/jobs/{job}")),
        ("POST", "/v1/jobs".to_owned()),
    ] {
        let refused = client.call(method, &path).header("if-match", "\"1\"").send().await;
        refused.refused(412, "RFA_REQUEST_PRECONDITION_FAILED");
    }
    client.get(&format!("/v1/jobs/{job}")).await.expect(200);
    let any = client.call("POST", &format!("/v1/jobs/{job}/cancel")).header("if-match", "*").send().await;
    any.expect(200);
}

#[tokio::test]
async fn a_secret_overlaps_for_a_month_at_most_and_longer_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("{}/rotate-secret", path(&register(&client, "http://127.0.0.1:9/").await));
    let rotate = async |overlap_s: Value| {
        client.call("POST", &path).json(json!({"overlap_s": overlap_s})).send().await
    };
    let most = forgerun_server::limits::WEBHOOK_SECRET_OVERLAP_MAX.as_secs();
    let problem = rotate(json!(most + 1)).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    assert_eq!(problem["errors"][0]["pointer"], "#/overlap_s");
    assert_eq!(problem["errors"][0]["detail"], format!("must lie between 0 and {most}"));
    for wrong in [json!(-1), json!("1"), json!(1.5), json!(u64::MAX), json!([1])] {
        let answer = rotate(wrong.clone()).await;
        assert_eq!(
            (answer.status, &answer.json()["errors"][0]["pointer"]),
            (400, &json!("#/overlap_s")),
            "{wrong}"
        );
    }
    for good in [json!(0), json!(most), Value::Null] {
        rotate(good).await.expect(200);
    }
}

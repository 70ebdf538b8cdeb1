//! Queues, health, manifest, refusals, streams.

use super::reading::*;
use super::*;

#[tokio::test]
async fn every_sdk_lists_pauses_and_counts_queues() {
    let world = World::start().await;
    world.push(json!({"queue": "email.high-1"})).await;
    for sdk in ALL {
        let list = sdk.get(&world, "queues").await.expect(200);
        let queues: Vec<Queue> = read(&list["queues"]);
        let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(names, ["default", "email.high-1"]);
        assert!(queues.iter().all(|queue| queue.status == "active" && !queue.paused));
        read::<Pagination>(&list["pagination"]);
        let name = sdk.in_path("email.high-1");
        let stats = |world| sdk.get(world, "queues/email.high-1/stats");
        let found: QueueStats = read(&stats(&world).await.expect(200));
        assert_eq!((found.queue.as_str(), found.name.as_str()), ("email.high-1", "email.high-1"));
        assert_eq!((found.status.as_str(), found.paused), ("active", false));
        let figures = &found.stats;
        assert_eq!((figures.available, figures.active, figures.scheduled), (1, 0, 0));
        assert_eq!((figures.retryable, figures.discarded), (0, 0));
        assert_eq!((figures.completed_last_hour, figures.failed_last_hour), (0, 0));
        assert!(figures.avg_duration_ms + figures.avg_wait_ms + figures.throughput_per_second < 0.001);
        let top =
            TopFigures { available: 1, active: 0, scheduled: 0, retryable: 0, completed: 0, discarded: 0 };
        assert_eq!(found.top, top);
        sdk.send(&world, "POST", &format!("queues/{name}/pause"), None).await.expect(200);
        let paused: QueueStats = read(&stats(&world).await.expect(200));
        assert_eq!((paused.status.as_str(), paused.paused), ("paused", true));
        sdk.send(&world, "POST", &format!("queues/{name}/resume"), None).await.expect(200);
    }
}

#[tokio::test]
async fn every_sdk_reads_how_the_server_is_and_what_it_can() {
    let world = World::start().await;
    for sdk in ALL {
        let health: Health = read(&sdk.get(&world, "health").await.expect(200));
        assert_eq!((health.status.as_str(), health.backend.status.as_str()), ("ok", "ok"));
        assert!(!health.version.is_empty() && !health.backend.kind.is_empty());
        assert!(health.uptime_seconds < 3600 && health.backend.latency_ms >= 0);
        let answer = sdk.call(&world, "GET", "/ojs/manifest", None).send().await;
        assert!(sdk.reads(&answer));
        let manifest: Manifest = read(&answer.expect(200));
        assert_eq!((manifest.ojs_version.as_str(), manifest.conformance_level), ("1.0", 4));
        assert!(
            ["name", "version", "language"].iter().all(|name| manifest.implementation.contains_key(*name))
        );
        assert!(manifest.protocols.contains(&"http".to_owned()) && !manifest.backend.is_empty());
        assert!(manifest.capabilities["workflows"] && manifest.capabilities["cron_jobs"]);
        assert!(manifest.extensions.iter().all(|name| name.starts_with("urn:ojs:ext:")));
        assert!(manifest.endpoints.contains_key("base_url"));
    }
}

#[tokio::test]
async fn every_sdk_reads_why_something_was_refused() {
    let world = World::start().await;
    let nothing = "jobs/01965000-0000-7000-8000-000000000000";
    for sdk in ALL {
        let answer = sdk.get(&world, nothing).await;
        let error: ServerError = read(&answer.expect(404)["error"]);
        assert_eq!((error.code.as_str(), error.retryable), ("not_found", false));
        assert_eq!(error.details["resource_type"], "job");
        assert!(!error.message.is_empty());
        assert_eq!(error.request_id, answer.header("x-request-id").unwrap());
        if let Some((_, id)) = sdk.headers().iter().find(|(name, _)| *name == "x-request-id") {
            assert_eq!(error.request_id, *id);
        }
        let bad = sdk.post(&world, "jobs", json!({"type": "Not A Type", "args": []})).await.expect(400);
        assert_eq!(read::<ServerError>(&bad["error"]).code, "invalid_request");
        let bound = json!({"backpressure": {"max_depth": 1, "strategy": "reject"}});
        let queue = format!("full-{}", format!("{sdk:?}").to_lowercase());
        call(&world.client, "PUT", &format!("admin/queues/{queue}/config"))
            .body(bound.to_string())
            .send()
            .await;
        world.push(json!({"queue": queue})).await;
        let body = json!({"type": "a.b", "args": [], "options": {"queue": queue}});
        let full = sdk.post(&world, "jobs", body).await;
        let error: ServerError = read(&full.expect(429)["error"]);
        assert_eq!((error.code.as_str(), error.retryable), ("QUEUE_FULL", true));
        assert!(full.header("retry-after").unwrap().parse::<f64>().unwrap() >= 1.0);
    }
}

/// Subscriptions are made without the header fields of other requests.
#[tokio::test]
async fn a_subscription_is_a_stream_of_events_with_id_and_type() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    world.ack(&id).await.expect(200);
    let path = format!("/ojs/v1/events/stream?channel=job%3A{id}");
    let call = world.client.call("GET", &path).header("accept", "text/event-stream");
    let answer = call.header("cache-control", "no-cache").header("last-event-id", "").send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let media_type = answer.header("content-type").unwrap();
    assert_eq!(media_type.split(';').next(), Some("text/event-stream"));
    let text = answer.text();
    for line in ["event: job.completed", "id: ", "data: {"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains('\r') || answer.header("transfer-encoding").is_some());
}

//! Streams: flow control, who is told what, and how they end.

use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::command::{Cancel, Owned};
use forgerun_server::Bounds;
use forgerun_wire::grpc::error::ErrorDetails;
use serde_json::json;
use tonic::{Code, Streaming};

use super::*;

/// How long something may take that takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

async fn stream_of(world: &World, queue: &str, max_concurrent: i32) -> Streaming<v1::Job> {
    let request = v1::StreamJobsRequest {
        queues: vec![queue.into()],
        worker_id: "streamer".into(),
        max_concurrent,
        ..Default::default()
    };
    world.ojs().await.stream_jobs(world.request(request)).await.unwrap().into_inner()
}

async fn next<T>(stream: &mut Streaming<T>) -> T {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await.expect("a message comes");
    message.unwrap().expect("the stream goes on")
}

async fn end<T: std::fmt::Debug>(stream: &mut Streaming<T>) -> Status {
    loop {
        match tokio::time::timeout(PATIENCE, stream.message()).await.expect("it ends") {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended without a status"),
            Err(status) => return status,
        }
    }
}

fn reason(status: &Status) -> String {
    ErrorDetails::read(status.details()).info.expect("every error has it").reason
}

/// Takes what is left of a queue, as another worker would: how many jobs.
async fn left(world: &World, queue: &str) -> usize {
    let request = v1::FetchRequest { queues: vec![queue.into()], count: 100, ..Default::default() };
    world.ojs().await.fetch(world.request(request)).await.unwrap().into_inner().jobs.len()
}

#[tokio::test]
async fn a_stream_never_holds_more_than_its_worker_can() {
    let world = World::start().await;
    for _ in 0..5 {
        world.push("q").await;
    }
    let mut stream = stream_of(&world, "q", 2).await;
    let (one, two) = (next(&mut stream).await, next(&mut stream).await);
    assert_eq!(left(&world, "q").await, 3, "what the worker has no room for is there for others");
    for _ in 0..2 {
        world.push("q").await;
    }
    world.ack(&one).await.unwrap();
    let three = next(&mut stream).await;
    assert_eq!(left(&world, "q").await, 1, "one was acknowledged, one was sent");
    for job in [two, three] {
        world.ack(&job).await.unwrap();
        assert_eq!(world.job(&job.id).await.state(), v1::JobState::Completed);
    }
}

#[tokio::test]
async fn whatever_ends_a_hold_makes_room() {
    let world = World::start().await;
    let mut stream = stream_of(&world, "q", 1).await;
    let app = &world.server.app;

    // An ack over HTTP.
    world.push("q").await;
    let job = next(&mut stream).await;
    let ack = json!({"job_id": job.id, "lease_token": token(&job)});
    world.client.call("POST", "/ojs/v1/workers/ack").json(ack).send().await.expect(200);

    // A failure.
    world.push("q").await;
    let job = next(&mut stream).await;
    let nack = json!({"job_id": job.id, "error": {"code": "DISCARD", "message": "no"}});
    world.client.call("POST", "/ojs/v1/workers/nack").json(nack).send().await.expect(200);

    // A cancel.
    world.push("q").await;
    let job = next(&mut stream).await;
    let owned = Owned { job: job.id.parse().unwrap(), client: None };
    let (by, reason) = ("user".to_owned(), "no need".to_owned());
    app.engine
        .act(Command::Cancel(Cancel { owned, execution: None, by, reason, compensate: true }))
        .await
        .unwrap();

    // The end of the lease.
    let options = json!({"queue": "q", "visibility_timeout_ms": 60_000, "retry": {"max_attempts": 9}});
    let body = json!({"type": "test.echo", "args": [], "options": options});
    world.client.call("POST", "/ojs/v1/jobs").json(body).send().await.expect(201);
    let lost = next(&mut stream).await;
    world.server.clock.advance(Duration::from_secs(61));
    app.engine.run(Command::Due(10)).await.unwrap();
    let again = next(&mut stream).await;
    assert_eq!(lost.id, again.id, "it came back, and there was room for it");
    assert_ne!(token(&lost), token(&again));
    assert_eq!(world.ack(&lost).await.unwrap_err().code(), Code::FailedPrecondition);
    world.ack(&again).await.unwrap();
}

#[tokio::test]
async fn a_release_on_another_node_is_found() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let bounds = Bounds { stream_heartbeat: Duration::from_millis(100), ..Bounds::default() };
    let world = World::on(store.clone(), &[], bounds).await;
    let other = Server::on(store, &[], Bounds::default()).await;
    let mut stream = stream_of(&world, "q", 1).await;
    world.push("q").await;
    world.push("q").await;
    let job = next(&mut stream).await;
    let ack = json!({"job_id": job.id, "lease_token": token(&job)});
    let bearer = format!("Bearer {}", world.client.key);
    let acked = other.call("POST", "/ojs/v1/workers/ack").header("authorization", &bearer).json(ack);
    acked.send().await.expect(200);
    assert_ne!(next(&mut stream).await.id, job.id);
}

#[tokio::test]
async fn a_client_that_disappears_gives_its_jobs_back_with_the_lease() {
    let world = World::start().await;
    let request = v1::StreamJobsRequest {
        queues: vec!["q".into()],
        worker_id: "gone".into(),
        visibility_timeout: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..Default::default()
    };
    let mut stream = world.ojs().await.stream_jobs(world.request(request)).await.unwrap().into_inner();
    let id = world.push("q").await.id;
    assert_eq!(next(&mut stream).await.id, id);
    drop(stream);
    let wait = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let fetch = v1::FetchRequest { queues: vec!["q".into()], wait, ..Default::default() };
    let fetched = world.ojs().await.fetch(world.request(fetch)).await.unwrap().into_inner();
    assert_eq!(fetched.jobs[0].id, id);
}

#[tokio::test]
async fn a_job_that_meets_a_stream_that_just_ended_goes_to_another_worker() {
    let world = World::start().await;
    for _ in 0..10 {
        drop(stream_of(&world, "q", 1).await);
        let id = world.push("q").await.id;
        let wait = Some(prost_types::Duration { seconds: 30, nanos: 0 });
        let fetch = v1::FetchRequest { queues: vec!["q".into()], wait, ..Default::default() };
        let fetched = world.ojs().await.fetch(world.request(fetch)).await.unwrap().into_inner();
        let job = &fetched.jobs[0];
        assert_eq!((&job.id, job.attempt), (&id, 1), "what goes back is no attempt");
        world.ack(job).await.unwrap();
    }
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_and_the_stream_goes_on_when_it_is_resumed() {
    let world = World::start().await;
    let queue = || "q".to_owned();
    world.ojs().await.pause_queue(world.request(v1::PauseQueueRequest { queue: queue() })).await.unwrap();
    let mut stream = stream_of(&world, "q", 1).await;
    let id = world.push("q").await.id;
    let stats = world.request(v1::QueueStatsRequest { queue: queue() });
    let stats = world.ojs().await.queue_stats(stats).await.unwrap().into_inner().stats.unwrap();
    assert_eq!((stats.available, stats.active, stats.paused), (1, 0, true));
    world.ojs().await.resume_queue(world.request(v1::ResumeQueueRequest { queue: queue() })).await.unwrap();
    assert_eq!(next(&mut stream).await.id, id);
}

#[tokio::test]
async fn streams_end_with_their_key() {
    let world = World::start().await;
    let mut jobs = stream_of(&world, "q", 1).await;
    let events = world.request(v1::StreamEventsRequest::default());
    let mut events = world.ojs().await.stream_events(events).await.unwrap().into_inner();
    let path = format!("/v1/clients/{}/keys/revoke", world.client.id);
    let revoke = world.client.call("POST", &path).json(json!({"key_id": world.client.key_id}));
    assert!(revoke.send().await.status < 300);
    for status in [end(&mut jobs).await, end(&mut events).await] {
        assert_eq!((status.code(), reason(&status).as_str()), (Code::Unauthenticated, "OJS_UNAUTHENTICATED"));
    }
}

#[tokio::test]
async fn streams_end_with_the_server_and_say_so() {
    let world = World::start().await;
    let mut jobs = stream_of(&world, "q", 1).await;
    let events = world.request(v1::StreamEventsRequest::default());
    let mut events = world.ojs().await.stream_events(events).await.unwrap().into_inner();
    world.server.app.begin_stop();
    for status in [end(&mut jobs).await, end(&mut events).await] {
        let expected = (Code::Unavailable, "OJS_BACKEND_UNAVAILABLE");
        assert_eq!((status.code(), reason(&status).as_str()), expected);
    }
}

#[tokio::test]
async fn a_client_has_as_many_streams_as_it_may() {
    let world = World::with(&[("limits.max_streams_per_client", "1")]).await;
    let open = stream_of(&world, "q", 1).await;
    let events = || world.request(v1::StreamEventsRequest::default());
    let status = world.ojs().await.stream_events(events()).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::ResourceExhausted, "OJS_RATE_LIMITED"));
    drop(open);
    let reopened = async {
        while world.ojs().await.stream_events(events()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reopened).await.expect("its place is free again");
}

#[tokio::test]
async fn events_are_filtered_and_a_silent_stream_gives_signs_of_life() {
    let bounds = Bounds { stream_heartbeat: Duration::from_millis(50), ..Bounds::default() };
    let world = World::on(Arc::new(Memory::new()), &[], bounds).await;
    let silent = v1::StreamEventsRequest { queues: vec!["nothing".into()], ..Default::default() };
    let mut silent = world.ojs().await.stream_events(world.request(silent)).await.unwrap().into_inner();
    let wanted = v1::StreamEventsRequest {
        queues: vec!["q".into()],
        event_types: vec!["job.started".into(), "job.completed".into()],
        ..Default::default()
    };
    let mut wanted = world.ojs().await.stream_events(world.request(wanted)).await.unwrap().into_inner();
    let one = world.push("q").await;
    let of_one = v1::StreamEventsRequest { job_id: one.id.clone(), ..Default::default() };
    let mut of_one = world.ojs().await.stream_events(world.request(of_one)).await.unwrap().into_inner();
    world.push("other").await;
    let mut jobs = stream_of(&world, "q", 1).await;
    world.ack(&next(&mut jobs).await).await.unwrap();
    let mut told = Vec::new();
    for stream in [&mut wanted, &mut of_one] {
        while told.last().is_none_or(|(name, _): &(String, String)| name != "job.completed") {
            let event = next(stream).await;
            if event.r#type != "stream.keepalive" {
                told.push((event.r#type, event.job_id));
            }
        }
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["job.started", "job.completed"]);
        assert!(told.drain(..).all(|(_, job)| job == one.id));
    }
    assert_eq!(next(&mut silent).await.r#type, "stream.keepalive");
}

#[tokio::test]
async fn a_failure_object_is_the_same_bytes_everywhere() {
    let world = World::start().await;
    let events = v1::StreamEventsRequest { event_types: vec!["job.discarded".into()], ..Default::default() };
    let mut events = world.ojs().await.stream_events(world.request(events)).await.unwrap().into_inner();
    let options = json!({"queue": "q", "retry": {"max_attempts": 1}});
    let body = json!({"type": "test.echo", "args": [], "options": options});
    world.client.call("POST", "/ojs/v1/jobs").json(body).send().await.expect(201);
    let job = next(&mut stream_of(&world, "q", 1).await).await;
    let error = Some(v1::JobError { code: "boom".into(), message: "it broke".into(), ..Default::default() });
    let nack = v1::NackRequest { job_id: job.id.clone(), error, ..Default::default() };
    let answer = world.ojs().await.nack(world.request(nack)).await.unwrap().into_inner();
    assert_eq!(answer.state(), v1::JobState::Discarded);
    let over_http = world.client.call("GET", &format!("/v1/jobs/{}", job.id));
    let over_http = over_http.header("accept", "application/problem+json").send().await;
    let mut told = next(&mut events).await;
    while told.r#type != "job.discarded" {
        told = next(&mut events).await;
    }
    let read = world.job(&job.id).await.failure;
    assert!(!read.is_empty());
    assert_eq!((&told.failure, over_http.body.as_slice()), (&read, read.as_slice()));
}

//! What a worker is handed, and what goes back: calls that are cut off, and jobs too large for one
//! message. And other answers with a bound.

use forgerun_wire::grpc::forgerun_v1::GetResultRequest;
use forgerun_wire::grpc::forgerun_v1::result_service_client::ResultServiceClient;
use forgerun_wire::grpc::health::HealthCheckRequest;
use forgerun_wire::grpc::health::health_client::HealthClient;
use serde_json::json;
use tonic::Code;

use super::*;
use crate::api::faulty::{Faulty, Mood};

fn fetch_of(world: &World, count: i32, wait_s: i64) -> Request<v1::FetchRequest> {
    let wait = Some(prost_types::Duration { seconds: wait_s, nanos: 0 });
    world.request(v1::FetchRequest { queues: vec!["q".into()], count, wait, ..Default::default() })
}

async fn fetched(world: &World, count: i32) -> Vec<v1::Job> {
    world.ojs().await.fetch(fetch_of(world, count, 30)).await.unwrap().into_inner().jobs
}

#[tokio::test]
async fn what_a_fetch_took_that_was_cut_off_goes_to_another_worker() {
    for mood in [Mood::HangingInputs, Mood::SilentWrites] {
        let store = Faulty::new();
        let world = World::on(store.clone(), &[], Bounds::default()).await;
        let id = world.push("q").await.id;
        store.set(mood);
        let mut request = fetch_of(&world, 1, 30);
        request.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
        let status = world.ojs().await.fetch(request).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{mood:?}");
        store.set(Mood::Fine);
        let jobs = fetched(&world, 1).await;
        assert_eq!((&jobs[0].id, jobs[0].attempt), (&id, 1), "{mood:?}: what goes back is no attempt");
    }
}

#[tokio::test]
async fn a_fetch_that_waits_when_the_server_stops_keeps_what_it_is_about_to_take() {
    let store = Faulty::new();
    let world = World::on(store.clone(), &[], Bounds::default()).await;
    let id = world.push("q").await.id;
    store.set(Mood::SilentWrites);
    let app = world.server.app.clone();
    let mut ojs = world.ojs().await;
    let taking = ojs.fetch(fetch_of(&world, 1, 30));
    let stopping = async {
        // The claim is written and nobody has heard of it.
        while app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap().lease.is_none() {
            tokio::task::yield_now().await;
        }
        app.begin_stop();
        store.set(Mood::Fine);
    };
    let (taken, ()) = tokio::join!(taking, stopping);
    assert_eq!(taken.unwrap().into_inner().jobs[0].id, id);
}

async fn push_large(world: &World, n: usize, bytes: usize) {
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let options = json!({"queue": "q", "retry": retry});
    let body = json!({"type": "large", "args": ["x".repeat(bytes)], "options": options});
    for _ in 0..n {
        let call = world.client.call("POST", "/ojs/v1/jobs").json(body.clone());
        call.send().await.expect(201);
    }
}

#[tokio::test]
async fn a_fetch_ends_before_its_message_is_too_large_for_clients() {
    let world = World::start().await;
    push_large(&world, 6, 1_000_000).await;
    for n in [3, 3] {
        let jobs = fetched(&world, 10).await;
        assert_eq!(jobs.iter().map(|job| job.attempt).collect::<Vec<_>>(), vec![1; n]);
    }
}

#[tokio::test]
async fn a_fetch_over_http_ends_before_it_is_too_large() {
    let world = World::start().await;
    push_large(&world, 20, 1_000_000).await;
    for n in [16, 4] {
        let body = json!({"queues": ["q"], "count": 20, "wait_ms": 30_000});
        let answer = world.client.call("POST", "/ojs/v1/workers/fetch").json(body).send().await.expect(200);
        assert_eq!(answer["jobs"].as_array().unwrap().len(), n);
    }
}

#[tokio::test]
async fn a_page_of_dead_letters_ends_before_it_is_too_large_and_goes_on() {
    let world = World::start().await;
    push_large(&world, 5, 1_000_000).await;
    for _ in 0..2 {
        for job in fetched(&world, 10).await {
            let error = Some(v1::JobError { message: "no".into(), ..Default::default() });
            let mut nack =
                world.request(v1::NackRequest { job_id: job.id.clone(), error, ..Default::default() });
            nack.metadata_mut().insert(LEASE_TOKEN, token(&job).parse().unwrap());
            world.ojs().await.nack(nack).await.unwrap();
        }
    }
    let page = async |cursor: &str| {
        let request = v1::ListDeadLetterRequest { cursor: cursor.into(), ..Default::default() };
        world.ojs().await.list_dead_letter(world.request(request)).await.unwrap().into_inner()
    };
    let first = page("").await;
    assert_eq!(first.jobs.len(), 3);
    let second = page(&first.next_cursor).await;
    assert_eq!((second.jobs.len(), second.next_cursor.as_str()), (2, ""));
}

#[tokio::test]
async fn a_stream_of_events_names_a_bounded_number_of_queues() {
    let world = World::start().await;
    let open = async |queues: Vec<String>| {
        let request = v1::StreamEventsRequest { queues, ..Default::default() };
        world.ojs().await.stream_events(world.request(request)).await.map(drop)
    };
    let refused = open((0..65).map(|n| format!("q{n}")).collect()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    open((0..64).map(|n| format!("q{n}")).collect()).await.unwrap();
}

#[tokio::test]
async fn the_result_of_a_batch_of_which_some_items_failed_is_its_failure_object() {
    let world = World::with(&[("sim.time_scale", "0.001")]).await;
    world.server.app.work();
    let items =
        json!([{"itemId": "a", "work_kind": "SUCCESS_FAST"}, {"itemId": "b", "work_kind": "FAIL_IMMEDIATE"}]);
    let made =
        world.client.call("POST", "/v1/jobs/batch").json(json!({"items": items})).send().await.expect(202);
    let job_id = made["job_id"].as_str().unwrap().to_owned();
    let wait = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let mut results = ResultServiceClient::new(Channel::connect(world.address).await);
    let result =
        results.get_result(world.request(GetResultRequest { job_id, wait })).await.unwrap().into_inner();
    assert_eq!(result.media_type, "application/problem+json");
    let object: serde_json::Value = serde_json::from_slice(&result.content).unwrap();
    assert_eq!(
        (&object["type"], result.size),
        (&json!("/problems/batch-partial"), result.content.len() as i64)
    );
}

#[tokio::test]
async fn many_who_watch_the_health_ask_the_store_once() {
    let store = Faulty::new();
    let world = World::on(store.clone(), &[], Bounds::default()).await;
    let mut health = HealthClient::new(Channel::connect(world.address).await);
    let before = store.n_journal_ends();
    let mut watching = Vec::new();
    for _ in 0..20 {
        let mut stream = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap().unwrap().status, 1);
        watching.push(stream);
    }
    assert!(store.n_journal_ends() - before < 10, "{}", store.n_journal_ends() - before);
}

//! Attacks by HTTP/2: resets, streams, header lists, windows, and heads that never end.

use std::time::Duration;

use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, RESET, fields, frame,
};
use super::*;

/// Bound on concurrent streams of a connection.
const STREAMS_MAX: usize = 100;

/// Whether others are still answered.
async fn is_answered(world: &World) -> bool {
    let mut sender = world.http2(H2).await;
    ask(&mut sender, world.request("GET", "/health").body(empty()).unwrap()).await.0 == 200
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let world = World::start().await;
    let mut frames = Frames::open(&world).await;
    let waits = fields("GET", "/openapi.json", &[]);
    let mut n_sent = 0;
    // Far more than are allowed; the connection ends before all are sent, or soon after.
    for id in (1..20_000).step_by(2) {
        let mut both = frame(HEADERS, END_HEADERS | END_STREAM, id, &waits);
        both.extend(frame(RESET, 0, id, &8_u32.to_be_bytes()));
        if frames.send(&both).await.is_err() {
            break;
        }
        n_sent += 1;
    }
    frames.rest().await;
    assert!(n_sent < 10_000, "the connection took all {n_sent}");
    assert!(is_answered(&world).await);
}

#[tokio::test]
async fn streams_that_are_reset_while_they_are_served_end_the_connection() {
    let world = World::start().await;
    let mut frames = Frames::open(&world).await;
    // A body that never comes, so that each is in hand when it is reset.
    let begun = fields("POST", "/dashboard/login", &[("content-type", "application/x-www-form-urlencoded")]);
    let health = fields("GET", "/health", &[]);
    let mut n_rounds = 0;
    'attack: while n_rounds < 20 {
        let ids = (0..50).map(|n| n_rounds * 102 + 2 * n + 1);
        let probe = n_rounds * 102 + 101;
        let mut round: Vec<u8> = ids.clone().flat_map(|id| frame(HEADERS, END_HEADERS, id, &begun)).collect();
        round.extend(frame(HEADERS, END_HEADERS | END_STREAM, probe, &health));
        let _ = frames.send(&round).await;
        // Its answer comes after all of the others have begun.
        loop {
            match frames.next_of(HEADERS).await {
                None => break 'attack,
                Some(answer) if answer.stream == probe => break,
                Some(_) => {}
            }
        }
        let resets: Vec<u8> = ids.flat_map(|id| frame(RESET, 0, id, &8_u32.to_be_bytes())).collect();
        let _ = frames.send(&resets).await;
        n_rounds += 1;
    }
    assert!((2..=4).contains(&n_rounds), "{n_rounds} rounds of 50");
    assert!(is_answered(&world).await);
}

#[tokio::test]
async fn more_streams_than_the_bound_are_refused() {
    let world = World::start().await;
    let mut frames = Frames::open(&world).await;
    let begun = fields("POST", "/dashboard/login", &[("content-type", "application/x-www-form-urlencoded")]);
    for n in 0..=STREAMS_MAX as u32 {
        frames.send(&frame(HEADERS, END_HEADERS, 1 + 2 * n, &begun)).await.unwrap();
    }
    let refused = frames.next_of(RESET).await.expect("the last is refused");
    assert_eq!((refused.stream, &refused.payload[..]), (201, &7_u32.to_be_bytes()[..]), "REFUSED_STREAM");
    assert!(is_answered(&world).await);
}

#[tokio::test]
async fn streams_count_like_connections_of_their_address() {
    let world = World::on_terms(&[("limits.connections_per_address", "4")], ConnectionTerms::default()).await;
    let client = world.server.client().await;
    let job = client.call("POST", "/v1/jobs").json(serde_json::json!({"job_type": "a"})).send().await;
    let job = job.expect(202)["job_id"].as_str().unwrap().to_owned();
    let mut sender = world.http2(H2).await;
    let path = format!("/v1/jobs/{job}");
    let bearer = format!("Bearer {}", client.key);
    let wait = || {
        let request = world.request("GET", &path).header("authorization", &bearer);
        request.header("prefer", "wait=30").body(empty()).unwrap()
    };
    // The connection is the first of four.
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(sender.send_request(wait()))).collect();
    let refused = loop {
        let (status, problem) =
            ask(&mut sender, world.request("GET", "/health").body(empty()).unwrap()).await;
        if status != 200 {
            break (status, problem);
        }
    };
    assert_eq!(refused.0, 429, "{}", refused.1);
    waiting.iter().for_each(JoinHandle::abort);
    drop(waiting);
    while ask(&mut sender, world.request("GET", "/health").body(empty()).unwrap()).await.0 != 200 {}
}

#[tokio::test]
async fn header_lists_have_a_bound() {
    let world = World::start().await;
    let mut sender = world.http2(H2).await;
    let large = "x".repeat(20 * 1024);
    let request = world.request("GET", "/health").header("x-large", large).body(empty()).unwrap();
    // The client may know the bound from the server's settings and not send it at all.
    if let Ok(answer) = sender.send_request(request).await {
        assert_eq!(answer.status(), 431);
    }
    let mut frames = Frames::open(&world).await;
    let mut block = fields("GET", "/health", &[]);
    let value = "y".repeat(100);
    frames.send(&frame(HEADERS, END_STREAM, 1, &block)).await.unwrap();
    block.clear();
    // A list that goes on for ever, in continuations (CVE-2024-27316).
    let more = fields("GET", "/", &[("x-more", value.as_str()); 100])[50..].to_vec();
    let mut n_sent = 0;
    while n_sent < 10_000 && frames.send(&frame(CONTINUATION, 0, 1, &more)).await.is_ok() {
        n_sent += 1;
    }
    assert!(n_sent < 10_000, "megabytes of fields were accepted");
    assert!(is_answered(&world).await);
}

/// A connection on which nothing of any answer fits, and a request for 900 kB.
async fn closed_window(world: &World) -> (SendRequest<Full<Bytes>>, impl Fn() -> Request<Full<Bytes>>) {
    let client = world.server.client().await;
    let envelope = serde_json::json!({"type": "a", "args": ["z".repeat(900_000)]});
    let job = client.call("POST", "/ojs/v1/jobs").json(envelope).send().await.expect(201);
    let path = format!("/ojs/v1/jobs/{}", job["job"]["id"].as_str().unwrap());
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.initial_stream_window_size(0);
    let sender = world.http2_with(H2, http).await;
    let ask = move || {
        let request = world.request("GET", &path).header("authorization", format!("Bearer {}", client.key));
        request.body(empty()).unwrap()
    };
    (sender, ask)
}

#[tokio::test]
async fn answers_that_are_not_read_have_a_bound() {
    let terms = ConnectionTerms { write_stall: PATIENCE, ..ConnectionTerms::default() };
    let world = World::on_terms(&[], terms).await;
    let (mut sender, ask) = closed_window(&world).await;
    let mut answers = Vec::new();
    let refused = loop {
        assert!(answers.len() < 60, "there is no bound");
        let answer = sender.send_request(ask()).await.unwrap();
        if answer.status() != 200 {
            break answer.status();
        }
        answers.push(answer);
    };
    assert_eq!(refused, 429);
    assert!(answers.len() > 10, "{}", answers.len());
    drop((answers, sender));
    let freed = async {
        while world.server.app.unread.n_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("all memory is free again");
    assert!(is_answered(&world).await);
}

#[tokio::test]
async fn an_answer_that_is_not_read_ends_its_connection() {
    let terms = ConnectionTerms { write_stall: Duration::from_millis(300), ..ConnectionTerms::default() };
    let world = World::on_terms(&[], terms).await;
    let (mut sender, ask) = closed_window(&world).await;
    // The connection may end before the head of the answer is read.
    let ended = async { sender.send_request(ask()).await?.into_body().collect().await };
    assert!(tokio::time::timeout(PATIENCE, ended).await.unwrap().is_err());
}

#[tokio::test]
async fn a_head_that_never_ends_and_a_connection_without_requests_are_closed() {
    let terms = ConnectionTerms { head_timeout: Duration::from_millis(300), ..ConnectionTerms::default() };
    let world = World::on_terms(&[], terms).await;
    let mut silent = Frames::open(&world).await;
    silent.rest().await;
    let mut slow = Frames::open(&world).await;
    slow.send(&frame(HEADERS, END_STREAM, 1, &fields("GET", "/health", &[]))).await.unwrap();
    slow.rest().await;
    // A connection that was used and is idle is asked to leave.
    let mut idle = Frames::open(&world).await;
    let head = fields("GET", "/health", &[]);
    idle.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)).await.unwrap();
    assert!(idle.next_of(DATA).await.is_some());
    assert!(idle.next_of(GOAWAY).await.is_some());
    idle.rest().await;
    let mut nothing = TcpStream::connect(world.address).await.unwrap();
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut nothing, &mut byte);
    assert_eq!(tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap_or(0), 0, "no hello came");
}

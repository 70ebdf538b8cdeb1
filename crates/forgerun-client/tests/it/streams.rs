//! Streams that break and come back.

use forgerun_client::{Error, EventStream};
use serde_json::json;

use crate::foreign::{Foreign, Hurried, Reply};

const SSE: &[(&str, &str)] = &[("content-type", "text/event-stream")];

fn cut(body: &str) -> Reply {
    Reply::cut(200, SSE, 1_000_000, body.as_bytes())
}

async fn names(stream: &mut EventStream) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(event) = stream.next().await.unwrap() {
        names.push(event.name);
    }
    names
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_until_the_job_has_ended() {
    let server = Foreign::start(|request, n| match n {
        0 => cut("retry: 250\n\nevent: job-created\nid: 1\ndata: {}\n\nevent: job-started\nid: 2\ndata: {}\n\nevent: job-pro"),
        1 => Reply::nothing(),
        2 => Reply::new(200, SSE, b"event: job-progress\nid: 3\ndata: {\"progress\":40}\n\n"),
        _ => {
            assert_eq!(request.header("last-event-id"), Some("3"));
            cut("event: job-completed\nid: 4\ndata: {}\n\n")
        }
    })
    .await;
    let clock = Hurried::new();
    let mut stream = server.client(&clock).forge().events("7").unwrap();
    assert_eq!(names(&mut stream).await, ["job-created", "job-started", "job-progress", "job-completed"]);
    let asked: Vec<_> =
        server.requests().iter().map(|request| request.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(asked, [None, Some("2".to_owned()), Some("2".to_owned()), Some("3".to_owned())]);
    assert_eq!(clock.waits_ms()[0], 250);
}

#[tokio::test]
async fn a_204_is_the_end() {
    let server = Foreign::start(|_, _| Reply::new(204, &[], b"")).await;
    let mut stream = server.client(&Hurried::new()).forge().events("7").unwrap().after("99");
    assert_eq!(stream.next().await.unwrap(), None);
    assert_eq!(server.requests()[0].header("last-event-id"), Some("99"));
}

#[tokio::test]
async fn a_server_that_stays_away_is_reported_and_can_be_asked_again() {
    let server = Foreign::start(|_, n| match n {
        0..6 => cut(": hello\n\n"),
        _ => cut("event: job-failed\nid: 9\ndata: {}\n\n"),
    })
    .await;
    let mut stream = server.client(&Hurried::new()).forge().events("7").unwrap();
    assert!(matches!(stream.next().await, Err(Error::Unreachable(_))));
    assert_eq!(stream.next().await.unwrap().unwrap().name, "job-failed");
    assert_eq!(stream.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_refused_stream_is_an_error_of_its_category() {
    let server = Foreign::start(|_, _| Reply::json(403, &[], json!({"code": "TENANT_ACCESS_DENIED"}))).await;
    let mut stream = server.client(&Hurried::new()).forge().events("7").unwrap();
    assert!(matches!(stream.next().await, Err(Error::Auth(_))));
}

#[tokio::test]
async fn what_is_no_stream_is_not_taken_for_one() {
    let server = Foreign::start(|_, _| Reply::json(200, &[], json!({}))).await;
    let mut stream = server.client(&Hurried::new()).forge().events("7").unwrap();
    assert!(matches!(stream.next().await, Err(Error::Protocol(_))));
}

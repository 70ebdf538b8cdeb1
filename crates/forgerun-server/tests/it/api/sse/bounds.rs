//! Who may listen, to what, how often; and what becomes of those who do not keep up.

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_server::Bounds;
use forgerun_store::memory::Memory;

use super::reader::Opening;
use super::{names, of_client, of_job, opened, progress};
use crate::api::server::Server;

#[tokio::test]
async fn nobody_hears_of_jobs_of_others() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let (mut ours, mut theirs) = (of_client(&client).await, of_client(&other).await);
    let id = client.job().await;
    let path = format!("/v1/jobs/{id}/events");
    let refused = Opening::new(&other, &path).open().await.err().unwrap();
    refused.refused(403, "RFA_AUTH_FORBIDDEN");
    let unknown = path.replace(&id, "01890a5d-ac96-774b-bcce-b302099a8057");
    Opening::new(&other, &unknown).open().await.err().unwrap().refused(404, "RFA_JOB_NOT_FOUND");
    let nobody = server.call("GET", &path).header("accept", "text/event-stream").send().await;
    let problem = nobody.refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    assert!(problem.get("jobId").is_none() && problem.get("jobStatus").is_none(), "{problem}");

    server.fail(Kind::HandlerError).await;
    let heard = ours.take(5).await;
    let own = other.job().await;
    let their_own = theirs.take(2).await;
    assert!(their_own.iter().all(|message| message.json()["job_id"] == own.as_str()));
    assert!(heard.iter().all(|message| message.json()["job_id"] == id.as_str()));
    // An event of another client is no place to go on from, and the answer does not tell it from
    // one that never was.
    let foreign = Opening::new(&other, "/v1/events").after(&heard[1].id).open().await.err().unwrap();
    let foreign = foreign.refused(400, "RFA_REQUEST_MALFORMED");
    assert_eq!(foreign["detail"], "`Last-Event-ID` names no event of this client.");
}

#[tokio::test]
async fn a_client_has_as_many_streams_as_it_may_and_a_closed_one_makes_room() {
    let server = Server::with(&[("limits.max_streams_per_client", "2")]).await;
    let (client, other) = (server.client().await, server.client().await);
    let id = client.job().await;
    let (one, _two) = (of_client(&client).await, of_job(&client, &id).await);
    for path in ["/v1/events", &format!("/v1/jobs/{id}/events")] {
        let refused = Opening::new(&client, path).open().await.err().unwrap();
        let problem = refused.refused(429, "RFA_REQUEST_RATE_LIMITED");
        assert_eq!(problem["details"]["max_streams_per_client"], 2);
    }
    let _others = of_client(&other).await;
    let metrics = server.call("GET", "/metrics").send().await;
    assert!(metrics.text().contains("\nsse_streams_open 3\n"), "{}", metrics.text());
    drop(one);
    // The server notices when the connection is gone.
    loop {
        match Opening::new(&client, "/v1/events").open().await {
            Ok(_) => break,
            Err(answer) => drop(answer.refused(429, "RFA_REQUEST_RATE_LIMITED")),
        }
    }
}

#[tokio::test]
async fn a_slow_reader_is_dropped_and_nobody_else_misses_anything() {
    let bounds = Bounds { stream_events_waiting: 32, ..Bounds::default() };
    let server = Server::on(Arc::new(Memory::new()), &[], bounds).await;
    let client = server.client().await;
    client.job().await;
    let job = server.claim(true).await;
    let mut slow = opened(Opening::new(&client, "/v1/events").narrow()).await;
    let mut quick = of_client(&client).await;
    let dropped = || server.app.metrics.sse_streams_dropped.get();
    let mut n_told = 0;
    while dropped() == 0 {
        assert!(n_told < 200_000, "the reader that reads nothing is still there");
        for _ in 0..16 {
            progress(&server, &job, (n_told % 100) as u8).await;
            n_told += 1;
        }
        let heard = quick.take(16).await;
        assert!(heard.iter().all(|message| message.name == "job-progress"));
    }
    assert_eq!(dropped(), 1);
    progress(&server, &job, 100).await;
    assert_eq!(names(&quick.take(1).await), ["job-progress"]);
    // What it was sent before is whole and in order, and it can go on where it was.
    let heard = slow.rest().await;
    assert!(heard.len() < n_told + 1);
    let last = &heard.last().unwrap().id;
    let rest =
        opened(Opening::new(&client, "/v1/events").after(last)).await.take(n_told + 1 - heard.len()).await;
    let mut ids: Vec<&str> = heard.iter().chain(&rest).map(|message| message.id.as_str()).collect();
    assert_eq!(ids.len(), n_told + 1);
    ids.dedup();
    assert_eq!(ids.len(), n_told + 1, "no event twice");
}

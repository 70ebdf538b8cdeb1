//! Coming back: no gap, no repetition, also across a restart and while more is happening.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::id::EventId;
use forgerun_server::Bounds;
use forgerun_store::Sweep;
use forgerun_store::sqlite::Sqlite;

use super::reader::{Message, Opening};
use super::{names, of_client, of_job, opened, progress};
use crate::api::server::{Client, Server};

#[tokio::test]
async fn a_client_goes_on_after_any_event_it_heard() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let mut stream = of_client(&client).await;
    for n in 0..4 {
        client.job().await;
        other.job().await;
        if n % 2 == 0 {
            server.succeed().await
        } else {
            server.fail(Kind::HandlerError).await
        };
        server.succeed().await;
    }
    let mut all = stream.take(4 * 5).await;
    for n in 0..all.len() {
        let mut again = opened(Opening::new(&client, "/v1/events").after(&all[n].id)).await;
        assert_eq!(again.take(all.len() - n - 1).await, all[n + 1..]);
        client.job().await;
        server.succeed().await;
        let newer = again.take(5).await;
        assert_eq!(stream.take(5).await, newer, "and then what happens");
        all.extend(newer);
    }
}

/// The stream is cut again and again while the job goes on.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_or_repeated_while_much_is_happening() {
    let server = Arc::new(Server::with(&[("limits.rate_per_minute", "1000000")]).await);
    let client = server.client().await;
    let mut all = of_client(&client).await;
    let id = client.job().await;
    let mut heard = all.take(2).await;
    let mut of_one = of_job(&client, &id).await;
    let mut heard_of_one = of_one.take(2).await;
    let n_events = 600;
    let busy = tokio::spawn({
        let (server, client) = (server.clone(), client.clone());
        async move {
            let job = server.claim(true).await;
            for n in 0..n_events {
                progress(&server, &job, (n % 100) as u8).await;
                if n % 20 == 0 {
                    client.job().await;
                }
            }
        }
    });
    let expected = 2 + 2 + n_events + 2 * (n_events / 20);
    while heard.len() < expected {
        heard.extend(all.take(7.min(expected - heard.len())).await);
        all = opened(Opening::new(&client, "/v1/events").after(&heard.last().unwrap().id)).await;
    }
    busy.await.unwrap();
    let mut ids: Vec<&str> = heard.iter().map(|message| message.id.as_str()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), expected, "no event twice");
    let of_job: Vec<&Message> =
        heard.iter().filter(|message| message.json()["job_id"] == id.as_str()).collect();
    assert!(of_job.is_sorted_by_key(|message| message.json()["timestamp"].to_string()));
    heard_of_one.extend(of_one.take(2 + n_events).await);
    assert_eq!(heard_of_one.iter().collect::<Vec<_>>(), of_job, "both streams tell the same of the job");
}

/// The history is read while the job changes state, so that past and present overlap at every
/// possible place.
#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_a_job_meets_its_present_without_a_seam() {
    let settings = [("limits.rate_per_minute", "1000000"), ("retry.base_ms", "0"), ("retry.max_ms", "0")];
    let server = Arc::new(Server::with(&settings).await);
    let client = server.client().await;
    for _ in 0..60 {
        let id = client.job_like(serde_json::json!({"type": "EXECUTE", "retry_mode": "auto"})).await;
        let busy = tokio::spawn({
            let server = server.clone();
            async move {
                server.fail(Kind::HandlerTransient).await;
                server.fail(Kind::HandlerTransient).await;
                server.succeed().await
            }
        });
        let streams = [of_job(&client, &id).await, of_job(&client, &id).await];
        busy.await.unwrap();
        let whole = of_job(&client, &id).await.rest().await;
        assert_eq!(whole.len(), 2 + 3 + 1 + 3 + 1 + 3);
        for mut stream in streams {
            assert_eq!(names(&stream.rest().await), names(&whole));
        }
    }
}

#[tokio::test]
async fn everything_is_replayed_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let start = async || Server::on(Arc::new(Sqlite::open(&path).unwrap()), &[], Bounds::default()).await;
    let server = start().await;
    let client = server.client().await;
    let mut all = of_client(&client).await;
    let id = client.job().await;
    let mut one = of_job(&client, &id).await;
    let waiting = client.job().await;
    server.fail(Kind::HandlerTransient).await;
    let (heard, of_one) = (all.take(7).await, one.rest().await);
    server.app.engine.stop().await;
    assert_eq!(all.next().await, None, "a stream ends with its server");
    drop(server);

    let server = start().await;
    let client = Client { address: server.address, ..client };
    assert_eq!(of_job(&client, &id).await.rest().await, of_one);
    let mut again = opened(Opening::new(&client, "/v1/events").after(&heard[1].id)).await;
    assert_eq!(again.take(5).await, heard[2..]);
    let mut later =
        opened(Opening::new(&client, &format!("/v1/jobs/{waiting}/events")).after(&heard[3].id)).await;
    server.succeed().await;
    assert_eq!(names(&later.rest().await), ["job-assigned", "job-started", "job-completed"]);
    assert_eq!(names(&again.take(3).await), ["job-assigned", "job-started", "job-completed"]);
}

#[tokio::test]
async fn an_id_that_leads_nowhere_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let (id, other) = (client.job().await, client.job().await);
    let path = format!("/v1/jobs/{id}/events");
    let of_other = of_job(&client, &other).await.take(1).await.remove(0).id;
    let hour_ms = 3_600_000;
    let now_ms = server.app.engine.now().unix_ms();
    let future = EventId::of(id.parse().unwrap(), 3, now_ms + hour_ms).to_string();
    let made_up = EventId::of(id.parse().unwrap(), 77, now_ms).to_string();
    for (path, last, detail) in [
        (path.as_str(), "17", "is not the id of an event"),
        (&path, "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10", "is not the id of an event"),
        (&path, &of_other, "names an event of another job"),
        (&path, &future, "names an event that has not happened"),
        ("/v1/events", "last one", "is not the id of an event"),
        ("/v1/events", &future, "names an event that has not happened"),
        ("/v1/events", &made_up, "names no event of this client"),
    ] {
        let refused = Opening::new(&client, path).after(last).open().await.err().unwrap();
        let problem = refused.refused(400, "RFA_REQUEST_MALFORMED");
        assert_eq!(problem["detail"], format!("`Last-Event-ID` {detail}."), "{path} {last}");
        assert_eq!(problem["details"]["field"], "Last-Event-ID");
    }
    let mut empty = opened(Opening::new(&client, &path).after("")).await;
    assert_eq!(names(&empty.take(1).await), ["job-created"], "an empty id is none");
    let query =
        client.call("GET", &format!("{path}?limit=3")).header("accept", "text/event-stream").send().await;
    query.refused(400, "RFA_REQUEST_MALFORMED");
}

#[tokio::test]
async fn a_client_that_was_away_too_long_is_told_so_and_gets_what_is_kept() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = of_client(&client).await;
    let old = client.job().await;
    let heard = stream.take(2).await;
    server.clock.advance(Duration::from_secs(3600));
    let kept_from = server.app.engine.now();
    let young = client.job().await;
    let sweep = Sweep { journal_before: kept_from, ..Sweep::nothing(1000) };
    assert!(server.app.engine.store().sweep(sweep).await.unwrap().total() > 0);
    let mut again = opened(Opening::new(&client, "/v1/events").after(&heard[1].id)).await;
    let messages = again.take(3).await;
    assert_eq!(names(&messages), ["reset", "job-created", "job-queued"]);
    assert_eq!(messages[0].json()["last_event_id"], heard[1].id.as_str());
    assert_eq!(messages[1].json()["job_id"], young.as_str());
    // The history of a job is kept as long as the job.
    let path = format!("/v1/jobs/{old}/events");
    let mut of_job = opened(Opening::new(&client, &path).after(&heard[0].id)).await;
    assert_eq!(of_job.take(1).await, heard[1..]);
}

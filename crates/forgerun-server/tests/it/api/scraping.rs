//! What a scraper gets from `/metrics`: which text, and every counter from the start.

use std::sync::Arc;

use forgerun_core::Command;
use forgerun_core::command::{Extend, HeldJob, LeaseProof};
use forgerun_server::Bounds;
use forgerun_store::Fault;

use super::faulty::{Faulty, Mood};
use super::server::{Server, held};

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

async fn scrape(server: &Server) -> String {
    server.call("GET", "/metrics").send().await.text().to_owned()
}

#[tokio::test]
async fn a_scraper_gets_prometheus_text_unless_it_prefers_open_metrics() {
    let server = Server::start().await;
    let wishes = [
        (None, PROMETHEUS),
        (Some("*/*"), PROMETHEUS),
        (Some("text/plain;version=0.0.4"), PROMETHEUS),
        (Some("text/plain, application/openmetrics-text;q=0.5"), PROMETHEUS),
        // What Prometheus itself sends.
        (
            Some(
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            ),
            OPEN_METRICS,
        ),
    ];
    for (accept, media_type) in wishes {
        let call = server.call("GET", "/metrics");
        let answer = match accept {
            Some(accept) => call.header("accept", accept).send().await,
            None => call.send().await,
        };
        assert_eq!(answer.header("content-type"), Some(media_type), "{accept:?}");
        let open = media_type == OPEN_METRICS;
        let text = answer.text();
        assert_eq!(text.ends_with("# EOF\n"), open, "{accept:?}");
        let described = if open { "# TYPE jobs_failed counter" } else { "# TYPE jobs_failed_total counter" };
        assert!(text.lines().any(|line| line == described), "{text}");
    }
}

#[tokio::test]
async fn every_counter_with_known_labels_is_there_from_the_start() {
    let text = scrape(&Server::start().await).await;
    for line in [
        "jobs_submitted_total{scenario=\"SUCCESS_FAST\"} 0",
        "jobs_failed_total{scenario=\"real\"} 0",
        "jobs_canceled_total{scenario=\"batch\"} 0",
        "jobs_timed_out_total{scenario=\"RUNS_OVER_TIMEOUT\"} 0",
        "job_retries_total{by=\"user\"} 0",
        "job_retries_total{by=\"policy\"} 0",
        "jobs_retried_ended_total{outcome=\"SUCCESS\"} 0",
        "store_errors_total{fault=\"unavailable\"} 0",
        "store_errors_total{fault=\"too_new\"} 0",
        "webhook_deliveries_total 0",
        "webhook_failures_total{reason=\"timeout\"} 0",
        "webhook_failures_total{reason=\"gone\"} 0",
        "worker_heartbeats_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_counted_like_one_that_cannot_be_written() {
    let store = Faulty::new();
    let server = Server::on(store.clone() as Arc<_>, &[], Bounds::default()).await;
    let client = server.client().await;
    let id = client.job().await;
    store.set(Mood::Broken(Fault::Full));
    client.get(&format!("/v1/jobs/{id}")).await;
    client.post(&format!("/v1/jobs/{id}/cancel")).await;
    store.set(Mood::Fine);
    let text = scrape(&server).await;
    assert!(text.lines().any(|line| line == "store_errors_total{fault=\"full\"} 2"), "{text}");
}

#[tokio::test]
async fn signs_of_life_are_counted_if_the_worker_still_holds_the_job() {
    let server = Server::start().await;
    server.client().await.job().await;
    let job = server.claim(true).await;
    let alive = |held| Command::Extend(Extend { held, lease: None, note: None });
    server.app.engine.act(alive(held(&job))).await.unwrap();
    let stale = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence + 1), client: None };
    server.app.engine.act(alive(stale)).await.unwrap_err();
    let text = scrape(&server).await;
    assert!(text.lines().any(|line| line == "worker_heartbeats_total 1"), "{text}");
}

#[tokio::test]
async fn histograms_of_seconds_reach_as_far_as_the_page_for_operators_says() {
    let page = include_str!("../../../../../docs/reference/metrics.md");
    assert!(page.contains("bounds from 0.5 ms to 600 s"), "the page says something else");
    let text = scrape(&Server::start().await).await;
    for name in
        ["job_queue_wait_seconds", "job_execution_seconds", "commit_seconds", "webhook_attempt_seconds"]
    {
        let of_bucket = |line: &str| {
            let bound = line.strip_prefix(name)?.strip_prefix("_bucket{le=\"")?.split('"').next()?;
            bound.parse::<f64>().ok().filter(|bound| bound.is_finite())
        };
        let bounds: Vec<f64> = text.lines().filter_map(of_bucket).collect();
        assert_eq!((bounds.first(), bounds.last()), (Some(&0.0005), Some(&600.0)), "{name}");
    }
}

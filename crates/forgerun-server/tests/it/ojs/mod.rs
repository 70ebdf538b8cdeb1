//! `/ojs/v1` over HTTP: what clients and workers of Open Job Spec get to see.

mod checkpoints;
mod cron;
mod errors;
mod events;
mod examples;
mod exchange;
mod fair;
mod logs;
mod managing;
#[cfg(feature = "s3")]
mod objects;
mod options;
mod own_work;
mod ownership;
mod pausing;
mod queues;
mod refusals;
mod results;
mod retries;
mod schemas;
mod sdks;
mod submitting;
mod tenants;
mod uniqueness;
mod unreadable;
mod workers;
mod workflows;
mod working;

use serde_json::{Value, json};

use crate::api::http::{Answer, Call};
use crate::api::server::{Client, Server};

const OJS: &str = "application/openjobspec+json";

/// A server, and a client of it that speaks OJS.
struct World {
    server: Server,
    client: Client,
}

impl World {
    async fn start() -> World {
        World::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> World {
        let server = Server::with(settings).await;
        let client = server.client().await;
        World { server, client }
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        post(&self.client, path, body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.client.get(&format!("/ojs/v1/{path}")).await
    }

    /// Submits a job with these options: its id.
    async fn push(&self, options: Value) -> String {
        push(&self.client, options).await
    }

    /// The one job that a fetch from `default` brings, waiting for it if need be.
    async fn fetch(&self) -> Value {
        let body = json!({"queues": ["default"], "worker_id": "w-1", "wait_ms": 20_000});
        let fetched = self.post("workers/fetch", body).await.expect(200);
        assert_eq!(fetched["jobs"].as_array().unwrap().len(), 1, "{fetched}");
        fetched["jobs"][0].clone()
    }

    async fn job(&self, id: &str) -> Value {
        self.get(&format!("jobs/{id}")).await.expect(200)["job"].clone()
    }

    async fn ack(&self, id: &str) -> Answer {
        self.post("workers/ack", json!({"job_id": id})).await
    }

    async fn nack(&self, id: &str, error: Value) -> Answer {
        self.post("workers/nack", json!({"job_id": id, "error": error})).await
    }
}

async fn push(client: &Client, options: Value) -> String {
    let body = json!({"type": "test.echo", "args": [1], "options": options});
    let pushed = post(client, "jobs", body).await.expect(201);
    pushed["job"]["id"].as_str().unwrap().to_owned()
}

async fn post(client: &Client, path: &str, body: Value) -> Answer {
    call(client, "POST", path).body(body.to_string()).send().await
}

fn call(client: &Client, method: &str, path: &str) -> Call {
    client.call(method, &format!("/ojs/v1/{path}")).header("content-type", OJS)
}

/// The body of a refusal, which must be the catalogue's object and the binding's in one.
#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, word: &str) -> Value {
    let body = answer.expect(status);
    assert_eq!(answer.header("content-type"), Some(OJS), "{body}");
    assert_eq!(answer.header("ojs-version"), Some("1.0"));
    assert_eq!((&body["code"], &body["error"]["code"]), (&json!(code), &json!(word)), "{body}");
    assert_eq!(body["error"]["canonical_code"], code);
    assert_eq!(body["retryable"], body["error"]["retryable"]);
    for text in ["message", "doc_url"] {
        assert!(body[text].as_str().is_some_and(|text| !text.is_empty()), "{text} in {body}");
        assert_eq!(body[text], body["error"][text]);
    }
    assert!(body["details"].is_object() && body["error"]["hint"].is_string(), "{body}");
    if matches!(status, 429 | 503) {
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    }
    if status == 429 {
        answer.tells_the_limit(&body["details"]);
    }
    assert_eq!(answer.header("www-authenticate"), (status == 401).then_some("Bearer"));
    body
}

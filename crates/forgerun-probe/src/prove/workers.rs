//! Workers outside the server. Some fail at first, and some come back after their lease.

use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::spawn_local;

use super::history::Event;
use super::load::QUEUE;
use super::world::{Ask, World, kind_of};
use crate::clock::sleep;

pub(super) const LEASE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// Fetches and reports until everything is done.
pub(super) async fn work(world: Rc<World>, worker: usize, seed: u64) {
    let mut dice = StdRng::seed_from_u64(seed ^ (worker as u64) << 48);
    let fetch = json!({
        "queues": [QUEUE], "count": 4, "worker_id": format!("prove-{worker}"), "wait_ms": 300,
        "visibility_timeout_ms": LEASE.as_millis() as u64,
    });
    while !world.is_drained.get() {
        let from_ms = world.history.ms();
        let node = dice.random_range(0..world.nodes.len());
        let told = world.ask(node, &Ask::post("/ojs/v1/workers/fetch", &fetch)).await;
        let jobs = told.and_then(|told| told.body["jobs"].as_array().cloned()).unwrap_or_default();
        if jobs.is_empty() {
            sleep(PAUSE).await;
        }
        for job in &jobs {
            let Some(held) = Held::of(worker, job) else { continue };
            world.n_claims.set(world.n_claims.get() + 1);
            let at_ms = world.history.ms();
            world.history.add(Event::Claim {
                worker,
                job: held.job.clone(),
                token: held.token.clone(),
                from_ms,
                at_ms,
            });
            let node = dice.random_range(0..world.nodes.len());
            match dice.random_range(0..20) {
                0 => nack(&world, node, held).await,
                1 => drop(spawn_local(come_back_late(world.clone(), node, held))),
                _ => ack(&world, node, held, false).await,
            }
        }
    }
}

/// A job in the hands of a worker.
struct Held {
    worker: usize,
    job: String,
    token: String,
}

impl Held {
    fn of(worker: usize, job: &Value) -> Option<Held> {
        let text = |name: &str| Some(job[name].as_str()?.to_owned());
        Some(Held { worker, job: text("id")?, token: text("lease_token")? })
    }
}

/// A worker that was stopped for longer than its lease. By then another one has the job.
async fn come_back_late(world: Rc<World>, node: usize, held: Held) {
    sleep(LEASE * 2).await;
    ack(&world, node, held, true).await;
}

async fn ack(world: &World, node: usize, held: Held, zombie: bool) {
    let Held { worker, job, token } = held;
    let value = world.number();
    let body = json!({"job_id": job, "lease_token": token, "result": {"value": value}});
    let from_ms = world.history.ms();
    let told = world.ask(node, &Ask::post("/ojs/v1/workers/ack", &body)).await;
    let span = world.history.span(from_ms, kind_of(told.as_ref()));
    world.history.add(Event::Ack { worker, job, token, value, zombie, span });
}

async fn nack(world: &World, node: usize, held: Held) {
    let Held { worker, job, token } = held;
    let error = json!({"code": "handler_error", "message": "fails at times", "retryable": true});
    let body = json!({"job_id": job, "lease_token": token, "error": error});
    let from_ms = world.history.ms();
    let told = world.ask(node, &Ask::post("/ojs/v1/workers/nack", &body)).await;
    let span = world.history.span(from_ms, kind_of(told.as_ref()));
    world.history.add(Event::Nack { worker, job, token, span });
}

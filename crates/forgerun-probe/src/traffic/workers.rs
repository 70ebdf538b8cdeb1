//! External workers: Open Job Spec with lease tokens. Some disappear with a job until its lease is
//! over, and then report it as done.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::call::{Call, Key};
use super::check::Watched;
use super::follow::follow;
use super::journey::conclude;
use super::plan::{Plan, Way};
use super::state::State;
use super::tally::Class;
use super::world::World;
use crate::clock::{now, sleep};
use crate::limits::{WORKER_LEASE, WORKER_PAUSE};

/// Work of the workers so far, by job id.
#[derive(Default)]
pub(super) struct Fleet {
    jobs: RefCell<HashMap<String, Work>>,
}

/// Work on one job.
#[derive(Default)]
struct Work {
    /// How often a worker fetched it.
    n_handed_out: u32,
    /// How often a worker acknowledged it without a refusal: the answer may have been lost.
    n_said: u32,
    /// How often the server confirmed that.
    n_taken: u32,
}

impl Fleet {
    fn change(&self, id: &str, change: impl FnOnce(&mut Work)) {
        change(self.jobs.borrow_mut().entry(id.to_owned()).or_default());
    }

    /// Final check: no job was finished twice, and none succeeded without a worker.
    pub(super) fn settle(&self, world: &World) {
        for (id, work) in self.jobs.borrow().iter() {
            let job = world.acknowledged.borrow().get(id).cloned();
            let Some(job) = job else {
                continue;
            };
            let call = Call::get(format!("/v1/jobs/{id}"), &job.key);
            if work.n_taken > 1 {
                world.tally.borrow_mut().jobs.doubled += 1;
                let what = format!("{} workers were told that they finished one job", work.n_taken);
                world.violate("FR-QWK-03", what, &call, None);
            }
            if job.end == Some(State::Succeeded) && work.n_said == 0 {
                world.violate("FR-QWK-03", "a job succeeded that no worker finished", &call, None);
            }
        }
    }
}

fn queue(world: &World, client: usize) -> String {
    format!("traffic-{}-{client}", world.run)
}

/// The list in the result of each job.
pub(super) const ITEMS: [u32; 3] = [7, 8, 9];

/// The description of a job for the workers.
pub(super) fn job(world: &World, plan: &Plan) -> Value {
    let retry = json!({"max_attempts": 5, "initial_interval": "PT0.1S", "jitter": false});
    let options = json!({"queue": queue(world, plan.client), "retry": retry});
    json!({"type": "traffic.work", "args": [plan.n], "options": options})
}

/// Submits a job for the workers, and follows it.
pub(super) async fn submit(world: &Rc<World>, plan: &Plan, intended: Instant) {
    world.tally.borrow_mut().jobs.submitted += 1;
    let key = world.clients[plan.client].key.clone();
    let body = job(world, plan);
    let idempotency = world.is_killed_at_times.then(|| format!("traffic-{}-{}", world.run, plan.n));
    let call = Call::post("/ojs/v1/jobs".to_owned(), &key, body.to_string())
        .class(Class::Submit)
        .idempotent(idempotency);
    let Some(answer) = world.send_patiently(&call, intended).await else {
        return;
    };
    // 200: a repetition after a kill, of an existing job.
    if !matches!(answer.status, 200 | 201) {
        world.tally.borrow_mut().jobs.refused += 1;
        if !matches!(answer.status, 429 | 500..=599) {
            world.violate(
                "OJS-SUB-02",
                format!("a push is answered {}", answer.status),
                &call,
                Some(&answer),
            );
        }
        return;
    }
    let id = answer.object().get("job").and_then(|job| job["id"].as_str().map(str::to_owned));
    let Some(id) = id else {
        return world.violate("OJS-SUB-02", "a pushed job has no id", &call, Some(&answer));
    };
    world.tally.borrow_mut().accepted();
    world.acknowledge(&id, &key);
    world.fleet.change(&id, |_| {});
    // The server retries failed jobs, so QUEUED may follow RUNNING.
    let (seen, retried) = (Cell::new(State::Queued), Cell::new(true));
    let job = Watched { world: world.clone(), id, key, intended, seen, retried };
    let Some((end, _)) = follow(&job, plan, Way::Poll, &answer).await else {
        return;
    };
    world.ended(&job.id, end, Some(now() - intended));
    if end == State::Succeeded {
        conclude(&job, end, None, true).await;
    }
}

/// Fetches and reports until the run is over.
pub(super) async fn work(world: Rc<World>, number: usize, seed: u64) {
    let mut dice = StdRng::seed_from_u64(seed ^ (number as u64) << 32);
    let client = number % world.clients.len();
    let key = world.clients[client].key.clone();
    let lease_ms = WORKER_LEASE.as_millis() as u64;
    let fetch = json!({
        "queues": [queue(&world, client)], "count": 4, "worker_id": format!("traffic-{number}"),
        "wait_ms": 500, "visibility_timeout_ms": lease_ms,
    });
    while !world.is_over() {
        let call = Call::post("/ojs/v1/workers/fetch".to_owned(), &key, fetch.to_string());
        let Ok(answer) = world.send(&call, now()).await else {
            sleep(WORKER_PAUSE).await;
            continue;
        };
        let jobs = answer.object().get("jobs").and_then(Value::as_array).cloned().unwrap_or_default();
        if jobs.is_empty() {
            sleep(WORKER_PAUSE).await;
        }
        for job in jobs {
            let story = dice.random_range(0..10);
            report(&world, &key, &job, story).await;
        }
    }
}

/// Reports one job in a random way.
async fn report(world: &Rc<World>, key: &Key, job: &Value, story: u32) {
    let id = job["id"].as_str().unwrap_or_default().to_owned();
    let (token, args) = (job["lease_token"].clone(), job["args"].clone());
    let mut nth = 0;
    world.fleet.change(&id, |work| {
        work.n_handed_out += 1;
        nth = work.n_handed_out;
    });
    match story {
        0 => {
            let error = json!({"code": "handler_error", "message": "fails at times", "retryable": true});
            let body = json!({"job_id": id, "lease_token": token, "error": error});
            let call = Call::post("/ojs/v1/workers/nack".to_owned(), key, body.to_string());
            let _ = world.send(&call, now()).await;
        }
        1 => {
            let (world, key) = (world.clone(), key.clone());
            tokio::task::spawn_local(async move {
                sleep(WORKER_LEASE * 2).await;
                // By now another worker should have it, unless the server is slow to notice.
                let mut late = false;
                world.fleet.change(&id, |work| late = work.n_handed_out > nth);
                ack(&world, &key, &id, &token, &args, late).await;
            });
        }
        _ => ack(world, key, &id, &token, &args, false).await,
    }
}

/// Acknowledges a job. `late`: another worker has it by now, so the ack must be refused.
async fn ack(world: &World, key: &Key, id: &str, token: &Value, args: &Value, late: bool) {
    let result = json!({"done": true, "items": ITEMS, "args": args});
    let body = json!({"job_id": id, "lease_token": token, "result": result});
    let call = Call::post("/ojs/v1/workers/ack".to_owned(), key, body.to_string());
    // The job's client may see the end before this answer arrives.
    world.fleet.change(id, |work| work.n_said += u32::from(!late));
    let answer = world.send(&call, now()).await;
    let Ok(answer) = answer else {
        return;
    };
    let taken = answer.status == 200;
    world.fleet.change(id, |work| match (late, taken) {
        (false, true) => work.n_taken += 1,
        (false, false) => work.n_said -= 1,
        (true, _) => {}
    });
    if late && taken {
        world.violate("FR-QWK-03", "the word of a worker without a lease was taken", &call, Some(&answer));
    }
}

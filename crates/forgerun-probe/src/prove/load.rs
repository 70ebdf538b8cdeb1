//! Clients: submissions in every dialect, repeated until they are answered; cancels, workflows with
//! waits, and signals.

use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::spawn_local;

use super::history::{AnswerKind, Event};
use super::world::{Ask, World, kind_of};
use crate::clock::sleep;

/// The queue of the run's workers.
pub(super) const QUEUE: &str = "prove";

/// Tries of one submission. Together longer than any fault.
const TRIES_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(200);

/// Attempts of a job: more than a run has faults for one.
const ATTEMPTS_MAX: u32 = 20;

/// Unique keys that submissions contend for.
const UNIQUE_KEYS: u32 = 4;

/// What to submit, and where.
struct Submission {
    dialect: &'static str,
    path: &'static str,
    body: Value,
    unique: Option<String>,
    /// Where the answer has the id.
    id: &'static str,
}

/// Submits until the run is over.
pub(super) async fn client(world: Rc<World>, number: u64, seed: u64) {
    let mut dice = StdRng::seed_from_u64(seed ^ number << 40);
    while !world.is_over.get() {
        match dice.random_range(0..100) {
            0..3 => begin_workflow(&world, &mut dice).await,
            3..6 => cancel(&world, &mut dice).await,
            _ => submit(&world, &mut dice).await,
        }
        sleep(Duration::from_millis(dice.random_range(10..60))).await;
    }
}

fn submission(dice: &mut StdRng, op: u64) -> Submission {
    let retry = json!({"max_attempts": ATTEMPTS_MAX, "initial_interval": "PT0.05S", "max_interval": "PT1S", "jitter": false});
    let forge =
        |body: Value, unique| Submission { dialect: "v1", path: "/v1/jobs", body, unique, id: "/job_id" };
    match dice.random_range(0..100) {
        0..50 => forge(
            json!({"job_type": "prove.work", "queue": QUEUE, "payload": {"op": op}, "max_retries": ATTEMPTS_MAX}),
            None,
        ),
        50..60 => {
            let unique = format!("unique-{}", dice.random_range(0..UNIQUE_KEYS));
            let body = json!({"job_type": "prove.work", "queue": QUEUE, "payload": {"op": op},
                "max_retries": ATTEMPTS_MAX, "unique_key": unique});
            forge(body, Some(unique))
        }
        60..68 => forge(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "payload": {"op": op}}), None),
        68..76 => Submission {
            dialect: "api/v1",
            path: "/api/v1/reports/generate",
            body: json!({"type": "market-analysis", "parameters": {"region": "EU", "year": 2025, "op": op}}),
            unique: None,
            id: "/jobId",
        },
        _ => Submission {
            dialect: "ojs/v1",
            path: "/ojs/v1/jobs",
            body: json!({"type": "prove.work", "args": [{"op": op}], "options": {"queue": QUEUE, "retry": retry}}),
            unique: None,
            id: "/job/id",
        },
    }
}

async fn submit(world: &World, dice: &mut StdRng) {
    let op = world.number();
    let Submission { dialect, path, body, unique, id } = submission(dice, op);
    let key = format!("prove-{op}");
    let first = dice.random_range(0..world.nodes.len());
    for node in first..first + TRIES_MAX {
        let from_ms = world.history.ms();
        let ask = Ask { idempotency: Some(&key), ..Ask::post(path, &body) };
        let told = world.ask(node, &ask).await;
        let job = told.as_ref().and_then(|told| told.body.pointer(id)?.as_str().map(str::to_owned));
        let answer = match kind_of(told.as_ref()) {
            AnswerKind::Ok if job.is_none() => AnswerKind::Unknown,
            answer => answer,
        };
        let span = world.history.span(from_ms, answer);
        let job = job.filter(|_| answer == AnswerKind::Ok);
        let event = Event::Submit {
            op,
            key: key.clone(),
            dialect: dialect.to_owned(),
            unique: unique.clone(),
            job: job.clone(),
            span,
        };
        world.history.add(event);
        if let Some(job) = &job {
            world.acknowledge(job);
        }
        if answer != AnswerKind::Unknown {
            return;
        }
        sleep(PAUSE).await;
    }
}

async fn cancel(world: &World, dice: &mut StdRng) {
    let Some(job) = world.recent(dice) else { return };
    let from_ms = world.history.ms();
    let path = format!("/v1/jobs/{job}/cancel");
    let told = world.ask(dice.random_range(0..world.nodes.len()), &Ask::post(&path, &json!({}))).await;
    // A job that had ended stays as it is, and the answer says so with 200.
    let has_ended = told.as_ref().is_some_and(|told| told.body["state"] != "CANCELED");
    let answer = match kind_of(told.as_ref()) {
        AnswerKind::Ok if has_ended => AnswerKind::Refused,
        answer => answer,
    };
    let span = world.history.span(from_ms, answer);
    world.history.add(Event::Cancel { job, span });
}

/// A step that waits for a signal, and work behind it.
async fn begin_workflow(world: &Rc<World>, dice: &mut StdRng) {
    let op = world.number();
    let retry = json!({"max_attempts": ATTEMPTS_MAX, "initial_interval": "PT0.05S", "max_interval": "PT1S", "jitter": false});
    let options = json!({"queue": QUEUE, "retry": retry});
    let body = json!({"name": "prove", "steps": [
        {"id": "ask", "wait": {"signal": "go", "timeout": "1h"}},
        {"id": "work", "type": "prove.work", "args": [{"op": op}], "options": options, "depends_on": ["ask"]},
    ]});
    let key = format!("prove-{op}");
    for n_tries in 0..TRIES_MAX {
        let from_ms = world.history.ms();
        let ask = Ask { idempotency: Some(&key), ..Ask::post("/v1/workflows", &body) };
        let told = world.ask(n_tries + op as usize, &ask).await;
        let workflow = told.as_ref().and_then(|told| told.body["workflow_id"].as_str().map(str::to_owned));
        let answer = match kind_of(told.as_ref()) {
            AnswerKind::Ok if workflow.is_none() => AnswerKind::Unknown,
            answer => answer,
        };
        let workflow = workflow.filter(|_| answer == AnswerKind::Ok);
        let span = world.history.span(from_ms, answer);
        world.history.add(Event::Workflow {
            key: key.clone(),
            workflow: workflow.clone(),
            steps: vec![op],
            span,
        });
        if let Some(workflow) = workflow {
            world.workflows.borrow_mut().push(workflow.clone());
            let pause = Duration::from_millis(dice.random_range(0..800));
            spawn_local(signal(world.clone(), workflow, pause));
        }
        if answer != AnswerKind::Unknown {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Sends a signal until it is answered. Repetitions have the same body.
async fn signal(world: Rc<World>, workflow: String, pause: Duration) {
    sleep(pause).await;
    let value = world.number();
    let (path, body) = (format!("/v1/workflows/{workflow}/signals/go"), json!({"value": value}));
    for node in 0..TRIES_MAX {
        let from_ms = world.history.ms();
        let told = world.ask(node, &Ask::post(&path, &body)).await;
        let span = world.history.span(from_ms, kind_of(told.as_ref()));
        world.history.add(Event::Signal { workflow: workflow.clone(), value, span });
        if span.answer != AnswerKind::Unknown {
            return;
        }
        sleep(PAUSE).await;
    }
}

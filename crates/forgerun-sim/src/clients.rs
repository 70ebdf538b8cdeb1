//! Clients: submit, repeat after missing answers, cancel, retry, and try what is forbidden.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::audit::AuditActor;
use forgerun_core::command::{
    Cancel, Idempotency, JobPause, NewJob, Owned, QueueChange, QueueCommand, Submit,
};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Conflict, Head, IdempotencyKey, Input, Limit, Name, Rate, Unique};
use forgerun_core::queue::QueueId;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::{Command, Refusal};
use forgerun_engine::{AuditScope, Clock, Engine, Error, audited};

use crate::run::SimContext;
use crate::{flows, shares, subscribers, workflows};

const QUEUES: [&str; 3] = ["red", "green", "blue"];

pub(crate) fn queue(n: u64) -> Name {
    Name::new(QUEUES[(n % 3) as usize]).expect("a short name")
}

pub(crate) fn queues() -> Vec<Name> {
    (0..3).map(queue).collect()
}

pub(crate) const N_CLIENTS: u64 = 3;

/// One client: a number of actions, with pauses.
pub(crate) async fn live(context: Arc<SimContext>, number: u64, n_actions: u64) {
    let client = client(number);
    for action in 0..n_actions {
        context.world.pass(context.world.up_to_ms(3000)).await;
        let Some(engine) = context.nodes.any() else { continue };
        match context.world.below(10) {
            _ if context.receivers.is_some() && context.world.chance(150) => {
                subscribers::act(&context, &engine, client).await;
            }
            0 => cancel(&context, &engine, client).await,
            1 => retry(&context, &engine, client).await,
            2 if context.world.chance(500) => pause_job(&context, &engine, client).await,
            2 => pause(&context, &engine).await,
            3 => trespass(&context, &engine, client).await,
            4 => workflows::begin(&context, client, action).await,
            5 if context.world.chance(400) => flows::signal(&context, &engine, client).await,
            5 => workflows::signal(&context, &engine, client).await,
            _ => submit(&context, client, action).await,
        }
    }
}

/// Submits a job, repeatedly under the same key while the answer is uncertain.
async fn submit(context: &SimContext, client: ClientId, action: u64) {
    let key = context.world.chance(500).then(|| format!("key-{}", action / 2));
    let mut head = head(context, client);
    if key.is_some() {
        // A key is deleted with its job, and may then make another: not checked here.
        head.retention = None;
    }
    let input = Arc::new(Input { payload: vec![7; context.world.below(100) as usize], ..Input::default() });
    for _ in 0..5 {
        let Some(engine) = context.nodes.any() else { return };
        let mut head = head.clone();
        let idempotency = key.as_ref().map(|key| Idempotency {
            key: IdempotencyKey { client, operation: "submit".into(), key: key.clone() },
            fingerprint: [1; 32],
            too_late: false,
        });
        head.idempotency = idempotency.as_ref().map(|idempotency| idempotency.key.clone());
        let new = NewJob { id: engine.job_id(), id_given: false, head: Arc::new(head), input: input.clone() };
        let queue_max = context.world.chance(200).then_some(20);
        match engine.submit(Submit { jobs: vec![new], idempotency, queue_max, refuse_paused: false }).await {
            Ok((jobs, existing)) => {
                for job in &jobs {
                    context
                        .log
                        .note(|| format!("client {client} hears of {} (existing: {existing})", job.id));
                    // A job found by its unique key may have another idempotency key, or none.
                    let by_key =
                        !existing || job.head.idempotency.as_ref().map(|known| &known.key) == key.as_ref();
                    context.acknowledged.acknowledged(job, key.as_deref().filter(|_| by_key));
                }
                return;
            }
            // Without a key a repetition might make a second job, so this client does not repeat.
            Err(Error::Refused(_)) => return,
            Err(_) if key.is_none() => return,
            Err(_) => context.world.pass(Duration::from_millis(500)).await,
        }
    }
}

pub(crate) fn head(context: &SimContext, client: ClientId) -> Head {
    let world = &context.world;
    let now = world.now();
    let mut head = Head::new(client, queue(world.below(3)), now);
    head.priority = world.below(3) as i16 - 1;
    head.retry = if world.chance(500) { RetryPolicy::auto() } else { RetryPolicy::manual() };
    head.execution_at = world.chance(200).then(|| now + world.up_to_ms(20_000));
    head.expires_at = world.chance(100).then(|| now + world.up_to_ms(30_000));
    head.deadline = world.chance(100).then(|| now + world.up_to_ms(30_000));
    head.timeout = world.chance(300).then(|| Duration::from_millis(500) + world.up_to_ms(5000));
    head.lease = world.chance(300).then(|| Duration::from_millis(200) + world.up_to_ms(3000));
    head.retention = world.chance(100).then(|| world.up_to_ms(30_000));
    // One line, so that keys meet.
    let key = shares::key(world.below(3));
    if world.chance(300) {
        head.fair = key;
        head.priority = 0;
    }
    let limit = |key: &str| Limit {
        key: Name::new(key).expect("a short name"),
        concurrency: Some(2),
        rate: world.chance(500).then(|| Rate { count: 3, per: Duration::from_secs(1) }),
    };
    head.limits = match world.below(12) {
        0 => vec![limit("narrow")],
        1 => vec![limit("wide")],
        // In both orders: jobs must not wait for each other in a circle.
        2 => vec![limit("narrow"), limit("wide")],
        3 => vec![limit("wide"), limit("narrow")],
        _ => Vec::new(),
    };
    head.callback =
        (context.receivers.is_some() && world.chance(200)).then(|| format!("http://callback/{client}"));
    head.unique = world.chance(150).then(|| Unique {
        key: [world.below(3) as u8; 32],
        facets: Unique::UNFINISHED,
        until: None,
        on_conflict: [Conflict::Reject, Conflict::Ignore, Conflict::Replace][world.below(3) as usize],
    });
    head
}

async fn cancel(context: &SimContext, engine: &Engine, client: ClientId) {
    let Some(job) = context.acknowledged.some_job_of(client, context.world.roll()) else { return };
    let owned = Owned { job, client: Some(client) };
    let command = Command::Cancel(Cancel {
        owned,
        execution: None,
        by: "user".into(),
        reason: "changed my mind".into(),
        compensate: context.world.chance(800),
    });
    if let Ok((job, true)) = engine.act(command).await {
        context.log.note(|| format!("client {client} cancels {}", job.id));
        context.acknowledged.canceled(&job);
    }
}

async fn pause_job(context: &SimContext, engine: &Engine, client: ClientId) {
    let Some(job) = context.acknowledged.some_job_of(client, context.world.roll()) else { return };
    let paused = context.world.chance(400);
    if let Ok((job, true)) = engine.act(set_job_paused(job, client, paused)).await {
        context.log.note(|| format!("client {client} pauses {}: {paused}", job.id));
    }
}

/// A client pauses or resumes one of its jobs.
pub(crate) fn set_job_paused(job: JobId, client: ClientId, paused: bool) -> Command {
    Command::Pause(JobPause { owned: Owned { job, client: Some(client) }, paused })
}

async fn retry(context: &SimContext, engine: &Engine, client: ClientId) {
    let Some(job) = context.acknowledged.some_job_of(client, context.world.roll()) else { return };
    let owned = Owned { job, client: Some(client) };
    let afresh = context.world.chance(200);
    if let Ok((job, true)) = engine.retry(owned, afresh).await {
        context.log.note(|| format!("client {client} retries {}", job.id));
    }
}

async fn pause(context: &SimContext, engine: &Engine) {
    let queue = queue(context.world.below(3));
    let paused = context.world.chance(400);
    // Several processes never have one name; here they may, so that more of them meet.
    let node = format!("node-{}", context.world.below(3));
    let keep = Duration::from_secs(30);
    let by = AuditActor { actor: "operator".into(), node, keep, ..AuditActor::default() };
    let pausing = engine.run(set_paused(queue.clone(), paused));
    if audited(AuditScope { by, setup_only: false }, pausing).await.is_ok() {
        context.log.note(|| format!("queue {queue} paused: {paused}"));
    }
}

pub(crate) fn client(number: u64) -> ClientId {
    ClientId::from_u128(u128::from(number) + 1)
}

/// The operator pauses or resumes all queues of a name.
pub(crate) fn set_paused(queue: Name, paused: bool) -> Command {
    let change = QueueChange { paused: Some(paused), ..QueueChange::default() };
    Command::Queue(QueueCommand { queue: QueueId::shared(queue), change })
}

/// The jobs of other clients must be inaccessible.
async fn trespass(context: &SimContext, engine: &Engine, client: ClientId) {
    let stranger = ClientId::from_u128(client.as_u128() + 1000);
    let Some(job) = context.acknowledged.some_job_of(client, context.world.roll()) else { return };
    let owned = Owned { job, client: Some(stranger) };
    let command = Command::Cancel(Cancel {
        owned,
        execution: None,
        by: "stranger".into(),
        reason: String::new(),
        compensate: true,
    });
    match engine.act(command).await {
        Err(Error::Refused(Refusal::Foreign | Refusal::NotFound)) => {}
        Ok(_) | Err(Error::Refused(_)) => context.log.broken(format!("a stranger reached job {job}")),
        Err(_) => {}
    }
}

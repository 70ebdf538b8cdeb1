//! Workers: most do their work; some are slow, die with a job, hand it back, or report long after
//! they lost it.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Claim, Extend, Fail, Heartbeat, HeldJob, LeaseProof, Note, Output, Refusal, Succeed, WorkError,
    WorkerCommand, WorkerKind,
};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::worker::{WorkerFacts, WorkerId};
use forgerun_core::{Answer, Command, limits};
use forgerun_engine::Error;

use crate::Sabotage;
use crate::clients::{N_CLIENTS, client, queues};
use crate::flows;
use crate::run::SimContext;

#[derive(Clone, Copy, Debug)]
enum WorkerBehaviour {
    Good,
    /// Exceeds its lease without an extension, and reports all the same.
    Zombie,
    /// Disappears with the job.
    Dies,
    GivesBack,
}

/// One worker, until the run ends.
pub(crate) async fn live(context: Arc<SimContext>, number: u64) {
    let name = Name::new(&format!("worker-{number}")).expect("a short name");
    while !context.is_cleared() {
        let Some(engine) = context.nodes.any() else {
            context.world.pass(Duration::from_millis(200)).await;
            continue;
        };
        let owner = client(context.world.below(N_CLIENTS));
        let claim = Claim {
            worker: name.clone(),
            worker_kind: WorkerKind::External(Owner::client(owner)),
            queues: queues(),
            limit: 1 + context.world.below(4) as usize,
            lease: None,
            lease_default: Duration::from_secs(2),
            start: context.world.chance(700),
            active_max: context.world.chance(200).then_some(8),
        };
        let wait = Duration::from_millis(500) + context.world.up_to_ms(3000);
        let jobs = engine.claim(claim, wait).await.unwrap_or_default();
        // Drops the engine handle, so that a crash can destroy the engine.
        drop(engine);
        for job in &jobs {
            if job.head.client != owner {
                context.log.broken(format!("a worker of {owner} was given job {} of another", job.id));
            }
            context.acknowledged.claimed(job, name.as_str());
        }
        for job in jobs {
            work(&context, job).await;
        }
        context.world.pass(context.world.up_to_ms(50)).await;
    }
}

async fn work(context: &SimContext, job: Job) {
    let manner = match context.world.below(20) {
        _ if context.is_calm() => WorkerBehaviour::Good,
        0 | 1 => WorkerBehaviour::Dies,
        2..=4 => WorkerBehaviour::Zombie,
        5 => WorkerBehaviour::GivesBack,
        _ => WorkerBehaviour::Good,
    };
    let proof = match context.sabotage {
        Some(Sabotage::FencingOff) => LeaseProof::Anyone,
        _ => LeaseProof::Token(job.fence),
    };
    if context.world.chance(100) {
        meddle(context, &job).await;
    }
    let held = HeldJob { job: job.id, proof, client: Some(job.head.client) };
    if context.world.chance(300) {
        beat(context, &job, &held).await;
    }
    match manner {
        WorkerBehaviour::Dies => return context.log.note(|| format!("the holder of {} dies", job.id)),
        WorkerBehaviour::Zombie => {
            context.world.pass(Duration::from_secs(3) + context.world.up_to_ms(60_000)).await
        }
        WorkerBehaviour::GivesBack => {
            let _ = report(context, Command::HandBack(held)).await;
            return;
        }
        WorkerBehaviour::Good => {}
    }
    if job.started_at.is_none() && report(context, Command::Start(held.clone())).await.is_err() {
        return;
    }
    if !context.is_calm() && context.world.chance(100) {
        let Some(engine) = context.nodes.any() else { return };
        flows::add_steps(context, &engine, &job, held.clone()).await;
    }
    if !context.is_calm() && context.world.chance(100) {
        let _ = report(context, flows::wait_for_signal(context, held)).await;
        return;
    }
    for step in 0..context.world.below(4) {
        context.world.pass(context.world.up_to_ms(1500)).await;
        let note = Note::Progress { percent: 25 * step as u8, message: None };
        let extend = Extend { held: held.clone(), lease: None, note: Some(note) };
        if let Err(Error::Refused(_)) = report(context, Command::Extend(extend)).await {
            return;
        }
    }
    let command = end(context, held);
    if let Ok(after) = report(context, command).await {
        context.log.note(|| format!("token {} ends {}: {:?}", job.fence, job.id, after.state));
        context.acknowledged.ended(job.execution, job.attempt, job.fence, &after);
    }
}

/// A worker of another client uses the token: its report must be refused.
async fn meddle(context: &SimContext, job: &Job) {
    let stranger = match context.sabotage {
        Some(Sabotage::OwnershipOff) => None,
        _ => Some(ClientId::from_u128(job.head.client.as_u128() + 1000)),
    };
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: stranger };
    match report(context, Command::Succeed(Succeed { held, output: None })).await {
        Err(Error::Refused(Refusal::Foreign | Refusal::NotFound)) => {}
        Ok(_) | Err(Error::Refused(_)) => {
            context.log.broken(format!("a worker of another client was believed about job {}", job.id));
        }
        Err(_) => {}
    }
}

/// A heartbeat with a job that it holds, and one that does not exist.
async fn beat(context: &SimContext, job: &Job, held: &HeldJob) {
    let Some(engine) = context.nodes.any() else { return };
    let Some(name) = job.lease.as_ref().map(|lease| lease.worker.clone()) else { return };
    let nobodys = JobId::from_u128(u128::from(context.world.roll()));
    let beat = Heartbeat {
        worker: WorkerId { owner: job.head.owner(), name },
        state: None,
        facts: WorkerFacts::default(),
        jobs: vec![(job.id, held.proof.clone()), (nobodys, LeaseProof::Anyone)],
        lease: None,
    };
    if let Ok(Answer::Heartbeat(answer)) = engine.run(Command::Worker(WorkerCommand::Heartbeat(beat))).await
        && answer.extended.contains(&nobodys)
    {
        context.log.broken(format!("a heartbeat extended {nobodys}, which is no job"));
    }
}

fn end(context: &SimContext, held: HeldJob) -> Command {
    if context.world.chance(650) {
        let output = context.world.chance(500).then(|| {
            // Now and then a list, for steps with a job per element.
            if context.world.chance(700) {
                let list = vec!["7"; context.world.below(12) as usize].join(",");
                return Arc::new(Output::inline("application/json", format!("[{list}]")));
            }
            let bytes = vec![1; context.world.below(limits::NAME_BYTES_MAX as u64) as usize];
            Arc::new(Output::inline("application/octet-stream", bytes))
        });
        return Command::Succeed(Succeed { held, output });
    }
    let kind = if context.world.chance(500) { Kind::HandlerTransient } else { Kind::HandlerError };
    Command::Fail(Fail { held, error: WorkError::new(kind, "bad luck") })
}

/// Reports until it is acknowledged, a few times at most. An end that is refused after an uncertain
/// answer may have been accepted before, so the worker does not count it.
async fn report(context: &SimContext, command: Command) -> Result<Job, Error> {
    let mut last = Error::Stopped;
    for _ in 0..4 {
        let Some(engine) = context.nodes.any() else { break };
        match engine.act(command.clone()).await {
            Ok((job, _)) => return Ok(job),
            Err(Error::Refused(refusal)) => return Err(Error::Refused(refusal)),
            Err(error) => last = error,
        }
        drop(engine);
        context.world.pass(Duration::from_millis(200)).await;
    }
    Err(last)
}

//! Workers: most do their work; some are slow, die with a job in hand, give it back, or report long after they lost it.

use std::sync::Arc;
use std::time::Duration;

use forge_core::catalog::Kind;
use forge_core::command::{Claim, Extend, Fail, Held, Holder, Note, Output, Succeed, WorkError, WorkerKind};
use forge_core::job::{Job, Name};
use forge_core::{Command, limits};
use forge_engine::Error;

use crate::Sabotage;
use crate::clients::queues;
use crate::run::Stage;

/// What a worker does with a job it holds.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Good,
    /// Takes longer than its lease, without a sign of life, and reports all the same.
    Zombie,
    /// Goes away with the job in hand.
    Dies,
    /// Gives the job back.
    GivesBack,
}

/// One worker's life: until the stage is cleared.
pub(crate) async fn live(stage: Arc<Stage>, number: u64) {
    let name = Name::new(&format!("worker-{number}")).expect("a short name");
    while !stage.is_cleared() {
        let Some(engine) = stage.nodes.any() else {
            stage.world.pass(Duration::from_millis(200)).await;
            continue;
        };
        let claim = Claim {
            worker: name.clone(),
            worker_kind: WorkerKind::External,
            queues: queues(),
            limit: 1 + stage.world.below(4) as usize,
            lease: None,
            lease_default: Duration::from_secs(2),
            start: stage.world.chance(700),
            active_max: stage.world.chance(200).then_some(8),
        };
        let wait = Duration::from_millis(500) + stage.world.up_to_ms(3000);
        let jobs = engine.claim(claim, wait).await.unwrap_or_default();
        // Let go of the engine: a crash must be able to take it.
        drop(engine);
        for job in &jobs {
            stage.truth.claimed(job, name.as_str());
        }
        for job in jobs {
            work(&stage, job).await;
        }
        stage.world.pass(stage.world.up_to_ms(50)).await;
    }
}

async fn work(stage: &Stage, job: Job) {
    let manner = match stage.world.below(20) {
        _ if stage.is_calm() => Manner::Good,
        0 | 1 => Manner::Dies,
        2..=4 => Manner::Zombie,
        5 => Manner::GivesBack,
        _ => Manner::Good,
    };
    let holder = match stage.sabotage {
        Some(Sabotage::FencingOff) => Holder::Anyone,
        _ => Holder::Token(job.fence),
    };
    let held = Held { job: job.id, holder };
    match manner {
        Manner::Dies => return stage.story.tell(|| format!("the holder of {} dies", job.id)),
        Manner::Zombie => stage.world.pass(Duration::from_secs(3) + stage.world.up_to_ms(60_000)).await,
        Manner::GivesBack => {
            let _ = report(stage, Command::HandBack(held)).await;
            return;
        }
        Manner::Good => {}
    }
    if job.started_at.is_none() && report(stage, Command::Start(held.clone())).await.is_err() {
        return;
    }
    for step in 0..stage.world.below(4) {
        stage.world.pass(stage.world.up_to_ms(1500)).await;
        let note = Note::Progress { percent: 25 * step as u8, message: None };
        let extend = Extend { held: held.clone(), lease: None, note: Some(note) };
        if let Err(Error::Refused(_)) = report(stage, Command::Extend(extend)).await {
            return;
        }
    }
    let command = end(stage, held);
    if let Ok(after) = report(stage, command).await {
        stage.story.tell(|| format!("token {} ends {}: {:?}", job.fence, job.id, after.state));
        stage.truth.ended(job.execution, job.attempt, job.fence, &after);
    }
}

fn end(stage: &Stage, held: Held) -> Command {
    if stage.world.chance(650) {
        let output = stage.world.chance(500).then(|| {
            let bytes = vec![1; stage.world.below(limits::NAME_BYTES_MAX as u64) as usize];
            Arc::new(Output::inline("application/octet-stream", bytes))
        });
        return Command::Succeed(Succeed { held, output });
    }
    let kind = if stage.world.chance(500) { Kind::HandlerTransient } else { Kind::HandlerError };
    Command::Fail(Fail { held, error: WorkError::new(kind, "bad luck") })
}

/// Reports until it is heard, a few times at most. An end that is refused after an uncertain answer may have been
/// accepted before; the worker cannot know, and does not claim it.
async fn report(stage: &Stage, command: Command) -> Result<Job, Error> {
    let mut last = Error::Stopped;
    for _ in 0..4 {
        let Some(engine) = stage.nodes.any() else { break };
        match engine.act(command.clone()).await {
            Ok((job, _)) => return Ok(job),
            Err(Error::Refused(refusal)) => return Err(Error::Refused(refusal)),
            Err(error) => last = error,
        }
        drop(engine);
        stage.world.pass(Duration::from_millis(200)).await;
    }
    Err(last)
}

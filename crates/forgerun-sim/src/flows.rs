//! Handlers that wait for signals, and steps that they add to their workflows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use forgerun_core::command::{AddSteps, HeldJob, NewStep, Owned, SendSignal, SignalTarget, Snooze};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Head, Input, Job};
use forgerun_core::memo::{self, StepMemo};
use forgerun_core::workflow::{StepCondition, StepWork, Workflow};
use forgerun_core::{Answer, Command, Refusal};
use forgerun_engine::{Engine, Error};
use forgerun_store::Store;

use crate::clients;
use crate::run::SimContext;

/// What was acknowledged of both.
#[derive(Default)]
pub(crate) struct FlowLedger {
    /// Bodies of signals, by job and step.
    signals: Mutex<BTreeMap<(JobId, String), u8>>,
    /// Ids of added steps, by workflow.
    added: Mutex<BTreeSet<(JobId, String)>>,
}

const SIGNALS: u64 = 3;

/// The holder of a job hands it back until a signal, or for a while.
pub(crate) fn wait_for_signal(context: &SimContext, held: HeldJob) -> Command {
    let until_signal = Some(format!("s{}", context.world.below(SIGNALS)));
    Command::Snooze(Snooze { held, delay: context.world.up_to_ms(8000), until_signal })
}

/// Sends a signal to the handler of some job: early, in time, late, or twice.
pub(crate) async fn signal(context: &SimContext, engine: &Engine, client: ClientId) {
    let Some(job) = context.acknowledged.some_job_of(client, context.world.roll()) else { return };
    let name = format!("s{}", context.world.below(SIGNALS));
    let step = (job, memo::signal_step(&name));
    let to = SignalTarget::Job { job: Owned { job, client: Some(client) }, name };
    let body = context.world.below(2) as u8;
    let signal = SendSignal { to, body: vec![b'0' + body], digest: [body; 32] };
    for _ in 0..=context.world.below(3) {
        match engine.run(Command::Signal(Box::new(signal.clone()))).await {
            Ok(Answer::Done(_) | Answer::Unchanged(_)) => {
                let first = *context.flows.signals.lock().unwrap().entry(step.clone()).or_insert(body);
                if first != body {
                    context.log.broken(format!("signal {step:?} was accepted with {first} and with {body}"));
                }
            }
            Ok(answer) => context.log.broken(format!("a signal was answered with {answer:?}")),
            Err(Error::Refused(Refusal::Foreign)) => {
                context.log.broken(format!("client {client} may not signal its own job {job}"));
            }
            Err(_) => {}
        }
    }
}

/// The holder of a step adds steps behind it.
pub(crate) async fn add_steps(context: &SimContext, engine: &Engine, job: &Job, held: HeldJob) {
    let Some(step) = job.head.workflow else { return };
    let Ok(Some(read)) = engine.store().record::<Workflow>(step.workflow.to_string()).await else { return };
    let n_known = read.steps.len() as u32;
    let n_new = 1 + context.world.below(3) as u32;
    let steps: Vec<NewStep> = (0..n_new)
        .map(|n| NewStep {
            id: format!("added-{}", context.world.roll()),
            after: if n > 0 && context.world.chance(500) { vec![n_known + n - 1] } else { vec![step.index] },
            when: StepCondition::AllEnded,
            head: Arc::new(Head { unique: None, ..clients::head(context, job.head.client) }),
            input: Arc::new(Input::default()),
            compensation: None,
            work: StepWork::Job,
        })
        .collect();
    let ids: Vec<String> = steps.iter().map(|step| step.id.clone()).collect();
    let add = AddSteps { workflow: step.workflow, held, n_known, steps };
    if let Ok(Answer::Done(_)) = engine.run(Command::AddSteps(Box::new(add))).await {
        context.log.note(|| format!("job {} adds {n_new} steps to {}", job.id, step.workflow));
        context.flows.added.lock().unwrap().extend(ids.into_iter().map(|id| (step.workflow, id)));
    }
}

/// Acknowledged signals are recorded with their bodies, and acknowledged steps are in their
/// workflows.
pub(crate) async fn reckon(context: &SimContext, store: &dyn Store) {
    let signals = context.flows.signals.lock().unwrap().clone();
    for ((job, step), body) in signals {
        if store.job(job).await.expect("the store is calm").is_none() {
            continue;
        }
        let memo: Option<StepMemo> =
            store.record(StepMemo::key_of(job, &step).key).await.expect("the store is calm");
        let expected = [memo::SIGNAL_PREFIX, &[b'0' + body], b"}"].concat();
        if memo.as_ref().map(|memo| &memo.result) != Some(&expected) {
            context.log.broken(format!("{step} of job {job} is lost or replaced: {memo:?}"));
        }
    }
    let added = context.flows.added.lock().unwrap().clone();
    for (id, step) in added {
        let Some(_) = store.job(id).await.expect("the store is calm") else { continue };
        let workflow: Option<Workflow> = store.record(id.to_string()).await.expect("the store is calm");
        let has = workflow.is_some_and(|of| of.declared().any(|(_, declared)| declared.id == step));
        if !has {
            context.log.broken(format!("step {step} that was added to workflow {id} is lost"));
        }
    }
}

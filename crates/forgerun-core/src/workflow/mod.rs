//! Workflows: jobs that wait for each other.
//!
//! A workflow is a job of its own (its *conductor*), so that it has states, events, an outcome and a retention like any job; its items are
//! its steps. No worker ever holds it: it runs while its steps do, and ends as they did. Beside it stand two kinds of records:
//!
//! - [`Workflow`]: which step waits for which, and where each stands. Written whenever a step ends, so it is small.
//! - [`WorkflowPart`]: what the jobs of some steps will be. Written once.
//!
//! The job of a step is made when its turn comes, in the transaction that ends the last step it waited for. So a step that never
//! has its turn never was a job: it is in no queue, holds no key and need not be cancelled.
//!
//! What undoes a step, its *compensation*, is a step too, behind those of the request. It is skipped until compensation begins.

mod compensation;
mod graph;
mod layout;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::NewStep;
use crate::id::{ClientId, JobId};
use crate::item::{ItemError, Items};
use crate::job::{Cancellation, Head, Input, Name};
use crate::limits;
use crate::random::mix;
use crate::record::{RecordKey, Stored};
use crate::retry::RetryPolicy;
use crate::time::Time;

pub use graph::StepCounts;

/// The queue of its owner in which a workflow's own job is counted while it runs. Nobody can claim it there.
pub const QUEUE: &str = "forgerun.workflows";

/// What a job knows of the workflow that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowHead {
    /// How it was described.
    pub form: WorkflowForm,
    /// What the client calls it; may be empty.
    pub name: String,
}

impl WorkflowHead {
    /// The type of a workflow's own job.
    pub const JOB_TYPE: &str = "forgerun.workflow";

    /// The head of the own job of a workflow with so many steps. The rest of it is as for any job.
    pub fn own_job(self, client: ClientId, n_steps: usize, created_at: Time) -> Head {
        let n = u32::try_from(n_steps).unwrap_or(u32::MAX);
        Head {
            job_type: WorkflowHead::JOB_TYPE.into(),
            items: Some(Items { n, simulated: false }),
            retry: RetryPolicy { attempts_max: limits::EXECUTIONS_MAX as u32, ..RetryPolicy::manual() },
            workflow_head: Some(self),
            ..Head::new(client, Name::joined(QUEUE), created_at)
        }
    }
}

/// A place in a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkflowStep {
    /// The workflow's own job.
    pub workflow: JobId,
    /// The step within it.
    pub index: u32,
}

/// How a workflow was described. All are graphs; the form is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkflowForm {
    /// One step after the other.
    Chain = 0,
    /// All steps at once.
    Group = 1,
    /// A group, and steps that follow its end.
    Batch = 2,
    /// Each step names those it waits for.
    Graph = 3,
}

/// What the failure of a step means for the steps that do not wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FailurePolicy {
    /// They go on.
    #[default]
    Continue = 0,
    /// They are cancelled; steps that follow a failure or any end still have their turn.
    Stop = 1,
    /// Those that no worker holds are cancelled, the others end; then what succeeded is undone. Steps that follow a failure or any end
    /// still have their turn.
    Compensate = 2,
}

/// When a step has its turn, once the steps it waits for have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StepCondition {
    /// If all of them succeeded.
    #[default]
    AllSucceeded = 0,
    /// However they ended.
    AllEnded = 1,
    /// If one of them did not succeed.
    AnyFailed = 2,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StepState {
    /// For others to end.
    #[default]
    Waiting = 0,
    /// Its job is there.
    Released = 1,
    /// Its job succeeded.
    Succeeded = 2,
    /// Its job failed for good.
    Failed = 3,
    /// Its job was cancelled.
    Canceled = 4,
    /// Its turn never comes.
    Skipped = 5,
}

impl StepState {
    /// All six, in the order of their numbers.
    pub const ALL: [StepState; 6] = [
        StepState::Waiting,
        StepState::Released,
        StepState::Succeeded,
        StepState::Failed,
        StepState::Canceled,
        StepState::Skipped,
    ];

    /// Whether nothing happens to the step any more.
    pub const fn is_over(self) -> bool {
        !matches!(self, StepState::Waiting | StepState::Released)
    }
}

/// The structure of a workflow, and where its steps stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Its own job.
    pub id: JobId,
    /// Whose it is.
    pub client: ClientId,
    /// What the failure of a step means for the others.
    pub policy: FailurePolicy,
    /// The steps, in the order of the request.
    pub steps: Vec<GraphStep>,
    /// The first step of each [`WorkflowPart`].
    pub parts: Vec<u32>,
    /// Why steps did not succeed, in the order in which they ended.
    pub errors: Vec<StepError>,
    /// It was cancelled, and ends so once what it did is undone.
    pub canceling: Option<PendingCancel>,
}

/// A cancel that waits for compensations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCancel {
    /// Who asked for it, and why.
    pub cancellation: Cancellation,
    /// Whether a client asked for it, rather than the server or an operator.
    pub by_client: bool,
}

/// A step, as far as the others depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphStep {
    /// What the client calls it. Unique within its workflow; empty for a compensation.
    pub id: String,
    /// The steps it waits for, as they were named.
    pub after: Vec<u32>,
    /// When it has its turn.
    pub when: StepCondition,
    /// Where it stands.
    pub state: StepState,
    /// Counts the jobs that were made of it: another one is made if the workflow is retried after its job was cancelled.
    pub generation: u8,
    /// Its place in the order of successes, from 1; 0 if it never succeeded.
    pub nth_success: u32,
    /// Set for a compensation: the step that it undoes, which is the one it waits for.
    pub undoes: Option<u32>,
}

/// Why a step did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// Which step.
    pub step: u32,
    /// What went wrong.
    pub error: ItemError,
}

/// Why something is no workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadWorkflow {
    /// It has no step.
    Empty,
    /// It has more than [`limits::WORKFLOW_STEPS_MAX`] steps.
    TooManySteps,
    /// Its steps wait for more than [`limits::WORKFLOW_EDGES_MAX`] others in all.
    TooManyEdges,
    /// This step waits for one that is not there, or twice for the same.
    BadEdge(u32),
    /// This step waits for itself, by way of others.
    Cycle(u32),
    /// This step has a unique key. Its job is made later, when nobody is there to be told of a conflict.
    UniqueStep(u32),
}

impl Workflow {
    /// The workflow with its own job `id`, before anything has happened.
    pub fn new(
        id: JobId,
        client: ClientId,
        policy: FailurePolicy,
        steps: &[NewStep],
    ) -> Result<Workflow, BadWorkflow> {
        let declared = |new: &NewStep| GraphStep {
            id: new.id.clone(),
            after: new.after.clone(),
            when: new.when,
            ..GraphStep::default()
        };
        let is_unique = |new: &NewStep| {
            let undo = new.compensation.as_ref().map(|compensation| &compensation.head);
            undo.into_iter().chain([&new.head]).any(|head| head.unique.is_some())
        };
        if let Some(unique) = steps.iter().position(is_unique) {
            return Err(BadWorkflow::UniqueStep(unique as u32));
        }
        let mut graph: Vec<GraphStep> = steps.iter().map(declared).collect();
        graph::check(&graph)?;
        let with_compensation = (0..).zip(steps).filter(|(_, new)| new.compensation.is_some());
        graph.extend(with_compensation.map(|(index, _)| GraphStep::compensation(index)));
        Ok(Workflow {
            id,
            client,
            policy,
            steps: graph,
            parts: Vec::new(),
            errors: Vec::new(),
            canceling: None,
        })
    }

    /// The job of a step: its id follows from the workflow, the step and the generation. Jobs of one workflow are claimed in the order of
    /// its steps, because that is the order of these ids.
    pub fn job_of(&self, index: u32) -> JobId {
        let generation = self.steps.get(index as usize).map_or(0, |step| step.generation);
        step_job(self.id, index, generation)
    }

    /// The job of a step, if one was made of it.
    pub fn made_job(&self, index: u32) -> Option<JobId> {
        let step = self.steps.get(index as usize)?;
        let made = !matches!(step.state, StepState::Waiting | StepState::Skipped);
        made.then(|| self.job_of(index))
    }

    /// The key of the part that has the definition of a step.
    pub fn part_of(&self, index: u32) -> RecordKey {
        let n = self.parts.iter().take_while(|&&first| first <= index).count().saturating_sub(1);
        WorkflowPart::record_key(WorkflowPart::key_of(self.id, n as u32))
    }

    /// The keys of all its parts.
    pub fn part_keys(&self) -> impl Iterator<Item = RecordKey> + '_ {
        (0..self.parts.len()).map(|n| WorkflowPart::record_key(WorkflowPart::key_of(self.id, n as u32)))
    }

    /// The key of the workflow with this job.
    pub fn key_of(id: JobId) -> RecordKey {
        Workflow::record_key(id.to_string())
    }
}

fn step_job(workflow: JobId, index: u32, generation: u8) -> JobId {
    const LOW_62: u128 = (1 << 62) - 1;
    let bits = workflow.as_u128();
    let which = u64::from(index) << 8 | u64::from(generation);
    let hash = mix(mix((bits >> 64) as u64) ^ mix(bits as u64 ^ mix(which)));
    let unix_ms = (bits >> 80) as u64;
    JobId::v7(unix_ms, (u128::from(index) & 0xfff) << 62 | u128::from(hash) & LOW_62)
}

/// What the jobs of some steps will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowPart {
    /// Of which workflow.
    pub workflow: JobId,
    /// Which part, from 0.
    pub n: u32,
    /// Which step its first definition is of.
    pub first: u32,
    /// One definition per step.
    pub definitions: Vec<StepDefinition>,
}

/// What the job of a step will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepDefinition {
    /// All that is fixed about it.
    pub head: Arc<Head>,
    /// The raw bytes that go with it.
    pub input: Arc<Input>,
}

impl WorkflowPart {
    /// Divides the steps of a workflow, so that a step that has its turn loads little besides itself.
    pub fn divide(workflow: JobId, steps: &[NewStep]) -> Vec<WorkflowPart> {
        let mut parts: Vec<WorkflowPart> = Vec::new();
        let mut room = 0;
        for (index, (head, input)) in (0..).zip(definitions(steps)) {
            let size = input.payload.len() + input.meta.len() + input.extra.len();
            let is_full =
                |part: &WorkflowPart| part.definitions.len() >= limits::WORKFLOW_PART_STEPS || size > room;
            if parts.last().is_none_or(is_full) {
                let n = parts.len() as u32;
                parts.push(WorkflowPart { workflow, n, first: index, definitions: Vec::new() });
                room = limits::WORKFLOW_PART_BYTES;
            }
            room = room.saturating_sub(size);
            let definition = StepDefinition {
                head: Arc::new(Head {
                    workflow: Some(WorkflowStep { workflow, index }),
                    ..Head::clone(head)
                }),
                input: input.clone(),
            };
            parts.last_mut().expect("one was pushed").definitions.push(definition);
        }
        parts
    }

    /// The definition of a step, if this part has it. Those of compensations stand behind those of the steps.
    pub fn definition(&self, index: u32) -> Option<&StepDefinition> {
        self.definitions.get(index.checked_sub(self.first)? as usize)
    }
}

/// What the jobs of steps will be, and behind them those of compensations.
fn definitions(steps: &[NewStep]) -> impl Iterator<Item = (&Arc<Head>, &Arc<Input>)> {
    let compensations = steps.iter().filter_map(|step| step.compensation.as_ref());
    let declared = steps.iter().map(|step| (&step.head, &step.input));
    declared.chain(compensations.map(|compensation| (&compensation.head, &compensation.input)))
}

//! Workflows: jobs that depend on each other.
//!
//! A workflow is a job of its own (its *conductor*), so that it has states, events, an outcome and
//! a retention like any job; its items are its steps. No worker holds it: it runs while its steps
//! do, and ends as they did. Two kinds of records belong to it:
//!
//! - [`Workflow`]: the dependencies and states of its steps. Written whenever a step ends, so it is
//!   small.
//! - [`WorkflowPart`]: definitions of jobs of some steps. Written once.
//!
//! The job of a step is made when its turn comes, in the transaction that ends its last dependency.
//! So a step that never runs never was a job: it is in no queue, holds no key and need not be
//! cancelled.
//!
//! The *compensation* of a step, which undoes it, is a step too, behind those of the request. It is
//! skipped until compensation begins.
//!
//! A step may also be a workflow of its own, or a job per element of a list ([`StepWork`]). Then
//! the job of the step is that of a workflow or of a [`ForEach`]: a step and a conductor at once.
//! A step may be a [`Wait`] instead of work: its job ends by time, or by a [`Signal`].

mod compensation;
mod for_each;
mod graph;
mod layout;
mod wait;
mod work;

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

pub use for_each::{ElementPart, ElementState, ElementTemplate, ForEach};
pub use graph::StepCounts;
pub use wait::{Signal, SignalToken, SignalWait, Wait, is_signal_name};
pub use work::{ArgsPiece, ForEachPlan, NestedWorkflow, StepKind, StepWork};

/// The owner's queue in which a running workflow's own job is counted. No worker can claim it
/// there.
pub const QUEUE: &str = "forgerun.workflows";

/// Set in the head of a workflow's own job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowHead {
    pub form: WorkflowForm,
    /// The client's name for it; may be empty.
    pub name: String,
}

impl WorkflowHead {
    pub const JOB_TYPE: &str = "forgerun.workflow";

    /// Type of the own jobs of workflows that are steps. They are not listed among the workflows.
    pub const NESTED_JOB_TYPE: &str = "forgerun.workflow.nested";

    /// The head of a workflow's own job, with this many steps.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkflowStep {
    pub workflow: JobId,
    pub index: u32,
}

/// How the client described the workflow. All are graphs internally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkflowForm {
    /// One step after the other.
    Chain = 0,
    Group = 1,
    /// A group, and steps that follow its end.
    Batch = 2,
    /// Each step names its dependencies.
    Graph = 3,
    /// Not a workflow: a job per element of a list, see [`ForEach`].
    ForEach = 4,
}

/// How a failed step affects steps that do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FailurePolicy {
    #[default]
    Continue = 0,
    /// They are cancelled; steps that follow a failure or any end still run.
    Stop = 1,
    /// Waiting ones are cancelled, active ones end; then the successful steps are undone. Steps
    /// that follow a failure or any end still run.
    Compensate = 2,
}

/// When a step runs, once its dependencies have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StepCondition {
    /// If all of them succeeded.
    #[default]
    AllSucceeded = 0,
    AllEnded = 1,
    /// If one of them did not succeed.
    AnyFailed = 2,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StepState {
    #[default]
    Waiting = 0,
    Released = 1,
    Succeeded = 2,
    /// Its job failed without a retry left.
    Failed = 3,
    Canceled = 4,
    Skipped = 5,
}

impl StepState {
    /// All states, in the order of their numbers.
    pub const ALL: [StepState; 6] = [
        StepState::Waiting,
        StepState::Released,
        StepState::Succeeded,
        StepState::Failed,
        StepState::Canceled,
        StepState::Skipped,
    ];

    /// Whether the step has ended or was skipped.
    pub const fn is_over(self) -> bool {
        !matches!(self, StepState::Waiting | StepState::Released)
    }
}

/// The structure of a workflow, and the states of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    pub id: JobId,
    pub client: ClientId,
    /// How a failed step affects the others.
    pub policy: FailurePolicy,
    /// In the order of the request, then compensations.
    pub steps: Vec<GraphStep>,
    /// The first step of each [`WorkflowPart`].
    pub parts: Vec<u32>,
    /// Errors of steps, in the order in which they ended.
    pub errors: Vec<StepError>,
    /// Set if it ends as cancelled once its compensations are done.
    pub canceling: Option<PendingCancel>,
    /// Set for a workflow that is a step: which one.
    pub outer: Option<WorkflowStep>,
}

/// A cancel that waits for compensations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCancel {
    /// Who asked for it, and why.
    pub cancellation: Cancellation,
    /// Whether a client asked for it, rather than the server or an operator.
    pub by_client: bool,
}

/// A node of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphStep {
    /// The client's name for the step. Unique within its workflow; empty for a compensation.
    pub id: String,
    /// Dependencies, in the order in which they were named.
    pub after: Vec<u32>,
    pub when: StepCondition,
    pub state: StepState,
    /// Number of jobs made for it: a new one is made if the workflow is retried after its job was
    /// cancelled.
    pub generation: u8,
    /// Position in the order of successes, from 1; 0 if it never succeeded.
    pub nth_success: u32,
    /// Set for a compensation: the step that it undoes, and depends on.
    pub undoes: Option<u32>,
    /// The signal that it waits for, if it does.
    pub signal: Option<String>,
    /// Whether that signal came before its turn, and is kept.
    pub is_signaled: bool,
    pub kind: StepKind,
}

impl GraphStep {
    fn declared(new: &NewStep) -> GraphStep {
        GraphStep {
            id: new.id.clone(),
            after: new.after.clone(),
            when: new.when,
            kind: new.work.kind(),
            signal: new.head.wait.as_deref().and_then(Wait::signal).map(|signal| signal.name.clone()),
            ..GraphStep::default()
        }
    }
}

/// Why a step did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    pub step: u32,
    pub error: ItemError,
}

/// Why a workflow is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadWorkflow {
    Empty,
    /// More than [`limits::WORKFLOW_STEPS_MAX`] steps.
    TooManySteps,
    /// More than [`limits::WORKFLOW_EDGES_MAX`] dependencies in all.
    TooManyEdges,
    /// This step depends on one that does not exist, or twice on the same.
    BadEdge(u32),
    /// This step depends on itself, through others.
    Cycle(u32),
    /// This step has a unique key. Its job is made later, when no caller can get the refusal.
    UniqueStep(u32),
    /// Nested deeper than [`limits::WORKFLOW_DEPTH_MAX`].
    TooDeep,
    /// All `for_each` in it run more than [`limits::PARALLEL_MAX`] elements at once.
    TooParallel,
    /// This step takes its elements from a step that it does not depend on.
    BadSource(u32),
    /// This step waits for a signal that an earlier one waits for, too.
    SameSignal(u32),
}

impl Workflow {
    /// The workflow with its own job `id`, before its first step.
    pub fn new(
        id: JobId,
        client: ClientId,
        policy: FailurePolicy,
        steps: &[NewStep],
    ) -> Result<Workflow, BadWorkflow> {
        let mut workflow = Workflow { policy, ..Workflow::without_steps(id, client) };
        workflow.add(steps)?;
        Ok(workflow)
    }

    pub fn without_steps(id: JobId, client: ClientId) -> Workflow {
        Workflow {
            id,
            client,
            policy: FailurePolicy::Continue,
            steps: Vec::new(),
            parts: Vec::new(),
            errors: Vec::new(),
            canceling: None,
            outer: None,
        }
    }

    /// Adds steps and their compensations behind the others. On an error the workflow is unusable.
    pub(crate) fn add(&mut self, steps: &[NewStep]) -> Result<(), BadWorkflow> {
        let first = self.steps.len() as u32;
        self.steps.extend(steps.iter().map(GraphStep::declared));
        graph::check(&self.steps)?;
        work::check(steps, self.steps.len() as u32, 0)?;
        let undone =
            (first..).zip(steps).filter_map(|(index, new)| Some((index, new.compensation.as_ref()?)));
        self.steps.extend(undone.map(|(index, undo)| GraphStep::compensation(index, undo.work.kind())));
        Ok(())
    }

    /// The step that waits for this signal.
    pub fn signaled(&self, name: &str) -> Option<u32> {
        let position = self.steps.iter().position(|step| step.signal.as_deref() == Some(name));
        position.map(|index| index as u32)
    }

    /// Notes that the signal of a step came before its turn.
    pub(crate) fn keep_signal(&mut self, index: u32) {
        self.steps[index as usize].is_signaled = true;
    }

    /// Whether the signal of a step was kept; it no longer is.
    pub(crate) fn take_signal(&mut self, index: u32) -> bool {
        self.steps.get_mut(index as usize).is_some_and(|step| core::mem::take(&mut step.is_signaled))
    }

    /// Keys of kept signals, this step's first: a bounded number, to be loaded together.
    pub(crate) fn kept_signals(&self, first: u32) -> Vec<RecordKey> {
        let others = self.steps.iter().enumerate().filter(|(index, _)| *index != first as usize);
        let steps = self.steps.get(first as usize).into_iter().chain(others.map(|(_, step)| step));
        let kept = steps.filter(|step| step.is_signaled).filter_map(|step| step.signal.as_deref());
        kept.map(|name| Signal::key_of(self.id, name)).take(limits::SIGNALS_LOADED_MAX).collect()
    }

    /// The id of the job of a step: derived from workflow, step and generation. The order of these
    /// ids is that of the steps, so jobs of one workflow are claimed in the order of its steps.
    pub fn job_of(&self, index: u32) -> JobId {
        let generation = self.steps.get(index as usize).map_or(0, |step| step.generation);
        step_job(self.id, index, generation)
    }

    /// The job of a step, if one was made.
    pub fn made_job(&self, index: u32) -> Option<JobId> {
        let step = self.steps.get(index as usize)?;
        let made = !matches!(step.state, StepState::Waiting | StepState::Skipped);
        made.then(|| self.job_of(index))
    }

    /// Key of the part with the definition of a step.
    pub fn part_of(&self, index: u32) -> RecordKey {
        let n = self.parts.iter().take_while(|&&first| first <= index).count().saturating_sub(1);
        WorkflowPart::record_key(WorkflowPart::key_of(self.id, n as u32))
    }

    pub fn part_keys(&self) -> impl Iterator<Item = RecordKey> + '_ {
        (0..self.parts.len()).map(|n| WorkflowPart::record_key(WorkflowPart::key_of(self.id, n as u32)))
    }

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowPart {
    pub workflow: JobId,
    /// Number of the part, from 0.
    pub n: u32,
    /// The step of its first definition.
    pub first: u32,
    pub definitions: Vec<StepDefinition>,
}

/// The job that a step becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepDefinition {
    /// Of the job itself; for `for_each` that of its elements.
    pub head: Arc<Head>,
    pub input: Arc<Input>,
    pub work: StepWork,
}

impl WorkflowPart {
    /// Divides the steps, so that a ready step loads little besides itself. `n` is the number of
    /// the first part, `first` the position of the first step.
    pub fn divide(workflow: JobId, n: u32, first: u32, steps: &[NewStep]) -> Vec<WorkflowPart> {
        let mut parts: Vec<WorkflowPart> = Vec::new();
        let mut room = 0;
        for (index, (head, input, work)) in (first..).zip(definitions(steps)) {
            let size = work::input_bytes(input) + work.nested_bytes();
            let is_full =
                |part: &WorkflowPart| part.definitions.len() >= limits::WORKFLOW_PART_STEPS || size > room;
            if parts.last().is_none_or(is_full) {
                let n = n + parts.len() as u32;
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
                work: work.clone(),
            };
            parts.last_mut().expect("one was pushed").definitions.push(definition);
        }
        parts
    }

    /// The definition of a step, if this part has it. Those of compensations follow those of the
    /// steps.
    pub fn definition(&self, index: u32) -> Option<&StepDefinition> {
        self.definitions.get(index.checked_sub(self.first)? as usize)
    }
}

/// Definitions of steps, followed by those of compensations.
fn definitions(steps: &[NewStep]) -> impl Iterator<Item = (&Arc<Head>, &Arc<Input>, &StepWork)> {
    let compensations = steps.iter().filter_map(|step| step.compensation.as_ref());
    let declared = steps.iter().map(|step| (&step.head, &step.input, &step.work));
    declared.chain(compensations.map(|undo| (&undo.head, &undo.input, &undo.work)))
}

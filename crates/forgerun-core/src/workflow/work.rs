//! What a step is made of: a job, a workflow, or a job per element of a list.

pub(super) mod layout;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{BadWorkflow, FailurePolicy, GraphStep, graph};
use crate::command::NewStep;
use crate::id::JobId;
use crate::job::Input;
use crate::limits;

/// What is made when a step is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StepWork {
    #[default]
    Job,
    /// A workflow; the head of the definition is that of its own job.
    Workflow(Arc<NestedWorkflow>),
    /// A job per element; the head of the definition is that of the elements.
    ForEach(Arc<ForEachPlan>),
    /// For a compensation: a workflow that undoes the steps of a nested one that succeeded, the
    /// newest first. `None` means the nested workflow of the step that is undone.
    Undo(Option<JobId>),
}

/// [`StepWork`] without its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum StepKind {
    #[default]
    Job = 0,
    /// Its job is the own job of a workflow.
    Workflow = 1,
    /// Its job is the own job of a `for_each`.
    ForEach = 2,
}

/// A workflow that is a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedWorkflow {
    pub policy: FailurePolicy,
    pub steps: Vec<NewStep>,
}

/// A step for each element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForEachPlan {
    /// The step whose result has the list.
    pub source: u32,
    /// JSON pointer to the list; empty for the whole result.
    pub pointer: String,
    /// Elements that run at once.
    pub parallel: u32,
    /// The arguments of an element.
    pub args: Vec<ArgsPiece>,
}

/// A piece of the arguments of an element, which are JSON once put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgsPiece {
    Text(Vec<u8>),
    /// The element.
    Item,
    /// Its position, from 0.
    Index,
}

impl StepWork {
    pub fn kind(&self) -> StepKind {
        match self {
            StepWork::Job => StepKind::Job,
            StepWork::Workflow(_) | StepWork::Undo(_) => StepKind::Workflow,
            StepWork::ForEach(_) => StepKind::ForEach,
        }
    }

    /// Roughly the bytes of the inputs of nested steps.
    pub(crate) fn nested_bytes(&self) -> usize {
        const PER_STEP: usize = 256;
        let of_step = |step: &NewStep| {
            let undo = step.compensation.as_ref();
            let undo = undo.map_or(0, |undo| PER_STEP + input_bytes(&undo.input) + undo.work.nested_bytes());
            PER_STEP + input_bytes(&step.input) + step.work.nested_bytes() + undo
        };
        match self {
            StepWork::Workflow(nested) => nested.steps.iter().map(of_step).sum(),
            StepWork::Job | StepWork::ForEach(_) | StepWork::Undo(_) => 0,
        }
    }
}

pub(super) fn input_bytes(input: &Input) -> usize {
    input.payload.len() + input.meta.len() + input.extra.len()
}

impl ForEachPlan {
    /// The arguments of an element.
    pub(crate) fn args_of(args: &[ArgsPiece], item: &[u8], index: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in args {
            match piece {
                ArgsPiece::Text(text) => bytes.extend_from_slice(text),
                ArgsPiece::Item => bytes.extend_from_slice(item),
                ArgsPiece::Index => bytes.extend_from_slice(alloc::format!("{index}").as_bytes()),
            }
        }
        bytes
    }

    /// Bytes of the arguments of an element of this size, roughly.
    pub(crate) fn args_bytes(args: &[ArgsPiece], item: usize) -> usize {
        let size = |piece: &ArgsPiece| match piece {
            ArgsPiece::Text(text) => text.len(),
            ArgsPiece::Item => item,
            ArgsPiece::Index => 5,
        };
        args.iter().map(size).sum()
    }
}

/// Totals of a workflow and of all workflows within it.
#[derive(Default)]
struct Totals {
    steps: usize,
    parallel: u64,
}

/// Checks what steps are made of, down to the last level. `n_steps` is the number of steps beside
/// and including them.
pub(super) fn check(steps: &[NewStep], n_steps: u32, depth: usize) -> Result<(), BadWorkflow> {
    let mut totals = Totals::default();
    check_level(steps, n_steps, depth, &mut totals)?;
    match totals {
        Totals { steps, .. } if steps > limits::WORKFLOW_STEPS_IN_ALL_MAX => Err(BadWorkflow::TooManySteps),
        Totals { parallel, .. } if parallel > limits::PARALLEL_MAX.into() => Err(BadWorkflow::TooParallel),
        Totals { .. } => Ok(()),
    }
}

fn check_level(
    steps: &[NewStep],
    n_steps: u32,
    depth: usize,
    totals: &mut Totals,
) -> Result<(), BadWorkflow> {
    totals.steps += steps.len();
    for (index, step) in (0..).zip(steps) {
        let undo = step.compensation.as_ref();
        if undo.map(|undo| &undo.head).into_iter().chain([&step.head]).any(|head| head.unique.is_some()) {
            return Err(BadWorkflow::UniqueStep(index));
        }
        match &step.work {
            StepWork::Job | StepWork::Undo(_) => {}
            StepWork::ForEach(plan) => {
                if plan.source >= n_steps || !step.after.contains(&plan.source) {
                    return Err(BadWorkflow::BadSource(index));
                }
                totals.parallel += u64::from(plan.parallel);
            }
            StepWork::Workflow(_) if depth >= limits::WORKFLOW_DEPTH_MAX => return Err(BadWorkflow::TooDeep),
            StepWork::Workflow(nested) => {
                let level: Vec<GraphStep> = nested.steps.iter().map(GraphStep::declared).collect();
                graph::check(&level)?;
                check_level(&nested.steps, nested.steps.len() as u32, depth + 1, totals)?;
            }
        }
    }
    Ok(())
}

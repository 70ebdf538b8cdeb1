//! How much of a transaction a command uses.

use alloc::vec::Vec;

use super::{AuditedChange, Command, Content, ListRead, NewStep, Output, Submit};
use crate::job::Input;
use crate::limits::{WEIGHED_BYTES, WORKFLOW_WEIGHT};

impl Command {
    /// Roughly how many jobs the command may write; bytes count as jobs, too. Limits the size of
    /// batches, so that a few large commands do not delay all others.
    pub fn weight(&self) -> usize {
        match self {
            Command::Submit(submit) => of_jobs(submit),
            Command::Workflow(workflow) => {
                of_jobs(&workflow.submit) + workflow.steps.iter().map(of_step).sum::<usize>()
            }
            Command::AddSteps(add) => add.steps.iter().map(of_step).sum::<usize>() + WORKFLOW_WEIGHT,
            Command::ListElements(list) => match &list.read {
                ListRead::Elements { elements, .. } => {
                    let n_bytes = elements.iter().map(Vec::len).sum::<usize>();
                    WORKFLOW_WEIGHT + elements.len() / WORKFLOW_WEIGHT + n_bytes / WEIGHED_BYTES
                }
                ListRead::Failed(_) => WORKFLOW_WEIGHT,
            },
            Command::Signal(signal) => signal.weight(),
            Command::Claim(claim) => claim.limit.max(1),
            Command::Due(n_jobs) => *n_jobs,
            Command::Cancel(_) | Command::Pause(_) | Command::Retry(_) | Command::Forget(_) => {
                WORKFLOW_WEIGHT
            }
            Command::Audited(audited) => match &audited.change {
                AuditedChange::Command(command) => command.weight(),
                AuditedChange::Event(_) => 1,
            },
            Command::Succeed(succeed) => succeed.output.as_deref().map_or(1, of_output),
            Command::Upload(upload) => of_output(&upload.output),
            _ => 1,
        }
    }
}

fn of_jobs(submit: &Submit) -> usize {
    submit.jobs.iter().map(|job| of_input(&job.input)).sum()
}

fn of_step(step: &NewStep) -> usize {
    let undo = step.compensation.as_ref();
    let undo = undo.map_or(0, |undo| of_input(&undo.input) + undo.work.nested_bytes() / WEIGHED_BYTES);
    of_input(&step.input) + step.work.nested_bytes() / WEIGHED_BYTES + undo
}

fn of_input(input: &Input) -> usize {
    let n_bytes = input.payload.len() + input.meta.len() + input.extra.len();
    1 + n_bytes / WEIGHED_BYTES + input.items.len() / WORKFLOW_WEIGHT
}

fn of_output(output: &Output) -> usize {
    match &output.content {
        Content::Inline(bytes) => 1 + bytes.len() / WEIGHED_BYTES,
        Content::Stored(_) => 1,
    }
}

//! How much of a transaction a command uses.

use super::{AuditedChange, Command, Content, Output, Submit};
use crate::job::Input;
use crate::limits::{WEIGHED_BYTES, WORKFLOW_WEIGHT};

impl Command {
    /// Roughly how many jobs the command may write; bytes count as jobs, too. Limits the size of
    /// batches, so that a few large commands do not delay all others.
    pub fn weight(&self) -> usize {
        match self {
            Command::Submit(submit) => of_jobs(submit),
            Command::Workflow(workflow) => {
                let inputs = workflow.steps.iter().flat_map(|step| {
                    let compensation = step.compensation.as_ref().map(|compensation| &compensation.input);
                    compensation.into_iter().chain([&step.input])
                });
                of_jobs(&workflow.submit) + inputs.map(|input| of_input(input)).sum::<usize>()
            }
            Command::Claim(claim) => claim.limit.max(1),
            Command::Due(n_jobs) => *n_jobs,
            Command::Cancel(_) | Command::Retry(_) | Command::Forget(_) => WORKFLOW_WEIGHT,
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

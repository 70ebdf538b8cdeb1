//! The stored form of a workflow and its parts.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::work::layout::{read_definition, write_definition};
use super::{
    FailurePolicy, GraphStep, PendingCancel, StepCondition, StepError, StepKind, StepState, Workflow,
    WorkflowPart, WorkflowStep,
};
use crate::catalog::Kind;
use crate::codec::{Corrupt, Fields, Writer, put_varint, take_varint};
use crate::id::{ClientId, JobId};
use crate::item::ItemError;
use crate::job::Cancellation;
use crate::record::{RecordKind, Stored};

impl Stored for Workflow {
    const KIND: RecordKind = RecordKind::Workflow;

    fn key(&self) -> String {
        self.id.to_string()
    }

    /// Never due: deleted with its own job.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(48 + self.steps.len() * 24);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.id.to_bytes());
        out.bytes(2, &self.client.to_bytes());
        out.number(3, self.policy as u64);
        out.bytes(4, &numbers(&self.parts));
        for step in &self.steps {
            out.group(5, |out| {
                out.text(1, Some(&step.id));
                if !step.after.is_empty() {
                    out.bytes(2, &numbers(&step.after));
                }
                out.number(3, step.when as u64);
                out.number(4, step.state as u64);
                out.number(5, u64::from(step.generation));
                out.number(6, u64::from(step.nth_success));
                out.number(7, step.undoes.map_or(0, |step| u64::from(step) + 1));
                out.number(20, step.kind as u64);
                out.text(8, step.signal.as_deref());
                out.flag(9, step.is_signaled);
            });
        }
        for error in &self.errors {
            out.group(6, |out| write_error(error, out));
        }
        if let Some(PendingCancel { cancellation, by_client }) = &self.canceling {
            out.group(7, |out| {
                out.text(1, Some(&cancellation.by));
                out.text(2, Some(&cancellation.reason));
                out.flag(3, *by_client);
            });
        }
        if let Some(outer) = &self.outer {
            out.group(20, |out| write_place(outer, out));
        }
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<Workflow, Corrupt> {
        let id: JobId = key.parse().map_err(|_| Corrupt)?;
        let mut workflow = Workflow::without_steps(id, ClientId::from_u128(0));
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                2 => workflow.client = ClientId::from_u128(field.id()?),
                3 => workflow.policy = pick(field.number()?, &POLICIES)?,
                4 => workflow.parts = read_numbers(field.bytes)?,
                5 => workflow.steps.push(read_step(field.bytes)?),
                6 => workflow.errors.push(read_error(field.bytes)?),
                7 => workflow.canceling = Some(read_cancel(field.bytes)?),
                20 => workflow.outer = Some(read_place(field.bytes)?),
                _ => {}
            }
        }
        let n = workflow.steps.len();
        let known = |&index: &u32| (index as usize) < n;
        let sound = workflow.steps.iter().all(|step| step.after.iter().chain(&step.undoes).all(known))
            && workflow.errors.iter().all(|error| known(&error.step));
        if sound { Ok(workflow) } else { Err(Corrupt) }
    }
}

pub(super) fn write_place(step: &WorkflowStep, out: &mut Writer<'_>) {
    out.bytes(1, &step.workflow.to_bytes());
    out.number(2, u64::from(step.index));
}

pub(super) fn read_place(bytes: &[u8]) -> Result<WorkflowStep, Corrupt> {
    let mut step = WorkflowStep { workflow: JobId::from_u128(0), index: 0 };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => step.workflow = JobId::from_u128(field.id()?),
            2 => step.index = field.small()?,
            _ => {}
        }
    }
    Ok(step)
}

pub(super) const POLICIES: [FailurePolicy; 3] =
    [FailurePolicy::Continue, FailurePolicy::Stop, FailurePolicy::Compensate];

pub(super) const CONDITIONS: [StepCondition; 3] =
    [StepCondition::AllSucceeded, StepCondition::AllEnded, StepCondition::AnyFailed];

fn read_step(bytes: &[u8]) -> Result<GraphStep, Corrupt> {
    let mut step = GraphStep::default();
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => step.id = field.text()?,
            2 => step.after = read_numbers(field.bytes)?,
            3 => step.when = pick(field.number()?, &CONDITIONS)?,
            4 => step.state = pick(field.number()?, &StepState::ALL)?,
            5 => step.generation = field.small()?,
            6 => step.nth_success = field.small()?,
            7 => step.undoes = field.small::<u32>()?.checked_sub(1),
            20 => step.kind = pick(field.number()?, &StepKind::ALL)?,
            8 => step.signal = Some(field.text()?),
            9 => step.is_signaled = field.flag()?,
            _ => {}
        }
    }
    Ok(step)
}

pub(super) fn write_error(StepError { step, error }: &StepError, out: &mut Writer<'_>) {
    out.number(1, u64::from(*step));
    out.text(2, Some(error.kind.name()));
    out.text(3, Some(&error.message));
    out.flag(4, error.retryable);
}

pub(super) fn read_error(bytes: &[u8]) -> Result<StepError, Corrupt> {
    let error = ItemError { kind: Kind::HandlerError, message: String::new(), retryable: false };
    let mut found = StepError { step: 0, error };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => found.step = field.small()?,
            2 => found.error.kind = Kind::from_name(field.str()?).ok_or(Corrupt)?,
            3 => found.error.message = field.text()?,
            4 => found.error.retryable = field.flag()?,
            _ => {}
        }
    }
    Ok(found)
}

fn read_cancel(bytes: &[u8]) -> Result<PendingCancel, Corrupt> {
    let cancellation = Cancellation { by: String::new(), reason: String::new() };
    let mut found = PendingCancel { cancellation, by_client: false };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => found.cancellation.by = field.text()?,
            2 => found.cancellation.reason = field.text()?,
            3 => found.by_client = field.flag()?,
            _ => {}
        }
    }
    Ok(found)
}

impl WorkflowPart {
    pub fn key_of(workflow: JobId, n: u32) -> String {
        format!("{workflow}/{n:04}")
    }
}

impl Stored for WorkflowPart {
    const KIND: RecordKind = RecordKind::WorkflowPart;

    fn key(&self) -> String {
        WorkflowPart::key_of(self.workflow, self.n)
    }

    fn group(&self) -> String {
        self.workflow.to_string()
    }

    /// Never due: deleted with its workflow.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer(&mut bytes);
        out.number(1, u64::from(self.first));
        for definition in &self.definitions {
            out.group(2, |out| write_definition(definition, out));
        }
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<WorkflowPart, Corrupt> {
        let (workflow, n) = key.split_once('/').ok_or(Corrupt)?;
        let workflow = workflow.parse().map_err(|_| Corrupt)?;
        let n = n.parse().map_err(|_| Corrupt)?;
        let mut part = WorkflowPart { workflow, n, first: 0, definitions: Vec::new() };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => part.first = field.small()?,
                2 => part.definitions.push(read_definition(field.bytes, 0)?),
                _ => {}
            }
        }
        Ok(part)
    }
}

pub(super) fn numbers(numbers: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * 2);
    numbers.iter().for_each(|&number| put_varint(&mut bytes, u64::from(number)));
    bytes
}

pub(super) fn read_numbers(mut bytes: &[u8]) -> Result<Vec<u32>, Corrupt> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(u32::try_from(take_varint(&mut bytes)?).map_err(|_| Corrupt)?);
    }
    Ok(numbers)
}

pub(super) fn pick<T: Copy>(number: u64, all: &[T]) -> Result<T, Corrupt> {
    usize::try_from(number).ok().and_then(|number| all.get(number)).copied().ok_or(Corrupt)
}

//! The stored form of what steps are made of.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{ArgsPiece, ForEachPlan, NestedWorkflow, StepWork};
use crate::codec::{Corrupt, Fields, Writer};
use crate::command::NewStep;
use crate::id::JobId;
use crate::job::{Head, Input};
use crate::limits;
use crate::workflow::layout::{CONDITIONS, POLICIES, numbers, pick, read_numbers};
use crate::workflow::{FailurePolicy, StepCondition, StepDefinition};

pub(in crate::workflow) fn write_definition(definition: &StepDefinition, out: &mut Writer<'_>) {
    let StepDefinition { head, input, work } = definition;
    write_work(head, input, work, out);
}

fn write_work(head: &Head, input: &Input, work: &StepWork, out: &mut Writer<'_>) {
    out.bytes(1, &head.encode());
    if !input.is_empty() {
        out.bytes(2, &input.encode());
    }
    match work {
        StepWork::Job => {}
        StepWork::Workflow(nested) => out.group(20, |out| {
            out.number(1, nested.policy as u64);
            nested.steps.iter().for_each(|step| out.group(2, |out| write_step(step, out)));
        }),
        StepWork::ForEach(plan) => out.group(21, |out| {
            out.number(1, u64::from(plan.source));
            out.text(2, Some(&plan.pointer));
            out.number(3, u64::from(plan.parallel));
            write_args(&plan.args, out);
        }),
        StepWork::Undo(of) => out.bytes(22, &of.unwrap_or(JobId::from_u128(0)).to_bytes()),
    }
}

fn write_step(step: &NewStep, out: &mut Writer<'_>) {
    out.text(1, Some(&step.id));
    if !step.after.is_empty() {
        out.bytes(2, &numbers(&step.after));
    }
    out.number(3, step.when as u64);
    out.group(4, |out| write_work(&step.head, &step.input, &step.work, out));
    if let Some(undo) = &step.compensation {
        out.group(5, |out| write_definition(undo, out));
    }
}

/// Pieces as fields 4 to 6.
pub(in crate::workflow) fn write_args(args: &[ArgsPiece], out: &mut Writer<'_>) {
    for piece in args {
        match piece {
            ArgsPiece::Text(text) => out.bytes(4, text),
            ArgsPiece::Item => out.bytes(5, &[]),
            ArgsPiece::Index => out.bytes(6, &[]),
        }
    }
}

/// The piece of a field, if it is one.
pub(in crate::workflow) fn read_piece(tag: u8, bytes: &[u8]) -> Option<ArgsPiece> {
    match tag {
        4 => Some(ArgsPiece::Text(bytes.to_vec())),
        5 => Some(ArgsPiece::Item),
        6 => Some(ArgsPiece::Index),
        _ => None,
    }
}

/// `depth` is the level of the step: a damaged record must not use up the stack.
pub(in crate::workflow) fn read_definition(bytes: &[u8], depth: usize) -> Result<StepDefinition, Corrupt> {
    let (mut head, mut input, mut work) = (None, Input::default(), StepWork::Job);
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => head = Some(Head::decode(field.bytes)?),
            2 => input = Input::decode(field.bytes)?,
            20 if depth > limits::WORKFLOW_DEPTH_MAX => return Err(Corrupt),
            20 => work = StepWork::Workflow(Arc::new(read_nested(field.bytes, depth)?)),
            21 => work = StepWork::ForEach(Arc::new(read_plan(field.bytes)?)),
            22 => {
                let of = JobId::from_u128(field.id()?);
                work = StepWork::Undo((of.as_u128() != 0).then_some(of));
            }
            _ => {}
        }
    }
    Ok(StepDefinition { head: Arc::new(head.ok_or(Corrupt)?), input: Arc::new(input), work })
}

fn read_nested(bytes: &[u8], depth: usize) -> Result<NestedWorkflow, Corrupt> {
    let mut nested = NestedWorkflow { policy: FailurePolicy::Continue, steps: Vec::new() };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => nested.policy = pick(field.number()?, &POLICIES)?,
            2 => nested.steps.push(read_step(field.bytes, depth + 1)?),
            _ => {}
        }
    }
    Ok(nested)
}

fn read_step(bytes: &[u8], depth: usize) -> Result<NewStep, Corrupt> {
    let (mut id, mut after, mut when) = (String::new(), Vec::new(), StepCondition::default());
    let (mut definition, mut compensation) = (None, None);
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => id = field.text()?,
            2 => after = read_numbers(field.bytes)?,
            3 => when = pick(field.number()?, &CONDITIONS)?,
            4 => definition = Some(read_definition(field.bytes, depth)?),
            5 => compensation = Some(read_definition(field.bytes, depth)?),
            _ => {}
        }
    }
    let StepDefinition { head, input, work } = definition.ok_or(Corrupt)?;
    Ok(NewStep { id, after, when, head, input, compensation, work })
}

fn read_plan(bytes: &[u8]) -> Result<ForEachPlan, Corrupt> {
    let mut plan = ForEachPlan { source: 0, pointer: String::new(), parallel: 0, args: Vec::new() };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => plan.source = field.small()?,
            2 => plan.pointer = field.text()?,
            3 => plan.parallel = field.small()?,
            tag => plan.args.extend(read_piece(tag, field.bytes)),
        }
    }
    Ok(plan)
}

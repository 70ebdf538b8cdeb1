//! The stored form of a job: two byte strings, one written once ([`Head`]), one with every change
//! (the rest of [`Job`]). A store adds columns only for its indexes.
//!
//! Tags are never reused; a new field takes the next number, and older rows lack it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{
    AttemptError, Cancellation, Conflict, Dialect, Head, IdempotencyKey, Input, Job, JobForm, Lease, Limit,
    Name, Parked, Rate, ResultNote, ResultRetention, ScheduledRun, Unique, WorkflowStep,
};
use crate::catalog::Kind;
use crate::codec::{Corrupt, Field, Fields, Writer, micros, put_varint, take_slice};
use crate::failure::FailureId;
use crate::fair::Fair;
use crate::history::History;
use crate::id::{ClientId, ExecutionId, JobId};
use crate::item::{Items, decode_items, encode_items};
use crate::retry::RetryPolicy;
use crate::state::State;
use crate::time::Time;
use crate::work::{Definition, WorkKind};
use crate::workflow::{Wait, WorkflowForm, WorkflowHead};

impl Head {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.client.to_bytes());
        out.number(2, self.dialect as u64);
        out.number(3, self.form as u64);
        if !self.job_type.is_empty() {
            out.text(4, Some(&self.job_type));
        }
        out.text(5, Some(self.queue.as_str()));
        out.number(6, (i32::from(self.priority) - i32::from(i16::MIN)) as u64);
        if let Some(definition) = &self.definition {
            out.group(7, |out| encode_definition(definition, out));
        }
        out.time(8, Some(self.created_at));
        out.time(9, self.execution_at);
        out.time(10, self.expires_at);
        out.span(11, self.lease);
        out.span(12, self.timeout);
        out.group(13, |out| self.retry.encode(out));
        self.limits.iter().for_each(|limit| out.group(14, |out| encode_limit(limit, out)));
        if let Some(fair) = &self.fair {
            out.text(70, Some(fair.key.as_str()));
            out.number(71, fair.weight.into());
        }
        out.flag(15, self.hold);
        if let Some(unique) = &self.unique {
            out.group(16, |out| encode_unique(unique, out));
        }
        out.flag(90, self.unique_hidden);
        if let Some(key) = &self.idempotency {
            out.text(17, Some(&key.operation));
            out.text(18, Some(&key.key));
        }
        out.text(19, self.callback.as_deref());
        out.text(20, self.correlation_id.as_deref());
        out.text(21, self.traceparent.as_deref());
        out.text(22, self.tracestate.as_deref());
        out.text(23, self.language.as_deref());
        self.tags.iter().for_each(|tag| out.text(24, Some(tag)));
        if let Some(step) = &self.workflow {
            out.bytes(25, &step.workflow.to_bytes());
            out.number(26, u64::from(step.index));
        }
        out.span(27, self.retention);
        out.flag(28, self.timeout_of_server);
        if let Some(place) = self.place {
            out.bytes(44, &place.to_bytes());
        }
        out.text(31, self.operation.as_deref());
        if let Some(keep) = &self.result_retention {
            out.group(40, |out| encode_retention(keep, out));
        }
        if let Some(items) = self.items {
            out.number(41, u64::from(items.n) << 1 | u64::from(items.simulated));
        }
        out.text(42, self.tenant.as_ref().map(Name::as_str));
        if let Some(run) = &self.schedule {
            out.text(60, Some(run.name.as_str()));
            out.time(61, Some(run.tick));
        }
        out.time(62, self.deadline);
        if let Some(workflow) = &self.workflow_head {
            out.group(50, |out| encode_workflow(workflow, out));
        }
        if let Some(wait) = &self.wait {
            out.group(51, |out| wait.encode(out));
        }
        bytes
    }

    /// Decodes the bytes of [`Self::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Head, Corrupt> {
        let nobody = ClientId::from_u128(0);
        let mut head = Head::new(nobody, Name("".into()), Time::ZERO);
        let mut key = IdempotencyKey { client: nobody, operation: "".into(), key: "".into() };
        let mut workflow = WorkflowStep { workflow: JobId::from_u128(0), index: 0 };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                17 => key.operation = field.text()?,
                18 => key.key = field.text()?,
                25 => workflow.workflow = JobId::from_u128(field.id()?),
                26 => workflow.index = field.small()?,
                _ => head.read(&field)?,
            }
        }
        if !key.operation.is_empty() || !key.key.is_empty() {
            key.client = head.client;
            head.idempotency = Some(key);
        }
        if workflow.workflow.as_u128() != 0 {
            head.workflow = Some(workflow);
        }
        if head.queue.as_str().is_empty() { Err(Corrupt) } else { Ok(head) }
    }

    fn read(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        match field.tag {
            1 => self.client = ClientId::from_u128(field.id()?),
            2 => self.dialect = pick(field, [Dialect::Forge, Dialect::Operations, Dialect::Ojs])?,
            3 => self.form = pick(field, [JobForm::Execute, JobForm::Deferred, JobForm::EmitEvent])?,
            4 => self.job_type = field.text()?,
            5 => self.queue = Name::new(field.str()?).ok_or(Corrupt)?,
            6 => {
                let shifted = field.small::<i32>()?;
                self.priority = i16::try_from(shifted + i32::from(i16::MIN)).map_err(|_| Corrupt)?;
            }
            7 => self.definition = Some(decode_definition(field.bytes)?),
            8 => self.created_at = field.time()?,
            9 => self.execution_at = Some(field.time()?),
            10 => self.expires_at = Some(field.time()?),
            11 => self.lease = Some(field.span()?),
            12 => self.timeout = Some(field.span()?),
            13 => self.retry = RetryPolicy::decode(field.bytes)?,
            14 => self.limits.push(decode_limit(field.bytes)?),
            70 => {
                let key = Name::new(field.str()?).ok_or(Corrupt)?;
                self.fair = Some(Fair { key, weight: 1 });
            }
            71 => self.fair.as_mut().ok_or(Corrupt)?.weight = field.small()?,
            15 => self.hold = field.flag()?,
            16 => self.unique = Some(decode_unique(field.bytes)?),
            90 => self.unique_hidden = field.flag()?,
            19 => self.callback = Some(field.text()?),
            20 => self.correlation_id = Some(field.text()?),
            21 => self.traceparent = Some(field.text()?),
            22 => self.tracestate = Some(field.text()?),
            23 => self.language = Some(field.text()?),
            24 => self.tags.push(field.text()?),
            27 => self.retention = Some(field.span()?),
            28 => self.timeout_of_server = field.flag()?,
            44 => self.place = Some(JobId::from_u128(field.id()?)),
            31 => self.operation = Some(field.text()?),
            40 => self.result_retention = Some(decode_retention(field.bytes)?),
            41 => {
                let number = field.number()?;
                let n = u32::try_from(number >> 1).map_err(|_| Corrupt)?;
                self.items = Some(Items { n, simulated: number & 1 != 0 });
            }
            42 => self.tenant = Some(Name::new(field.str()?).ok_or(Corrupt)?),
            60 => {
                let name = Name::new(field.str()?).ok_or(Corrupt)?;
                self.schedule = Some(ScheduledRun { name, tick: Time::ZERO });
            }
            61 => self.schedule.as_mut().ok_or(Corrupt)?.tick = field.time()?,
            62 => self.deadline = Some(field.time()?),
            50 => self.workflow_head = Some(decode_workflow(field.bytes)?),
            51 => self.wait = Some(Box::new(Wait::decode(field.bytes)?)),
            _ => {}
        }
        Ok(())
    }
}

impl Input {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.payload.len() + self.meta.len() + self.extra.len() + 16);
        for part in [&self.payload, &self.meta, &self.extra] {
            put_varint(&mut bytes, part.len() as u64);
            bytes.extend_from_slice(part);
        }
        encode_items(&self.items, &mut bytes);
        bytes
    }

    /// Decodes the bytes of [`Self::encode`].
    pub fn decode(mut bytes: &[u8]) -> Result<Input, Corrupt> {
        let mut part = || take_slice(&mut bytes).map(<[u8]>::to_vec);
        let (payload, meta, extra) = (part()?, part()?, part()?);
        Ok(Input { payload, meta, extra, items: decode_items(bytes)? })
    }
}

impl Job {
    /// The bytes of everything but id and head.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(192);
        let mut out = Writer(&mut bytes);
        out.number(1, u64::from(self.state.as_u8()));
        out.number(2, u64::from(self.attempt));
        out.number(3, u64::from(self.attempt_handed));
        out.number(4, self.fence);
        if self.execution != self.id.first_execution() {
            out.bytes(5, &self.execution.to_bytes());
        }
        self.executions_past.iter().for_each(|past| out.bytes(6, &past.to_bytes()));
        out.flag(7, self.hold);
        out.time(8, self.available_at);
        out.text(95, self.awaited_signal.as_deref());
        out.number(9, self.parked as u64);
        out.number(81, self.parked_for.into());
        out.number(82, self.turns_had.into());
        if let Some(lease) = &self.lease {
            out.group(10, |out| lease.encode(out));
        }
        out.time(11, Some(self.updated_at));
        out.time(12, self.queued_at);
        out.time(13, self.started_at);
        out.time(14, self.finished_at);
        out.number(15, self.progress.map_or(0, |percent| u64::from(percent) + 1));
        out.text(16, self.message.as_deref());
        self.errors.iter().for_each(|error| out.group(17, |out| encode_error(error, out)));
        if let Some(cancel) = &self.cancel {
            out.text(18, Some(&cancel.by));
            out.text(19, Some(&cancel.reason));
        }
        out.time(20, self.dead_lettered_at);
        out.time(21, self.forget_at);
        out.group(22, |out| self.history.encode(out.0));
        if let Some(result) = &self.result {
            out.group(40, |out| encode_result(result, out));
        }
        out.number(41, u64::from(self.tally.completed));
        out.number(42, u64::from(self.tally.failed));
        out.number(78, u64::from(self.steps_added));
        out.flag(43, self.expired);
        out.flag(75, self.overdue);
        out.flag(70, self.paused);
        out.number(80, self.turn.map_or(0, |turn| turn + 1));
        if let Some(FailureId(failure)) = self.failure {
            out.bytes(44, &failure.to_be_bytes());
        }
        out.number(45, self.stored_bytes);
        bytes
    }

    /// Decodes a job from its id, its head and the bytes of [`Self::encode`].
    pub fn decode(id: JobId, head: Arc<Head>, bytes: &[u8]) -> Result<Job, Corrupt> {
        let mut job = Job::blank(id, head);
        for field in Fields(bytes) {
            job.read(&field?)?;
        }
        Ok(job)
    }

    fn read(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        match field.tag {
            1 => self.state = State::from_u8(field.small()?).ok_or(Corrupt)?,
            2 => self.attempt = field.small()?,
            3 => self.attempt_handed = field.small()?,
            4 => self.fence = field.number()?,
            5 => self.execution = ExecutionId::from_u128(field.id()?),
            6 => self.executions_past.push(ExecutionId::from_u128(field.id()?)),
            7 => self.hold = field.flag()?,
            8 => self.available_at = Some(field.time()?),
            95 => self.awaited_signal = Some(field.text()?),
            9 => {
                let all = [Parked::No, Parked::ForPlace, Parked::ForTurn, Parked::TurnCame];
                self.parked = pick(field, all)?;
            }
            10 => self.lease = Some(Lease::decode(field.bytes)?),
            11 => self.updated_at = field.time()?,
            12 => self.queued_at = Some(field.time()?),
            13 => self.started_at = Some(field.time()?),
            14 => self.finished_at = Some(field.time()?),
            15 => self.progress = Some(u8::try_from(field.number()?.wrapping_sub(1)).map_err(|_| Corrupt)?),
            16 => self.message = Some(field.text()?),
            17 => self.errors.push(decode_error(field.bytes)?),
            18 => self.cancel = Some(Cancellation { by: field.text()?, reason: "".into() }),
            19 => self.cancel.as_mut().ok_or(Corrupt)?.reason = field.text()?,
            20 => self.dead_lettered_at = Some(field.time()?),
            21 => self.forget_at = Some(field.time()?),
            22 => self.history = History::decode(field.bytes)?,
            40 => self.result = Some(decode_result(field.bytes)?),
            41 => self.tally.completed = field.small()?,
            42 => self.tally.failed = field.small()?,
            78 => self.steps_added = field.small()?,
            43 => self.expired = field.flag()?,
            75 => self.overdue = field.flag()?,
            70 => self.paused = field.flag()?,
            81 => self.parked_for = field.small()?,
            82 => self.turns_had = field.small()?,
            80 => self.turn = Some(field.number()?.checked_sub(1).ok_or(Corrupt)?),
            44 => {
                let bytes = field.bytes.try_into().map_err(|_| Corrupt)?;
                self.failure = Some(FailureId(u64::from_be_bytes(bytes)));
            }
            45 => self.stored_bytes = field.number()?,
            _ => {}
        }
        Ok(())
    }
}

fn pick<T: Copy, const N: usize>(field: &Field<'_>, all: [T; N]) -> Result<T, Corrupt> {
    all.get(field.small::<usize>()?).copied().ok_or(Corrupt)
}

fn encode_definition(definition: &Definition, out: &mut Writer<'_>) {
    out.text(1, Some(definition.work_kind.as_str()));
    out.number(2, u64::from(definition.duration_ms));
    out.flag(3, definition.should_fail);
    out.number(4, u64::from(definition.payload_kb));
}

fn decode_definition(bytes: &[u8]) -> Result<Definition, Corrupt> {
    let (mut work_kind, mut duration_ms, mut should_fail, mut payload_kb) = (None, 0, false, 0);
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => work_kind = WorkKind::parse(&field.text()?),
            2 => duration_ms = field.small()?,
            3 => should_fail = field.flag()?,
            4 => payload_kb = field.small()?,
            _ => {}
        }
    }
    Ok(Definition { work_kind: work_kind.ok_or(Corrupt)?, duration_ms, should_fail, payload_kb })
}

fn encode_limit(limit: &Limit, out: &mut Writer<'_>) {
    out.text(1, Some(limit.key.as_str()));
    out.number(2, limit.concurrency.map_or(0, |n| u64::from(n) + 1));
    if let Some(rate) = limit.rate {
        out.number(3, u64::from(rate.count));
        out.number(4, micros(rate.per));
    }
}

fn decode_limit(bytes: &[u8]) -> Result<Limit, Corrupt> {
    let (mut key, mut concurrency, mut rate) = (None, None, Rate { count: 0, per: Duration::ZERO });
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => key = Some(Name::joined(field.str()?)),
            2 => concurrency = Some(u32::try_from(field.number()?.wrapping_sub(1)).map_err(|_| Corrupt)?),
            3 => rate.count = field.small()?,
            4 => rate.per = Duration::from_micros(field.number()?),
            _ => {}
        }
    }
    Ok(Limit { key: key.ok_or(Corrupt)?, concurrency, rate: (rate.count > 0).then_some(rate) })
}

const CONFLICTS: [Conflict; 4] =
    [Conflict::Reject, Conflict::Ignore, Conflict::Replace, Conflict::ReplaceKeepingSchedule];

fn encode_unique(unique: &Unique, out: &mut Writer<'_>) {
    out.bytes(1, &unique.key);
    out.number(2, u64::from(unique.facets));
    out.time(3, unique.until);
    out.number(4, unique.on_conflict as u64);
}

fn decode_unique(bytes: &[u8]) -> Result<Unique, Corrupt> {
    let mut unique = Unique { key: [0; 32], facets: 0, until: None, on_conflict: Conflict::Reject };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => unique.key = field.bytes.try_into().map_err(|_| Corrupt)?,
            2 => unique.facets = field.small()?,
            3 => unique.until = Some(field.time()?),
            4 => unique.on_conflict = pick(&field, CONFLICTS)?,
            _ => {}
        }
    }
    Ok(unique)
}

fn encode_workflow(workflow: &WorkflowHead, out: &mut Writer<'_>) {
    out.number(1, workflow.form as u64);
    out.text(2, Some(&workflow.name));
}

fn decode_workflow(bytes: &[u8]) -> Result<WorkflowHead, Corrupt> {
    use WorkflowForm::{Batch, Chain, ForEach, Graph, Group};
    let mut workflow = WorkflowHead { form: Chain, name: "".into() };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => workflow.form = pick(&field, [Chain, Group, Batch, Graph, ForEach])?,
            2 => workflow.name = field.text()?,
            _ => {}
        }
    }
    Ok(workflow)
}

fn encode_retention(keep: &ResultRetention, out: &mut Writer<'_>) {
    out.number(1, micros(keep.small));
    out.number(2, micros(keep.medium));
    out.number(3, micros(keep.large));
    // 4 was the retention of a failed job's record, which now is that of all records (C-110).
}

fn decode_retention(bytes: &[u8]) -> Result<ResultRetention, Corrupt> {
    let mut keep = ResultRetention { small: Duration::ZERO, medium: Duration::ZERO, large: Duration::ZERO };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => keep.small = Duration::from_micros(field.number()?),
            2 => keep.medium = Duration::from_micros(field.number()?),
            3 => keep.large = Duration::from_micros(field.number()?),
            _ => {}
        }
    }
    Ok(keep)
}

fn encode_result(result: &ResultNote, out: &mut Writer<'_>) {
    out.text(1, Some(&result.media_type));
    out.number(2, result.size);
    out.time(3, result.expires_at);
}

fn decode_result(bytes: &[u8]) -> Result<ResultNote, Corrupt> {
    let mut result = ResultNote { media_type: "".into(), size: 0, expires_at: None };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => result.media_type = field.text()?,
            2 => result.size = field.number()?,
            3 => result.expires_at = Some(field.time()?),
            _ => {}
        }
    }
    Ok(result)
}

fn encode_error(error: &AttemptError, out: &mut Writer<'_>) {
    out.number(1, u64::from(error.attempt));
    out.time(2, Some(error.at));
    out.text(3, Some(error.kind.name()));
    out.text(4, Some(&error.code));
    out.text(5, Some(&error.message));
    out.text(6, error.class.as_deref());
    out.flag(7, error.retryable);
    if !error.details.is_empty() {
        out.bytes(8, &error.details);
    }
    out.span(9, error.wait);
    out.flag(10, error.discarded);
    if error.execution != 0 {
        out.number(11, u64::from(error.execution));
    }
}

fn decode_error(bytes: &[u8]) -> Result<AttemptError, Corrupt> {
    let mut error = AttemptError {
        attempt: 0,
        at: Time::ZERO,
        kind: Kind::HandlerError,
        code: "".into(),
        message: "".into(),
        class: None,
        retryable: false,
        details: Vec::new(),
        wait: None,
        discarded: false,
        execution: 0,
    };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => error.attempt = field.small()?,
            2 => error.at = field.time()?,
            3 => {
                let name = field.text()?;
                error.kind = Kind::from_name(&name).ok_or(Corrupt)?;
            }
            4 => error.code = field.text()?,
            5 => error.message = field.text()?,
            6 => error.class = Some(field.text()?),
            7 => error.retryable = field.flag()?,
            8 => error.details = field.bytes.to_vec(),
            9 => error.wait = Some(field.span()?),
            10 => error.discarded = field.flag()?,
            11 => error.execution = field.small()?,
            _ => {}
        }
    }
    Ok(error)
}

#[cfg(test)]
mod tests;

//! Members into a problem: the one place where tolerance is decided, for all three formats.

use serde_json::{Map, Value};

use super::{Reader, Reading, Warning, Warnings};
use crate::correlation::CorrelationId;
use crate::item::{ItemOutcome, ItemStatus};
use crate::job::{Job, JobBuilder};
use crate::job_status::JobStatus;
use crate::limits::SAFE_INTEGER_MAX;
use crate::problem::Problem;
use crate::status::Status;
use crate::timestamp::{Offset, Timestamp};
use crate::uri::{BaseUri, UriRef};

/// Whether the format tells numbers and booleans from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalars {
    /// JSON and the header field do.
    Typed,
    /// XML does not: members defined as number or boolean are read from their text.
    Text,
}

pub(super) fn assemble(
    reader: &Reader,
    members: Map<String, Value>,
    scalars: Scalars,
    warnings: Warnings,
) -> Reading {
    let mut assembly = Assembly { reader, scalars, warnings };
    let mut problem = Problem::default();
    let mut job = JobBuilder::default();
    let mut completed_at = None;
    for (name, value) in members {
        match name.as_str() {
            "type" => problem.type_uri = assembly.uri(&name, value),
            "title" => problem.title = assembly.text(&name, value),
            "status" => problem.status = assembly.status(&name, value),
            "detail" => problem.detail = assembly.text(&name, value),
            "instance" => problem.instance = assembly.uri(&name, value),
            "completedAt" => completed_at = assembly.time(&name, value),
            _ => match assembly.job_member(&name, value, &mut job) {
                Ok(()) => {}
                Err(extension) => drop(problem.extensions.insert(name, extension)),
            },
        }
    }
    problem.job = assembly.job(job, completed_at);
    if let Some(base) = &reader.base {
        problem.type_uri = problem.type_uri.map(|uri| assembly.resolved(uri, base));
        problem.instance = problem.instance.map(|uri| assembly.resolved(uri, base));
    }
    Reading { problem, warnings: assembly.warnings.0 }
}

struct Assembly<'r> {
    reader: &'r Reader,
    scalars: Scalars,
    warnings: Warnings,
}

impl Assembly<'_> {
    /// Sets the member of the job, or gives the value back if the name is not one of the job's.
    fn job_member(&mut self, name: &str, value: Value, job: &mut JobBuilder) -> Result<(), Value> {
        let set = std::mem::take(job);
        *job = match name {
            "jobId" => match self.text(name, value) {
                Some(id) => set.id(id),
                None => set,
            },
            "jobStatus" => match self.text(name, value) {
                Some(status) => set.status(self.job_status(&status)),
                None => set,
            },
            "submittedAt" => match self.time(name, value) {
                Some(time) => set.submitted_at(time),
                None => set,
            },
            "retryable" => match self.flag(name, value) {
                Some(flag) => set.retryable(flag),
                None => set,
            },
            "retryAfter" => match self.whole(name, value) {
                Some(seconds) => set.retry_after_s(seconds),
                None => set,
            },
            "processingStage" => match self.text(name, value) {
                Some(stage) => set.processing_stage(stage),
                None => set,
            },
            "correlationId" => match self.text(name, value) {
                Some(id) => set.correlation_id(self.correlation_id(&id)),
                None => set,
            },
            "results" => match self.results(name, value) {
                Some(items) => set.results(items),
                None => set,
            },
            _ => {
                *job = set;
                return Err(value);
            }
        };
        Ok(())
    }

    fn job(&mut self, job: JobBuilder, completed_at: Option<Timestamp>) -> Job {
        let unfinished = job.status_so_far().filter(|status| !status.is_terminal()).map(JobStatus::to_string);
        let job = match (completed_at, unfinished) {
            (None, _) => job,
            (Some(completed_at), None) => job.completed_at(completed_at),
            (Some(_), Some(status)) => {
                self.warnings.push(Warning::CompletedAtIgnored { status });
                job
            }
        };
        job.build_as_read().expect("completedAt stands beside no state it contradicts")
    }

    fn job_status(&self, name: &str) -> JobStatus {
        if self.reader.terminal.iter().any(|terminal| terminal == name) {
            JobStatus::documented_as_terminal(name)
        } else {
            JobStatus::new(name)
        }
    }

    fn correlation_id(&mut self, untrusted: &str) -> Option<CorrelationId> {
        let id = CorrelationId::sanitize(untrusted);
        if id.as_ref().map(CorrelationId::as_str) != Some(untrusted) {
            self.warnings.push(Warning::Sanitized);
        }
        id
    }

    fn results(&mut self, name: &str, value: Value) -> Option<Vec<ItemOutcome>> {
        match value {
            Value::Null => None,
            Value::Array(values) => Some(
                values.into_iter().enumerate().filter_map(|(index, value)| self.item(index, value)).collect(),
            ),
            _ => self.wrong_type(name),
        }
    }

    fn item(&mut self, index: usize, value: Value) -> Option<ItemOutcome> {
        let Value::Object(mut members) = value else {
            return self.ignored(Warning::ItemIgnored { index });
        };
        let status = members.get("status").and_then(Value::as_str).and_then(ItemStatus::parse);
        let (Some(Value::String(item_id)), Some(status)) = (members.shift_remove("itemId"), status) else {
            return self.ignored(Warning::ItemIgnored { index });
        };
        let mut item = ItemOutcome::new(item_id, status);
        for (name, value) in members {
            item = match name.as_str() {
                "status" => item,
                "detail" => match self.text("results[].detail", value) {
                    Some(detail) => item.with_detail(detail),
                    None => item,
                },
                "retryable" => match self.flag("results[].retryable", value) {
                    Some(retryable) => item.with_retryable(retryable),
                    None => item,
                },
                "processingStage" => match self.text("results[].processingStage", value) {
                    Some(stage) => item.with_processing_stage(stage),
                    None => item,
                },
                _ => item.with_read_extension(name, value),
            };
        }
        Some(item)
    }

    fn resolved(&mut self, reference: UriRef, base: &BaseUri) -> UriRef {
        base.resolve(&reference).unwrap_or_else(|_| {
            self.warnings.push(Warning::NotResolved);
            reference
        })
    }

    fn text(&mut self, name: &str, value: Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text),
            Value::Null => None,
            _ => self.wrong_type(name),
        }
    }

    fn uri(&mut self, name: &str, value: Value) -> Option<UriRef> {
        let text = self.text(name, value)?;
        let uri = match self.scalars {
            Scalars::Typed => UriRef::new(text),
            Scalars::Text => UriRef::new(text.trim()),
        };
        uri.ok().or_else(|| self.invalid(name))
    }

    fn status(&mut self, name: &str, value: Value) -> Option<Status> {
        let code = self.whole(name, value)?;
        let status = u16::try_from(code).ok().and_then(|code| Status::new(code).ok());
        status.or_else(|| self.invalid(name))
    }

    fn time(&mut self, name: &str, value: Value) -> Option<Timestamp> {
        let text = self.text(name, value)?;
        match Timestamp::parse_noting_offset(text.trim()) {
            Ok((time, Offset::Utc)) => Some(time),
            Ok((time, Offset::Numeric)) => {
                self.warnings.push(Warning::ConvertedToUtc { member: name.to_owned() });
                Some(time)
            }
            Err(_) => self.invalid(name),
        }
    }

    fn flag(&mut self, name: &str, value: Value) -> Option<bool> {
        match (value, self.scalars) {
            (Value::Bool(flag), _) => Some(flag),
            (Value::Null, _) => None,
            (Value::String(text), Scalars::Text) => match text.trim() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => self.invalid(name),
            },
            _ => self.wrong_type(name),
        }
    }

    fn whole(&mut self, name: &str, value: Value) -> Option<u64> {
        let number = match (value, self.scalars) {
            (Value::Number(number), _) => number.as_u64(),
            (Value::Null, _) => return None,
            (Value::String(text), Scalars::Text) => text.trim().parse().ok(),
            _ => return self.wrong_type(name),
        };
        number.filter(|number| *number <= SAFE_INTEGER_MAX).or_else(|| self.invalid(name))
    }

    fn wrong_type<T>(&mut self, name: &str) -> Option<T> {
        self.ignored(Warning::WrongType { member: name.to_owned() })
    }

    fn invalid<T>(&mut self, name: &str) -> Option<T> {
        self.ignored(Warning::InvalidValue { member: name.to_owned() })
    }

    fn ignored<T>(&mut self, warning: Warning) -> Option<T> {
        self.warnings.push(warning);
        None
    }
}

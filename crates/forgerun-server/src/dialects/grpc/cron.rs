//! Cron jobs.

use forgerun_core::schedule::Schedule;
use forgerun_wire::grpc::{json, moment, request, v1};
use forgerun_wire::ojs::job::shown_type;

use super::call::with_body;
use crate::dialects::ojs::cron::{id_of, page, put};
use crate::dialects::ojs::scope::Scope;
use crate::http::{ApiError, routing::Call};
use crate::limits::{GRPC_CRONS_MAX, OJS_ENVELOPE_BYTES_MAX};
use crate::schedules;

pub(super) async fn register(
    call: Call<'_>,
    message: v1::RegisterCronRequest,
) -> Result<v1::RegisterCronResponse, ApiError> {
    let call = with_body(call, request::cron(&message)?, OJS_ENVELOPE_BYTES_MAX)?;
    let (schedule, _) = put(&call).await?;
    Ok(v1::RegisterCronResponse { name: schedule.id.name.to_string(), next_run_at: next_run(&schedule) })
}

fn next_run(schedule: &Schedule) -> Option<prost_types::Timestamp> {
    schedule.next_at.filter(|_| schedule.paused_at.is_none()).map(moment::timestamp)
}

pub(super) async fn unregister(
    call: Call<'_>,
    message: v1::UnregisterCronRequest,
) -> Result<v1::UnregisterCronResponse, ApiError> {
    let id = id_of(Scope::of(&call)?.owner()?, &message.name)?;
    schedules::delete(call.app, &id).await?;
    Ok(v1::UnregisterCronResponse {})
}

pub(super) async fn list(call: Call<'_>, _: v1::ListCronRequest) -> Result<v1::ListCronResponse, ApiError> {
    let (crons, _) = page(call.app, &Scope::of(&call)?.owner()?, 0, GRPC_CRONS_MAX).await?;
    Ok(v1::ListCronResponse { entries: crons.iter().map(entry).collect() })
}

/// Only options that every job has.
fn entry(schedule: &Schedule) -> v1::CronEntry {
    let head = &schedule.head;
    let options = v1::EnqueueOptions {
        queue: head.queue.to_string(),
        priority: head.priority.into(),
        tags: head.tags.clone(),
        max_attempts: i32::try_from(head.retry.attempts_max).unwrap_or(i32::MAX),
        ..v1::EnqueueOptions::default()
    };
    v1::CronEntry {
        name: schedule.id.name.to_string(),
        cron: schedule.expression.clone(),
        timezone: schedule.zone.clone(),
        r#type: shown_type(head).to_owned(),
        args: json::read_list(&schedule.input.payload),
        options: Some(options),
        next_run_at: next_run(schedule),
        last_run_at: schedule.last_at.map(moment::timestamp),
    }
}

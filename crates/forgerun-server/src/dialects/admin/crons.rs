//! Schedules of all clients: next runs, pause, resume, trigger.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_core::job::Name;
use forgerun_core::queue::Owner;
use forgerun_core::schedule::{Schedule, ScheduleId};
use forgerun_wire::admin::{AdminPage, AdminSchedule};

use super::audit;
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, body, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT, Parameter, uuid},
    },
};
use crate::schedules;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/crons", "list_schedules", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListSchedules", "List the schedules of all clients, with their next runs.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminSchedule>>(200, "A page.")]),
    Route::post("/admin/v1/crons/{name}/pause", "change_schedule", |call| Box::pin(pause(call)))
        .role(OperatorRole::Operator)
        .operation("adminPauseSchedule", "Pause a schedule of any client.")
        .query(OWNER)
        .replies(&[Reply::json::<AdminSchedule>(200, "The schedule as it is now.")]),
    Route::post("/admin/v1/crons/{name}/resume", "change_schedule", |call| Box::pin(resume(call)))
        .role(OperatorRole::Operator)
        .operation("adminResumeSchedule", "Resume a schedule of any client, from the next tick on.")
        .query(OWNER)
        .replies(&[Reply::json::<AdminSchedule>(200, "The schedule as it is now.")]),
    Route::post("/admin/v1/crons/{name}/trigger", "trigger_schedule", |call| Box::pin(trigger(call)))
        .role(OperatorRole::Operator)
        .operation("adminTriggerSchedule", "Make a job of a schedule of any client now.")
        .query(OWNER)
        .replies(&[Reply::json::<AdminSchedule>(200, "The schedule as it is now.")])
        .refuses(&[Kind::Duplicate]),
];

/// Whose schedule.
const OWNER: &[Parameter] = &[
    Parameter::new("client", "The client whose schedule it is; required.").schema(uuid),
    Parameter::new("tenant", "Which of the client's tenants."),
];

fn view(schedule: &Schedule) -> AdminSchedule {
    AdminSchedule::new(schedule, &schedules::next_runs(schedule))
}

/// `GET /admin/v1/crons`, by client and name; the cursor is the last schedule.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AdminSchedule>, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let after = query.get("cursor").unwrap_or_default().to_owned();
    let mut found: Vec<Schedule> = call.app.engine.store().records(None, after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|schedule| schedule.id.key());
    let mut items: Vec<_> = found.iter().map(view).collect();
    call.app
        .client_names
        .fill(call.app, items.iter_mut().map(|item| (&item.client, &mut item.client_name)))
        .await?;
    Ok(AdminPage { items, next_cursor })
}

/// The schedule of this name. Several clients may have one, so `client` selects it.
fn named(call: &Call<'_>) -> Result<ScheduleId, ApiError> {
    let query = call.query()?;
    let Some(client) = query.get("client").and_then(|text| text.parse::<ClientId>().ok()) else {
        return Err(query.invalid("client", "must be the id of the client that the schedule belongs to"));
    };
    let tenant = query.get("tenant").and_then(Name::new);
    match Name::queue(&call.text("name")) {
        Ok(name) => Ok(ScheduleId { owner: Owner { client, tenant }, name }),
        Err(_) => Err(forgerun_engine::Error::Refused(Refusal::ScheduleNotFound).into()),
    }
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    enable(call, false).await
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    enable(call, true).await
}

async fn enable(call: Call<'_>, enabled: bool) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    Ok(respond::json(StatusCode::OK, &set_enabled(&call, enabled).await?))
}

pub(in crate::dialects) async fn set_enabled(
    call: &Call<'_>,
    enabled: bool,
) -> Result<AdminSchedule, ApiError> {
    let id = named(call)?;
    let schedule = schedules::enable(call.app, &id, enabled).await?;
    audit::note(call.exchange, if enabled { "resume_schedule" } else { "pause_schedule" }, &id.key());
    Ok(view(&schedule))
}

/// Makes a job now; answers with the schedule.
async fn trigger(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    Ok(respond::json(StatusCode::OK, &run_now(&call).await?))
}

/// Triggers the schedule in the path.
pub(in crate::dialects) async fn run_now(call: &Call<'_>) -> Result<AdminSchedule, ApiError> {
    let id = named(call)?;
    schedules::trigger(call.app, &id).await?;
    audit::note(call.exchange, "trigger_schedule", &id.key());
    Ok(view(&schedules::find(call.app, &id).await?))
}

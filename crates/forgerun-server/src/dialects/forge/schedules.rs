//! Schedules of a client.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Name;
use forgerun_core::queue::Owner;
use forgerun_core::schedule::{Schedule, ScheduleId};
use forgerun_core::scope::KeyScope;
use forgerun_wire::body::{refused as refused_body, violation};
use forgerun_wire::forge::{
    DeletedView, SCHEDULE, SCHEDULE_CHANGE, ScheduleRequest, ScheduleView, SchedulesView, SubmittedView,
    read_schedule,
};

use super::submit;
use crate::http::{
    ApiError, body, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};
use crate::schedules;
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/schedules", "list_schedules", |call| Box::pin(list(call)))
        .operation("listSchedules", "List the caller's schedules, by name.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<SchedulesView>(200, "A page.")]),
    Route::post("/v1/schedules", "register_schedule", |call| Box::pin(register(call)))
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("registerSchedule", "Register a schedule, or change the one of that name.")
        .body(&SCHEDULE)
        .replies(&[
            Reply::json::<ScheduleView>(200, "The schedule was there and is changed. What happened stays."),
            Reply::json::<ScheduleView>(201, "Registered.").headers(&["Location"]),
        ])
        .refuses(REFUSALS),
    Route::get("/v1/schedules/{name}", "get_schedule", |call| Box::pin(get(call)))
        .operation("getSchedule", "Get a schedule, with its next runs.")
        .replies(&[Reply::json::<ScheduleView>(200, "The schedule.")]),
    Route::put("/v1/schedules/{name}", "register_schedule", |call| Box::pin(put(call)))
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("putSchedule", "Register or change the schedule of the name in the address.")
        .body(&SCHEDULE_CHANGE)
        .replies(&[
            Reply::json::<ScheduleView>(200, "The schedule was there and is changed. What happened stays."),
            Reply::json::<ScheduleView>(201, "Registered.").headers(&["Location"]),
        ])
        .refuses(REFUSALS),
    Route::delete("/v1/schedules/{name}", "delete_schedule", |call| Box::pin(delete(call)))
        .scope(KeyScope::Manage)
        .operation("deleteSchedule", "Delete a schedule.")
        .replies(&[Reply::json::<DeletedView>(200, "The schedule is deleted; its jobs stay.")]),
    Route::post("/v1/schedules/{name}/pause", "change_schedule", |call| Box::pin(pause(call)))
        .scope(KeyScope::Manage)
        .operation("pauseSchedule", "Pause a schedule: it makes no more jobs.")
        .replies(&[Reply::json::<ScheduleView>(200, "The schedule as it is now.")]),
    Route::post("/v1/schedules/{name}/resume", "change_schedule", |call| Box::pin(resume(call)))
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("resumeSchedule", "Resume a schedule, from the next tick on.")
        .replies(&[Reply::json::<ScheduleView>(200, "The schedule as it is now.")]),
    Route::post("/v1/schedules/{name}/trigger", "trigger_schedule", |call| Box::pin(trigger(call)))
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("triggerSchedule", "Make a job of a schedule now.")
        .replies(&[Reply::json::<SubmittedView>(202, "A job was made.").headers(&["Location"])])
        .refuses(&[Kind::Duplicate]),
];

/// What only the registration of a schedule is refused for.
const REFUSALS: &[Kind] = &[
    Kind::UnknownJobType,
    Kind::InvalidCron,
    Kind::InvalidCallbackUrl,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
];

fn owner(call: &Call<'_>) -> Owner {
    Owner::client(call.caller().client)
}

/// The schedule in the address. A malformed name is an unknown one.
fn named(call: &Call<'_>) -> Result<ScheduleId, ApiError> {
    match Name::queue(&call.text("name")) {
        Ok(name) => Ok(ScheduleId { owner: owner(call), name }),
        Err(_) => Err(forgerun_engine::Error::Refused(Refusal::ScheduleNotFound).into()),
    }
}

fn shown(status: StatusCode, schedule: &Schedule) -> Response {
    respond::json(status, &ScheduleView::new(schedule, &schedules::next_runs(schedule)))
}

async fn register(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_schedule(&call.body, false, call.app.config.api.unknown_members)?;
    let name = request.name.clone().expect("a body without name is refused");
    accept(&call, name, request).await
}

/// The name is in the address; if the body has one too, it must be the same.
async fn put(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_schedule(&call.body, true, call.app.config.api.unknown_members)?;
    let text = call.text("name").into_owned();
    let rule = forgerun_core::job::BadQueueName::RULE;
    let wrong =
        |detail: &str| refused_body(Kind::MalformedRequest, vec![violation("name", detail, "format")], &[]);
    let name = Name::queue(&text).map_err(|_| wrong(&format!("in the address {rule}")))?;
    if request.name.as_ref().is_some_and(|said| *said != name) {
        return Err(wrong("must be the same in the address and in the body").into());
    }
    accept(&call, name, request).await
}

async fn accept(call: &Call<'_>, name: Name, request: ScheduleRequest) -> Result<Response, ApiError> {
    let (app, id) = (call.app, ScheduleId { owner: owner(call), name });
    let job = submit::template(call, request.job, &request.given).await?;
    let (schedule, created) = schedules::put(app, id, request.terms, job, request.given).await?;
    let mut response = shown(if created { StatusCode::CREATED } else { StatusCode::OK }, &schedule);
    if created {
        let location = format!("{}/v1/schedules/{}", app.base, schedule.id.name);
        response.headers_mut().insert(LOCATION, respond::value(location));
    }
    Ok(response)
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let (limit, prefix) = (query.limit()?, owner(&call).prefix());
    let after = query.get("cursor").map(|name| format!("{prefix}{name}")).unwrap_or_default();
    // One more than is shown indicates whether there are more.
    let mut found: Vec<Schedule> = call.app.engine.store().records(Some(prefix), after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|schedule| schedule.id.name.to_string());
    let view = |schedule: &Schedule| ScheduleView::new(schedule, &schedules::next_runs(schedule));
    let view = SchedulesView { schedules: found.iter().map(view).collect(), next_cursor };
    Ok(respond::json(StatusCode::OK, &view))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(shown(StatusCode::OK, &schedules::find(call.app, &named(&call)?).await?))
}

async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    schedules::delete(call.app, &named(&call)?).await?;
    Ok(respond::json(StatusCode::OK, &DeletedView { deleted: true }))
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    enable(call, false).await
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    enable(call, true).await
}

async fn enable(call: Call<'_>, enabled: bool) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    Ok(shown(StatusCode::OK, &schedules::enable(call.app, &named(&call)?, enabled).await?))
}

async fn trigger(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let (job, existing) = schedules::trigger(call.app, &named(&call)?).await?;
    call.exchange.set_subject(RequestSubject::job(&job, !existing));
    let view = SubmittedView::new(&job);
    let mut response = respond::json(StatusCode::ACCEPTED, &view);
    let location = format!("{}/v1/jobs/{}", call.app.base, view.job_id);
    response.headers_mut().insert(LOCATION, respond::value(location));
    Ok(response)
}

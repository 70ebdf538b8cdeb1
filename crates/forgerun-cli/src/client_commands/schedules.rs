//! Schedules: list, show, set, pause, trigger, delete.

use forgerun_client::admin::AdminSchedule;
use forgerun_client::forge::Schedule;
use serde_json::{Map, Value, json};

use super::CommandError;
use super::flags::{ScheduleCommand, SchedulesFlags, SetScheduleFlags};
use super::screen::{Screen, now, relative};
use super::submit::{NOTHING_TO_DO, read_payload};
use super::table::Table;
use crate::Exit;
use crate::terminal::clean;

pub(super) async fn schedules(flags: &SchedulesFlags) -> Result<Exit, CommandError> {
    match &flags.command {
        None if flags.connection.is_operator() => list_all(flags).await,
        None => list(flags).await,
        Some(ScheduleCommand::Show(named)) => {
            let schedule = named.connection.client()?.forge().schedule(&named.name).await?;
            show(&Screen::of(&named.connection), &schedule)
        }
        Some(ScheduleCommand::Set(flags)) => set(flags).await,
        Some(ScheduleCommand::Pause(named)) => {
            let schedule = named.connection.client()?.forge().enable_schedule(&named.name, false).await?;
            show(&Screen::of(&named.connection), &schedule)
        }
        Some(ScheduleCommand::Resume(named)) => {
            let schedule = named.connection.client()?.forge().enable_schedule(&named.name, true).await?;
            show(&Screen::of(&named.connection), &schedule)
        }
        Some(ScheduleCommand::Trigger(named)) => {
            let screen = Screen::of(&named.connection);
            let job = named.connection.client()?.forge().trigger_schedule(&named.name).await?;
            match screen.json {
                true => screen.json(&json!({"job_id": job.job_id, "state": job.state}))?,
                false => screen.line(&job.job_id)?,
            }
            Ok(Exit::Done)
        }
        Some(ScheduleCommand::Delete(named)) => {
            named.connection.client()?.forge().delete_schedule(&named.name).await?;
            let screen = Screen::of(&named.connection);
            match screen.json {
                true => screen.json(&json!({"deleted": true}))?,
                false => screen.note("deleted"),
            }
            Ok(Exit::Done)
        }
    }
}

/// Work with a type is for external workers, and registered on `/ojs/v1`; other work is simulated,
/// and registered on `/v1`.
async fn set(flags: &SetScheduleFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    if flags.r#type.is_none() && flags.kind.is_none() {
        return Err(CommandError::Usage(NOTHING_TO_DO.to_owned()));
    }
    let client = flags.connection.client()?;
    let payload = flags.payload.as_deref().map(read_payload).transpose()?;
    let payload: Option<Value> = payload
        .map(|payload| serde_json::from_str(payload.get()))
        .transpose()
        .map_err(|error| CommandError::Usage(format!("the payload cannot be registered: {error}")))?;
    let mut body = terms(flags);
    match &flags.r#type {
        Some(job_type) => {
            let args = match payload {
                None => json!([]),
                Some(Value::Array(args)) => Value::Array(args),
                Some(one) => json!([one]),
            };
            body.insert("name".into(), flags.name.clone().into());
            let queue =
                flags.queue.as_ref().map(|queue| json!({"queue": queue})).unwrap_or_else(|| json!({}));
            body.insert("job_template".into(), json!({"type": job_type, "args": args, "options": queue}));
            client.ojs().register_cron(&body).await?;
        }
        None => {
            let mut job = json!({"type": "EXECUTE"});
            for (name, value) in [
                ("work_kind", flags.kind.clone().map(Value::from)),
                ("queue", flags.queue.clone().map(Value::from)),
                ("payload", payload),
            ] {
                if let Some(value) = value {
                    job[name] = value;
                }
            }
            body.insert("job".into(), job);
            client.forge().put_schedule(&flags.name, &body).await?;
        }
    }
    show(&screen, &client.forge().schedule(&flags.name).await?)
}

fn terms(flags: &SetScheduleFlags) -> Map<String, Value> {
    let mut body = Map::new();
    let mut say = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_owned(), value)));
    };
    say("cron", Some(flags.cron.clone().into()));
    say("timezone", flags.timezone.clone().map(Value::from));
    say("overlap_policy", flags.overlap.clone().map(Value::from));
    say("catch_up", flags.catch_up.clone().map(Value::from));
    say("jitter_ms", flags.jitter.map(|jitter| (jitter.as_millis() as u64).into()));
    say("description", flags.description.clone().map(Value::from));
    body
}

fn show(screen: &Screen, schedule: &Schedule) -> Result<Exit, CommandError> {
    if screen.json {
        screen.json(&json!(schedule))?;
        return Ok(Exit::Done);
    }
    let Schedule { name, cron, timezone, .. } = schedule;
    screen.line(&clean(&format!("{name}: {cron} in {timezone}, {}", status(schedule))))?;
    for run in &schedule.next_runs {
        screen.line(&format!("  next  {run}"))?;
    }
    if let Some(last) = &schedule.last_run_at {
        let job = schedule.last_job_id.as_deref().unwrap_or_default();
        screen.line(&format!("  last  {last}  job {job}"))?;
    }
    let Schedule { run_count, skip_count, missed_count, .. } = schedule;
    screen.line(&format!("  {run_count} jobs made, {skip_count} ticks skipped, {missed_count} missed"))?;
    Ok(Exit::Done)
}

fn status(schedule: &Schedule) -> &'static str {
    if schedule.enabled { "active" } else { "paused" }
}

fn row(screen: &Screen, schedule: &Schedule) -> Vec<String> {
    let next = schedule.next_run_at.clone().unwrap_or_default();
    let last = schedule.last_run_at.clone().unwrap_or_default();
    let last = if screen.tables && !last.is_empty() { relative(&last, now()) } else { last };
    let work = schedule.job.job_type.clone().or(schedule.job.work_kind.clone()).unwrap_or_default();
    vec![
        schedule.name.clone(),
        status(schedule).to_owned(),
        schedule.cron.clone(),
        schedule.timezone.clone(),
        work,
        next,
        last,
        schedule.run_count.to_string(),
    ]
}

async fn list(flags: &SchedulesFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let schedules = flags.connection.client()?.forge().schedules().await?;
    if screen.json {
        screen.json(&json!({"schedules": schedules}))?;
        return Ok(Exit::Done);
    }
    let mut table =
        Table::new(&["SCHEDULE", "STATUS", "CRON", "ZONE", "WORK", "NEXT", "LAST", "RUNS"], &[0, 2, 3, 4]);
    schedules.iter().for_each(|schedule| table.row(row(&screen, schedule)));
    table.print(&screen)?;
    if schedules.is_empty() {
        screen.note("no schedules");
    }
    Ok(Exit::Done)
}

async fn list_all(flags: &SchedulesFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let schedules: Vec<AdminSchedule> = flags.connection.admin()?.admin().schedules().await?;
    if screen.json {
        screen.json(&json!({"items": schedules}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(
        &["CLIENT", "SCHEDULE", "STATUS", "CRON", "ZONE", "WORK", "NEXT", "LAST", "RUNS"],
        &[0, 1, 3, 4, 5],
    );
    for one in &schedules {
        let mut cells = vec![one.client.clone()];
        cells.extend(row(&screen, &one.schedule));
        table.row(cells);
    }
    table.print(&screen)?;
    if schedules.is_empty() {
        screen.note("no schedules");
    }
    Ok(Exit::Done)
}

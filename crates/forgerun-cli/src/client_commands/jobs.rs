//! Jobs: get, list, cancel, retry, report, result.

use std::io::Write;

use forgerun_client::forge::Filter;
use forgerun_problem::Timestamp;
use serde_json::{Value, json};

use super::CommandError;
use super::failure;
use super::flags::{JobFlags, ListFlags, ResultFlags, SignalFlags};
use super::ids;
use super::screen::{Screen, now, relative};
use super::submit::read_json;
use super::table::Table;
use crate::Exit;
use crate::terminal::clean;

/// Page size.
pub(super) const PAGE: usize = 200;

pub(super) async fn get(flags: &JobFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let job = client.forge().get_json(&ids::whole(&client, &flags.id).await?).await?;
    if screen.json {
        screen.json(&job)?;
        return Ok(Exit::Done);
    }
    show(&screen, &job)?;
    Ok(Exit::Done)
}

/// One fact per line, without missing ones.
fn show(screen: &Screen, job: &Value) -> std::io::Result<()> {
    let text = |name: &str| match &job[name] {
        Value::Null => None,
        Value::String(text) => Some(clean(text)),
        other => Some(clean(&other.to_string())),
    };
    let time = |name: &str| text(name).map(|at| format!("{at}  ({})", relative(&at, now())));
    let state = text("state").unwrap_or_default();
    let facts = [
        ("id", text("job_id")),
        ("state", Some(screen.state(&state, &state))),
        ("kind", Some(clean(&kind(job))).filter(|kind| !kind.is_empty())),
        ("queue", text("queue")),
        ("attempt", text("attempt")),
        ("progress", text("progress").map(|percent| format!("{percent} %"))),
        ("submitted", time("created_at")),
        ("due", time("execution_at")),
        ("updated", time("updated_at")),
        ("ended", time("completedAt")),
        ("correlation", text("correlation_id").or_else(|| text("correlationId"))),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            screen.line(&format!("{name:<12}{fact}"))?;
        }
    }
    if job["error"].is_object() {
        screen.line(&format!("{:<12}{}", "error", failure::one_line(&job["error"])))?;
    }
    Ok(())
}

/// The work of the job in one word.
pub(super) fn kind(job: &Value) -> String {
    let places = [&job["job_type"], &job["definition"]["work_kind"], &job["scenario"], &job["type"]];
    places.iter().find_map(|place| place.as_str()).unwrap_or_default().to_owned()
}

pub(super) async fn list(flags: &ListFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let wanted = flags.limit as usize;
    let mut filter = Filter { states: flags.states.clone(), queue: flags.queue.clone(), ..Filter::default() };
    let mut jobs: Vec<Value> = Vec::new();
    loop {
        filter.limit = Some((wanted - jobs.len()).min(PAGE));
        let mut page = client.forge().list_json(&filter).await?;
        if let Value::Array(found) = page["jobs"].take() {
            jobs.extend(found);
        }
        filter.cursor = page["next_cursor"].as_str().map(str::to_owned);
        // A page may be short or empty while there is more.
        if filter.cursor.is_none() || jobs.len() >= wanted {
            break;
        }
    }
    if screen.json {
        screen.json(&json!({"jobs": jobs, "next_cursor": filter.cursor}))?;
        return Ok(Exit::Done);
    }
    let heading = &["ID", "STATE", "KIND", "QUEUE", "TRY", "SUBMITTED"];
    let mut table = Table::new(heading, &[2, 3]).with_state(1).with_ids(&[0]);
    let text = |job: &Value, name: &str| job[name].as_str().unwrap_or_default().to_owned();
    for job in &jobs {
        let created = text(job, "created_at");
        let created = if screen.tables { relative(&created, now()) } else { created };
        let (id, state, queue) = (text(job, "job_id"), text(job, "state"), text(job, "queue"));
        table.row(vec![id, state, kind(job), queue, job["attempt"].to_string(), created]);
    }
    table.print(&screen)?;
    if jobs.is_empty() {
        screen.note("no jobs");
    } else if filter.cursor.is_some() {
        screen.note(&format!("the newest {}; more with --limit", jobs.len()));
    }
    Ok(Exit::Done)
}

pub(super) async fn cancel(flags: &JobFlags) -> Result<Exit, CommandError> {
    let client = flags.connection.client()?;
    let canceled = client.forge().cancel(&ids::whole(&client, &flags.id).await?).await?;
    changed(
        flags,
        json!({"job_id": canceled.job_id, "state": canceled.state, "updated_at": canceled.updated_at}),
    )
}

/// Pauses or resumes a job; a workflow with its steps.
pub(super) async fn set_paused(flags: &JobFlags, paused: bool) -> Result<Exit, CommandError> {
    let client = flags.connection.client()?;
    let id = ids::whole(&client, &flags.id).await?;
    let job = match paused {
        true => client.forge().pause(&id).await?,
        false => client.forge().resume(&id).await?,
    };
    changed(
        flags,
        json!({"job_id": job.job_id, "state": job.state, "paused": job.paused, "updated_at": job.updated_at}),
    )
}

pub(super) async fn signal(flags: &SignalFlags) -> Result<Exit, CommandError> {
    let SignalFlags { named, name, payload } = flags;
    let body = read_json("--payload", payload)?;
    let client = named.connection.client()?;
    let job = client.forge().signal_job(&ids::whole(&client, &named.id).await?, name, &body).await?;
    changed(
        named,
        json!({"job_id": job.job_id, "state": job.state, "signal": job.signal, "updated_at": job.updated_at}),
    )
}

pub(super) async fn retry(flags: &JobFlags) -> Result<Exit, CommandError> {
    let client = flags.connection.client()?;
    let retried = client.forge().retry(&ids::whole(&client, &flags.id).await?).await?;
    let (state, attempt) = (retried.state, retried.attempt);
    changed(
        flags,
        json!({"job_id": retried.job_id, "state": state, "updated_at": retried.updated_at, "attempt": attempt}),
    )
}

fn changed(flags: &JobFlags, answer: Value) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    if screen.json {
        screen.json(&answer)?;
    } else {
        let state = answer["state"].as_str().unwrap_or_default();
        screen.line(&screen.state(state, state))?;
    }
    Ok(Exit::Done)
}

pub(super) async fn report(flags: &JobFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let report = client.forge().report(&ids::whole(&client, &flags.id).await?).await?;
    if screen.json {
        screen.json(&serde_json::to_value(&report).unwrap_or_default())?;
        return Ok(Exit::Done);
    }
    let outcome = screen.state(&report.outcome, &report.outcome);
    let mut times = report.events.iter().map(|event| event.timestamp.as_str());
    let took_ms = span_ms(times.next(), times.next_back())
        .unwrap_or_else(|| i64::try_from(report.duration_ms).unwrap_or(i64::MAX));
    let attempts = if report.attempts == 1 { "attempt" } else { "attempts" };
    screen.line(&format!("{outcome} after {took_ms} ms, {} {attempts}", report.attempts))?;
    let mut table = Table::new(&["TIME", "EVENT", "STATE", "TRY", "CAUSE"], &[4]).with_state(2);
    for event in report.events {
        let cause = event.cause.unwrap_or_default();
        table.row(vec![
            event.timestamp,
            event.event_name,
            event.next_state,
            event.attempt.to_string(),
            cause,
        ]);
    }
    table.print(&screen)?;
    Ok(Exit::Done)
}

/// Milliseconds from the first to the last event: `duration_ms` of a report covers the last attempt
/// only.
fn span_ms(first: Option<&str>, last: Option<&str>) -> Option<i64> {
    let (first, last) = (Timestamp::parse(first?).ok()?, Timestamp::parse(last?).ok()?);
    Some((last.unix_micros() - first.unix_micros()) / 1000)
}

pub(super) async fn result(flags: &ResultFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let job_id = ids::whole(&client, &flags.id).await?;
    let mut download = client.forge().result(&job_id).await?;
    let bar = screen.bytes(download.head().size);
    let Some(path) = flags.output.as_deref().filter(|path| path.as_os_str() != "-") else {
        while let Some(chunk) = download.chunk().await? {
            let mut out = std::io::stdout().lock();
            out.write_all(&chunk)?;
            out.flush()?;
        }
        return Ok(Exit::Done);
    };
    let saved = download.save(path, |at| bar.set_position(at)).await;
    bar.finish_and_clear();
    let saved = saved.inspect_err(|error| {
        // A pipe or device cannot be resumed.
        let is_file = std::fs::metadata(path).is_ok_and(|there| there.is_file()) || !path.exists();
        if is_file && matches!(error, forgerun_client::Error::Unreachable(_)) {
            screen.note("What came so far is kept; run the command again to go on.");
        }
    })?;
    if screen.json {
        screen.json(&json!({"job_id": job_id, "file": path.display().to_string(), "bytes": saved}))?;
    } else {
        screen.note(&format!("{} bytes in {}", saved, path.display()));
    }
    Ok(Exit::Done)
}

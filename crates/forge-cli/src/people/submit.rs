//! `submit`: which road a job takes follows from what is said of it.
//!
//! - `--operation` is an operation of `/api/v1`.
//! - `--kind` is simulated: on `/v1`, or on `/api/v1` where a `--type` is given too.
//! - Anything else is work for workers outside: on `/api/v1`, or on `/ojs/v1` where it is to begin later or its payload is a list.
//! - Nothing at all is a job of `/v1` whose work the server chooses.

use std::io::Read;
use std::time::UNIX_EPOCH;

use forge_client::forge::Submit;
use forge_client::ojs::NewJob;
use forge_client::operations::Submission;
use forge_client::{Client, Error};
use forge_problem::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::flags::SubmitFlags;
use super::screen::{Screen, now};
use super::{Trouble, duration, follow};
use crate::Exit;

/// The type of work that has none.
const TYPE_DEFAULT: &str = "job";

/// What is submitted, and where.
#[derive(Debug)]
enum Road {
    Forge(Submit),
    Operations(Submission),
    Ojs(NewJob),
}

pub(super) async fn submit(flags: &SubmitFlags) -> Result<Exit, Trouble> {
    let screen = Screen::of(&flags.connection);
    let payload = flags.payload.as_deref().map(read_payload).transpose()?;
    let client = flags.connection.client()?;
    let road = road(flags, payload)?;
    let (job_id, state) = send(&client, &road).await.map_err(|error| explained(error, flags))?;
    let Some(patience) = flags.wait else {
        if screen.json {
            screen.json(&json!({"job_id": job_id, "state": state}))?;
        } else {
            screen.line(&job_id)?;
        }
        return Ok(Exit::Done);
    };
    screen.note(&job_id);
    follow::wait_and_print(&client, &screen, &job_id, patience.0).await
}

async fn send(client: &Client, road: &Road) -> Result<(String, String), Error> {
    match road {
        Road::Forge(job) => {
            client.forge().submit(job).await.map(|submitted| (submitted.job_id, submitted.state))
        }
        Road::Operations(job) => client.operations().submit(job).await.map(|accepted| {
            let status = accepted.members.get("status").and_then(Value::as_str).unwrap_or("Queued");
            (accepted.job_id, status.to_ascii_uppercase())
        }),
        Road::Ojs(job) => client.ojs().submit(job).await.map(|job| (job.id, job.state.to_ascii_uppercase())),
    }
}

/// What is below an operation's address may be read but not posted to, and so says the server of an operation that it does not have.
fn explained(error: Error, flags: &SubmitFlags) -> Trouble {
    match (&flags.operation, error.api().and_then(|said| said.status)) {
        (Some(operation), Some(404 | 405)) => {
            Trouble::Refused(format!("the server has no operation {operation:?}; its operator declares them"))
        }
        (Some(_) | None, _) => error.into(),
    }
}

/// JSON, the JSON of a file, or that of standard input, as it is written.
pub(super) fn read_payload(text: &str) -> Result<Box<RawValue>, Trouble> {
    let wrong = |what: &str, reason: String| Trouble::Usage(format!("could not read {what}: {reason}"));
    let (what, text) = match text.strip_prefix('@') {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            (path.to_owned(), text.map_err(|error| wrong(path, error.to_string()))?)
        }
        None if text == "-" => {
            let mut all = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut all);
            read.map_err(|error| wrong("standard input", error.to_string()))?;
            ("standard input".to_owned(), all)
        }
        None => ("--payload".to_owned(), text.to_owned()),
    };
    serde_json::from_str(&text).map_err(|error| wrong(&what, format!("it is no JSON: {error}")))
}

fn road(flags: &SubmitFlags, payload: Option<Box<RawValue>>) -> Result<Road, Trouble> {
    let at = flags.at.as_deref().map(moment).transpose()?;
    if let Some(operation) = &flags.operation {
        return Ok(Road::Operations(operations(Submission::operation(operation), flags, payload)?));
    }
    let form = flags.r#type.as_deref().filter(|word| ["EXECUTE", "DEFERRED", "EMIT_EVENT"].contains(word));
    let nothing = flags.r#type.is_none() && flags.queue.is_none() && payload.is_none() && at.is_none();
    if form.is_some() || (flags.kind.is_some() && flags.r#type.is_none()) || (flags.kind.is_none() && nothing)
    {
        return forge(flags, form, payload, at).map(Road::Forge);
    }
    let job_type = flags.r#type.as_deref().unwrap_or(TYPE_DEFAULT);
    let listed = payload.as_ref().is_some_and(|payload| payload.get().starts_with('['));
    match (&flags.kind, at) {
        (Some(_), Some(_)) => Err(Trouble::Usage(
            "--at with --kind goes without --type: /v1 schedules simulated work".to_owned(),
        )),
        (None, at) if listed || at.is_some() => ojs(job_type, flags, payload, at).map(Road::Ojs),
        (_, _) => Ok(Road::Operations(operations(Submission::job(job_type), flags, payload)?)),
    }
}

fn forge(
    flags: &SubmitFlags,
    form: Option<&str>,
    payload: Option<Box<RawValue>>,
    at: Option<String>,
) -> Result<Submit, Trouble> {
    let mut job = match (form, at) {
        (Some("EMIT_EVENT"), None) => Submit::emit_event(),
        (Some("DEFERRED") | None, Some(at)) => Submit::deferred(at),
        (Some("EXECUTE") | None, None) => Submit::execute(),
        (Some("DEFERRED"), None) => return Err(Trouble::Usage("a DEFERRED job needs --at".to_owned())),
        (Some(form), _) => return Err(Trouble::Usage(format!("--at is for DEFERRED jobs, not for {form}"))),
    };
    if let Some(kind) = &flags.kind {
        job = job.work_kind(kind);
    }
    if let Some(queue) = &flags.queue {
        job = job.queue(queue);
    }
    if let Some(payload) = payload {
        job = job.raw_payload(payload);
    }
    if let Some(key) = &flags.idempotency_key {
        job = job.idempotency_key(key);
    }
    Ok(job)
}

fn operations(
    mut job: Submission,
    flags: &SubmitFlags,
    payload: Option<Box<RawValue>>,
) -> Result<Submission, Trouble> {
    if let Some(payload) = payload {
        if !payload.get().starts_with('{') {
            return Err(Trouble::Usage(format!("the payload must be a JSON object, not {payload}")));
        }
        job = job.raw_parameters(payload);
    }
    if let Some(queue) = &flags.queue {
        job = job.queue(queue);
    }
    if let Some(kind) = &flags.kind {
        job = job.work_kind(kind);
    }
    if let Some(key) = &flags.idempotency_key {
        job = job.idempotency_key(key);
    }
    Ok(job)
}

fn ojs(
    job_type: &str,
    flags: &SubmitFlags,
    payload: Option<Box<RawValue>>,
    at: Option<String>,
) -> Result<NewJob, Trouble> {
    let mut job = match payload {
        None => NewJob::new(job_type, json!([])),
        Some(args) if args.get().starts_with(['{', '[']) => NewJob::raw(job_type, args),
        Some(args) => {
            return Err(Trouble::Usage(format!("the payload must be a JSON object or a list, not {args}")));
        }
    };
    if let Some(queue) = &flags.queue {
        job = job.option("queue", queue.as_str());
    }
    if let Some(at) = at {
        job = job.option("scheduled_at", at);
    }
    if let Some(key) = &flags.idempotency_key {
        job = job.idempotency_key(key);
    }
    Ok(job)
}

/// A time as it is written, or so long from now: `+10m`.
fn moment(text: &str) -> Result<String, Trouble> {
    let Some(span) = text.strip_prefix('+') else {
        return match Timestamp::parse(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => Err(Trouble::Usage(format!("{text:?} is no time; write 2030-01-31T12:00:00Z or +10m"))),
        };
    };
    let span = duration::parse(span).map_err(Trouble::Usage)?;
    let at = now().duration_since(UNIX_EPOCH).unwrap_or_default() + span;
    let at = Timestamp::from_unix_millis(at.as_millis() as i64);
    at.map(|at| at.to_string()).map_err(|_| Trouble::Usage(format!("{text:?} is too far away")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::people::People;

    #[derive(Parser)]
    struct CommandLine {
        #[command(subcommand)]
        command: People,
    }

    fn road_of(arguments: &[&str]) -> String {
        let all = ["forgerun", "submit"].iter().chain(arguments);
        let People::Submit(flags) = CommandLine::parse_from(all).command else { panic!() };
        let payload = flags.payload.as_deref().map(|text| serde_json::from_str(text).unwrap());
        match road(&flags, payload) {
            Ok(Road::Forge(job)) => format!("/v1 {}", serde_json::to_string(&job).unwrap()),
            Ok(Road::Operations(job)) => format!("/api {}", serde_json::to_string(&job).unwrap()),
            Ok(Road::Ojs(job)) => format!("/ojs {}", serde_json::to_string(&job).unwrap()),
            Err(Trouble::Usage(text)) => text,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_said_of_a_job_decides_where_it_is_submitted() {
        let at = "2030-01-31T12:00:00Z";
        for (arguments, expected) in [
            (&[][..], r#"/v1 {"type":"EXECUTE"}"#),
            (&["--kind", "K"], r#"/v1 {"type":"EXECUTE","work_kind":"K"}"#),
            (
                &["--kind", "K", "--at", at],
                r#"/v1 {"type":"DEFERRED","work_kind":"K","execution_at":"2030-01-31T12:00:00Z"}"#,
            ),
            (&["--type", "EMIT_EVENT"], r#"/v1 {"type":"EMIT_EVENT"}"#),
            (&["--queue", "q"], r#"/api {"type":"job","queue":"q"}"#),
            (&["--type", "t", "--payload", "{\"a\":1}"], r#"/api {"type":"t","parameters":{"a":1}}"#),
            (&["--type", "t", "--kind", "K"], r#"/api {"type":"t","work_kind":"K"}"#),
            (
                &["--type", "t", "--payload", r#"{"b":1.10, "n":123456789012345678901234567890,"e":1e400}"#],
                r#"/api {"type":"t","parameters":{"b":1.10, "n":123456789012345678901234567890,"e":1e400}}"#,
            ),
            (&["--type", "t", "--payload", " [ 1.10 ] "], r#"/ojs {"type":"t","args":[ 1.10 ]}"#),
            (&["--kind", "K", "--payload", "1E2"], r#"/v1 {"type":"EXECUTE","work_kind":"K","payload":1E2}"#),
            (&["--operation", "reports/generate"], "/api {}"),
            (&["--type", "t", "--payload", "[1]"], r#"/ojs {"type":"t","args":[1]}"#),
            (
                &["--type", "t", "--at", at],
                r#"/ojs {"type":"t","args":[],"options":{"scheduled_at":"2030-01-31T12:00:00Z"}}"#,
            ),
            (&["--type", "DEFERRED"], "a DEFERRED job needs --at"),
            (&["--type", "t", "--payload", "7"], "the payload must be a JSON object, not 7"),
            (&["--at", "tomorrow"], "\"tomorrow\" is no time; write 2030-01-31T12:00:00Z or +10m"),
        ] {
            assert_eq!(road_of(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_moment_may_be_so_long_from_now() {
        let at = Timestamp::parse(&moment("+10m").unwrap()).unwrap();
        let now = now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!((595..=605).contains(&(at.unix_seconds() - now)));
    }
}

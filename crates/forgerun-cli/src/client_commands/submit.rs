//! `submit`: the flags decide on which dialect a job is submitted.
//!
//! - `--operation` is an operation of `/api/v1`.
//! - `--kind` is simulated: on `/v1`, or on `/api/v1` if a `--type` is given too.
//! - `--type` is work for external workers: on `/api/v1`, or on `/v1` if it starts later, is
//!   unique, or its payload is a list.

use std::io;
use std::time::UNIX_EPOCH;

use forgerun_client::forge::Submit;
use forgerun_client::operations::Submission;
use forgerun_client::{Client, Error};
use forgerun_problem::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::flags::SubmitFlags;
use super::screen::{Screen, now};
use super::{CommandError, duration, follow};
use crate::Exit;

/// Retries of real work on `/v1`, where the default is none; as many as `/api/v1` has by default.
const RETRIES_DEFAULT: u32 = 3;

/// A missing flag must not start a simulation (C-119).
pub(super) const NOTHING_TO_DO: &str = "say what to do: --type TYPE for work of your own workers, --kind WORK_KIND for \
     simulated work";

/// The request, by dialect.
#[derive(Debug)]
enum JobRequest {
    Forge(Submit),
    Operations(Submission),
}

pub(super) async fn submit(flags: &SubmitFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let payload = flags.payload.as_deref().map(read_payload).transpose()?;
    let client = flags.connection.client()?;
    let request = job_request(flags, payload)?;
    let (job_id, state) = send(&client, &request).await.map_err(|error| explained(error, flags))?;
    let Some(limit) = flags.wait else {
        if screen.json {
            screen.json(&json!({"job_id": job_id, "state": state}))?;
        } else {
            screen.line(&job_id)?;
        }
        return Ok(Exit::Done);
    };
    screen.note(&job_id);
    follow::wait_and_print(&client, &screen, &job_id, limit.0).await
}

async fn send(client: &Client, request: &JobRequest) -> Result<(String, String), Error> {
    match request {
        JobRequest::Forge(job) => {
            client.forge().submit(job).await.map(|submitted| (submitted.job_id, submitted.state))
        }
        JobRequest::Operations(job) => client.operations().submit(job).await.map(|accepted| {
            let status = accepted.members.get("status").and_then(Value::as_str).unwrap_or("Queued");
            (accepted.job_id, status.to_ascii_uppercase())
        }),
    }
}

/// Paths below an operation's address may be read but not posted to; the server answers the same
/// for an unknown operation.
fn explained(error: Error, flags: &SubmitFlags) -> CommandError {
    match (&flags.operation, error.api().and_then(|said| said.status)) {
        (Some(operation), Some(404 | 405)) => CommandError::Refused(format!(
            "the server has no operation {operation:?}; its operator declares them"
        )),
        (Some(_) | None, _) => error.into(),
    }
}

/// The payload: JSON, `@FILE`, or `-` for standard input, unchanged.
pub(super) fn read_payload(text: &str) -> Result<Box<RawValue>, CommandError> {
    read_json("--payload", text)
}

/// The same for another argument, which errors name.
pub(super) fn read_json(argument: &str, text: &str) -> Result<Box<RawValue>, CommandError> {
    let wrong = |reason: String| CommandError::Usage(format!("{argument}: {reason}"));
    let unread = |what: &str, error: io::Error| wrong(format!("could not read {what}: {error}"));
    let (what, text) = match text.strip_prefix('@') {
        Some(path) => (path, std::fs::read_to_string(path).map_err(|error| unread(path, error))?),
        None if text == "-" => {
            let all =
                io::read_to_string(io::stdin().lock()).map_err(|error| unread("standard input", error))?;
            ("standard input", all)
        }
        None => ("it", text.to_owned()),
    };
    serde_json::from_str(&text).map_err(|error| wrong(format!("{what} is no JSON: {error}")))
}

fn job_request(flags: &SubmitFlags, payload: Option<Box<RawValue>>) -> Result<JobRequest, CommandError> {
    let at = match (&flags.at, &flags.delay) {
        (Some(at), _) => Some(moment(at)?),
        (None, Some(delay)) => Some(moment(&format!("+{delay}"))?),
        (None, None) => None,
    };
    if let Some(operation) = &flags.operation {
        let mut job = Submission::operation(operation);
        if let Some(job_type) = &flags.r#type {
            job = job.job_type(job_type);
        }
        return operations(job, flags, payload).map(JobRequest::Operations);
    }
    let form = flags.r#type.as_deref().filter(|word| ["EXECUTE", "DEFERRED", "EMIT_EVENT"].contains(word));
    let job_type = flags.r#type.as_deref().filter(|_| form.is_none());
    match (job_type, &flags.kind) {
        (None, None) if form != Some("EMIT_EVENT") => {
            Err(CommandError::Usage(format!("{NOTHING_TO_DO}, or --operation RESOURCE/ACTION")))
        }
        (None, _) => forge(flags, form, payload, at).map(JobRequest::Forge),
        (Some(_), Some(_)) if at.is_some() || flags.unique.is_some() => Err(CommandError::Usage(
            "--at, --delay and --unique with --kind go without --type: /v1 schedules simulated work"
                .to_owned(),
        )),
        (Some(job_type), None) if at.is_some() || flags.unique.is_some() || is_list(payload.as_deref()) => {
            if let Some(other) = payload.as_ref().filter(|payload| !payload.get().starts_with(['{', '['])) {
                let text = format!("the payload must be a JSON object or a list, not {other}");
                return Err(CommandError::Usage(text));
            }
            let job = forge(flags, None, payload, at)?.job_type(job_type);
            Ok(JobRequest::Forge(job.max_retries(flags.retries.unwrap_or(RETRIES_DEFAULT))))
        }
        (Some(job_type), _) => {
            operations(Submission::job(job_type), flags, payload).map(JobRequest::Operations)
        }
    }
}

fn is_list(payload: Option<&RawValue>) -> bool {
    payload.is_some_and(|payload| payload.get().starts_with('['))
}

fn forge(
    flags: &SubmitFlags,
    form: Option<&str>,
    payload: Option<Box<RawValue>>,
    at: Option<String>,
) -> Result<Submit, CommandError> {
    let mut job = match (form, at) {
        (Some("EMIT_EVENT"), None) => Submit::emit_event(),
        (Some("DEFERRED") | None, Some(at)) => Submit::deferred(at),
        (Some("EXECUTE") | None, None) => Submit::execute(),
        (Some("DEFERRED"), None) => return Err(CommandError::Usage("a DEFERRED job needs --at".to_owned())),
        (Some(form), _) => {
            return Err(CommandError::Usage(format!("--at is for DEFERRED jobs, not for {form}")));
        }
    };
    job = flags.kind.iter().fold(job, Submit::work_kind);
    job = flags.queue.iter().fold(job, Submit::queue);
    job = payload.into_iter().fold(job, Submit::raw_payload);
    job = flags.idempotency_key.iter().fold(job, Submit::idempotency_key);
    job = flags.priority.into_iter().fold(job, Submit::priority);
    job = flags.fair.iter().fold(job, |job, fair| job.fair(&*fair.key, fair.weight));
    job = flags.retries.into_iter().fold(job, Submit::max_retries);
    job = flags.timeout.iter().fold(job, Submit::timeout);
    job = flags.deadline.iter().fold(job, Submit::deadline);
    job = flags.tag.iter().fold(job, Submit::tag);
    Ok(flags.unique.iter().fold(job, Submit::unique_key))
}

fn operations(
    mut job: Submission,
    flags: &SubmitFlags,
    payload: Option<Box<RawValue>>,
) -> Result<Submission, CommandError> {
    if let Some(payload) = payload {
        if !payload.get().starts_with('{') {
            return Err(CommandError::Usage(format!("the payload must be a JSON object, not {payload}")));
        }
        job = job.raw_parameters(payload);
    }
    job = flags.queue.iter().fold(job, Submission::queue);
    job = flags.kind.iter().fold(job, Submission::work_kind);
    job = flags.idempotency_key.iter().fold(job, Submission::idempotency_key);
    let members = [
        ("priority", flags.priority.map(Value::from)),
        ("fair", flags.fair.as_ref().map(|fair| json!({"key": fair.key, "weight": fair.weight}))),
        ("maxRetries", flags.retries.map(Value::from)),
        ("timeout", flags.timeout.clone().map(Value::from)),
        ("deadline", flags.deadline.clone().map(Value::from)),
        ("tags", (!flags.tag.is_empty()).then(|| flags.tag.clone().into())),
    ];
    let given = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(given.fold(job, |job, (name, value)| job.member(name, value)))
}

/// A time unchanged, or a delay from now: `+10m`.
fn moment(text: &str) -> Result<String, CommandError> {
    let Some(span) = text.strip_prefix('+') else {
        return match Timestamp::parse(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => {
                Err(CommandError::Usage(format!("{text:?} is no time; write 2030-01-31T12:00:00Z or +10m")))
            }
        };
    };
    let span = duration::parse(span).map_err(CommandError::Usage)?;
    let at = now().duration_since(UNIX_EPOCH).unwrap_or_default() + span;
    let at = Timestamp::from_unix_millis(at.as_millis() as i64);
    at.map(|at| at.to_string()).map_err(|_| CommandError::Usage(format!("{text:?} is too far away")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::client_commands::ClientCommand;

    #[derive(Parser)]
    struct CommandLine {
        #[command(subcommand)]
        command: ClientCommand,
    }

    fn road_of(arguments: &[&str]) -> String {
        let all = ["forgerun", "submit"].iter().chain(arguments);
        let ClientCommand::Submit(flags) = CommandLine::parse_from(all).command else { panic!() };
        let payload = flags.payload.as_deref().map(|text| serde_json::from_str(text).unwrap());
        match job_request(&flags, payload) {
            Ok(JobRequest::Forge(job)) => format!("/v1 {}", serde_json::to_string(&job).unwrap()),
            Ok(JobRequest::Operations(job)) => format!("/api {}", serde_json::to_string(&job).unwrap()),
            Err(CommandError::Usage(text)) => text,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_said_of_a_job_decides_where_it_is_submitted() {
        let at = "2030-01-31T12:00:00Z";
        for (arguments, expected) in [
            (&["--kind", "K"][..], r#"/v1 {"type":"EXECUTE","work_kind":"K"}"#),
            (
                &["--kind", "K", "--at", at],
                r#"/v1 {"type":"DEFERRED","work_kind":"K","execution_at":"2030-01-31T12:00:00Z"}"#,
            ),
            (&["--type", "EMIT_EVENT"], r#"/v1 {"type":"EMIT_EVENT"}"#),
            (&["--type", "t", "--payload", "{\"a\":1}"], r#"/api {"type":"t","parameters":{"a":1}}"#),
            (&["--type", "t", "--kind", "K"], r#"/api {"type":"t","work_kind":"K"}"#),
            (
                &["--type", "t", "--payload", r#"{"b":1.10, "n":123456789012345678901234567890,"e":1e400}"#],
                r#"/api {"type":"t","parameters":{"b":1.10, "n":123456789012345678901234567890,"e":1e400}}"#,
            ),
            (
                &["--type", "t", "--payload", " [ 1.10 ] "],
                r#"/v1 {"type":"EXECUTE","job_type":"t","payload":[ 1.10 ],"max_retries":3}"#,
            ),
            (&["--kind", "K", "--payload", "1E2"], r#"/v1 {"type":"EXECUTE","work_kind":"K","payload":1E2}"#),
            (&["--operation", "reports/generate"], "/api {}"),
            (&["--operation", "a/b", "--type", "t"], r#"/api {"type":"t"}"#),
            (
                &["--type", "t", "--at", at],
                r#"/v1 {"type":"DEFERRED","job_type":"t","execution_at":"2030-01-31T12:00:00Z","max_retries":3}"#,
            ),
            (
                &["--type", "t", "--priority", "-7", "--retries", "0", "--timeout", "90s"],
                r#"/api {"type":"t","priority":-7,"maxRetries":0,"timeout":"90s"}"#,
            ),
            (
                &["--type", "t", "--deadline", "1h30m", "--tag", "eu", "--tag", "a:1"],
                r#"/api {"type":"t","deadline":"1h30m","tags":["eu","a:1"]}"#,
            ),
            (
                &["--kind", "K", "--deadline", at, "--tag", "eu"],
                r#"/v1 {"type":"EXECUTE","work_kind":"K","deadline":"2030-01-31T12:00:00Z","tags":["eu"]}"#,
            ),
            (
                &["--type", "Big.Job", "--unique", "order 7", "--retries", "1"],
                r#"/v1 {"type":"EXECUTE","job_type":"Big.Job","max_retries":1,"unique_key":"order 7"}"#,
            ),
            (&["--kind", "K", "--type", "DEFERRED"], "a DEFERRED job needs --at"),
            (&["--type", "t", "--payload", "7"], "the payload must be a JSON object, not 7"),
            (
                &["--type", "t", "--at", "tomorrow"],
                "\"tomorrow\" is no time; write 2030-01-31T12:00:00Z or +10m",
            ),
        ] {
            assert_eq!(road_of(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn nothing_is_simulated_because_a_flag_is_missing() {
        for arguments in [&[][..], &["--queue", "q"], &["--payload", "{}"], &["--type", "EXECUTE"]] {
            let hint = road_of(arguments);
            let flags = ["--type", "--kind", "--operation"];
            assert!(flags.iter().all(|flag| hint.contains(flag)), "{arguments:?}: {hint}");
        }
    }

    #[test]
    fn a_moment_may_be_so_long_from_now() {
        let at = Timestamp::parse(&moment("+10m").unwrap()).unwrap();
        let now = now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!((595..=605).contains(&(at.unix_seconds() - now)));
    }
}

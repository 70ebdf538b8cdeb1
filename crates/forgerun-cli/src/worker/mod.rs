//! `forgerun worker`: any program or URL does the work of jobs.

mod child;
mod exec;
mod files;
mod lines;
mod logged;
mod program;

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use forgerun_client::Worker as Work;
use forgerun_client::worker::{HttpHandler, Note, Sign, WorkerBuilder};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Exit;
use crate::client_commands::{CommandError, Connection, ServerConnection, given, parse_duration};
use crate::terminal::{clean, complain, say};

/// Environment variables of a program: id, type, queue, attempt, trace, and the files of
/// [`files::JobFiles`]. A server that it starts ignores them.
pub const JOB_VARIABLES: [&str; 7] = [
    "FORGERUN_JOB_ID",
    "FORGERUN_JOB_TYPE",
    "FORGERUN_QUEUE",
    "FORGERUN_ATTEMPT",
    "FORGERUN_TRACEPARENT",
    "FORGERUN_PARENT_RESULTS",
    "FORGERUN_RESULT_TYPE_FILE",
];

/// How much longer than a child's grace its worker waits: to kill it, and to read its output.
const BEYOND_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Subcommand)]
pub enum Worker {
    /// Start a program for each job: its input on standard input, its standard output is the result
    #[command(after_help = EXEC_HELP)]
    Exec(ExecFlags),
    /// Post each job to a URL; the body of the answer is the result
    #[command(after_help = HTTP_HELP)]
    Http(HttpFlags),
}

const EXEC_HELP: &str = "\
The program finds FORGERUN_JOB_ID, FORGERUN_JOB_TYPE, FORGERUN_QUEUE, FORGERUN_ATTEMPT and, if the job was submitted with a
traceparent, FORGERUN_TRACEPARENT in its environment. For a step of a workflow FORGERUN_PARENT_RESULTS names a file with the results of the
steps before it, {\"step\": result}. It may write the media type of its result to the file FORGERUN_RESULT_TYPE_FILE.
Exit code 0 succeeds, 75 asks for a retry, 65 fails for good; any other code, and a signal, fail as the retry policy says.
A line `forgerun: progress N [text]` on standard error is progress; its other lines go to the job's log, the last ones are the message of a failure.
Cancelled or out of time, its process group gets SIGTERM, and SIGKILL after --grace.";

const HTTP_HELP: &str = "\
The request carries Forgerun-Job-Id, Forgerun-Job-Type, Forgerun-Queue, Forgerun-Attempt and traceparent, and is signed after
Standard Webhooks if there is a secret. 2xx succeeds; a problem object fails as its members say; 429 and 503 ask for a retry; other
4xx fail for good; other 5xx and no answer ask for a retry, after Retry-After or the member retryAfter if there is one.";

#[derive(Debug, Args)]
pub struct Common {
    /// Claim jobs of this queue; several are tried in order [default: default]
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Concurrent jobs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// Only jobs whose type matches, such as image.*; others are handed back
    #[arg(long = "type", value_name = "GLOB", value_parser = job_type)]
    job_type: Option<String>,
    /// Lease of a job without a heartbeat
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    lease: Duration,
    /// Wait for running jobs after SIGTERM, before they are stopped and handed back
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    drain: Duration,
    /// Claim jobs over gRPC, from the listener at this address, such as http://127.0.0.1:9090
    #[cfg(feature = "grpc")]
    #[arg(long, value_name = "URL")]
    grpc: Option<String>,
}

#[derive(Debug, Args)]
pub struct ExecFlags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
    /// How long a stopped program may take to end before it is killed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// The media type of output that is not JSON [default: application/octet-stream]
    #[arg(long, value_name = "MEDIA", value_parser = media_type)]
    result_type: Option<String>,
    /// Also send standard output to the job's log, line by line, as stream `output`
    #[arg(long, conflicts_with = "no_logs")]
    stream: bool,
    /// Do not send standard error to the job's log
    #[arg(long)]
    no_logs: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct HttpFlags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: ServerConnection,
    /// URL to post to
    #[arg(long, value_name = "URL")]
    url: String,
    /// Post {"job", "input", "parents"} instead of the bare input; parents has the results of the
    /// steps before
    #[arg(long)]
    envelope: bool,
    /// Secret to sign with, whsec_… [env: FORGERUN_WORKER_SECRET]
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
}

/// A pattern that matches some type. Otherwise every job would be handed back.
fn job_type(text: &str) -> Result<String, String> {
    match text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        false => Ok(text.to_owned()),
        true => Err("no job has such a type: types have no spaces".to_owned()),
    }
}

/// A media type, with parameters or without.
fn media_type(text: &str) -> Result<String, String> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_media = essence.split_once('/').is_some_and(|(kind, subtype)| is_word(kind) && is_word(subtype));
    match is_media && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("it is no media type, such as text/csv".to_owned()),
    }
}

/// Makes a signature from a secret, by Standard Webhooks; `None` if the text is not a secret.
pub type SignWith = fn(&str) -> Option<Sign>;

/// Works until it is stopped.
pub fn run(command: &Worker, sign_with: SignWith) -> Exit {
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let (common, connection, builder) = match command {
        Worker::Exec(flags) => (&flags.common, flags.connection.clone(), exec_worker(flags)),
        Worker::Http(flags) => (&flags.common, flags.connection.connection(), http_worker(flags, sign_with)),
    };
    match builder {
        Ok(builder) => {
            let ended = runtime.block_on(work(common, &connection, builder));
            // A pipe that a grandchild keeps open must not block the exit.
            runtime.shutdown_background();
            ended.unwrap_or_else(|error| error.print())
        }
        Err(error) => error.print(),
    }
}

fn exec_worker(flags: &ExecFlags) -> Result<WorkerBuilder, CommandError> {
    let program = program::find(&flags.command[0]).map_err(CommandError::Usage)?;
    let handler = exec::Exec {
        program,
        arguments: flags.command[1..].to_vec(),
        grace: flags.grace,
        result_type: flags.result_type.clone(),
        pass_on: !flags.connection.quiet,
        logs: !flags.no_logs,
        stream: flags.stream,
    };
    let builder = Work::builder(flags.connection.worker()?).grace(flags.grace + BEYOND_GRACE);
    Ok(with_type(builder, &flags.common, handler))
}

fn http_worker(flags: &HttpFlags, sign_with: SignWith) -> Result<WorkerBuilder, CommandError> {
    let sign = given(&flags.secret, "FORGERUN_WORKER_SECRET").map(|text| {
        let wrong = "a secret is whsec_ and the base64 of 24 to 64 bytes";
        sign_with(&text).ok_or_else(|| CommandError::Usage(wrong.to_owned()))
    });
    let sign = sign.transpose()?;
    let handler =
        HttpHandler::new(&flags.url, flags.common.concurrency.into(), sign)?.envelope(flags.envelope);
    let client = flags.connection.connection().worker()?;
    Ok(with_type(Work::builder(client), &flags.common, handler))
}

fn with_type(
    builder: WorkerBuilder,
    common: &Common,
    handler: impl forgerun_client::worker::Handler,
) -> WorkerBuilder {
    match &common.job_type {
        Some(glob) => builder.handler(glob, handler).hand_back_others(),
        None => builder.handler("*", handler),
    }
}

async fn work(
    common: &Common,
    connection: &Connection,
    builder: WorkerBuilder,
) -> Result<Exit, CommandError> {
    let Common { queues, concurrency, lease, drain, .. } = common;
    let builder = queues.iter().fold(builder, |builder, queue| builder.queue(queue));
    #[cfg(feature = "grpc")]
    let builder = match &common.grpc {
        Some(url) => builder.grpc(url),
        None => builder,
    };
    let (json, quiet) = (connection.json, connection.quiet);
    let worker = builder
        .concurrency(usize::from(*concurrency))
        .lease(*lease)
        .drain(*drain)
        .notes(move |note| print_note(note, json, quiet))
        .build()?;
    let mut stops = Stops::listen()?;
    let quiet = quiet || json;
    if !quiet {
        let queues = if queues.is_empty() { "default".to_owned() } else { queues.join(", ") };
        let _ = writeln!(std::io::stderr().lock(), "forgerun: working on {queues} at {}", connection.url());
    }
    let hurried = worker.clone();
    let stop = async move {
        stops.next().await;
        // A second signal stops at once.
        tokio::spawn(async move {
            stops.next().await;
            hurried.hurry();
        });
    };
    match worker.run(stop).await {
        Ok(stopped) => {
            if !quiet {
                let text = format!(
                    "stopped: {} succeeded, {} failed, {} handed back",
                    stopped.succeeded, stopped.failed, stopped.handed_back
                );
                say(&text, Exit::Done);
            }
            Ok(Exit::Done)
        }
        Err(error) => Err(error.into()),
    }
}

/// The signals that stop a worker.
struct Stops {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal is closed; `None` if that is ignored.
    hang_up: Option<Signal>,
}

impl Stops {
    fn listen() -> std::io::Result<Stops> {
        let hang_up = match ignores_hang_up() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Stops { terminate, interrupt, hang_up })
    }

    async fn next(&mut self) {
        let Stops { terminate, interrupt, hang_up } = self;
        let hung_up = async {
            match hang_up {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = hung_up => {}
        }
    }
}

/// Whether this process was started to outlive the terminal, as by `nohup`: handling SIGHUP would
/// undo that. Known with `/proc`.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first signal is the lowest bit, and SIGHUP is the first.
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}

/// One line per note: text on standard error, or JSON on standard output.
fn print_note(note: &Note<'_>, json: bool, quiet: bool) {
    let (event, job, text): (&str, _, String) = match note {
        Note::Took(job) => ("took", Some(job), String::new()),
        Note::Succeeded(job) => ("succeeded", Some(job), String::new()),
        Note::Failed(job, failure) => ("failed", Some(job), failure.message.clone()),
        Note::Lost(job) => {
            ("lost", Some(job), "cancelled, out of time, or given to another worker".to_owned())
        }
        Note::HandedBack(job) => ("handed_back", Some(job), String::new()),
        Note::Away { error, wait } => {
            ("away", None, format!("{error}; trying again in {} ms", wait.as_millis()))
        }
        Note::Draining(n) => ("draining", None, format!("waiting for {n} jobs")),
        Note::NotReported(job, error) => ("not_reported", Some(job), error.to_string()),
        _ => return,
    };
    if json {
        let job_id = job.map_or(Value::Null, |job| job.id.as_str().into());
        let job_type = job.map_or(Value::Null, |job| job.job_type.as_str().into());
        let line = json!({"event": event, "job_id": job_id, "type": job_type, "message": text});
        let _ = writeln!(std::io::stdout().lock(), "{line}");
        return;
    }
    if quiet || event == "took" {
        return;
    }
    let about = job.map(|job| format!("{} {} ", job.id, job.job_type)).unwrap_or_default();
    let text = text.lines().last().unwrap_or_default();
    let line = clean(&format!("forgerun: {about}{}  {text}", event.replace('_', " ")));
    let _ = writeln!(std::io::stderr().lock(), "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_has_two_words() {
        for text in ["text/csv", "application/vnd.a+json", "text/plain; charset=utf-8", "text/plain ;a=b"] {
            assert_eq!(media_type(text).as_deref(), Ok(text));
        }
        for text in ["", "foo", "text/", "/csv", "text/csv/x", "te xt/csv", "text/csv\r\nx: y", "text/ä"] {
            assert!(media_type(text).is_err(), "{text}");
        }
    }
}

//! `forgerun worker`: any program, or any URL, does the work of jobs.

mod child;
mod exec;
mod lines;
mod program;

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use forge_client::Worker as Work;
use forge_client::worker::{HttpHandler, Note, Sign, WorkerBuilder};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::Exit;
use crate::people::{Connection, ServerConnection, Trouble, exit_of, given, parse_duration};
use crate::terminal::{complain, say};

/// How much longer than a child's grace its worker waits for it: the time to kill it, and to read what it said.
const BEYOND_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "it would be a text of --help")]
pub enum Worker {
    /// Start a program for each job: its input on standard input, its standard output is the result
    #[command(after_help = EXEC_HELP)]
    Exec(ExecFlags),
    /// Post each job to a URL; the body of the answer is the result
    #[command(after_help = HTTP_HELP)]
    Http(HttpFlags),
}

const EXEC_HELP: &str = "\
The program finds FORGERUN_JOB_ID, FORGERUN_JOB_TYPE, FORGERUN_QUEUE, FORGERUN_ATTEMPT and FORGERUN_TRACEPARENT in its environment.
Exit code 0 succeeds, 75 asks for a retry, 65 fails for good; any other code, and a signal, fail as the retry policy says.
A line `forgerun: progress N [text]` on standard error is progress; its last lines are the message of a failure.
Cancelled or out of time, its process group gets SIGTERM, and SIGKILL after --grace.";

const HTTP_HELP: &str = "\
The request carries Forgerun-Job-Id, Forgerun-Job-Type, Forgerun-Queue, Forgerun-Attempt and traceparent, and is signed after
Standard Webhooks if there is a secret. 2xx succeeds; a problem object fails as its members say; 429 and 503 ask for a retry; other
4xx fail for good; other 5xx and no answer ask for a retry.";

#[derive(Debug, Args)]
#[expect(missing_docs, reason = "it would be a text of --help")]
pub struct Common {
    /// Take jobs of this queue; several are tried in order [default: default]
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// How many jobs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// Only jobs whose type fits, such as image.*; others are handed back
    #[arg(long = "type", value_name = "GLOB")]
    job_type: Option<String>,
    /// How long a job is ours without a sign of life
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    lease: Duration,
    /// How long to wait for what runs after SIGTERM, before it is stopped and handed back
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    drain: Duration,
    /// Take jobs over gRPC, from the listener at this address, such as http://127.0.0.1:9090
    #[cfg(feature = "grpc")]
    #[arg(long, value_name = "URL")]
    grpc: Option<String>,
}

#[derive(Debug, Args)]
#[expect(missing_docs, reason = "it would be a text of --help")]
pub struct ExecFlags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
    /// How long a stopped program may take to end before it is killed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// The media type of output that is not JSON [default: application/octet-stream]
    #[arg(long, value_name = "MEDIA")]
    result_type: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
#[expect(missing_docs, reason = "it would be a text of --help")]
pub struct HttpFlags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: ServerConnection,
    /// Where to post
    #[arg(long, value_name = "URL")]
    url: String,
    /// What to sign with, whsec_… [env: FORGERUN_WORKER_SECRET]
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
}

/// Makes a signature out of a secret, after Standard Webhooks; `None` if the text is no secret.
pub type SignWith = fn(&str) -> Option<Sign>;

/// Works until told to stop.
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
            // A child's pipe that a grandchild keeps open must not keep us.
            runtime.shutdown_background();
            ended.unwrap_or_else(|trouble| trouble.tell())
        }
        Err(trouble) => trouble.tell(),
    }
}

fn exec_worker(flags: &ExecFlags) -> Result<WorkerBuilder, Trouble> {
    let program = program::find(&flags.command[0]).map_err(Trouble::Usage)?;
    let handler = exec::Exec {
        program,
        arguments: flags.command[1..].to_vec(),
        grace: flags.grace,
        result_type: flags.result_type.clone(),
        pass_on: !flags.connection.quiet,
    };
    let builder = Work::builder(flags.connection.worker()?).grace(flags.grace + BEYOND_GRACE);
    Ok(with_type(builder, &flags.common, handler))
}

fn http_worker(flags: &HttpFlags, sign_with: SignWith) -> Result<WorkerBuilder, Trouble> {
    let sign = given(&flags.secret, "FORGERUN_WORKER_SECRET").map(|text| {
        let wrong = "a secret is whsec_ and the base64 of 24 to 64 bytes";
        sign_with(&text).ok_or_else(|| Trouble::Usage(wrong.to_owned()))
    });
    let sign = sign.transpose()?;
    let handler = HttpHandler::new(&flags.url, flags.common.concurrency.into(), sign)?;
    let client = flags.connection.connection().worker()?;
    Ok(with_type(Work::builder(client), &flags.common, handler))
}

fn with_type(
    builder: WorkerBuilder,
    common: &Common,
    handler: impl forge_client::worker::Handler,
) -> WorkerBuilder {
    match &common.job_type {
        Some(glob) => builder.handler(glob, handler).hand_back_others(),
        None => builder.handler("*", handler),
    }
}

async fn work(common: &Common, connection: &Connection, builder: WorkerBuilder) -> Result<Exit, Trouble> {
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
        .notes(move |note| tell(note, json, quiet))
        .build()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if !quiet {
        let queues = if queues.is_empty() { "default".to_owned() } else { queues.join(", ") };
        let _ = writeln!(std::io::stderr().lock(), "forgerun: working on {queues} at {}", connection.url());
    }
    let hurried = worker.clone();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Whoever says it twice means it.
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
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
        Err(error) => {
            let exit = exit_of(&error);
            Ok(complain(&error, exit))
        }
    }
}

/// One line per note: for people on standard error, for programs on standard output.
fn tell(note: &Note<'_>, json: bool, quiet: bool) {
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
    let text = text.lines().last().unwrap_or_default().replace(char::is_control, " ");
    let line = format!("forgerun: {about}{}  {text}", event.replace('_', " "));
    let _ = writeln!(std::io::stderr().lock(), "{}", line.trim_end());
}

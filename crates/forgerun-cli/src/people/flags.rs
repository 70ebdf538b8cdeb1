//! The grammar of the commands for people.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use forgerun_problem::Timestamp;

use super::connection::Connection;
use super::duration;

#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "it would be a text of --help")]
pub enum People {
    /// Submit a job and print its id; with --wait, print what comes out of it
    Submit(SubmitFlags),
    /// Show a job as it stands
    Get(JobFlags),
    /// List your jobs, newest first
    #[command(alias = "jobs")]
    List(ListFlags),
    /// Wait for the end of a job; exit code 0 if it succeeded, 3 if not, 4 if it takes too long
    Wait(WaitFlags),
    /// Follow what happens, to one job or to all; comes back by itself when the connection breaks
    Watch(WatchFlags),
    /// Call a job off
    Cancel(JobFlags),
    /// Begin a failed job again
    Retry(JobFlags),
    /// Show how a job went, event by event, once it has ended
    Report(JobFlags),
    /// Fetch what a job left; run again, a broken download goes on where it ended
    Result(ResultFlags),
    /// List queues and what waits in them; pause and resume them
    Queues(QueuesFlags),
    /// List schedules; show, set, pause, resume, trigger and delete them
    Schedules(SchedulesFlags),
    /// List the workers that take your jobs
    Workers(ConnectionFlags),
    /// List clients, the owners of jobs and keys; make new ones
    Clients(ClientsFlags),
    /// List failures by their reason, or show one (operator)
    Failures(FailuresFlags),
    /// Try all jobs again that failed for a reason, as a job whose id is printed (operator)
    Redrive(RedriveFlags),
    /// List workflows, jobs that wait for each other; submit, show, cancel and retry them
    Workflows(WorkflowsFlags),
    /// Make, renew and revoke API keys
    #[command(subcommand)]
    Keys(Keys),
    /// Probe a server: exit code 0 if it answers, 6 if it cannot be reached, 1 otherwise
    Health(HealthFlags),
}

#[derive(Debug, Args)]
pub struct HealthFlags {
    /// Ask whether it can do its work now, not only whether its process answers
    #[arg(long)]
    pub(crate) ready: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct SubmitFlags {
    /// Type of the job: work for your own workers. EXECUTE, DEFERRED and EMIT_EVENT are the forms of /v1
    #[arg(long, value_name = "TYPE")]
    pub(crate) r#type: Option<String>,
    /// An operation that the server declares, such as reports/generate
    #[arg(long, value_name = "RESOURCE/ACTION", conflicts_with_all = ["kind", "at", "delay", "unique"])]
    pub(crate) operation: Option<String>,
    /// What the built-in worker simulates, such as SUCCESS_FAST
    #[arg(long, value_name = "WORK_KIND")]
    pub(crate) kind: Option<String>,
    /// Where it waits [default: default]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// What to work on: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Two submissions with the same key are one job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// When to begin: 2030-01-31T12:00:00Z, or +10m
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Begin so long from now
    #[arg(long, value_name = "DURATION", value_parser = duration_text, conflicts_with = "at")]
    pub(crate) delay: Option<String>,
    /// Higher goes first, -100 to 100 [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-100..=100))]
    pub(crate) priority: Option<i16>,
    /// How often it is tried again after a failure; not with --kind alone [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// How long one attempt may run
    #[arg(long, value_name = "DURATION", value_parser = duration_text)]
    pub(crate) timeout: Option<String>,
    /// By when the whole job must have ended: a duration from now, or a time
    #[arg(long, value_name = "DURATION|TIME", value_parser = deadline_text)]
    pub(crate) deadline: Option<String>,
    /// A label; may be given several times
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Refuse it while another job with this key has not ended
    #[arg(long, value_name = "KEY")]
    pub(crate) unique: Option<String>,
    /// Wait for the end, at most this long, and print the result; without a duration as long as it takes
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = wait)]
    pub(crate) wait: Option<Patience>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How long to wait; `None` for as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(pub(crate) Option<Duration>);

/// A duration, sent as it is written.
fn duration_text(text: &str) -> Result<String, String> {
    duration::parse(text).map(|_| text.to_owned())
}

/// A duration or a time, sent as it is written.
fn deadline_text(text: &str) -> Result<String, String> {
    let is_deadline = duration::parse(text).is_ok() || Timestamp::parse(text).is_ok();
    let detail =
        || format!("{text:?} is neither a duration such as 1h30m nor a time such as 2030-01-31T12:00:00Z");
    is_deadline.then(|| text.to_owned()).ok_or_else(detail)
}

fn wait(text: &str) -> Result<Patience, String> {
    match text {
        "" => Ok(Patience(None)),
        text => duration::parse(text).map(|span| Patience(Some(span))),
    }
}

#[derive(Debug, Args)]
pub struct JobFlags {
    /// The job: its id, or the last 6 characters of it or more
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct ListFlags {
    /// Only jobs in this state; may be given several times
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<String>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct WaitFlags {
    /// The job: its id, or the last 6 characters of it or more
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// How long at most [default: as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct WatchFlags {
    /// Only this job, until it ends: its id, or the last 6 characters of it or more
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct ResultFlags {
    /// The job: its id, or the last 6 characters of it or more
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// Save it as this file, which appears once it is whole; a pipe or a device is written to as it comes [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct QueuesFlags {
    #[command(subcommand)]
    pub(crate) command: Option<QueueCommand>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Hand out nothing of a queue any more
    Pause(QueueFlags),
    /// Hand out what waits in a queue again
    Resume(QueueFlags),
}

#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// The queue
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct WorkflowsFlags {
    #[command(subcommand)]
    pub(crate) command: Option<WorkflowCommand>,
    /// Only workflows in this state; may be given several times
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Begin a workflow; its id is printed
    Submit(WorkflowSubmitFlags),
    /// Show a workflow with its steps
    Show(JobFlags),
    /// Cancel what is left of a workflow, and undo what its steps did
    Cancel(WorkflowCancelFlags),
    /// Try again what failed of a workflow, and what did not have its turn; all of it if it was compensated
    Retry(WorkflowRetryFlags),
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowCancelFlags {
    #[command(flatten)]
    pub(crate) named: JobFlags,
    /// Run no compensations, and stop those under way
    #[arg(long)]
    pub(crate) no_compensate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowRetryFlags {
    #[command(flatten)]
    pub(crate) named: JobFlags,
    /// Run this step again and all that depend on it, and leave the others as they are
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowSubmitFlags {
    /// The description: a file, @FILE, - for standard input, or the JSON itself
    #[arg(value_name = "FILE|JSON|-")]
    pub(crate) description: String,
    /// Makes a repetition harmless
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct FailuresFlags {
    #[command(subcommand)]
    pub(crate) command: Option<FailureCommand>,
    /// Only what was seen within this span
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) since: Option<Duration>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FailureCommand {
    /// Show one group of failures
    Show(GroupFlags),
}

#[derive(Debug, Args)]
pub(crate) struct GroupFlags {
    /// The group
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct RedriveFlags {
    /// The group
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: String,
    /// Only say how many jobs would be tried again
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// At most so many jobs, the oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// So many per second [default: as fast as possible]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SchedulesFlags {
    #[command(subcommand)]
    pub(crate) command: Option<ScheduleCommand>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Show one with its next runs
    Show(ScheduleFlags),
    /// Register one, or change it
    Set(Box<SetScheduleFlags>),
    /// Make no more jobs
    Pause(ScheduleFlags),
    /// Make jobs again, from the next tick on
    Resume(ScheduleFlags),
    /// Make a job now and print its id
    Trigger(ScheduleFlags),
    /// Delete one; its jobs stay
    Delete(ScheduleFlags),
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleFlags {
    /// The name of the schedule
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct SetScheduleFlags {
    /// The name of the schedule
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// When it ticks: five or six fields, @daily and the like, or '@every 1h30m'
    #[arg(long, value_name = "EXPRESSION", allow_hyphen_values = true)]
    pub(crate) cron: String,
    /// IANA name of the time zone [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Type of the job: work for your own workers
    #[arg(long, value_name = "TYPE", conflicts_with = "kind")]
    pub(crate) r#type: Option<String>,
    /// What the built-in worker simulates, such as SUCCESS_FAST
    #[arg(long, value_name = "WORK_KIND")]
    pub(crate) kind: Option<String>,
    /// Where its jobs wait [default: default]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// What to work on: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// While an earlier job has not ended: skip, allow, cancel_previous or enqueue [default: skip]
    #[arg(long, value_name = "POLICY")]
    pub(crate) overlap: Option<String>,
    /// About missed ticks: none, one or all [default: one]
    #[arg(long, value_name = "POLICY")]
    pub(crate) catch_up: Option<String>,
    /// Each job comes up to this much after its tick
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) jitter: Option<Duration>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClientsFlags {
    #[command(subcommand)]
    pub(crate) command: Option<Clients>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Clients {
    /// Make a client and print its id
    Create(CreateClientFlags),
    /// Name a client, for people
    Name(NameClientFlags),
}

#[derive(Debug, Args)]
pub(crate) struct CreateClientFlags {
    /// What people call it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct NameClientFlags {
    /// The client
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_id: String,
    /// Its name; empty to take it away
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct ConnectionFlags {
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a key and print it; it is shown this once
    Issue(IssueFlags),
    /// Replace the key that calls with a new one, and print it
    Renew(ClientFlags),
    /// Make a key worthless
    Revoke(RevokeFlags),
}

#[derive(Debug, Args)]
pub struct IssueFlags {
    /// The client
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_id: String,
    /// Replace the key that the client has
    #[arg(long)]
    pub(crate) rotate: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct ClientFlags {
    /// The client
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_id: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct RevokeFlags {
    /// The client
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_id: String,
    /// The key, by its id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key_id: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

//! The grammar of the commands for people.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use forgerun_problem::Timestamp;

use super::connection::Connection;
use super::duration;

#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Submit a job and print its id; with --wait, print its result
    Submit(SubmitFlags),
    /// Show a job
    Get(JobFlags),
    /// List your jobs, newest first
    #[command(alias = "jobs")]
    List(ListFlags),
    /// Wait for the end of a job; exit code 0 if it succeeded, 3 if not, 4 if it takes too long
    Wait(WaitFlags),
    /// Follow the events of one job or of all; reconnects when the connection breaks
    Watch(WatchFlags),
    /// Show what a job's worker printed; -f follows it
    Logs(LogsFlags),
    /// Cancel a job
    Cancel(JobFlags),
    /// Retry a failed job
    Retry(JobFlags),
    /// Keep a job, or a workflow with its steps, from workers until it is resumed
    Pause(JobFlags),
    /// Hand out a paused job again, or go on with a paused workflow
    Resume(JobFlags),
    /// Send a signal to the handler of a job, which may wait for it
    Signal(SignalFlags),
    /// Show the report of an ended job, event by event
    Report(JobFlags),
    /// Download a job's result; run again, an interrupted download continues
    Result(ResultFlags),
    /// List queues and their waiting jobs; pause and resume them
    Queues(QueuesFlags),
    /// List schedules; show, set, pause, resume, trigger and delete them
    Schedules(SchedulesFlags),
    /// List the workers that take your jobs
    Workers(ConnectionFlags),
    /// List clients, the owners of jobs and keys; create new ones
    Clients(ClientsFlags),
    /// List failures by their reason, or show one (operator)
    Failures(FailuresFlags),
    /// Retry all jobs that failed for a reason, as a job whose id is printed (operator)
    Redrive(RedriveFlags),
    /// List workflows, jobs that depend on each other; submit, show, cancel and retry them
    Workflows(WorkflowsFlags),
    /// Create, renew and revoke API keys
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
    /// Type of the job: work for your own workers. EXECUTE, DEFERRED and EMIT_EVENT are the forms
    /// of /v1
    #[arg(long, value_name = "TYPE")]
    pub(crate) r#type: Option<String>,
    /// A declared operation, such as reports/generate
    #[arg(long, value_name = "RESOURCE/ACTION", conflicts_with_all = ["kind", "at", "delay", "unique"])]
    pub(crate) operation: Option<String>,
    /// The work kind to simulate, such as SUCCESS_FAST
    #[arg(long, value_name = "WORK_KIND")]
    pub(crate) kind: Option<String>,
    /// Queue of the job [default: default]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Payload: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Two submissions with the same key are one job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Earliest start: 2030-01-31T12:00:00Z, or +10m
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Start after this duration
    #[arg(long, value_name = "DURATION", value_parser = duration_text, conflicts_with = "at")]
    pub(crate) delay: Option<String>,
    /// Higher goes first, -100 to 100 [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-100..=100))]
    pub(crate) priority: Option<i16>,
    /// Take turns with the jobs of other keys in the queue; `customer-7:3` for weight 3, up to 100
    #[arg(long, value_name = "KEY[:WEIGHT]", value_parser = fair)]
    pub(crate) fair: Option<FairKey>,
    /// Number of retries after a failure; not with --kind alone [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Limit of one attempt
    #[arg(long, value_name = "DURATION", value_parser = duration_text)]
    pub(crate) timeout: Option<String>,
    /// Latest end of the whole job: a duration from now, or a time
    #[arg(long, value_name = "DURATION|TIME", value_parser = deadline_text)]
    pub(crate) deadline: Option<String>,
    /// A label; may be given several times
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Refuse the job while another one with this key has not ended
    #[arg(long, value_name = "KEY")]
    pub(crate) unique: Option<String>,
    /// Wait for the end, at most this long, and print the result; without a duration as long as it
    /// takes
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = wait)]
    pub(crate) wait: Option<WaitLimit>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A key, and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FairKey {
    pub(crate) key: String,
    pub(crate) weight: u8,
}

/// A key, with its weight behind the last colon if that is a number.
fn fair(text: &str) -> Result<FairKey, String> {
    let parts = text.rsplit_once(':').and_then(|(key, weight)| Some((key, weight.parse::<u16>().ok()?)));
    let (key, weight) = parts.unwrap_or((text, 1));
    match u8::try_from(weight) {
        Ok(weight @ 1..=100) if !key.is_empty() => Ok(FairKey { key: key.to_owned(), weight }),
        _ => Err("write KEY or KEY:WEIGHT, with a weight from 1 to 100".to_owned()),
    }
}

/// How long to wait; `None` for as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit(pub(crate) Option<Duration>);

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

fn wait(text: &str) -> Result<WaitLimit, String> {
    match text {
        "" => Ok(WaitLimit(None)),
        text => duration::parse(text).map(|span| WaitLimit(Some(span))),
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
    /// Maximum number of jobs
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
    /// Longest wait [default: as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct LogsFlags {
    /// The job: its id, or the last 6 characters of it or more
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// Go on with new lines until the job ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only lines of this stream, such as stderr or output
    #[arg(long, value_name = "S")]
    pub(crate) stream: Option<String>,
    /// Only lines of this attempt
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    /// Only lines that contain this text
    #[arg(long = "grep", value_name = "TEXT")]
    pub(crate) text: Option<String>,
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
    /// Save it as this file, which appears once it is complete; a pipe or a device is written to as
    /// it comes [default: standard output]
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
    /// Stop handing out jobs of a queue
    Pause(QueueFlags),
    /// Resume handing out jobs of a queue
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
    /// Only workflows with exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Maximum number of workflows
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Begin a workflow and print its id
    Submit(WorkflowSubmitFlags),
    /// Show a workflow with its steps
    Show(JobFlags),
    /// Cancel a workflow, and run the compensations of its steps
    Cancel(WorkflowCancelFlags),
    /// Retry the failed steps of a workflow and run those that did not run; all steps if it was
    /// compensated
    Retry(WorkflowRetryFlags),
    /// Send a signal to a workflow: the step that waits for it succeeds with the payload as its
    /// result
    Signal(SignalFlags),
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowCancelFlags {
    #[command(flatten)]
    pub(crate) named: JobFlags,
    /// Run no compensations, and stop those that run
    #[arg(long)]
    pub(crate) no_compensate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowRetryFlags {
    #[command(flatten)]
    pub(crate) named: JobFlags,
    /// Run this step and its dependents again, and keep the others
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Args)]
pub struct SignalFlags {
    #[command(flatten)]
    pub(crate) named: JobFlags,
    /// The name of the signal
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// The body: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "true")]
    pub(crate) payload: String,
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowSubmitFlags {
    /// The description: a file, @FILE, - for standard input, or the JSON itself
    #[arg(value_name = "FILE|JSON|-")]
    pub(crate) description: String,
    /// Repetitions with this key return the same workflow
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
    /// Only failures seen within this duration
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
    /// Only print how many jobs would be retried
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Maximum number of jobs, the oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Jobs per second [default: as fast as possible]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Do not ask for confirmation
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
    /// Register a schedule, or change it
    Set(Box<SetScheduleFlags>),
    /// Pause a schedule: it makes no more jobs
    Pause(ScheduleFlags),
    /// Resume a schedule, with its next tick
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
    /// Timetable: five or six fields, @daily and the like, or '@every 1h30m'
    #[arg(long, value_name = "EXPRESSION", allow_hyphen_values = true)]
    pub(crate) cron: String,
    /// IANA name of the time zone [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Type of the job: work for your own workers
    #[arg(long, value_name = "TYPE", conflicts_with = "kind")]
    pub(crate) r#type: Option<String>,
    /// The work kind to simulate, such as SUCCESS_FAST
    #[arg(long, value_name = "WORK_KIND")]
    pub(crate) kind: Option<String>,
    /// Queue of its jobs [default: default]
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Payload: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// While an earlier job has not ended: skip, allow, cancel_previous or enqueue [default: skip]
    #[arg(long, value_name = "POLICY")]
    pub(crate) overlap: Option<String>,
    /// Missed ticks that are caught up: none, one or all [default: one]
    #[arg(long, value_name = "POLICY")]
    pub(crate) catch_up: Option<String>,
    /// Each job comes up to this much after its tick
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) jitter: Option<Duration>,
    /// Description
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
    /// Create a client and print its id
    Create(CreateClientFlags),
    /// Name a client
    Name(NameClientFlags),
}

#[derive(Debug, Args)]
pub(crate) struct CreateClientFlags {
    /// Display name
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
    /// Its name; empty to remove it
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
    /// Create a key and print it; it is shown only once
    Issue(IssueFlags),
    /// List the keys of a client, without their secrets
    List(ClientFlags),
    /// Replace the primary key by a new one, and print it
    Renew(RenewFlags),
    /// Revoke a key
    Revoke(RevokeFlags),
}

#[derive(Debug, Args)]
pub struct IssueFlags {
    /// The client
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_id: String,
    /// Make a further key of this name, beside the primary one
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// What the named key may do: submit, read, work, manage, keys [default: all]
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', requires = "name")]
    pub(crate) scopes: Vec<String>,
    /// How long the named key is valid
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "name")]
    pub(crate) expires: Option<Duration>,
    /// Replace the valid key of that name
    #[arg(long)]
    pub(crate) rotate: bool,
    /// How long the replaced key stays valid
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "rotate")]
    pub(crate) overlap: Option<Duration>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub struct RenewFlags {
    /// The client
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) client_id: String,
    /// How long the replaced key stays valid
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) overlap: Option<Duration>,
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

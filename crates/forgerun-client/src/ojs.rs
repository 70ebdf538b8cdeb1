//! The Open Job Spec dialect, `/ojs/v1`: jobs for workers outside, queues, and the calls of the worker protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderName, Method};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::client::{Call, Client, raw};
use crate::error::Error;
use crate::path::segment;
use crate::transport::Body;
use crate::worker::{Failure, LogLine};

const OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");

/// The calls of `/ojs/v1`.
#[derive(Clone, Copy, Debug)]
pub struct Ojs<'a> {
    pub(crate) client: &'a Client,
}

/// A job to be submitted.
#[derive(Clone, Debug, Serialize)]
#[must_use]
pub struct NewJob {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type")]
    job_type: String,
    args: Box<RawValue>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
    #[serde(skip)]
    key: Option<String>,
}

impl NewJob {
    /// A job of this type, with these arguments (an array or an object).
    pub fn new(job_type: impl Into<String>, args: impl Into<Value>) -> NewJob {
        NewJob::raw(job_type, raw(&args.into()))
    }

    /// The same, with arguments that are sent as they are written: no number is rounded, whatever a [`Value`] can hold.
    pub fn raw(job_type: impl Into<String>, args: Box<RawValue>) -> NewJob {
        NewJob { id: None, job_type: job_type.into(), args, options: Map::new(), key: None }
    }

    /// An id of your own, a UUID of version 7: no second job can have it.
    pub fn id(mut self, id: impl Into<String>) -> NewJob {
        self.id = Some(id.into());
        self
    }

    /// An option of the envelope: `queue`, `priority`, `scheduled_at`, `retry`, …
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> NewJob {
        self.options.insert(name.to_owned(), value.into());
        self
    }

    /// The key of the operation, which you keep.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> NewJob {
        self.key = Some(key.into());
        self
    }
}

#[derive(Serialize)]
struct Batch<'a> {
    jobs: &'a [NewJob],
}

/// A job as `/ojs/v1` shows it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct JobState {
    /// Which job.
    pub id: String,
    /// What kind of work.
    #[serde(rename = "type", default)]
    pub job_type: String,
    /// Where it waits.
    #[serde(default)]
    pub queue: String,
    /// Where it stands.
    pub state: String,
    /// All else.
    #[serde(flatten)]
    pub members: Map<String, Value>,
}

#[derive(Deserialize)]
struct OneJob {
    job: JobState,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whether nothing is handed out.
    #[serde(default)]
    pub paused: bool,
    /// All else that the server says.
    #[serde(flatten)]
    pub members: Map<String, Value>,
}

#[derive(Deserialize)]
struct Queues {
    queues: Vec<Queue>,
}

#[derive(Deserialize)]
struct Workers {
    workers: Vec<Value>,
}

/// A job that was handed out.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaimedJob {
    /// Which job.
    pub id: String,
    /// What kind of work.
    #[serde(rename = "type")]
    pub job_type: String,
    /// From which queue.
    #[serde(default)]
    pub queue: String,
    /// Which attempt, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// What to work on, as it was submitted.
    #[serde(default)]
    pub args: Option<Box<RawValue>>,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether `args` is a list around a payload that was none; `None` if the server does not say, or nothing was given.
    #[serde(default)]
    pub(crate) args_wrapped: Option<bool>,
    /// What was said about it. Members that a [`Value`] cannot hold, such as `1e400`, are left out.
    #[serde(default, deserialize_with = "readable_members")]
    pub meta: Map<String, Value>,
    /// How long the attempt may take, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// The proof that we hold it; servers other than ForgeRun may give none.
    #[serde(default)]
    pub lease_token: Option<String>,
    /// The workflow that it is a step of.
    #[serde(default)]
    pub workflow_id: Option<String>,
    /// The trace it belongs to.
    #[serde(default)]
    pub(crate) traceparent: Option<String>,
    #[serde(default)]
    pub(crate) parent_steps: Vec<String>,
    #[serde(default)]
    pub(crate) parent_results: Vec<Option<Box<RawValue>>>,
}

impl ClaimedJob {
    /// What to work on, as JSON text; `[]` if nothing was given. The payload of a job of `/v1` or `/api/v1` is as it was submitted,
    /// without the list that OJS has around it.
    pub fn input(&self) -> &str {
        let args = self.args.as_deref().map_or("[]", RawValue::get);
        let inner = args.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.filter(|_| self.args_wrapped == Some(true)).unwrap_or(args)
    }

    /// What to work on, as the submitter gave it: the one argument, or the list of several; null if nothing was given. A list that was
    /// submitted as the payload stays a list, whatever its length.
    ///
    /// # Errors
    /// A [`Failure`] for good if it is no `T`: the same input fails in the same way.
    pub fn argument<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let wrong = |error| Failure::new(format!("the argument: {error}")).never_again();
        let args = self.args.as_deref().map_or("[]", RawValue::get);
        let list: Vec<&RawValue> = serde_json::from_str(args).unwrap_or_default();
        let text = match list[..] {
            _ if self.args_wrapped == Some(false) || !args.starts_with('[') => args,
            [] => "null",
            [only] => only.get(),
            _ => args,
        };
        serde_json::from_str(text).map_err(wrong)
    }

    /// The results of the steps that it waited for, by their names; empty for a job that waited for none. `None` for a step that left
    /// nothing, or no JSON; `{"$ref": URL}` where it left too much to be handed on, which [`Context::parents`] fetches.
    ///
    /// [`Context::parents`]: crate::worker::Context::parents
    pub fn parents(&self) -> BTreeMap<&str, Option<&RawValue>> {
        self.parent_steps
            .iter()
            .map(String::as_str)
            .zip(self.parent_results.iter().map(Option::as_deref))
            .collect()
    }

    /// The trace it belongs to (W3C `traceparent`).
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref().or_else(|| self.meta.get("traceparent")?.as_str())
    }
}

/// One member that cannot be read must not keep a worker from all the jobs that came with it.
fn readable_members<'de, D: Deserializer<'de>>(members: D) -> Result<Map<String, Value>, D::Error> {
    let members = BTreeMap::<String, Box<RawValue>>::deserialize(members)?;
    let readable =
        |(name, value): (String, Box<RawValue>)| Some((name, serde_json::from_str(value.get()).ok()?));
    Ok(members.into_iter().filter_map(readable).collect())
}

#[derive(Deserialize)]
struct ClaimedJobs {
    jobs: Vec<ClaimedJob>,
}

/// What a worker asks for.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fetch<'a> {
    pub(crate) worker_id: &'a str,
    pub(crate) queues: &'a [String],
    pub(crate) count: usize,
    pub(crate) visibility_timeout_ms: u64,
    pub(crate) wait_ms: u64,
}

/// Ends of attempts, and what a worker asks for besides.
#[derive(Serialize)]
pub(crate) struct Exchange<'a> {
    pub(crate) worker_id: &'a str,
    pub(crate) queues: &'a [String],
    pub(crate) count: usize,
    pub(crate) visibility_timeout_ms: u64,
    pub(crate) done: &'a [Box<RawValue>],
}

/// What became of the ends, in order, and the jobs that were handed out.
#[derive(Deserialize)]
pub(crate) struct Exchanged {
    pub(crate) results: Vec<SettledEntry>,
    #[serde(default)]
    pub(crate) jobs: Vec<ClaimedJob>,
}

/// What became of one end.
#[derive(Deserialize)]
pub(crate) struct SettledEntry {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) problem: Option<Box<RawValue>>,
}

/// A sign of life.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Heartbeat<'a> {
    pub(crate) worker_id: &'a str,
    pub(crate) state: &'a str,
    pub(crate) active_jobs: Vec<String>,
    pub(crate) lease_tokens: BTreeMap<String, String>,
    pub(crate) visibility_timeout_ms: u64,
    pub(crate) queues: &'a [String],
    pub(crate) concurrency: usize,
    pub(crate) pid: u32,
}

/// What the server says to it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct HeartbeatReply {
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) jobs_extended: Vec<String>,
    #[serde(default)]
    pub(crate) cancelled_jobs: Vec<String>,
    /// Whether the server takes ends of many jobs in one request.
    #[serde(default)]
    pub(crate) exchange: bool,
}

/// Which job a worker speaks of, and its proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldJob<'a> {
    pub(crate) worker: &'a str,
    pub(crate) job: &'a ClaimedJob,
}

impl<'a> HeldJob<'a> {
    /// The report of an end: an ack, a nack, or an entry of an exchange.
    pub(crate) fn end(&self, end: AttemptEnd<'a>) -> JobReport<'a> {
        match end {
            AttemptEnd::Success(result) => JobReport { result, ..self.report() },
            AttemptEnd::Failure { error, delay } => {
                let delay_ms = delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
                JobReport { error: Some(error), delay_ms, ..self.report() }
            }
            AttemptEnd::HandBack => JobReport { requeue: Some(true), ..self.report() },
            AttemptEnd::Suspend { delay, until_signal } => {
                let delay_ms = Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
                JobReport { requeue: Some(true), delay_ms, until_signal, ..self.report() }
            }
        }
    }

    /// What every report begins with.
    fn report(&self) -> JobReport<'a> {
        JobReport {
            job_id: &self.job.id,
            worker_id: self.worker,
            lease_token: self.job.lease_token.as_deref(),
            ..JobReport::default()
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttemptEnd<'a> {
    /// Well, with this result.
    Success(Option<&'a RawValue>),
    /// Badly; a retry waits for the delay, if there is one.
    Failure { error: &'a Value, delay: Option<Duration> },
    /// Not at all: the job goes back, and no attempt is counted.
    HandBack,
    /// Not yet: the same, until the delay is over or the signal arrives.
    Suspend { delay: Duration, until_signal: Option<&'a str> },
}

/// What a worker says of a job. It is written as it is and never becomes a [`Value`], which would change a result or could not hold it.
#[derive(Default, Serialize)]
pub(crate) struct JobReport<'a> {
    job_id: &'a str,
    worker_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requeue: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_signal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentage: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl JobReport<'_> {
    /// The report as JSON text.
    pub(crate) fn to_raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("a report has only strings as keys")
    }
}

/// A file to be uploaded as a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadHead<'a> {
    pub(crate) content_type: &'a str,
    pub(crate) file_name: Option<&'a str>,
    pub(crate) size: u64,
}

impl Ojs<'_> {
    /// Submits a job. Sent again after trouble, it is still one job.
    ///
    /// # Errors
    /// As the server refuses it, or [`Error::Unreachable`].
    pub async fn submit(&self, job: &NewJob) -> Result<JobState, Error> {
        let key = job.key.clone().unwrap_or_else(|| self.client.new_key());
        let call = self.post("jobs")?.json(job)?.idempotent(&key)?;
        Ok(self.client.fetch::<OneJob>(&call).await?.job)
    }

    /// Submits many jobs, all or none. Not sent again after trouble unless each has an id of its own.
    ///
    /// # Errors
    /// As the server refuses one of them, or [`Error::Unreachable`].
    pub async fn submit_batch(&self, jobs: &[NewJob]) -> Result<(), Error> {
        let call = self.say("jobs/batch")?.json(&Batch { jobs })?;
        let has_ids = jobs.iter().all(|job| job.id.is_some());
        self.client.send(&if has_ids { call.harmless() } else { call }).await?;
        Ok(())
    }

    /// The queues there are.
    ///
    /// # Errors
    /// As the server refuses it.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        let call = self.client.get("ojs/v1/queues")?.header(OJS_VERSION, "1.0")?;
        Ok(self.client.fetch::<Queues>(&call).await?.queues)
    }

    /// Registers a cron job or changes the one of that name, as `POST /ojs/v1/cron` takes it: as it stands. Sent twice it is the same.
    ///
    /// # Errors
    /// As the server refuses it.
    pub async fn register_cron(&self, body: &Map<String, Value>) -> Result<Value, Error> {
        let call = self.client.post("ojs/v1/cron")?.header(OJS_VERSION, "1.0")?.json(body)?.harmless();
        let mut answer: Value = self.client.fetch(&call).await?;
        Ok(answer["cron_job"].take())
    }

    /// The workers that take your jobs, as the server describes them.
    ///
    /// # Errors
    /// As the server refuses it.
    pub async fn workers(&self) -> Result<Vec<Value>, Error> {
        let call = self.client.get("ojs/v1/workers")?.header(OJS_VERSION, "1.0")?;
        Ok(self.client.fetch::<Workers>(&call).await?.workers)
    }

    /// What a queue holds: counts by state and rates.
    ///
    /// # Errors
    /// As the server refuses it.
    pub async fn queue_stats(&self, queue: &str) -> Result<Value, Error> {
        let path = format!("ojs/v1/queues/{}/stats", segment(queue));
        self.client.fetch(&self.client.get(&path)?.header(OJS_VERSION, "1.0")?).await
    }

    /// Hands out nothing of a queue any more.
    ///
    /// # Errors
    /// As the server refuses it.
    pub async fn pause_queue(&self, queue: &str) -> Result<(), Error> {
        self.set_queue(queue, "pause").await
    }

    /// Hands out what waits in a queue again.
    ///
    /// # Errors
    /// As the server refuses it.
    pub async fn resume_queue(&self, queue: &str) -> Result<(), Error> {
        self.set_queue(queue, "resume").await
    }

    async fn set_queue(&self, queue: &str, what: &str) -> Result<(), Error> {
        let call = self.post(&format!("queues/{}/{what}", segment(queue)))?.harmless();
        self.client.send(&call).await?;
        Ok(())
    }

    pub(crate) fn post(&self, route: &str) -> Result<Call, Error> {
        self.client.post(&format!("ojs/v1/{route}"))?.header(OJS_VERSION, "1.0")
    }

    /// A call whose answer is not read, so the job is left out of it.
    fn say(&self, route: &str) -> Result<Call, Error> {
        self.post(route)?.header(PREFER, "return=minimal")
    }

    pub(crate) async fn fetch(&self, fetch: &Fetch<'_>) -> Result<Vec<ClaimedJob>, Error> {
        // Not sent again by itself: the first one may have been given jobs.
        let held = Duration::from_millis(fetch.wait_ms);
        let call = self.post("workers/fetch")?.json(fetch)?.work(held);
        Ok(self.client.fetch::<ClaimedJobs>(&call).await?.jobs)
    }

    /// Reports the end of an attempt by itself: to a server that takes no more than one in a request.
    pub(crate) async fn report_end(&self, held: HeldJob<'_>, end: AttemptEnd<'_>) -> Result<(), Error> {
        // Servers may ask for an error in every nack.
        let handed_back = json!({"code": "handed_back", "message": "The worker stops."});
        let mut report = held.end(end);
        if let AttemptEnd::HandBack | AttemptEnd::Suspend { .. } = end {
            report.error = Some(&handed_back);
        }
        let route = if let AttemptEnd::Success(_) = end { "workers/ack" } else { "workers/nack" };
        self.client.send(&self.say(route)?.json(&report)?.harmless()).await?;
        Ok(())
    }

    pub(crate) async fn hand_back(&self, held: HeldJob<'_>) -> Result<(), Error> {
        self.report_end(held, AttemptEnd::HandBack).await
    }

    /// Ends of many attempts in, new jobs out. Sent again by itself only if it asks for no jobs: the first one may have been given some.
    pub(crate) async fn exchange(&self, exchange: &Exchange<'_>) -> Result<Exchanged, Error> {
        let call = self.post("workers/exchange")?.json(exchange)?;
        let call = if exchange.count == 0 { call.harmless() } else { call };
        self.client.fetch(&call).await
    }

    pub(crate) async fn progress(
        &self,
        held: HeldJob<'_>,
        percent: u8,
        message: Option<&str>,
    ) -> Result<(), Error> {
        let report = JobReport { percentage: Some(percent), message, ..held.report() };
        self.client.send(&self.post("workers/progress")?.json(&report)?.harmless()).await?;
        Ok(())
    }

    /// Appends lines to the log of a job.
    pub(crate) async fn log(&self, job_id: &str, lease_token: &str, lines: &[LogLine]) -> Result<(), Error> {
        let lines = json!({"job_id": job_id, "lease_token": lease_token, "lines": lines});
        self.client.send(&self.post("workers/logs")?.json(&lines)?).await?;
        Ok(())
    }

    pub(crate) async fn heartbeat(&self, beat: &Heartbeat<'_>) -> Result<HeartbeatReply, Error> {
        self.client.fetch(&self.post("workers/heartbeat")?.json(beat)?.harmless()).await
    }

    /// Sends a result before its ack. `write` is called with where to put the bytes; a second upload replaces the first.
    pub(crate) async fn upload<W: Future<Output = ()>>(
        &self,
        held: HeldJob<'_>,
        head: UploadHead<'_>,
        write: impl FnOnce(mpsc::Sender<std::io::Result<Bytes>>) -> W,
    ) -> Result<(), Error> {
        let url = self.client.url(&format!("ojs/v1/jobs/{}/result", segment(&held.job.id)))?;
        let mut call =
            Call::new(Method::PUT, url).header(CONTENT_TYPE, head.content_type)?.long(UPLOAD_PATIENCE);
        if let Some(token) = &held.job.lease_token {
            call = call.header(LEASE_TOKEN, token)?;
        }
        if let Some(name) = head.file_name {
            let name = name.replace(['"', '\\', '\r', '\n'], "_");
            call = call.header(CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""))?;
        }
        let (sender, body) = Body::pieces(head.size);
        let (sent, ()) = tokio::join!(self.client.send_once(&call, body), write(sender));
        sent?;
        Ok(())
    }
}

/// How long a server may take to take in a large result, beside the time of any request.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(3600);

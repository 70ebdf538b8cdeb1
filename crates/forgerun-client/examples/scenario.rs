//! The Rust side of `sdk/scenarios`: one JSON object per line in, one per line out. `sdk/scenarios/README.md` describes the protocol.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Write, stdin};
use std::time::Duration;

use forgerun_client::forge::{LogFilter, Submit};
use forgerun_client::worker::{ClaimedJob, Context, Failure, Output, WorkerBuilder};
use forgerun_client::{Client, Clock as _, Error, SystemClock, Worker};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

/// Lines that wait to be read or written.
const LINES_MAX: usize = 1000;

/// What a verb is given; absent members are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Verb {
    id: u64,
    r#do: String,
    #[serde(flatten)]
    job: JobSpec,
    jobs: Vec<JobSpec>,
    job_id: String,
    workflow_id: String,
    timeout_ms: u64,
    name: Option<String>,
    cron: String,
    steps: Vec<JobSpec>,
    chain: Vec<JobSpec>,
    queues: Vec<String>,
    concurrency: usize,
    lease_ms: u64,
    payload: Value,
    follow: bool,
}

/// A job, or a step of a workflow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    #[serde(rename = "id")]
    step: Value,
    r#type: String,
    args: Value,
    queue: Option<String>,
    options: Map<String, Value>,
    depends_on: Vec<String>,
    wait: Option<Value>,
    for_each: Option<Map<String, Value>>,
}

impl JobSpec {
    fn submission(&self) -> Submit {
        let mut job = Submit::job(&self.r#type, self.args.clone());
        if let Some(queue) = &self.queue {
            job = job.queue(queue);
        }
        for (name, value) in &self.options {
            let text = || value.as_str().unwrap_or_default().to_owned();
            let number = || value.as_i64().unwrap_or_default();
            job = match name.as_str() {
                "max_retries" => job.max_retries(number() as u32),
                "priority" => job.priority(number() as i16),
                "delay_ms" => job.delay(Duration::from_millis(number() as u64)),
                "timeout" => job.timeout(text()),
                "deadline" => job.deadline(text()),
                "unique_key" => job.unique_key(text()),
                "idempotency_key" => job.idempotency_key(text()),
                "tags" => {
                    value.as_array().into_iter().flatten().filter_map(Value::as_str).fold(job, Submit::tag)
                }
                other => panic!("an option that is not known here: {other}"),
            };
        }
        job
    }

    /// The same as a step: its arguments are a list.
    fn step(&self) -> Value {
        let args = match &self.args {
            Value::Null => json!([]),
            Value::Array(list) if list.len() >= 2 => self.args.clone(),
            one => json!([one]),
        };
        let mut step = match &self.wait {
            Some(wait) => json!({"wait": wait}),
            None => json!({"type": self.r#type, "args": args, "options": {"queue": self.queue}}),
        };
        if let Some(mut each) = self.for_each.clone() {
            step["parallel"] = each.remove("parallel").unwrap_or_default();
            step["for_each"] = json!({"step": each["over"], "pointer": each["pointer"]});
        }
        if self.step.is_string() {
            step["id"] = self.step.clone();
            step["depends_on"] = json!(self.depends_on);
        }
        step
    }
}

/// A worker under way.
struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<forgerun_client::worker::Stopped, Error>>,
}

impl Running {
    async fn stop(self) -> Result<(), Error> {
        let _ = self.stop.send(());
        self.ended.await.expect("a worker does not panic").map(drop)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("FORGERUN_URL").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let mut builder = Client::builder(url);
    if let Ok(key) = std::env::var("FORGERUN_API_KEY") {
        builder = builder.key(key);
    }
    let client = builder.build()?;
    let (answers, mut written) = mpsc::channel::<Value>(LINES_MAX);
    let writing = tokio::spawn(async move {
        while let Some(answer) = written.recv().await {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{answer}").and_then(|()| out.flush()).expect("the suite reads what is written");
        }
    });
    let mut worker: Option<Running> = None;
    let mut under_way = JoinSet::new();
    let (reader, mut lines) = mpsc::channel(LINES_MAX);
    let read = move || stdin().lines().map_while(Result::ok).try_for_each(|line| reader.blocking_send(line));
    std::thread::spawn(read);
    while let Some(line) = lines.recv().await {
        let verb: Verb = serde_json::from_str(&line).expect("a line is a verb");
        let id = verb.id;
        match verb.r#do.as_str() {
            "worker" => {
                worker = Some(start(&client, &verb)?);
                let _ = answers.send(json!({"id": id, "ok": {}})).await;
            }
            "stop_worker" => {
                let stopped = match worker.take() {
                    Some(running) => running.stop().await,
                    None => Ok(()),
                };
                let _ = answers.send(answer(id, stopped.map(|()| json!({})))).await;
            }
            _ => {
                let (client, answers) = (client.clone(), answers.clone());
                under_way.spawn(async move {
                    let _ = answers.send(answer(id, call(&client, verb).await)).await;
                });
            }
        }
    }
    if let Some(running) = worker {
        running.stop().await?;
    }
    drop((answers, under_way));
    writing.await.expect("it only writes");
    Ok(())
}

fn answer(id: u64, result: Result<Value, Error>) -> Value {
    let error = match result {
        Ok(ok) => return json!({"id": id, "ok": ok}),
        Err(error) => error,
    };
    let (class, code) = match (&error, error.api()) {
        (_, Some(said)) => (said.class(), said.code.clone()),
        (Error::TimedOut { .. }, None) => ("TimeoutError", String::new()),
        (Error::Unreachable(_), None) => ("BackendError", "UNREACHABLE".to_owned()),
        _ => ("ForgeRunError", String::new()),
    };
    let message = error.api().map_or_else(|| error.to_string(), |said| said.message.clone());
    let error = json!({"class": class, "code": code, "message": message, "retryable": error.is_retryable()});
    json!({"id": id, "error": error})
}

async fn call(client: &Client, verb: Verb) -> Result<Value, Error> {
    let forge = client.forge();
    let (job_id, timeout) = (verb.job_id.as_str(), Duration::from_millis(verb.timeout_ms));
    Ok(match verb.r#do.as_str() {
        "submit" => json!({"job_id": forge.submit(&verb.job.submission()).await?.job_id}),
        "submit_many" => {
            let jobs: Vec<Submit> = verb.jobs.iter().map(JobSpec::submission).collect();
            json!({"job_ids": forge.submit_many(&jobs).await?})
        }
        "result" => json!({"value": forge.outcome::<Value>(job_id, timeout).await?}),
        "status" => {
            let job = forge.get_json(job_id).await?;
            json!({"state": job["state"], "attempt": job["attempt"], "progress": job["progress"]})
        }
        "cancel" => json!({"state": forge.cancel(job_id).await?.state}),
        "retry" => json!({"state": forge.retry(job_id).await?.state}),
        "events" => {
            let mut stream = forge.events(job_id)?;
            let mut events = Vec::new();
            let follow = async {
                while let Some(event) = stream.next().await? {
                    events.push(json!({"id": event.id, "name": event.name}));
                }
                Ok::<_, Error>(())
            };
            let waited = timeout;
            match tokio::time::timeout(waited, follow).await {
                Ok(followed) => followed?,
                Err(_) => return Err(Error::TimedOut { job_id: job_id.to_owned(), waited }),
            }
            json!({"events": events})
        }
        "workflow" if verb.chain.is_empty() => {
            let steps: Vec<Value> = verb.steps.iter().map(JobSpec::step).collect();
            let body = json!({"name": verb.name, "steps": steps});
            json!({"job_id": forge.submit_workflow(&body, None).await?.workflow_id})
        }
        "workflow" => {
            let steps: Vec<Value> = verb.chain.iter().map(JobSpec::step).collect();
            let body = json!({"name": verb.name, "type": "chain", "steps": steps});
            json!({"job_id": forge.submit_workflow(&body, None).await?.workflow_id})
        }
        "signal" if job_id.is_empty() => {
            let name = verb.name.unwrap_or_default();
            forge.signal(&verb.workflow_id, &name, &verb.payload).await?;
            json!({})
        }
        "signal" => {
            forge.signal_job(job_id, &verb.name.unwrap_or_default(), &verb.payload).await?;
            json!({})
        }
        "logs" => json!({"lines": lines(client, job_id, verb.follow).await?}),
        "workflow_status" => {
            let workflow = serde_json::to_value(forge.workflow(&verb.workflow_id).await?);
            json!({"state": workflow.unwrap_or_default()["state"]})
        }
        "schedule" => {
            let job = serde_json::to_value(verb.job.submission()).unwrap_or_default();
            let body = Map::from_iter([("cron".to_owned(), verb.cron.into()), ("job".to_owned(), job)]);
            forge.put_schedule(verb.name.as_deref().unwrap_or_default(), &body).await?;
            json!({})
        }
        "unschedule" => {
            forge.delete_schedule(verb.name.as_deref().unwrap_or_default()).await?;
            json!({})
        }
        other => return Err(Error::Usage(format!("no such verb: {other}"))),
    })
}

/// The lines of a log: those that are there, or all until the job ends.
async fn lines(client: &Client, job_id: &str, follow: bool) -> Result<Vec<Value>, Error> {
    let shown = |line: &Value| json!({"seq": line["seq"], "text": line["text"]});
    let (mut lines, mut filter) = (Vec::new(), LogFilter::default());
    if follow {
        let mut stream = client.forge().follow_logs(job_id, &filter)?;
        while let Some(event) = stream.next().await? {
            match event.name.as_str() {
                "log" => lines.push(shown(&event.json())),
                "end" => break,
                _ => {}
            }
        }
        return Ok(lines);
    }
    loop {
        let page = client.forge().logs_json(job_id, &filter).await?;
        lines.extend(page["lines"].as_array().into_iter().flatten().map(shown));
        if page["next_cursor"].is_null() {
            return Ok(lines);
        }
        filter.after = lines.last().and_then(|line| line["seq"].as_u64());
    }
}

fn start(client: &Client, verb: &Verb) -> Result<Running, Error> {
    let mut builder = Worker::builder(client.clone()).concurrency(verb.concurrency.max(1));
    if verb.lease_ms > 0 {
        builder = builder.lease(Duration::from_millis(verb.lease_ms));
    }
    for queue in &verb.queues {
        builder = builder.queue(queue);
    }
    let worker = handlers(builder).build()?;
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(async move {
        // A sender that is dropped stops it as well.
        let ended = worker.run(async move { drop(stopped.await) }).await;
        if let Err(error) = &ended {
            eprintln!("the worker ended: {error}");
        }
        ended
    });
    Ok(Running { stop, ended })
}

fn handlers(builder: WorkerBuilder) -> WorkerBuilder {
    builder
        .handler("echo", |job: ClaimedJob, _| logged(job, async |job| Ok(job.argument::<Value>()?)))
        .handler("add", |job: ClaimedJob, _| {
            logged(job, async |job| Ok(json!(job.argument::<Vec<i64>>()?.iter().sum::<i64>())))
        })
        .handler("fail", |job: ClaimedJob, _| {
            logged(job, async |job| {
                let input: Value = job.argument()?;
                let failure = Failure::new(input["message"].as_str().unwrap_or("failed"));
                Err(if input["retryable"] == false { failure.never_again() } else { failure })
            })
        })
        .handler("flaky", |job: ClaimedJob, _| {
            logged(job, async |job| {
                let input: Value = job.argument()?;
                match u64::from(job.attempt) {
                    attempt if attempt <= input["failures"].as_u64().unwrap_or(0) => {
                        Err(Failure::new("flaky"))
                    }
                    attempt => Ok(json!(attempt)),
                }
            })
        })
        .handler("progress", |job: ClaimedJob, context: Context| {
            logged(job, async move |_| {
                for percent in [10, 50, 90] {
                    context.progress(percent, None).await?;
                }
                Ok(json!("done"))
            })
        })
        .handler("sleep", sleep)
        .handler("parents", |job: ClaimedJob, _| {
            logged(job, async |job| {
                let parents: BTreeMap<_, _> = job.parents().into_iter().collect();
                Ok(serde_json::to_value(parents)?)
            })
        })
        .handler("steps", |job: ClaimedJob, context: Context| {
            logged(job, async move |job| {
                let first = context.step("a", async || {
                    log(job, "step-a");
                    Ok(1)
                });
                let first: u64 = first.await?;
                if job.attempt == 1 {
                    return Err(Failure::new("between the steps"));
                }
                let second = context.step("b", async || {
                    log(job, "step-b");
                    Ok(2)
                });
                Ok(json!([first, second.await?]))
            })
        })
        .handler("say", |job: ClaimedJob, context: Context| {
            logged(job, async move |job| {
                for text in job.argument::<Vec<String>>()? {
                    context.log(text);
                }
                Ok(Value::Null)
            })
        })
        .handler("ask", |job: ClaimedJob, context: Context| {
            logged(job, async move |_| context.wait_for("approved", Some(Duration::from_secs(600))).await)
        })
        .handler("plan", |job: ClaimedJob, context: Context| {
            logged(job, async move |job| {
                let plan: Value = job.argument()?;
                let options = json!({"queue": plan["queue"]});
                let mut steps: Vec<Value> = plan["names"].as_array().into_iter().flatten().map(|name| {
                    json!({"id": name, "type": "echo", "args": [name], "depends_on": ["plan"], "options": options})
                }).collect();
                steps.push(json!({"id": "last", "type": "parents", "args": [], "depends_on": plan["names"],
                    "options": options}));
                context.add_steps(&steps).await?;
                Ok(Value::Null)
            })
        })
        .handler("crash", |job: ClaimedJob, _| {
            logged(job, async |job| {
                if job.attempt == 1 {
                    std::process::exit(9);
                }
                Ok(json!("survived"))
            })
        })
        .handler("later", |job: ClaimedJob, _| {
            logged(job, async |job| match job.attempt {
                1 => Err(Failure::new("later").retry().retry_after(Duration::from_millis(200))),
                _ => Ok(json!("done")),
            })
        })
}

async fn sleep(job: ClaimedJob, context: Context) -> Result<Output, Failure> {
    log(&job, "begin");
    let input: Value = job.argument()?;
    let span = Duration::from_millis(input["ms"].as_u64().unwrap_or(0));
    tokio::select! {
        () = SystemClock.sleep(span) => {
            log(&job, "end");
            Output::json(&"slept")
        }
        _ = context.canceled() => {
            log(&job, "cancelled");
            Err(Failure::new("cancelled"))
        }
    }
}

/// Does the work between the two lines of the log.
async fn logged(
    job: ClaimedJob,
    work: impl AsyncFnOnce(&ClaimedJob) -> Result<Value, Failure>,
) -> Result<Output, Failure> {
    log(&job, "begin");
    let result = work(&job).await;
    log(&job, "end");
    Output::json(&result?)
}

/// Appends a line to the log. One write, so that lines of several processes do not mix.
fn log(job: &ClaimedJob, phase: &str) {
    let Ok(path) = std::env::var("FORGERUN_SCENARIO_LOG") else { return };
    let line = format!("{} {} {} {phase}\n", job.job_type, job.id, job.attempt);
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the log can be written");
}

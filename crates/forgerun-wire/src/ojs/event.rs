//! What happened, as OJS tells it.

use forgerun_core::history::{Event, EventKind};
use forgerun_core::id::EventId;
use forgerun_core::job::{AttemptError, Job};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::webhook::Events;
use forgerun_core::workflow::WorkflowHead;
use serde_json::{Value, json};

use super::job::{VERSION, attempts_at, error_view, shown_type};
use super::state::event_names;
use super::workflow::{form_word, workflow_word};
use crate::time;

/// One event in OJS's words.
#[derive(Clone, Debug)]
pub struct OjsEvent {
    /// Its id: the same whenever it is told.
    pub id: String,
    /// Its name.
    pub name: &'static str,
    /// The whole of it.
    pub body: Value,
}

/// What OJS tells of one event of a job: nothing, one thing, or two.
pub fn events(event: &Event, job: &Job) -> Vec<OjsEvent> {
    let names = event_names(event, job);
    names.iter().enumerate().map(|(nth, name)| told(event, job, name, nth)).collect()
}

/// What OJS tells of one event to somebody who hears of each event once: the name that they asked for.
pub fn event_for(event: &Event, job: &Job, wanted: Events) -> OjsEvent {
    let names = event_names(event, job);
    let for_good = names.get(1).is_some_and(|name| *name == "job.discarded");
    let nth = usize::from(for_good && wanted.contains(Events::RETRIES_EXHAUSTED));
    // What OJS has no word for is a job that is there to be taken again.
    told(event, job, names.get(nth).copied().unwrap_or("job.enqueued"), nth)
}

fn told(event: &Event, job: &Job, name: &'static str, nth: usize) -> OjsEvent {
    let id = id(event.id(job.id), nth);
    let mut data = json!({
        "job_id": job.id.to_string(),
        "job_type": shown_type(&job.head),
        "queue": job.head.queue.as_str(),
        "state": state(name, event),
        "attempt": attempts_at(event),
        "max_attempts": job.head.retry.attempts_max,
        "timestamp": time::micros(event.at),
    });
    // The newest attempt is the only one whose beginning is known.
    let ended = matches!(name, "job.completed" | "job.failed" | "job.discarded");
    let started_at =
        job.started_at.filter(|at| ended && job.attempt_handed == event.attempt && *at <= event.at);
    if let Some(started_at) = started_at {
        data["duration_ms"] = (event.at.since(started_at).as_millis() as u64).into();
    }
    if let Some(head) = &job.head.workflow_head {
        add_workflow(&mut data, job, head, event);
    } else if let Some(step) = job.head.workflow {
        data["workflow_id"] = step.workflow.to_string().into();
    }
    if let Some(run) = job.head.schedule.as_ref().filter(|_| name == "cron.triggered") {
        data["cron_name"] = run.name.as_str().into();
        data["triggered_at"] = time::millis(run.tick).into();
        data["scheduled_at"] = time::millis(run.tick).into();
    }
    if let EventKind::Progress(percent) = event.kind {
        data["progress"] = (f64::from(percent) / 100.0).into();
        data["progress_percent"] = percent.into();
        if let Some(message) = &job.message {
            data["progress_message"] = message.as_str().into();
        }
    }
    add_required(&mut data, event, job, name);
    let failed = matches!(name, "job.failed" | "job.retrying" | "job.discarded");
    let is_meant = |error: &&AttemptError| {
        error.attempt == event.attempt && (error.execution == 0 || error.execution == event.execution)
    };
    if let Some(error) = job.errors.iter().rfind(is_meant).filter(|_| failed) {
        data["error"] = error_view(error);
        match (name, error.wait) {
            ("job.retrying", Some(wait)) => data["next_retry_at"] = time::millis(event.at + wait).into(),
            ("job.discarded", _) => data["last_error"] = data["error"].clone(),
            _ => {}
        }
    }
    let body = json!({
        "specversion": VERSION,
        "id": id,
        "type": name,
        "source": "ojs://forgerun/server",
        "time": time::micros(event.at),
        "subject": job.id.to_string(),
        "data": data,
    });
    OjsEvent { id, name, body }
}

/// What OJS asks of an event of this name, as far as it is not told of every event or kept with an error.
fn add_required(data: &mut Value, event: &Event, job: &Job, name: &str) {
    let head = &job.head;
    let moment = |at: Option<Time>| at.map(|at| Value::from(time::millis(at)));
    let facts: Vec<(&str, Option<Value>)> = match name {
        "job.enqueued" => vec![("priority", Some(head.priority.into()))],
        "job.scheduled" => vec![("scheduled_at", moment(head.execution_at))],
        // The worker of an attempt is known while it holds the job.
        "job.started" | "job.progress" => {
            let lease = job.lease.as_ref().filter(|_| job.attempt == event.attempt);
            vec![("worker_id", lease.map(|lease| lease.worker.as_str().into()))]
        }
        "job.discarded" => vec![("total_attempts", Some(attempts_at(event).into()))],
        "job.cancelled" => vec![
            ("cancelled_by", job.cancel.as_ref().map(|cancel| cancel.by.as_str().into())),
            ("reason", job.cancel.as_ref().map(|cancel| cancel.reason.as_str().into())),
        ],
        "job.expired" => {
            let ttl = head.expires_at.map(|at| at.since(head.created_at).as_millis() as u64);
            vec![
                ("created_at", moment(Some(head.created_at))),
                ("expired_at", moment(Some(event.at))),
                ("ttl_ms", ttl.map(Value::from)),
            ]
        }
        _ => Vec::new(),
    };
    for (name, fact) in facts {
        if let Some(fact) = fact {
            data[name] = fact;
        }
    }
}

/// What is told of a workflow beside what is told of any job.
fn add_workflow(data: &mut Value, job: &Job, head: &WorkflowHead, event: &Event) {
    let ended = match event.kind {
        EventKind::Moved { to, .. } => to,
        EventKind::Progress(_) | EventKind::Emitted => State::Running,
    };
    data["workflow_id"] = job.id.to_string().into();
    data["workflow_type"] = form_word(head.form).into();
    data["name"] = head.name.as_str().into();
    data["workflow_name"] = head.name.as_str().into();
    data["total_steps"] = job.head.items.map_or(0, |items| items.n).into();
    if let (Some(started_at), true) = (job.started_at, ended.is_final()) {
        data["duration_ms"] = (event.at.since(started_at).as_millis() as u64).into();
    }
    if let Some(error) = job.last_error().filter(|_| ended == State::Failed) {
        data["error"] = error_view(error);
    }
    data["state"] = workflow_word(ended).into();
    data["steps_total"] = job.head.items.map_or(0, |items| items.n).into();
    data["steps_completed"] = job.tally.completed.into();
    data["steps_failed"] = job.tally.failed.into();
}

/// Where the job stood right after an event of this name.
fn state(name: &str, event: &Event) -> &'static str {
    match name {
        "job.scheduled" => "scheduled",
        "job.enqueued" | "cron.triggered" => "available",
        "job.started" | "job.progress" => "active",
        "job.completed" => "completed",
        "job.cancelled" => "cancelled",
        "job.failed" | "job.retrying" if !event.ends() => "retryable",
        _ => "discarded",
    }
}

/// The id of what is told `nth` of an event.
fn id(event: EventId, nth: usize) -> String {
    match nth {
        0 => format!("evt_{event}"),
        nth => format!("evt_{event}.{}", nth + 1),
    }
}

/// The event that an id is of; `None` for what is no id.
pub fn parse_id(text: &str) -> Option<EventId> {
    let text = text.strip_prefix("evt_").unwrap_or(text);
    let text = text.split_once('.').map_or(text, |(id, _)| id);
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use forgerun_core::catalog::Kind;
    use forgerun_core::command::Succeed;
    use forgerun_core::{Command, retry::RetryPolicy};

    use super::*;
    use crate::example::ExampleJob;
    use crate::ojs::retry;
    use crate::outcome::Outcomes;

    fn names(story: &ExampleJob) -> Vec<&'static str> {
        story.told().iter().flat_map(|told| events(&told.event, &told.job)).map(|event| event.name).collect()
    }

    fn begun() -> ExampleJob {
        ExampleJob::begin(Outcomes::default(), |head| {
            head.job_type = "email.send".into();
            head.retry = RetryPolicy { attempts_max: 2, ..retry::defaults() };
        })
    }

    #[test]
    fn a_life_is_told_in_ojs_words() {
        let story = begun().begins();
        let done = Command::Succeed(Succeed { held: story.held(), output: None });
        let story = story.then(done);
        assert_eq!(names(&story), ["job.enqueued", "job.started", "job.completed"]);
        let last = story.told().last().unwrap();
        let told = &events(&last.event, &last.job)[0].body;
        assert_eq!(told["data"]["job_type"], "email.send");
        assert_eq!((&told["data"]["attempt"], &told["data"]["duration_ms"]), (&json!(1), &json!(1999)));
        assert_eq!(told["data"]["state"], "completed");
    }

    #[test]
    fn a_failure_is_told_with_what_follows() {
        let story = begun().begins();
        let fail = Command::Fail(forgerun_core::command::Fail {
            held: story.held(),
            error: forgerun_core::command::WorkError {
                retryable: Some(true),
                ..forgerun_core::command::WorkError::new(Kind::HandlerError, "boom")
            },
        });
        let story = story.then(fail);
        assert_eq!(names(&story)[2..], ["job.failed", "job.retrying"]);
        let failed = story.told().iter().flat_map(|told| events(&told.event, &told.job)).nth(2).unwrap();
        assert_eq!(failed.body["data"]["error"]["message"], "boom");
        assert_eq!(failed.body["data"]["state"], "retryable");
    }

    /// The names of the last event, and the attempt it tells of.
    fn last(story: &ExampleJob) -> Vec<(&'static str, Value)> {
        let told = story.told().last().unwrap();
        let said = events(&told.event, &told.job);
        said.into_iter().map(|event| (event.name, event.body["data"]["attempt"].clone())).collect()
    }

    #[test]
    fn the_attempt_is_the_newest_that_was_handed_out_and_not_handed_back() {
        assert_eq!(last(&begun()), [("job.enqueued", json!(0))]);
        assert_eq!(last(&begun().is_cancelled()), [("job.cancelled", json!(0))]);
        assert_eq!(last(&begun().begins().is_cancelled()), [("job.cancelled", json!(1))]);
        let expired = ExampleJob::begin(Outcomes::default(), |head| head.expires_at = Some(head.created_at));
        assert_eq!(last(&expired.then(Command::Due(1))), [("job.expired", json!(0))]);
        let story = begun().begins();
        let back = Command::HandBack(story.held());
        let told = story.then(back);
        let said: Vec<Value> = told
            .told()
            .iter()
            .flat_map(|told| events(&told.event, &told.job))
            .map(|event| event.body["data"]["attempt"].clone())
            .collect();
        assert_eq!((names(&told).last(), said.last()), (Some(&"job.enqueued"), Some(&json!(0))));
        let story = begun().begins();
        let mut error = forgerun_core::command::WorkError::new(Kind::HandlerError, "boom");
        error.retryable = Some(true);
        let fail = Command::Fail(forgerun_core::command::Fail { held: story.held(), error });
        assert_eq!(last(&story.then(fail).is_cancelled()), [("job.cancelled", json!(1))]);
    }

    #[test]
    fn an_id_leads_back_to_its_event() {
        let story = begun().begins();
        for told in story.told() {
            for event in events(&told.event, &told.job) {
                assert_eq!(parse_id(&event.id), Some(told.event.id(told.job.id)));
            }
        }
        assert_eq!(parse_id("evt_"), None);
        assert_eq!(parse_id("nonsense"), None);
    }
}

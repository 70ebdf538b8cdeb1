//! The messages: one per word for what can happen to a job or a webhook.

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Extend, Note, Succeed};
use forgerun_core::id::WebhookId;
use forgerun_core::job::{Head, JobForm};
use forgerun_core::retry::RetryPolicy;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Disabled, DisabledReason, Notice};
use forgerun_core::work::{Definition, WorkKind};
use forgerun_problem::MEDIA_TYPE_JSON;
use forgerun_wire::event::{EventBody, JSON, Word};
use forgerun_wire::example::ExampleJob;
use forgerun_wire::outcome::Outcomes;
use serde_json::{Value, json};

/// What the message is called in the document.
pub(super) fn name(word: Word) -> String {
    let mut words = word.sse().split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The message as the document has it.
pub(super) fn describe(word: Word, base: &str) -> Value {
    let (media_type, payload) = match word {
        Word::WebhookDisabled => (JSON, "WebhookEvent"),
        _ if word.is_failure() => (MEDIA_TYPE_JSON, "FailedJob"),
        _ => (JSON, "Told"),
    };
    let mut message = json!({
        "name": word.sse(),
        "title": word.sse(),
        "summary": summary(word),
        "contentType": media_type,
        "payload": {"$ref": format!("#/components/schemas/{payload}")},
        "examples": [{"name": word.sse(), "summary": summary(word), "payload": example(word, base)}],
        "x-cloudevents-type": word.cloud_event(),
    });
    if word.is_of_job() {
        message["correlationId"] = json!({
            "description": "What the client called the job.",
            "location": "$message.payload#/correlationId",
        });
    }
    message
}

/// The schema of what is no problem: an event with the members for asynchronous jobs.
pub(super) fn told() -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    json!({
        "description": "An event, with the members for asynchronous jobs at that moment.",
        "allOf": [
            reference("Event"),
            reference("AsyncJob"),
            {
                "type": "object",
                "required": ["jobId", "jobStatus", "submittedAt"],
                "properties": {
                    "resultUrl": {
                        "type": "string", "format": "uri-reference",
                        "description": "Where the result is; of a job that succeeded and left one.",
                    },
                },
            },
        ],
    })
}

const fn summary(word: Word) -> &'static str {
    match word {
        Word::Created => "The job was accepted.",
        Word::Queued => "The job waits for a worker.",
        Word::Assigned => "A worker has the job.",
        Word::Requeued => "The worker lost the job or gave it back before it began.",
        Word::Started => "An attempt began.",
        Word::Progress => "The worker told how far it is; no change of state.",
        Word::Emitted => "An EMIT_EVENT job said what it had to say; no change of state.",
        Word::Completed => "The job succeeded.",
        Word::Retrying => "An attempt failed, and the server will try again by itself.",
        Word::Failed => "The job failed.",
        Word::TimedOut => "The job ran longer than it may.",
        Word::CompletedWithErrors => "Some items of the batch succeeded and some failed.",
        Word::Cancelled => "The job was called off.",
        Word::WebhookDisabled => {
            "Nothing is sent to a webhook any more: it answered 410, or failed for too long. The others are told."
        }
    }
}

/// What is told of the word in a life that comes to it.
fn example(word: Word, base: &str) -> Value {
    let outcomes = || Outcomes { base: base.to_owned(), ..Outcomes::default() };
    let usual = |_: &mut Head| {};
    let begin = |head: fn(&mut Head)| ExampleJob::begin(outcomes(), head);
    let story = match word {
        Word::Created | Word::Queued => begin(usual),
        Word::Assigned => begin(usual).claimed(false),
        Word::Requeued => {
            let story = begin(usual).claimed(false);
            let held = story.held();
            story.then(Command::HandBack(held))
        }
        Word::Started => begin(usual).begins(),
        Word::Progress => {
            let note = Note::Progress { percent: 40, message: Some("two of five".into()) };
            notes(begin(usual).begins(), note)
        }
        Word::Emitted => notes(begin(emitting).begins(), Note::Emitted),
        Word::Completed => {
            let story = begin(usual).begins();
            let succeed = Succeed { held: story.held(), output: None };
            story.then(Command::Succeed(succeed))
        }
        Word::Retrying => {
            begin(|head| head.retry = RetryPolicy::auto()).begins().fails(Kind::HandlerTransient)
        }
        Word::Failed => begin(usual).begins().fails(Kind::HandlerError),
        Word::TimedOut => begin(usual).begins().fails(Kind::HandlerTimeout),
        Word::CompletedWithErrors => ExampleJob::of_batch(outcomes()).begins().ends_mixed(),
        Word::Cancelled => begin(usual).is_cancelled(),
        Word::WebhookDisabled => return parsed(&EventBody::of_notice(&notice())),
    };
    let told = story.told().iter().find(|told| Word::of(&told.event) == word);
    let told = told.expect("each story comes to its word");
    parsed(&EventBody::new(&told.job, &told.event, told.outcome.as_ref()))
}

fn parsed(body: &EventBody) -> Value {
    serde_json::from_slice(&body.bytes).expect("bodies are JSON")
}

fn notice() -> Notice {
    let webhook = WebhookId::v7(1_780_000_000_000, 7);
    let disabled = Disabled { at: Time::from_millis(1_780_000_060_000), reason: DisabledReason::Gone };
    Notice { webhook, n: 1, disabled }
}

fn emitting(head: &mut Head) {
    head.form = JobForm::EmitEvent;
    head.definition = Some(Definition::of(WorkKind::SuccessFast, 1_000));
}

fn notes(story: ExampleJob, note: Note) -> ExampleJob {
    let extend = Extend { held: story.held(), lease: None, note: Some(note) };
    story.then(Command::Extend(extend))
}

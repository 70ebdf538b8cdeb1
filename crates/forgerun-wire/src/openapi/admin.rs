//! The operations of the operator, `/admin/v1`, and their bodies.

mod deliveries;
mod overview;

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::operation::{Access, Operation, OperationAnswer, OperationBody, Presence};
use super::operations::{ANY, JOB, NOON, WRITING, answer, limit, path_parameter, query, refusals};
use super::schemas::{count, id, maybe, object, reference, text, time};
use crate::problem::RefusedRequest;

/// What a request of the operator may meet.
pub(super) const OF_OPERATOR: &[Kind] =
    &[Kind::Unauthenticated, Kind::KeyExpired, Kind::KeyRevoked, Kind::Forbidden, Kind::MalformedRequest];

/// The kinds of [`WRITING`] that are not in [`OF_OPERATOR`].
fn writing() -> Vec<Kind> {
    WRITING.iter().copied().filter(|kind| !OF_OPERATOR.contains(kind)).collect()
}

/// All of them.
pub(super) fn all() -> Vec<Operation> {
    let mut operations = overview::all();
    operations.extend(deliveries::all());
    operations.extend(failures());
    operations.extend(queues());
    operations.push(sinks());
    operations.extend(super::schedules::of_operator());
    operations.extend(workers());
    operations.extend(super::workflows::of_operator());
    operations
}

pub(super) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation {
        path: path.into(),
        method: "get",
        id: id.into(),
        tag: "operator",
        summary: summary.into(),
        access: Access::Operator,
        parameters: vec![],
        body: None,
        answers: vec![],
        refusals: refusals(&[ANY, OF_OPERATOR]),
    }
}

/// The same for what changes something; it may be refused with these too.
pub(super) fn change(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    kinds: &[Kind],
) -> Operation {
    Operation {
        method,
        body: Some(OperationBody { schema: "Nothing", required: false, examples: vec![] }),
        refusals: refusals(&[ANY, OF_OPERATOR, &writing(), kinds]),
        ..get(path, id, summary)
    }
}

pub(super) fn cursor() -> Value {
    query("cursor", "The `next_cursor` of the page before.", json!({"type": "string"}))
}

fn failures() -> Vec<Operation> {
    let mut trend = vec![0; 24];
    trend[21..].copy_from_slice(&[3, 0, 5]);
    let group = json!({
        "group": "9f86d081884c7d65", "type": "/problems/job-failed", "code": "HANDLER_ERROR", "title": "Job Failed",
        "operation": "mail.send", "message": "could not reach <address>: refused", "count": 8, "first_seen": NOON,
        "last_seen": NOON, "trend": trend, "clients": ["6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10"], "queues": ["mail"],
        "examples": [JOB],
    });
    let since = "Only groups that were seen at this moment or later.";
    vec![
        Operation {
            parameters: vec![
                query("since", since, json!({"type": "string", "format": "date-time"})),
                limit(),
                cursor(),
            ],
            answers: vec![answer(
                200,
                "A page.",
                "FailureGroups",
                json!({"items": [group], "next_cursor": null}),
            )],
            ..get(
                "/admin/v1/failures",
                "adminListFailures",
                "Failures by their reason, those seen last first.",
            )
        },
        Operation {
            parameters: vec![path_parameter("group", "The group.")],
            answers: vec![answer(200, "The group.", "FailureGroup", group)],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::JobNotFound]]),
            ..get("/admin/v1/failures/{group}", "adminGetFailures", "One group of failures.")
        },
        redrive(),
    ]
}

fn redrive() -> Operation {
    let preview = json!({"dry_run": true, "matched": 8, "would_redrive": 5, "jobs": [JOB], "takes_s": 10});
    let begun = OperationAnswer {
        headers: vec![("Location", Presence::Always)],
        ..answer(
            202,
            "It has begun. `Location` is its own job, which can be watched and cancelled.",
            "RedriveStarted",
            json!({"job_id": JOB, "matched": 8, "will_redrive": 5}),
        )
    };
    Operation {
        parameters: vec![path_parameter("group", "The group.")],
        body: Some(OperationBody {
            schema: "RedriveRequest",
            required: false,
            examples: vec![
                ("preview", json!({"dry_run": true})),
                ("slowly", json!({"limit": 100, "rate_per_s": 0.5, "max_failures": 3})),
            ],
        }),
        answers: vec![
            answer(200, "What would be done; or nothing is left to do.", "RedrivePreview", preview),
            begun,
        ],
        ..change(
            "post",
            "/admin/v1/failures/{group}/redrive",
            "adminRedrive",
            "Tries all jobs again that stand failed for a reason, as a job of its own.",
            &[Kind::JobNotFound, Kind::InvalidArgs, Kind::Duplicate],
        )
    }
}

fn queues() -> Vec<Operation> {
    let figures = json!({"submitted_per_s": 2.5, "ended_per_s": 2.4, "failed_per_s": 0.1});
    let queue = || {
        json!({
            "name": "default", "waiting": 12, "active": 3, "scheduled": 0, "succeeded": 4711, "failed": 8, "canceled": 0,
            "oldest_waiting_s": 4, "unattended": false, "paused": false, "paused_at": null,
            "limits": {"max_waiting": null, "max_active": 10, "rate_per_s": null}, "last_minute": figures, "last_hour": figures, "n_queues": 1,
        })
    };
    let named = || vec![path_parameter("queue", "The name that all meant queues have.")];
    let of_queue = &[Kind::InvalidQueue, Kind::QueueNameTooLong];
    let mut all = vec![
        Operation {
            parameters: vec![limit(), cursor()],
            answers: vec![answer(
                200,
                "A page.",
                "AdminQueues",
                json!({"items": [queue()], "next_cursor": null}),
            )],
            ..get("/admin/v1/queues", "adminListQueues", "Queues by name, those of all owners together.")
        },
        Operation {
            parameters: named(),
            body: Some(OperationBody {
                schema: "QueueBounds",
                required: true,
                examples: vec![("bound", json!({"max_waiting": 500, "max_active": null, "rate_per_s": 20}))],
            }),
            answers: vec![answer(200, "The queue as it is set.", "AdminQueue", queue())],
            ..change(
                "put",
                "/admin/v1/queues/{queue}",
                "adminBoundQueue",
                "Bounds each queue of a name; what is absent stays, null lifts.",
                &[of_queue.as_slice(), &[Kind::InvalidArgs]].concat(),
            )
        },
        Operation {
            parameters: named(),
            answers: vec![answer(200, "The queue as it is set.", "AdminQueue", queue())],
            ..change(
                "post",
                "/admin/v1/queues/{queue}/pause",
                "adminPauseQueue",
                "Stops handing out jobs of all queues of a name, until the operator resumes them.",
                of_queue,
            )
        },
        Operation {
            parameters: named(),
            answers: vec![answer(200, "The queue as it is set.", "AdminQueue", queue())],
            ..change(
                "post",
                "/admin/v1/queues/{queue}/resume",
                "adminResumeQueue",
                "Lifts the operator's pause; that of an owner stays.",
                of_queue,
            )
        },
    ];
    for operation in &mut all[1..] {
        // Without a name there is nothing at the address.
        let nothing = RefusedRequest::new(Kind::RouteNotFound, "There is nothing at this address.").blank();
        operation.refusals.push(nothing);
    }
    all
}

fn workers() -> Vec<Operation> {
    let worker = json!({
        "id": "mailer-1", "client": "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10", "client_name": null, "tenant": null, "state": "running",
        "directive": "running", "hostname": "mail-3", "pid": 4711, "queues": ["mail"], "concurrency": 8, "jobs": [JOB],
        "started_at": NOON, "last_seen_at": NOON, "silent_s": 3,
    });
    let client = "Whose worker is meant, where several clients have one of the name.";
    vec![
        Operation {
            parameters: vec![limit(), cursor()],
            answers: vec![answer(
                200,
                "A page.",
                "AdminWorkers",
                json!({"items": [worker], "next_cursor": null}),
            )],
            ..get(
                "/admin/v1/workers",
                "adminListWorkers",
                "Workers outside, of all clients, that send heartbeats.",
            )
        },
        Operation {
            parameters: vec![
                path_parameter("worker_id", "What the worker calls itself."),
                query("client", client, json!({"type": "string", "format": "uuid"})),
            ],
            answers: vec![answer(200, "The worker as it is told.", "AdminWorker", worker)],
            ..change(
                "post",
                "/admin/v1/workers/{worker_id}/quiet",
                "adminQuietWorker",
                "Tells a worker to finish what it has and to take no more.",
                &[Kind::InvalidArgs, Kind::WorkerNotFound, Kind::Duplicate],
            )
        },
    ]
}

fn sinks() -> Operation {
    let sink = json!({
        "name": "kafka", "kind": "kafka", "state": "ok", "position": 4711, "lag_events": 0, "lag_seconds": 0.0, "last_error": null,
        "last_sent_at": NOON, "node": "node-5d6e4a2f", "sent": 1234, "skipped": 0, "refused": 0,
    });
    Operation {
        parameters: vec![limit(), cursor()],
        answers: vec![answer(
            200,
            "A page, by name.",
            "AdminSinks",
            json!({"items": [sink], "next_cursor": null}),
        )],
        ..get(
            "/admin/v1/sinks",
            "adminListSinks",
            "Brokers that this node sends events to, and how far each is.",
        )
    }
}

/// A page of these.
pub(super) fn page(of: &str, description: &str) -> Value {
    object(
        description,
        &["items", "next_cursor"],
        json!({
            "items": {"type": "array", "items": reference(of), "maxItems": 200},
            "next_cursor": maybe(text("Where to go on; null at the end. A page may be short, or empty, while there is more.")),
        }),
    )
}

/// An object all of whose members are always there.
pub(super) fn whole(description: &str, properties: Value) -> Value {
    let Value::Object(members) = &properties else { unreachable!("properties are an object") };
    let required: Vec<&str> = members.keys().map(String::as_str).collect();
    object(description, &required, properties.clone())
}

/// The bodies.
pub(super) fn schemas() -> Value {
    let mut all = of_queues();
    for more in [overview::schemas(), deliveries::schemas()] {
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
    }
    all
}

fn of_queues() -> Value {
    let rate = |description: &str| json!({"type": "number", "minimum": 0, "description": description});
    let bound =
        |description: &str| maybe(json!({"type": "integer", "minimum": 1, "description": description}));
    let pace = |description: &str| json!({"type": ["number", "null"], "minimum": 0.001, "maximum": 100_000, "description": description});
    let words = json!({"enum": ["running", "quiet", "terminate"]});
    let said = |description: &str| {
        let mut word = words.clone();
        word["description"] = description.into();
        word
    };
    json!({
        "FailureGroups": page("FailureGroup", "A page of groups of failures."),
        "FailureGroup": whole("Failures with the same reason: problem type, code, operation, and message.", json!({
            "group": text("Which group."),
            "type": {"type": "string", "format": "uri-reference", "description": "The problem type: where its page is."},
            "code": text("The code that workers gave, or the catalog's."),
            "title": text("The title of the problem type."),
            "operation": text("The operation, what was simulated, or the type of the jobs; may be empty."),
            "message": text("The message; ids, numbers, addresses and quotations are taken out."),
            "count": count("How many executions ended like this."),
            "first_seen": time("When the first of them did."),
            "last_seen": time("When the newest did."),
            "trend": {
                "type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 24, "maxItems": 24,
                "description": "How many in each of the last 24 hours, the newest last.",
            },
            "clients": {"type": "array", "items": {"type": "string"}, "maxItems": 20, "description": "Whose jobs; the first twenty."},
            "queues": {"type": "array", "items": {"type": "string"}, "maxItems": 20, "description": "Of which queues; the first twenty."},
            "examples": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "description": "The newest jobs, newest first."},
        })),
        "RedriveRequest": object("How to try again.", &[], json!({
            "dry_run": {"type": ["boolean", "null"], "default": false, "description": "Only say what would be done."},
            "limit": bound("At most so many jobs."),
            "rate_per_s": pace("So many per second; as fast as possible without."),
            "max_failures": {"type": ["integer", "null"], "minimum": 1, "default": 10, "description": "Stop once so many have failed again; null for never."},
        })),
        "RedrivePreview": object("What a redrive would do; `matched` alone, if nothing is left to do.", &["matched"], json!({
            "dry_run": {"type": "boolean", "description": "Always true."},
            "matched": count("How many jobs stand failed for this reason."),
            "would_redrive": count("How many of them would be tried again."),
            "jobs": {"type": "array", "items": {"type": "string"}, "maxItems": 10, "description": "The first of them, oldest first."},
            "takes_s": maybe(count("How long it would take at the rate, in seconds; null without a rate.")),
        })),
        "RedriveStarted": whole("A redrive has begun.", json!({
            "job_id": id("Its own job. It has succeeded once the jobs were begun again, however these end."),
            "matched": count("How many jobs stand failed for this reason."),
            "will_redrive": count("How many of them are begun again: all, or as many as the limit allows."),
        })),
        "AdminQueues": page("AdminQueue", "A page of queues, by name."),
        "AdminQueue": whole("All queues of one name.", json!({
            "name": text("The name."),
            "waiting": count("Jobs that wait for a worker, those between two attempts included."),
            "active": count("Jobs that workers hold."),
            "scheduled": count("Jobs whose time has not come, and jobs that are held back."),
            "succeeded": count("Jobs that ended well and are still kept."),
            "failed": count("Jobs that ended badly and are still kept."),
            "canceled": count("Jobs that were cancelled and are still kept."),
            "oldest_waiting_s": maybe(count("How long the oldest claimable job has waited; null if none waits, or too many queues have the name.")),
            "unattended": {"type": "boolean", "description": "Whether jobs have waited for longer than alerts.no_worker_s and no living worker asks for the queue."},
            "paused": {"type": "boolean", "description": "Whether the operator stopped handing out jobs."},
            "paused_at": maybe(time("Since when.")),
            "limits": reference("QueueLimits"),
            "last_minute": reference("QueueFigures"),
            "last_hour": reference("QueueFigures"),
            "n_queues": count("How many queues have the name: a shared one, and one of each owner with work for workers outside."),
        })),
        "QueueLimits": whole("What the operator set for each queue of a name; null where nothing is set.", json!({
            "max_waiting": bound("New jobs are refused while so many wait."),
            "max_active": bound("Nothing is handed out while workers hold so many."),
            "rate_per_s": pace("No more jobs are handed out per second."),
        })),
        "QueueFigures": whole("How much happened, per second.", json!({
            "submitted_per_s": rate("Jobs that came in."),
            "ended_per_s": rate("Executions that ended well or badly."),
            "failed_per_s": rate("Executions that ended badly."),
        })),
        "QueueBounds": object("Bounds for each queue of a name. What is absent stays, null lifts.", &[], json!({
            "max_waiting": bound("Refuse new jobs while so many wait."),
            "max_active": bound("Hand out nothing while workers hold so many."),
            "rate_per_s": pace("Hand out no more jobs per second; up to the jobs of one second at once."),
        })),
        "AdminSinks": page("AdminSink", "The sinks that this node is configured for."),
        "AdminSink": whole("Where the events of all jobs go besides, such as a topic of a broker.", json!({
            "name": text("What it is called."),
            "kind": text("What it is: kafka, nats or amqp."),
            "state": {"enum": ["ok", "behind", "down"], "description": "behind: events wait for more than 30 seconds; down: nothing goes out, or no node sends."},
            "position": count("The row of the journal that it has come to."),
            "lag_events": count("Events that wait to be sent; an estimate if there are many."),
            "lag_seconds": rate("How long the oldest of them has waited."),
            "last_error": maybe(text("Why nothing goes out; null while it does.")),
            "last_sent_at": maybe(time("When the broker last confirmed anything.")),
            "node": maybe(text("The node that sends; null if none does.")),
            "sent": count("Events that the broker confirmed since the sink was first used; repetitions count."),
            "skipped": count("Events that were left out because their job was deleted before."),
            "refused": count("Events that the broker will never take."),
        })),
        "AdminWorkers": page("AdminWorker", "A page of workers, by client and name."),
        "AdminWorker": whole("A worker outside that sends heartbeats.", json!({
            "id": text("What it calls itself. Two clients may both have a worker of this name."),
            "client": id("Whose jobs it works on."),
            "client_name": maybe(text("What people call that client.")),
            "tenant": maybe(text("Which of the client's tenants.")),
            "state": said("What it last said it does."),
            "directive": said("What it is told to do."),
            "hostname": maybe(text("The machine it runs on.")),
            "pid": maybe(count("Its process there.")),
            "queues": {"type": "array", "items": {"type": "string"}, "description": "The queues it serves."},
            "concurrency": maybe(count("How many jobs it works on at once.")),
            "jobs": {"type": "array", "items": {"type": "string"}, "description": "The jobs it holds, as far as it said so."},
            "started_at": time("When it was first seen."),
            "last_seen_at": time("When it was last seen."),
            "silent_s": count("How long ago that is, in seconds."),
        })),
    })
}

//! The overview, jobs, clients, webhooks and events of the operator.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::{OF_OPERATOR, change, cursor, get, page, whole};
use crate::openapi::operation::{Operation, OperationBody};
use crate::openapi::operations::{
    ANY, JOB, NOON, answer, header, limit, narrowing, path_parameter, query, refusals,
};
use crate::openapi::schemas::{count, id, maybe, object, reference, shown_tags, simulated, text, time};

const CLIENT: &str = "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10";
const KEY: &str = "01890a5d-b1c2-7d3e-8f40-5a6b7c8d9e0f";

/// All of them.
pub(in crate::openapi) fn all() -> Vec<Operation> {
    let mut operations = vec![overview()];
    operations.extend(jobs());
    operations.extend(clients());
    operations.push(webhooks());
    operations.push(events());
    operations
}

fn overview() -> Operation {
    let figures = json!({"submitted_per_s": 2.5, "ended_per_s": 2.4, "failed_per_s": 0.1});
    let mut rates = figures.clone();
    rates["last_hour"] = figures;
    let states = ["CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"];
    let jobs: Value =
        states.iter().map(|state| ((*state).to_owned(), json!(3))).collect::<serde_json::Map<_, _>>().into();
    let example = json!({
        "jobs": jobs,
        "queues": [{"name": "default", "waiting": 12, "active": 3, "oldest_waiting_s": 4, "paused": false, "unattended": false}],
        "rates": rates, "workers": [], "sinks": [],
        "minutes": [{"at": NOON, "submitted": 150, "succeeded": 140, "failed": 4, "waited_ms": 12, "ran_ms": 250}],
        "nodes": [{"id": "node-1f3a9c02", "version": "0.1.0", "started_at": NOON}],
        "problems": [{
            "kind": "queue_unattended", "what": "2 jobs wait in queue mail, and no worker asks for it", "since": NOON,
            "link": "/dashboard/queues",
        }],
    });
    Operation {
        answers: vec![answer(200, "The whole server.", "Overview", example)],
        ..get("/admin/v1/overview", "adminGetOverview", "The whole server at a glance.")
    }
}

fn job() -> Value {
    json!({
        "job_id": JOB, "client": CLIENT, "client_name": "Billing", "tenant": null, "dialect": "ojs", "type": "mail.send", "operation": null, "simulated": false, "kind": null,
        "queue": "mail", "state": "RUNNING", "attempt": 1, "progress": 40, "created_at": NOON, "updated_at": NOON,
        "started_at": NOON, "finished_at": null, "code": null, "error": null, "group": null, "dead_letter": false,
        "correlation_id": "order-4711", "tags": ["eu"],
    })
}

fn detail() -> Value {
    let mut detail = job();
    let more = json!({
        "priority": 0, "workflow_id": null, "deadline": null, "max_attempts": 4, "worker": "mailer-1", "lease_until": NOON, "message": "40 of 100", "executions": [JOB],
        "errors": [], "events": [], "input": {"to": "ada@example.org"}, "input_size": 24, "result": null, "failure": null,
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        detail[name] = value.clone();
    }
    detail
}

fn jobs() -> Vec<Operation> {
    let of_job = || vec![path_parameter("job_id", "The job.")];
    let word = |name: &str, description: &str| query(name, description, json!({"type": "string"}));
    let moment = |name: &str, description: &str| {
        query(name, description, json!({"type": "string", "format": "date-time"}))
    };
    let list = || json!({"items": [job()], "next_cursor": null});
    vec![
        Operation {
            parameters: [
                narrowing(),
                vec![
                word("state", "In one of these states; several with commas."),
                word("queue", "Of this queue, whoever owns it."),
                word("client", "Of this client."),
                word("type", "Of this type; under `/v1`, of this form."),
                word("kind", "That simulate this kind of work."),
                word("code", "That ended with this code."),
                word(
                    "group",
                    "That stand failed for the reason of this group of failures; these are listed oldest first.",
                ),
                moment("since", "Accepted at this moment or later."),
                moment("until", "Accepted before this moment."),
                word("q", "Whose id, correlation id or type begins like this."),
                limit(),
                cursor(),
                ],
            ]
            .concat(),
            answers: vec![answer(200, "A page.", "AdminJobs", list())],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::InvalidArgs]]),
            ..get("/admin/v1/jobs", "adminListJobs", "Jobs of all clients, newest first.")
        },
        Operation {
            parameters: of_job(),
            answers: vec![answer(200, "The job.", "AdminJobDetail", detail())],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::JobNotFound]]),
            ..get("/admin/v1/jobs/{job_id}", "adminGetJob", "A job in full.")
        },
        Operation {
            parameters: of_job(),
            body: Some(OperationBody {
                schema: "AdminCancelRequest",
                required: false,
                examples: vec![("reason", json!({"reason": "submitted by mistake"}))],
            }),
            answers: vec![answer(200, "Cancelled, or ended before.", "AdminJobDetail", detail())],
            ..change(
                "post",
                "/admin/v1/jobs/{job_id}/cancel",
                "adminCancelJob",
                "Cancels a job that has not ended.",
                &[Kind::JobNotFound, Kind::InvalidArgs],
            )
        },
        Operation {
            parameters: of_job(),
            answers: vec![answer(200, "Waiting for its next attempt.", "AdminJobDetail", detail())],
            ..change(
                "post",
                "/admin/v1/jobs/{job_id}/retry",
                "adminRetryJob",
                "Tries a failed job again, with all its attempts if none is left.",
                &[Kind::JobNotFound, Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate],
            )
        },
        Operation {
            parameters: vec![
                word("queue", "Of this queue."),
                word("client", "Of this client."),
                limit(),
                cursor(),
            ],
            answers: vec![answer(200, "A page.", "AdminJobs", list())],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::InvalidArgs]]),
            ..get(
                "/admin/v1/dead-letters",
                "adminListDeadLetters",
                "Failed jobs whose attempts are used up, newest first.",
            )
        },
    ]
}

fn clients() -> Vec<Operation> {
    let client = json!({"client_id": CLIENT, "name": "Billing", "created_at": NOON, "good_keys": 1, "last_used_at": null});
    let key = json!({
        "key_id": KEY, "key_prefix": "frk_q83v8wX1", "good": true, "created_at": NOON, "expires_at": NOON, "revoked_at": null,
        "last_used_at": null,
    });
    let mut full = client.clone();
    full["keys"] = json!([key]);
    let made = json!({
        "api_key": "frk_q83v8wX1mZ4n9c2Tt7yL0aB5dEfGhJkLmNpQrStUvWx", "key_id": KEY, "key_prefix": "frk_q83v8wX1",
        "created_at": NOON, "expires_at": NOON,
    });
    let mut known = made.clone();
    known["api_key"] = Value::Null;
    let of_client = || vec![path_parameter("client_id", "The client.")];
    vec![
        Operation {
            parameters: vec![limit(), cursor()],
            answers: vec![answer(
                200,
                "A page.",
                "AdminClients",
                json!({"items": [client], "next_cursor": null}),
            )],
            ..get("/admin/v1/clients", "adminListClients", "All clients, by id.")
        },
        Operation {
            parameters: of_client(),
            answers: vec![answer(200, "The client.", "AdminClientDetail", full)],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::ClientNotFound]]),
            ..get("/admin/v1/clients/{client_id}", "adminGetClient", "A client with its keys.")
        },
        Operation {
            parameters: of_client(),
            body: Some(OperationBody {
                schema: "KeyRequest",
                required: false,
                examples: vec![("rotate", json!({"rotate": true}))],
            }),
            answers: vec![
                answer(200, "The good key that there is; without `rotate` no other is made.", "Key", known),
                answer(201, "The key, with its secret.", "Key", made),
            ],
            ..change(
                "post",
                "/admin/v1/clients/{client_id}/keys",
                "adminCreateKey",
                "Makes a key of a client. The secret is shown once.",
                &[Kind::ClientNotFound, Kind::InvalidArgs],
            )
        },
        Operation {
            parameters: vec![
                path_parameter("client_id", "The client."),
                path_parameter("key_id", "The key."),
            ],
            answers: vec![answer(200, "It is revoked.", "Revoked", json!({"revoked": true}))],
            ..change(
                "delete",
                "/admin/v1/clients/{client_id}/keys/{key_id}",
                "adminRevokeKey",
                "Revokes a key.",
                &[Kind::ClientNotFound, Kind::KeyNotFound],
            )
        },
    ]
}

fn webhooks() -> Operation {
    let webhook = json!({
        "client": CLIENT, "client_name": null, "webhook_id": JOB, "url": "https://client.example/hook", "events": ["*"], "envelope": "none",
        "description": null, "created_at": NOON, "updated_at": NOON, "enabled": true, "disabled_at": null,
        "disabled_reason": null,
        "health": {
            "failures_in_a_row": 0, "given_up_in_a_row": 0, "failing_since": null, "last_success_at": NOON,
            "last_failure_at": null,
        },
    });
    Operation {
        parameters: vec![limit(), cursor()],
        answers: vec![answer(
            200,
            "A page.",
            "AdminWebhooks",
            json!({"items": [webhook], "next_cursor": null}),
        )],
        ..get(
            "/admin/v1/webhooks",
            "adminListWebhooks",
            "Webhooks of all clients with their health, oldest first.",
        )
    }
}

fn events() -> Operation {
    let last = "The last event that the stream told: it goes on after it.";
    let told = "What happened to all jobs and webhooks; as a stream, from now on.";
    Operation {
        parameters: vec![
            limit(),
            cursor(),
            header("Last-Event-ID", last, "01890a5d-ac96-7001-bcce-b302099a8057"),
        ],
        answers: vec![crate::openapi::events::all_told(told)],
        ..get(
            "/admin/v1/events",
            "adminListEvents",
            "Everything that happened, oldest first; with `Accept: text/event-stream` as it happens.",
        )
    }
}

/// The bodies.
pub(super) fn schemas() -> Value {
    let texts =
        |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    let job = json!({
        "job_id": id("Which job."),
        "client": id("Whose."),
        "client_name": maybe(text("What people call that client.")),
        "tenant": maybe(text("Which of the client's tenants.")),
        "dialect": {"enum": ["v1", "api", "ojs"], "description": "By which API it came."},
        "type": text("What its submitter calls it; under `/v1` its form."),
        "operation": maybe(text("The operation it was submitted as.")),
        "simulated": simulated(),
        "kind": maybe(text("What the built-in worker simulates.")),
        "queue": text("Where it waits."),
        "state": reference("State"),
        "attempt": {"type": "integer", "minimum": 1, "description": "The attempt under way or about to begin."},
        "progress": maybe(json!({"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent done."})),
        "created_at": time("When it was accepted."),
        "updated_at": time("When it last changed."),
        "started_at": maybe(time("When the newest attempt began.")),
        "finished_at": maybe(time("When it ended.")),
        "code": maybe(text("The code of what went wrong; of jobs that ended badly.")),
        "error": maybe(text("What went wrong, in words.")),
        "group": maybe(text("The group of failures it is one of.")),
        "dead_letter": {"type": "boolean", "description": "Whether all attempts are used up and somebody has to look."},
        "correlation_id": maybe(text("What the client calls it.")),
        "tags": shown_tags(),
    });
    let mut detail = job.clone();
    let more = json!({
        "priority": {"type": "integer", "description": "Higher goes first within its queue."},
        "workflow_id": maybe(id("The workflow that it is a step of, or that it is.")),
        "deadline": maybe(time("By when it must have ended, if it has a deadline that counts.")),
        "max_attempts": count("Attempts allowed in all."),
        "worker": maybe(text("Who holds it.")),
        "lease_until": maybe(time("Until when, without a sign of life.")),
        "message": maybe(text("What its worker last said with its progress.")),
        "executions": texts("Its executions, oldest first."),
        "errors": {"type": "array", "items": reference("FailedAttempt"), "description": "Why its attempts failed, oldest first."},
        "events": {"type": "array", "items": reference("Event"), "description": "Every change of state, oldest first."},
        "input": {"description": "What it works on, as its submitter gave it; null if there is nothing, or if it has more than 65536 bytes."},
        "input_size": count("How many bytes that has."),
        "result": {"anyOf": [reference("AdminResult"), {"type": "null"}]},
        "failure": {"anyOf": [reference("FailedJob"), {"type": "null"}], "description": "The last word on its newest execution, if that ended badly."},
    });
    for (name, schema) in more.as_object().into_iter().flatten() {
        detail[name] = schema.clone();
    }
    let client = json!({
        "client_id": id("Which client."),
        "name": maybe(text("What people call it.")),
        "created_at": time("When it registered."),
        "good_keys": count("How many good keys it has."),
        "last_used_at": maybe(time("When one of its keys was last used, give or take a minute.")),
    });
    let mut client_detail = client.clone();
    client_detail["keys"] = json!({"type": "array", "items": reference("AdminKey")});
    let rate = |description: &str| json!({"type": "number", "minimum": 0, "description": description});
    json!({
        "Overview": whole("The whole server at a glance.", json!({
            "jobs": {
                "type": "object", "additionalProperties": {"type": "integer", "minimum": 0},
                "description": "How many jobs stand in each state.",
            },
            "queues": {"type": "array", "items": reference("OverviewQueue"), "maxItems": 200, "description": "The fullest first."},
            "rates": reference("OverviewRates"),
            "minutes": {
                "type": "array", "items": reference("OverviewMinute"), "maxItems": 60,
                "description": "What happened in each of the last 60 minutes, the newest last.",
            },
            "workers": {"type": "array", "items": reference("AdminWorker"), "maxItems": 200},
            "sinks": {"type": "array", "items": reference("AdminSink"), "description": "Where this node sends events to."},
            "nodes": {"type": "array", "items": reference("Node"), "maxItems": 200, "description": "The nodes that are up."},
            "problems": {"type": "array", "items": reference("OverviewProblem"), "description": "What is wrong at this moment."},
        })),
        "OverviewProblem": whole("Something that an operator should look at.", json!({
            "kind": {
                "type": "string",
                "enum": ["queue_unattended", "webhook_failing", "sink_behind", "schedule_missed", "node_versions"],
                "description": "What kind of problem. More kinds may come.",
            },
            "what": text("What is wrong, for people."),
            "since": maybe(time("Since when, if that is known.")),
            "link": text("The page of the dashboard that shows more."),
        })),
        "OverviewQueue": whole("All queues of one name.", json!({
            "name": text("The name."),
            "waiting": count("Jobs that wait for a worker."),
            "active": count("Jobs that workers hold."),
            "oldest_waiting_s": maybe(count("How long the oldest claimable job has waited.")),
            "paused": {"type": "boolean", "description": "Whether the operator paused it."},
            "unattended": {"type": "boolean", "description": "Whether jobs wait and no living worker asks for it."},
        })),
        "OverviewRates": whole("How much happened within the last minute, and within the last hour.", json!({
            "submitted_per_s": rate("Jobs that came in."),
            "ended_per_s": rate("Executions that ended well or badly."),
            "failed_per_s": rate("Executions that ended badly."),
            "last_hour": reference("QueueFigures"),
        })),
        "OverviewMinute": whole("What happened within one minute, in all queues together.", json!({
            "at": time("When it began."),
            "submitted": count("Jobs that came in."),
            "succeeded": count("Executions that ended well."),
            "failed": count("Executions that ended badly."),
            "waited_ms": maybe(count("How long the attempts that began had waited, on average.")),
            "ran_ms": maybe(count("How long the executions that ended had run since their last attempt began, on average.")),
        })),
        "Node": whole("A node that is up.", json!({
            "id": text("What it calls itself: another name with every start."),
            "version": text("The version of the program."),
            "started_at": time("When it was started."),
        })),
        "AdminJobs": page("AdminJob", "A page of jobs, newest first."),
        "AdminJob": whole("A job.", job),
        "AdminJobDetail": whole("A job in full.", detail),
        "AdminResult": whole("What a job left.", json!({
            "media_type": text("Its media type."),
            "size": count("How many bytes it has."),
            "expires_at": maybe(time("When the content goes; null where it stays as long as the job.")),
        })),
        "AdminCancelRequest": object("Why a job is cancelled.", &[], json!({
            "reason": maybe(text("In words.")),
            "compensate": {"type": ["boolean", "null"], "description": "Of a workflow: whether the compensations of steps that succeeded run; `true` by default."},
        })),
        "AdminClients": page("AdminClient", "A page of clients, by id."),
        "AdminClient": whole("A client.", client),
        "AdminClientDetail": whole("A client with its keys.", client_detail),
        "AdminKey": whole("A key, without its secret.", json!({
            "key_id": id("Which key."),
            "key_prefix": text("How the secret begins."),
            "good": {"type": "boolean", "description": "Whether it opens doors now."},
            "created_at": time("When it was made."),
            "expires_at": maybe(time("When it stops working.")),
            "revoked_at": maybe(time("Since when it does not work any more.")),
            "last_used_at": maybe(time("When it was last used, give or take a minute.")),
        })),
        "AdminWebhooks": page("AdminWebhook", "A page of webhooks, oldest first."),
        "AdminWebhook": {
            "description": "A webhook, and whose it is.",
            "allOf": [reference("Webhook"), object("Whose.", &["client", "client_name"], json!({"client": id("Whose."), "client_name": maybe(text("What people call that client."))}))],
        },
    })
}

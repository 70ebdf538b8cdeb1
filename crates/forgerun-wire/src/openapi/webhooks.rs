//! Webhooks: their operations and the schemas of these.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::operation::{Operation, OperationAnswer, OperationBody, Presence};
use super::operations::{
    ANY, JOB, KEYED, NOON, OF_JOB, WRITING, answer, header, limit, of_jobs, path_parameter, query, refusals,
};
use super::schemas::{count, id, maybe, object, reference, text, time};
use crate::forge::event_names;

const HOOK: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const DELIVERY: &str = "01890a5d-ac97-7002-8cce-b302099a8057";

/// Whatever may be said of one webhook.
const OF_WEBHOOK: &[Kind] = &[Kind::Forbidden, Kind::ForeignResource, Kind::WebhookNotFound];

pub(super) fn all() -> Vec<Operation> {
    let mut all = webhooks();
    all.extend(deliveries());
    all.extend(deliveries_of_jobs());
    all
}

fn of_webhook() -> Vec<Value> {
    vec![path_parameter("webhook_id", "The webhook.")]
}

/// The parameters of what changes a webhook, or sends something to it.
fn of_version() -> Vec<Value> {
    let if_match = "Only if the webhook still has this `ETag`; otherwise nothing is done.";
    of_webhook().into_iter().chain([header("If-Match", if_match, "\"650a1b2c3d4e5\"")]).collect()
}

/// A webhook, with the tag of its version.
fn tagged(status: u16, description: &'static str, example: Value) -> OperationAnswer {
    let headers = vec![("ETag", Presence::Always)];
    OperationAnswer { headers, ..answer(status, description, "Webhook", example) }
}

fn operation(method: &'static str, path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation { tag: "webhooks", ..of_jobs(method, path, id, summary) }
}

fn body(schema: &'static str, required: bool, examples: Vec<(&'static str, Value)>) -> Option<OperationBody> {
    Some(OperationBody { schema, required, examples })
}

fn webhooks() -> Vec<Operation> {
    let cursor = json!({"type": "string", "format": "uuid"});
    let listing = vec![limit(), query("cursor", "The `next_cursor` of the page before.", cursor)];
    let new = json!({"url": "https://client.example/hooks", "events": ["job_succeeded", "job_failed"]});
    let change = json!({"events": ["*"], "enabled": true, "description": "the warehouse"});
    vec![
        Operation {
            body: body("WebhookRequest", true, vec![("failures", new)]),
            answers: vec![tagged(201, "Registered; the secret is shown this once.", example(true))],
            refusals: refusals(&[
                WRITING,
                ANY,
                KEYED,
                &[Kind::Forbidden, Kind::InvalidArgs, Kind::InvalidCallbackUrl, Kind::Duplicate],
            ]),
            ..operation(
                "post",
                "/v1/webhooks",
                "registerWebhook",
                "Registers an endpoint for events of the caller's jobs.",
            )
        },
        Operation {
            parameters: listing,
            answers: vec![answer(
                200,
                "A page.",
                "Webhooks",
                json!({"webhooks": [example(false)], "next_cursor": null}),
            )],
            refusals: refusals(&[ANY, KEYED, &[Kind::Forbidden, Kind::MalformedRequest]]),
            ..operation("get", "/v1/webhooks", "listWebhooks", "The caller's webhooks, oldest first.")
        },
        Operation {
            parameters: of_webhook(),
            answers: vec![tagged(200, "The webhook and its health.", example(false))],
            refusals: refusals(&[ANY, KEYED, OF_WEBHOOK]),
            ..operation("get", "/v1/webhooks/{webhook_id}", "getWebhook", "A webhook as it stands.")
        },
        Operation {
            parameters: of_version(),
            body: body("WebhookChange", false, vec![("enable", change)]),
            answers: vec![tagged(200, "As it is now.", example(false))],
            refusals: refusals(&[
                WRITING,
                ANY,
                KEYED,
                OF_WEBHOOK,
                &[Kind::InvalidArgs, Kind::InvalidCallbackUrl, Kind::Duplicate],
            ]),
            ..operation("patch", "/v1/webhooks/{webhook_id}", "changeWebhook", "Changes what the body names.")
        },
        Operation {
            parameters: of_version(),
            body: body("Nothing", false, vec![]),
            answers: vec![answer(
                200,
                "It is gone, and its deliveries are given up.",
                "Deleted",
                json!({"deleted": true}),
            )],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_WEBHOOK]),
            ..operation("delete", "/v1/webhooks/{webhook_id}", "deleteWebhook", "Deletes a webhook.")
        },
        Operation {
            parameters: of_version(),
            body: body("RotateRequest", false, vec![("an_hour", json!({"overlap_s": 3600}))]),
            answers: vec![tagged(200, "With its new secret, shown this once.", example(true))],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_WEBHOOK]),
            ..operation(
                "post",
                "/v1/webhooks/{webhook_id}/rotate-secret",
                "rotateSecret",
                "Makes a new secret; for a while deliveries are signed with both.",
            )
        },
    ]
}

/// The parameters of a list of deliveries.
fn listing(of: Vec<Value>) -> Vec<Value> {
    let status = json!({"enum": ["pending", "delivered", "failed"]});
    let cursor = json!({"type": "string", "format": "uuid"});
    let of_list = [
        query("status", "Only deliveries that stand like this.", status),
        limit(),
        query("cursor", "The `next_cursor` of the page before.", cursor),
    ];
    of.into_iter().chain(of_list).collect()
}

/// The parameters of one delivery.
fn one_of(mut of: Vec<Value>) -> Vec<Value> {
    of.push(path_parameter("delivery_id", "The delivery."));
    of
}

fn deliveries_of_jobs() -> Vec<Operation> {
    let of_job = || vec![path_parameter("job_id", "The job.")];
    let page = json!({"deliveries": [delivery()], "next_cursor": null});
    let missing: &[Kind] = &[Kind::DeliveryNotFound];
    let conflict: &[Kind] = &[Kind::WebhookNotFound, Kind::IllegalTransition];
    vec![
        Operation {
            parameters: listing(of_job()),
            answers: vec![answer(200, "A page.", "Deliveries", page)],
            refusals: refusals(&[ANY, KEYED, OF_JOB, &[Kind::MalformedRequest, Kind::InvalidArgs]]),
            ..operation(
                "get",
                "/v1/jobs/{job_id}/deliveries",
                "listDeliveriesOfJob",
                "What was sent about a job, to its callback and to webhooks, newest first.",
            )
        },
        Operation {
            parameters: one_of(of_job()),
            answers: vec![answer(200, "The delivery.", "Delivery", shown())],
            refusals: refusals(&[ANY, KEYED, OF_JOB, missing]),
            ..operation(
                "get",
                "/v1/jobs/{job_id}/deliveries/{delivery_id}",
                "getDeliveryOfJob",
                "A delivery, what it sends, and its attempts.",
            )
        },
        Operation {
            parameters: one_of(of_job()),
            body: body("Nothing", false, vec![]),
            answers: vec![answer(202, "On its way, or under way already.", "Delivery", delivery())],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_JOB, missing, conflict]),
            ..operation(
                "post",
                "/v1/jobs/{job_id}/deliveries/{delivery_id}/redeliver",
                "redeliverOfJob",
                "Sends a delivery again, also to a callback.",
            )
        },
    ]
}

fn deliveries() -> Vec<Operation> {
    let page = json!({"deliveries": [delivery()], "next_cursor": null});
    let again = json!({"redelivered": 2, "more": false});
    vec![
        Operation {
            parameters: of_version(),
            body: body("Nothing", false, vec![]),
            answers: vec![answer(202, "A test is on its way.", "Delivery", delivery())],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_WEBHOOK, &[Kind::IllegalTransition]]),
            ..operation(
                "post",
                "/v1/webhooks/{webhook_id}/test",
                "testWebhook",
                "Sends something to look at.",
            )
        },
        Operation {
            parameters: of_version(),
            body: body("RedeliverRequest", false, vec![("since", json!({"since": NOON}))]),
            answers: vec![answer(202, "On their way again.", "Redelivered", again)],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_WEBHOOK, &[Kind::IllegalTransition]]),
            ..operation(
                "post",
                "/v1/webhooks/{webhook_id}/redeliver",
                "redeliverFailed",
                "Sends again what was given up since a moment, a thousand at most.",
            )
        },
        Operation {
            parameters: listing(of_webhook()),
            answers: vec![answer(200, "A page.", "Deliveries", page)],
            refusals: refusals(&[ANY, KEYED, OF_WEBHOOK, &[Kind::MalformedRequest, Kind::InvalidArgs]]),
            ..operation(
                "get",
                "/v1/webhooks/{webhook_id}/deliveries",
                "listDeliveries",
                "What was sent to a webhook, newest first.",
            )
        },
        Operation {
            parameters: one_of(of_webhook()),
            answers: vec![answer(200, "The delivery.", "Delivery", shown())],
            refusals: refusals(&[ANY, KEYED, OF_WEBHOOK, &[Kind::DeliveryNotFound]]),
            ..operation(
                "get",
                "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}",
                "getDelivery",
                "A delivery, what it sends, and its attempts.",
            )
        },
        Operation {
            parameters: one_of(of_webhook()),
            body: body("Nothing", false, vec![]),
            answers: vec![answer(202, "On its way, or under way already.", "Delivery", delivery())],
            refusals: refusals(&[
                WRITING,
                ANY,
                KEYED,
                OF_WEBHOOK,
                &[Kind::DeliveryNotFound, Kind::IllegalTransition],
            ]),
            ..operation(
                "post",
                "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
                "redeliver",
                "Sends a delivery again.",
            )
        },
    ]
}

fn example(secret: bool) -> Value {
    let mut webhook = json!({
        "webhook_id": HOOK, "url": "https://client.example/hooks", "events": ["job_succeeded", "job_failed"],
        "envelope": "none", "description": null, "created_at": NOON, "updated_at": NOON,
        "enabled": true, "disabled_at": null, "disabled_reason": null,
        "health": {
            "failures_in_a_row": 0, "given_up_in_a_row": 0, "failing_since": null,
            "last_success_at": NOON, "last_failure_at": null,
        },
    });
    if secret {
        webhook["secret"] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=".into();
    }
    webhook
}

pub(super) fn delivery() -> Value {
    json!({
        "delivery_id": DELIVERY, "webhook_id": HOOK, "job_id": JOB, "event": "job_failed", "event_id": JOB,
        "request": {"method": "POST", "url": "https://client.example/hooks"}, "status": "pending", "reason": null, "attempts": 1, "created_at": NOON,
        "next_attempt_at": NOON, "settled_at": null,
        "log": [{"at": NOON, "duration_ms": 12, "response_status": 503, "error": "the receiver answered 503"}],
    })
}

/// The same as it is shown alone.
fn shown() -> Value {
    let mut delivery = delivery();
    delivery["request"]["headers"] = json!({
        "content-digest": "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:", "content-type": "application/problem+json",
        "webhook-id": DELIVERY, "x-forgerun-event": "job_failed",
    });
    delivery["request"]["body"] =
        json!({"type": "/problems/job-failed", "title": "Job Failed", "jobId": JOB});
    delivery
}

pub(super) fn schemas() -> Value {
    let names: Vec<&str> = event_names().chain(["*"]).collect();
    let request = json!({
        "url": {"type": "string", "format": "uri", "maxLength": 2048, "description": "Where to send to: http or https."},
        "events": {
            "type": "array", "minItems": 1, "items": {"type": "string", "examples": names},
            "description": "What to hear of, by name; `*` is everything. `job_failed` includes timeouts and mixed batches.",
        },
        "envelope": {
            "enum": ["none", "cloudevents", "cloudevents-binary", "ojs"],
            "description": "Whether bodies are CloudEvents, and in which mode; or events of Open Job Spec.",
        },
        "description": maybe(json!({"type": "string", "maxLength": 255, "description": "What it is for."})),
        "enabled": {"type": "boolean", "description": "Whether anything is sent."},
    });
    json!({
        "WebhookRequest": {
            "description": "An endpoint to be.", "type": "object", "required": ["url", "events"], "properties": request,
        },
        "WebhookChange": {"description": "What is to change.", "type": "object", "properties": request},
        "RotateRequest": {
            "description": "How to change a secret.", "type": "object",
            "properties": {"overlap_s": maybe(json!({
                "type": "integer", "minimum": 0, "maximum": 2_592_000,
                "description": "For how long deliveries are signed with the old secret too; a day if absent.",
            }))},
        },
        "RedeliverRequest": {
            "description": "What to send again.", "type": "object",
            "properties": {"since": maybe(time("What was given up at this moment or later; everything if absent."))},
        },
        "Webhook": object(
            "A registered endpoint.",
            &[
                "webhook_id", "url", "events", "envelope", "description", "created_at", "updated_at", "enabled",
                "disabled_at", "disabled_reason", "health",
            ],
            json!({
                "webhook_id": id("The webhook."),
                "url": text("Where it is."),
                "events": {"type": "array", "items": {"enum": names}, "description": "What it hears of."},
                "envelope": {"enum": ["none", "cloudevents", "cloudevents-binary", "ojs"], "description": "How bodies are wrapped."},
                "description": maybe(text("What it is for.")),
                "created_at": time("When it was registered."),
                "updated_at": time("When its owner last changed it."),
                "enabled": {"type": "boolean", "description": "Whether anything is sent."},
                "disabled_at": maybe(time("Since when nothing is sent.")),
                "disabled_reason": {
                    "enum": ["owner", "gone", "failing", null],
                    "description": "Its owner said so; it answered 410; or it failed for too long.",
                },
                "health": reference("WebhookHealth"),
                "secret": text("What deliveries are signed with; shown once."),
                "previous_secret_until": time("Until when they are signed with the secret before too."),
            }),
        ),
        "WebhookHealth": object(
            "How deliveries have gone.",
            &["failures_in_a_row", "given_up_in_a_row", "failing_since", "last_success_at", "last_failure_at"],
            json!({
                "failures_in_a_row": count("Attempts that failed since the last success."),
                "given_up_in_a_row": count("Deliveries given up since the last success."),
                "failing_since": maybe(time("When the first of these failures was.")),
                "last_success_at": maybe(time("When one last arrived, give or take a minute.")),
                "last_failure_at": maybe(time("When one last failed.")),
            }),
        ),
        "Webhooks": object("A page of webhooks.", &["webhooks", "next_cursor"], json!({
            "webhooks": {"type": "array", "items": reference("Webhook"), "maxItems": 200},
            "next_cursor": maybe(id("Where the next page begins.")),
        })),
        "Deleted": object("It is gone.", &["deleted"], json!({"deleted": {"type": "boolean", "description": "Always true."}})),
        "Delivery": object(
            "What was to be told to an endpoint.",
            &[
                "delivery_id", "webhook_id", "job_id", "event", "event_id", "request", "status", "reason", "attempts",
                "created_at", "next_attempt_at", "settled_at", "log",
            ],
            json!({
                "delivery_id": id("The same with every attempt; receivers see it as `webhook-id`."),
                "webhook_id": maybe(id("The webhook.")),
                "job_id": maybe(id("The job; null for a test.")),
                "event": text("What happened, or `webhook_test`."),
                "event_id": maybe(id("The event.")),
                "request": reference("DeliveryRequest"),
                "status": {"enum": ["pending", "delivered", "failed"], "description": "How far it is."},
                "reason": {
                    "enum": ["in_order", "under_way", "exhausted", "gone", "disabled", "deleted", null],
                    "description": "Why it waits without a moment of its own, or why it was given up.",
                },
                "attempts": count("Attempts begun since it was made, or asked for again."),
                "created_at": time("When it was written."),
                "next_attempt_at": maybe(time("When it is tried next.")),
                "settled_at": maybe(time("When it arrived or was given up.")),
                "log": {"type": "array", "items": reference("DeliveryAttempt"), "maxItems": 10, "description": "The newest attempts."},
            }),
        ),
        "DeliveryRequest": object(
            "What every attempt sends, as the webhook is set now. Headers and body where a delivery is shown alone; what belongs to one \
             attempt, its moment and its signatures, is never shown.",
            &["method", "url"],
            json!({
                "method": {"const": "POST", "description": "Always."},
                "url": maybe(text("Where it goes; null if the webhook was deleted.")),
                "headers": {
                    "type": "object", "additionalProperties": {"type": "string"},
                    "description": "The header fields that are the same with every attempt.",
                },
                "body": {"description": "The body, byte for byte: the event, the failure object, or either in its envelope."},
            }),
        ),
        "DeliveryAttempt": object("One attempt.", &["at", "duration_ms", "response_status", "error"], json!({
            "at": time("When it began."),
            "duration_ms": count("How long it took."),
            "response_status": {"type": ["integer", "null"], "description": "What the receiver answered."},
            "error": maybe(text("What went wrong.")),
        })),
        "Deliveries": object("A page of deliveries.", &["deliveries", "next_cursor"], json!({
            "deliveries": {"type": "array", "items": reference("Delivery"), "maxItems": 200},
            "next_cursor": maybe(id("Where the next page begins.")),
        })),
        "Redelivered": object("What is on its way again.", &["redelivered", "more"], json!({
            "redelivered": count("How many deliveries."),
            "more": {"type": "boolean", "description": "Whether asking again finds more."},
        })),
    })
}

//! The operations of workflows, those of the operator included, and their bodies.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::admin::{OF_OPERATOR, cursor, get, page};
use super::events::{EVENT, told};
use super::operation::{Access, Operation, OperationAnswer, OperationBody, Presence};
use super::operations::{
    ANY, JOB, KEYED, NOON, OF_JOB, SUBMITTING, WRITING, answer, header, limit, path_parameter, query,
    refusals, submitting,
};
use super::schemas::{count, id, maybe, object, reference, text, time};

const CLIENT: &str = "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10";
const STEP: &str = "01890a5d-ac96-7000-9f2c-61aa0b7d3e10";

/// Those of clients.
pub(super) fn all() -> Vec<Operation> {
    let mut operations = vec![submit(), list()];
    operations.extend(one());
    operations.push(events());
    operations
}

fn events() -> Operation {
    let cursor = "The `next_cursor` of the page before: the id of an event.";
    let mut parameters = of_workflow();
    parameters.extend([
        limit(),
        query("cursor", cursor, json!({"type": "string"})),
        header("Last-Event-ID", "The last event that a stream told: it goes on after it.", EVENT),
    ]);
    Operation {
        parameters,
        answers: vec![
            told("The changes of its state; as a stream, with its progress, until it ends."),
            OperationAnswer {
                status: 204,
                description: "The workflow has ended and the stream has told everything.",
                content: vec![],
                headers: vec![("Vary", Presence::Always)],
            },
        ],
        refusals: refusals(&[ANY, KEYED, OF_JOB, &[Kind::MalformedRequest]]),
        ..of_workflows(
            "get",
            "/v1/workflows/{workflow_id}/events",
            "listEventsOfWorkflow",
            "What happened to a workflow; with `Accept: text/event-stream` as it happens.",
        )
    }
}

/// Those of the operator.
pub(super) fn of_operator() -> Vec<Operation> {
    let owned = |mut workflow: Value| {
        workflow["client"] = CLIENT.into();
        workflow["client_name"] = "Billing".into();
        workflow["tenant"] = Value::Null;
        workflow
    };
    let mut detail = owned(example());
    detail["edges"] = json!([{"from": "reserve", "to": "charge", "when": "all_succeeded"}]);
    vec![
        Operation {
            parameters: vec![
                state(),
                query("client", "Of this client.", json!({"type": "string"})),
                limit(),
                cursor(),
            ],
            answers: vec![answer(
                200,
                "A page.",
                "AdminWorkflows",
                json!({"items": [owned(summary())], "next_cursor": null}),
            )],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::InvalidArgs]]),
            ..get("/admin/v1/workflows", "adminListWorkflows", "Workflows of all clients, newest first.")
        },
        Operation {
            parameters: of_workflow(),
            answers: vec![answer(200, "The workflow.", "AdminWorkflowDetail", detail)],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::JobNotFound]]),
            ..get(
                "/admin/v1/workflows/{workflow_id}",
                "adminGetWorkflow",
                "A workflow with its steps, and who waits for whom.",
            )
        },
    ]
}

fn of_workflows(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    Operation {
        path: path.into(),
        method,
        id: id.into(),
        tag: "workflows",
        summary: summary.into(),
        access: Access::Client,
        parameters: vec![],
        body: None,
        answers: vec![],
        refusals: vec![],
    }
}

fn of_workflow() -> Vec<Value> {
    vec![path_parameter("workflow_id", "The workflow: the id of its own job.")]
}

fn state() -> Value {
    let description = "In one of these states; several with commas.";
    query("state", description, json!({"type": "string"}))
}

fn summary() -> Value {
    json!({
        "workflow_id": JOB, "type": "chain", "name": "order-4711", "state": "RUNNING", "progress": 50, "steps_total": 2,
        "steps_succeeded": 1, "steps_failed": 0, "created_at": NOON, "updated_at": NOON, "finished_at": null,
        "execution_id": JOB,
    })
}

fn example() -> Value {
    let step = |id: &str, index: u32, state: &str, before: &[&str]| {
        let begun = index == 0;
        json!({
            "id": id, "index": index, "job_type": format!("order.{id}"), "queue": "orders", "state": state, "depends_on": before,
            "when": "all_succeeded", "job_id": begun.then_some(STEP), "attempt": begun.then_some(1),
            "started_at": begun.then_some(NOON), "finished_at": begun.then_some(NOON), "error": null,
            "compensation": begun.then(|| json!({"job_type": "order.release", "state": "NOT_RUN", "job_id": null, "error": null})),
        })
    };
    let mut workflow = summary();
    workflow["failure_policy"] = "compensate".into();
    workflow["canceling"] = false.into();
    workflow["steps"] =
        json!([step("reserve", 0, "SUCCEEDED", &[]), step("charge", 1, "WAITING", &["reserve"])]);
    workflow
}

fn requests() -> Vec<(&'static str, Value)> {
    let job = |name: &str| json!({"type": name, "args": [4711], "options": {"queue": "orders"}});
    let graph = json!([
        {"id": "reserve", "type": "order.reserve", "args": [4711]},
        {"id": "charge", "type": "order.charge", "args": [4711], "depends_on": ["reserve"]},
        {"id": "undo", "type": "order.undo", "args": [4711], "depends_on": ["reserve", "charge"], "when": "any_failed"},
    ]);
    let saga = json!([
        {"id": "reserve", "type": "order.reserve", "args": [4711], "compensate": {"type": "order.release", "args": [4711]}},
        {"id": "charge", "type": "order.charge", "args": [4711], "depends_on": ["reserve"]},
    ]);
    vec![
        (
            "chain",
            json!({"type": "chain", "name": "order-4711", "steps": [job("order.reserve"), job("order.charge")]}),
        ),
        (
            "batch",
            json!({"type": "batch", "jobs": [job("mail.send"), job("mail.send")], "callbacks": {"on_complete": job("mail.report")}}),
        ),
        ("graph", json!({"steps": graph, "failure_policy": "stop"})),
        ("compensation", json!({"steps": saga, "failure_policy": "compensate"})),
        (
            "simulated",
            json!({"type": "group", "jobs": [{"work_kind": "SUCCESS_FAST"}, {"work_kind": "SUCCESS_FAST"}]}),
        ),
    ]
}

fn submit() -> Operation {
    let headers = vec![
        ("Location", Presence::Always),
        ("Link", Presence::Always),
        ("Retry-After", Presence::Always),
        ("Preference-Applied", Presence::Sometimes),
        ("Idempotent-Replayed", Presence::Sometimes),
    ];
    let more = &[
        Kind::JobTypeTooLong,
        Kind::InvalidRetryPolicy,
        Kind::InvalidMetadata,
        Kind::MetadataTooLarge,
        Kind::UnsupportedFeature,
    ];
    let kinds: Vec<Kind> = SUBMITTING.iter().copied().filter(|kind| *kind != Kind::ScheduleInPast).collect();
    Operation {
        parameters: submitting(),
        body: Some(OperationBody { schema: "WorkflowRequest", required: true, examples: requests() }),
        answers: vec![OperationAnswer {
            headers,
            ..answer(202, "Accepted, and written down.", "WorkflowSummary", summary())
        }],
        refusals: refusals(&[WRITING, ANY, KEYED, &kinds, more]),
        ..of_workflows("post", "/v1/workflows", "submitWorkflow", "Begins jobs that wait for each other.")
    }
}

fn list() -> Operation {
    let cursor =
        query("cursor", "The `next_cursor` of the page before.", json!({"type": "string", "format": "uuid"}));
    Operation {
        parameters: vec![state(), limit(), cursor],
        answers: vec![answer(
            200,
            "A page.",
            "Workflows",
            json!({"workflows": [summary()], "next_cursor": null}),
        )],
        refusals: refusals(&[ANY, KEYED, &[Kind::Forbidden, Kind::MalformedRequest, Kind::InvalidArgs]]),
        ..of_workflows("get", "/v1/workflows", "listWorkflows", "The caller's workflows, newest first.")
    }
}

fn one() -> Vec<Operation> {
    let body = |schema, name, example| {
        Some(OperationBody { schema, required: false, examples: vec![(name, example)] })
    };
    let found = OperationAnswer {
        content: vec![
            ("application/json", Some("Workflow"), Some(example())),
            ("application/problem+json", Some("FailedJob"), None),
            ("application/problem+xml", Some("FailedJob"), None),
        ],
        headers: vec![
            ("Vary", Presence::Always),
            ("Retry-After", Presence::Sometimes),
            ("Content-Digest", Presence::Sometimes),
            ("Content-Language", Presence::Sometimes),
        ],
        ..answer(200, "The workflow; one that ended badly also as its failure object.", "Workflow", example())
    };
    vec![
        Operation {
            parameters: of_workflow(),
            answers: vec![found],
            refusals: refusals(&[ANY, KEYED, OF_JOB]),
            ..of_workflows("get", "/v1/workflows/{workflow_id}", "getWorkflow", "A workflow with its steps.")
        },
        Operation {
            parameters: of_workflow(),
            body: body("WorkflowCancel", "at once", json!({"compensate": false})),
            answers: vec![answer(
                200,
                "Cancelled with all its steps, ended before, or `RUNNING` and `canceling` until what it did is undone.",
                "Workflow",
                example(),
            )],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_JOB]),
            ..of_workflows(
                "post",
                "/v1/workflows/{workflow_id}/cancel",
                "cancelWorkflow",
                "Cancels what is left of a workflow, and undoes what its steps did.",
            )
        },
        Operation {
            parameters: of_workflow(),
            body: body("WorkflowRetry", "from a step", json!({"from": "charge"})),
            answers: vec![answer(200, "Running again.", "Workflow", example())],
            refusals: refusals(&[
                WRITING,
                ANY,
                KEYED,
                OF_JOB,
                &[Kind::IllegalTransition, Kind::RetryLimitReached],
            ]),
            ..of_workflows(
                "post",
                "/v1/workflows/{workflow_id}/retry",
                "retryWorkflow",
                "Tries again what failed of a workflow, and what did not have its turn; all of it if it was compensated.",
            )
        },
    ]
}

/// The bodies.
pub(super) fn schemas() -> Value {
    let words = |description: &str, words: &[&str]| json!({"enum": words, "description": description});
    let summary = json!({
        "workflow_id": id("Which workflow. Its own job has the same id."),
        "type": words("How it was described.", &["chain", "group", "batch", "graph"]),
        "name": text("What the client calls it; may be empty."),
        "state": words("Where it stands.", &["CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]),
        "progress": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent of its steps that are over."},
        "steps_total": count("How many steps it has."),
        "steps_succeeded": count("How many succeeded."),
        "steps_failed": count("How many failed or were cancelled; in a list, of an ended one, also those that never had their turn because of that."),
        "created_at": time("When it was accepted."),
        "updated_at": time("When it last changed."),
        "finished_at": maybe(time("When it ended.")),
        "execution_id": id("The execution under way, or the last."),
    });
    let with = |more: Value| {
        let mut all = summary.clone();
        for (name, value) in more.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        all
    };
    let required = |properties: &Value| -> Vec<String> {
        let names = properties.as_object().into_iter().flatten().map(|(name, _)| name.clone());
        names.filter(|name| name != "failure").collect()
    };
    let whole = |description: &str, properties: Value| {
        let required = required(&properties);
        let required: Vec<&str> = required.iter().map(String::as_str).collect();
        object(description, &required, properties)
    };
    let owner = json!({"client": id("Whose."), "client_name": maybe(text("What people call that client.")), "tenant": maybe(text("Which of the client's tenants."))});
    let detail = json!({
        "failure_policy": words("What the failure of a step means for the others.", &["continue", "stop", "compensate"]),
        "canceling": {"type": "boolean", "description": "It was cancelled, and ends so once what it did is undone."},
        "steps": {"type": "array", "items": reference("WorkflowStep"), "maxItems": 1000, "description": "In the order of the request."},
        "failure": {"type": "object", "description": "The failure object of its newest execution, if that ended badly."},
    });
    let join = |parts: &[&Value]| {
        let mut all = json!({});
        for (name, value) in parts.iter().flat_map(|part| part.as_object().into_iter().flatten()) {
            all[name] = value.clone();
        }
        all
    };
    let edges = json!({"edges": {"type": "array", "items": reference("WorkflowEdge"), "description": "Who waits for whom."}});
    let when = || {
        words(
            "When it has its turn, once those before it are over.",
            &["all_succeeded", "all_ended", "any_failed"],
        )
    };
    json!({
        "WorkflowRequest": request(),
        "WorkflowCancel": object("How a workflow is cancelled.", &[], json!({
            "compensate": {"type": ["boolean", "null"], "description": "Whether the compensations of steps that succeeded run; `true` by default. `false` also stops those under way."},
        })),
        "WorkflowRetry": object("Where a workflow goes on.", &[], json!({
            "from": {"type": ["string", "null"], "description": "The id of a step: it and all that depend on it run again, and the others stay."},
        })),
        "WorkflowSummary": whole("A workflow in a list.", summary.clone()),
        "Workflows": object("A page of workflows, newest first.", &["workflows", "next_cursor"], json!({
            "workflows": {"type": "array", "items": reference("WorkflowSummary"), "maxItems": 200},
            "next_cursor": maybe(text("Where to go on; null at the end.")),
        })),
        "Workflow": whole("A workflow with its steps.", with(detail.clone())),
        "WorkflowStep": whole("A step of a workflow.", json!({
            "id": text("What the client calls it, or its place."),
            "index": count("Its place, from 0."),
            "job_type": maybe(text("What kind of job it is.")),
            "queue": maybe(text("Where its job waits.")),
            "state": words("WAITING, then the state of its job, or SKIPPED if its turn never comes.", &["WAITING", "CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"]),
            "depends_on": {"type": "array", "items": {"type": "string"}, "description": "The steps it waits for."},
            "when": when(),
            "job_id": maybe(id("Its job, once it was made.")),
            "attempt": maybe(count("The attempt under way or about to begin, from 1.")),
            "started_at": maybe(time("When its newest attempt began.")),
            "finished_at": maybe(time("When its job ended.")),
            "error": maybe(text("Why it did not succeed.")),
            "compensation": {"anyOf": [reference("WorkflowCompensation"), {"type": "null"}], "description": "What undoes it, if it declares that."},
        })),
        "WorkflowCompensation": whole("What undoes a step.", json!({
            "job_type": maybe(text("What kind of job it is.")),
            "state": words("NOT_RUN while nothing is to be undone, WAITING for others, then the state of its job.", &["NOT_RUN", "WAITING", "CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]),
            "job_id": maybe(id("Its job, once it was made.")),
            "error": maybe(text("Why it did not succeed.")),
        })),
        "AdminWorkflows": page("AdminWorkflow", "A page of workflows, newest first."),
        "AdminWorkflow": whole("A workflow of any client, in a list.", join(&[&owner, &summary])),
        "AdminWorkflowDetail": whole("A workflow of any client, in full.", join(&[&owner, &summary, &detail, &edges])),
        "WorkflowEdge": whole("One step waits for another.", json!({
            "from": text("The step that comes first."),
            "to": text("The step that waits for it."),
            "when": when(),
        })),
    })
}

fn request() -> Value {
    let entries = |description: &str| json!({"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": 1000, "description": description});
    object(
        "A workflow: a chain, a group, a batch, or steps that name those they wait for.",
        &[],
        json!({
            "type": {"enum": ["chain", "group", "batch"], "description": "Left out for steps with `depends_on`."},
            "name": {"type": ["string", "null"], "maxLength": 255, "description": "Yours."},
            "steps": entries("Of a chain or a graph: job envelopes as of `/ojs/v1/jobs`, or nested workflows; in a graph with `id`, `depends_on` and `when`. `compensate` is the envelope of the job that undoes a step. With `work_kind` a step is simulated."),
            "jobs": entries("Of a group or a batch: the same."),
            "callbacks": {
                "type": ["object", "null"],
                "properties": {"on_complete": {"type": "object"}, "on_success": {"type": "object"}, "on_failure": {"type": "object"}},
                "description": "Of a batch: what follows its end.",
            },
            "failure_policy": {"enum": ["continue", "stop", "compensate", null], "description": "What the failure of a step means for those that do not wait for it; `continue` by default."},
            "options": {"type": ["object", "null"], "description": "`failure_policy` may stand here, too."},
            "idempotency_key": {"type": ["string", "null"], "maxLength": 255, "description": "Makes a repetition harmless."},
            "correlation_id": {"type": ["string", "null"], "description": "What you call the request."},
        }),
    )
}

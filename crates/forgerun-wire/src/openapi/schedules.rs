//! Schedules: their operations and the schemas of these.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::admin;
use super::operation::{Operation, OperationAnswer, OperationBody, Presence};
use super::operations::{
    ANY, JOB, KEYED, NOON, WRITING, answer, limit, of_jobs, path_parameter, query, refusals,
};
use super::schemas::{QUEUE_NAME, count, id, maybe, object, reference, simulated, text, time};

/// What registering one may be refused with.
const REGISTERING: &[Kind] = &[
    Kind::Forbidden,
    Kind::InvalidArgs,
    Kind::InvalidCron,
    Kind::UnknownJobType,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::InvalidCallbackUrl,
    Kind::JobPayloadTooLarge,
];

/// Whatever may be said of one schedule.
const OF_SCHEDULE: &[Kind] = &[Kind::Forbidden, Kind::ScheduleNotFound];

/// The operations of clients.
pub(super) fn all() -> Vec<Operation> {
    let mut all = registering();
    all.extend(steering());
    all
}

fn operation(method: &'static str, path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation { tag: "schedules", ..of_jobs(method, path, id, summary) }
}

fn of_schedule() -> Vec<Value> {
    vec![path_parameter("name", "The name of the schedule.")]
}

fn cursor() -> Value {
    query("cursor", "The `next_cursor` of the page before.", json!({"type": "string"}))
}

fn registered(
    status: u16,
    description: &'static str,
    headers: Vec<(&'static str, Presence)>,
) -> OperationAnswer {
    OperationAnswer { headers, ..answer(status, description, "Schedule", example()) }
}

fn registering() -> Vec<Operation> {
    let new = json!({
        "name": "nightly-report", "cron": "0 3 * * *", "timezone": "Europe/Berlin",
        "job": {"type": "EXECUTE", "work_kind": "SUCCESS_NORMAL"},
    });
    let mut unnamed = new.clone();
    unnamed.as_object_mut().expect("it is an object").remove("name");
    let body = |example: Value, schema: &'static str| {
        Some(OperationBody { schema, required: true, examples: vec![("nightly", example)] })
    };
    let answers = || {
        vec![
            registered(200, "It was there, and is changed. What happened stays.", vec![]),
            registered(201, "Registered.", vec![("Location", Presence::Always)]),
        ]
    };
    vec![
        Operation {
            body: body(new, "ScheduleRequest"),
            answers: answers(),
            refusals: refusals(&[WRITING, ANY, KEYED, REGISTERING]),
            ..operation(
                "post",
                "/v1/schedules",
                "registerSchedule",
                "Registers a schedule, or changes the one of that name.",
            )
        },
        Operation {
            parameters: of_schedule(),
            body: body(unnamed, "ScheduleChange"),
            answers: answers(),
            refusals: refusals(&[WRITING, ANY, KEYED, REGISTERING]),
            ..operation(
                "put",
                "/v1/schedules/{name}",
                "putSchedule",
                "The same, with the name in the address.",
            )
        },
        Operation {
            parameters: vec![limit(), cursor()],
            answers: vec![answer(
                200,
                "A page.",
                "Schedules",
                json!({"schedules": [example()], "next_cursor": null}),
            )],
            refusals: refusals(&[ANY, KEYED, &[Kind::Forbidden, Kind::MalformedRequest]]),
            ..operation("get", "/v1/schedules", "listSchedules", "The caller's schedules, by name.")
        },
    ]
}

fn steering() -> Vec<Operation> {
    let nothing = || Some(OperationBody { schema: "Nothing", required: false, examples: vec![] });
    let act = |method, path, id, summary| Operation {
        parameters: of_schedule(),
        body: nothing(),
        answers: vec![answer(200, "As it is now.", "Schedule", example())],
        refusals: refusals(&[WRITING, ANY, KEYED, OF_SCHEDULE]),
        ..operation(method, path, id, summary)
    };
    let submitted = json!({"job_id": JOB, "state": "QUEUED", "created_at": NOON, "simulated": true});
    let accepted = OperationAnswer {
        headers: vec![("Location", Presence::Always)],
        ..answer(202, "A job was made.", "Submitted", submitted)
    };
    vec![
        Operation {
            parameters: of_schedule(),
            answers: vec![answer(200, "The schedule.", "Schedule", example())],
            refusals: refusals(&[ANY, KEYED, OF_SCHEDULE]),
            ..operation("get", "/v1/schedules/{name}", "getSchedule", "A schedule, with its next runs.")
        },
        Operation {
            answers: vec![answer(200, "It is gone; its jobs stay.", "Deleted", json!({"deleted": true}))],
            ..act("delete", "/v1/schedules/{name}", "deleteSchedule", "Deletes a schedule.")
        },
        act("post", "/v1/schedules/{name}/pause", "pauseSchedule", "Makes no more jobs."),
        act(
            "post",
            "/v1/schedules/{name}/resume",
            "resumeSchedule",
            "Makes jobs again, from the next tick on.",
        ),
        Operation {
            answers: vec![accepted],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_SCHEDULE, &[Kind::Duplicate]]),
            ..act("post", "/v1/schedules/{name}/trigger", "triggerSchedule", "Makes a job now.")
        },
    ]
}

/// The operations of the operator.
pub(super) fn of_operator() -> Vec<Operation> {
    let owner = vec![
        path_parameter("name", "The name of the schedule."),
        query("client", "Whose schedule; required.", json!({"type": "string", "format": "uuid"})),
        query("tenant", "Which of the client's tenants.", json!({"type": "string"})),
    ];
    let act = |path, id, summary, kinds: &[Kind]| Operation {
        parameters: owner.clone(),
        answers: vec![answer(200, "As it is now.", "AdminSchedule", admin_example())],
        ..admin::change("post", path, id, summary, kinds)
    };
    let known: &[Kind] = &[Kind::InvalidArgs, Kind::ScheduleNotFound];
    vec![
        Operation {
            parameters: vec![limit(), cursor()],
            answers: vec![answer(
                200,
                "A page.",
                "AdminSchedules",
                json!({"items": [admin_example()], "next_cursor": null}),
            )],
            ..admin::get(
                "/admin/v1/crons",
                "adminListSchedules",
                "Schedules of all clients, with their next runs.",
            )
        },
        act("/admin/v1/crons/{name}/pause", "adminPauseSchedule", "Makes no more jobs.", known),
        act(
            "/admin/v1/crons/{name}/resume",
            "adminResumeSchedule",
            "Makes jobs again, from the next tick on.",
            known,
        ),
        act(
            "/admin/v1/crons/{name}/trigger",
            "adminTriggerSchedule",
            "Makes a job now.",
            &[Kind::InvalidArgs, Kind::ScheduleNotFound, Kind::Duplicate],
        ),
    ]
}

fn example() -> Value {
    json!({
        "name": "nightly-report", "cron": "0 3 * * *", "timezone": "Europe/Berlin",
        "job": {"type": "EXECUTE", "job_type": null, "work_kind": "SUCCESS_NORMAL", "simulated": true, "queue": "default", "priority": 0},
        "overlap_policy": "skip", "catch_up": "one", "catch_up_max": null, "jitter_ms": 0, "enabled": true, "paused_at": null,
        "description": null, "next_run_at": NOON, "next_runs": [NOON], "last_run_at": NOON, "last_job_id": JOB, "last_skip": null,
        "run_count": 41, "skip_count": 0, "missed_count": 1, "created_at": NOON, "updated_at": NOON,
    })
}

fn admin_example() -> Value {
    let mut example = example();
    example["client"] = "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10".into();
    example["client_name"] = "Billing".into();
    example["tenant"] = Value::Null;
    example
}

/// What may be said of a schedule.
fn request_members() -> Value {
    json!({
        "name": {"type": "string", "pattern": QUEUE_NAME, "maxLength": 255, "description": "What it is called."},
        "cron": {
            "type": "string", "maxLength": 512,
            "description": "Five fields, six with the seconds in front, `@daily` and the like, or `@every 1h30m`.",
        },
        "timezone": maybe(text("The IANA name of a time zone; UTC if absent.")),
        "job": reference("SubmitRequest"),
        "overlap_policy": {
            "enum": ["skip", "allow", "cancel_previous", "enqueue", null],
            "description": "What happens while the job of an earlier tick has not ended; skip if absent.",
        },
        "catch_up": {
            "enum": ["none", "one", "all", null], "description": "What happens about ticks that were missed; one if absent.",
        },
        "catch_up_max": maybe(json!({
            "type": "integer", "minimum": 1, "maximum": 100, "description": "With `all`: how many at most; 100 if absent.",
        })),
        "jitter_ms": maybe(json!({
            "type": "integer", "minimum": 0, "maximum": 86_400_000,
            "description": "Each job comes up to this much after its tick.",
        })),
        "enabled": maybe(json!({"type": "boolean", "description": "Whether it makes jobs; as it was, if absent."})),
        "description": maybe(json!({"type": "string", "maxLength": 4096, "description": "What it is for."})),
    })
}

pub(super) fn schemas() -> Value {
    let members = shown_members();
    let of_admin = {
        let mut all = members.clone();
        all["client"] = id("Whose.");
        all["client_name"] = maybe(text("What people call that client."));
        all["tenant"] = maybe(text("Which of the client's tenants."));
        all
    };
    json!({
        "ScheduleRequest": {
            "description": "A schedule to be.", "type": "object", "required": ["name", "cron", "job"], "properties": request_members(),
        },
        "ScheduleChange": {
            "description": "The same, with its name elsewhere.", "type": "object", "required": ["cron", "job"],
            "properties": request_members(),
        },
        "Schedule": whole("Makes a job at each of its ticks.", members),
        "ScheduledJob": whole("What every job of a schedule is like.", json!({
            "type": {"enum": ["EXECUTE", "EMIT_EVENT"], "description": "The form of the job."},
            "job_type": maybe(text("What kind of work it is, for workers outside.")),
            "work_kind": maybe(text("What is simulated; null for real work.")),
            "simulated": simulated(),
            "queue": text("Where its jobs wait."),
            "priority": {"type": "integer", "minimum": -100, "maximum": 100, "description": "Higher goes first."},
        })),
        "SkippedTick": whole("A tick that made no job.", json!({
            "at": time("Which."),
            "reason": {"enum": ["overlap_skip", "duplicate", "refused"], "description": "Why."},
        })),
        "Schedules": object("A page of schedules.", &["schedules", "next_cursor"], json!({
            "schedules": {"type": "array", "items": reference("Schedule"), "maxItems": 200},
            "next_cursor": maybe(text("Where the next page begins.")),
        })),
        "AdminSchedule": whole("A schedule, and whose it is.", of_admin),
        "AdminSchedules": admin::page("AdminSchedule", "A page of schedules of all clients."),
    })
}

fn shown_members() -> Value {
    json!({
        "name": text("What it is called."),
        "cron": text("The cron expression."),
        "timezone": text("The time zone that it is read in."),
        "job": reference("ScheduledJob"),
        "overlap_policy": {"enum": ["skip", "allow", "cancel_previous", "enqueue"], "description": "What happens while an earlier job has not ended."},
        "catch_up": {"enum": ["none", "one", "all"], "description": "What happens about ticks that were missed."},
        "catch_up_max": {"type": ["integer", "null"], "minimum": 1, "maximum": 100, "description": "How many missed ticks are made up for at most."},
        "jitter_ms": count("How long after its tick a job may come."),
        "enabled": {"type": "boolean", "description": "Whether it makes jobs."},
        "paused_at": maybe(time("Since when it makes none.")),
        "description": maybe(text("What it is for.")),
        "next_run_at": maybe(time("The next tick; null while it is paused.")),
        "next_runs": {"type": "array", "items": {"type": "string", "format": "date-time"}, "maxItems": 5, "description": "The next ticks."},
        "last_run_at": maybe(time("The newest tick that made a job, or when somebody asked for one.")),
        "last_job_id": maybe(id("That job.")),
        "last_skip": {
            "anyOf": [reference("SkippedTick"), {"type": "null"}], "description": "The newest tick that made no job.",
        },
        "run_count": count("How many jobs it made."),
        "skip_count": count("How many ticks made none."),
        "missed_count": count("How many ticks were missed and not made up for."),
        "created_at": time("When it was first registered."),
        "updated_at": time("When its owner last changed it."),
    })
}

/// An object all of whose members are always there.
fn whole(description: &str, properties: Value) -> Value {
    admin::whole(description, properties)
}

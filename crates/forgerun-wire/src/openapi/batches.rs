//! Batches: their operations and the schemas of these.

use forgerun_core::catalog::Kind;
use forgerun_core::limits::{ITEM_ID_BYTES_MAX, ITEMS_MAX};
use forgerun_problem::ItemStatus;
use serde_json::{Value, json};

use super::operation::{Operation, OperationAnswer, OperationBody};
use super::operations::{
    ANY, JOB, KEYED, OF_JOB, SUBMITTING, WRITING, accepted, answer, limit, of_jobs, path_parameter, query,
    refusals, submitting,
};
use super::schemas::{count, id, maybe, object, reference, text, work_kind};

pub(super) fn all() -> Vec<Operation> {
    let mut listing = vec![path_parameter("job_id", "The batch.")];
    listing.extend(paging());
    listing.push(query(
        "execution",
        "The items of this execution; of the one under way if absent.",
        json!({"type": "string", "format": "uuid"}),
    ));
    vec![
        Operation {
            parameters: submitting(),
            body: Some(OperationBody { schema: "BatchRequest", required: true, examples: batches() }),
            answers: vec![accepted()],
            refusals: refusals(&[WRITING, ANY, KEYED, SUBMITTING]),
            ..of_jobs("post", "/v1/jobs/batch", "submitBatch", "Submits a batch: one job of many items.")
        },
        Operation {
            parameters: listing,
            answers: vec![page()],
            refusals: refusals(&[
                ANY,
                KEYED,
                OF_JOB,
                &[Kind::MalformedRequest, Kind::InvalidArgs, Kind::ResultNotFound],
            ]),
            ..of_jobs("get", "/v1/jobs/{job_id}/items", "listItems", "The items of a batch, in order.")
        },
    ]
}

/// The parameters by which items are paged through.
pub(super) fn paging() -> Vec<Value> {
    vec![
        limit(),
        query("cursor", "The `next_cursor` of the page before.", json!({"type": "string"})),
        query("status", "Only items that ended like this.", json!({"enum": statuses()})),
    ]
}

/// A page of items.
pub(super) fn page() -> OperationAnswer {
    let example = json!({
        "jobId": JOB, "total": 2, "completed": 1, "failed": 1,
        "items": [
            {"itemId": "cert-001", "status": "COMPLETED"},
            {
                "itemId": "cert-002", "status": "FAILED", "detail": "The template is missing.", "retryable": false,
                "processingStage": "processing",
            },
        ],
        "next_cursor": null,
    });
    answer(200, "A page.", "Items", example)
}

fn batches() -> Vec<(&'static str, Value)> {
    let mixed = [
        json!({"itemId": "cert-001", "work_kind": "SUCCESS_FAST"}),
        json!({"itemId": "cert-002", "work_kind": "FAIL_IMMEDIATE", "payload": {"name": "Ada"}}),
    ];
    vec![
        ("mixed", json!({"items": mixed})),
        ("numbered", json!({"items": [{}, {}, {}], "work_kind": "SUCCESS_FAST", "retry_mode": "auto"})),
    ]
}

fn statuses() -> [&'static str; 4] {
    ItemStatus::ALL.map(ItemStatus::as_str)
}

/// The body of a batch on `/api/v1`.
pub(super) fn begin_request() -> Value {
    json!({
        "description": "A job of many items; its other members are those of a single job, and hold for all of them.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "type": {
                "type": "string", "minLength": 1, "maxLength": 255,
                "description": "What kind of job it is; may be left out if every item has a type.",
            },
            "work_kind": work_kind("What to simulate, for items that do not say; all items are simulated or none."),
            "items": {
                "type": "array", "minItems": 1, "maxItems": ITEMS_MAX, "description": "What to do, item by item.",
                "items": {
                    "type": "object",
                    "properties": {
                        "itemId": item_id(),
                        "type": {
                            "type": "string", "minLength": 1, "maxLength": 255,
                            "description": "What kind of job the item is; that of the batch if absent.",
                        },
                        "work_kind": work_kind("What to simulate."),
                        "parameters": {"description": "What it works on: any JSON."},
                    },
                },
            },
        },
    })
}

fn item_id() -> Value {
    json!({
        "type": ["string", "null"], "minLength": 1, "maxLength": ITEM_ID_BYTES_MAX,
        "description": "Unique within the batch; the place, counted from zero, if absent.",
    })
}

pub(super) fn schemas() -> Value {
    let open = ["ACCEPTED", "PROCESSING"];
    let any: Vec<&str> = statuses().into_iter().chain(open).collect();
    json!({
        "BatchRequest": {
            "description": "A submission of many items; its other members are those of a single job, and hold for all of them.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "items": {
                    "type": "array", "minItems": 1, "maxItems": ITEMS_MAX,
                    "items": reference("ItemRequest"), "description": "What to do, item by item.",
                },
                "type": {"type": "string", "default": "EXECUTE", "description": "EXECUTE or DEFERRED, in any case."},
                "work_kind": work_kind("What to simulate, for items that do not say; chosen by the server if absent."),
                "job_type": maybe(text("What kind of work it is, for items that do not say: real work, for workers outside.")),
            },
        },
        "ItemRequest": {
            "description": "One item of a batch.",
            "type": "object",
            "properties": {
                "itemId": item_id(),
                "type": {"type": ["string", "null"], "description": "EXECUTE, in any case; the batch says when to run."},
                "work_kind": work_kind("What to simulate; that of the batch if absent."),
                "job_type": maybe(text("What kind of work it is; that of the batch if absent. All items are simulated or none.")),
                "payload": {"description": "Any JSON."},
            },
        },
        "Items": object(
            "A page of the items of a batch.",
            &["jobId", "total", "completed", "failed", "items", "next_cursor"],
            json!({
                "jobId": id("The execution they belong to."),
                "total": count("How many items the batch has."),
                "completed": count("How many ended well."),
                "failed": count("How many did not."),
                "items": {"type": "array", "items": reference("Item"), "maxItems": 200},
                "next_cursor": maybe(text("Where the next page begins; null on the last one.")),
            }),
        ),
        "Item": object("One item.", &["itemId", "status"], json!({
            "itemId": text("What the request called it, or its place counted from zero."),
            "status": {"enum": any, "description": "How it ended; like its batch before."},
            "detail": text("What went wrong."),
            "retryable": {"type": "boolean", "description": "Whether another try of this item is worth it."},
            "processingStage": text("How far it had come."),
        })),
        "ItemsSummary": object("The items of a batch, in numbers.", &["total", "completed", "failed"], json!({
            "total": count("How many there are."),
            "completed": count("How many have ended well."),
            "failed": count("How many have not, as of the newest attempt that ended."),
        })),
    })
}

//! The body of a submission of a workflow, as API documents describe it.

use forgerun_core::limits::{NAME_BYTES_MAX, WORKFLOW_STEPS_MAX};
use serde_json::{Value, json};

use crate::request_body;

request_body! {
    /// A workflow: a chain, a group, a batch, or steps that name those they wait for.
    pub WORKFLOW = "WorkflowRequest" {
        /// Left out for steps with `depends_on`.
        "type": words(&["chain", "group", "batch"]),
        /// The client's own name of it.
        "name": maybe(short(NAME_BYTES_MAX)),
        /// Of a chain or a graph: job envelopes as of `/ojs/v1/jobs`, or nested workflows; in a graph with `id`, `depends_on` and
        /// `when`. `compensate` is the envelope of the job that undoes a step. With `work_kind` a step is simulated. A step with
        /// `workflow` is a workflow of its own. A step with `for_each` (`step`, `pointer`) is a job per element of a list in the
        /// result of a step, `parallel` at once; `"$item"` and `"$index"` in its `args` stand for the element and its position.
        /// Instead of a job a step may have `wait`: `{"for": "2h"}`, `{"until": TIME}` or
        /// `{"signal": NAME, "timeout": "2d", "schema"?}`.
        "steps": steps(),
        /// Of a group or a batch: the same.
        "jobs": steps(),
        /// Of a batch: what follows its end.
        "callbacks": maybe(json!({"type": "object", "properties": {
            "on_complete": object(), "on_success": object(), "on_failure": object(),
        }})),
        /// What the failure of a step means for those that do not wait for it; `continue` by default.
        "failure_policy": maybe(words(&["continue", "stop", "compensate"])),
        /// `failure_policy` may stand here, too.
        "options": maybe(object()),
        /// When the workflow fails, and what is left of it is cancelled: a duration from the submission
        /// like `30m`, or a time.
        "deadline": maybe(text()),
        /// Makes a repetition harmless.
        "idempotency_key": maybe(short(NAME_BYTES_MAX)),
        /// The client's own id of the request.
        "correlation_id": maybe(text()),
    }
    ; examples {
        "chain": {"value": {"type": "chain", "name": "order-4711", "steps": [
            {"type": "order.reserve", "args": [4711], "options": {"queue": "orders"}},
            {"type": "order.charge", "args": [4711], "options": {"queue": "orders"}},
        ]}},
        "batch": {"value": {
            "type": "batch", "jobs": [{"type": "mail.send"}, {"type": "mail.send"}],
            "callbacks": {"on_complete": {"type": "mail.report"}},
        }},
        "graph": {"value": {"failure_policy": "stop", "steps": [
            {"id": "reserve", "type": "order.reserve", "args": [4711]},
            {"id": "charge", "type": "order.charge", "args": [4711], "depends_on": ["reserve"]},
            {"id": "undo", "type": "order.undo", "depends_on": ["reserve", "charge"], "when": "any_failed"},
        ]}},
        "compensation": {"value": {"failure_policy": "compensate", "steps": [
            {"id": "reserve", "type": "order.reserve", "compensate": {"type": "order.release"}},
            {"id": "charge", "type": "order.charge", "depends_on": ["reserve"]},
        ]}},
        "for each": {"value": {"steps": [
            {"id": "list", "type": "images.list"},
            {"id": "resize", "type": "image.resize", "args": ["$item", 800], "parallel": 20,
             "for_each": {"step": "list", "pointer": "/images"}},
            {"id": "publish", "workflow": {"type": "chain", "steps": [{"type": "album.render"}, {"type": "album.upload"}]},
             "depends_on": ["resize"]},
        ]}},
        "approval": {"value": {"deadline": "7d", "steps": [
            {"id": "quote", "type": "order.quote", "args": [4711]},
            {"id": "approval", "wait": {"signal": "approved", "timeout": "2d"}, "depends_on": ["quote"]},
            {"id": "cool-off", "wait": {"for": "1h"}, "depends_on": ["approval"]},
            {"id": "ship", "type": "order.ship", "args": [4711], "depends_on": ["cool-off"]},
        ]}},
        "simulated": {"value": {
            "type": "group", "jobs": [{"work_kind": "SUCCESS_FAST"}, {"work_kind": "SUCCESS_FAST"}],
        }},
    }
}

/// The schema of a list of steps.
pub(super) fn steps() -> Value {
    json!({"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": WORKFLOW_STEPS_MAX})
}

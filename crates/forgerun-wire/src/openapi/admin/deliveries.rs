//! Deliveries to webhooks and callbacks of all clients.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::{OF_OPERATOR, change, cursor, get, page};
use crate::openapi::operation::Operation;
use crate::openapi::operations::{ANY, answer, limit, path_parameter, refusals};
use crate::openapi::webhooks::delivery;

/// All of them.
pub(in crate::openapi) fn all() -> Vec<Operation> {
    let list = || json!({"items": [delivery()], "next_cursor": null});
    let webhook = || path_parameter("webhook_id", "The webhook.");
    let job = || path_parameter("job_id", "The job.");
    let id = || path_parameter("delivery_id", "The delivery.");
    let again = || vec![answer(202, "On its way, or under way already.", "Delivery", delivery())];
    vec![
        Operation {
            parameters: vec![webhook(), limit(), cursor()],
            answers: vec![answer(200, "A page.", "AdminDeliveries", list())],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::WebhookNotFound]]),
            ..get(
                "/admin/v1/webhooks/{webhook_id}/deliveries",
                "adminListDeliveries",
                "What was sent to a webhook, newest first.",
            )
        },
        Operation {
            parameters: vec![webhook(), id()],
            answers: again(),
            ..change(
                "post",
                "/admin/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
                "adminRedeliver",
                "Sends a delivery again.",
                &[Kind::WebhookNotFound, Kind::DeliveryNotFound, Kind::IllegalTransition],
            )
        },
        Operation {
            parameters: vec![job(), limit(), cursor()],
            answers: vec![answer(200, "A page.", "AdminDeliveries", list())],
            refusals: refusals(&[ANY, OF_OPERATOR, &[Kind::JobNotFound]]),
            ..get(
                "/admin/v1/jobs/{job_id}/deliveries",
                "adminListDeliveriesOfJob",
                "What was sent about a job, newest first.",
            )
        },
        Operation {
            parameters: vec![job(), id()],
            answers: again(),
            ..change(
                "post",
                "/admin/v1/jobs/{job_id}/deliveries/{delivery_id}/redeliver",
                "adminRedeliverOfJob",
                "Sends a delivery about a job again.",
                &[Kind::JobNotFound, Kind::DeliveryNotFound, Kind::WebhookNotFound, Kind::IllegalTransition],
            )
        },
    ]
}

/// The bodies.
pub(super) fn schemas() -> Value {
    json!({"AdminDeliveries": page("Delivery", "A page of deliveries, newest first.")})
}

//! The audit log: one line for each action of the operator.

use crate::http::Exchange;

/// Logs an action of the operator, once it is durable. Refusals are logged like any other.
pub(super) fn note(exchange: &Exchange, action: &'static str, subject: &str) {
    tracing::info!(
        target: "forgerun::audit",
        request_id = exchange.request_id(),
        address = %exchange.address,
        action,
        subject,
        "operator action"
    );
}

//! One line in the log for each thing that the operator did: what, to what, from where, in which request.

use crate::edge::Exchange;

/// Notes that the operator has done something. Written once it is durable; what was refused is in the log as any refusal.
pub(super) fn note(exchange: &Exchange, action: &'static str, subject: &str) {
    tracing::info!(
        target: "forgerun::audit",
        request_id = exchange.request_id(),
        address = %exchange.address,
        action,
        subject,
        "the operator acted"
    );
}

//! Queue names in paths and messages.

use forgerun_core::catalog::Kind;
use forgerun_core::job::{BadQueueName, Name};
use forgerun_wire::problem::RefusedRequest;

use crate::http::ApiError;

/// Parses a queue name.
pub(crate) fn queue_name(text: &str) -> Result<Name, ApiError> {
    Name::queue(text).map_err(|why| {
        let kind = match why {
            BadQueueName::TooLong => Kind::QueueNameTooLong,
            BadQueueName::Form => Kind::InvalidQueue,
        };
        RefusedRequest::new(kind, format!("The name of a queue {}.", BadQueueName::RULE))
            .fact("field", "queue")
            .into()
    })
}

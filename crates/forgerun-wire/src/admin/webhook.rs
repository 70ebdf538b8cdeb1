//! Webhooks of all clients.

use forgerun_core::time::Time;
use forgerun_core::webhook::Webhook;
use serde::Serialize;

use crate::forge::WebhookView;

/// A webhook, and whose it is. Never its secret.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminWebhook {
    /// Whose.
    pub client: String,
    /// What people call that client.
    pub client_name: Option<String>,
    /// As its owner sees it.
    #[serde(flatten)]
    pub webhook: WebhookView,
}

impl AdminWebhook {
    /// The webhook at this moment.
    pub fn new(webhook: &Webhook, now: Time) -> AdminWebhook {
        let view = WebhookView::new(webhook, None, now);
        AdminWebhook { client: webhook.client.to_string(), client_name: None, webhook: view }
    }
}

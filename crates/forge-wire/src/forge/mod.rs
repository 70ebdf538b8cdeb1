//! The bodies of ForgeRun's own dialect, `/v1`.

mod batch;
mod client;
mod event;
mod job;
mod submit;
mod webhook;

pub use crate::error::{ErrorView, FailedAttemptView};
pub use batch::read_batch;
pub use client::{ClientView, KeyRequest, KeyView, RevokeRequest, RevokedView};
pub use event::{EntryView, EventView, EventsView, NoticeView};
pub use job::{
    CanceledView, DefinitionView, JobView, JobsView, ReportView, RetriedView, RetryRequest, SubmittedView,
};
pub use submit::{SubmitRequest, read_submit, refused};
pub use webhook::{
    AttemptView, DeletedView, DeliveriesView, DeliveryView, HealthView, RedeliverRequest, RedeliveredView,
    RequestView, RotateRequest, WebhookRequest, WebhookView, WebhooksView, event_names,
    parse_delivery_status, parse_event, read_webhook, read_webhook_change,
};

//! The bodies of ForgeRun's own dialect, `/v1`.

mod batch;
mod client;
mod delivery;
mod event;
mod job;
mod submit;
mod webhook;

pub use crate::error::{ErrorView, FailedAttemptView};
pub use batch::{BATCH_MEMBERS, read_batch};
pub use client::{ClientView, KeyRequest, KeyView, RevokeRequest, RevokedView};
pub use delivery::{
    AttemptView, DeliveriesView, DeliveryView, RedeliverRequest, RedeliveredView, RequestView,
    parse_delivery_status,
};
pub use event::{EntryView, EventView, EventsView, NoticeView};
pub use job::{
    CanceledView, DefinitionView, JobView, JobsView, ReportView, RetriedView, RetryRequest, SubmittedView,
};
pub use submit::{SUBMIT_MEMBERS, SubmitRequest, read_submit, refused};
pub use webhook::{
    DeletedView, HealthView, RotateRequest, WEBHOOK_MEMBERS, WebhookRequest, WebhookView, WebhooksView,
    event_names, parse_event, read_webhook, read_webhook_change,
};

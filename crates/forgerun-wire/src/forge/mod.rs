//! The bodies of ForgeRun's own dialect, `/v1`.

mod batch;
mod client;
mod delivery;
mod event;
mod job;
mod log;
mod schedule;
mod submit;
mod webhook;

pub use crate::error::{ErrorView, FailedAttemptView};
pub use batch::{BATCH, ITEM, read_batch};
pub use client::{
    ClientDetailView, ClientView, JOB_TOKEN, JobTokenView, KEY, KeyListView, KeyRequest, KeyView, RENEW,
    REVOKE, RevokeRequest, RevokedView, scope_words,
};
pub use delivery::{
    AttemptView, DeliveriesView, DeliveryView, RedeliveredView, RequestView, parse_delivery_status,
};
pub use event::{EntryView, EventView, EventsView, NoticeView};
pub use job::{
    CanceledView, DefinitionView, JobView, JobsView, PausedView, RETRY, ReportView, RetriedView,
    RetryRequest, ScheduledRunView, SignaledView, SubmittedView,
};
pub use log::{LogLineView, LogsView};
pub use schedule::{
    SCHEDULE, SCHEDULE_CHANGE, ScheduleRequest, ScheduleView, ScheduledJobView, SchedulesView,
    SkippedTickView, read_schedule,
};
pub use submit::{SUBMIT, SubmitRequest, read_submit, refused};
pub(crate) use webhook::DESCRIPTION_BYTES_MAX as WEBHOOK_DESCRIPTION_BYTES_MAX;
pub use webhook::{
    DeletedView, HealthView, WEBHOOK, WEBHOOK_CHANGE, WebhookRequest, WebhookView, WebhooksView, event_names,
    parse_event, read_webhook, read_webhook_change,
};

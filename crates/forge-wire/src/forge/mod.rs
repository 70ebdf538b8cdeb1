//! The bodies of ForgeRun's own dialect, `/v1`.

mod batch;
mod client;
mod event;
mod job;
mod submit;

pub use crate::error::ErrorView;
pub use batch::read_batch;
pub use client::{ClientView, KeyRequest, KeyView, RevokeRequest, RevokedView};
pub use event::{EventView, EventsView};
pub use job::{
    CanceledView, DefinitionView, ItemsSummary, JobView, JobsView, ReportView, RetriedView, SubmittedView,
};
pub use submit::{SubmitRequest, read_submit, refused};

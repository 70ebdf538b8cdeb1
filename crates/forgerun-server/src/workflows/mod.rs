//! Workflows, for all dialects: begin, read, and pass results from step to step.

mod begin;
mod parents;
mod read;
mod signals;

pub use begin::{BeginError, StartedWorkflow, begin};
pub use parents::parents_of;
pub use read::{failure, is_workflow, list, read, step_index};
pub use signals::{AskedSignal, asked, send_by_token, send_named, signals_at};

//! Workflows, for all dialects: begin, read, and pass results from step to step.

mod add;
mod begin;
mod parents;
mod read;
mod results;
mod signals;

pub use add::add_steps;
pub use begin::{BeginError, StartedWorkflow, begin};
pub use parents::parents_of;
pub use read::{failure, is_workflow, list, read, step_index};
pub use results::results;
pub use signals::{AskedSignal, asked, send_by_token, send_named, send_to_handler, signals_at};

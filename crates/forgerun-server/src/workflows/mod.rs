//! Workflows, for all dialects: begin, read, and pass results from step to step.

mod add;
mod begin;
mod parents;
mod read;
mod results;

pub use add::add_steps;
pub use begin::{BeginError, StartedWorkflow, begin};
pub use parents::parents_of;
pub use read::{failure, is_workflow, list, read, step_index};
pub use results::results;

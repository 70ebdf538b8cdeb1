//! Workflows, whichever dialect they come by: begun, read with their steps, and what steps hand on
//! to those behind them.

mod begin;
mod parents;
mod read;

pub use begin::{BeginError, StartedWorkflow, begin};
pub use parents::parents_of;
pub use read::{failure, is_workflow, list, read, step_index};

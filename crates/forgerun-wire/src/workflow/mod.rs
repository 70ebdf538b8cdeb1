//! Workflows as they are described and shown.
//!
//! | file | what it has |
//! |---|---|
//! | `read.rs` | a description: chain, group, batch, nested in each other, or steps that name those they wait for |
//! | `wait.rs` | waiting steps |
//! | `rows.rs` | what is known of a workflow, as every dialect shows it |
//! | `view.rs` | the words of `/v1` and `/admin/v1`; those of OJS are in [`crate::ojs::workflow`] |

mod read;
mod rows;
mod view;
mod wait;

pub use read::{
    ADDED_STEPS, AddedSteps, ForEachRequest, StepBody, StepRequest, WORKFLOW, WorkflowRequest, read,
    read_added,
};
pub use rows::{StepRows, WorkflowRows, step_word};
pub use view::{
    AdminWorkflow, AdminWorkflowDetail, CompensationView, EdgeView, ElementCounts, StepResultView,
    StepResultsView, StepView, WorkflowSummary, WorkflowView, WorkflowsView, ended_word, form_word,
};
pub use wait::{SIGNAL, SIGNAL_NAME, SignalView, WaitRequest, WaitView};

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

pub use read::{StepRequest, StepWork, WORKFLOW, WorkflowRequest, read};
pub use rows::{StepRows, WorkflowRows, step_word};
pub use view::{
    AdminWorkflow, AdminWorkflowDetail, CompensationView, EdgeView, StepView, WorkflowSummary, WorkflowView,
    WorkflowsView,
};
pub use wait::{SIGNAL, SignalView, WaitRequest, WaitView};

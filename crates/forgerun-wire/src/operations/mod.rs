//! The bodies of the async-operations dialect, `/api/v1`.

mod batch;
mod report;
mod status;
mod submit;

pub use batch::{BATCH, read_batch};
pub use report::report;
pub use status::{
    AcceptedView, ResultNoteView, RetriedExecution, StatusContext, StatusView, live_status, result_path,
    status_path,
};
pub use submit::{CANCEL, CancelRequest, SUBMIT, SubmitRequest, read_cancel, read_submit, refused};

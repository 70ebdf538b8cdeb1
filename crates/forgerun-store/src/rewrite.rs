//! Contents in another form, for rows that are otherwise never updated.

use forgerun_core::id::{BlobId, ExecutionId, JobId};
use forgerun_core::job::Input;
use forgerun_core::rows::Object;
use forgerun_core::time::Time;

/// A content that takes the place of the one a row has. It means the same; a row that is gone stays gone.
#[derive(Clone, Debug)]
pub enum Rewrite {
    Input(JobId, Input),
    Outcome(ExecutionId, Object),
    /// A small result.
    Result(ExecutionId, Vec<u8>),
    /// A large result: another blob has it. The old one is loose from `at` on; nothing happens if the result has another blob by now.
    Blob {
        execution: ExecutionId,
        old: BlobId,
        new: BlobId,
        at: Time,
    },
    Log {
        job: JobId,
        /// Number of the last line of the chunk.
        last: u64,
        content: Vec<u8>,
    },
}

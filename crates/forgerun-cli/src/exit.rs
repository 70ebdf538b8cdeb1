//! Exit codes. Scripts rely on the numbers; never change one.

use std::process::{ExitCode, Termination};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success; also a server that was stopped on request.
    Done = 0,
    Failure = 1,
    /// The command line or the configuration is wrong. Nothing was started.
    Usage = 2,
    /// The job failed.
    JobFailed = 3,
    /// The job did not end in time.
    TimedOut = 4,
    /// The server refuses the key.
    NotAuthorised = 5,
    /// The server cannot be reached.
    Unreachable = 6,
}

impl Exit {
    pub const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Failure,
        Exit::Usage,
        Exit::JobFailed,
        Exit::TimedOut,
        Exit::NotAuthorised,
        Exit::Unreachable,
    ];
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

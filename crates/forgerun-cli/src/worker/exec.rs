//! One job, one process.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use forgerun_client::worker::{ClaimedJob, Context, Failure, Handler, Output};

use super::child::{Child, Ended};
use super::files::JobFiles;

/// Exit codes of `sysexits.h`: temporary failure, and bad input.
const TEMPFAIL: i32 = 75;
const DATAERR: i32 = 65;

/// Starts a program for each job.
#[derive(Clone, Debug)]
pub(super) struct Exec {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) grace: Duration,
    pub(super) result_type: Option<String>,
    /// Whether standard error is forwarded to ours.
    pub(super) pass_on: bool,
    /// Whether standard error goes to the log of the job.
    pub(super) logs: bool,
    /// Whether standard output goes there too, as stream `output`.
    pub(super) stream: bool,
}

impl Handler for Exec {
    fn run(
        &self,
        job: ClaimedJob,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>> {
        let exec = self.clone();
        Box::pin(async move { exec.work(&job, &context).await })
    }
}

impl Exec {
    async fn work(&self, job: &ClaimedJob, context: &Context) -> Result<Output, Failure> {
        let not_started =
            |error| Failure::new(format!("could not start {}: {error}", self.program.display())).retry();
        let parents = context.parents().await?;
        let files = JobFiles::create(&parents).map_err(not_started)?;
        let child = Child::start(self, job, &files).map_err(not_started)?;
        let Ended { code, signal, message, output } = child.wait(self, job, context).await;
        let spool = output?;
        if code == Some(0) {
            let written = files.written_type()?;
            return Ok(spool.finish(written.or_else(|| self.result_type.clone()).as_deref()).await?);
        }
        Err(failed(code, signal, message))
    }
}

fn failed(code: Option<i32>, signal: Option<i32>, message: String) -> Failure {
    let how = match (code, signal) {
        (Some(code), _) => format!("the program ended with exit code {code}"),
        (None, Some(signal)) => format!("the program was ended by signal {signal}"),
        (None, None) => "the program ended in an unknown way".to_owned(),
    };
    let failure = Failure::new(if message.is_empty() { how } else { message });
    match (code, signal) {
        (Some(code), _) => {
            let failure = failure.class(format!("exit.{code}")).detail("exit_code", code);
            match code {
                TEMPFAIL => failure.retry(),
                DATAERR => failure.never_again(),
                _ => failure,
            }
        }
        (None, Some(signal)) => failure.class(format!("signal.{signal}")).detail("signal", signal),
        (None, None) => failure,
    }
}

#[cfg(test)]
mod tests {
    use forgerun_client::worker::RetryAdvice;

    use super::*;

    #[test]
    fn the_exit_code_decides_whether_the_job_is_tried_again() {
        for (code, retry) in [
            (75, RetryAdvice::Retry),
            (65, RetryAdvice::Never),
            (1, RetryAdvice::Policy),
            (255, RetryAdvice::Policy),
        ] {
            let failure = failed(Some(code), None, String::new());
            assert_eq!((failure.retry, failure.details["exit_code"].as_i64()), (retry, Some(code.into())));
            assert_eq!(failure.message, format!("the program ended with exit code {code}"));
        }
        let killed = failed(None, Some(9), "last words".into());
        assert_eq!((killed.retry, killed.message.as_str()), (RetryAdvice::Policy, "last words"));
    }
}

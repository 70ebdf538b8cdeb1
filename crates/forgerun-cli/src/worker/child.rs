//! The process of a job: process group, pipes, and end.
//!
//! - Input is written while output is read, so neither side blocks the other; a program may ignore
//!   its input.
//! - Standard output goes to a bounded spool, standard error is read line by line: output cannot
//!   fill the memory.
//! - The rest of its process group is killed when the program ends, and pipes held open by
//!   processes outside of the group are abandoned.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use forgerun_client::worker::{Canceled, ClaimedJob, Context, Failure, Spool, SpoolError};
use forgerun_client::{Clock, SystemClock, limits};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::JOB_VARIABLES;
use super::exec::Exec;
use super::files::JobFiles;
use super::lines::{Lines, Progress};
use super::logged::LoggedLines;

/// How long the pipes may stay open after the end: for processes that the program started.
const PIPE_GRACE: Duration = Duration::from_secs(1);

/// Bytes that are read at once.
const READ_BYTES: usize = 32 * 1024;

pub(super) struct Child {
    process: tokio::process::Child,
    group: Group,
}

pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// The last lines of standard error.
    pub(super) message: String,
    /// Its output; or why it was stopped, or why its output is invalid.
    pub(super) output: Result<Spool, Failure>,
}

/// Kills the group on drop: no job leaves processes behind.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may have ended already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Child {
    pub(super) fn start(exec: &Exec, job: &ClaimedJob, files: &JobFiles) -> io::Result<Child> {
        let mut command = Command::new(&exec.program);
        command.args(&exec.arguments).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for variable in env::vars_os().map(|(name, _)| name).filter(|name| is_kept_back(name)) {
            command.env_remove(variable);
        }
        let [id, job_type, queue, attempt, trace, parents, result_type] = JOB_VARIABLES;
        command.env(id, &job.id).env(job_type, &job.job_type);
        command.env(queue, &job.queue).env(attempt, job.attempt.to_string());
        match job.traceparent() {
            Some(traceparent) => command.env(trace, traceparent),
            None => command.env_remove(trace),
        };
        match &files.parents {
            Some(file) => command.env(parents, file),
            None => command.env_remove(parents),
        };
        command.env(result_type, &files.result_type);
        let process = command.spawn()?;
        let group = Group(process.id().and_then(|id| Pid::from_raw(id as i32)));
        Ok(Child { process, group })
    }

    /// Waits for the end, or stops the program.
    pub(super) async fn wait(mut self, exec: &Exec, job: &ClaimedJob, context: &Context) -> Ended {
        let stdin = self.process.stdin.take().map(|pipe| tokio::spawn(write(pipe, job.input().to_owned())));
        let (too_much, mut overflow) = watch::channel(false);
        let (enough, stop_reading) = watch::channel(false);
        let errors = exec.logs.then(|| LoggedLines::new(context, "stderr"));
        let output = exec.stream.then(|| LoggedLines::new(context, "output"));
        let stdout = self.process.stdout.take();
        let stdout =
            stdout.map(|pipe| tokio::spawn(read_output(pipe, too_much, stop_reading.clone(), output)));
        let (progress, news) = watch::channel(None);
        let stderr = self
            .process
            .stderr
            .take()
            .map(|pipe| tokio::spawn(read_errors(pipe, progress, exec.pass_on, stop_reading, errors)));
        let telling = tokio::spawn(report_progress(news, context.clone()));

        let limit = async {
            match job.timeout_ms {
                Some(ms) => SystemClock.sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let overflowed = async {
            if overflow.wait_for(|much| *much).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let (status, stopped) = tokio::select! {
            status = self.process.wait() => (status, None),
            reason = context.canceled() => (self.stop(exec.grace).await, Some(canceled(reason))),
            () = limit => {
                let failure = Failure::new("the program took longer than the job allows");
                let failure = Failure { code: "timeout".to_owned(), ..failure };
                (self.stop(exec.grace).await, Some(failure))
            }
            () = overflowed => (self.stop(exec.grace).await, None),
        };
        let Child { group, .. } = &self;
        let unread = || Failure::new("the output of the program could not be read").retry();
        let output = collect(stdout, group, &enough).await.unwrap_or_else(|| Err(unread()));
        let lines = collect(stderr, group, &enough).await.unwrap_or_default();
        // The rest of the group is killed with the job.
        group.signal(Signal::KILL);
        if let Some(writer) = stdin {
            writer.abort();
        }
        telling.abort();
        // The reason is what stopped it, or the output error; not the resulting signal.
        let output = match stopped {
            Some(failure) => Err(failure),
            None => output,
        };
        let (code, signal) = match &status {
            Ok(status) => ends(*status),
            Err(_) => (None, None),
        };
        Ended { code, signal, message: lines.message(), output }
    }

    /// SIGTERM to the group, and SIGKILL to the rest after the grace.
    async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.group.signal(Signal::TERM);
        if let Ok(status) = timeout(grace, self.process.wait()).await {
            return status;
        }
        self.group.signal(Signal::KILL);
        self.process.wait().await
    }
}

/// Whether a variable is withheld from the program: credentials of the worker, and the
/// configuration of a server.
fn is_kept_back(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_credential =
        ["FORGERUN_API_KEY", "FORGERUN_ADMIN_TOKEN", "FORGERUN_WORKER_SECRET"].contains(&&*name);
    is_credential || name.strip_prefix("FORGERUN_").is_some_and(|rest| rest.contains("__"))
}

fn ends(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

fn canceled(reason: Canceled) -> Failure {
    Failure::new(match reason {
        Canceled::ByServer => "the job was cancelled",
        Canceled::ByStop => "the worker stopped before the program had ended",
    })
}

fn too_large() -> Failure {
    let text = format!("the program printed more than {} bytes", limits::OUTPUT_BYTES_MAX);
    Failure::new(text).never_again().class("output.too_large")
}

/// The result of a reader, once its pipe is closed. Processes that keep it open are killed; if one
/// outside of the group still does, the bytes so far are used.
async fn collect<T>(reader: Option<JoinHandle<T>>, group: &Group, enough: &watch::Sender<bool>) -> Option<T> {
    let mut reader = reader?;
    for _ in 0..2 {
        if let Ok(read) = timeout(PIPE_GRACE, &mut reader).await {
            return read.ok();
        }
        group.signal(Signal::KILL);
    }
    enough.send_replace(true);
    reader.await.ok()
}

/// The next bytes of a pipe; 0 at its end, and after `enough`.
async fn read(
    pipe: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
    enough: &mut watch::Receiver<bool>,
) -> usize {
    tokio::select! {
        biased;
        read = pipe.read(buffer) => read.unwrap_or(0),
        _ = enough.wait_for(|enough| *enough) => 0,
    }
}

async fn write(mut pipe: ChildStdin, input: String) {
    // A program that does not want its input closes the pipe.
    let _ = pipe.write_all(input.as_bytes()).await;
    let _ = pipe.shutdown().await;
}

async fn read_output(
    mut pipe: ChildStdout,
    too_much: watch::Sender<bool>,
    mut enough: watch::Receiver<bool>,
    mut logged: Option<LoggedLines>,
) -> Result<Spool, Failure> {
    let mut spool = Spool::new(limits::OUTPUT_BYTES_MAX);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let n = read(&mut pipe, &mut buffer, &mut enough).await;
        if n == 0 {
            return Ok(spool);
        }
        if let Some(logged) = &mut logged {
            logged.take(&buffer[..n]);
        }
        let failure = match spool.write(&buffer[..n]).await {
            Ok(()) => continue,
            Err(SpoolError::TooLarge) => too_large(),
            Err(SpoolError::Disk(error)) => {
                Failure::new(format!("could not keep the output: {error}")).retry()
            }
        };
        too_much.send_replace(true);
        return Err(failure);
    }
}

async fn read_errors(
    mut pipe: ChildStderr,
    progress: watch::Sender<Option<Progress>>,
    pass_on: bool,
    mut enough: watch::Receiver<bool>,
    mut logged: Option<LoggedLines>,
) -> Lines {
    let mut lines = Lines::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut ours = tokio::io::stderr();
    loop {
        let n = read(&mut pipe, &mut buffer, &mut enough).await;
        if n == 0 {
            return lines;
        }
        if pass_on {
            let _ = ours.write_all(&buffer[..n]).await;
            let _ = ours.flush().await;
        }
        if let Some(logged) = &mut logged {
            logged.take(&buffer[..n]);
        }
        if let Some(newest) = lines.take(&buffer[..n]) {
            progress.send_replace(Some(newest));
        }
    }
}

/// Reports progress, always the newest: one call at a time, however fast the program counts.
async fn report_progress(mut news: watch::Receiver<Option<Progress>>, context: Context) {
    while news.changed().await.is_ok() {
        let newest = news.borrow_and_update().clone();
        if let Some(Progress { percent, text }) = newest {
            // Lost progress is no reason to fail.
            let _ = context.progress(percent, text.as_deref()).await;
        }
    }
}

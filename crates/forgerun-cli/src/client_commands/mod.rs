//! The commands that call a running server, based on `forgerun-client`.
//!
//! Standard output carries the result and nothing else; progress, hints and errors go to standard
//! error. Tables, colours and progress need a terminal. The form of `--json` is stable; an error is
//! then one problem object on standard error, and nothing else is printed there.

mod admin;
mod connection;
mod duration;
mod failure;
mod failures;
mod flags;
mod follow;
mod health;
mod ids;
mod jobs;
mod logs;
mod queues;
mod schedules;
mod screen;
mod submit;
mod table;
mod watch;
mod workflows;

use forgerun_client::Error;
use forgerun_problem::{Job, Problem, ProblemBuilder};
use serde_json::Value;
use tokio::runtime::Builder;

pub use connection::Connection;
pub(crate) use connection::{ServerConnection, TlsFlags, given};
pub(crate) use duration::parse as parse_duration;
pub use flags::ClientCommand;
use flags::{Keys, QueueCommand};

use crate::Exit;
use crate::terminal::{complain, errors_are_json, problem_of, say, say_problem};

pub fn run(command: &ClientCommand) -> Exit {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    runtime.block_on(dispatch(command)).unwrap_or_else(|error| error.print())
}

async fn dispatch(command: &ClientCommand) -> Result<Exit, CommandError> {
    let done = match command {
        ClientCommand::Submit(flags) => submit::submit(flags).await,
        ClientCommand::Get(flags) => jobs::get(flags).await,
        ClientCommand::List(flags) => jobs::list(flags).await,
        ClientCommand::Wait(flags) => follow::wait(flags).await,
        ClientCommand::Watch(flags) => watch::watch(flags).await,
        ClientCommand::Logs(flags) => logs::logs(flags).await,
        ClientCommand::Cancel(flags) => jobs::cancel(flags).await,
        ClientCommand::Retry(flags) => jobs::retry(flags).await,
        ClientCommand::Pause(flags) => jobs::set_paused(flags, true).await,
        ClientCommand::Resume(flags) => jobs::set_paused(flags, false).await,
        ClientCommand::Signal(flags) => jobs::signal(flags).await,
        ClientCommand::Report(flags) => jobs::report(flags).await,
        ClientCommand::Result(flags) => jobs::result(flags).await,
        ClientCommand::Queues(flags) => queues::queues(flags).await,
        ClientCommand::Schedules(flags) => schedules::schedules(flags).await,
        ClientCommand::Workers(flags) => queues::workers(flags).await,
        ClientCommand::Clients(flags) => admin::clients(flags).await,
        ClientCommand::Failures(flags) => failures::failures(flags).await,
        ClientCommand::Redrive(flags) => failures::redrive(flags).await,
        ClientCommand::Workflows(flags) => workflows::workflows(flags).await,
        ClientCommand::Keys(command) => admin::keys(command).await,
        ClientCommand::Health(flags) => health::health(flags).await,
    };
    match is_for_operator(command) {
        true => done.map_err(CommandError::of_operator),
        false => done,
    }
}

/// Whether a command calls with the operator's token.
fn is_for_operator(command: &ClientCommand) -> bool {
    match command {
        ClientCommand::Failures(_) | ClientCommand::Redrive(_) | ClientCommand::Clients(_) => true,
        ClientCommand::Keys(command) => match command {
            Keys::Issue(_) | Keys::List(_) | Keys::Revoke(_) => true,
            Keys::Renew(_) => false,
        },
        ClientCommand::Queues(flags) => match &flags.command {
            None => flags.connection.is_operator(),
            Some(QueueCommand::Pause(named) | QueueCommand::Resume(named)) => named.connection.is_operator(),
        },
        ClientCommand::Schedules(flags) => flags.command.is_none() && flags.connection.is_operator(),
        ClientCommand::Workers(flags) => flags.connection.is_operator(),
        ClientCommand::Submit(_)
        | ClientCommand::Get(_)
        | ClientCommand::List(_)
        | ClientCommand::Wait(_)
        | ClientCommand::Watch(_)
        | ClientCommand::Logs(_)
        | ClientCommand::Cancel(_)
        | ClientCommand::Retry(_)
        | ClientCommand::Pause(_)
        | ClientCommand::Resume(_)
        | ClientCommand::Report(_)
        | ClientCommand::Result(_)
        | ClientCommand::Workflows(_)
        | ClientCommand::Signal(_)
        | ClientCommand::Health(_) => false,
    }
}

/// Why a command failed.
#[derive(Debug)]
pub enum CommandError {
    Call(Error),
    Usage(String),
    /// Standard output cannot be written.
    Output(std::io::Error),
    /// The operator's token is missing or wrong.
    NotOperator(Error),
    /// Refused, with a message that is more specific than the server's.
    Refused(String),
    /// Several jobs have an id with this end.
    Ambiguous {
        /// The given end of an id.
        end: String,
        candidates: Vec<String>,
    },
}

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        CommandError::Call(error)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> CommandError {
        CommandError::Output(error)
    }
}

impl CommandError {
    /// The error of a call that needs the operator's token.
    fn of_operator(self) -> CommandError {
        match self {
            CommandError::Call(error @ Error::Auth(_)) => CommandError::NotOperator(error),
            other => other,
        }
    }

    /// Prints the error, as text or JSON.
    pub fn print(&self) -> Exit {
        // A reader that closes the pipe (`forgerun list | head`) is no error.
        if matches!(self, CommandError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe) {
            return Exit::Done;
        }
        if errors_are_json() {
            return say_problem(self.problem(), self.exit());
        }
        match self {
            CommandError::Usage(text) => say(text, Exit::Usage),
            CommandError::Output(error) => say(&unwritten(error), Exit::Failure),
            CommandError::Refused(text) => say(text, Exit::Failure),
            CommandError::Ambiguous { end, candidates } => {
                let ids: String = candidates.iter().map(|id| format!("\n  {id}")).collect();
                say(&format!("{}{ids}", ambiguous(end)), Exit::Usage)
            }
            CommandError::Call(error) => print_error(error, hint(error)),
            CommandError::NotOperator(error) => print_error(
                error,
                "\n  --admin-token or FORGERUN_ADMIN_TOKEN names the operator's token, `auth.admin_token` of the server.",
            ),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            CommandError::Usage(_) | CommandError::Ambiguous { .. } => Exit::Usage,
            CommandError::Output(_) | CommandError::Refused(_) => Exit::Failure,
            CommandError::Call(error) | CommandError::NotOperator(error) => exit_of(error),
        }
    }

    /// The problem object: the server's own, if it sent one.
    fn problem(&self) -> ProblemBuilder {
        let local = problem_of(self.exit());
        match self {
            CommandError::Usage(text) => local.detail(text),
            CommandError::Ambiguous { end, candidates } => {
                local.detail(ambiguous(end)).extension("candidates", candidates.clone())
            }
            CommandError::Output(error) => local.detail(unwritten(error)),
            CommandError::Refused(text) => {
                Problem::builder("urn:forgerun:cli:not-found").title("Not Found").status(404).detail(text)
            }
            CommandError::Call(error) | CommandError::NotOperator(error) => problem_about(error, local),
        }
    }
}

fn problem_about(error: &Error, local: ProblemBuilder) -> ProblemBuilder {
    let Some(said) = error.api() else {
        let advice = Job::builder().retryable(error.is_retryable());
        let problem = local.detail(error.to_string()).job(advice);
        return match error {
            Error::TimedOut { job_id, .. } => problem.extension("job_id", job_id.as_str()),
            _ => problem,
        };
    };
    if said.problem != Problem::default() {
        return said.problem.clone().into_builder();
    }
    let problem = Problem::untyped().detail(&said.message).extension("code", said.code.as_str());
    let problem = problem.extension("details", Value::Object(said.details.clone()));
    match said.status {
        Some(status) => problem.status(status),
        None => problem,
    }
}

fn unwritten(error: &std::io::Error) -> String {
    format!("could not write the output: {error}")
}

fn ambiguous(end: &str) -> String {
    format!("several jobs have an id that ends with {end:?}; give more of it")
}

fn hint(error: &Error) -> &'static str {
    match error {
        Error::Unreachable(away) if away.other_scheme.is_some() => "",
        Error::Unreachable(_) => "\n  Is the server running there? --url or FORGERUN_URL says where it is.",
        Error::Auth(_) => {
            "\n  --key or FORGERUN_API_KEY names the API key; `forgerun keys issue CLIENT_ID` makes one."
        }
        _ => "",
    }
}

fn print_error(error: &Error, hint: &str) -> Exit {
    let exit = exit_of(error);
    let request = error.api().and_then(|said| said.request_id.as_deref());
    let request = request.map(|id| format!("\n  Request {id}")).unwrap_or_default();
    say(&format!("{error}{hint}{request}"), exit)
}

pub fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Auth(_) => Exit::NotAuthorised,
        Error::Unreachable(_) => Exit::Unreachable,
        Error::TimedOut { .. } => Exit::TimedOut,
        Error::Usage(_) => Exit::Usage,
        _ => Exit::Failure,
    }
}

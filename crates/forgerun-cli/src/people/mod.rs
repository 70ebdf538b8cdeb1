//! The commands for people: whatever asks a running server something, on `forgerun-client`.
//!
//! Standard output carries what was asked for and nothing else; progress, hints and complaints go to standard error. Tables,
//! colours and progress need a terminal. `--json` is for programs and does not change its shape; an error is then one problem
//! object on standard error, and nothing else is printed there.

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
pub(crate) use connection::{ServerConnection, given};
pub(crate) use duration::parse as parse_duration;
pub use flags::People;
use flags::{Keys, QueueCommand};

use crate::Exit;
use crate::terminal::{complain, errors_are_json, problem_of, say, say_problem};

/// Does what was asked.
pub fn run(command: &People) -> Exit {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    runtime.block_on(dispatch(command)).unwrap_or_else(|trouble| trouble.tell())
}

async fn dispatch(command: &People) -> Result<Exit, Trouble> {
    let done = match command {
        People::Submit(flags) => submit::submit(flags).await,
        People::Get(flags) => jobs::get(flags).await,
        People::List(flags) => jobs::list(flags).await,
        People::Wait(flags) => follow::wait(flags).await,
        People::Watch(flags) => watch::watch(flags).await,
        People::Cancel(flags) => jobs::cancel(flags).await,
        People::Retry(flags) => jobs::retry(flags).await,
        People::Report(flags) => jobs::report(flags).await,
        People::Result(flags) => jobs::result(flags).await,
        People::Queues(flags) => queues::queues(flags).await,
        People::Schedules(flags) => schedules::schedules(flags).await,
        People::Workers(flags) => queues::workers(flags).await,
        People::Clients(flags) => admin::clients(flags).await,
        People::Failures(flags) => failures::failures(flags).await,
        People::Redrive(flags) => failures::redrive(flags).await,
        People::Workflows(flags) => workflows::workflows(flags).await,
        People::Keys(command) => admin::keys(command).await,
        People::Health(flags) => health::health(flags).await,
    };
    match is_for_operator(command) {
        true => done.map_err(Trouble::of_operator),
        false => done,
    }
}

/// Whether a command calls with the operator's token.
fn is_for_operator(command: &People) -> bool {
    match command {
        People::Failures(_) | People::Redrive(_) | People::Clients(_) => true,
        People::Keys(command) => match command {
            Keys::Issue(_) | Keys::Revoke(_) => true,
            Keys::Renew(_) => false,
        },
        People::Queues(flags) => match &flags.command {
            None => flags.connection.is_operator(),
            Some(QueueCommand::Pause(named) | QueueCommand::Resume(named)) => named.connection.is_operator(),
        },
        People::Schedules(flags) => flags.command.is_none() && flags.connection.is_operator(),
        People::Workers(flags) => flags.connection.is_operator(),
        People::Submit(_)
        | People::Get(_)
        | People::List(_)
        | People::Wait(_)
        | People::Watch(_)
        | People::Cancel(_)
        | People::Retry(_)
        | People::Report(_)
        | People::Result(_)
        | People::Workflows(_)
        | People::Health(_) => false,
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub enum Trouble {
    /// A call failed.
    Call(Error),
    /// The command line is wrong.
    Usage(String),
    /// Standard output does not take more.
    Output(std::io::Error),
    /// The operator's token is missing, or is not the server's.
    NotOperator(Error),
    /// The server refused, and we know better than it what is wrong: there is no such thing.
    Refused(String),
    /// Several jobs have an id that ends like this.
    Ambiguous {
        /// What was given as the end of an id.
        end: String,
        /// The ids, as far as the server lists them.
        candidates: Vec<String>,
    },
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Call(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Output(error)
    }
}

impl Trouble {
    /// The same about a call that needs the operator's token.
    fn of_operator(self) -> Trouble {
        match self {
            Trouble::Call(error @ Error::Auth(_)) => Trouble::NotOperator(error),
            other => other,
        }
    }

    /// Prints why, for people or for programs.
    pub fn tell(&self) -> Exit {
        // A reader that has had enough (`forgerun list | head`) is no error.
        if matches!(self, Trouble::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe) {
            return Exit::Done;
        }
        if errors_are_json() {
            return say_problem(self.problem(), self.exit());
        }
        match self {
            Trouble::Usage(text) => say(text, Exit::Usage),
            Trouble::Output(error) => say(&unwritten(error), Exit::Failure),
            Trouble::Refused(text) => say(text, Exit::Failure),
            Trouble::Ambiguous { end, candidates } => {
                let ids: String = candidates.iter().map(|id| format!("\n  {id}")).collect();
                say(&format!("{}{ids}", ambiguous(end)), Exit::Usage)
            }
            Trouble::Call(error) => tell(error, hint(error)),
            Trouble::NotOperator(error) => tell(
                error,
                "\n  --admin-token or FORGERUN_ADMIN_TOKEN names the operator's token, `auth.admin_token` of the server.",
            ),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Trouble::Usage(_) | Trouble::Ambiguous { .. } => Exit::Usage,
            Trouble::Output(_) | Trouble::Refused(_) => Exit::Failure,
            Trouble::Call(error) | Trouble::NotOperator(error) => exit_of(error),
        }
    }

    /// The problem object: the server's own where it sent one.
    fn problem(&self) -> ProblemBuilder {
        let local = problem_of(self.exit());
        match self {
            Trouble::Usage(text) => local.detail(text),
            Trouble::Ambiguous { end, candidates } => {
                local.detail(ambiguous(end)).extension("candidates", candidates.clone())
            }
            Trouble::Output(error) => local.detail(unwritten(error)),
            Trouble::Refused(text) => {
                Problem::builder("urn:forgerun:cli:not-found").title("Not Found").status(404).detail(text)
            }
            Trouble::Call(error) | Trouble::NotOperator(error) => problem_about(error, local),
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

/// What to try.
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

fn tell(error: &Error, hint: &str) -> Exit {
    let exit = exit_of(error);
    let request = error.api().and_then(|said| said.request_id.as_deref());
    let request = request.map(|id| format!("\n  Request {id}")).unwrap_or_default();
    say(&format!("{error}{hint}{request}"), exit)
}

/// The exit code of a call that failed.
pub fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Auth(_) => Exit::NotAuthorised,
        Error::Unreachable(_) => Exit::Unreachable,
        Error::TimedOut { .. } => Exit::TimedOut,
        Error::Usage(_) => Exit::Usage,
        _ => Exit::Failure,
    }
}

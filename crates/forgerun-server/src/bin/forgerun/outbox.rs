//! `forgerun outbox`: the outbox in an application's PostgreSQL, and its forwarder.

use clap::{Args, Subcommand};
use forgerun_cli::Exit;
use forgerun_cli::client_commands::{Connection, exit_of};
use forgerun_cli::terminal::{complain, print, say};
use forgerun_outbox::{Error, Fault, Forwarder, OutboxDatabase, OutboxStatus, SCHEMA};
use forgerun_server::config::CommandMode;
use forgerun_server::telemetry;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::load;

const INSTALLED: &str = "\
the outbox is installed in schema forgerun; roles:
  GRANT forgerun_app TO …        the application: may call forgerun.submit
  GRANT forgerun_forwarder TO …  the user of `forgerun outbox run`
";

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Create schema `forgerun` in the application's database, or upgrade it
    Install(SourceFlags),
    /// Send what the application commits to a server, until stopped
    Run(RunFlags),
    /// Print how many jobs wait, for how long, and which were refused
    Status(StatusFlags),
    /// Print the schema as SQL, for migrations of your own; it can be applied again
    Sql,
}

#[derive(Debug, Args)]
pub(crate) struct SourceFlags {
    /// The application's database, postgres://user:password@host/name [env: FORGERUN_OUTBOX_SOURCE]
    #[arg(long, value_name = "URL")]
    source: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    source: SourceFlags,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

impl SourceFlags {
    fn outbox(&self) -> Result<OutboxDatabase, Exit> {
        let variable = || std::env::var("FORGERUN_OUTBOX_SOURCE").ok();
        let source = self.source.clone().or_else(variable).filter(|source| !source.is_empty());
        let missing = "--source or FORGERUN_OUTBOX_SOURCE must name the application's database";
        let source = source.ok_or_else(|| say(missing, Exit::Usage))?;
        OutboxDatabase::at(&source).map_err(|error| complain(&error, Exit::Usage))
    }
}

pub(crate) fn outbox(command: &OutboxCommand) -> Exit {
    let ended = match command {
        OutboxCommand::Install(source) => install(source),
        OutboxCommand::Run(flags) => run(flags),
        OutboxCommand::Status(flags) => status(flags),
        OutboxCommand::Sql => Ok(print(SCHEMA, Exit::Done)),
    };
    ended.unwrap_or_else(|exit| exit)
}

fn runtime() -> Result<Runtime, Exit> {
    Runtime::new().map_err(|error| complain(&error, Exit::Failure))
}

fn failed(error: Error) -> Exit {
    let away = matches!(error.fault, Fault::Unavailable | Fault::Timeout);
    complain(&error, if away { Exit::Unreachable } else { Exit::Failure })
}

fn install(source: &SourceFlags) -> Result<Exit, Exit> {
    let outbox = source.outbox()?;
    runtime()?.block_on(outbox.install()).map_err(failed)?;
    Ok(print(INSTALLED, Exit::Done))
}

fn run(flags: &RunFlags) -> Result<Exit, Exit> {
    let outbox = flags.source.outbox()?;
    let client = flags.connection.forwarder().map_err(|error| say(&error.to_string(), exit_of(&error)))?;
    let config = load(Vec::new(), &None, CommandMode::Serve);
    let config = config.map_err(|invalid| complain(&invalid, Exit::Usage))?;
    telemetry::start_logs(&config.log, CommandMode::Serve);
    runtime()?.block_on(async {
        let signals = |kind| signal(kind).map_err(|error| complain(&error, Exit::Failure));
        let (mut terminate, mut interrupt) =
            (signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?);
        let forwarder =
            Forwarder::new(outbox, client, format!("forgerun outbox run, process {}", std::process::id()));
        tokio::select! {
            () = forwarder.run() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(Exit::Done)
    })
}

fn status(flags: &StatusFlags) -> Result<Exit, Exit> {
    let outbox = flags.source.outbox()?;
    let status = runtime()?.block_on(outbox.status()).map_err(failed)?;
    let text = if flags.json { format!("{}\n", status_json(&status)) } else { status_text(&status) };
    Ok(print(&text, Exit::Done))
}

fn status_json(status: &OutboxStatus) -> Value {
    let refusals = status.refusals.iter().map(|refused| {
        let problem: Value = serde_json::from_str(&refused.problem).unwrap_or_default();
        json!({"job_id": refused.id, "type": refused.job_type, "problem": problem})
    });
    json!({
        "waiting": status.waiting,
        "refused": status.refused,
        "lag_seconds": status.lag_seconds,
        "sent": status.sent,
        "forwarder": status.forwarder,
        "active_seconds_ago": status.active_seconds_ago,
        "error": status.error,
        "refusals": refusals.collect::<Vec<_>>(),
    })
}

fn status_text(status: &OutboxStatus) -> String {
    let lag = status.lag_seconds.map(|lag| format!(", the oldest for {lag:.1} s")).unwrap_or_default();
    let mut text = format!(
        "waiting    {}{lag}\nsent       {}\nrefused    {}\n",
        status.waiting, status.sent, status.refused
    );
    text += &match (&status.forwarder, status.active_seconds_ago) {
        (Some(name), Some(ago)) => format!("forwarder  {name}, active {ago:.0} s ago\n"),
        _ => "forwarder  none so far\n".to_owned(),
    };
    if let Some(error) = &status.error {
        text += &format!("error      {error}\n");
    }
    for refused in &status.refusals {
        let problem: Value = serde_json::from_str(&refused.problem).unwrap_or_default();
        let why = ["detail", "title", "message"].iter().find_map(|member| problem[member].as_str());
        text += &format!(
            "refused    {} {}: {}\n",
            refused.id,
            refused.job_type,
            why.unwrap_or("no reason given")
        );
    }
    text
}

//! The grammar of the command line, and the configuration key of each flag.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};
use forgerun_cli::client_commands::ClientCommand;
use forgerun_cli::conformance::ConformanceFlags;
use forgerun_cli::init::InitFlags;
use forgerun_cli::prove::ProveFlags;
use forgerun_cli::traffic::TrafficFlags;
use forgerun_cli::worker::Worker;
use forgerun_server::config::Flag;

use crate::docs::DocsFlags;
use crate::manual::{CompletionsFlags, ManFlags};
use crate::outbox::OutboxCommand;
use crate::webhook::Webhook;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failure, 2 usage or configuration, 3 the job failed, 4 timed out waiting, 5 not authorised,
6 unreachable, 130 ended by Ctrl-C.

Every key of the configuration can be set in the environment as FORGERUN_SECTION__KEY and in a TOML file;
`forgerun config --defaults` explains them all.";

/// The version, the commit that release builds are told by `FORGERUN_COMMIT`, and the features.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("amqp", cfg!(feature = "amqp")),
        ("grpc", cfg!(feature = "grpc")),
        ("kafka", cfg!(feature = "kafka")),
        ("nats", cfg!(feature = "nats")),
        ("s3", cfg!(feature = "s3")),
    ];
    let features: Vec<&str> =
        features.into_iter().filter(|(_, is_in)| *is_in).map(|(name, _)| name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(" ") };
    let commit = option_env!("FORGERUN_COMMIT").unwrap_or("not recorded");
    format!("{} (commit: {commit}; features: {features})", env!("CARGO_PKG_VERSION"))
});

/// A job server: accepts jobs over HTTP, runs them in the background, survives crashes, and reports
/// how they ended.
#[derive(Debug, Parser)]
#[command(name = "forgerun", version = VERSION.as_str(), after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    Serve(ServeFlags),
    /// Run a server to try things out: no keys, no stored data, readable logs, local access only
    Dev(DevFlags),
    /// Print the configuration in effect as TOML, with the origin of each value; secrets are hidden
    Config(ConfigFlags),
    /// Print a new random token for `auth.admin_token`
    Token,
    /// Apply retention once, now, also while servers run, and print what was removed
    Cleanup(DatabaseFlags),
    /// Encrypt all contents with the first of `encryption.keys`, also while servers run; then the
    /// other keys can go
    #[command(after_help = AFTER_REENCRYPT)]
    Reencrypt(DatabaseFlags),
    /// Copy an SQLite store with its large results, also while servers run
    Backup(BackupFlags),
    /// Put a backup where no store is yet
    Restore(RestoreFlags),
    /// Check every row of a store, and whether the rows agree; also while servers run
    Check(CheckFlags),
    /// Check or export the audit trail of a database, also while servers run
    #[command(subcommand)]
    Audit(Audit),
    /// Upgrade the schema of the database to this version, also while servers run; `serve` does so
    /// at its start
    Migrate(MigrateFlags),
    /// Receive webhooks on this machine, or check why a signature does not match
    #[command(subcommand)]
    Webhook(Webhook),
    #[command(flatten)]
    ClientCommand(ClientCommand),
    /// Submit jobs inside the transactions of your own PostgreSQL, and send them from there
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Run jobs with your own program or URL
    #[command(subcommand)]
    Worker(Worker),
    /// Start a project in Python, TypeScript or Go: a worker, a submission, a test and a Dockerfile
    Init(InitFlags),
    /// Check a server, ForgeRun or any other, against published documents, and explain how to fix
    /// violations
    Conformance(ConformanceFlags),
    /// Load a server with realistic clients, and check every answer
    Traffic(TrafficFlags),
    /// Break servers of its own on an empty store, and check every promise
    Prove(ProveFlags),
    /// Open the documentation of the server in a browser, or write it as a static site
    Docs(DocsFlags),
    /// Print completions for a shell
    Completions(CompletionsFlags),
    /// Print a manual page, or write all of them
    Man(ManFlags),
}

const AFTER_REENCRYPT: &str = "\
Exit codes: 0 all contents are encrypted with the first key, 1 some cannot be decrypted or belong to running jobs, 2 usage or
configuration, 6 the database cannot be reached. Stopped in between, it can be run again.";

const AFTER_VERIFY: &str = "\
Exit codes: 0 the trail is whole, 1 entries are missing, changed or added, 2 usage or configuration, 6 the database cannot be
reached.";

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Check that no entry is missing, changed or added
    #[command(after_help = AFTER_VERIFY)]
    Verify(DatabaseFlags),
    /// Print all entries, the latest first, a line of JSON each
    Export(DatabaseFlags),
}

#[derive(Debug, Args)]
pub(crate) struct BackupFlags {
    /// A new folder, or s3://bucket/prefix with the address and key of `results.*`
    #[arg(value_name = "DIR|URL")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) database: DatabaseFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreFlags {
    /// The folder of a backup, or s3://bucket/prefix
    #[arg(value_name = "DIR|URL")]
    pub(crate) from: String,
    #[command(flatten)]
    pub(crate) database: DatabaseFlags,
}

const AFTER_CHECK: &str = "\
Exit codes: 0 the store is sound, 1 it has faults, each printed by name, 2 usage or configuration, 6 the database cannot be
reached.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_CHECK)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    pub(crate) database: DatabaseFlags,
}

const AFTER_MIGRATE: &str = "\
Exit codes of --check: 0 nothing is missing, 1 steps are missing or this version cannot work with the schema, 2 usage or
configuration, 6 the database cannot be reached.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_MIGRATE)]
pub(crate) struct MigrateFlags {
    /// Print the missing steps, and change nothing
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) database: DatabaseFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ServeFlags {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    #[command(flatten)]
    pub(crate) database: DatabaseFlags,
}

/// The database of a command, with the flags of `serve`.
#[derive(Debug, Args)]
pub(crate) struct DatabaseFlags {
    /// Folder for the SQLite file [default: ./forgerun-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// sqlite:PATH, postgres://… or memory:; overrides --data
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// TOML file with keys that differ from the defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DevFlags {
    /// Loopback address to listen on; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Send results to these Kafka brokers, such as 127.0.0.1:9092
    #[arg(long, value_name = "BROKERS")]
    kafka: Option<String>,
    /// Send results to this NATS server, such as nats://127.0.0.1:4222
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Send results to this RabbitMQ broker, such as amqp://guest:guest@127.0.0.1
    #[arg(long, value_name = "URL")]
    amqp: Option<String>,
    /// TOML file with keys that differ from the defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigFlags {
    #[command(flatten)]
    pub(crate) serve: ServeFlags,
    /// Print the annotated defaults instead: the manual of every key
    #[arg(long)]
    pub(crate) defaults: bool,
    /// Print the configuration of `forgerun dev` instead of `forgerun serve`
    #[arg(long, conflicts_with_all = ["defaults", "data", "database_url"])]
    pub(crate) dev: bool,
}

impl ServeFlags {
    pub(crate) fn given(&self) -> Vec<Flag> {
        let listen = flag("server.listen", "--listen", &self.listen);
        listen.into_iter().chain(self.database.given()).collect()
    }
}

impl DatabaseFlags {
    pub(crate) fn given(&self) -> Vec<Flag> {
        let flags = [
            flag("server.data", "--data", &self.data),
            flag("server.database_url", "--database-url", &self.database_url),
        ];
        flags.into_iter().flatten().collect()
    }
}

impl DevFlags {
    pub(crate) fn given(&self) -> Vec<Flag> {
        let flags = [
            flag("server.listen", "--listen", &self.listen),
            flag("kafka.brokers", "--kafka", &self.kafka),
            flag("nats.url", "--nats", &self.nats),
            flag("amqp.url", "--amqp", &self.amqp),
        ];
        flags.into_iter().flatten().collect()
    }
}

fn flag(key: &'static str, name: &'static str, value: &Option<String>) -> Option<Flag> {
    Some(Flag { key, name, value: value.clone()? })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use forgerun_server::config::{Config, Sources};

    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_the_defaults_of_the_manual() {
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").expect("there is serve").render_long_help();
        let config = Config::load(&Sources::default()).expect("the defaults are fine");
        let help = serve.to_string();
        assert!(help.contains(&format!("[default: {}]", config.server.listen)), "{help}");
        assert!(help.contains(&format!("[default: {}]", config.server.data.display())), "{help}");
    }
}

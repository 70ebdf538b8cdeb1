//! The configuration: flags, environment, file and manual become a validated [`Config`].
//!
//! ```text
//!   Sources ──► Settings::gather ──► Reader ──► Config ──► rules
//!               layers, origins      types,     sections   what must fit together
//!               unknown keys         bounds
//! ```
//!
//! `forgerun.default.toml` is the manual and the only source of keys and defaults: a key that the
//! program reads and the manual lacks panics in every test, and an unread key of the manual fails a
//! test.
//!
//! Operations are the exception: an operator declares any number of them, each with the keys of the
//! manual's example.
//!
//! To add a key: a line with its reason in the manual, a field in `sections`, and a row in the
//! tests.
//!
//! An invalid configuration is an [`Invalid`] with every error, not just the first.

mod complaint;
mod print;
mod reader;
mod rules;
mod secret;
mod sections;
mod settings;
mod sources;
#[cfg(test)]
mod tests;
mod values;

pub use complaint::{Complaint, Invalid, Origin};
pub use secret::Secret;
pub use sections::{
    Alerts, Amqp, Api, Asyncops, Auth, BadKeys, Catalog, CloudEvents, Encryption, Exec, Grpc, Idempotency,
    JobRetention, Kafka, KafkaSasl, KafkaTls, Limits, Log, MetricsConfig, Nats, NatsLogin, NatsTls, Oidc,
    Ojs, Operation, Operations, Problem, ResultStore, Results, Retention, Retry, RetryModes, Server, Sim,
    SinkEvents, Sinks, Telemetry, Tls, Webhooks, Workers,
};
pub use sources::{CommandMode, File, Flag, Sources};
pub use values::{
    AuthMode, Database, JobReportStatus, LogFormat, LogLevel, Network, PlainHttp, PrivateTargets, Reach,
    Registration, RetryMode,
};

use reader::SettingsReader;
use settings::Settings;

/// The annotated defaults: every key, what it does and why.
pub const MANUAL: &str = include_str!("../../forgerun.default.toml");

/// A validated configuration. One field per section of the manual.
#[derive(Clone, Debug)]
pub struct Config {
    pub server: Server,
    pub log: Log,
    pub auth: Auth,
    pub limits: Limits,
    pub exec: Exec,
    pub workers: Workers,
    pub retry: Retry,
    pub webhooks: Webhooks,
    pub results: Results,
    pub encryption: Encryption,
    pub retention: Retention,
    pub job_retention: JobRetention,
    pub idempotency: Idempotency,
    pub api: Api,
    pub catalog: Catalog,
    pub sim: Sim,
    pub problem: Problem,
    pub asyncops: Asyncops,
    pub ojs: Ojs,
    pub amqp: Amqp,
    pub grpc: Grpc,
    pub sinks: Sinks,
    pub cloudevents: CloudEvents,
    pub kafka: Kafka,
    pub nats: Nats,
    pub telemetry: Telemetry,
    pub alerts: Alerts,
    pub metrics: MetricsConfig,
    pub operations: Operations,
    settings: Settings,
}

impl Config {
    /// Layers the sources over the defaults, parses every key, and checks the rules between them.
    pub fn load(sources: &Sources) -> Result<Config, Invalid> {
        let mut complaints = Vec::new();
        let settings = Settings::gather(sources, &mut complaints);
        let mut reader = SettingsReader::new(&settings);
        let config = Config::read(&mut reader, settings.clone());
        complaints.append(&mut reader.complaints);
        // Rules between keys are meaningless for placeholders of bad values.
        if complaints.is_empty() {
            complaints = rules::broken(&config, sources.mode);
        }
        if complaints.is_empty() { Ok(config) } else { Err(Invalid(complaints)) }
    }

    /// Whether registering needs the operator's token, and there is none.
    pub fn registers_nobody(&self) -> bool {
        let needs_token = match self.auth.registration {
            Registration::Open => false,
            Registration::Local => !self.server.may_be_local(),
            Registration::Admin => true,
        };
        needs_token && self.auth.admin_token.is_none()
    }

    /// The effective configuration, as TOML without secrets.
    pub fn to_toml(&self) -> String {
        print::toml(&self.settings)
    }

    fn read(from: &mut SettingsReader<'_>, settings: Settings) -> Config {
        let server = Server::read(from);
        let cloudevents = CloudEvents::read(from);
        let mut config = Config {
            log: Log::read(from),
            auth: Auth::read(from, &server),
            limits: Limits::read(from),
            exec: Exec::read(from),
            workers: Workers::read(from),
            retry: Retry::read(from),
            webhooks: Webhooks::read(from, &server),
            results: Results::read(from),
            encryption: Encryption::read(from),
            retention: Retention::read(from),
            job_retention: JobRetention::read(from),
            idempotency: Idempotency::read(from),
            api: Api::read(from),
            catalog: Catalog::read(from),
            sim: Sim::read(from),
            problem: Problem::read(from),
            asyncops: Asyncops::read(from),
            ojs: Ojs::read(from),
            grpc: Grpc::read(from),
            amqp: Amqp::read(from, cloudevents),
            sinks: Sinks::read(from),
            kafka: Kafka::read(from, cloudevents),
            nats: Nats::read(from, cloudevents),
            cloudevents,
            telemetry: Telemetry::read(from),
            alerts: Alerts::read(from),
            metrics: MetricsConfig::read(from),
            operations: Operations::default(),
            server,
            settings,
        };
        config.operations = Operations::read(from, config.sim.enabled);
        config
    }
}

//! Rules between keys: values that are fine alone and wrong together.

use forge_store::postgres::Postgres;

use super::Config;
use super::complaint::Complaint;
use super::secret::shown;
use super::sources::CommandMode;
use super::values::{AuthMode, Database, Reach, Registration};

/// Characters of an operator's token that others could try to guess.
const ADMIN_TOKEN_BYTES_MIN: usize = 16;

/// The largest object: 10,000 parts of 8 MiB (`forge_store::objects`, which not every build has).
const OBJECT_BYTES_MAX: u64 = 10_000 * 8 * 1024 * 1024;

/// Whether the rule holds, the key to change, and what is wrong with it.
type Rule = (bool, &'static str, &'static str);

/// All rules that the configuration breaks.
pub(crate) fn broken(config: &Config, mode: CommandMode) -> Vec<Complaint> {
    let mut rules = anywhere(config);
    match (config.server.reach(), mode) {
        (Reach::Loopback, CommandMode::Serve | CommandMode::Dev) => {}
        (Reach::Public, CommandMode::Serve) => rules.extend(in_public(config)),
        // Said once and in its own words; that `dev` is open would only be a second complaint about the same.
        (Reach::Public, CommandMode::Dev) => rules.push((
            false,
            "server.listen",
            "forgerun dev needs no keys and so listens on loopback only, such as 127.0.0.1:8080; \
             for other addresses there is forgerun serve",
        )),
    }
    let broken = rules.into_iter().filter(|(holds, ..)| !holds);
    let broken = broken.map(|(_, key, reason)| conflict(config, key, reason));
    broken.chain(bad_url(config)).collect()
}

/// What the driver of the database has against its URL.
fn bad_url(config: &Config) -> Option<Complaint> {
    let Database::Postgres(url) = &config.server.database else { return None };
    let why = Postgres::check_url(url.expose()).err()?;
    Some(conflict(config, "server.database_url", &why))
}

/// What must fit on any address.
fn anywhere(config: &Config) -> Vec<Rule> {
    let Config { server, auth, workers, retry, webhooks, limits, amqp, grpc, kafka, nats, results, .. } =
        config;
    vec![
        (
            cfg!(feature = "amqp") || amqp.url.is_none(),
            "amqp.url",
            "names a broker, and this forgerun was built without it; build it with --features amqp (or full), or take the container",
        ),
        (amqp.queues.is_empty() || amqp.url.is_some(), "amqp.queues", "needs a broker: set amqp.url too"),
        (
            cfg!(feature = "kafka") || kafka.brokers.is_none(),
            "kafka.brokers",
            "names brokers, and this forgerun was built without Kafka; build it with --features kafka (or full), or take the \
             container",
        ),
        (
            cfg!(feature = "nats") || nats.url.is_none(),
            "nats.url",
            "names a server, and this forgerun was built without NATS; build it with --features nats (or full), or take the \
             container",
        ),
        (
            cfg!(feature = "s3") || results.store.is_none(),
            "results.store",
            "names an object store, and this forgerun was built without it; build it with --features s3 (or full), or take the \
             container",
        ),
        (
            results.store.is_none() || !matches!(server.database, Database::Memory),
            "results.store",
            "needs a database that is kept; forgerun dev has none, so leave it out or give server.database_url too",
        ),
        (
            results.store.is_none() || results.access_key_id.is_some() == results.secret_access_key.is_some(),
            "results.access_key_id",
            "and results.secret_access_key belong together: set both or none",
        ),
        (
            results.store.is_none() || limits.max_result_bytes <= OBJECT_BYTES_MAX,
            "limits.max_result_bytes",
            "is more than an upload in parts can hold, which is 80 GiB (85899345920); lower it, or leave results.store out",
        ),
        (
            kafka.brokers.is_none() || kafka.tls.cert.is_some() == kafka.tls.key.is_some(),
            "kafka.tls.cert",
            "and kafka.tls.key belong together: set both or none",
        ),
        (
            kafka.brokers.is_none()
                || kafka.tls.enabled
                || kafka.tls.ca.is_none() && kafka.tls.cert.is_none(),
            "kafka.tls.enabled",
            "is false, and certificates are set; set it to true, or leave them out",
        ),
        (
            kafka.brokers.is_none() || kafka.sasl.mechanism.is_none() || !kafka.sasl.username.is_empty(),
            "kafka.sasl.username",
            "must be set with kafka.sasl.mechanism",
        ),
        (
            auth.mode != AuthMode::Open || server.public_base_url.is_none(),
            "server.public_base_url",
            "says that others reach this server, and auth.mode is open, as in forgerun dev, which lets anybody in; \
             leave one of them out",
        ),
        (
            auth.mode != AuthMode::Open || grpc.reach() != Some(Reach::Public),
            "grpc.addr",
            "is not a loopback address, and auth.mode is open, as in forgerun dev, which lets anybody in; \
             accepted is a loopback address, such as 127.0.0.1:9090",
        ),
        (
            server.reach() == Reach::Public
                || grpc.reach() != Some(Reach::Public)
                || auth
                    .admin_token
                    .as_ref()
                    .is_none_or(|token| token.expose().len() >= ADMIN_TOKEN_BYTES_MIN),
            "auth.admin_token",
            "is shorter than 16 characters, which can be guessed, so it is refused when grpc.addr is not a loopback \
             address; `openssl rand -hex 32` makes a good one",
        ),
        (
            cfg!(feature = "grpc") || grpc.addr.is_none(),
            "grpc.addr",
            "cannot be served: this program was built without gRPC (its feature is called grpc)",
        ),
        (
            workers.heartbeat < workers.lease,
            "workers.heartbeat_s",
            "must be shorter than workers.lease_s, or jobs are taken away between two signs of life",
        ),
        (retry.wait_base <= retry.wait_max, "retry.base_ms", "must not be longer than retry.max_ms"),
        (
            webhooks.wait_base <= webhooks.wait_max,
            "webhooks.base_ms",
            "must not be longer than webhooks.max_ms",
        ),
        (
            limits.max_job_payload_bytes < limits.max_body_bytes,
            "limits.max_job_payload_kb",
            "such a payload must fit in a body of limits.max_body_bytes (1024 bytes each here, bytes there)",
        ),
    ]
}

/// What must not be open to the world.
fn in_public(config: &Config) -> Vec<Rule> {
    let auth = &config.auth;
    let needs_token = auth.mode == AuthMode::Keys && auth.registration != Registration::Open;
    vec![
        (
            !needs_token || auth.admin_token.is_some(),
            "auth.admin_token",
            "must be set when server.listen is not a loopback address, or nobody could create a client; \
             set FORGERUN_AUTH__ADMIN_TOKEN",
        ),
        (
            auth.admin_token.as_ref().is_none_or(|token| token.expose().len() >= ADMIN_TOKEN_BYTES_MIN),
            "auth.admin_token",
            "is shorter than 16 characters, which can be guessed, so it is refused when server.listen is not a loopback \
             address; `openssl rand -hex 32` makes a good one",
        ),
        (
            auth.mode != AuthMode::Open,
            "auth.mode",
            "lets anybody in, so it is refused when server.listen is not a loopback address; accepted is keys",
        ),
        (
            !config.ojs.test_hooks,
            "ojs.test_hooks",
            "lets anybody wipe the store, so it is refused when server.listen is not a loopback address; \
             accepted is false",
        ),
    ]
}

fn conflict(config: &Config, key: &str, reason: &str) -> Complaint {
    let setting = config.settings.get(key);
    Complaint::Conflict {
        key: key.to_owned(),
        value: shown(key, &setting.value),
        origin: setting.origin.clone(),
        reason: reason.to_owned(),
    }
}

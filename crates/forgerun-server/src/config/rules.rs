//! Rules between keys: values that are valid alone and conflict with each other.

use forgerun_core::delivery::DeliverySchedule;
use forgerun_store::postgres::Postgres;

use super::Config;
use super::complaint::Complaint;
use super::secret::shown;
use super::sections::{Auth, BadKeys};
use super::sources::CommandMode;
use super::values::{AuthMode, Database, Reach, Registration};

/// Minimum entropy of an operator's token that others could guess at (C-125).
const ADMIN_TOKEN_BITS_MIN: f64 = 128.0;

/// The largest object: 10,000 parts of 8 MiB (`forgerun_store::objects`, which not every build
/// has).
const OBJECT_BYTES_MAX: u64 = 10_000 * 8 * 1024 * 1024;

/// Attempts of a delivery: a hundred retries.
const DELIVERY_ATTEMPTS_MAX: u32 = 101;

/// Whether the rule holds, the key to change, and the reason.
type Rule = (bool, &'static str, &'static str);

pub(crate) fn broken(config: &Config, mode: CommandMode) -> Vec<Complaint> {
    let mut rules = anywhere(config);
    match (config.server.reach(), mode) {
        (Reach::Loopback, CommandMode::Serve | CommandMode::Dev) => {}
        (Reach::Public, CommandMode::Serve) => rules.extend(in_public(config)),
        // Reported once in its own words; that `dev` is open would be a second report of the same.
        (Reach::Public, CommandMode::Dev) => rules.push((
            false,
            "server.listen",
            "forgerun dev needs no keys and so listens on loopback only, such as 127.0.0.1:8080; \
             for other addresses there is forgerun serve",
        )),
    }
    let broken = rules.into_iter().filter(|(holds, ..)| !holds);
    let broken = broken.map(|(_, key, reason)| conflict(config, key, reason));
    let broken = broken.chain(bad_url(config)).chain(unreadable_files(config));
    broken.chain(bad_encryption_keys(config)).collect()
}

/// Unreadable files of sinks. A sink connects only when it has something to send, which may be long
/// after the start.
fn unreadable_files(config: &Config) -> Vec<Complaint> {
    let Config { kafka, nats, .. } = config;
    let of_kafka = [
        ("kafka.tls.ca", &kafka.tls.ca),
        ("kafka.tls.cert", &kafka.tls.cert),
        ("kafka.tls.key", &kafka.tls.key),
    ];
    let of_nats = [
        ("nats.tls.ca", &nats.tls.ca),
        ("nats.tls.cert", &nats.tls.cert),
        ("nats.tls.key", &nats.tls.key),
        ("nats.credentials", &nats.login.credentials),
    ];
    let of_kafka = of_kafka.into_iter().filter(|_| kafka.brokers.is_some());
    let of_nats = of_nats.into_iter().filter(|_| nats.url.is_some());
    let files = of_kafka.chain(of_nats).filter_map(|(key, path)| Some((key, path.as_ref()?)));
    files
        .filter_map(|(key, path)| {
            let error = std::fs::File::open(path).err()?;
            Some(conflict(config, key, &format!("cannot be read: {error}")))
        })
        .collect()
}

fn bad_encryption_keys(config: &Config) -> Option<Complaint> {
    let BadKeys { setting, reason } = config.encryption.key_ring().err()?;
    Some(conflict(config, setting, &reason))
}

/// The database driver's objection to its URL.
fn bad_url(config: &Config) -> Option<Complaint> {
    let Database::Postgres(url) = &config.server.database else { return None };
    let why = Postgres::check_url(url.expose()).err()?;
    Some(conflict(config, "server.database_url", &why))
}

/// Rules for any address.
fn anywhere(config: &Config) -> Vec<Rule> {
    let Config { server, auth, workers, retry, webhooks, limits, amqp, grpc, kafka, nats, results, .. } =
        config;
    let oidc = &auth.oidc;
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
            nats.url.is_none() || nats.login.username.is_some() == nats.login.password.is_some(),
            "nats.username",
            "and nats.password belong together: set both or none",
        ),
        (
            nats.url.is_none() || nats.login.n_ways() <= 1,
            "nats.username",
            "and nats.password, nats.token and nats.credentials are three ways to log in; set one of them",
        ),
        (
            nats.url.is_none() || nats.tls.cert.is_some() == nats.tls.key.is_some(),
            "nats.tls.cert",
            "and nats.tls.key belong together: set both or none",
        ),
        (
            oidc.issuer.is_none() || !oidc.client_id.is_empty(),
            "auth.oidc.client_id",
            "must be set with auth.oidc.issuer",
        ),
        (
            oidc.issuer.is_none() || oidc.client_secret.is_some(),
            "auth.oidc.client_secret",
            "must be set with auth.oidc.issuer; set FORGERUN_AUTH__OIDC__CLIENT_SECRET",
        ),
        (
            oidc.issuer.is_none() || !oidc.roles.is_empty(),
            "auth.oidc.roles",
            "must name a role with auth.oidc.issuer, or it lets no person in",
        ),
        (
            oidc.issuer.is_none() || oidc.scopes.iter().any(|scope| scope == "openid"),
            "auth.oidc.scopes",
            "must have openid, or the provider gives no ID token",
        ),
        (
            auth.mode != AuthMode::Open || server.public_base_url.is_none(),
            "server.public_base_url",
            "says that others reach this server, and auth.mode is open, as in forgerun dev, which lets any caller in; \
             leave one of them out",
        ),
        (
            auth.mode != AuthMode::Open || grpc.reach() != Some(Reach::Public),
            "grpc.addr",
            "is not a loopback address, and auth.mode is open, as in forgerun dev, which lets any caller in; \
             accepted is a loopback address, such as 127.0.0.1:9090",
        ),
        (
            server.reach() == Reach::Public || grpc.reach() != Some(Reach::Public) || has_long_token(auth),
            "auth.admin_token",
            "has less than 128 bits, so it is refused when grpc.addr is not a loopback address; `forgerun token` makes \
             a good one",
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
            !matches!(webhooks.schedule, DeliverySchedule::Doubling { base, max, .. } if base > max),
            "webhooks.base_ms",
            "must not be longer than webhooks.max_ms",
        ),
        (
            webhooks.schedule.attempts_max() <= DELIVERY_ATTEMPTS_MAX,
            "webhooks.retry_schedule",
            "must have at most 100 waits",
        ),
        (
            limits.max_job_payload_bytes < limits.max_body_bytes,
            "limits.max_job_payload_kb",
            "such a payload must fit in a body of limits.max_body_bytes (1024 bytes each here, bytes there)",
        ),
    ]
}

/// Rules for a public address.
fn in_public(config: &Config) -> Vec<Rule> {
    let auth = &config.auth;
    let needs_token = auth.mode == AuthMode::Keys && auth.registration != Registration::Open;
    vec![
        (
            !needs_token || auth.admin_token.is_some(),
            "auth.admin_token",
            "must be set when server.listen is not a loopback address, or no client could be created; \
             set FORGERUN_AUTH__ADMIN_TOKEN",
        ),
        (
            has_long_token(auth),
            "auth.admin_token",
            "has less than 128 bits, so it is refused when server.listen is not a loopback address; `forgerun token` \
             makes a good one",
        ),
        (
            auth.mode != AuthMode::Open,
            "auth.mode",
            "lets any caller in, so it is refused when server.listen is not a loopback address; accepted is keys",
        ),
        (
            !config.ojs.test_hooks,
            "ojs.test_hooks",
            "lets any caller delete all jobs, so it is refused when server.listen is not a loopback address; \
             accepted is false",
        ),
    ]
}

/// Whether the operator's token, if any, resists guessing.
fn has_long_token(auth: &Auth) -> bool {
    auth.admin_token.as_ref().is_none_or(|token| bits(token.expose()) >= ADMIN_TOKEN_BITS_MIN)
}

/// Entropy in bits of a random text of this length and these kinds of characters.
fn bits(text: &str) -> f64 {
    type CharacterKind = fn(&char) -> bool;
    let has = |kind: CharacterKind| text.chars().any(|character| kind(&character));
    let n_characters = if text.chars().all(|character| character.is_ascii_hexdigit()) {
        16
    } else {
        let kinds: [(CharacterKind, u32); 4] = [
            (char::is_ascii_digit, 10),
            (char::is_ascii_lowercase, 26),
            (char::is_ascii_uppercase, 26),
            (|character| !character.is_ascii_alphanumeric(), 33),
        ];
        kinds.into_iter().filter(|(kind, _)| has(*kind)).map(|(_, n)| n).sum()
    };
    text.chars().count() as f64 * f64::from(n_characters).log2()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_as_many_bits_as_its_alphabet_and_length_allow() {
        for long in ["0123456789abcdef0123456789abcdef", "dGhlIHRva2VuIG9mIHRoZS", "a-token-of-the-operator"]
        {
            assert!(bits(long) >= ADMIN_TOKEN_BITS_MIN, "{long}");
        }
        for short in ["", "0123456789abcdef0123456789abcde", "sixteen-letters!", "0123456789012345678901"] {
            assert!(bits(short) < ADMIN_TOKEN_BITS_MIN, "{short}");
        }
    }
}

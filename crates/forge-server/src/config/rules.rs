//! Rules between keys: values that are fine alone and wrong together.

use forge_store::postgres::Postgres;

use super::Config;
use super::complaint::Complaint;
use super::secret::shown;
use super::sources::CommandMode;
use super::values::{AuthMode, Database, Reach, Registration};

/// Characters of an operator's token that others could try to guess.
const ADMIN_TOKEN_BYTES_MIN: usize = 16;

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
    let Config { server, auth, workers, retry, webhooks, limits, .. } = config;
    vec![
        (
            auth.mode != AuthMode::Open || server.public_base_url.is_none(),
            "server.public_base_url",
            "says that others reach this server, and auth.mode is open, as in forgerun dev, which lets anybody in; \
             leave one of them out",
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

//! The audit trail as the server writes it: who is behind a request, and wrong credentials, which
//! are counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use forgerun_core::Command;
use forgerun_core::audit::{AuditAction, AuditActor};
use forgerun_core::command::{Audited, AuditedChange};
use forgerun_core::rows::Minute;
use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_core::time::Time;
use forgerun_engine::AuditScope;

use crate::app::App;
use crate::auth::{Operator, Who};
use crate::http::{ApiError, Exchange};
use crate::limits::{AUDIT_WRONG_KEYS_EVERY, AUDIT_WRONG_KEYS_MAX};

/// Paths below which clients change clients and keys.
const OF_CLIENTS: &str = "/v1/clients";

/// The scope of a request; `None` if nothing it does is recorded. What clients set up is recorded;
/// their work is not, so its routes pay nothing.
pub(crate) fn scope(app: &App, exchange: &Exchange, scopes: KeyScopes, who: &Who) -> Option<AuditScope> {
    if exchange.is_read() {
        return None;
    }
    let of_clients = || {
        let sets_up = scopes.contains(KeyScope::Manage) || scopes.contains(KeyScope::Keys);
        sets_up || exchange.uri.path().starts_with(OF_CLIENTS)
    };
    let actor = match who {
        Who::Operator(operator) => operator.name.to_string(),
        Who::Client(_) | Who::Anonymous if !of_clients() => return None,
        Who::Client(caller) => format!("client {}", caller.client),
        Who::Anonymous => "anonymous".to_owned(),
    };
    let by = actor_of(app, actor, exchange.address.to_string(), exchange.request_id());
    Some(AuditScope { by, setup_only: !matches!(who, Who::Operator(_)) })
}

fn actor_of(app: &App, actor: String, address: String, request: &str) -> AuditActor {
    let (node, keep) = (app.node.to_string(), app.config.retention.audit);
    AuditActor { actor, address, request: request.to_owned(), node, keep }
}

/// Records the log-in of an operator.
pub(crate) async fn login(app: &App, exchange: &Exchange, operator: &Operator) -> Result<(), ApiError> {
    let actor = operator.name.to_string();
    let by = actor_of(app, actor, exchange.address.to_string(), exchange.request_id());
    let change = AuditedChange::Event(AuditAction::new("login", format!("as {}", operator.role.word())));
    app.engine.run(Command::Audited(Box::new(Audited { by, change }))).await?;
    Ok(())
}

/// Wrong keys and tokens of some minutes: one entry per address, prefix and minute, so that an
/// attacker cannot fill the store.
#[derive(Default)]
pub struct WrongKeys(Mutex<HashMap<WrongKey, u64>>);

/// Minute, action, address and prefix. The last two are empty where several are counted together.
type WrongKey = (Minute, &'static str, Option<IpAddr>, String);

impl WrongKeys {
    /// Counts a refused key or token. Beyond a bound, all others count together.
    pub(crate) fn note(&self, address: IpAddr, token: &str, now: Time) {
        self.count("wrong_key", address, prefix(token), now);
    }

    /// Counts a refused log-in with the identity provider.
    pub(crate) fn note_login(&self, address: IpAddr, now: Time) {
        self.count("wrong_login", address, String::new(), now);
    }

    fn count(&self, action: &'static str, address: IpAddr, prefix: String, now: Time) {
        let minute = Minute::of(now);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (minute, action, Some(address), prefix);
        let is_full = counts.len() >= AUDIT_WRONG_KEYS_MAX && !counts.contains_key(&key);
        *counts.entry(if is_full { (minute, action, None, String::new()) } else { key }).or_default() += 1;
    }

    /// Takes the counts of minutes before this one.
    fn take(&self, before: Minute) -> Vec<(WrongKey, u64)> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.extract_if(|(minute, ..), _| *minute < before).collect()
    }
}

/// The first characters of a wrong key: enough to find its owner, too few to guess it.
fn prefix(token: &str) -> String {
    let n_chars = if token.starts_with("frk_") { 12 } else { 4 };
    let shown = token.chars().filter(char::is_ascii_graphic).take(n_chars.min(token.len() / 2));
    shown.collect()
}

/// Records the wrong keys of past minutes, of the current one too if `all`.
pub async fn record_wrong_keys(app: &App, all: bool) {
    let Minute(now) = Minute::of(app.clock.now());
    for ((_, action, address, prefix), count) in app.wrong_keys.take(Minute(if all { now + 1 } else { now }))
    {
        let address = address.map_or_else(|| "several".to_owned(), |address| address.to_string());
        let by = actor_of(app, "anonymous".to_owned(), address, "");
        let action = AuditAction { count, ..AuditAction::new(action, prefix) };
        let audited = Audited { by, change: AuditedChange::Event(action) };
        if let Err(error) = app.engine.run(Command::Audited(Box::new(audited))).await {
            tracing::warn!(%error, count, "wrong keys not recorded in the audit trail");
        }
    }
}

/// Records wrong keys until the server stops.
pub async fn follow_wrong_keys(app: &App) {
    loop {
        tokio::select! {
            () = app.stopping() => return record_wrong_keys(app, true).await,
            () = app.clock.sleep(AUDIT_WRONG_KEYS_EVERY) => record_wrong_keys(app, false).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_keys_are_counted_by_address_prefix_and_minute_within_a_bound() {
        let wrong = WrongKeys::default();
        let now = Time::from_millis(60_000_000);
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        for _ in 0..3 {
            wrong.note(address(1), "frk_abcdefghijklmnopqrstuvwxyz", now);
        }
        wrong.note(address(1), "hunter2hunter2", now);
        assert!(wrong.take(Minute::of(now)).is_empty(), "the minute is not over");
        let Minute(minute) = Minute::of(now);
        let mut counts = wrong.take(Minute(minute + 1));
        counts.sort_by_key(|(_, count)| *count);
        let found: Vec<(&str, u64)> = counts.iter().map(|((.., prefix), n)| (prefix.as_str(), *n)).collect();
        assert_eq!(found, [("hunt", 1), ("frk_abcdefgh", 3)]);
        for n in 0..AUDIT_WRONG_KEYS_MAX as u32 + 10 {
            wrong.note(address(n), "x", now);
        }
        let counts = wrong.take(Minute(minute + 1));
        assert_eq!(counts.len(), AUDIT_WRONG_KEYS_MAX + 1);
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), AUDIT_WRONG_KEYS_MAX as u64 + 10);
    }
}

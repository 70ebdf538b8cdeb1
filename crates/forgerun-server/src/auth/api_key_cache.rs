//! A cache of API keys, for a few seconds each, so that requests with a known key need no query.
//!
//! A key is found by the SHA-256 of its secret in a hash map. That comparison is not constant in
//! time and need not be: timing reveals how far a *digest* agrees, and without inverting SHA-256
//! that does not help to find a secret.
//!
//! A key revoked or replaced on this node is dropped at once; one revoked on another node works
//! here for [`KEY_FRESH`] at most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use forgerun_core::Command;
use forgerun_core::client::ApiKey;
use forgerun_core::client_limits::{ClientLimit, ClientLimits};
use forgerun_core::command::KeyCommand;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;
use forgerun_engine::Engine;

use crate::limits::{
    KEY_FRESH, KEY_USED_EVERY, KEYS_CACHED_MAX,
    limiter::{Account, Limiter},
};

#[derive(Default)]
pub struct ApiKeyCache {
    keys: RwLock<HashMap<[u8; 32], Arc<CachedKey>>>,
    /// Incremented whenever keys are dropped: keys read from the store before are then not cached.
    epoch: AtomicU64,
}

/// A stored key with cached state.
pub(crate) struct CachedKey {
    pub(crate) key: ApiKey,
    pub(crate) account: Arc<Account>,
    checked_at: AtomicI64,
    used_at: AtomicI64,
}

impl ApiKeyCache {
    /// The key with this digest, valid or not.
    pub(crate) async fn find(
        &self,
        digest: [u8; 32],
        engine: &Engine,
        limiter: &Limiter,
        now: Time,
    ) -> Result<Option<Arc<CachedKey>>, forgerun_engine::Error> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned();
        let Some(known) = known else { return self.load(digest, engine, limiter, now).await };
        let checked_at = known.checked_at.load(Ordering::Relaxed);
        if is_fresh(checked_at, now) || !known.claim_check(checked_at, now) {
            return Ok(Some(known));
        }
        let loaded = self.load(digest, engine, limiter, now).await;
        if loaded.is_err() {
            // The next request tries again.
            known.checked_at.store(checked_at, Ordering::Relaxed);
        }
        loaded
    }

    /// Drops the keys of a client, because one of them has changed.
    pub(crate) fn forget(&self, client: ClientId) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        self.epoch.fetch_add(1, Ordering::Release);
        keys.retain(|_, known| known.key.client != client);
    }

    async fn load(
        &self,
        digest: [u8; 32],
        engine: &Engine,
        limiter: &Limiter,
        now: Time,
    ) -> Result<Option<Arc<CachedKey>>, forgerun_engine::Error> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let found = engine.store().api_key(digest).await?;
        let limits: Option<ClientLimits> = match &found {
            Some(key) => engine.store().record(key.client.to_string()).await?,
            None => None,
        };
        let found = found.map(|key| {
            let used_at = key.last_used_at.map_or(0, Time::as_micros);
            let account = limiter.client(key.client, now);
            account.set_own_rate(limits.and_then(|limits| limits.get(ClientLimit::RatePerMinute)));
            let checked_at = AtomicI64::new(now.as_micros());
            Arc::new(CachedKey { key, account, checked_at, used_at: AtomicI64::new(used_at) })
        });
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        match &found {
            // Unknown ones are not cached: callers can make up any number of them.
            None => drop(keys.remove(&digest)),
            Some(known) if self.epoch.load(Ordering::Acquire) == epoch => {
                if keys.len() >= KEYS_CACHED_MAX {
                    keys.clear();
                }
                keys.insert(digest, known.clone());
            }
            Some(_) => {}
        }
        Ok(found)
    }
}

impl CachedKey {
    /// Whether this caller rechecks the store; the others use the cached key.
    fn claim_check(&self, checked_at: i64, now: Time) -> bool {
        let claimed = self.checked_at.compare_exchange(
            checked_at,
            now.as_micros(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        claimed.is_ok()
    }

    /// Records the use of the key, once in a while.
    pub(crate) fn used(&self, engine: &Engine, now: Time) {
        let used_at = self.used_at.load(Ordering::Relaxed);
        if now.as_micros() - used_at < KEY_USED_EVERY.as_micros() as i64 {
            return;
        }
        let mine =
            self.used_at.compare_exchange(used_at, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            let (client, key) = (self.key.client, self.key.id);
            engine.try_enqueue(Command::Key(KeyCommand::Used { client, key }));
        }
    }
}

/// Whether a check at that moment is still fresh. A moment in the future is from before the clock
/// was set back, of unknown age.
fn is_fresh(checked_at: i64, now: Time) -> bool {
    (0..KEY_FRESH.as_micros() as i64).contains(&(now.as_micros() - checked_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_believed_for_a_while_and_not_if_the_clock_was_set_back() {
        let (checked_at, fresh) = (1_000_000_000, KEY_FRESH.as_micros() as i64);
        for (later, expected) in [(0, true), (fresh - 1, true), (fresh, false), (-1, false), (-fresh, false)]
        {
            assert_eq!(is_fresh(checked_at, Time::from_micros(checked_at + later)), expected, "{later}");
        }
    }
}

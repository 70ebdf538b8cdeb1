//! The signing keys of a running server: created once for all nodes, stored, and reloaded
//! periodically.
//!
//! During a rotation the older key signs and both are published, so that receivers have the new one
//! before its first signature.

use std::sync::{Arc, PoisonError, RwLock};

use forgerun_core::Command;
use forgerun_core::command::SigningCommand;
use forgerun_core::id::SigningKeyId;
use forgerun_core::time::Time;
use forgerun_core::webhook::SigningKey as StoredKey;
use forgerun_engine::{Clock, Engine, Options, SystemClock};
use forgerun_wire::outcome::Outcomes;
use tokio::sync::Mutex;

use super::keys::{KeySet, Signer};
use crate::Running;
use crate::config::Config;
use crate::limits::{WEBHOOK_KEY_OVERLAP, WEBHOOK_KEYS_FRESH};
use crate::serve::{ServeError, open_existing};

/// The signing keys of a running server.
pub struct SigningKeys {
    engine: Engine,
    clock: Arc<dyn Clock>,
    /// The cached keys, and when they were loaded. Nothing is awaited while it is locked.
    known: RwLock<Option<(Arc<KeySet>, Time)>>,
    /// Held while the store is queried.
    asking: Mutex<()>,
}

impl SigningKeys {
    /// Keys are loaded on first use.
    pub fn new(engine: Engine, clock: Arc<dyn Clock>) -> SigningKeys {
        SigningKeys { engine, clock, known: RwLock::default(), asking: Mutex::default() }
    }

    /// The current keys. One caller reloads them when necessary; the others use the cached ones
    /// meanwhile, and so do all if the store fails. All callers wait only before the first load.
    pub async fn current(&self) -> Result<Arc<KeySet>, forgerun_engine::Error> {
        let now = self.engine.now();
        let known = self.known();
        if let Some((keys, looked_at)) = &known
            && is_fresh(*looked_at, now)
        {
            return Ok(keys.clone());
        }
        let _asking = match (&known, self.asking.try_lock()) {
            (_, Ok(asking)) => asking,
            (Some((keys, _)), Err(_)) => return Ok(keys.clone()),
            (None, Err(_)) => self.asking.lock().await,
        };
        // Another caller may have loaded them while we waited.
        if let Some((keys, looked_at)) = self.known()
            && is_fresh(looked_at, now)
        {
            return Ok(keys);
        }
        match (self.look(now).await, known) {
            (Ok(keys), _) => {
                let keys = Arc::new(keys);
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some((keys.clone(), now));
                Ok(keys)
            }
            (Err(error), Some((keys, _))) => {
                tracing::warn!(%error, "webhook signing keys not refreshed");
                Ok(keys)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn known(&self) -> Option<(Arc<KeySet>, Time)> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look(&self, now: Time) -> Result<KeySet, forgerun_engine::Error> {
        let stored = self.engine.store().signing_keys().await?;
        if let Some(keys) = key_set(&stored, now) {
            return Ok(keys);
        }
        let stored = change(&self.engine, SigningCommand::Ensure(fresh(&*self.clock))).await?;
        Ok(key_set(&stored, now).expect("a first key was made"))
    }
}

/// Not fresh if the clock was set back.
fn is_fresh(looked_at: Time, now: Time) -> bool {
    now >= looked_at && now.since(looked_at) < WEBHOOK_KEYS_FRESH
}

/// Creates a new key for all nodes. Previous ones sign until the overlap is over, and stay
/// published.
async fn rotate(engine: &Engine, clock: &dyn Clock) -> Result<KeySet, forgerun_engine::Error> {
    let now = engine.now();
    let rotate = SigningCommand::Rotate { key: fresh(clock), retire_at: now + WEBHOOK_KEY_OVERLAP };
    let stored = change(engine, rotate).await?;
    Ok(key_set(&stored, now).expect("a key was made"))
}

async fn change(engine: &Engine, command: SigningCommand) -> Result<Vec<StoredKey>, forgerun_engine::Error> {
    engine.run(Command::Signing(command)).await?;
    Ok(engine.store().signing_keys().await?)
}

fn fresh(clock: &dyn Clock) -> StoredKey {
    let now = clock.now();
    let mut seed = vec![0; 32];
    seed[..16].copy_from_slice(&clock.random().to_le_bytes());
    seed[16..].copy_from_slice(&clock.random().to_le_bytes());
    StoredKey { id: SigningKeyId::v7(now.unix_ms(), clock.random()), seed, created_at: now, retired_at: None }
}

/// The oldest valid key signs; all are published, the signing one first, then the latest.
fn key_set(stored: &[StoredKey], now: Time) -> Option<KeySet> {
    let mut readable = stored.iter().filter_map(|key| Some((key, Signer::from_seed(&key.seed)?)));
    let (id, signing) = readable.find_map(|(key, signer)| key.is_good(now).then_some((key.id, signer)))?;
    let others = stored.iter().rev().filter(|key| key.id != id);
    let others = others.filter_map(|key| Some(Signer::from_seed(&key.seed)?.public)).collect();
    Some(KeySet { signing, others })
}

/// Rotates the key in the configured store, also while servers run.
pub fn rotate_in(config: &Config) -> Running<'_, Result<KeySet, ServeError>> {
    Box::pin(rotated(config))
}

async fn rotated(config: &Config) -> Result<KeySet, ServeError> {
    let clock = Arc::new(SystemClock);
    let store = open_existing(config, &*clock).await?;
    let engine = Engine::start(store, clock.clone(), Arc::new(Outcomes::default()), Options::default());
    let keys = rotate(&engine, &*clock).await.map_err(ServeError::Start);
    engine.stop().await;
    keys
}

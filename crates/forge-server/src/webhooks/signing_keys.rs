//! The signing keys of a running server: made once for all nodes, kept in the store, looked at again now and then.
//!
//! While keys are being changed the older one signs and both are published, so that a receiver has seen the new one before it
//! meets the first signature by it.

use std::sync::Arc;

use forge_core::Command;
use forge_core::command::SigningCommand;
use forge_core::id::SigningKeyId;
use forge_core::time::Time;
use forge_core::webhook::SigningKey as StoredKey;
use forge_engine::{Clock, Engine, Options, SystemClock};
use forge_wire::outcome::Outcomes;
use tokio::sync::Mutex;

use super::keys::{KeySet, Signer};
use crate::config::Config;
use crate::limits::{WEBHOOK_KEY_OVERLAP, WEBHOOK_KEYS_FRESH};
use crate::serve::{ServeError, open_existing};

/// The signing keys of a running server.
pub struct SigningKeys {
    engine: Engine,
    clock: Arc<dyn Clock>,
    known: Mutex<Option<(Arc<KeySet>, Time)>>,
}

impl SigningKeys {
    /// Keys are asked for when they are needed first.
    pub fn new(engine: Engine, clock: Arc<dyn Clock>) -> SigningKeys {
        SigningKeys { engine, clock, known: Mutex::new(None) }
    }

    /// The keys now. Old ones will do while the store is away.
    pub async fn current(&self) -> Result<Arc<KeySet>, forge_engine::Error> {
        let now = self.engine.now();
        let mut known = self.known.lock().await;
        if let Some((keys, looked_at)) = &*known
            && now >= *looked_at
            && now.since(*looked_at) < WEBHOOK_KEYS_FRESH
        {
            return Ok(keys.clone());
        }
        match (self.look(now).await, &*known) {
            (Ok(keys), _) => {
                let keys = Arc::new(keys);
                *known = Some((keys.clone(), now));
                Ok(keys)
            }
            (Err(error), Some((keys, _))) => {
                tracing::warn!(%error, "the webhook keys could not be looked at again");
                Ok(keys.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn look(&self, now: Time) -> Result<KeySet, forge_engine::Error> {
        let stored = self.engine.store().signing_keys().await?;
        if let Some(keys) = key_set(&stored, now) {
            return Ok(keys);
        }
        let stored = change(&self.engine, SigningCommand::Ensure(fresh(&*self.clock))).await?;
        Ok(key_set(&stored, now).expect("a first key was made"))
    }
}

/// A new key for all nodes. The ones before it sign until the overlap is over, and stay published.
async fn rotate(engine: &Engine, clock: &dyn Clock) -> Result<KeySet, forge_engine::Error> {
    let now = engine.now();
    let rotate = SigningCommand::Rotate { key: fresh(clock), retire_at: now + WEBHOOK_KEY_OVERLAP };
    let stored = change(engine, rotate).await?;
    Ok(key_set(&stored, now).expect("a key was made"))
}

async fn change(engine: &Engine, command: SigningCommand) -> Result<Vec<StoredKey>, forge_engine::Error> {
    engine.run(Command::Signing(command)).await?;
    Ok(engine.store().signing_keys().await?)
}

fn fresh(clock: &dyn Clock) -> StoredKey {
    let now = clock.now();
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&clock.random().to_le_bytes());
    seed[16..].copy_from_slice(&clock.random().to_le_bytes());
    StoredKey { id: SigningKeyId::v7(now.unix_ms(), clock.random()), seed, created_at: now, retired_at: None }
}

/// The oldest key that is still good signs; all are published, the signing one first and then the latest.
fn key_set(stored: &[StoredKey], now: Time) -> Option<KeySet> {
    let signing = stored.iter().find(|key| key.is_good(now))?;
    let others = stored.iter().rev().filter(|key| key.id != signing.id);
    Some(KeySet {
        signing: Signer::from_seed(&signing.seed),
        others: others.map(|key| Signer::from_seed(&key.seed).public).collect(),
    })
}

/// Changes the keys in the store that the configuration names, also while servers run.
pub async fn rotate_in(config: &Config) -> Result<KeySet, ServeError> {
    let clock = Arc::new(SystemClock);
    let store = open_existing(&config.server.database, &*clock).await?;
    let engine = Engine::start(store, clock.clone(), Arc::new(Outcomes::default()), Options::default());
    let keys = rotate(&engine, &*clock).await.map_err(ServeError::Start);
    engine.stop().await;
    keys
}

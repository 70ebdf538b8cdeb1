//! Encrypts again what older keys encrypted, or none. Safe beside running servers: small batches,
//! each a transaction of its own.

use forgerun_engine::{Clock, StoreClock};
use forgerun_store::sealed::{Renewed, SealedStore};

use crate::Running;
use crate::config::Config;
use crate::serve::{ServeError, open_unsealed};

/// Encrypts all contents of the configured store with the first key.
pub fn reencrypt(config: &Config) -> Running<'_, Result<Renewed, ServeError>> {
    Box::pin(reencrypted(config))
}

async fn reencrypted(config: &Config) -> Result<Renewed, ServeError> {
    let keys = config.encryption.key_ring()?;
    let clock = StoreClock::default();
    let store = open_unsealed(config, &clock).await?;
    clock.compare(&*store).await.map_err(ServeError::Store)?;
    SealedStore::renew(store, keys, &|| clock.now()).await.map_err(ServeError::Store)
}

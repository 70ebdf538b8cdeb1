//! Applies retention once: what the timers and the sweeper of a running server do in the
//! background. Safe beside running servers, since it does the same: small batches, each a
//! transaction of its own.

use std::sync::Arc;

use forgerun_core::decide::Batch;
use forgerun_core::{Command, decide, limits, wants};
use forgerun_engine::sinks::Unsent;
use forgerun_engine::{Clock, StoreClock};
use forgerun_store::Store;

use crate::Running;
use crate::app::{engine_options, outcomes};
use crate::config::Config;
use crate::serve::{ServeError, open_existing};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Expired jobs, with their events, reports and results.
    pub n_jobs: usize,
    /// Journal rows, tombstones, revoked keys, settled deliveries, contents of expired results,
    /// unused limits, blobs without a result.
    pub n_rows: usize,
}

/// Applies retention to the configured store.
pub fn cleanup(config: &Config) -> Running<'_, Result<Removed, ServeError>> {
    Box::pin(clean_configured(config))
}

async fn clean_configured(config: &Config) -> Result<Removed, ServeError> {
    let clock = StoreClock::default();
    let store = open_existing(config, &clock).await?;
    // Ages are relative to the store's clock.
    clock.compare(&*store).await.map_err(ServeError::Store)?;
    clean(&*store, config, &clock).await.map_err(ServeError::Store)
}

async fn clean(
    store: &dyn Store,
    config: &Config,
    clock: &dyn Clock,
) -> Result<Removed, forgerun_store::Error> {
    let mut removed = Removed::default();
    // Due processing may also end jobs.
    let outcomes = Arc::new(outcomes(config));
    loop {
        let batch = Batch {
            now: clock.now(),
            seed: clock.random() as u64,
            commands: vec![Command::Due(limits::DUE_JOBS_MAX)],
        };
        let (wants, outcomes) = (wants(&batch), outcomes.clone());
        let changes = store.transact(wants, Box::new(move |rows| decide(&batch, rows, &*outcomes))).await?;
        if changes.is_empty() {
            break;
        }
        removed.n_jobs += changes.forgotten.len();
    }
    let options = engine_options(config);
    loop {
        let now = clock.now();
        let unsent = Unsent::find(store, now, options.sink_lag_max).await?;
        match store.sweep(options.sweep(now, &unsent)).await?.total() {
            0 => return Ok(removed),
            n_rows => removed.n_rows += n_rows,
        }
    }
}

//! Retention, once and now: what the timers and the sweeper of a running server do in the background. Safe beside running
//! servers, since it goes the same way as they do: small batches, each a transaction of its own.

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

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Jobs whose time was over, with their events, reports and results.
    pub n_jobs: usize,
    /// Journal rows, tombstones, revoked keys, settled deliveries, contents of expired results, limits that nobody uses, bytes that no result names.
    pub n_rows: usize,
}

/// Applies retention to the store that the configuration names.
pub fn cleanup(config: &Config) -> Running<'_, Result<Removed, ServeError>> {
    Box::pin(clean_configured(config))
}

async fn clean_configured(config: &Config) -> Result<Removed, ServeError> {
    let clock = StoreClock::default();
    let store = open_existing(config, &clock).await?;
    // What is old is decided by the clock that it was written by.
    clock.compare(&*store).await.map_err(ServeError::Store)?;
    clean(&*store, config, &clock).await.map_err(ServeError::Store)
}

async fn clean(
    store: &dyn Store,
    config: &Config,
    clock: &dyn Clock,
) -> Result<Removed, forgerun_store::Error> {
    let mut removed = Removed::default();
    // What is due may also end a job.
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

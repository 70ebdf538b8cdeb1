//! Deletes what has outlived its use: old journal rows, tombstones, revoked keys and settled deliveries, the content of
//! expired results, bytes that no result names. In small bites.

use std::sync::Arc;

use forge_core::limits;
use forge_core::rows::Minute;
use forge_store::{Sweep, Swept};

use crate::committer::CommitContext;
use crate::engine::Stop;
use crate::options::Options;

/// Runs until told to stop. Being cut off anywhere is safe: a bite is deleted whole or not at all.
pub(crate) async fn run(context: Arc<CommitContext>, options: Options, mut stop: Stop) {
    tokio::select! {
        biased;
        () = stop.told() => {}
        () = work(&context, &options) => {}
    }
    // Whoever gathers what went between two sweeps must not wait for the next.
    context.observer.swept(&Swept::default());
}

async fn work(context: &CommitContext, options: &Options) {
    loop {
        let mut swept = Swept::default();
        loop {
            match sweep(context, options).await {
                Ok(bite) => {
                    swept += bite;
                    if bite.total() < options.sweep_max {
                        break;
                    }
                    // A full bite: there is probably more. Others come first in between.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "could not sweep; trying again later");
                    break;
                }
            }
        }
        context.observer.swept(&swept);
        context.clock.sleep(options.sweep_every).await;
    }
}

async fn sweep(context: &CommitContext, options: &Options) -> Result<Swept, forge_store::Error> {
    let now = context.clock.now();
    let sweep = Sweep {
        journal_before: now - options.journal_keep,
        tombstones_before: now - options.tombstone_keep,
        revoked_keys_before: now - options.revoked_key_keep,
        deliveries_before: now - options.delivery_keep,
        results_until: now,
        activity_before: Minute::of(now - limits::ACTIVITY_KEEP),
        loose_before: now - limits::LOOSE_BLOB,
        limit: options.sweep_max,
    };
    context.store.sweep(sweep).await
}

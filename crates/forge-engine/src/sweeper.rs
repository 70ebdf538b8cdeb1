//! Deletes what has outlived its use: old journal rows, tombstones, revoked keys and settled deliveries, the content of
//! expired results, bytes that no result names. In small bites.

use std::sync::Arc;

use forge_core::limits;
use forge_store::Sweep;

use crate::committer::Office;
use crate::engine::Stop;
use crate::options::Options;

/// Runs until told to stop. Being cut off anywhere is safe: a bite is deleted whole or not at all.
pub(crate) async fn run(office: Arc<Office>, options: Options, mut stop: Stop) {
    tokio::select! {
        biased;
        () = stop.told() => {}
        () = work(&office, &options) => {}
    }
}

async fn work(office: &Office, options: &Options) {
    loop {
        match sweep(office, options).await {
            // A full bite: there is probably more. Others come first in between.
            Ok(n_rows) if n_rows >= options.sweep_max => {
                tokio::task::yield_now().await;
                continue;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "could not sweep; trying again later"),
        }
        office.clock.sleep(options.sweep_every).await;
    }
}

async fn sweep(office: &Office, options: &Options) -> Result<usize, forge_store::Error> {
    let now = office.clock.now();
    let sweep = Sweep {
        journal_before: now - options.journal_keep,
        tombstones_before: now - options.tombstone_keep,
        revoked_keys_before: now - options.revoked_key_keep,
        deliveries_before: now - options.delivery_keep,
        results_until: now,
        loose_before: now - limits::LOOSE_BLOB,
        limit: options.sweep_max,
    };
    office.store.sweep(sweep).await
}

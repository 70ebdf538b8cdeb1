//! Deletes what has expired: journal rows, tombstones, revoked keys, settled deliveries, contents
//! of results, unused limits, blobs without a result. In small steps.

use std::sync::Arc;

use forgerun_core::limits;
use forgerun_core::rows::Minute;
use forgerun_core::time::Time;
use forgerun_store::{Sweep, Swept};
use tokio_util::sync::CancellationToken;

use crate::committer::CommitContext;
use crate::options::Options;
use crate::sinks::Unsent;

/// Runs until stopped. Cancel-safe: a step is deleted whole or not at all.
pub(crate) async fn run(context: Arc<CommitContext>, options: Options, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = work(&context, &options) => {}
    }
    // Observers that sum up a sweep must not wait for the next one.
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
                    // A full step: there is probably more. Other writes come first in between.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "sweep failed: retried later");
                    break;
                }
            }
        }
        context.observer.swept(&swept);
        context.clock.sleep(options.sweep_every).await;
    }
}

impl Options {
    /// What may be deleted now, except events that sinks have not sent.
    pub fn sweep(&self, now: Time, unsent: &Unsent) -> Sweep {
        Sweep {
            journal_before: now - self.journal_keep,
            journal_until: unsent.journal_until(),
            tombstones_before: now - self.tombstone_keep,
            revoked_keys_before: now - self.revoked_key_keep,
            deliveries_before: now - self.delivery_keep,
            results_until: now,
            limits_before: now,
            activity_before: Minute::of(now - limits::ACTIVITY_KEEP),
            loose_before: now - limits::LOOSE_BLOB,
            limit: self.sweep_max,
        }
    }
}

async fn sweep(context: &CommitContext, options: &Options) -> Result<Swept, forgerun_store::Error> {
    let now = context.clock.now();
    let unsent = Unsent::find(&*context.store, now, options.sink_lag_max).await?;
    let mut swept = context.store.sweep(options.sweep(now, &unsent)).await?;
    swept += drop_overdue(context, options, &unsent).await?;
    Ok(swept)
}

/// Deletes events that a sink did not send for too long, and logs that.
async fn drop_overdue(
    context: &CommitContext,
    options: &Options,
    unsent: &Unsent,
) -> Result<Swept, forgerun_store::Error> {
    let overdue = context.clock.now() - options.sink_lag_max.max(options.journal_keep);
    let dropped = unsent.before(&*context.store, overdue, options.sweep_max).await?;
    if dropped.is_empty() {
        return Ok(Swept::default());
    }
    let sweep = Sweep { journal_before: overdue, ..Sweep::nothing(options.sweep_max) };
    let swept = context.store.sweep(sweep).await?;
    for (sink, n_events) in dropped {
        tracing::error!(
            sink = sink.as_str(),
            n_events,
            max_lag_hours = options.sink_lag_max.as_secs() / 3600,
            "unsent events deleted: the sink lagged for longer than sinks.max_lag_hours"
        );
        context.observer.dropped(sink.as_str(), n_events);
    }
    Ok(swept)
}

//! The lag of a sink.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forgerun_core::sink::{SinkCursor, SinkPosition};
use forgerun_core::time::Time;
use forgerun_store::Store;
use tokio_util::sync::CancellationToken;

use super::{EventSink, SinkCounters};
use crate::{Engine, Error};

/// Journal rows that are counted exactly; beyond them their average is used.
const LAG_ROWS: usize = 32;

/// Events that wait to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkLag {
    /// Number of events; an estimate if there are many.
    pub events: u64,
    /// Age of the oldest event.
    pub age: Duration,
}

/// The stored sink, and its lag.
pub(super) async fn look(
    engine: &Engine,
    sink: &dyn EventSink,
) -> Result<Option<(SinkCursor, SinkLag)>, Error> {
    let store = &**engine.store();
    let Some(cursor) = store.record::<SinkCursor>(sink.name().to_owned()).await? else { return Ok(None) };
    let lag = measure(store, sink, cursor.position, engine.now()).await?;
    Ok(Some((cursor, lag)))
}

/// Updates the lag gauges, whichever node sends.
pub(super) async fn watch(
    engine: Engine,
    sink: Arc<dyn EventSink>,
    counters: Arc<SinkCounters>,
    every: Duration,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = engine.clock().sleep(every) => {}
        }
        // Errors of the store are reported elsewhere.
        if let Ok(Some((_, lag))) = look(&engine, &*sink).await {
            counters.lag_events.store(lag.events, Ordering::Relaxed);
            counters.lag_ms.store(lag.age.as_millis() as u64, Ordering::Relaxed);
        }
    }
}

async fn measure(
    store: &dyn Store,
    sink: &dyn EventSink,
    position: SinkPosition,
    now: Time,
) -> Result<SinkLag, forgerun_store::Error> {
    let rows = store.journal(position.row - 1, LAG_ROWS).await?;
    let Some(last) = rows.last() else { return Ok(SinkLag::default()) };
    let unsent = rows.iter().flat_map(|row| {
        let through = if row.seq == position.row { position.entries as usize } else { 0 };
        row.entries.iter().skip(through)
    });
    let wanted = unsent.filter(|entry| entry.job_event().is_some_and(|(_, event)| sink.wants(event)));
    let moments: Vec<Time> = wanted.map(|entry| entry.at()).collect();
    let n_counted = moments.len() as u64;
    let n_rows_left = match rows.len() {
        LAG_ROWS => u64::try_from(store.journal_end().await? - last.seq).unwrap_or(0),
        _ => 0,
    };
    let events = n_counted + n_rows_left * n_counted / rows.len() as u64;
    Ok(SinkLag { events, age: moments.first().map_or(Duration::ZERO, |at| now.since(*at)) })
}

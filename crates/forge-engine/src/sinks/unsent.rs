//! What sinks have not sent, and the sweeper must therefore leave alone.

use std::time::Duration;

use forge_core::job::Name;
use forge_core::sink::SinkCursor;
use forge_core::time::Time;
use forge_store::Store;

/// Sinks that are looked at. There are three kinds, and the bridge of each may have one.
const SINKS_MAX: usize = 64;

/// How far the sinks are that are in use.
#[derive(Clone, Debug)]
pub struct Unsent {
    sinks: Vec<SinkCursor>,
}

impl Unsent {
    /// How far the sinks are. One that no node has served for `lag_max` is not in use any more.
    pub async fn find(store: &dyn Store, now: Time, lag_max: Duration) -> Result<Unsent, forge_store::Error> {
        let mut sinks: Vec<SinkCursor> = store.records(None, String::new(), SINKS_MAX).await?;
        sinks.retain(|sink| sink.seen_at >= now - lag_max);
        Ok(Unsent { sinks })
    }

    /// The last row of the journal that all sinks have sent.
    pub fn journal_until(&self) -> i64 {
        self.sinks.iter().map(|sink| sink.position.row - 1).min().unwrap_or(i64::MAX)
    }

    /// How many events of rows before `overdue` each sink has not sent, among its next `rows_max` rows; only sinks that have any.
    pub(crate) async fn before(
        &self,
        store: &dyn Store,
        overdue: Time,
        rows_max: usize,
    ) -> Result<Vec<(Name, u64)>, forge_store::Error> {
        let mut found = Vec::new();
        for sink in &self.sinks {
            let position = sink.position;
            let rows = store.journal(position.row - 1, rows_max).await?;
            let old = rows.iter().filter(|row| row.entries.iter().all(|entry| entry.at() < overdue));
            let n_events: usize = old
                .map(|row| match row.seq == position.row {
                    true => row.entries.len().saturating_sub(position.entries as usize),
                    false => row.entries.len(),
                })
                .sum();
            if n_events > 0 {
                found.push((sink.name.clone(), n_events as u64));
            }
        }
        Ok(found)
    }
}

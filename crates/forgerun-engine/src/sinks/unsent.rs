//! Events that sinks have not sent, which the sweeper must keep.

use std::time::Duration;

use forgerun_core::job::Name;
use forgerun_core::sink::{SinkCursor, SinkPosition};
use forgerun_core::time::Time;
use forgerun_store::{JournalRow, Store};

/// Sinks that are considered. There are three kinds, and the bridge of each may have one.
const SINKS_MAX: usize = 64;

/// Journal rows read at once. A row has the events of one transaction: one, or thousands.
const PAGE_ROWS: usize = 16;

/// Positions of the sinks in use.
#[derive(Clone, Debug)]
pub struct Unsent {
    sinks: Vec<SinkCursor>,
}

impl Unsent {
    /// Loads the positions. A sink that no node has served for `lag_max` is not in use.
    pub async fn find(
        store: &dyn Store,
        now: Time,
        lag_max: Duration,
    ) -> Result<Unsent, forgerun_store::Error> {
        let mut sinks: Vec<SinkCursor> = store.records(None, String::new(), SINKS_MAX).await?;
        sinks.retain(|sink| sink.seen_at >= now - lag_max);
        Ok(Unsent { sinks })
    }

    /// The last journal row that all sinks have sent.
    pub fn journal_until(&self) -> i64 {
        self.sinks.iter().map(|sink| sink.position.row - 1).min().unwrap_or(i64::MAX)
    }

    /// Unsent events per sink in rows before `overdue`, among its next `rows_max` rows; only sinks
    /// that have any.
    pub(crate) async fn before(
        &self,
        store: &dyn Store,
        overdue: Time,
        rows_max: usize,
    ) -> Result<Vec<(Name, u64)>, forgerun_store::Error> {
        let mut found = Vec::new();
        for sink in &self.sinks {
            let n_events = n_events_before(store, sink.position, overdue, rows_max).await?;
            if n_events > 0 {
                found.push((sink.name.clone(), n_events as u64));
            }
        }
        Ok(found)
    }
}

/// Number of events in rows before `overdue` after a position, among the next `rows_max` rows.
async fn n_events_before(
    store: &dyn Store,
    position: SinkPosition,
    overdue: Time,
    rows_max: usize,
) -> Result<usize, forgerun_store::Error> {
    let (mut after, mut n_rows, mut n_events) = (position.row - 1, 0, 0);
    while n_rows < rows_max {
        let rows = store.journal(after, PAGE_ROWS.min(rows_max - n_rows)).await?;
        let is_old = |row: &&JournalRow| row.entries.iter().all(|entry| entry.at() < overdue);
        let old: Vec<&JournalRow> = rows.iter().filter(is_old).collect();
        n_events += old.iter().map(|row| n_unsent(row, position)).sum::<usize>();
        let Some(last) = rows.last().filter(|_| !old.is_empty()) else { break };
        (after, n_rows) = (last.seq, n_rows + rows.len());
    }
    Ok(n_events)
}

fn n_unsent(row: &JournalRow, position: SinkPosition) -> usize {
    let n_sent = if row.seq == position.row { position.entries as usize } else { 0 };
    row.entries.len().saturating_sub(n_sent)
}

//! Log lines of jobs in memory.

use std::collections::BTreeMap;

use forgerun_core::id::{ClientId, JobId};
use forgerun_core::log::{LogBatch, LogPlace, LogSummary};

use crate::{LogChunk, LogQuery};

#[derive(Default)]
pub(super) struct LogTable(BTreeMap<JobId, Vec<(ClientId, LogChunk)>>);

impl LogTable {
    pub(super) fn append(&mut self, batch: &LogBatch, bytes_max: u64) -> u64 {
        let chunks = self.0.entry(batch.job).or_default();
        let place = LogPlace::next(chunks.last().map(|(_, chunk)| &chunk.place), batch);
        chunks.push((batch.client, LogChunk { place, content: batch.content.clone() }));
        if let Some(trim) = place.trim(bytes_max) {
            chunks.retain(|(_, chunk)| !trim.deletes(&chunk.place));
        }
        place.last
    }

    pub(super) fn read(&self, query: &LogQuery) -> Vec<LogChunk> {
        let wanted = |chunk: &&LogChunk| {
            chunk.place.last > query.after
                && query.attempt.is_none_or(|attempt| chunk.place.attempt == attempt)
        };
        self.of(query.job).filter(wanted).take(query.limit).cloned().collect()
    }

    pub(super) fn summary(&self, job: JobId, attempt: Option<u32>) -> LogSummary {
        let mut summary = LogSummary::default();
        let mut seen = 0;
        let of_attempt = |chunk: &&LogChunk| attempt.is_none_or(|attempt| chunk.place.attempt == attempt);
        for LogChunk { place, .. } in self.of(job).filter(of_attempt) {
            let before = if attempt.is_some() { place.attempt_after.max(seen) } else { seen };
            summary.dropped += place.last - u64::from(place.n_lines) - before;
            (summary.last, seen) = (place.last, place.last);
        }
        summary
    }

    pub(super) fn bytes_of(&self, client: ClientId) -> u64 {
        let chunks = self.0.values().flatten().filter(|(owner, _)| *owner == client);
        chunks.map(|(_, chunk)| chunk.place.end - chunk.place.start).sum()
    }

    pub(super) fn rewrite(&mut self, job: JobId, last: u64, content: Vec<u8>) {
        let mut chunks = self.0.get_mut(&job).into_iter().flatten();
        if let Some((_, chunk)) = chunks.find(|(_, chunk)| chunk.place.last == last) {
            chunk.content = content;
        }
    }

    pub(super) fn delete(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    fn of(&self, job: JobId) -> impl Iterator<Item = &LogChunk> {
        self.0.get(&job).into_iter().flatten().map(|(_, chunk)| chunk)
    }
}

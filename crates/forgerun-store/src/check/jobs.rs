//! Jobs, with what hangs on them: outcomes, results, counts, and their events in the journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use forgerun_core::client_limits::ClientUsage;
use forgerun_core::codec::Corrupt;
use forgerun_core::history::{JournalEntry, decode_entries};
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::invariants;
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::rows::Counts;
use forgerun_core::set_aside::RowId;
use forgerun_core::state::Facet;

use super::rows::FIRST_ID;
use super::{Cell, CheckedRow, Checker, FindingKind};
use crate::Error;

const JOURNAL: &str = "
    SELECT seq, entries
    FROM journal
    WHERE seq > $1
    ORDER BY seq
    LIMIT 200
";

const OUTCOMES_BETWEEN: &str = "
    SELECT execution
    FROM outcomes
    WHERE execution >= $1 AND execution <= $2
";

const RESULTS_BETWEEN: &str = "
    SELECT execution
    FROM results
    WHERE execution >= $1 AND execution <= $2
";

/// Sums are decimals in PostgreSQL otherwise.
const COUNTS: &str = "
    SELECT queue, CAST(sum(created) AS bigint), CAST(sum(queued) AS bigint), CAST(sum(assigned) AS bigint),
        CAST(sum(running) AS bigint), CAST(sum(succeeded) AS bigint), CAST(sum(failed) AS bigint),
        CAST(sum(canceled) AS bigint), CAST(sum(held) AS bigint), CAST(sum(waiting) AS bigint),
        CAST(sum(expired) AS bigint)
    FROM counts
    GROUP BY queue
";

const LIMITS: &str = "
    SELECT key, active
    FROM limits
";

/// Executions of a page of jobs that must have left something.
#[derive(Default)]
struct ExpectedRows {
    outcomes: Vec<(ExecutionId, JobId)>,
    results: Vec<(ExecutionId, JobId)>,
}

impl Checker<'_> {
    /// Per job, every event is there once and in order. The oldest may have been swept.
    pub(super) async fn journal(&mut self) -> Result<(), Error> {
        let mut after = Cell::Number(i64::MIN);
        loop {
            let rows = self.source.rows(JOURNAL, std::slice::from_ref(&after)).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.key();
            for row in rows {
                match row.bytes(1).and_then(decode_entries) {
                    Ok(entries) => self.events(&row, &entries),
                    Err(Corrupt) => self.find(
                        FindingKind::JournalUnreadable,
                        format_args!("journal row {}", row.shown(0)),
                        "cannot be decoded",
                    ),
                }
            }
        }
    }

    fn events(&mut self, row: &CheckedRow, entries: &[JournalEntry]) {
        for (job, event) in entries.iter().filter_map(JournalEntry::job_event) {
            self.report.n_events += 1;
            let before = self.last_events.insert(job, event.n);
            // A forgotten id may be born again.
            if let Some(before) = before.filter(|before| event.n > 1 && event.n != before + 1) {
                let detail = format!("row {} has event {} after event {before}", row.shown(0), event.n);
                self.find(FindingKind::JournalGap, format_args!("job {job}"), detail);
            }
        }
    }

    pub(super) async fn jobs(&mut self) -> Result<(), Error> {
        let sql = self.source.jobs_sql();
        let mut after = FIRST_ID;
        loop {
            let rows = self.source.rows(sql, std::slice::from_ref(&after)).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.key();
            let mut expected = ExpectedRows::default();
            for row in &rows {
                self.report.n_jobs += 1;
                match read_job(row) {
                    Ok(job) => self.job(row, &job, &mut expected),
                    Err(Corrupt) => {
                        let subject = format!("job {}", row.shown(0));
                        self.find(FindingKind::JobUnreadable, subject, "cannot be decoded");
                    }
                }
            }
            self.expect(expected).await?;
        }
    }

    fn job(&mut self, row: &CheckedRow, job: &Job, expected: &mut ExpectedRows) {
        let id = job.id;
        let chain = invariants::chain(job.history.events());
        for broken in [invariants::job(job), chain].into_iter().filter_map(Result::err) {
            self.find(FindingKind::JobRule, format_args!("job {id}"), format_args!("violates: {}", broken.0));
        }
        let wrong = wrong_columns(row, job);
        if !wrong.is_empty() && !self.aside.contains(&RowId::Job(id)) {
            let detail = format!("columns that disagree with the job: {}", wrong.join(", "));
            self.find(FindingKind::JobColumns, format_args!("job {id}"), detail);
        }
        let input = match row.0.get(12) {
            Some(Cell::Bytes(bytes)) => Input::decode(bytes).map(drop),
            Some(Cell::Null) => Ok(()),
            _ => Err(Corrupt),
        };
        if input.is_err() {
            self.find(FindingKind::InputUnreadable, format_args!("job {id}"), "its input cannot be decoded");
        }
        let last = job.history.events().last().map(|event| event.n);
        if let Some(told) = self.last_events.remove(&id)
            && last != Some(told)
        {
            let detail = format!("its last event is {last:?}, the last one in the journal {told}");
            self.find(FindingKind::JournalGap, format_args!("job {id}"), detail);
        }
        self.counts.entry(job.head.queue_id().key()).or_default().add(job.facet(), 1);
        for limit in job.head.limits.iter().filter(|_| job.state.is_active()) {
            *self.held.entry(limit.key.clone()).or_default() += 1;
        }
        let ended = job.state.is_final().then_some(job.execution);
        expected
            .outcomes
            .extend(job.executions_past.iter().copied().chain(ended).map(|execution| (execution, id)));
        expected.results.extend(job.result.is_some().then_some((job.execution, id)));
    }

    /// First executions have the ids of their jobs, so a range of them finds nearly all.
    async fn expect(&mut self, expected: ExpectedRows) -> Result<(), Error> {
        for (execution, job) in self.missing(OUTCOMES_BETWEEN, expected.outcomes).await? {
            let detail = format!("execution {execution} has ended without an outcome");
            self.find(FindingKind::OutcomeMissing, format_args!("job {job}"), detail);
        }
        for (execution, job) in self.missing(RESULTS_BETWEEN, expected.results).await? {
            let detail = format!("the result of execution {execution} is gone");
            self.find(FindingKind::ResultMissing, format_args!("job {job}"), detail);
        }
        Ok(())
    }

    async fn missing(
        &mut self,
        between: &str,
        expected: Vec<(ExecutionId, JobId)>,
    ) -> Result<Vec<(ExecutionId, JobId)>, Error> {
        let first = expected.iter().filter(|(execution, job)| *execution == job.first_execution());
        let ids = || first.clone().map(|(execution, _)| execution.to_bytes());
        let mut found: BTreeSet<[u8; 16]> = BTreeSet::new();
        if let Some((from, to)) = ids().min().zip(ids().max()) {
            let rows = self.source.rows(between, &[from.into(), to.into()]).await?;
            found.extend(rows.iter().filter_map(|row| row.id(0).ok()).map(u128::to_be_bytes));
        }
        let mut missing = Vec::new();
        for (execution, job) in expected {
            let id = execution.to_bytes();
            if found.contains(&id) {
                continue;
            }
            if self.source.rows(between, &[id.into(), id.into()]).await?.is_empty() {
                missing.push((execution, job));
            }
        }
        Ok(missing)
    }

    pub(super) async fn counts(&mut self) -> Result<(), Error> {
        let mut counted = std::mem::take(&mut self.counts);
        // SQLite keeps the sum of all shared queues under no name.
        let mut shared = Counts::default();
        counted
            .iter()
            .filter(|(queue, _)| !queue.as_str().contains('/'))
            .for_each(|(_, counts)| shared.merge(counts));
        for row in self.source.rows(COUNTS, &[]).await? {
            let queue = row.text(0)?;
            if ClientUsage::is_key(&Name::joined(queue)) {
                continue;
            }
            let mut stored = Counts::default();
            for (n, facet) in Facet::ALL.into_iter().enumerate() {
                stored.add(facet, row.number(n + 1)?.unwrap_or_default());
            }
            let is_sum = queue.is_empty();
            let expected =
                if is_sum { shared } else { counted.remove(&Name::joined(queue)).unwrap_or_default() };
            if stored != expected {
                let subject = if is_sum { "all shared queues".to_owned() } else { format!("queue {queue}") };
                let detail = format!("counts are {:?}, its jobs are {:?}", stored.0, expected.0);
                self.find(FindingKind::Counts, subject, detail);
            }
        }
        for (queue, counts) in counted {
            let detail = format!("has no counts, its jobs are {:?}", counts.0);
            self.find(FindingKind::Counts, format_args!("queue {}", queue.as_str()), detail);
        }
        self.limits().await
    }

    async fn limits(&mut self) -> Result<(), Error> {
        let mut held = std::mem::take(&mut self.held);
        for row in self.source.rows(LIMITS, &[]).await? {
            let (key, active) = (row.text(0)?, row.number(1)?);
            let expected = held.remove(&Name::joined(key)).unwrap_or_default();
            if active != Some(i64::from(expected)) {
                let detail = format!("counts {active:?} jobs, workers hold {expected}");
                self.find(FindingKind::LimitCount, format_args!("limit {key}"), detail);
            }
        }
        for (key, n) in held {
            let detail = format!("is not there, although workers hold {n} of its jobs");
            self.find(FindingKind::LimitCount, format_args!("limit {}", key.as_str()), detail);
        }
        Ok(())
    }
}

fn read_job(row: &CheckedRow) -> Result<Job, Corrupt> {
    let head = Arc::new(Head::decode(row.bytes(10)?)?);
    Job::decode(JobId::from_u128(row.id(0)?), head, row.bytes(11)?)
}

/// Columns by which indexes find the job, and that say something else than it.
fn wrong_columns(row: &CheckedRow, job: &Job) -> Vec<&'static str> {
    let shelf = job.shelf();
    let columns = [
        ("client", row.is(1, job.head.client.to_bytes())),
        ("queue", row.is(2, job.head.queue.as_str())),
        ("job_type", row.is(3, job.head.job_type.as_str())),
        ("state", row.is(4, i64::from(job.state.as_u8()))),
        ("priority", row.is(5, i64::from(job.head.priority))),
        ("lane", row.is(6, shelf.as_ref().map(|shelf| shelf.lane as i64))),
        ("shelf", row.is(7, shelf.as_ref().map(|shelf| shelf.name.as_str()))),
        ("due_at", row.is(8, job.due_at().map(|due| due.as_micros()))),
        ("place", row.is(9, job.place().map(|place| place.to_bytes()))),
    ];
    columns.into_iter().filter(|(_, agrees)| !agrees).map(|(name, _)| name).collect()
}

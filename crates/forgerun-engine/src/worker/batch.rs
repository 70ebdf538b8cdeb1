//! Batches: their items run in parallel, each as its own kind says, and the batch ends with the
//! last of them. Items that succeeded in an earlier attempt or execution are not repeated (ruling
//! C-81).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::Note;
use forgerun_core::item::{Item, ItemEnd, ItemError};
use forgerun_core::job::Job;
use forgerun_core::work::Definition;
use forgerun_store::{Error, Store};

use super::WorkerOptions;
use super::plan::{AttemptPlan, PROGRESS_FROM, PlannedEnd, PlannedNote, single};

/// Minimum step of reported progress, in percent: each report is a write.
const STEP_PERCENT: u8 = 10;

pub(super) struct BatchItems {
    items: Vec<Item>,
    before: Vec<ItemEnd>,
    /// Whether these ends are of an earlier attempt of this execution, not of an earlier execution.
    same_execution: bool,
}

/// Loads the items of this job; `None` if it is not a batch.
pub(super) async fn read(store: &dyn Store, job: &Job) -> Result<Option<BatchItems>, Error> {
    if job.head.items.is_none() {
        return Ok(None);
    }
    let inputs = store.inputs(vec![job.id]).await?;
    let items = inputs.into_iter().next().map(|(_, input)| input.items).unwrap_or_default();
    let now = store.items(job.execution).await?;
    let same_execution = now.is_some();
    let before = match now {
        Some(before) => before,
        None => newest_list(store, job).await?,
    };
    Ok(Some(BatchItems { items, before, same_execution }))
}

/// Ends of the items in the newest earlier execution that reported them.
async fn newest_list(store: &dyn Store, job: &Job) -> Result<Vec<ItemEnd>, Error> {
    for &past in job.executions_past.iter().rev() {
        if let Some(ends) = store.items(past).await? {
            return Ok(ends);
        }
    }
    Ok(Vec::new())
}

pub(super) fn plan(job: &Job, parts: BatchItems, options: &WorkerOptions) -> AttemptPlan {
    let limit = job.head.timeout.unwrap_or(options.max_runtime);
    // An item that runs too long is its own failure; the batch must end within its limit.
    let item_limit = limit - limit / 20;
    let limit_ms = u32::try_from(item_limit.as_millis()).unwrap_or(u32::MAX);
    let before: BTreeMap<String, ItemEnd> =
        parts.before.into_iter().map(|end| (end.id.clone(), end)).collect();
    let stays = |end: &ItemEnd| match &end.error {
        None => true,
        Some(error) => parts.same_execution && !error.retryable,
    };
    let mut ends = Vec::with_capacity(parts.items.len());
    let mut lengths = Vec::with_capacity(parts.items.len());
    for item in parts.items {
        let kept = before.get(&item.id).filter(|end| stays(end));
        let (length, end) = match kept {
            Some(end) => (Duration::ZERO, end.clone()),
            None => run(job, item, item_limit, limit_ms, options.time_scale),
        };
        lengths.push(length);
        ends.push(end);
    }
    lengths.sort_unstable();
    let length = lengths.last().copied().unwrap_or_default();
    AttemptPlan { length, marks: marks(&lengths), fate: PlannedEnd::Items(Arc::from(ends)) }
}

/// Duration and end of an item.
fn run(job: &Job, item: Item, limit: Duration, limit_ms: u32, time_scale: f64) -> (Duration, ItemEnd) {
    let definition = item.work_kind.map(|kind| Definition::of(kind, limit_ms));
    let plan = single(&job.head, definition, job.attempt, limit, time_scale);
    let error = match plan.fate {
        PlannedEnd::Failure(error) => Some(ItemError {
            retryable: error.retryable.unwrap_or(error.kind.entry().retryable),
            kind: error.kind,
            message: error.message,
        }),
        PlannedEnd::Success { .. } | PlannedEnd::Items(_) | PlannedEnd::HandBack => None,
    };
    (plan.length, ItemEnd { id: item.id, error })
}

/// Progress reports as items end; `lengths` are sorted.
fn marks(lengths: &[Duration]) -> Vec<PlannedNote> {
    let length = lengths.last().copied().unwrap_or_default();
    let mut marks: Vec<PlannedNote> = Vec::new();
    let mut said = 0;
    for (done, &after) in (1..).zip(lengths).take_while(|(_, after)| **after < length) {
        let percent = (done * 100 / lengths.len()) as u8;
        if length >= PROGRESS_FROM && percent >= said + STEP_PERCENT {
            said = percent;
            let message = Some(format!("{done} of {} items", lengths.len()));
            marks.push(PlannedNote { after, note: Note::Progress { percent, message }, needed: false });
        }
    }
    marks
}

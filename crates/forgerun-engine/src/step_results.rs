//! Results of steps as their dependents get them: of a job what it left, of a workflow an object of
//! its steps' results, of a `for_each` the list of its elements' results.

use std::collections::BTreeMap;
use std::pin::Pin;

use forgerun_core::command::{Blob, Content};
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, is_json};
use forgerun_core::limits;
use forgerun_core::workflow::{ForEach, Workflow, WorkflowForm};
use forgerun_store::{Error, Store};

/// Bytes of a blob that are read at once.
const BLOB_CHUNK_BYTES: usize = 256 * 1024;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// It left nothing, or its result is gone.
    Nothing,
    Json(Vec<u8>),
    /// More bytes than asked for.
    TooLarge,
    /// Not JSON: this media type.
    Other(String),
}

/// Reads results of steps, up to a bound.
pub struct StepResults<'s> {
    store: &'s dyn Store,
    /// Whether results beside the rows are read; otherwise they count as too large.
    reads_blobs: bool,
}

type ResultRead<'f, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'f>>;

impl<'s> StepResults<'s> {
    /// Only results in rows are read: quick enough for every fetch.
    pub fn small(store: &'s dyn Store) -> StepResults<'s> {
        StepResults { store, reads_blobs: false }
    }

    /// Results beside the rows are read as well.
    pub fn all(store: &'s dyn Store) -> StepResults<'s> {
        StepResults { store, reads_blobs: true }
    }

    /// The result of the job of a step, if it has at most `room` bytes.
    pub fn of<'f>(&'f self, job: &'f Job, room: usize) -> ResultRead<'f, StepResult> {
        Box::pin(async move {
            match job.head.workflow_head.as_ref().map(|head| head.form) {
                None => self.of_job(job, room).await,
                Some(WorkflowForm::ForEach) => self.of_elements(job.id, room).await,
                Some(_) => self.of_steps(job.id, room).await,
            }
        })
    }

    async fn of_job(&self, job: &Job, room: usize) -> Result<StepResult, Error> {
        let Some(note) = &job.result else { return Ok(StepResult::Nothing) };
        if !is_json(&note.media_type) {
            return Ok(StepResult::Other(note.media_type.clone()));
        }
        if note.size > room as u64 {
            return Ok(StepResult::TooLarge);
        }
        let stored = self.store.result(job.execution).await?;
        Ok(match stored.and_then(|stored| stored.content) {
            None => StepResult::Nothing,
            Some(Content::Inline(bytes)) => StepResult::Json(bytes),
            Some(Content::Stored(blob)) if self.reads_blobs => StepResult::Json(self.blob(blob).await?),
            Some(Content::Stored(_)) => StepResult::TooLarge,
        })
    }

    async fn blob(&self, blob: Blob) -> Result<Vec<u8>, Error> {
        let source = self.store.blobs().open(blob.id).await?;
        let mut bytes = Vec::with_capacity(blob.size as usize);
        while (bytes.len() as u64) < blob.size {
            let left = blob.size as usize - bytes.len();
            let part = source.read(bytes.len() as u64, left.min(BLOB_CHUNK_BYTES)).await?;
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }

    /// A list of the results of the elements, in order.
    async fn of_elements(&self, id: JobId, room: usize) -> Result<StepResult, Error> {
        let Some(for_each) = self.store.record::<ForEach>(id.to_string()).await? else {
            return Ok(StepResult::Nothing);
        };
        let jobs: Vec<Option<JobId>> = (0..for_each.n()).map(|index| for_each.made_job(index)).collect();
        let names = jobs.iter().map(|_| None).collect();
        self.joined(&jobs, names, [b'[', b']'], room).await
    }

    /// An object of the results of the steps, by their ids.
    async fn of_steps(&self, id: JobId, room: usize) -> Result<StepResult, Error> {
        let Some(workflow) = self.store.record::<Workflow>(id.to_string()).await? else {
            return Ok(StepResult::Nothing);
        };
        let jobs: Vec<Option<JobId>> =
            workflow.declared().map(|(index, _)| workflow.made_job(index)).collect();
        let name = |id: &str| serde_json::to_string(id).expect("text is JSON");
        let names = workflow.declared().map(|(_, step)| Some(name(&step.id))).collect();
        self.joined(&jobs, names, [b'{', b'}'], room).await
    }

    /// Results of jobs one after the other, each after its name if it has one. `null` where there
    /// is no result, or none in JSON.
    async fn joined(
        &self,
        jobs: &[Option<JobId>],
        names: Vec<Option<String>>,
        around: [u8; 2],
        room: usize,
    ) -> Result<StepResult, Error> {
        const NULL: usize = 5;
        if jobs.len() * 2 > room {
            return Ok(StepResult::TooLarge);
        }
        let ids: Vec<JobId> = jobs.iter().copied().flatten().collect();
        let mut found: BTreeMap<JobId, Job> = BTreeMap::new();
        for ids in ids.chunks(limits::WORKFLOW_STEPS_MAX) {
            found.extend(self.store.jobs_by_id(ids.to_vec()).await?.into_iter().map(|job| (job.id, job)));
        }
        // Sizes are known without the results.
        let json = |job: &&Job| job.result.as_ref().is_some_and(|note| is_json(&note.media_type));
        let sizes = found.values().filter(json).filter_map(|job| Some(job.result.as_ref()?.size));
        if sizes.sum::<u64>() > room as u64 {
            return Ok(StepResult::TooLarge);
        }
        let mut bytes = vec![around[0]];
        for (n, (id, name)) in jobs.iter().zip(names).enumerate() {
            if n > 0 {
                bytes.push(b',');
            }
            if let Some(name) = name {
                bytes.extend_from_slice(name.as_bytes());
                bytes.push(b':');
            }
            let left = room.saturating_sub(bytes.len());
            let result = match id.as_ref().and_then(|id| found.get(id)) {
                Some(job) => self.of(job, left).await?,
                None => StepResult::Nothing,
            };
            match result {
                StepResult::TooLarge => return Ok(StepResult::TooLarge),
                StepResult::Json(result) => bytes.extend_from_slice(&result),
                StepResult::Nothing | StepResult::Other(_) if left < NULL => {
                    return Ok(StepResult::TooLarge);
                }
                StepResult::Nothing | StepResult::Other(_) => bytes.extend_from_slice(b"null"),
            }
        }
        bytes.push(around[1]);
        Ok(StepResult::Json(bytes))
    }
}

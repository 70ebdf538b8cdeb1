//! Jobs, what they leave behind, and whose they are, as columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use forgerun_core::Changes;
use forgerun_core::client::Client;
use forgerun_core::command::Content;
use forgerun_core::item::encode_ends;
use forgerun_core::job::{Input, Job};
use forgerun_core::rows::NewResult;
use forgerun_core::time::Time;
use tokio_postgres::types::ToSql;

use super::marks::MarkColumns;
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::value::{NameText, Uuid};

/// New jobs, in the order of their ids, with their inputs.
pub(super) struct InsertedColumns<'a> {
    clients: Vec<Uuid>,
    queues: Vec<&'a str>,
    job_types: Vec<&'a str>,
    priorities: Vec<i16>,
    heads: Vec<Vec<u8>>,
    places: Vec<Option<Uuid>>,
    rest: UpdatedColumns,
    input_jobs: Vec<Uuid>,
    inputs: Vec<Vec<u8>>,
    marks: MarkColumns,
}

impl<'a> InsertedColumns<'a> {
    pub(super) fn new(inserted: &'a [(Job, Arc<Input>)]) -> InsertedColumns<'a> {
        let mut inserted: Vec<&(Job, Arc<Input>)> = inserted.iter().collect();
        inserted.sort_unstable_by_key(|(job, _)| job.id);
        let jobs = || inserted.iter().map(|(job, _)| job);
        let with_input = || inserted.iter().filter(|(_, input)| !input.is_empty());
        InsertedColumns {
            clients: jobs().map(|job| job.head.client.into()).collect(),
            queues: jobs().map(|job| job.head.queue.as_str()).collect(),
            job_types: jobs().map(|job| job.head.job_type.as_str()).collect(),
            priorities: jobs().map(|job| job.head.priority).collect(),
            heads: jobs().map(|job| job.head.encode()).collect(),
            places: jobs().map(|job| job.place().map(Uuid::from)).collect(),
            rest: UpdatedColumns::new(jobs()),
            input_jobs: with_input().map(|(job, _)| job.id.into()).collect(),
            inputs: with_input().map(|(_, input)| input.encode()).collect(),
            marks: MarkColumns::new(jobs()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// What the statements take, in their order.
    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 14] {
        let UpdatedColumns { ids, states, lanes, shelves, due_at, bodies } = &self.rest;
        let InsertedColumns { clients, queues, job_types, priorities, heads, .. } = self;
        let InsertedColumns { input_jobs, inputs, places, .. } = self;
        [
            ids, clients, queues, job_types, states, priorities, lanes, shelves, due_at, heads, bodies,
            input_jobs, inputs, places,
        ]
    }

    /// The marks of the jobs.
    pub(super) fn marks(&self) -> [&(dyn ToSql + Sync); 3] {
        self.marks.values()
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.is_empty() {
            let mut values = self.values().into_iter().chain(self.marks.values());
            let values: [_; 17] = std::array::from_fn(|_| values.next().expect("as many as that"));
            pipeline.push(Sql::InsertJobs, values);
        }
    }
}

/// What of a job can change.
pub(super) struct UpdatedColumns {
    ids: Vec<Uuid>,
    states: Vec<i16>,
    lanes: Vec<Option<i16>>,
    shelves: Vec<Option<NameText>>,
    due_at: Vec<Option<i64>>,
    bodies: Vec<Vec<u8>>,
}

impl UpdatedColumns {
    pub(super) fn new<'j>(jobs: impl IntoIterator<Item = &'j Job>) -> UpdatedColumns {
        let jobs = jobs.into_iter();
        let n_jobs = jobs.size_hint().0;
        let mut columns = UpdatedColumns {
            ids: Vec::with_capacity(n_jobs),
            states: Vec::with_capacity(n_jobs),
            lanes: Vec::with_capacity(n_jobs),
            shelves: Vec::with_capacity(n_jobs),
            due_at: Vec::with_capacity(n_jobs),
            bodies: Vec::with_capacity(n_jobs),
        };
        for job in jobs {
            let shelf = job.shelf();
            columns.ids.push(job.id.into());
            columns.states.push(i16::from(job.state.as_u8()));
            columns.lanes.push(shelf.as_ref().map(|shelf| shelf.lane as i16));
            columns.shelves.push(shelf.map(|shelf| NameText(shelf.name)));
            columns.due_at.push(job.due_at().map(|at| at.as_micros()));
            columns.bodies.push(job.encode());
        }
        columns
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.ids.is_empty() {
            let UpdatedColumns { ids, states, lanes, shelves, due_at, bodies } = self;
            pipeline.push(Sql::UpdateJobs, [ids, states, lanes, shelves, due_at, bodies]);
        }
    }
}

/// What can change of a job that takes turns: its place, too.
pub(super) struct PlacedColumns {
    rest: UpdatedColumns,
    places: Vec<Option<Uuid>>,
}

impl PlacedColumns {
    pub(super) fn new(updated: &[Job]) -> PlacedColumns {
        let placed = || updated.iter().filter(|job| job.head.fair.is_some());
        PlacedColumns {
            rest: UpdatedColumns::new(placed()),
            places: placed().map(|job| job.place().map(Uuid::from)).collect(),
        }
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.places.is_empty() {
            let UpdatedColumns { ids, states, lanes, shelves, due_at, bodies } = &self.rest;
            pipeline.push(Sql::UpdatePlacedJobs, [ids, states, lanes, shelves, due_at, bodies, &self.places]);
        }
    }
}

/// Outcomes and results of executions that ended, and executions that a retry opened.
pub(super) struct EndedColumns<'a> {
    outcomes: Vec<Uuid>,
    outcome_jobs: Vec<Uuid>,
    outcome_bytes: Vec<&'a [u8]>,
    digests: Vec<&'a [u8]>,
    results: Results<'a>,
    items: Vec<Uuid>,
    ends: Vec<Vec<u8>>,
    executions: Vec<Uuid>,
    execution_jobs: Vec<Uuid>,
}

impl<'a> EndedColumns<'a> {
    pub(super) fn new(changes: &'a Changes) -> EndedColumns<'a> {
        let Changes { outcomes, results, items, executions, .. } = changes;
        EndedColumns {
            outcomes: outcomes.iter().map(|outcome| outcome.execution.into()).collect(),
            outcome_jobs: outcomes.iter().map(|outcome| outcome.job.into()).collect(),
            outcome_bytes: outcomes.iter().map(|outcome| outcome.object.bytes.as_slice()).collect(),
            digests: outcomes.iter().map(|outcome| outcome.object.digest.as_slice()).collect(),
            results: Results::new(results),
            items: items.keys().map(|&execution| execution.into()).collect(),
            ends: items.values().map(|ends| encode_ends(ends)).collect(),
            executions: executions.iter().map(|&(execution, _)| execution.into()).collect(),
            execution_jobs: executions.iter().map(|&(_, job)| job.into()).collect(),
        }
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        let EndedColumns { outcomes, outcome_jobs, outcome_bytes, digests, .. } = self;
        self.results.push_named(pipeline);
        if !(outcomes.is_empty() && self.results.executions.is_empty()) {
            let Results { executions, media_types, file_names, sizes, expires_at, bytes, blobs, .. } =
                &self.results;
            pipeline.push(
                Sql::InsertOutcomes,
                [
                    outcomes,
                    outcome_jobs,
                    outcome_bytes,
                    digests,
                    executions,
                    media_types,
                    file_names,
                    sizes,
                    expires_at,
                    bytes,
                    blobs,
                    &self.results.digests,
                ],
            );
        }
        if !self.items.is_empty() {
            pipeline.push(Sql::PutItems, [&self.items, &self.ends]);
        }
        if !self.executions.is_empty() {
            pipeline.push(Sql::InsertExecutions, [&self.executions, &self.execution_jobs]);
        }
    }
}

/// Blobs that workers hold, and until when.
pub(super) struct HeldBlobs {
    ids: Vec<Uuid>,
    until: Vec<i64>,
}

impl HeldBlobs {
    pub(super) fn new(changes: &Changes) -> HeldBlobs {
        let (ids, until) =
            changes.blobs_held().map(|(blob, until)| (Uuid::from(blob), until.as_micros())).unzip();
        HeldBlobs { ids, until }
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.ids.is_empty() {
            pipeline.push(Sql::HoldBlobs, [&self.ids, &self.until]);
        }
    }
}

/// Results, and the blobs they take possession of.
#[derive(Default)]
struct Results<'a> {
    executions: Vec<Uuid>,
    media_types: Vec<&'a str>,
    file_names: Vec<Option<&'a str>>,
    sizes: Vec<i64>,
    expires_at: Vec<Option<i64>>,
    bytes: Vec<Option<&'a [u8]>>,
    blobs: Vec<Option<Uuid>>,
    digests: Vec<Option<&'a [u8]>>,
    /// The blobs once more, without gaps and in the order of their ids.
    named: Vec<Uuid>,
}

impl<'a> Results<'a> {
    fn new(results: &'a [NewResult]) -> Results<'a> {
        let mut columns = Results::default();
        let mut named = BTreeSet::new();
        for NewResult { execution, size, output, expires_at } in results {
            columns.executions.push((*execution).into());
            columns.media_types.push(&output.media_type);
            columns.file_names.push(output.file_name.as_deref());
            columns.sizes.push((*size).try_into().unwrap_or(i64::MAX));
            columns.expires_at.push(expires_at.map(Time::as_micros));
            let (bytes, blob, digest) = match &output.content {
                Content::Inline(bytes) => (Some(bytes.as_slice()), None, None),
                Content::Stored(blob) => (None, Some(blob.id), Some(blob.digest.as_slice())),
            };
            columns.bytes.push(bytes);
            columns.blobs.push(blob.map(Uuid::from));
            columns.digests.push(digest);
            named.extend(blob);
        }
        columns.named = named.into_iter().map(Uuid::from).collect();
        columns
    }

    /// Comes before the results themselves.
    fn push_named<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.named.is_empty() {
            pipeline.push(Sql::NameBlobs, [&self.named]);
        }
    }
}

/// New clients, who has had a key, and keys that are new or changed.
pub(super) struct Clients<'a> {
    ids: Vec<Uuid>,
    created_at: Vec<i64>,
    keyed: Vec<bool>,
    keyed_now: Vec<Uuid>,
    keys: Vec<Uuid>,
    key_clients: Vec<Uuid>,
    digests: Vec<&'a [u8]>,
    prefixes: Vec<&'a str>,
    key_created_at: Vec<i64>,
    expires_at: Vec<Option<i64>>,
    revoked_at: Vec<Option<i64>>,
    last_used_at: Vec<Option<i64>>,
    names: Vec<Option<&'a str>>,
    scopes: Vec<Option<i16>>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(changes: &'a Changes) -> Clients<'a> {
        let mut clients: Vec<&Client> = changes.clients.iter().collect();
        clients.sort_unstable_by_key(|client| client.id);
        let keys = || changes.api_keys.values();
        let moment = |at: Option<Time>| at.map(Time::as_micros);
        Clients {
            ids: clients.iter().map(|client| client.id.into()).collect(),
            created_at: clients.iter().map(|client| client.created_at.as_micros()).collect(),
            keyed: clients.iter().map(|client| client.keyed).collect(),
            keyed_now: changes.clients_keyed.iter().map(|&id| id.into()).collect(),
            keys: keys().map(|key| key.id.into()).collect(),
            key_clients: keys().map(|key| key.client.into()).collect(),
            digests: keys().map(|key| key.digest.as_slice()).collect(),
            prefixes: keys().map(|key| key.prefix.as_str()).collect(),
            key_created_at: keys().map(|key| key.created_at.as_micros()).collect(),
            expires_at: keys().map(|key| moment(key.expires_at)).collect(),
            revoked_at: keys().map(|key| moment(key.revoked_at)).collect(),
            last_used_at: keys().map(|key| moment(key.last_used_at)).collect(),
            names: keys().map(|key| key.name.as_deref()).collect(),
            scopes: keys().map(|key| key.scopes.to_bits().map(i16::from)).collect(),
        }
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.ids.is_empty() {
            pipeline.push(Sql::InsertClients, [&self.ids, &self.created_at, &self.keyed]);
        }
        if !self.keyed_now.is_empty() {
            pipeline.push(Sql::MarkKeyed, [&self.keyed_now]);
        }
        if !self.keys.is_empty() {
            let Clients { keys, key_clients, digests, prefixes, key_created_at, .. } = self;
            let Clients { expires_at, revoked_at, last_used_at, names, scopes, .. } = self;
            pipeline.push(
                Sql::SetApiKeys,
                [
                    keys,
                    key_clients,
                    digests,
                    prefixes,
                    key_created_at,
                    expires_at,
                    revoked_at,
                    last_used_at,
                    names,
                    scopes,
                ],
            );
        }
    }
}

//! Every statement, whole and readable as SQL; those of the journal, of lists and of rows set aside stand in `journal.rs`, `list.rs` and `aside.rs`. Each connection prepares all of them when it opens.
//!
//! Two rules keep locks from forming a circle. Whatever may have to wait for a lock takes it in this order: exact counts, clients by
//! id, jobs by id, limits by key, the first deliveries of chains by job and endpoint, deliveries by id, webhooks by id; then,
//! while writing, jobs, idempotency keys, unique keys, clients, each in the order of its key, and the journal last. Whatever is
//! found by looking around (shelves, due jobs, due deliveries) skips what others hold and never waits.

use super::{aside, blobs, journal, list, logs, marks, operator, rewrite, shelves};

/// Declares the statements and their texts.
macro_rules! statements {
    ($($(#[doc = $why:literal])* $name:ident = $text:expr;)*) => {
        /// A statement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Sql {
            $($(#[doc = $why])* $name,)*
        }

        impl Sql {
            /// All statements, in the order of their numbers.
            pub(super) const ALL: &'static [Sql] = &[$(Sql::$name,)*];

            /// The statement as SQL.
            pub(super) const fn text(self) -> &'static str {
                match self {
                    $(Sql::$name => $text,)*
                }
            }
        }
    };
}

statements! {
    /// Said aloud, because a database may have another level as its default.
    Begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
    Commit = "COMMIT";
    Rollback = "ROLLBACK";
    /// The time when it is asked, not when its transaction began.
    Now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

    // ── Loading ──

    /// A client is locked for the sake of its keys.
    LockClients = "SELECT id, created_at, keyed FROM clients WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE";
    FindApiKeys = "
        SELECT id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at, name, scopes
          FROM api_keys
         WHERE client = ANY ($1::uuid[])
         ORDER BY client, id";
    /// Waits for whoever holds one of them, in the order of the ids.
    LockJobs = "
        SELECT id, head, body
          FROM jobs
         WHERE id = ANY ($1::uuid[])
         ORDER BY id
           FOR UPDATE";
    /// The jobs asked for and those that keys point to, locked in one go, so that the order of the ids holds over both. The
    /// keys themselves are read afterwards: nobody can then change where they point, since that takes the lock of the job.
    LockRelated = "
        SELECT id, head, body
          FROM jobs
         WHERE id = ANY ($1::uuid[]
                   || ARRAY (SELECT unnest(found.jobs)
                               FROM unnest($2::uuid[], $3::text[], $4::text[]) AS want (client, operation, key)
                               JOIN idempotency AS found USING (client, operation, key))
                   || ARRAY (SELECT job FROM uniques WHERE key = ANY ($5::bytea[])))
         ORDER BY id
           FOR UPDATE";
    FindKeys = "
        SELECT client, operation, key, fingerprint, jobs
          FROM unnest($1::uuid[], $2::text[], $3::text[]) AS want (client, operation, key)
          JOIN idempotency USING (client, operation, key)";
    FindUniques = "SELECT key, job FROM uniques WHERE key = ANY ($1::bytea[])";
    /// In the order of the index, so the scan stops after the last row wanted.
    LockShelf = shelves::LOCK_SHELF;
    /// The same from a place on, within a priority.
    LockShelfFrom = shelves::LOCK_SHELF_FROM;
    CountShelf = shelves::COUNT_SHELF;
    LockDue = "
        SELECT id, head, body
          FROM jobs
         WHERE due_at <= $1::bigint
         ORDER BY due_at, id
         LIMIT $2::bigint
           FOR UPDATE SKIP LOCKED";
    /// Creates what is missing and locks what is there, in the order given: a row that does not exist cannot be locked,
    /// and two nodes would both find no job active. The update never happens, but its row is locked all the same.
    LockLimits = "
        INSERT INTO limits (key, active, turn_at)
        SELECT want.key, 0, 0 FROM unnest($1::text[]) AS want (key)
            ON CONFLICT (key) DO UPDATE SET active = limits.active WHERE false";
    FindLimits = "SELECT key, active, turn_at FROM limits WHERE key = ANY ($1::text[])";
    /// Held until the transaction ends. In a space of its own, apart from the locks with one number.
    LockCounts = "SELECT pg_advisory_xact_lock(18002, held.key) FROM unnest($1::integer[]) AS held (key)";
    /// Not locked: what is written of a record is refused if it changed meanwhile.
    FindRecords = "
        SELECT kind, key, grp, due_at, version, bytes
          FROM unnest($1::smallint[], $2::text[]) AS want (kind, key)
          JOIN records USING (kind, key)";
    /// Only of kinds that this version knows; `$3` has a bit for each.
    LockDueRecords = "
        SELECT kind, key, grp, due_at, version, bytes
          FROM records
         WHERE due_at <= $1::bigint AND kind < 63 AND ($3::bigint >> kind) & 1 = 1
         ORDER BY due_at
         LIMIT $2::bigint
           FOR UPDATE SKIP LOCKED";
    FindCounts = "
        SELECT queue,
               sum(created)::bigint, sum(queued)::bigint, sum(assigned)::bigint, sum(running)::bigint,
               sum(succeeded)::bigint, sum(failed)::bigint, sum(canceled)::bigint,
               sum(held)::bigint, sum(waiting)::bigint, sum(expired)::bigint
          FROM counts
         WHERE queue = ANY ($1::text[])
         GROUP BY queue";
    /// Of the queues that everybody shares: the keys of others have a slash.
    CountActive = "
        SELECT coalesce(sum(assigned + running), 0)::bigint FROM counts WHERE position('/' IN queue) = 0";
    /// What a batch is judged by besides what it holds, in one statement: a row for each record; the counts of each queue, which are not summed up here,
    /// because to begin ten sums takes longer than the rest; and a row that says whether there is any webhook. Nearly always there is none, and this
    /// says so for every client.
    FindContext = "
        SELECT kind, key, grp, due_at, version, bytes,
               NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
               NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
          FROM unnest($1::smallint[], $2::text[]) AS want (kind, key)
          JOIN records USING (kind, key)
         UNION ALL
        SELECT NULL, queue, NULL, NULL, NULL, NULL,
               created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired
          FROM counts
         WHERE queue = ANY ($3::text[])
         UNION ALL
        SELECT NULL, NULL, NULL, NULL, EXISTS (SELECT FROM webhooks)::integer, NULL,
               NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL";
    FindWebhooksOf = "SELECT id, body FROM webhooks WHERE client = ANY ($1::uuid[])";
    LockWebhooks = "SELECT id, body FROM webhooks WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE";
    /// The first delivery that is not settled of the chains named by job and endpoint, and of those of jobs to the webhooks of
    /// their clients. Whoever writes to a chain, be it a new delivery or the settling of the first, holds the first. The order
    /// of the outer rows is the order of the locks.
    LockChains = "
        SELECT
          FROM (SELECT job, endpoint FROM unnest($1::uuid[], $2::uuid[]) AS named (job, endpoint)
                 UNION
                SELECT told.job, webhooks.id
                  FROM unnest($3::uuid[], $4::uuid[]) AS told (job, client)
                  JOIN webhooks ON webhooks.client = told.client
                 ORDER BY 1, 2) AS chain
         CROSS JOIN LATERAL (SELECT
                               FROM deliveries
                              WHERE job = chain.job AND endpoint = chain.endpoint AND place IS NOT NULL
                              ORDER BY place
                              LIMIT 1
                                FOR UPDATE) AS first";
    /// What the chains are like now that they are held. Not told by the statement that locks: one that had to wait does not see
    /// what was added to a chain meanwhile, and settling the first would leave the second blocked for ever.
    FindChains = "
        SELECT found.id, found.body
          FROM (SELECT job, endpoint, most FROM unnest($1::uuid[], $2::uuid[], $5::bigint[]) AS named (job, endpoint, most)
                 UNION ALL
                SELECT told.job, webhooks.id, 1
                  FROM unnest($3::uuid[], $4::uuid[]) AS told (job, client)
                  JOIN webhooks ON webhooks.client = told.client) AS chain
         CROSS JOIN LATERAL (SELECT id, body
                               FROM deliveries
                              WHERE job = chain.job AND endpoint = chain.endpoint AND place IS NOT NULL
                              ORDER BY place
                              LIMIT chain.most) AS found";
    /// What comes after these deliveries in their chains, of which the caller holds the first.
    FindBehind = "
        SELECT first.id, next.id, next.body
          FROM deliveries AS first
         CROSS JOIN LATERAL (SELECT id, body
                               FROM deliveries
                              WHERE job = first.job AND endpoint = first.endpoint AND place > first.place
                              ORDER BY place
                              LIMIT 1) AS next
         WHERE first.id = ANY ($1::uuid[]) AND first.place IS NOT NULL";
    LockDeliveries = "
        SELECT deliveries.id, deliveries.body, webhooks.id, webhooks.body
          FROM deliveries
          LEFT JOIN webhooks ON webhooks.id = deliveries.endpoint
         WHERE deliveries.id = ANY ($1::uuid[])
         ORDER BY deliveries.id
           FOR UPDATE OF deliveries";
    /// With their webhooks, which are not locked.
    LockDueDeliveries = "
        SELECT due.id, due.body, webhooks.id, webhooks.body
          FROM (SELECT id, body, endpoint, due_at
                  FROM deliveries
                 WHERE due_at <= $1::bigint
                 ORDER BY due_at, id
                 LIMIT $2::bigint
                   FOR UPDATE SKIP LOCKED) AS due
          LEFT JOIN webhooks ON webhooks.id = due.endpoint
         ORDER BY due.due_at, due.id";
    /// 2 stands for given up.
    LockFailedDeliveries = "
        SELECT id, body
          FROM deliveries
         WHERE settled_at >= $1::bigint AND endpoint = $2::uuid AND status = 2
         ORDER BY settled_at, id
         LIMIT $3::bigint
           FOR UPDATE SKIP LOCKED";
    /// A key that does not exist yet cannot be locked, and two nodes that start together would both make the first.
    LockSigningKeys = "LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE";
    FindSigningKeys = "SELECT id, seed, created_at, retired_at FROM signing_keys ORDER BY id";

    // ── Writing ──

    /// With their inputs, of those that have one.
    InsertJobs = "
        WITH with_inputs AS (INSERT INTO inputs (job, input) SELECT * FROM unnest($12::uuid[], $13::bytea[])),
             with_marks AS (INSERT INTO job_marks (mark, job, client)
                            SELECT * FROM unnest($15::bytea[], $16::uuid[], $17::uuid[]))
        INSERT INTO jobs (id, client, queue, job_type, state, priority, lane, shelf, due_at, head, body, place)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::smallint[],
                             $7::smallint[], $8::text[], $9::bigint[], $10::bytea[], $11::bytea[], $14::uuid[])";
    UpdateJobs = "
        UPDATE jobs
           SET state = new.state, lane = new.lane, shelf = new.shelf, due_at = new.due_at, body = new.body
          FROM unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::text[], $5::bigint[], $6::bytea[])
            AS new (id, state, lane, shelf, due_at, body)
         WHERE jobs.id = new.id";
    /// Of jobs that take turns the place changes, too.
    UpdatePlacedJobs = "
        UPDATE jobs
           SET state = new.state, lane = new.lane, shelf = new.shelf, due_at = new.due_at, body = new.body, place = new.place
          FROM unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::text[], $5::bigint[], $6::bytea[], $7::uuid[])
            AS new (id, state, lane, shelf, due_at, body, place)
         WHERE jobs.id = new.id";
    DeleteJobs = "DELETE FROM jobs WHERE id = ANY ($1::uuid[])";
    InsertMarks = marks::INSERT;
    DeleteMark = marks::DELETE;
    DeleteMarks = marks::DELETE_ALL;
    DeleteInputs = "DELETE FROM inputs WHERE job = ANY ($1::uuid[])";
    DeleteOutcomes = "DELETE FROM outcomes WHERE execution = ANY ($1::uuid[])";
    /// Blobs of results that go are loose from now on.
    DeleteResults = "
          WITH gone AS (DELETE FROM results WHERE execution = ANY ($1::uuid[]) RETURNING execution, blob),
               dated AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS dated (execution, at))
        UPDATE blobs SET loose_at = dated.at
          FROM gone JOIN dated USING (execution)
         WHERE blobs.id = gone.blob";
    DeleteItems = "DELETE FROM items WHERE execution = ANY ($1::uuid[])";
    DeleteExecutions = "DELETE FROM executions WHERE execution = ANY ($1::uuid[])";
    InsertTombstones = "
        INSERT INTO tombstones (execution, client, at, kept)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[])
            ON CONFLICT (execution) DO UPDATE SET client = EXCLUDED.client, at = EXCLUDED.at, kept = EXCLUDED.kept";
    HoldBlobs = "
        UPDATE blobs SET loose_at = held.until
          FROM unnest($1::uuid[], $2::bigint[]) AS held (id, until)
         WHERE blobs.id = held.id AND loose_at IS NOT NULL AND NOT doomed";
    /// Comes before the results that name them. One whose chunks are being deleted can be named no more.
    NameBlobs = "
        UPDATE blobs SET loose_at = NULL
         WHERE id = ANY ($1::uuid[]) AND loose_at IS NOT NULL AND NOT doomed";
    /// Outcomes, and results where there are some. A blob that could not be named is NULL here, which the table refuses.
    InsertOutcomes = "
        WITH with_results AS (
             INSERT INTO results (execution, media_type, file_name, size, expires_at, bytes, blob, digest)
             SELECT new.execution, new.media_type, new.file_name, new.size, new.expires_at, new.bytes,
                    (SELECT blobs.id FROM blobs WHERE blobs.id = new.blob AND blobs.loose_at IS NULL), new.digest
               FROM unnest($5::uuid[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bytea[], $11::uuid[], $12::bytea[])
                 AS new (execution, media_type, file_name, size, expires_at, bytes, blob, digest))
        INSERT INTO outcomes (execution, job, bytes, digest)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[])";
    PutItems = "
        INSERT INTO items (execution, ends)
        SELECT * FROM unnest($1::uuid[], $2::bytea[])
            ON CONFLICT (execution) DO UPDATE SET ends = EXCLUDED.ends";
    InsertExecutions = "
        INSERT INTO executions (execution, job) SELECT * FROM unnest($1::uuid[], $2::uuid[])";
    DeleteKeys = "
        DELETE FROM idempotency
         USING unnest($1::uuid[], $2::text[], $3::text[]) AS gone (client, operation, key)
         WHERE idempotency.client = gone.client
           AND idempotency.operation = gone.operation
           AND idempotency.key = gone.key";
    /// A key that somebody else inserts at the same time is a unique violation, not an update: the batch is then decided
    /// again with the key in view. The jobs of all keys come as one list; a key has those from `first` to `last`.
    InsertKeys = "
        INSERT INTO idempotency (client, operation, key, fingerprint, jobs)
        SELECT client, operation, key, fingerprint, ($5::uuid[])[first:last]
          FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $6::integer[], $7::integer[])
            AS new (client, operation, key, fingerprint, first, last)";
    /// Likewise: only for keys that nobody held when they were looked up.
    InsertUniques = "INSERT INTO uniques (key, job) SELECT * FROM unnest($1::bytea[], $2::uuid[])";
    UpdateUniques = "
        UPDATE uniques SET job = new.job
          FROM unnest($1::bytea[], $2::uuid[]) AS new (key, job)
         WHERE uniques.key = new.key";
    DeleteUniques = "
        DELETE FROM uniques
         USING unnest($1::bytea[], $2::uuid[]) AS gone (key, job)
         WHERE uniques.key = gone.key AND uniques.job = gone.job";
    UpdateLimits = "
        UPDATE limits SET active = new.active, turn_at = new.turn_at
          FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS new (key, active, turn_at)
         WHERE limits.key = new.key";
    /// What was seen goes first. What another node changed or deleted meanwhile is inserted twice, which always violates the key: the
    /// batch is decided again. Counting the rows that went would need an answer before the commit.
    DeleteRecords = "
        WITH seen AS (SELECT * FROM unnest($1::smallint[], $2::text[], $3::bigint[]) AS seen (kind, key, version)),
             gone AS (DELETE FROM records USING seen
                       WHERE records.kind = seen.kind AND records.key = seen.key AND records.version = seen.version
                   RETURNING records.kind, records.key)
        INSERT INTO records (kind, key, grp, version, bytes)
        SELECT kind, key, '', version, '' FROM seen, generate_series(1, 2)
         WHERE NOT EXISTS (SELECT FROM gone WHERE gone.kind = seen.kind AND gone.key = seen.key)";
    InsertRecords = "
        INSERT INTO records (kind, key, grp, due_at, version, bytes)
        SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[])";
    InsertClients = "
        INSERT INTO clients (id, created_at, keyed)
        SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::boolean[])";
    MarkKeyed = "UPDATE clients SET keyed = true WHERE id = ANY ($1::uuid[])";
    SetApiKeys = "
        INSERT INTO api_keys (id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at, name, scopes)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
                             $8::bigint[], $9::text[], $10::smallint[])
            ON CONFLICT (id) DO UPDATE
           SET expires_at = EXCLUDED.expires_at,
               revoked_at = EXCLUDED.revoked_at,
               last_used_at = EXCLUDED.last_used_at";
    /// A URL that somebody else registers at the same time is a unique violation: the batch is then decided again.
    SetWebhooks = "
        INSERT INTO webhooks (id, client, url, body)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[])
            ON CONFLICT (id) DO UPDATE SET url = EXCLUDED.url, body = EXCLUDED.body";
    DeleteWebhooks = "DELETE FROM webhooks WHERE id = ANY ($1::uuid[])";
    InsertDeliveries = "
        INSERT INTO deliveries (id, job, endpoint, status, place, due_at, settled_at, body)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[],
                             $8::bytea[])";
    UpdateDeliveries = "
        UPDATE deliveries
           SET status = new.status, place = new.place, due_at = new.due_at, settled_at = new.settled_at, body = new.body
          FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])
            AS new (id, status, place, due_at, settled_at, body)
         WHERE deliveries.id = new.id";
    DeleteDeliveriesOf = "DELETE FROM deliveries WHERE job = ANY ($1::uuid[])";
    SetSigningKeys = "
        INSERT INTO signing_keys (id, seed, created_at, retired_at)
        SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bigint[])
            ON CONFLICT (id) DO UPDATE SET retired_at = EXCLUDED.retired_at";
    DeleteSigningKeys = "DELETE FROM signing_keys WHERE id = ANY ($1::uuid[])";

    TakeJobsAway = aside::TAKE_JOBS_AWAY;
    TakeDeliveriesAway = aside::TAKE_DELIVERIES_AWAY;
    PutAside = aside::PUT;
    DeleteAside = aside::DELETE;
    ListAside = aside::LIST;

    // ── The journal ──

    Conclude = journal::CONCLUDE;
    Submit = journal::SUBMIT;
    Notify = journal::NOTIFY;

    // ── Reading ──

    ReadInputs = "SELECT job, input FROM inputs WHERE job = ANY ($1::uuid[])";
    ReadJobOf = "SELECT job FROM executions WHERE execution = $1::uuid";
    ReadOutcome = "SELECT execution, job, bytes, digest FROM outcomes WHERE execution = $1::uuid";
    ReadResults = "
        SELECT media_type, file_name, size, expires_at, bytes, blob, digest, execution
          FROM results
         WHERE execution = ANY ($1::uuid[])";
    ReadItems = "SELECT ends FROM items WHERE execution = $1::uuid";
    ReadTombstone = "SELECT client, at, kept FROM tombstones WHERE execution = $1::uuid";
    ListJobs = list::JOBS;
    ListJobsOfClient = list::JOBS_OF_CLIENT;
    ListMarked = list::MARKED;
    ListMarkedOfClient = list::MARKED_OF_CLIENT;
    ListWorkflows = list::WORKFLOWS;
    ListWorkflowsOfClient = list::WORKFLOWS_OF_CLIENT;
    ListJobsInStates = list::JOBS_IN_STATES;
    ListJobsInStatesOfAll = list::JOBS_IN_STATES_OF_ALL;
    CountClients = list::COUNT_CLIENTS;
    /// Sorts the shelf by age; fit for a look at what waits. Dead letters may be many and have an index for it.
    ReadShelf = "
        SELECT id, head, body
          FROM jobs
         WHERE lane = $1::smallint AND shelf = $2::text AND id > $3::uuid
         ORDER BY id
         LIMIT $4::bigint";
    ReadOldest = operator::OLDEST;
    ReadDead = "
        SELECT id, head, body
          FROM jobs
         WHERE lane = 4 AND shelf = $1::text AND id > $2::uuid
         ORDER BY id
         LIMIT $3::bigint";
    CountDead = "SELECT count(*) FROM (SELECT FROM jobs WHERE lane = 4 LIMIT $1::bigint) AS dead";
    /// Along the index from which claims take: of one priority, the older comes first.
    ReadFront = shelves::READ_FRONT;
    ReadFrontJobs = shelves::READ_FRONT_JOBS;
    ReadWaiting = "SELECT coalesce(sum(queued), 0)::bigint FROM counts WHERE queue = $1::text";
    ReadNextDue = "
        SELECT min(due_at)
          FROM ((SELECT due_at FROM jobs WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)
                 UNION ALL
                (SELECT due_at
                   FROM records
                  WHERE due_at IS NOT NULL AND kind < 63 AND ($1::bigint >> kind) & 1 = 1
                  ORDER BY due_at
                  LIMIT 1)) AS next";
    /// The limits whose keys begin with something.
    ReadLimits = "
        SELECT key, active, turn_at
          FROM limits
         WHERE key >= $1::text AND key < $2::text
         ORDER BY key
         LIMIT $3::bigint";
    /// The queues whose keys begin with something: from it on, up to what follows all of them.
    ReadQueues = "
        SELECT queue,
               sum(created)::bigint, sum(queued)::bigint, sum(assigned)::bigint, sum(running)::bigint,
               sum(succeeded)::bigint, sum(failed)::bigint, sum(canceled)::bigint,
               sum(held)::bigint, sum(waiting)::bigint, sum(expired)::bigint
          FROM counts
         WHERE queue > $1::text AND queue < $2::text
         GROUP BY queue
         ORDER BY queue";
    ReadActivity = "
        SELECT coalesce(sum(submitted), 0)::bigint, coalesce(sum(started), 0)::bigint,
               coalesce(sum(succeeded), 0)::bigint, coalesce(sum(failed), 0)::bigint,
               coalesce(sum(waited_ms), 0)::bigint, coalesce(sum(ran_ms), 0)::bigint
          FROM activity
         WHERE queue = $1::text AND minute >= $2::bigint";
    /// The dead letters of a client, by age; of one queue or of all.
    ReadDeadOf = "
        SELECT id, head, body
          FROM jobs
         WHERE lane = 4 AND client = $1::uuid AND id > $2::uuid AND ($4::text IS NULL OR queue = $4)
         ORDER BY id
         LIMIT $3::bigint";
    /// The names of the shelves of a lane, each found with one step in the index.
    ReadShelfNames = shelves::READ_SHELF_NAMES;
    ReadRecords = "
        SELECT kind, key, grp, due_at, version, bytes
          FROM records
         WHERE kind = $1::smallint AND grp = $2::text AND key > $3::text
         ORDER BY key
         LIMIT $4::bigint";
    ReadAllRecords = "
        SELECT kind, key, grp, due_at, version, bytes
          FROM records
         WHERE kind = $1::smallint AND key > $2::text
         ORDER BY key
         LIMIT $3::bigint";
    ReadClient = "SELECT id, created_at, keyed FROM clients WHERE id = $1::uuid";
    ReadApiKey = "
        SELECT id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at, name, scopes
          FROM api_keys
         WHERE digest = $1::bytea";
    ReadDrawn = journal::READ_DRAWN;
    ReadDrawing = journal::READ_DRAWING;
    ReadJournal = journal::READ;
    ReadJournalEnd = journal::READ_END;
    ReadJournalBefore = journal::READ_BEFORE;

    ReadJobs = "SELECT id, head, body FROM jobs WHERE id = ANY ($1::uuid[])";
    ReadOutcomes = "SELECT execution, job, bytes, digest FROM outcomes WHERE execution = ANY ($1::uuid[])";
    ReadWebhook = "SELECT id, body FROM webhooks WHERE id = $1::uuid";
    /// A client has few: sorting them is nothing.
    ReadWebhooks = "
        SELECT id, body
          FROM webhooks
         WHERE client = $1::uuid AND id > $2::uuid
         ORDER BY id
         LIMIT $3::bigint";
    ReadDelivery = "SELECT id, body FROM deliveries WHERE id = $1::uuid";
    ListDeliveriesTo = list::TO_WEBHOOK;
    ListDeliveriesGivenUp = list::GIVEN_UP;
    ListDeliveriesOf = list::OF_JOB;
    ReadFailed = operator::FAILED;
    CountFailed = operator::COUNT_FAILED;
    ReadActivityByQueue = operator::ACTIVITY_BY_QUEUE;
    ReadActivityByMinute = operator::ACTIVITY_BY_MINUTE;
    ReadClients = operator::CLIENTS;
    ReadAllWebhooks = operator::WEBHOOKS;
    ReadNextDelivery = "SELECT due_at FROM deliveries WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1";

    // ── Blobs ──

    ReadStoreId = "SELECT id FROM store";
    BeginBlob = "INSERT INTO blobs (id, loose_at, place) VALUES ($1::uuid, $2::bigint, $3::smallint)";
    NoteUpload = "UPDATE blobs SET upload = $2::text WHERE id = $1::uuid";
    TouchBlob = "
        UPDATE blobs SET loose_at = $2::bigint WHERE id = $1::uuid AND loose_at IS NOT NULL AND NOT doomed";
    InsertChunk = "INSERT INTO blob_chunks (blob, start, bytes) VALUES ($1::uuid, $2::bigint, $3::bytea)";
    /// The chunk in which a byte lies: one step in the index.
    ReadChunk = "
        SELECT start, bytes
          FROM blob_chunks
         WHERE blob = $1::uuid AND start <= $2::bigint
         ORDER BY start DESC
         LIMIT 1";
    FindBlob = "SELECT place FROM blobs WHERE id = $1::uuid";
    UnknownBlobs = blobs::UNKNOWN;
    DoomBlobs = blobs::DOOM;
    DeleteChunks = "
        DELETE FROM blob_chunks
         WHERE blob = $1::uuid
           AND start IN (SELECT start FROM blob_chunks WHERE blob = $1::uuid ORDER BY start LIMIT $2::bigint)";
    BuryBlob = "DELETE FROM blobs WHERE id = $1::uuid AND doomed";

    // ── Logs ──

    LockLogs = logs::LOCK;
    ReadLastChunks = logs::LAST;
    InsertLogChunks = logs::INSERT;
    TrimLogs = logs::TRIM;
    ReadLogs = logs::READ;
    SumLogs = logs::SUM;
    SumLogsOfAttempt = logs::SUM_OF_ATTEMPT;
    ReadLogBytes = logs::BYTES_OF;
    DeleteLogs = "DELETE FROM log_chunks WHERE job = ANY ($1::uuid[])";
    FindLogBite = logs::BITE;
    SweepLogs = logs::SWEEP;

    // ── Rewriting ──

    RewriteInput = "UPDATE inputs SET input = $2::bytea WHERE job = $1::uuid";
    RewriteOutcome = "UPDATE outcomes SET bytes = $2::bytea, digest = $3::bytea WHERE execution = $1::uuid";
    RewriteResult = "UPDATE results SET bytes = $2::bytea WHERE execution = $1::uuid AND bytes IS NOT NULL";
    RewriteBlob = rewrite::BLOB;
    RewriteLog = "UPDATE log_chunks SET content = $3::bytea WHERE job = $1::uuid AND last = $2::bigint";

    // ── Sweeping ──

    SweepActivity = "DELETE FROM activity WHERE minute < $1::bigint";
    /// How many queues have counts although they have no job. Clients choose the names of queues, so there must be an end to them.
    CountEmptyQueues = "
        SELECT count(*)
          FROM (SELECT FROM counts GROUP BY queue
                HAVING sum(created) = 0 AND sum(queued) = 0 AND sum(assigned) = 0 AND sum(running) = 0 AND sum(succeeded) = 0
                   AND sum(failed) = 0 AND sum(canceled) = 0 AND sum(held) = 0 AND sum(waiting) = 0 AND sum(expired) = 0) AS empty";
    /// Whoever counts meanwhile must be waited for: else a number could go with the row.
    LockCountsTable = "LOCK TABLE counts IN SHARE ROW EXCLUSIVE MODE";
    DeleteEmptyQueues = "
        DELETE FROM counts
         WHERE queue IN (SELECT queue FROM counts GROUP BY queue
                         HAVING sum(created) = 0 AND sum(queued) = 0 AND sum(assigned) = 0 AND sum(running) = 0 AND sum(succeeded) = 0
                            AND sum(failed) = 0 AND sum(canceled) = 0 AND sum(held) = 0 AND sum(waiting) = 0 AND sum(expired) = 0)";

    /// Removes the content of expired results; their blobs are loose from now on.
    RemoveExpired = "
          WITH bite AS (SELECT execution, blob
                          FROM results
                         WHERE NOT removed AND expires_at IS NOT NULL AND expires_at <= $1::bigint
                         ORDER BY expires_at, execution
                         LIMIT $2::bigint
                           FOR UPDATE SKIP LOCKED),
               loose AS (UPDATE blobs SET loose_at = $1::bigint FROM bite WHERE blobs.id = bite.blob)
        UPDATE results SET removed = true, bytes = NULL, blob = NULL, digest = NULL
          FROM bite
         WHERE results.execution = bite.execution";

    SweepJournal = journal::SWEEP;
    SweepApiKeys = "
        DELETE FROM api_keys
         WHERE id IN (SELECT id FROM api_keys WHERE revoked_at < $1::bigint ORDER BY revoked_at LIMIT $2::bigint)";
    SweepDeliveries = "
        DELETE FROM deliveries
         WHERE id IN (SELECT id FROM deliveries WHERE settled_at < $1::bigint ORDER BY settled_at LIMIT $2::bigint)";
    /// Not those that somebody is about to use; one that goes while somebody waits for it is made again.
    SweepLimits = "
        DELETE FROM limits
         WHERE key IN (SELECT key FROM limits WHERE active = 0 AND turn_at < $1::bigint
                        ORDER BY turn_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED)";
    SweepTombstones = "
        DELETE FROM tombstones
         WHERE execution IN (SELECT execution FROM tombstones WHERE at < $1::bigint ORDER BY at LIMIT $2::bigint)";
}

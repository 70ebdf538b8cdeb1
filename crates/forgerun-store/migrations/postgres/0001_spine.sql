-- The spine: jobs, what belongs to them, and the journal.
--
-- Names are compared byte by byte (COLLATE "C"): an index must not depend on the operating system's idea of a language,
-- which changes under it with the next upgrade. Moments are microseconds since 1970, UTC. `head`, `body` and `input` are
-- laid out by forge-core; a column exists only where an index or a filter needs it.

-- Fixed-size columns first, so that nothing is lost to alignment.
--
-- An update nearly always moves a job to another shelf or another due time, which are indexed: it cannot be heap-only.
-- Keeping shelves and due times in tables of their own was measured too: two thirds of the updates became heap-only,
-- and a lifecycle still took a quarter longer, because each step then touched two tables more.
CREATE TABLE jobs (
    id         uuid     NOT NULL,
    client     uuid     NOT NULL,
    due_at     bigint,
    state      smallint NOT NULL,
    priority   smallint NOT NULL,
    lane       smallint,
    shelf      text     COLLATE "C",
    queue      text     COLLATE "C" NOT NULL,
    job_type   text     COLLATE "C" NOT NULL,
    head       bytea    NOT NULL,
    body       bytea    NOT NULL,
    CONSTRAINT jobs_pkey PRIMARY KEY (id)
) WITH (
    fillfactor = 85,
    -- A claim walks past what was claimed since the last vacuum. By default that waits until a fifth of the table has
    -- changed, ended jobs included, so it would come ever later as the table grows.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- Only jobs that somebody may look for: an ended job is not in the way of a claim.
CREATE INDEX jobs_shelf ON jobs (lane, shelf, priority DESC, id) WHERE lane IS NOT NULL;
-- With the id, because a hundred thousand jobs may be due at the same midnight, and are taken in bites.
CREATE INDEX jobs_due ON jobs (due_at, id) WHERE due_at IS NOT NULL;
-- Dead letters are listed by age, whatever their priority. 4 is their lane.
CREATE INDEX jobs_dead ON jobs (shelf, id) WHERE lane = 4;
CREATE INDEX jobs_client ON jobs (client, id);

CREATE TABLE inputs (
    job        uuid     NOT NULL,
    input      bytea    NOT NULL,
    CONSTRAINT inputs_pkey PRIMARY KEY (job)
);

-- Written once, never updated.
CREATE TABLE outcomes (
    execution  uuid     NOT NULL,
    job        uuid     NOT NULL,
    bytes      bytea    NOT NULL,
    digest     bytea    NOT NULL,
    CONSTRAINT outcomes_pkey PRIMARY KEY (execution)
);

CREATE TABLE results (
    execution  uuid     NOT NULL,
    media_type text     NOT NULL,
    bytes      bytea    NOT NULL,
    CONSTRAINT results_pkey PRIMARY KEY (execution)
);

-- Executions opened by a manual retry. A first execution has its job's id and no row.
CREATE TABLE executions (
    execution  uuid     NOT NULL,
    job        uuid     NOT NULL,
    CONSTRAINT executions_pkey PRIMARY KEY (execution)
);

CREATE TABLE tombstones (
    execution  uuid     NOT NULL,
    client     uuid     NOT NULL,
    at         bigint   NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (execution)
);
CREATE INDEX tombstones_at ON tombstones (at);

CREATE TABLE idempotency (
    client      uuid    NOT NULL,
    operation   text    COLLATE "C" NOT NULL,
    key         text    COLLATE "C" NOT NULL,
    fingerprint bytea   NOT NULL,
    jobs        uuid[]  NOT NULL,
    CONSTRAINT idempotency_pkey PRIMARY KEY (client, operation, key)
);

CREATE TABLE uniques (
    key        bytea    NOT NULL,
    job        uuid     NOT NULL,
    CONSTRAINT uniques_pkey PRIMARY KEY (key)
);

CREATE TABLE limits (
    key        text     COLLATE "C" NOT NULL,
    active     bigint   NOT NULL,
    turn_at    bigint   NOT NULL,
    CONSTRAINT limits_pkey PRIMARY KEY (key)
) WITH (fillfactor = 50);

CREATE TABLE queues (
    name       text     COLLATE "C" NOT NULL,
    paused     boolean  NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (name)
);

CREATE TABLE clients (
    id         uuid     NOT NULL,
    created_at bigint   NOT NULL,
    CONSTRAINT clients_pkey PRIMARY KEY (id)
);

-- Secrets are not here: a key is known by the digest of its secret.
CREATE TABLE api_keys (
    id           uuid   NOT NULL,
    client       uuid   NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint,
    digest       bytea  NOT NULL,
    prefix       text   NOT NULL,
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_keys_digest UNIQUE (digest)
);
CREATE INDEX api_keys_client ON api_keys (client, id);
CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;

-- Several rows per queue, which are summed up when read: each connection has a row of its own to count in, so that two
-- transactions do not wait for each other's commit.
CREATE TABLE counts (
    queue      text     COLLATE "C" NOT NULL,
    slot       smallint NOT NULL,
    created    bigint   NOT NULL,
    queued     bigint   NOT NULL,
    assigned   bigint   NOT NULL,
    running    bigint   NOT NULL,
    succeeded  bigint   NOT NULL,
    failed     bigint   NOT NULL,
    canceled   bigint   NOT NULL,
    CONSTRAINT counts_pkey PRIMARY KEY (queue, slot)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row per transaction. The numbers come from a sequence and not from the newest row, because a swept journal must
-- not begin again at one.
CREATE TABLE journal (
    seq        bigint   NOT NULL,
    at         bigint   NOT NULL,
    entries    bytea    NOT NULL,
    CONSTRAINT journal_pkey PRIMARY KEY (seq)
);
CREATE SEQUENCE journal_seq MINVALUE 0 START 0 OWNED BY journal.seq;
-- From now on the sequence tells the last number drawn, and none was.
SELECT setval('journal_seq', 0);

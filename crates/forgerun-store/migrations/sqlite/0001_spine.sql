-- Ids are sixteen bytes, moments are microseconds since the epoch (UTC). `head`, `body`, `entries` and the like are the
-- core's own layout: opaque here. A table has columns beside them only for what an index or a filter needs.

-- `n` is the number of the row. With the id as the only key, whole rows would stand in the inner pages of the tree, which
-- becomes deep: at a million jobs that cost a third of the rate.
CREATE TABLE jobs (
    n        INTEGER PRIMARY KEY,
    id       BLOB    NOT NULL UNIQUE,
    client   BLOB    NOT NULL,
    queue    TEXT    NOT NULL,
    job_type TEXT    NOT NULL,
    state    INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    lane     INTEGER,           -- NULL: on no shelf
    shelf    TEXT,              -- the name of the shelf in its lane
    due_at   INTEGER,           -- NULL: nothing happens by itself
    head     BLOB    NOT NULL,
    body     BLOB    NOT NULL
);

-- What a claim walks along. Jobs that stand on no shelf are not in it, so it stays small however many have ended.
CREATE INDEX jobs_shelf ON jobs (lane, shelf, priority DESC, id) WHERE lane IS NOT NULL;

CREATE INDEX jobs_due ON jobs (due_at, id) WHERE due_at IS NOT NULL;

-- Lists of one client's jobs, newest first.
CREATE INDEX jobs_client ON jobs (client, id);

-- The raw bytes of a job, apart from it, so that a change of the job does not write them again.
CREATE TABLE inputs (
    job   INTEGER PRIMARY KEY,  -- jobs.n
    bytes BLOB    NOT NULL
);

-- Objects of some size stand in tables with row numbers: these keep up to a page of bytes beside the row.
CREATE TABLE outcomes (
    execution BLOB NOT NULL UNIQUE,
    job       BLOB NOT NULL,
    digest    BLOB NOT NULL,
    bytes     BLOB NOT NULL
);

CREATE TABLE results (
    execution  BLOB NOT NULL UNIQUE,
    media_type TEXT NOT NULL,
    bytes      BLOB NOT NULL
);

-- Executions opened by a manual retry. The first execution of a job has the job's id and no row.
CREATE TABLE executions (
    id  BLOB NOT NULL PRIMARY KEY,
    job BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE tombstones (
    execution BLOB    NOT NULL PRIMARY KEY,
    client    BLOB    NOT NULL,
    at        INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX tombstones_at ON tombstones (at);

CREATE TABLE idempotency (
    client      BLOB NOT NULL,
    operation   TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    jobs        BLOB NOT NULL,  -- ids in order, one after the other
    PRIMARY KEY (client, operation, key)
) WITHOUT ROWID;

CREATE TABLE uniques (
    key BLOB NOT NULL PRIMARY KEY,
    job BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE limits (
    key     TEXT    NOT NULL PRIMARY KEY,
    active  INTEGER NOT NULL,
    turn_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE queues (
    name   TEXT    NOT NULL PRIMARY KEY,
    paused INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE clients (
    id         BLOB    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE api_keys (
    id           BLOB    NOT NULL PRIMARY KEY,
    client       BLOB    NOT NULL,
    digest       BLOB    NOT NULL,
    prefix       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) WITHOUT ROWID;

CREATE INDEX api_keys_client ON api_keys (client, id);

CREATE INDEX api_keys_digest ON api_keys (digest);

CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;

-- How many jobs of a queue stand in each state. No queue has the empty name: that row is the sum over all queues, so
-- that nobody adds up a thousand queues with every claim.
CREATE TABLE counts (
    queue     TEXT    NOT NULL PRIMARY KEY,
    created   INTEGER NOT NULL DEFAULT 0,
    queued    INTEGER NOT NULL DEFAULT 0,
    assigned  INTEGER NOT NULL DEFAULT 0,
    running   INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    canceled  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

INSERT INTO counts (queue) VALUES ('');

-- One row per transaction. AUTOINCREMENT: a number never comes back, even when everything before it was swept, so that a
-- reader's place stays good.
CREATE TABLE journal (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    entries BLOB    NOT NULL
);

CREATE INDEX journal_at ON journal (at);

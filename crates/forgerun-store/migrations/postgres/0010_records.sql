-- Records: rows whose meaning only the core knows. A new kind of them needs no table.
CREATE TABLE records (
    kind       smallint NOT NULL,
    key        text     COLLATE "C" NOT NULL,
    grp        text     COLLATE "C" NOT NULL,
    due_at     bigint,
    version    bigint   NOT NULL,
    bytes      bytea    NOT NULL,
    CONSTRAINT records_pkey PRIMARY KEY (kind, key)
) WITH (fillfactor = 50);
-- Records of one kind and group are listed together.
CREATE INDEX records_group ON records (kind, grp, key);
CREATE INDEX records_due ON records (due_at) WHERE due_at IS NOT NULL;

-- Pauses of queues were rows of their own. 1 is the kind of queue settings; the bytes say: paused and first set at the epoch.
INSERT INTO records (kind, key, grp, version, bytes)
SELECT 1, name, '', 1, '\x010101040101'
  FROM queues
 WHERE paused;
DROP TABLE queues;

-- Work for workers outside (lane 1) waits in queues of its owner, and dead letters (lane 4) are listed by owner. The key of such a
-- queue is client, tenant and name; nobody had a tenant yet.
UPDATE jobs SET shelf = replace(client::text, '-', '') || '//' || queue WHERE lane IN (1, 4);

-- Where jobs stand, more exactly than by state.
ALTER TABLE counts
    ADD COLUMN held    bigint NOT NULL DEFAULT 0,
    ADD COLUMN waiting bigint NOT NULL DEFAULT 0,
    ADD COLUMN expired bigint NOT NULL DEFAULT 0;

INSERT INTO counts (queue, slot, created, queued, assigned, running, succeeded, failed, canceled)
SELECT shelf, 0, 0, count(*), 0, 0, 0, 0, 0 FROM jobs WHERE lane = 1 GROUP BY shelf;
INSERT INTO counts (queue, slot, created, queued, assigned, running, succeeded, failed, canceled)
SELECT queue, 0, 0, -count(*), 0, 0, 0, 0, 0 FROM jobs WHERE lane = 1 GROUP BY queue
    ON CONFLICT (queue, slot) DO UPDATE SET queued = counts.queued + EXCLUDED.queued;

-- What happened in a queue within a minute since the epoch. As with counts, each connection has rows of its own.
CREATE TABLE activity (
    queue      text     COLLATE "C" NOT NULL,
    minute     bigint   NOT NULL,
    slot       smallint NOT NULL,
    submitted  bigint   NOT NULL,
    started    bigint   NOT NULL,
    succeeded  bigint   NOT NULL,
    failed     bigint   NOT NULL,
    waited_ms  bigint   NOT NULL,
    ran_ms     bigint   NOT NULL,
    CONSTRAINT activity_pkey PRIMARY KEY (queue, minute, slot)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX activity_minute ON activity (minute);

-- The dead letters of one client, by age.
CREATE INDEX jobs_dead_client ON jobs (client, id) WHERE lane = 4;

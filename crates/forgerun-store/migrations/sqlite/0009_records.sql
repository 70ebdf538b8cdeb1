-- Records: rows whose meaning only the core knows. A new kind of them needs no table.
CREATE TABLE records (
    kind    INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    grp     TEXT    NOT NULL,  -- records of one kind and group are listed together
    due_at  INTEGER,           -- NULL: nothing happens by itself
    version INTEGER NOT NULL,
    bytes   BLOB    NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE INDEX records_group ON records (kind, grp, key);

CREATE INDEX records_due ON records (due_at) WHERE due_at IS NOT NULL;

-- Pauses of queues were rows of their own. 1 is the kind of queue settings; the bytes say: paused and first set at the epoch.
INSERT INTO records (kind, key, grp, version, bytes)
SELECT 1, name, '', 1, x'010101040101'
FROM queues
WHERE paused;

DROP TABLE queues;

-- Work for workers outside (lane 1) waits in queues of its owner, and dead letters (lane 4) are listed by owner. The key of such a
-- queue is client, tenant and name; nobody had a tenant yet.
UPDATE jobs
SET shelf = lower(hex(client)) || '//' || queue
WHERE lane IN (1, 4);

-- Where jobs stand, more exactly than by state.
ALTER TABLE counts ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN expired INTEGER NOT NULL DEFAULT 0;

INSERT INTO counts (queue, queued)
SELECT shelf, count(*)
FROM jobs
WHERE lane = 1
GROUP BY shelf;

UPDATE counts
SET queued = queued - (SELECT count(*) FROM jobs WHERE lane = 1 AND jobs.queue = counts.queue)
WHERE instr(queue, '/') = 0 AND queue <> '';

-- The row of all queues together is from now on about those that everybody shares.
UPDATE counts
SET queued = queued - (SELECT count(*) FROM jobs WHERE lane = 1)
WHERE queue = '';

-- What happened in a queue within a minute since the epoch.
CREATE TABLE activity (
    queue     TEXT    NOT NULL,
    minute    INTEGER NOT NULL,
    submitted INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    waited_ms INTEGER NOT NULL,
    ran_ms    INTEGER NOT NULL,
    PRIMARY KEY (queue, minute)
) WITHOUT ROWID;

CREATE INDEX activity_minute ON activity (minute);

-- The dead letters of one client, by age.
CREATE INDEX jobs_dead ON jobs (client, id) WHERE lane = 4;

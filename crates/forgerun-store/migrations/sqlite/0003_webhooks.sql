-- Webhooks, what is sent to them, and the keys it is signed with. `body` is the core's own layout.

CREATE TABLE webhooks (
    id     BLOB NOT NULL PRIMARY KEY,
    client BLOB NOT NULL,
    url    TEXT NOT NULL,
    body   BLOB NOT NULL
) WITHOUT ROWID;

-- One webhook per client and URL; and how every event finds those who want to hear of it.
CREATE UNIQUE INDEX webhooks_client ON webhooks (client, url);

CREATE TABLE deliveries (
    n          INTEGER PRIMARY KEY,
    id         BLOB    NOT NULL UNIQUE,
    job        BLOB,              -- NULL: about no job
    endpoint   BLOB    NOT NULL,  -- the webhook, or sixteen zeros for a job's callback
    status     INTEGER NOT NULL,
    place      INTEGER,           -- its place in its chain, until it is settled
    due_at     INTEGER,           -- NULL: nothing to send, or not yet its turn
    settled_at INTEGER,           -- NULL: still to be delivered
    body       BLOB    NOT NULL
);

-- What a courier walks along.
CREATE INDEX deliveries_due ON deliveries (due_at, id) WHERE due_at IS NOT NULL;

-- What is to be sent to one endpoint about one job, in order.
CREATE INDEX deliveries_chain ON deliveries (job, endpoint, place) WHERE place IS NOT NULL;

-- What goes with a job, and lists of it.
CREATE INDEX deliveries_job ON deliveries (job, id) WHERE job IS NOT NULL;

-- Lists of what was sent to a webhook, newest first.
CREATE INDEX deliveries_endpoint ON deliveries (endpoint, id);

-- What may be swept.
CREATE INDEX deliveries_settled ON deliveries (settled_at, id) WHERE settled_at IS NOT NULL;

-- What was given up since a moment. 2 stands for that.
CREATE INDEX deliveries_failed ON deliveries (endpoint, settled_at, id) WHERE status = 2;

CREATE TABLE signing_keys (
    id         BLOB    NOT NULL PRIMARY KEY,
    seed       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) WITHOUT ROWID;

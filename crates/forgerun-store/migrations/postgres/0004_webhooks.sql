-- Webhooks, what is sent to them, and the keys it is signed with. `body` is laid out by forge-core.

CREATE TABLE webhooks (
    id         uuid     NOT NULL,
    client     uuid     NOT NULL,
    url        text     COLLATE "C" NOT NULL,
    body       bytea    NOT NULL,
    CONSTRAINT webhooks_pkey PRIMARY KEY (id),
    -- One webhook per client and URL; and how every event finds those who want to hear of it.
    CONSTRAINT webhooks_url UNIQUE (client, url)
) WITH (fillfactor = 70);

-- A delivery is written once and changes two or three times; what is taken and settled leaves the due index at once.
CREATE TABLE deliveries (
    id         uuid     NOT NULL,
    job        uuid,
    -- The webhook, or zeros for a job's callback.
    endpoint   uuid     NOT NULL,
    due_at     bigint,
    settled_at bigint,
    -- The place in its chain, until it is settled.
    place      bigint,
    status     smallint NOT NULL,
    body       bytea    NOT NULL,
    CONSTRAINT deliveries_pkey PRIMARY KEY (id)
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX deliveries_due ON deliveries (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_chain ON deliveries (job, endpoint, place) WHERE place IS NOT NULL;
CREATE INDEX deliveries_job ON deliveries (job, id) WHERE job IS NOT NULL;
CREATE INDEX deliveries_endpoint ON deliveries (endpoint, id);
CREATE INDEX deliveries_settled ON deliveries (settled_at, id) WHERE settled_at IS NOT NULL;
-- What was given up, to be sent again. 2 stands for that.
CREATE INDEX deliveries_failed ON deliveries (endpoint, settled_at, id) WHERE status = 2;

CREATE TABLE signing_keys (
    id         uuid     NOT NULL,
    seed       bytea    NOT NULL,
    created_at bigint   NOT NULL,
    retired_at bigint,
    CONSTRAINT signing_keys_pkey PRIMARY KEY (id)
);

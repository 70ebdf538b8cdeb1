-- The outbox of ForgeRun: jobs that an application submits inside its own transaction.
-- It can be run again at any time, and upgrades what an older version left.

CREATE SCHEMA IF NOT EXISTS forgerun;
REVOKE ALL ON SCHEMA forgerun FROM PUBLIC;

-- Jobs that were not sent yet, and those that the server refused (`problem` says why).
CREATE SEQUENCE IF NOT EXISTS forgerun.outbox_seq AS bigint;
CREATE TABLE IF NOT EXISTS forgerun.outbox (
    seq          bigint      PRIMARY KEY DEFAULT nextval('forgerun.outbox_seq'),
    id           uuid        NOT NULL,
    type         text        NOT NULL,
    args         jsonb       NOT NULL,
    options      jsonb       NOT NULL,
    submitted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    refused_at   timestamptz,
    problem      jsonb
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER SEQUENCE forgerun.outbox_seq OWNED BY forgerun.outbox.seq;
CREATE INDEX IF NOT EXISTS outbox_waiting ON forgerun.outbox (seq) WHERE refused_at IS NULL;

-- One row. The forwarder that sends holds its lock; `waits` asks for a notification.
CREATE TABLE IF NOT EXISTS forgerun.forwarder (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version   integer NOT NULL,
    waits     boolean NOT NULL DEFAULT false,
    name      text,
    active_at timestamptz,
    sent      bigint  NOT NULL DEFAULT 0,
    error     text,
    error_at  timestamptz
);
INSERT INTO forgerun.forwarder (version) VALUES (1) ON CONFLICT DO NOTHING;

DO $check$
BEGIN
    IF (SELECT version FROM forgerun.forwarder) > 1 THEN
        RAISE EXCEPTION 'the outbox was installed by a newer version of forgerun';
    END IF;
END
$check$;

CREATE OR REPLACE FUNCTION forgerun.submit(type text, args jsonb, options jsonb DEFAULT '{}')
RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $submit$
DECLARE
    n   bigint;
    ms  bigint;
    job uuid;
BEGIN
    IF coalesce(btrim(submit.type), '') = '' THEN
        RAISE EXCEPTION 'forgerun.submit: the type of the job is empty' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(coalesce(submit.options, '{}')) <> 'object' THEN
        RAISE EXCEPTION 'forgerun.submit: options must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A UUID of version 7: milliseconds, 26 bits of a counter, 48 random bits.
    n := nextval('forgerun.outbox_seq');
    ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    job := (lpad(to_hex(ms), 12, '0') || to_hex(28672 | ((n >> 14) & 4095)) || to_hex(32768 | (n & 16383))
        || right(gen_random_uuid()::text, 12))::uuid;
    INSERT INTO forgerun.outbox (seq, id, type, args, options)
    VALUES (n, job, submit.type, coalesce(submit.args, '[]'), coalesce(submit.options, '{}'));
    PERFORM pg_notify('forgerun_outbox', '') FROM forgerun.forwarder WHERE waits;
    RETURN job;
END
$submit$;
REVOKE ALL ON FUNCTION forgerun.submit(text, jsonb, jsonb) FROM PUBLIC;

-- For the application: it can submit, and nothing else. For the forwarder: it can send and remove.
DO $roles$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['forgerun_app', 'forgerun_forwarder'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this server was faster
            END;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA forgerun TO %I', role);
    END LOOP;
END
$roles$;
GRANT EXECUTE ON FUNCTION forgerun.submit(text, jsonb, jsonb) TO forgerun_app;
GRANT SELECT, UPDATE, DELETE ON forgerun.outbox TO forgerun_forwarder;
GRANT SELECT, UPDATE ON forgerun.forwarder TO forgerun_forwarder;

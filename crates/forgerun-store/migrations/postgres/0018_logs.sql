-- Log lines of jobs, a row for each batch of lines. `last` is the number of its last line. `start` and `stop` count the bytes of the job's log,
-- deleted ones included; `attempt_after` and `attempt_start` say where the attempt began.
CREATE TABLE log_chunks (
    job           uuid    NOT NULL,
    client        uuid    NOT NULL,
    last          bigint  NOT NULL,
    start         bigint  NOT NULL,
    stop          bigint  NOT NULL,
    attempt_after bigint  NOT NULL,
    attempt_start bigint  NOT NULL,
    n_lines       integer NOT NULL,
    attempt       integer NOT NULL,
    content       bytea   NOT NULL,
    CONSTRAINT log_chunks_pkey PRIMARY KEY (job, last)
);
-- To compress lines takes longer than to write them.
ALTER TABLE log_chunks ALTER COLUMN content SET STORAGE EXTERNAL;
-- How much a client has.
CREATE INDEX log_chunks_client ON log_chunks (client) INCLUDE (start, stop);
-- Its rows go with their jobs: as for the tables of step 13.
ALTER TABLE log_chunks SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

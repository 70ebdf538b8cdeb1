-- Log lines of jobs, a row for each batch of lines. `last` is the number of its last line. `start` and `stop` count the bytes of the job's log,
-- deleted ones included; `attempt_after` and `attempt_start` say where the attempt began. `content` comes last, so that the others are read without it.
CREATE TABLE log_chunks (
    job           BLOB    NOT NULL,
    last          INTEGER NOT NULL,
    n_lines       INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    start         INTEGER NOT NULL,
    stop          INTEGER NOT NULL,
    attempt_after INTEGER NOT NULL,
    attempt_start INTEGER NOT NULL,
    client        BLOB    NOT NULL,
    content       BLOB    NOT NULL
);
CREATE UNIQUE INDEX log_chunks_job ON log_chunks (job, last);
-- How much a client has.
CREATE INDEX log_chunks_client ON log_chunks (client, stop - start);

-- What lists find jobs by that is no column of theirs: tags, and whether they wait for another attempt. Jobs of before are
-- marked by the program, which can read them. Programs that do not know the table do not mark what they write.
CREATE TABLE job_marks (
    mark   bytea NOT NULL,
    job    uuid  NOT NULL,
    client uuid  NOT NULL,
    CONSTRAINT job_marks_pkey PRIMARY KEY (mark, job)
);
CREATE INDEX job_marks_client ON job_marks (client, mark, job);
-- A hash: no plan can walk it in the order of jobs, past all those that lack the mark it looks for.
CREATE INDEX job_marks_job ON job_marks USING hash (job);
-- Its rows go with their jobs: as for the tables of step 13.
ALTER TABLE job_marks SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

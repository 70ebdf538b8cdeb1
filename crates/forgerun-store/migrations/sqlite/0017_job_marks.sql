-- What lists find jobs by that is no column of theirs: tags, and whether they wait for another attempt. Jobs of before are
-- marked by the program, which can read them.
CREATE TABLE job_marks (
    mark   BLOB NOT NULL,
    job    BLOB NOT NULL,
    client BLOB NOT NULL,
    PRIMARY KEY (mark, job)
) WITHOUT ROWID;
CREATE INDEX job_marks_client ON job_marks (client, mark, job);
CREATE INDEX job_marks_job ON job_marks (job);

-- Results: a name, a moment at which the content goes, and large contents in files of their own. SQLite cannot make a column
-- nullable, so the table is made anew.
CREATE TABLE results_new (
    execution  BLOB    NOT NULL UNIQUE,
    media_type TEXT    NOT NULL,
    file_name  TEXT,
    size       INTEGER NOT NULL,
    expires_at INTEGER,              -- NULL: as long as the job
    removed    INTEGER NOT NULL DEFAULT 0,
    bytes      BLOB,                 -- NULL if it was removed or is a blob
    blob       BLOB,                 -- the id of the blob
    digest     BLOB                  -- SHA-256 of the blob
);

INSERT INTO results_new (execution, media_type, size, bytes)
SELECT execution, media_type, length(bytes), bytes
FROM results;

DROP TABLE results;

ALTER TABLE results_new RENAME TO results;

CREATE INDEX results_expires ON results (expires_at) WHERE removed = 0 AND expires_at IS NOT NULL;

-- Blobs are files in the folder `results` beside the database, named after their id. A row comes before its file and goes
-- after it, so there is no file without a row.
CREATE TABLE blobs (
    id       BLOB    NOT NULL PRIMARY KEY,
    loose_at INTEGER,                -- since when no result names it; NULL while one does
    doomed   INTEGER NOT NULL DEFAULT 0  -- its file is being deleted
) WITHOUT ROWID;

CREATE INDEX blobs_loose ON blobs (loose_at) WHERE loose_at IS NOT NULL;

-- Results: a name, a moment at which the content goes, and large contents in a table of their own.
ALTER TABLE results
    ADD COLUMN file_name  text,
    ADD COLUMN size       bigint,
    ADD COLUMN expires_at bigint,          -- NULL: as long as the job
    ADD COLUMN removed    boolean NOT NULL DEFAULT false,
    ADD COLUMN blob       uuid,
    ADD COLUMN digest     bytea,           -- SHA-256 of the blob
    ALTER COLUMN bytes DROP NOT NULL;

UPDATE results SET size = length(bytes);

-- A result that names a blob which is gone is refused by this.
ALTER TABLE results
    ALTER COLUMN size SET NOT NULL,
    ADD CONSTRAINT results_content CHECK (removed OR bytes IS NOT NULL OR blob IS NOT NULL);

CREATE INDEX results_expires ON results (expires_at, execution) WHERE NOT removed AND expires_at IS NOT NULL;

CREATE TABLE blobs (
    id         uuid     NOT NULL,
    loose_at   bigint,                     -- since when no result names it; NULL while one does
    doomed     boolean  NOT NULL DEFAULT false,  -- its chunks are being deleted
    CONSTRAINT blobs_pkey PRIMARY KEY (id)
);

CREATE INDEX blobs_loose ON blobs (loose_at) WHERE loose_at IS NOT NULL;

-- The bytes of blobs.
CREATE TABLE blob_chunks (
    blob       uuid     NOT NULL,
    start      bigint   NOT NULL,          -- where in the blob it begins
    bytes      bytea    NOT NULL,
    CONSTRAINT blob_chunks_pkey PRIMARY KEY (blob, start)
);

-- Results are mostly compressed already, and trying again costs more than it saves.
ALTER TABLE blob_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;

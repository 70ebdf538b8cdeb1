-- Blobs may lie in an object store.
ALTER TABLE blobs ADD COLUMN place INTEGER NOT NULL DEFAULT 0;  -- 0: a file; 1: in the object store
ALTER TABLE blobs ADD COLUMN upload TEXT;                       -- the upload in parts that is under way there

-- Tells this database from others. Its objects lie below this id.
CREATE TABLE store (id BLOB NOT NULL);
INSERT INTO store (id) VALUES (randomblob(16));

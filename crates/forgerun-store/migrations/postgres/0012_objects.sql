-- Blobs may lie in an object store.
ALTER TABLE blobs
    ADD COLUMN place  smallint NOT NULL DEFAULT 0,  -- 0: in blob_chunks; 1: in the object store
    ADD COLUMN upload text;                         -- the upload in parts that is under way there

-- Tells this database from others. Its objects lie below this id.
CREATE TABLE store (id uuid NOT NULL);
INSERT INTO store (id) VALUES (gen_random_uuid());

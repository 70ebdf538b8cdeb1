-- Whether a client has had a key. Of those that are here nobody knows, since revoked keys are swept: they count as having had
-- one, for a first key is made without credentials.
ALTER TABLE clients ADD COLUMN keyed INTEGER NOT NULL DEFAULT 1;

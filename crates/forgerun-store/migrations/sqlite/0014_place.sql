-- Jobs of one priority are handed out in the order of acceptance. The id of a job says when it was accepted, unless its client chose the id:
-- then `place` is an id that was made at that moment.
ALTER TABLE jobs ADD COLUMN place BLOB;
DROP INDEX jobs_shelf;
CREATE INDEX jobs_shelf ON jobs (lane, shelf, priority DESC, coalesce(place, id)) WHERE lane IS NOT NULL;

-- Failed jobs by their reason, oldest first; dead letters have an index like it. 5 is their lane.
CREATE INDEX jobs_failed ON jobs (shelf, id) WHERE lane = 5;

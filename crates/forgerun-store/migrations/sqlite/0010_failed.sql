-- Failed jobs by their reason, oldest first: dead letters (lane 4) and others (lane 5). What has not failed is not in it.
CREATE INDEX jobs_failed ON jobs (lane, shelf, id) WHERE lane IN (4, 5);

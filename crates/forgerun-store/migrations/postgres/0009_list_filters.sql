-- Lists of one client's jobs in a state that few are in. Most jobs have succeeded (4), and those are not in it.
CREATE INDEX jobs_state ON jobs (client, state, id) WHERE state <> 4;

-- Lists of what could not be delivered to a webhook. 2 stands for given up.
CREATE INDEX deliveries_given_up ON deliveries (endpoint, id) WHERE status = 2;

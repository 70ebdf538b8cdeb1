-- Lists of workflows, newest first: of one client, and of all. Jobs of other types are not in them.
CREATE INDEX jobs_workflow ON jobs (id) WHERE job_type = 'forgerun.workflow';
CREATE INDEX jobs_workflow_client ON jobs (client, id) WHERE job_type = 'forgerun.workflow';

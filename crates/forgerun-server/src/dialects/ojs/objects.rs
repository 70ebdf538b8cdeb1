//! The bodies and objects of `/ojs/v1`, as the OpenAPI document shows them. Their full description
//! is that of Open Job Spec; here are the members that this server reads and writes.

mod managing;

use forgerun_wire::request_body;

pub(super) use managing::{BULK_CHANGE, DIRECTIVE, ITEMS, MAINTENANCE, PURGE};

request_body! {
    /// A job to be done. Options may also stand at the top.
    pub(super) ENVELOPE = "OjsJobRequest" {
        /// The version of Open Job Spec.
        "specversion": text(),
        /// The job's id; made by the server if absent.
        "id": text(),
        /// What kind of work it is.
        "type": name(255),
        /// The arguments, in order.
        "args": list(json!({})),
        /// What the client notes about it.
        "meta": object(),
        /// The address of a JSON Schema that `args` must fit.
        "schema": text(),
        /// How to do it: `queue`, `priority`, `timeout_ms`, `visibility_timeout_ms`, `delay_until`,
        /// `expires_at`, `deadline`, `tags`, `retry`, `unique`, `rate_limit`, `limits`,
        /// `fair`.
        "options": object(),
    }
    ; required &["type"]
    ; examples {"mail": {"value": {"type": "mail.send", "args": [4711], "options": {"queue": "mail"}}}}
}

request_body! {
    /// Several jobs: all are taken, or none.
    pub(super) BATCH = "OjsBatchRequest" {
        /// The jobs.
        "jobs": list(reference(ENVELOPE.name)),
        /// `all` or `partial`; of `/jobs/bulk`.
        "atomicity": text(),
    }
    ; required &["jobs"]
    ; parts &[&ENVELOPE]
    ; examples {"two": {"value": {"jobs": [{"type": "mail.send", "args": [1]}, {"type": "mail.send", "args": [2]}]}}}
}

request_body! {
    /// A request for work.
    pub(super) FETCH = "OjsFetchRequest" {
        /// The queues to take jobs from, the first one first.
        "queues": list(text()),
        /// At most so many jobs.
        "count": at_least(1),
        /// What the worker calls itself.
        "worker_id": text(),
        /// How long the worker holds a job without a sign of life.
        "visibility_timeout_ms": at_least(1),
        /// How long to wait for a job.
        "wait_ms": at_least(0),
    }
    ; required &["queues"]
    ; examples {"one": {"value": {"queues": ["mail"], "worker_id": "mailer-1"}}}
}

request_body! {
    /// An attempt that ended well.
    pub(super) ACK = "OjsAckRequest" {
        /// The job, unless the address names it.
        "job_id": text(),
        /// What proves that the worker holds the job.
        "lease_token": text(),
        /// What the job leaves: any JSON.
        "result": json!({}),
    }
    ; examples {"with a result": {"value": {"job_id": "01890a5d-ac96-774b-bcce-b302099a8057", "result": {"sent": 1}}}}
}

request_body! {
    /// An attempt that failed, or a job that is given back.
    pub(super) NACK = "OjsNackRequest" {
        /// The job, unless the address names it.
        "job_id": text(),
        /// What proves that the worker holds the job.
        "lease_token": text(),
        /// Why: `code`, `message`, `retryable`, `details`.
        "error": object(),
        /// Give the job back: no attempt is counted.
        "requeue": truth(),
        /// Wait for so long before the next attempt.
        "delay_ms": at_least(0),
        /// With `requeue`: the job comes back when this signal arrives, if that is sooner.
        "until_signal": text(),
    }
    ; examples {"failed": {"value": {
        "job_id": "01890a5d-ac96-774b-bcce-b302099a8057", "error": {"code": "SMTP", "message": "refused"},
    }}}
}

request_body! {
    /// How far the work on a job is.
    pub(super) PROGRESS = "OjsProgressRequest" {
        /// The job, unless the address names it.
        "job_id": text(),
        /// What proves that the worker holds the job.
        "lease_token": text(),
        /// From 0 to 1.
        "progress": json!({"type": "number"}),
        /// The same in percent.
        "percentage": json!({"type": "number"}),
        /// In words.
        "message": text(),
    }
}

request_body! {
    /// A worker's sign of life: the jobs it names stay with it.
    pub(super) HEARTBEAT = "OjsHeartbeatRequest" {
        /// What the worker calls itself.
        "worker_id": text(),
        /// The jobs it holds.
        "active_jobs": json!({}),
        /// What proves that, job by job.
        "lease_tokens": object(),
        /// What it does: `running`, `quiet` or `terminate`.
        "state": text(),
        /// How long it holds its jobs from now.
        "visibility_timeout_ms": at_least(1),
    }
    ; required &["worker_id"]
    ; examples {"two jobs": {"value": {"worker_id": "mailer-1", "active_jobs": []}}}
}

request_body! {
    /// One round trip of a worker: ends of jobs, a sign of life, and a request for work.
    pub(super) EXCHANGE = "OjsExchangeRequest" {
        /// What the worker calls itself.
        "worker_id": text(),
        /// The attempts that ended, as in an ack or a nack.
        "done": list(object()),
        /// The jobs that go on.
        "extend": list(object()),
        /// The jobs that are wanted, as in a fetch.
        "queues": list(text()),
        /// At most so many of them.
        "count": at_least(0),
    }
}

request_body! {
    /// A schedule to be. The job stands at the top, or in `job_template`.
    pub(super) CRON = "OjsCronRequest" {
        /// What it is called.
        "name": queue(),
        /// The cron expression; `expression` is the same.
        "cron": text(),
        /// The IANA name of a time zone; UTC if absent.
        "timezone": text(),
        /// What kind of work every job is.
        "type": text(),
        /// The arguments of every job.
        "args": list(json!({})),
        /// Every job as an envelope.
        "job_template": object(),
        /// Options of every job.
        "options": object(),
        /// What happens while the job of an earlier tick has not ended.
        "overlap_policy": words(&["skip", "allow", "cancel_previous", "enqueue"]),
        /// Whether it makes jobs.
        "enabled": truth(),
    }
    ; required &["name"]
    ; examples {"nightly": {"value": {"name": "nightly", "cron": "0 3 * * *", "type": "report.make", "args": []}}}
}

request_body! {
    /// What to change of a schedule.
    pub(super) CRON_CHANGE = "OjsCronChange" {
        /// Whether it makes jobs.
        "enabled": truth(),
        /// The cron expression.
        "expression": text(),
        /// Members of every job; options are changed one by one.
        "job_template": object(),
    }
}

request_body! {
    /// A workflow to be: a chain, a group, a batch, or steps that name those they wait for.
    pub(super) WORKFLOW = "OjsWorkflowRequest" {
        /// `chain`, `group` or `batch`; left out for steps with `depends_on`.
        "type": text(),
        /// What the client calls it.
        "name": text(),
        /// Of a chain or a graph: envelopes.
        "steps": list(object()),
        /// Of a group or a batch: envelopes.
        "jobs": list(object()),
        /// Of a batch: what follows its end.
        "callbacks": object(),
    }
    ; examples {"chain": {"value": {"type": "chain", "steps": [{"type": "a", "args": []}, {"type": "b", "args": []}]}}}
}

request_body! {
    /// Where a workflow goes on.
    pub(super) WORKFLOW_RETRY = "OjsWorkflowRetry" {
        /// The id of a step: it and all that depend on it run again.
        "from": text(),
    }
}

request_body! {
    /// A JSON Schema for the arguments of a type of jobs.
    pub(super) SCHEMA = "OjsSchemaRequest" {
        /// The type of jobs; `job_type` is the same.
        "type": text(),
        /// Its version, such as `1.0.0`.
        "version": text(),
        /// Its address; made by the server if absent.
        "uri": text(),
        /// The JSON Schema.
        "schema": json!({}),
    }
    ; examples {"orders": {"value": {"type": "order.made", "version": "1.0.0", "schema": {"type": "array"}}}}
}

request_body! {
    /// An endpoint to be, or what to change of one.
    pub(super) SUBSCRIPTION = "OjsSubscriptionRequest" {
        /// Where to send to.
        "url": text(),
        /// The events to send.
        "events": list(text()),
        /// What to sign with; made by the server if absent.
        "secret": text(),
        /// Whether anything is sent.
        "active": truth(),
        /// What the client notes about it.
        "metadata": object(),
    }
    ; examples {"failures": {"value": {"url": "https://client.example/hooks", "events": ["job.failed"]}}}
}

request_body! {
    /// What a worker saves of a job, to go on from there after a crash.
    pub(super) CHECKPOINT = "OjsCheckpointRequest" {
        /// Any JSON.
        "state": json!({}),
        /// What proves that the worker holds the job.
        "lease_token": text(),
    }
    ; required &["state"]
    ; examples {"page": {"value": {"state": {"page": 7}}}}
}

request_body! {
    /// Bounds of a queue.
    pub(super) QUEUE_CONFIG = "OjsQueueConfig" {
        /// Of a queue to be set up.
        "name": text(),
        /// Refuse new jobs while so many wait.
        "max_size": at_least(1),
        /// `max_depth`: refuse new jobs while so many wait.
        "backpressure": object(),
        /// Hand out nothing while workers hold so many.
        "max_active": json!({"type": ["integer", "null"]}),
    }
    ; examples {"bound": {"value": {"backpressure": {"max_depth": 500, "strategy": "reject"}}}}
}

request_body! {
    /// Why a job is cancelled.
    pub(super) CANCEL = "OjsCancelRequest" {
        /// In words.
        "reason": text(),
    }
}

request_body! {
    /// A job: within `job`, and its members also at the top.
    pub(super) JOB = "OjsJob" {
        /// The same.
        "job": object(),
        /// Which job.
        "id": text(),
        /// What kind of work it is.
        "type": text(),
        /// Where it waits.
        "queue": text(),
        /// The arguments, in order.
        "args": list(json!({})),
        /// What the client notes about it.
        "meta": object(),
        /// `scheduled`, `available`, `pending`, `active`, `retryable`, `completed`, `cancelled` or
        /// `discarded`.
        "state": text(),
        /// Jobs with a higher priority go first.
        "priority": json!({"type": "integer"}),
        /// Attempts begun.
        "attempt": at_least(0),
        /// Attempts allowed in all.
        "max_attempts": at_least(1),
        /// Whether the built-in worker simulates it.
        "simulated": truth(),
        /// Whether it is paused; absent otherwise.
        "paused": truth(),
        /// The signal that its handler waits for; absent otherwise.
        "awaited_signal": text(),
        /// When it was accepted.
        "created_at": time(),
        /// When it ended well.
        "completed_at": time(),
        /// What it left.
        "result": json!({}),
        /// Why its newest attempt failed.
        "error": object(),
        /// Why its attempts failed, oldest first.
        "errors": list(object()),
    }
}

request_body! {
    /// Several jobs.
    pub(super) JOBS = "OjsJobs" {
        /// The jobs.
        "jobs": list(object()),
        /// Where the page stands.
        "pagination": object(),
    }
    ; required &["jobs"]
}

request_body! {
    /// What became of each job of a bulk request.
    pub(super) BULK = "OjsBulk" {
        /// How many jobs were asked for.
        "total": at_least(0),
        /// How many were taken.
        "succeeded": at_least(0),
        /// How many were not.
        "failed": at_least(0),
        /// Each with its `index`, `status`, and `job` or `error`.
        "items": list(object()),
    }
    ; required &["total", "succeeded", "failed", "items"]
}

request_body! {
    /// What became of a job that a worker reported on.
    pub(super) SETTLED = "OjsSettled" {
        /// Always true.
        "acknowledged": truth(),
        /// Which job.
        "job_id": text(),
        /// Where it stands.
        "state": text(),
        /// The whole job, unless `Prefer: return=minimal`.
        "job": object(),
    }
    ; required &["acknowledged", "job_id", "state"]
}

request_body! {
    /// How far a job is.
    pub(super) PROGRESS_VIEW = "OjsProgress" {
        /// Which job.
        "job_id": text(),
        /// Where it stands.
        "state": text(),
        /// From 0 to 1.
        "progress": json!({"type": ["number", "null"]}),
        /// The same in percent.
        "percentage": json!({"type": ["number", "null"]}),
        /// In words.
        "message": json!({"type": ["string", "null"]}),
    }
    ; required &["job_id", "state", "progress"]
}

request_body! {
    /// The server's answer to a sign of life.
    pub(super) BEAT = "OjsHeartbeat" {
        /// Always true.
        "acknowledged": truth(),
        /// What the worker is told to do.
        "directive": text(),
        /// The jobs that stay with it.
        "jobs_extended": list(text()),
        /// The jobs that were cancelled.
        "cancelled_jobs": list(text()),
    }
    ; required &["acknowledged", "directive"]
}

request_body! {
    /// What became of each entry, and new jobs.
    pub(super) EXCHANGED = "OjsExchange" {
        /// What became of each end, in order.
        "results": list(object()),
        /// The jobs that stay with the worker.
        "extended": list(text()),
        /// The jobs that were cancelled.
        "cancelled": list(text()),
        /// The jobs that the worker holds no more.
        "lost": list(text()),
        /// New jobs, each with its `lease_token`.
        "jobs": list(object()),
    }
    ; required &["results", "jobs"]
}

request_body! {
    /// A worker.
    pub(super) WORKER = "OjsWorker" {
        /// What it calls itself.
        "worker_id": text(),
        /// What it last said it does.
        "state": text(),
        /// What it is told to do.
        "directive": text(),
        /// The queues it serves.
        "queues": list(text()),
        /// When it was last seen.
        "last_heartbeat_at": time(),
    }
    ; required &["worker_id", "directive"]
}

request_body! {
    /// The workers.
    pub(super) WORKERS = "OjsWorkers" {
        /// The workers.
        "workers": list(reference(WORKER.name)),
        /// How many there are, by what they do.
        "summary": object(),
        /// Where the page stands.
        "pagination": object(),
    }
    ; required &["workers", "summary", "pagination"]
    ; parts &[&WORKER]
}

request_body! {
    /// A queue: within `queue`, or its members at the top for an SDK.
    pub(super) QUEUE = "OjsQueue" {
        /// The queue, or its name.
        "queue": json!({}),
        /// Its name.
        "name": text(),
        /// `active` or `paused`.
        "status": text(),
        /// How many jobs stand where.
        "stats": object(),
    }
}

request_body! {
    /// The queues.
    pub(super) QUEUES = "OjsQueues" {
        /// The queues.
        "queues": list(json!({})),
        /// Where the page stands.
        "pagination": object(),
    }
    ; required &["queues", "pagination"]
}

request_body! {
    /// A schedule: within `cron` and `cron_job`, or its members at the top for an SDK.
    pub(super) CRON_VIEW = "OjsCron" {
        /// The schedule, or its expression.
        "cron": json!({}),
        /// The schedule.
        "cron_job": object(),
    }
}

request_body! {
    /// The schedules.
    pub(super) CRONS = "OjsCrons" {
        /// The schedules.
        "crons": list(object()),
        /// How many these are.
        "count": at_least(0),
        /// Where the page stands.
        "pagination": object(),
    }
    ; required &["crons", "count", "pagination"]
}

request_body! {
    /// A workflow: within `workflow`, and its members also at the top.
    pub(super) WORKFLOW_VIEW = "OjsWorkflow" {
        /// The same.
        "workflow": object(),
        /// Which workflow.
        "id": text(),
        /// Where it stands.
        "state": text(),
        /// Its steps.
        "steps": list(object()),
    }
}

request_body! {
    /// The workflows, newest first.
    pub(super) WORKFLOWS = "OjsWorkflows" {
        /// The workflows.
        "workflows": list(object()),
        /// Where the page stands.
        "pagination": object(),
    }
    ; required &["workflows", "pagination"]
}

request_body! {
    /// The JSON Schema of a type of jobs.
    pub(super) SCHEMA_VIEW = "OjsSchema" {
        /// The type of jobs.
        "type": text(),
        /// Its version.
        "version": text(),
        /// Its address.
        "uri": text(),
        /// The JSON Schema.
        "schema": json!({}),
    }
}

request_body! {
    /// The JSON Schemas.
    pub(super) SCHEMAS = "OjsSchemas" {
        /// The schemas, or the versions of one.
        "schemas": list(object()),
        /// The versions of one type.
        "versions": list(object()),
    }
}

request_body! {
    /// An endpoint that receives events.
    pub(super) SUBSCRIPTION_VIEW = "OjsSubscription" {
        /// Which one.
        "id": text(),
        /// Where it is.
        "url": text(),
        /// The events that it receives.
        "events": list(text()),
        /// Whether anything is sent.
        "active": truth(),
        /// What deliveries are signed with; shown once.
        "secret": text(),
    }
}

request_body! {
    /// What a worker saved of a job.
    pub(super) CHECKPOINT_VIEW = "OjsCheckpoint" {
        /// Whether there is one.
        "has_checkpoint": truth(),
        /// What was saved.
        "state": json!({}),
        /// How often something was saved.
        "sequence": at_least(0),
        /// The recorded results of named steps.
        "steps": object(),
    }
}

request_body! {
    /// Events, oldest first.
    pub(super) EVENTS = "OjsEvents" {
        /// The events.
        "events": list(object()),
        /// Where to go on.
        "cursor": json!({"type": ["string", "null"]}),
        /// Whether there are more.
        "has_more": truth(),
    }
    ; required &["events"]
}

request_body! {
    /// Facts, by name.
    pub(super) FACTS = "OjsFacts" {
        /// What is left out here is described by Open Job Spec.
        "total": at_least(0),
    }
}

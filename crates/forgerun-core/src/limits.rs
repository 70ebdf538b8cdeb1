//! Every bound of the core, with its reason. Includes the defaults of configurable ones.

use core::time::Duration;

/// Total weight of the commands in one transaction: a thousand ordinary ones. Beyond that the
/// throughput no longer rises (bench/notes/laboratory.md), but the latency does. A heavier command
/// gets a transaction of its own.
pub const BATCH_WEIGHT_MAX: usize = 1024;

/// Bytes that weigh as much as a job: about the size of a small job's rows.
pub const WEIGHED_BYTES: usize = 4096;

/// Weight of a command to a job that may be a workflow: it writes one job or a thousand, which is
/// known only after loading.
pub const WORKFLOW_WEIGHT: usize = 16;

/// Jobs in one atomic submission.
pub const SUBMISSION_JOBS_MAX: usize = 1024;

/// Items of one batch. The list of their ends is read and written whole.
pub const ITEMS_MAX: usize = 1000;

/// Steps of one workflow. They are the items of its own job.
pub const WORKFLOW_STEPS_MAX: usize = ITEMS_MAX;

/// Dependencies between the steps of one workflow. All are read and written whenever a step ends.
pub const WORKFLOW_EDGES_MAX: usize = 10_000;

/// Step definitions in one record, and roughly their bytes: what is read when one of the steps
/// runs.
pub const WORKFLOW_PART_STEPS: usize = 32;

/// See [`WORKFLOW_PART_STEPS`].
pub const WORKFLOW_PART_BYTES: usize = 64 * 1024;

/// Errors of steps that a workflow keeps. An outcome lists a hundred.
pub const WORKFLOW_ERRORS_MAX: usize = 100;

/// Bytes of a step's error that a workflow keeps. All are written whenever another step ends.
pub const STEP_MESSAGE_BYTES_MAX: usize = 256;

/// Failed compensations that the outcome of a workflow names.
pub const COMPENSATION_FAILURES_NAMED: usize = 10;

/// How much longer the job of a step is kept, again and again, while its workflow runs: later steps
/// may need its result.
pub const WORKFLOW_STEP_KEEP: Duration = Duration::from_secs(3600);

/// Levels of workflows that are steps of others.
pub const WORKFLOW_DEPTH_MAX: usize = 8;

/// Steps of a workflow and of all workflows within it.
pub const WORKFLOW_STEPS_IN_ALL_MAX: usize = 10_000;

/// Elements of one `for_each`. Their states are read and written whenever one ends, packed.
pub const ELEMENTS_MAX: usize = 10_000;

/// Elements of one `for_each` that run at once, unless it says otherwise.
pub const PARALLEL: u32 = 100;

/// Elements that run at once, of all `for_each` in one workflow: a cancel ends all of them in one
/// transaction.
pub const PARALLEL_MAX: u32 = 2000;

/// Elements in one record, and roughly their bytes: what is read when one of them begins.
pub const ELEMENT_PART_ELEMENTS: usize = 128;

/// See [`ELEMENT_PART_ELEMENTS`].
pub const ELEMENT_PART_BYTES: usize = 64 * 1024;

/// Bytes of a list that `for_each` reads: its elements and what surrounds them.
pub const LIST_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of the arguments of an element: `$item` may stand in them several times.
pub const ELEMENT_ARGS_BYTES_MAX: usize = 1024 * 1024;

/// When a list is read again, if the node that began to read it did not finish.
pub const LIST_AGAIN: Duration = Duration::from_secs(30);
/// The longest wait of a step.
pub const WAIT_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

pub const SIGNAL_NAME_BYTES_MAX: usize = 64;

/// Bytes of a signal's body. It becomes the result of a step, or a record if it came early.
pub const SIGNAL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Kept signals of one workflow that are loaded together.
pub const SIGNALS_LOADED_MAX: usize = 32;

/// Bytes of the schema of a signal's body. Read with the definition of its step.
pub const SIGNAL_SCHEMA_BYTES_MAX: usize = 16 * 1024;

pub const ITEM_ID_BYTES_MAX: usize = 128;

/// Bytes of an item's error message. An outcome lists a hundred of them.
pub const ITEM_MESSAGE_BYTES_MAX: usize = 1024;

/// Weight of a fair key.
pub const FAIR_WEIGHT_MAX: u8 = 100;

pub const CLAIM_JOBS_MAX: usize = 1024;

/// Queues that one claim may name.
pub const CLAIM_QUEUES_MAX: usize = 64;

/// Due jobs processed by one transaction: few enough that submissions behind it do not wait long.
pub const DUE_JOBS_MAX: usize = 256;

/// Default bound on waiting jobs in a queue. A lower bound costs parallelism: the submissions of
/// several nodes to the queue then wait for each other.
pub const QUEUE_JOBS: u64 = 10_000;

/// Jobs that one batch may add to a queue without exact counts. A dozen concurrent batches then add
/// less than half of [`QUEUE_JOBS`].
pub const UNCOUNTED_ARRIVALS_MAX: u64 = 256;

/// Default bound on jobs held by workers. With a lower bound the affected claims wait for each
/// other.
pub const ACTIVE_JOBS: u64 = 1_000;

/// Errors kept per job, the newest. OJS asks for at least ten.
pub const ERRORS_MAX: usize = 16;

/// Events kept per job: the first and the newest ones. A job that is requeued for ever must not
/// grow for ever.
pub const EVENTS_MAX: usize = 512;

/// Bytes of a queue name or a job type (OJS).
pub const NAME_BYTES_MAX: usize = 255;

/// Silence after which a worker counts as lost.
pub const WORKER_SILENCE: Duration = Duration::from_secs(60);

/// When a lost worker is checked again, if its jobs were not taken back.
pub const WORKER_AGAIN: Duration = Duration::from_secs(5);

/// Jobs that one heartbeat may list, and that are remembered per worker.
pub const WORKER_JOBS_MAX: usize = 1024;

/// Queues remembered per worker.
pub const WORKER_QUEUES_MAX: usize = 64;

/// Retention of queue figures: the last hour, and a margin for clocks that differ.
pub const ACTIVITY_KEEP: Duration = Duration::from_secs(2 * 3600);

/// Failure groups kept; beyond it the one not seen for the longest time is deleted. A list reads
/// all of them, some 500 bytes each.
pub const FAILURE_GROUPS_MAX: usize = 1000;

/// Retention of a failure group after its newest failure: that of ended jobs.
pub const FAILURE_GROUP_KEEP: Duration = RETENTION;

/// When failures are added to their groups: late enough to add many batches at once.
pub const FAILURES_FOLDED_AFTER: Duration = Duration::from_secs(1);

/// Bytes of the normalised message of a failure group.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 240;

/// Clients, and queues, that a group of failures names.
pub const FAILURE_SOURCES_MAX: usize = 20;

/// Jobs that a group of failures names as examples.
pub const FAILURE_EXAMPLES_MAX: usize = 3;

/// Jobs retried by one step of a redrive: few enough that submissions behind it do not wait long.
pub const REDRIVE_STEP_MAX: usize = 64;

/// Workflow steps retried by one step of a redrive, since all are written in one transaction. A
/// single workflow may exceed it.
pub const REDRIVE_WORKFLOW_STEPS_MAX: usize = WORKFLOW_STEPS_MAX;

/// Redriven jobs that a redrive watches for another failure. The newest are kept.
pub const REDRIVE_WATCHED_MAX: usize = 256;

/// Missed ticks of a schedule that are caught up.
pub const CATCH_UP_MAX: usize = 100;

/// Lateness at which a tick counts as missed: a node that takes over from another needs some time.
pub const SCHEDULE_LATE: Duration = Duration::from_secs(60);

/// When a tick is retried after its queue was full.
pub const SCHEDULE_PUT_OFF: Duration = Duration::from_secs(5);

/// When a tick is retried if the node cannot read the time zone or expression: another node, or an
/// upgrade, may be able to.
pub const SCHEDULE_UNREADABLE_PUT_OFF: Duration = Duration::from_secs(300);

/// Bytes of a cron expression. The longest meaningful one has some 300.
pub const EXPRESSION_BYTES_MAX: usize = 512;

/// Bytes of a schedule's job: they are written again with every tick.
pub const SCHEDULE_INPUT_BYTES_MAX: usize = 256 * 1024;

/// The longest jitter after a tick.
pub const JITTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Bytes of a checkpoint. It is read and written whole.
pub const CHECKPOINT_BYTES_MAX: usize = 256 * 1024;

/// Named steps of a job with a recorded result.
pub const STEPS_MAX: usize = 1000;

/// Bytes of the recorded results of a job's steps and their names. A list reads all of them.
pub const STEPS_BYTES_MAX: u64 = 1024 * 1024;

/// Schemas of a client. One record names them all.
pub const SCHEMAS_MAX: usize = 200;

pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Schedules of a client. Those that are not due cost disk space only.
pub const SCHEDULES_MAX: u64 = 100_000;

/// The longest wait before a retry that a worker may ask for.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Silence after which a node counts as gone.
pub const NODE_SILENCE: Duration = Duration::from_secs(90);

/// Queues that a node publishes as attended. Each is eight bytes of its record.
pub const NODE_QUEUES_MAX: usize = 2000;

pub const DUE_RECORDS_MAX: usize = 64;

/// Bytes of an error message, cancel reason or progress message.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Executions of one job, including the first; also bounded by its retry budget.
pub const EXECUTIONS_MAX: usize = 64;

/// Default lease of a claim.
pub const LEASE: Duration = Duration::from_secs(30);

pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the tombstone of a deleted job is kept.
pub const TOMBSTONE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Bytes of a result stored in its row. More would lengthen the database's log; a file of its own
/// costs a disk sync.
pub const INLINE_RESULT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a small JSON result, which a client would show or parse at once.
pub const SMALL_RESULT_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes of a result that does not count as large (AO §6.2.1: 10 MB).
pub const MEDIUM_RESULT_BYTES_MAX: u64 = 10_000_000;

/// Retention of blobs without a result: of an attempt that has not ended, or that a reader may
/// still use.
pub const LOOSE_BLOB: Duration = Duration::from_secs(3600);

/// Limits of one job.
pub const JOB_LIMITS_MAX: usize = 4;

/// Parked jobs examined when places become free, per transaction and key.
pub const UNPARK_MAX: usize = 64;

/// When a parked job is rechecked. Nearly always the end of a job with its key comes first; this is
/// for the case that the job that got the place never used it.
pub const PARKED: Duration = Duration::from_secs(60);

/// Named keys of one client, beside its primary key. All are loaded when one changes.
pub const NAMED_KEYS_MAX: usize = 20;

/// How long a replaced key can stay valid.
pub const KEY_OVERLAP_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Webhooks of one client: each gets a delivery in the transaction of the event.
pub const WEBHOOKS_MAX: usize = 50;

/// Deliveries claimed at once: few enough that submissions behind it do not wait long.
pub const TAKE_MAX: usize = 256;

/// Deliveries that one request may repeat.
pub const REDELIVER_MAX: usize = 1000;

/// Attempts kept per delivery, the newest.
pub const ATTEMPTS_KEPT: usize = 10;

pub const ATTEMPT_ERROR_BYTES_MAX: usize = 512;

/// The longest `Retry-After` of an endpoint that is respected.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Deliveries given up in a row before a failing endpoint is disabled.
pub const GIVEN_UP_MAX: u32 = 10;

/// Precision of the last success of a webhook: updating it with each delivery would write one more
/// row.
pub const LAST_SUCCESS: Duration = Duration::from_secs(60);

/// Retention of a settled delivery.
pub const DELIVERY_KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// Signing keys kept; a rotation deletes the oldest beyond it.
pub const SIGNING_KEYS_MAX: usize = 8;

/// Default bound on the bytes of an attempt's log; beyond it the oldest lines are deleted.
pub const LOG_BYTES: u64 = 1024 * 1024;

/// The smallest bound on the bytes of an attempt's log: a few chunks must fit.
pub const LOG_BYTES_MIN: u64 = 256 * 1024;

/// A job keeps the log of this many full attempts.
pub const LOG_JOB_FACTOR: u64 = 8;

/// Bytes of one chunk of lines: few enough that deleting the oldest chunk leaves most of a log.
pub const LOG_CHUNK_BYTES_MAX: usize = 128 * 1024;

/// What a chunk counts beside its lines: rows without much in them must not be free.
pub const LOG_CHUNK_OVERHEAD: u64 = 128;

/// Lines of one request.
pub const LOG_LINES_MAX: usize = 1000;

/// Bytes of one line.
pub const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the name of a log stream or level.
pub const LOG_NAME_BYTES_MAX: usize = 32;

/// Pause between two appends of log lines of a node: their syncs must not keep submissions waiting.
/// With a batch at a time, more lines make larger batches.
pub const LOG_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of log lines that wait to be written on a node; further ones are refused.
pub const LOG_QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of log lines in one transaction.
pub const LOG_APPEND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a node relies on what it read of the bytes of a client's logs.
pub const LOG_CLIENT_BYTES_READ: Duration = Duration::from_secs(60);

/// Bytes of logs kept for one client. Beyond it no lines are accepted until old ones are deleted.
pub const LOG_CLIENT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes of each text of an audit entry.
pub const AUDIT_TEXT_BYTES_MAX: usize = 200;

/// When an audit entry that retention could not remove yet is looked at again.
pub const AUDIT_REMOVAL_RETRY: Duration = Duration::from_secs(3600);

//! Every bound of the core, with its reason. What an operator may set has its default here too.

use core::time::Duration;

/// What the commands in one transaction may weigh together: a thousand of the usual kind. Past that the rate no longer rises (bench/notes/laboratory.md)
/// and the wait does. A command that is heavier by itself has a transaction by itself.
pub const BATCH_WEIGHT_MAX: usize = 1024;

/// Bytes that weigh as much as a job: about what the rows of a small one take.
pub const WEIGHED_BYTES: usize = 4096;

/// What a command weighs about a job that may be a workflow: it writes one job or a thousand, and nobody knows before it is loaded.
pub const WORKFLOW_WEIGHT: usize = 16;

/// Jobs in one atomic submission.
pub const SUBMISSION_JOBS_MAX: usize = 1024;

/// Items of one batch. The list of their ends is one value that is read and written whole.
pub const ITEMS_MAX: usize = 1000;

/// Steps of one workflow. They are the items of its own job.
pub const WORKFLOW_STEPS_MAX: usize = ITEMS_MAX;

/// How often steps of one workflow wait for another, in all. All of it is read and written whenever a step ends.
pub const WORKFLOW_EDGES_MAX: usize = 10_000;

/// Steps whose definitions lie in one record, and about how many bytes of input: what is read when one of them has its turn.
pub const WORKFLOW_PART_STEPS: usize = 32;

/// See [`WORKFLOW_PART_STEPS`].
pub const WORKFLOW_PART_BYTES: usize = 64 * 1024;

/// Steps of a workflow of which it is remembered why they did not succeed. An outcome lists a hundred.
pub const WORKFLOW_ERRORS_MAX: usize = 100;

/// Bytes of what a workflow remembers of an error of a step. All of it is written whenever another step ends.
pub const STEP_MESSAGE_BYTES_MAX: usize = 256;

/// Steps that the outcome of a workflow names because their compensation failed.
pub const COMPENSATION_FAILURES_NAMED: usize = 10;

/// How long the job of a step is kept beyond its time, again and again, while its workflow runs: steps to come may need its result.
pub const WORKFLOW_STEP_KEEP: Duration = Duration::from_secs(3600);

/// Bytes of the id of an item.
pub const ITEM_ID_BYTES_MAX: usize = 128;

/// Bytes of what is said about an item that failed. An outcome lists a hundred of them.
pub const ITEM_MESSAGE_BYTES_MAX: usize = 1024;

/// Jobs handed out by one claim.
pub const CLAIM_JOBS_MAX: usize = 1024;

/// Queues that one claim may name.
pub const CLAIM_QUEUES_MAX: usize = 64;

/// Due jobs handled by one transaction: a bite small enough that submissions behind it do not wait long.
pub const DUE_JOBS_MAX: usize = 256;

/// Jobs that may wait in a queue, unless the operator says otherwise. A lower bound costs the queue its place in line with other
/// nodes: its submissions wait for each other.
pub const QUEUE_JOBS: u64 = 10_000;

/// Jobs that one batch may bring to a queue by counts that are not exact. While a dozen batches are under way together they bring less than half of
/// [`QUEUE_JOBS`].
pub const UNCOUNTED_ARRIVALS_MAX: u64 = 256;

/// Jobs that workers may hold, unless the operator says otherwise. With a lower bound the claims that it concerns wait for each
/// other.
pub const ACTIVE_JOBS: u64 = 1_000;

/// Failed attempts remembered per job. OJS asks for at least ten; the newest are kept.
pub const ERRORS_MAX: usize = 16;

/// Events remembered per job. A job that is requeued for ever must not grow for ever; its first event and the newest
/// ones are kept.
pub const EVENTS_MAX: usize = 512;

/// Bytes of a queue name or a job type (OJS).
pub const NAME_BYTES_MAX: usize = 255;

/// How long a worker may be silent before it counts as gone.
pub const WORKER_SILENCE: Duration = Duration::from_secs(60);

/// How soon a worker that is gone is looked at again, if what it held was not taken back.
pub const WORKER_AGAIN: Duration = Duration::from_secs(5);

/// Jobs that one heartbeat may list, and that are remembered as held by one worker.
pub const WORKER_JOBS_MAX: usize = 1024;

/// Queues that are remembered as served by one worker.
pub const WORKER_QUEUES_MAX: usize = 64;

/// How long the figures of a queue are kept: the last hour, and a little more for clocks that differ.
pub const ACTIVITY_KEEP: Duration = Duration::from_secs(2 * 3600);

/// Groups of failures that are kept; beyond it the one that was not seen for the longest time goes. A list reads all of them, some 500
/// bytes each.
pub const FAILURE_GROUPS_MAX: usize = 1000;

/// How long a group of failures is kept after its newest one: as long as ended jobs are, by default.
pub const FAILURE_GROUP_KEEP: Duration = RETENTION;

/// How soon after a batch its failures are added to their groups: long enough for many batches to be added at once.
pub const FAILURES_FOLDED_AFTER: Duration = Duration::from_secs(1);

/// Bytes of the message of a group of failures, without what differs between occurrences.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 240;

/// Clients, and queues, that a group of failures names.
pub const FAILURE_SOURCES_MAX: usize = 20;

/// Jobs that a group of failures names as examples.
pub const FAILURE_EXAMPLES_MAX: usize = 3;

/// Jobs that one step of a redrive tries again: a bite small enough that submissions behind it do not wait long.
pub const REDRIVE_STEP_MAX: usize = 64;

/// Steps of workflows that one step of a redrive may try again: all of them are written in one transaction. A single workflow may have as many.
pub const REDRIVE_WORKFLOW_STEPS_MAX: usize = WORKFLOW_STEPS_MAX;

/// Redriven jobs that a redrive looks after, to see whether they fail again. The newest are kept.
pub const REDRIVE_WATCHED_MAX: usize = 256;

/// Ticks of a schedule that were missed and are made up for at once.
pub const CATCH_UP_MAX: usize = 100;

/// How late the job of a tick may be without the tick being missed: a node that takes over from another needs some time.
pub const SCHEDULE_LATE: Duration = Duration::from_secs(60);

/// How soon a tick is tried again for which the queue had no room.
pub const SCHEDULE_PUT_OFF: Duration = Duration::from_secs(5);

/// How soon a tick is tried again of a schedule whose time zone or expression a node cannot read: by then another node may have come, or the
/// node may have been mended.
pub const SCHEDULE_UNREADABLE_PUT_OFF: Duration = Duration::from_secs(300);

/// Bytes of an expression. The longest that means something has some 300.
pub const EXPRESSION_BYTES_MAX: usize = 512;

/// Bytes of the job of a schedule: they are written again with every tick.
pub const SCHEDULE_INPUT_BYTES_MAX: usize = 256 * 1024;

/// The longest delay by chance after a tick.
pub const JITTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Bytes of a checkpoint. It is one value that is read and written whole.
pub const CHECKPOINT_BYTES_MAX: usize = 256 * 1024;

/// Schemas of a client. All are named in one record.
pub const SCHEMAS_MAX: usize = 200;

/// Bytes of a schema.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Schedules of a client. Those that are not due cost room on the disk and nothing else.
pub const SCHEDULES_MAX: u64 = 100_000;

/// The longest wait before a retry that a worker may ask for.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a node may be silent before it counts as gone.
pub const NODE_SILENCE: Duration = Duration::from_secs(90);

/// Queues that a node publishes as asked for by workers. Each is eight bytes of its record.
pub const NODE_QUEUES_MAX: usize = 2000;

/// Due records handled by one transaction.
pub const DUE_RECORDS_MAX: usize = 64;

/// Bytes of an error message, cancel reason or progress message kept with a job.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Executions of one job, the first included; also bounded by the retry budget of the job.
pub const EXECUTIONS_MAX: usize = 64;

/// How long a claim lasts without a sign of life, unless the claim or the job says otherwise.
pub const LEASE: Duration = Duration::from_secs(30);

/// How long an ended job is kept.
pub const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a forgotten job is remembered as having existed.
pub const TOMBSTONE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Bytes of a result that still go into its row. More would make every copy of the database's log longer; a file of its
/// own, on the other hand, costs a disk sync of its own.
pub const INLINE_RESULT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a result that counts as small, if it is JSON: what a client would show or parse at once.
pub const SMALL_RESULT_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes of a result that does not count as large (AO §6.2.1: 10 MB).
pub const MEDIUM_RESULT_BYTES_MAX: u64 = 10_000_000;

/// How long bytes are kept that no result names: those of an attempt whose outcome is still to come, and those that a
/// reader may still be at.
pub const LOOSE_BLOB: Duration = Duration::from_secs(3600);

/// Parked jobs looked at when places of a limit become free, in one transaction and per key.
pub const UNPARK_MAX: usize = 64;

/// How long a job waits for a place before it is looked at again by itself. The end of a job with its key comes first,
/// nearly always; this is for the rest, where whoever was given the place never took it.
pub const PARKED: Duration = Duration::from_secs(60);

/// Webhooks of one client: each is told of each event, in the transaction of the event.
pub const WEBHOOKS_MAX: usize = 50;

/// Deliveries handed to a courier at once: a bite small enough that submissions behind it do not wait long.
pub const TAKE_MAX: usize = 256;

/// Deliveries that one request may ask for again.
pub const REDELIVER_MAX: usize = 1000;

/// Attempts remembered per delivery; the newest are kept.
pub const ATTEMPTS_KEPT: usize = 10;

/// Bytes of what went wrong with an attempt to deliver.
pub const ATTEMPT_ERROR_BYTES_MAX: usize = 512;

/// The longest that an endpoint may ask to be left alone.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Deliveries given up in a row before an endpoint that has failed for long enough is disabled.
pub const GIVEN_UP_MAX: u32 = 10;

/// How exactly it is remembered when a delivery last arrived: noted with each, it would be one more row to write.
pub const LAST_SUCCESS: Duration = Duration::from_secs(60);

/// How long a delivery is kept after it arrived or was given up.
pub const DELIVERY_KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// Signing keys kept; a rotation forgets the oldest beyond it.
pub const SIGNING_KEYS_MAX: usize = 8;

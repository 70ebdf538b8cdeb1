//! Every bound of the core, with its reason. What an operator may set has its default here too.

use core::time::Duration;

/// Commands in one transaction. Past a thousand the rate no longer rises (docs/benchmarks.md) and the wait does.
pub const BATCH_COMMANDS_MAX: usize = 1024;

/// Jobs in one atomic submission.
pub const SUBMISSION_JOBS_MAX: usize = 1024;

/// Items of one batch. The list of their ends is one value that is read and written whole.
pub const ITEMS_MAX: usize = 1000;

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

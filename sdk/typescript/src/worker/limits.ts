/** Bounds of a worker, each with its reason. */

/** How long a job is a worker's without a sign of life, unless told otherwise. */
export const LEASE_MS = 30_000;

/** How long a worker that stops waits for what runs, unless told otherwise. */
export const DRAIN_MS = 30_000;

/** How long a cancelled handler may take to end before its place is given to another job. */
export const GRACE_MS = 10_000;

/** Jobs that a worker does at once, unless told otherwise. */
export const CONCURRENCY = 10;

/** The most that may be asked for: one heartbeat lists all jobs, and the server takes 1,000. */
export const CONCURRENCY_MAX = 1_000;

/** How long the server is asked to hold a request for jobs. It allows 30 s; proxies cut idle requests after a minute. */
export const HOLD_MS = 20_000;

/** Jobs that take less are taken ahead of a free slot. To ask for a job and report it takes a few milliseconds. */
export const SHORT_JOB_MS = 50;

/** How long a job that was taken ahead waits for a slot before it goes back. */
export const AHEAD_WAIT_MS = 1_000;

/** Ends in one request. The server takes 1,000. */
export const ENDS_MAX = 500;

/** Characters of the ends in one request, unless a single one has more. The server takes 16 MiB. */
export const ENDS_CHARS_MAX = 4 * 1024 * 1024;

/** Characters of a JSON result that goes with the end itself; a larger one is uploaded before. */
export const INLINE_CHARS_MAX = 256 * 1024;

/** The waits between tries of a worker whose server is away: from the first to the longest, doubling. */
export const AWAY_FIRST_MS = 200;
export const AWAY_LONGEST_MS = 5_000;

/** A longer `Retry-After` is not waited for: the jobs that are held would be lost. */
export const RETRY_AFTER_MAX_MS = 10_000;

/** How often an upload is tried while the server is away: about five minutes. By then no lease holds. */
export const UPLOADS_MAX = 60;

/** How long a job waits elsewhere that this worker has no handler for. */
export const NO_HANDLER_DELAY_MS = 5_000;

/** How often the server is asked whether a worker that was told to pause may go on. */
export const QUIET_BEAT_MS = 1_000;

/** How long a request for jobs that is under way may still take when the worker stops. */
export const FETCH_GRACE_MS = 300;

/** Lines of a stack that go with a failure. */
export const TRACE_LINES_MAX = 30;

/** Lines in one request, and the bytes of one line; longer ones go in pieces. The server takes as many. */
export const LOG_LINES_MAX = 1_000;
export const LOG_LINE_BYTES_MAX = 16 * 1024;

/** Bytes in one request, where each line counts some beside its text. The server takes as many. */
export const LOG_BATCH_BYTES_MAX = 128 * 1024;
export const LOG_LINE_OVERHEAD = 96;

/** Lines of a job that wait for the server; further ones are dropped. */
export const LOG_PENDING_MAX = 10_000;

/** How long lines gather. */
export const LOG_FLUSH_MS = 200;

/** How long a sleep keeps its job; for longer the job goes back until then. */
export const PAUSE_HELD_MS = 2_000;

/** How long a job goes back at most. The server allows a week. */
export const PAUSE_MAX_MS = 6 * 86_400_000;

/** Bounds that nobody needs to configure, each with its reason. */

/** How long an answer may take to begin, unless the options say otherwise. The server itself gives up after 30 s. */
export const REQUEST_TIMEOUT_MS = 40_000;

/** How long a body may stand still. A stream of events shows a sign of life every 15 s. */
export const STALL_TIMEOUT_MS = 60_000;

/** How long the server is asked to hold a request for the end of a job. It allows 30 s. */
export const HOLD_S = 30;

/** How long `result` and `wait` wait unless told otherwise. */
export const WAIT_TIMEOUT_MS = 300_000;

/** Bytes of an answer that is read whole. A page of 200 jobs has less than one MiB. */
export const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

/** Bytes of an error body that are read. A batch may list a hundred failed items. */
export const ERROR_BYTES_MAX = 1024 * 1024;

/** Bytes of a result that is read as a value, unless told otherwise. Larger ones are streamed. */
export const RESULT_BYTES_MAX = 64 * 1024 * 1024;

/** Characters of one line of a stream of events, and of the data of one event. */
export const LINE_CHARS_MAX = 4 * 1024 * 1024;

/** Jobs in one request of `submitMany`. The server takes 1,000. */
export const BATCH_JOBS_MAX = 1000;

/** Characters of one request of `submitMany`, unless a single job has more. The server takes 16 MiB. */
export const BATCH_CHARS_MAX = 4 * 1024 * 1024;

/** How often a stream of events or a result goes on after a break without having got any further. */
export const RESUMES_MAX = 5;

/** The waits before a stream of events comes back: the least, the longest, and where the server says nothing. */
export const RECONNECT_MIN_MS = 100;
export const RECONNECT_MAX_MS = 30_000;
export const RECONNECT_DEFAULT_MS = 1_000;

//! Bounds that nobody needs to configure, each with its reason. What a user may set is in [`crate::Builder`].

use std::time::Duration;

/// Requests that are under way at once, and so connections, unless the builder says otherwise. Many waits share them.
pub const CONNECTIONS_DEFAULT: usize = 16;

/// Streams and held requests that are open at once, unless the builder says otherwise. They are counted apart, because they
/// would otherwise keep short requests waiting. The server allows 100 streams per client.
pub const STREAMS_DEFAULT: usize = 32;

/// How long a connection may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer may take to begin, unless the builder says otherwise. The server itself gives up after 30 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);

/// How long a body may stand still. A stream of events says `:` every 15 s.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an unused connection is kept. Servers and proxies commonly close them after 60 s or more.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer that is read whole. A page of 200 jobs has less than one MiB.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of an error body that are read. A batch may list a hundred failed items.
pub const ERROR_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one line of a stream of events.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A stream comes back no sooner than this, whatever `retry:` says.
pub const RECONNECT_MIN: Duration = Duration::from_millis(100);

/// And no later than this.
pub const RECONNECT_MAX: Duration = Duration::from_secs(30);

/// What a stream waits where the server says nothing.
pub const RECONNECT_DEFAULT: Duration = Duration::from_secs(1);

/// How often a stream tries to come back without hearing anything before it reports the trouble.
pub const RECONNECTS_MAX: u32 = 5;

/// How often a download goes on after a break without having got any further.
pub const RESUMES_MAX: u32 = 5;

/// Chunks of an upload that wait for the network.
pub const UPLOAD_CHUNKS_MAX: usize = 4;

/// How long a job is a worker's without a sign of life, unless its builder says otherwise.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// Jobs that one worker does at once. One heartbeat lists them all, which the server bounds.
pub const WORKER_CONCURRENCY_MAX: usize = 1000;

/// Jobs that take less are taken ahead of a free handler. Asking for the next job and reporting the last one takes a few milliseconds.
pub const SHORT_JOB: Duration = Duration::from_millis(50);

/// How long a job that was taken ahead waits for a handler before it goes back.
pub const TAKEN_AHEAD_WAIT: Duration = Duration::from_secs(1);

/// Jobs taken with one request: as many as a worker may do at once.
pub const FETCH_JOBS_MAX: usize = WORKER_CONCURRENCY_MAX;

/// Ends of attempts in one request. The server takes 1,000.
pub const EXCHANGE_ENTRIES_MAX: usize = 500;

/// Bytes of the ends in one request, unless a single one has more. The server takes 16 MiB.
pub const EXCHANGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long the server is asked to hold a request for work. It allows 30 s; proxies cut idle requests after a minute.
pub const FETCH_WAIT: Duration = Duration::from_secs(20);

/// How often a silent gRPC connection is asked whether it is alive, and how long it may take to say so.
pub const GRPC_PING_EVERY: Duration = Duration::from_secs(20);
/// See [`GRPC_PING_EVERY`].
pub const GRPC_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Tries to reach a gRPC server at the start, after the first one: about a second and a half.
pub const GRPC_FIRST_TRIES: u32 = 3;

/// How long a fetch that is under way may still take when the worker stops: what it brings goes back.
pub const FETCH_GRACE: Duration = Duration::from_millis(300);

/// The waits between tries of a worker whose server is away: from the first to the longest, doubling.
pub const AWAY_FIRST: Duration = Duration::from_millis(200);
/// See [`AWAY_FIRST`].
pub const AWAY_LONGEST: Duration = Duration::from_secs(10);

/// How often the end of a job is reported to a server that is away. With the waits above that is about a quarter of an hour, after
/// which no lease holds.
pub const REPORTS_MAX: u32 = 90;

/// Bytes of a file that are read at once for an upload.
pub const UPLOAD_CHUNK_BYTES: usize = 64 * 1024;

/// The pause between two requests for work where the server does not hold them but says at once that there is none.
pub const FETCH_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a result that go into the ack itself, if they are JSON.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of output that are kept in memory; the rest goes to a file.
pub const SPOOL_MEMORY_BYTES_MAX: usize = 256 * 1024;

/// Bytes of output that a job may have: what a server takes by default.
pub const OUTPUT_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// How long a URL may work on a job before it is taken for dead. The job's own limit, and a cancelled job, end it sooner.
pub const HTTP_WORK_MAX: Duration = Duration::from_secs(24 * 3600);

/// How often the server retries a job of [`crate::forge::Submit::job`], unless it says otherwise. The SDKs have the same.
pub const OWN_RETRIES: u32 = 3;

/// Jobs in one request of [`crate::forge::Forge::submit_many`]. The server takes 1,000.
pub const MANY_JOBS_MAX: usize = 1000;

/// Bytes of the jobs in one such request, unless a single one has more.
pub const MANY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long the server is asked to hold a question about a job. It allows 30 s.
pub const STATUS_WAIT: Duration = Duration::from_secs(30);

/// How long a log line waits for others before they are sent together.
pub const LOG_BATCH_WAIT: Duration = Duration::from_millis(200);

/// Lines sent together. The server takes 1,000.
pub const LOG_BATCH_LINES: usize = 500;

/// Bytes of text at which a batch is full. With one line more, and what the server counts for each line, it stays below the server's 128 KiB.
pub const LOG_BATCH_BYTES: usize = 56 * 1024;

/// Bytes of one line; a longer one is sent in pieces.
pub const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Lines of a job that wait to be sent; further ones are dropped.
pub const LOG_LINES_WAITING: usize = 4096;

/// How often a batch of lines is sent to a server that is away.
pub const LOG_TRIES: u32 = 5;

/// How long the end of a job waits for its last lines.
pub const LOG_FINISH: Duration = Duration::from_secs(5);

/// A sleep of a handler that keeps its job; for longer ones the job goes back.
pub(crate) const PAUSE_HELD: Duration = Duration::from_secs(2);

/// The longest time for which a job goes back; the server allows a week.
pub(crate) const PAUSE_LONGEST: Duration = Duration::from_secs(6 * 24 * 3600);

//! What a caller may use, and the bounds that are not configurable, each with its reason.
//! Configurable ones are in [`crate::config`].
//!
//! - `limiter`, `rate`, `spending`: requests per client and address.
//! - `byte_budget`: memory for bodies; `unread`: for answers over HTTP/2.

pub(crate) mod byte_budget;
mod hostile;
pub(crate) mod limiter;
mod oidc;
pub(crate) mod rate;
pub(crate) mod spending;
pub(crate) mod unread;

use std::time::Duration;

pub use byte_budget::ByteBudget;
pub use hostile::*;
pub use limiter::Limiter;
pub(crate) use limiter::site_of;
pub use oidc::*;

/// How long open connections may take to end on stop. Supervisors commonly kill after 30 s
/// (Kubernetes) or 10 s (Docker), so the server must be faster.
pub const STOP_GRACE: Duration = Duration::from_secs(8);

/// Characters of a bad value in a message.
pub const SHOWN_CHARS_MAX: usize = 80;

/// Bytes of a configuration file. A larger one is a mistaken path.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Timeout of a request, answered with 504 if the store hangs. Longer than any query of a healthy
/// store, shorter than the timeout of most proxies (60 s).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest `Prefer: wait`. Half of the minute after which proxies close idle connections.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long `/ready` waits for the store.
pub const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Poll interval for an open job.
pub const POLL_AFTER_S: u64 = 2;

/// `Retry-After` for errors of unknown duration.
pub const TROUBLE_AFTER_S: u64 = 1;

/// `Retry-After` for a spent quota, which only an operator can change.
pub const QUOTA_AFTER_S: u64 = 3600;

/// How long a cached key is trusted. Other nodes report changes, see [`TALLY_EVERY`]; a revoked key
/// works for this long if such a node dies first.
pub const KEY_FRESH: Duration = Duration::from_secs(5);

/// Minimum interval of storing the last use of a key.
pub const KEY_USED_EVERY: Duration = Duration::from_secs(60);

/// Keys kept in memory, some 300 bytes each.
pub const KEYS_CACHED_MAX: usize = 100_000;

/// Clients and addresses whose requests are counted, some 100 bytes each.
pub const CALLERS_COUNTED_MAX: usize = 100_000;

/// Answers 403 and 404 per caller and minute before it is limited. Far more than a client with a
/// bug or two needs, far too few to guess an id of 74 random bits.
pub const MISSES_PER_MINUTE: u32 = 120;

/// Wrong tokens per address and minute, on the operator's routes, that are answered at once.
/// Further ones are delayed, so that guessing is slow; the right one never is (C-125).
pub const WRONG_TOKENS_PER_MINUTE: u32 = 9;

/// Lifetime of a dashboard session: a day at work.
pub const SESSION_LASTS: Duration = Duration::from_secs(12 * 3600);

/// Logouts that are remembered, each until its session would have expired.
pub const SESSIONS_ENDED_MAX: usize = 1000;

/// Jobs that the dashboard cancels or retries with one confirmation.
pub const BULK_JOBS_MAX: usize = 1000;

/// Bytes of an input that the operator's views show.
pub const INPUT_SHOWN_BYTES_MAX: usize = 64 * 1024;

/// Wrong keys per address and minute that are answered at once: each may be an attempt to guess the
/// operator's token. Far more than a client with an old key sends.
pub const WRONG_KEYS_PER_MINUTE: u32 = 120;

/// Registrations per address and minute: enough for a simulator that makes a client per scenario.
pub const REGISTRATIONS_PER_MINUTE: u32 = 600;

/// Bytes of an idempotency key; a UUID has 36.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Bytes of a callback URL, the limit of browsers and proxies.
pub const CALLBACK_BYTES_MAX: usize = 2048;

/// Bytes of a `tracestate` to keep; W3C asks for at least 512.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// Bytes of a submission besides its payload.
pub const ENVELOPE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a `Problem` header field; proxies commonly allow 8 KiB for all headers together.
pub const PROBLEM_FIELD_BYTES_MAX: usize = 4096;

/// Waiting jobs that are counted to find a job's queue position; beyond it the answer is an
/// estimate. Each is an index entry to read with every poll: a thousand of them took more than half
/// of a poll's time.
pub const QUEUE_PLACES_COUNTED: usize = 100;

/// Page size by default, and at most.
pub const PAGE_DEFAULT: usize = 50;
/// See [`PAGE_DEFAULT`].
pub const PAGE_MAX: usize = 200;

/// Dead letters that are counted for a scrape, one index entry each. More need no exact number.
pub const DEAD_LETTERS_COUNTED_MAX: usize = 10_000;

/// Dead letters that are counted for the total of a page. Each is a row to read;
/// `dead-letter/stats` counts further.
pub const DEAD_LETTER_TOTAL_MAX: usize = 1_000;

/// Workflows that a page may skip. Each is a row to read; a cursor has no such limit.
pub const OFFSET_MAX: usize = 1_000;

/// Rows set aside that are counted for a scrape. The first one matters most.
pub const SET_ASIDE_COUNTED_MAX: usize = 1_000;

/// Rows that a filtered page of jobs or deliveries examines, about a millisecond's work. The page
/// then ends with a cursor.
pub const LIST_ROWS_MAX: usize = 1_000;

/// Client names cached for the operator's views.
pub const CLIENT_NAMES_MAX: usize = 10_000;

/// How long they are cached: then a change on another node is visible.
pub const CLIENT_NAMES_FOR: Duration = Duration::from_secs(5);

/// Rows that a search by the end of an id examines: such ends are random and not indexed.
pub const SUFFIX_ROWS_MAX: usize = 10_000;

/// Jobs that a search by the end of an id returns. More cannot be told apart by it.
pub const SUFFIX_HITS_MAX: usize = 20;

/// Pages of jobs that one request examines for a type, which is not indexed.
pub const PAGES_SCANNED_MAX: usize = 10;

/// Journal rows that a waiting request reads at once.
pub const JOURNAL_ROWS_MAX: usize = 256;

/// Journal rows that streams read at once. A row is a transaction and may hold a thousand events.
pub const STREAM_ROWS_MAX: usize = 64;

/// Jobs that streams load with one query, and outcomes at once. Other readers wait behind them.
pub const STREAM_LOOKUPS_MAX: usize = 64;

/// Journal pages that are searched for the last event of a client. It is in the first, unless
/// clocks were set back.
pub const JOURNAL_PAGES_SEARCHED_MAX: usize = 64;

/// Past events sent in one piece, some 40 KB.
pub const STREAM_PIECE_EVENTS: usize = 64;

/// Events buffered per stream, besides the kernel's buffer. A client that is further behind should
/// reconnect.
pub const STREAM_EVENTS_WAITING_MAX: usize = 256;

/// Heartbeat interval of streams. Proxies commonly close silent connections after 30 to 60 s.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(15);

/// Reconnection time of streams.
pub const STREAM_RECONNECT_MS: u64 = 3000;

/// `Retry-After` for a client with too many streams.
pub const STREAMS_FULL_AFTER_S: u64 = 10;

/// Wait of streams after a store error.
pub const HUB_PAUSE: Duration = Duration::from_millis(500);

/// Bytes of a result that are read at once. Two such chunks are in memory per download; larger ones
/// are no faster.
pub const DOWNLOAD_CHUNK_BYTES: usize = 128 * 1024;

/// Concurrent downloads of stored results: with the buffers of connections, some 200 MB at worst.
/// Further ones are refused with `Retry-After`.
pub const DOWNLOADS_MAX: usize = 256;

/// Of these, downloads of one client: more than a browser or a download manager opens, and an
/// eighth of all.
pub const DOWNLOADS_PER_CLIENT_MAX: usize = 32;

/// Total bytes of cached small results.
pub const READY_RESULTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Buffered spans, some 500 bytes each. If the collector is too slow, further ones are dropped.
pub const TRACE_SPANS_WAITING_MAX: usize = 16 * 1024;

/// Spans per request to the collector: some 300 KB of JSON, well below the limits of collectors.
pub const TRACE_BATCH_MAX: usize = 512;

/// How long a batch waits for more spans, and the first pause after an error.
pub const TRACE_LINGER: Duration = Duration::from_millis(250);

/// Timeout of the collector's answer.
pub const TRACE_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the collector's answer that are read, so that the connection can be reused.
pub const TRACE_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Attempts per batch. After longer failures newer spans are worth more.
pub const TRACE_TRIES: u32 = 3;

/// How long the last spans may delay the stop. With [`STOP_GRACE`] below ten seconds.
pub const TRACE_STOP_GRACE: Duration = Duration::from_millis(1500);

/// Bytes of a new webhook secret: as many as the digest it keys.
pub const WEBHOOK_SECRET_BYTES: usize = 32;

/// Bytes of a webhook secret, by Standard Webhooks.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 24;
/// See [`WEBHOOK_SECRET_BYTES_MIN`].
pub const WEBHOOK_SECRET_BYTES_MAX: usize = 64;

/// How long previous signing keys still sign: until receivers have fetched the new one.
pub const WEBHOOK_KEY_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// How long nodes and receivers may cache the signing keys.
pub const WEBHOOK_KEYS_FRESH: Duration = Duration::from_secs(60);

/// Keys in the published set.
pub const WEBHOOK_KEYS_MAX: usize = 16;

/// Timeout of connecting to a receiver; part of `webhooks.timeout_ms`.
pub const WEBHOOK_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Addresses of one name that are tried.
pub const WEBHOOK_ADDRESSES_TRIED_MAX: usize = 4;

/// Concurrent name look-ups. Each occupies one of 512 threads.
pub const WEBHOOK_LOOKUPS_MAX: usize = 128;

/// Bytes of status line and headers of a receiver's answer.
pub const ANSWER_HEAD_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a receiver's answer that are read so that its connection can be reused. Their content
/// is ignored.
pub const WEBHOOK_ANSWER_BODY_BYTES_MAX: usize = 4 * 1024;

/// Timeout of the rest of an answer before its connection is closed instead.
pub const WEBHOOK_DRAIN: Duration = Duration::from_millis(250);

/// Idle connections to receivers, in total and per receiver.
pub const WEBHOOK_IDLE_MAX: usize = 512;
/// See [`WEBHOOK_IDLE_MAX`].
pub const WEBHOOK_IDLE_PER_RECEIVER_MAX: usize = 64;

/// How long an idle connection is kept: less than the shortest common keep-alive (Apache's 5 s).
pub const WEBHOOK_IDLE: Duration = Duration::from_secs(4);

/// The longest `Retry-After` of a receiver.
pub const WEBHOOK_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Bytes of a set of public keys that `forgerun webhook` reads.
pub const WEBHOOK_KEYS_BYTES_MAX: usize = 64 * 1024;

/// Maximum age or advance of a signature for `forgerun webhook`, as in Standard Webhooks libraries.
pub const WEBHOOK_TOLERANCE: Duration = Duration::from_secs(300);

/// Bytes of a delivery that `forgerun webhook listen` accepts: at most a payload and a job.
pub const LISTEN_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Characters of a body that `forgerun webhook listen` prints.
pub const LISTEN_SHOWN_CHARS_MAX: usize = 4096;

/// Deliveries that `forgerun webhook listen` remembers, to detect repetitions.
pub const LISTEN_IDS_MAX: usize = 1000;

/// Characters of a delivery's id in file names.
pub const LISTEN_NAME_CHARS_MAX: usize = 100;

/// How much longer than the receiver's timeout the lease of a delivery is: for signing, and for
/// storing the result.
pub const WEBHOOK_LEASE_MARGIN: Duration = Duration::from_secs(20);

/// Longest and usual validity of a job token.
pub(crate) const JOB_TOKEN_MAX: Duration = Duration::from_secs(24 * 3600);
pub(crate) const JOB_TOKEN_USUAL: Duration = Duration::from_secs(3600);

/// Most requests per minute that a client's own limit can allow.
pub(crate) const CLIENT_RATE_MAX: u64 = 1_000_000;

/// How long a browser may remember what CORS allows.
pub(crate) const CORS_MAX_AGE_S: u32 = 600;

/// How far ahead the expiry of a named key can lie.
pub(crate) const KEY_TTL_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Default overlap of webhook secrets during a rotation.
pub const WEBHOOK_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// Longest overlap: a leaked secret should not stay valid for ever.
pub const WEBHOOK_SECRET_OVERLAP_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Concurrent connections. Further ones wait to be accepted; streams and waiting requests hold
/// theirs for long.
pub const CONNECTIONS_MAX: usize = 32_768;

/// Timeout of a request's head, including the wait for its first byte.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// Default timeout of a write without progress: longer than a train is in a tunnel; clients can
/// repeat the request.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// Bytes of an answer that are copied together to be written at once.
pub const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a piece of an answer that may always be buffered; with [`CONNECTIONS_MAX`] clients that
/// do not read, half a gigabyte.
pub const UNWRITTEN_FREE_BYTES: usize = 16 * 1024;

/// Total bytes of larger buffered pieces. A client within its rate cannot fill it before
/// [`WRITE_STALL`] is over.
pub const UNWRITTEN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of an OJS job envelope (C-101).
pub const OJS_ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a batch of OJS envelopes: a full batch of ordinary size.
pub const OJS_BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Default lease of an OJS worker (worker protocol: 1800 s).
pub const OJS_LEASE: Duration = Duration::from_secs(1800);

/// A fetch may wait for half of it; the rest is the timeout of any request.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of the jobs that a fetch hands out over HTTP; the others go back. The size of a batch.
pub const FETCH_BYTES_MAX: usize = OJS_BATCH_BYTES_MAX;

/// Jobs of a fetch whose inputs are read at once: with the largest, 32 MB beyond
/// [`FETCH_BYTES_MAX`].
pub const FETCH_READ_JOBS: usize = 32;

/// Timeout of an upload as a whole; its pieces have one of their own.
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// Shelves that a fetch of the operator examines.
pub const SHELVES_SEARCHED_MAX: usize = 256;

/// Shelves that one request of the operator searches for their oldest job. Each is a scan of the
/// waiting jobs.
pub const OLDEST_LOOKED_AT_MAX: usize = 256;

/// Batch records of failures that a list reads. More exist only while hundreds of batches a second
/// fail; the numbers are then a second old.
pub const FAILURE_BATCHES_READ_MAX: usize = 1000;

/// Jobs that are counted for the preview of a redrive: some hundred milliseconds in an index.
pub const REDRIVE_MATCHED_MAX: usize = 1_000_000;

/// Jobs that the preview of a redrive names.
pub const REDRIVE_SHOWN_MAX: usize = 10;

/// Interval of tallies. A report arrives after twice that at worst: within a second limits hold for
/// all nodes. Each time costs a node one query, and a small transaction if there is something to
/// report.
pub const TALLY_EVERY: Duration = Duration::from_millis(400);

/// Rounds for which an entry is repeated: ten seconds, for nodes that could not read meanwhile.
pub const TALLY_ROUNDS_KEPT: u64 = 25;

/// Callers in one tally, some 40 bytes each. Those with least left come first.
pub const TALLY_ENTRIES_MAX: usize = 4096;

/// Clients with changed keys in one tally. Beyond it other nodes recheck the store anyway, see
/// [`KEY_FRESH`].
pub const TALLY_KEYS_MAX: usize = 256;

/// Clients whose quotas are updated in one transaction. Those with least left come first.
pub const QUOTAS_PER_ROUND: usize = 256;

/// How long the last tally may delay the stop.
pub const TALLY_STOP_GRACE: Duration = Duration::from_millis(500);

/// How recently a worker must have asked for a queue to count as present, at least. Workers poll
/// more often.
pub const ASKED_FOR_MIN: Duration = Duration::from_secs(10);

/// Minimum interval of node heartbeats with news.
pub const NODE_BEAT_MIN: Duration = Duration::from_secs(1);

/// Webhooks and schedules that the overview checks for problems.
pub const PROBLEMS_SEARCHED_MAX: usize = 1000;

/// How long a schedule with missed ticks is listed as a problem.
pub const SCHEDULE_MISSED_SHOWN: Duration = Duration::from_secs(24 * 3600);

/// Interval of entries about wrong keys in the audit trail.
pub const AUDIT_WRONG_KEYS_EVERY: Duration = Duration::from_secs(60);

/// How long the last of these entries may delay the stop.
pub const AUDIT_STOP_GRACE: Duration = Duration::from_millis(500);

/// Distinct addresses and prefixes of wrong keys per minute; further ones are counted together.
pub const AUDIT_WRONG_KEYS_MAX: usize = 256;

/// Entries of the audit trail that are read at once, and that one page examines.
pub const AUDIT_READ_AT_ONCE: usize = 500;
/// See [`AUDIT_READ_AT_ONCE`].
pub const AUDIT_SEARCHED_MAX: usize = 10_000;

/// Interval of node heartbeats.
pub const NODE_BEAT: Duration = Duration::from_secs(30);

/// How often a list of failures is read again because a batch was folded meanwhile.
pub const FAILURE_READS_MAX: usize = 4;

/// Jobs that are read to find those that listed workers still hold.
pub const HELD_JOBS_LOOKED_AT_MAX: usize = 2000;

/// Workers that are examined to find one by name, or to count those of a client.
pub const WORKERS_SEARCHED_MAX: usize = 10_000;

/// Pages of the journal that one page of OJS events examines.
pub const OJS_EVENT_PAGES_MAX: usize = 32;

/// Bytes of the dependencies' results that a step gets with its job. The worker fetches the others.
pub const PARENT_RESULTS_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a gRPC message: a batch of envelopes, and the overhead of protocol buffers.
pub const GRPC_MESSAGE_BYTES_MAX: usize = OJS_BATCH_BYTES_MAX + 1024 * 1024;

/// Bytes of a gRPC message about one job: an envelope, and as much for the overhead of protocol
/// buffers.
pub const GRPC_MESSAGE_OF_ONE_BYTES_MAX: usize = 2 * OJS_ENVELOPE_BYTES_MAX;

/// Fields of a gRPC message with many jobs, checked before it is decoded: well above the bounds of
/// batches and workflows, so that a slight excess is refused with the right number. An empty one
/// takes half a kilobyte when it is decoded.
pub const GRPC_ENTRIES_MAX: usize = 10_000;

/// How long a gRPC connection without calls is kept. Then the client is asked to reconnect; running
/// calls go on.
pub const GRPC_IDLE: Duration = Duration::from_secs(30 * 60);

/// Bytes of the message with fetched jobs over gRPC; the others go back. Clients accept 4 MiB by
/// default.
pub const GRPC_FETCH_BYTES_MAX: usize = 3584 * 1024;

/// Bytes of the jobs in a page of dead letters; the others come with the next page.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Concurrent gRPC connections. Each carries many calls, so clients need few.
pub const GRPC_CONNECTIONS_MAX: usize = 4096;

/// Concurrent calls per gRPC connection; further ones wait at the client. A waiting call takes some
/// kilobytes.
pub const GRPC_CALLS_PER_CONNECTION_MAX: u32 = 256;

/// Interval and timeout of pings on a silent HTTP/2 connection: a worker whose machine is gone must
/// not hold its place for ever.
pub const HTTP2_PING_EVERY: Duration = Duration::from_secs(20);
/// See [`HTTP2_PING_EVERY`].
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of one answer buffered per HTTP/2 connection, beyond the client's window.
pub const HTTP2_SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How often TLS certificates are read again, in case they have changed: three small files.
pub const TLS_FILES_READ_EVERY: Duration = Duration::from_secs(2);

/// How long a TLS handshake may take.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs that one OJS request changes in bulk; `has_more` reports others.
pub const OJS_BULK_JOBS_MAX: usize = 1000;

/// Cron jobs in the answer to `ListCron`, which has no pages, unlike HTTP.
pub const GRPC_CRONS_MAX: usize = 1000;

/// How long a claim of a stream waits before it is repeated; repeating is free without work.
pub const STREAM_CLAIM_WAIT: Duration = Duration::from_secs(30);

/// How long the claim of an ended stream may take: longer than a transaction of a healthy store.
pub const STREAM_CLAIM_GRACE: Duration = Duration::from_millis(250);

/// Jobs that a stream claims at once: more would keep them from other workers.
pub const STREAM_CLAIM_JOBS_MAX: usize = 32;

/// How long a stream with few free places waits for more before it claims: an eighth of the jobs'
/// duration, within these bounds. A claim per acknowledged job would cost as much as the job.
pub const STREAM_LINGER_MIN: Duration = Duration::from_millis(2);
/// See [`STREAM_LINGER_MIN`].
pub const STREAM_LINGER_MAX: Duration = Duration::from_millis(50);

/// Jobs that a full, silent stream rechecks, one by one.
pub const STREAM_HOLDS_CHECKED_MAX: usize = 32;

/// Event types that one stream may name; there are ten.
pub const STREAM_EVENT_TYPES_MAX: usize = 64;

/// Bytes of a request's head; more is 431, though the last read may double it. Also the read buffer
/// for bodies.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Unacknowledged messages of one bridged queue: enough to share transactions. The broker counts
/// messages, not bytes, so this times its `max_message_size` bounds the memory of a queue; with the
/// largest accepted envelopes, 16 MB.
#[cfg(feature = "amqp")]
pub const AMQP_PREFETCH: u16 = 16;

/// Bridged queues that are declared concurrently, each on a channel of its own: about 36 round
/// trips.
#[cfg(feature = "amqp")]
pub const AMQP_DECLARE_AT_ONCE: usize = 16;

/// Unacknowledged commands of one bridged queue. Some wait for their job.
#[cfg(feature = "amqp")]
pub const AMQP_CONTROL_PREFETCH: u16 = 32;

/// Timeout of connecting to a broker.
#[cfg(feature = "amqp")]
pub const AMQP_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a broker's confirm. A broker without memory or disk space blocks all publishers.
#[cfg(feature = "amqp")]
pub const AMQP_CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// Wait after a broken connection to the broker; doubled each time (OJS's binding: 1 s, …, 60 s).
#[cfg(feature = "amqp")]
pub const AMQP_WAIT_BASE: Duration = Duration::from_secs(1);

/// The longest of these waits.
#[cfg(feature = "amqp")]
pub const AMQP_WAIT_MAX: Duration = Duration::from_secs(60);

/// First wait after the store did not accept a message.
#[cfg(feature = "amqp")]
pub const AMQP_HOLD_PAUSE: Duration = Duration::from_millis(50);

/// How long messages are held that the store does not accept; then they return to the broker.
/// Brokers close channels that hold messages for half an hour.
#[cfg(feature = "amqp")]
pub const AMQP_HOLD_MAX: Duration = Duration::from_secs(5 * 60);

/// How long a cancel waits for an unknown job, which it may have overtaken.
#[cfg(feature = "amqp")]
pub const AMQP_CANCEL_WAIT: Duration = Duration::from_secs(10);

/// How long the schemas of a client are cached: how long a registration on another node is not
/// seen.
pub const SCHEMAS_FRESH: Duration = Duration::from_secs(1);

/// Clients whose schemas are cached; most have none.
pub const SCHEMA_CLIENTS_CACHED_MAX: usize = 1024;

/// Approximate bytes of cached schemas, per client and in total.
pub const SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX: usize = SCHEMAS_CACHED_BYTES_MAX / 4;
/// See [`SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX`].
pub const SCHEMAS_CACHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Validation work that is done at once; more runs on a separate thread. About a millisecond.
pub const SCHEMA_WORK_AT_ONCE: usize = 32 * 1024;

/// Number of such threads. Few, because each occupies a processor while it works.
pub const SCHEMA_THREADS_MAX: usize = 2;

/// Groups of clients that share these threads, each with one thread at a time.
pub const SCHEMA_TURNS: usize = 256;

/// How long a job waits for such a thread before it is refused with 504.
pub const SCHEMA_WAIT_MAX: Duration = Duration::from_secs(10);

/// Lines of a job's log in a page.
pub const LOG_PAGE_DEFAULT: usize = 200;
/// See [`LOG_PAGE_DEFAULT`].
pub const LOG_PAGE_MAX: usize = 1000;

/// Chunks of a log that are read at once, of at most 128 KiB each.
pub const LOG_CHUNKS_PER_READ: usize = 16;

/// Chunks that one page looks through. A search that ends there goes on with the next page.
pub const LOG_CHUNKS_SCANNED_MAX: usize = 128;

/// Lines sent in one piece of a stream.
pub const LOG_PIECE_LINES: usize = 500;

/// How often a stream looks for lines that other nodes wrote, and for the end of the job.
pub const LOG_LOOK_EVERY: Duration = Duration::from_millis(500);

/// Lines that the dashboard shows of a job.
pub const LOG_LINES_SHOWN: usize = 200;

/// Bytes of a request with log lines: the text of JSON may be six times as long as its value.
pub const LOG_BODY_BYTES_MAX: usize = 800 * 1024;

/// Seconds after which a client whose logs are full may try again.
pub const LOG_FULL_AFTER_S: u64 = 60;

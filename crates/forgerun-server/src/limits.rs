//! Bounds of the server that nobody needs to configure, each with its reason. What an operator may
//! set is in
//! [`crate::config`].

mod hostile;

use std::time::Duration;

pub use hostile::*;

/// How long open connections may take to end after the request to stop. Supervisors commonly kill
/// after 30 s (Kubernetes) or 10 s (Docker); ours must be done before.
pub const STOP_GRACE: Duration = Duration::from_secs(8);

/// Characters of a bad value that a message repeats.
pub const SHOWN_CHARS_MAX: usize = 80;

/// Bytes of a configuration file. Larger is a mistaken path.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How long a request may take; a store that hangs is then answered for with 504. Longer than any
/// statement of a healthy store, shorter than the patience of most proxies (60 s).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest wait that `Prefer: wait` gets. Half of the minute after which proxies cut idle
/// connections.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long `/ready` waits for the store.
pub const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// What a client is told to wait before it looks at an unfinished job again.
pub const POLL_AFTER_S: u64 = 2;

/// What a client is told to wait after trouble that nobody knows the length of.
pub const TROUBLE_AFTER_S: u64 = 1;

/// What a client is told to wait when its quota is spent: only an operator can change that.
pub const QUOTA_AFTER_S: u64 = 3600;

/// How long a key is believed before the store is asked again. Other nodes tell when they change
/// one, see [`TALLY_EVERY`]; so long it works if such a node dies before it has told.
pub const KEY_FRESH: Duration = Duration::from_secs(5);

/// How often at most the last use of a key is written down.
pub const KEY_USED_EVERY: Duration = Duration::from_secs(60);

/// Keys kept in memory, some 300 bytes each.
pub const KEYS_CACHED_MAX: usize = 100_000;

/// Clients and addresses whose requests are counted, some 100 bytes each.
pub const CALLERS_COUNTED_MAX: usize = 100_000;

/// Answers 403 and 404 that one caller gets per minute before it is told to stop guessing. Far more
/// than a client with a bug or two needs, far too few to find an id of 74 random bits.
pub const MISSES_PER_MINUTE: u32 = 120;

/// Wrong tokens of one address that are answered at once per minute where only the operator's is
/// good. Further ones are answered late, so that guessing is slow; the right one always is answered
/// at once (C-125).
pub const WRONG_TOKENS_PER_MINUTE: u32 = 9;

/// How long the operator stays logged in to the dashboard: a day at work.
pub const SESSION_LASTS: Duration = Duration::from_secs(12 * 3600);

/// Sessions that were logged out and are remembered, each until it would have ended anyway.
pub const SESSIONS_ENDED_MAX: usize = 1000;

/// Jobs that the dashboard cancels or retries with one confirmation.
pub const BULK_JOBS_MAX: usize = 1000;

/// Bytes of an input that the operator is shown.
pub const INPUT_SHOWN_BYTES_MAX: usize = 64 * 1024;

/// Wrong keys of one address that are answered at once per minute: each may be an attempt at the
/// operator's token. Far more than a client with an old key sends.
pub const WRONG_KEYS_PER_MINUTE: u32 = 120;

/// Clients that one address may register per minute: enough for a simulator that makes one per
/// scenario.
pub const REGISTRATIONS_PER_MINUTE: u32 = 600;

/// Bytes of an idempotency key; a UUID has 36.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Bytes of a callback URL, as browsers and proxies have it.
pub const CALLBACK_BYTES_MAX: usize = 2048;

/// Bytes of a `tracestate` that are kept; W3C asks for at least 512.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// Bytes of a submission beside its payload.
pub const ENVELOPE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a `Problem` header field; proxies commonly allow 8 KiB for all headers together.
pub const PROBLEM_FIELD_BYTES_MAX: usize = 4096;

/// Waiting jobs that are counted to tell one of them its place; whoever has more before it is
/// content with an estimate. Each is an entry of an index to step over with every poll: a thousand
/// of them took more than half of a poll's time.
pub const QUEUE_PLACES_COUNTED: usize = 100;

/// Jobs and events in one page, unless the request says otherwise, and at most.
pub const PAGE_DEFAULT: usize = 50;
/// See [`PAGE_DEFAULT`].
pub const PAGE_MAX: usize = 200;

/// Dead letters that are counted for a scrape, which costs a walk over as many entries of an index.
/// More need no number.
pub const DEAD_LETTERS_COUNTED_MAX: usize = 10_000;

/// Dead letters that are counted for the total of a page. Each is a row to read;
/// `dead-letter/stats` counts further.
pub const DEAD_LETTER_TOTAL_MAX: usize = 1_000;

/// Workflows that a page may skip. Each is a row to read; a cursor goes further.
pub const OFFSET_MAX: usize = 1_000;

/// Rows set aside that are counted for a scrape. The first is reason enough to look.
pub const SET_ASIDE_COUNTED_MAX: usize = 1_000;

/// Rows that one page of jobs or deliveries looks at for a filter, about a millisecond's work. A
/// page that has found less by then ends there, with a cursor.
pub const LIST_ROWS_MAX: usize = 1_000;

/// Names of clients that a node remembers for views of the operator.
pub const CLIENT_NAMES_MAX: usize = 10_000;

/// How long it does: a name that another node changed is shown after that.
pub const CLIENT_NAMES_FOR: Duration = Duration::from_secs(5);

/// Rows that a search for the end of an id looks at: such ends are random, and no index has them.
pub const SUFFIX_ROWS_MAX: usize = 10_000;

/// Jobs that a search for the end of an id shows. More have too much in common to tell them apart
/// by it.
pub const SUFFIX_HITS_MAX: usize = 20;

/// Pages of jobs that one request looks through for a type, which no index knows.
pub const PAGES_SCANNED_MAX: usize = 10;

/// Journal rows that a waiting request reads at once.
pub const JOURNAL_ROWS_MAX: usize = 256;

/// Journal rows that streams read at once. A row is a transaction and may hold a thousand events.
pub const STREAM_ROWS_MAX: usize = 64;

/// Jobs that streams look up with one question, and outcomes that they look up at once. Others who
/// read wait behind them in line.
pub const STREAM_LOOKUPS_MAX: usize = 64;

/// Pages of the journal that are searched for the event a listener was told last. It stands in the
/// first, unless clocks were set back.
pub const JOURNAL_PAGES_SEARCHED_MAX: usize = 64;

/// Events of the past that are sent in one piece, some 40 KB.
pub const STREAM_PIECE_EVENTS: usize = 64;

/// Events that may wait for one stream, beside what the kernel holds for its connection. A reader
/// that is further behind is better served by coming back than by a longer queue.
pub const STREAM_EVENTS_WAITING_MAX: usize = 256;

/// How often a stream gives a sign of life. Proxies commonly cut what is silent for
/// 30 to 60 s.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a listener is told to wait before it comes back.
pub const STREAM_RECONNECT_MS: u64 = 3000;

/// What a client with too many streams is told to wait.
pub const STREAMS_FULL_AFTER_S: u64 = 10;

/// How long streams wait for a store that is in trouble.
pub const HUB_PAUSE: Duration = Duration::from_millis(500);

/// Bytes of a result that are read at once. Two such chunks are in memory per download; larger ones
/// are no faster.
pub const DOWNLOAD_CHUNK_BYTES: usize = 128 * 1024;

/// Results beside the rows that are downloaded at once: with what the connection itself holds, some
/// 200 MB at worst. One more is told to come back.
pub const DOWNLOADS_MAX: usize = 256;

/// Of these, downloads of one client: more than a browser or a download manager opens, and an
/// eighth of all.
pub const DOWNLOADS_PER_CLIENT_MAX: usize = 32;

/// Small results that were just fetched and are kept for the next who asks, in all.
pub const READY_RESULTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Spans that wait to be sent, some 500 bytes each. A collector that is slower than the work loses
/// the rest.
pub const TRACE_SPANS_WAITING_MAX: usize = 16 * 1024;

/// Spans in one request to the collector: some 300 KB of JSON, well below the limits that
/// collectors set.
pub const TRACE_BATCH_MAX: usize = 512;

/// How long a batch waits for more spans, and the first pause after trouble.
pub const TRACE_LINGER: Duration = Duration::from_millis(250);

/// How long the collector may take to answer.
pub const TRACE_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the collector's answer that are read, so that the connection can be used again. It says
/// `{}` or what is wrong.
pub const TRACE_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How often a batch is tried. Longer trouble is better met by dropping: newer spans are worth
/// more.
pub const TRACE_TRIES: u32 = 3;

/// How long sending the last spans may hold up the stop. With [`STOP_GRACE`] still within ten
/// seconds.
pub const TRACE_STOP_GRACE: Duration = Duration::from_millis(1500);

/// Bytes of a new secret of a webhook: as many as the digest it keys.
pub const WEBHOOK_SECRET_BYTES: usize = 32;

/// Bytes of a webhook's secret, as Standard Webhooks has it.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 24;
/// See [`WEBHOOK_SECRET_BYTES_MIN`].
pub const WEBHOOK_SECRET_BYTES_MAX: usize = 64;

/// How long the signing keys before a new one still sign: long enough for receivers to have seen
/// the new one.
pub const WEBHOOK_KEY_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// How long a node believes what it knows of the signing keys, and receivers may.
pub const WEBHOOK_KEYS_FRESH: Duration = Duration::from_secs(60);

/// Keys in the published set.
pub const WEBHOOK_KEYS_MAX: usize = 16;

/// How long making a connection to a receiver may take; part of `webhooks.timeout_ms`.
pub const WEBHOOK_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Addresses of one name that are tried.
pub const WEBHOOK_ADDRESSES_TRIED_MAX: usize = 4;

/// Names that are looked up at the same time. Each look-up has a thread to itself, of which there
/// are 512 for everything.
pub const WEBHOOK_LOOKUPS_MAX: usize = 128;

/// Bytes of status line and headers of a receiver's answer.
pub const ANSWER_HEAD_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a receiver's answer that are read so that its connection can be used again. Their
/// content is of no interest.
pub const WEBHOOK_ANSWER_BODY_BYTES_MAX: usize = 4 * 1024;

/// How long the rest of an answer may take before its connection is given up instead.
pub const WEBHOOK_DRAIN: Duration = Duration::from_millis(250);

/// Connections that wait for a next delivery, and how many of them to one receiver.
pub const WEBHOOK_IDLE_MAX: usize = 512;
/// See [`WEBHOOK_IDLE_MAX`].
pub const WEBHOOK_IDLE_PER_RECEIVER_MAX: usize = 64;

/// How long such a connection is kept: less than the shortest keep-alive that is common (Apache's 5
/// s).
pub const WEBHOOK_IDLE: Duration = Duration::from_secs(4);

/// The longest wait that a receiver may ask for.
pub const WEBHOOK_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Bytes of a set of public keys that `forgerun webhook` fetches or reads.
pub const WEBHOOK_KEYS_BYTES_MAX: usize = 64 * 1024;

/// How old or how far ahead a signature may be before `forgerun webhook` calls it stale, as
/// Standard Webhooks libraries have it.
pub const WEBHOOK_TOLERANCE: Duration = Duration::from_secs(300);

/// Bytes of a delivery that `forgerun webhook listen` takes; a delivery has at most a payload and
/// what is told of a job.
pub const LISTEN_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Characters of a body that `forgerun webhook listen` shows.
pub const LISTEN_SHOWN_CHARS_MAX: usize = 4096;

/// Deliveries that `forgerun webhook listen` remembers, to tell repetitions.
pub const LISTEN_IDS_MAX: usize = 1000;

/// Characters of a delivery's id that name the files it is kept in.
pub const LISTEN_NAME_CHARS_MAX: usize = 100;

/// How much longer a node holds a delivery than a receiver may take: for signing, and for writing
/// down how it went.
pub const WEBHOOK_LEASE_MARGIN: Duration = Duration::from_secs(20);

/// How long deliveries are signed with the secret before the current one too, unless the owner says
/// otherwise.
pub const WEBHOOK_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// The longest that an owner may ask for: a secret that leaked should not be good for ever.
pub const WEBHOOK_SECRET_OVERLAP_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Connections at once. Further ones wait to be accepted; a stream or a waiting request holds its
/// connection for long.
pub const CONNECTIONS_MAX: usize = 32_768;

/// How long a connection may take to send the head of a request, the wait for its first byte
/// included: what has nothing to say for so long is closed.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a write may make no progress, unless the operator says otherwise: longer than a train
/// is in a tunnel, and what is cut off can be asked for again.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// Bytes of an answer that are copied together so that they are written at once.
pub const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a piece of an answer that may wait to be written whatever else waits; with
/// [`CONNECTIONS_MAX`] readers that do not read, half a gigabyte.
pub const UNWRITTEN_FREE_BYTES: usize = 16 * 1024;

/// Bytes of larger pieces that may wait to be written, in all. A client within its rate cannot fill
/// it before [`WRITE_STALL`] is over.
pub const UNWRITTEN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of an OJS job envelope (C-101).
pub const OJS_ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a batch of OJS envelopes: as many of a common size as a batch may have.
pub const OJS_BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an OJS worker holds a job where nobody says (worker protocol: 1800 s).
pub const OJS_LEASE: Duration = Duration::from_secs(1800);

/// A fetch may wait for half of it; the rest is the time that any request has.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of the jobs that a fetch hands out over HTTP; those that do not fit go back. As many as a
/// batch of jobs may bring.
pub const FETCH_BYTES_MAX: usize = OJS_BATCH_BYTES_MAX;

/// Jobs of a fetch whose inputs are read at once: with the largest, 32 MB beyond
/// [`FETCH_BYTES_MAX`].
pub const FETCH_READ_JOBS: usize = 32;

/// How long the upload of a result may take as a whole; pieces of it have a bound of their own.
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// Shelves that a fetch of the operator looks at.
pub const SHELVES_SEARCHED_MAX: usize = 256;

/// Shelves that one request of the operator searches for their oldest job. Each is a walk over the
/// jobs that wait there.
pub const OLDEST_LOOKED_AT_MAX: usize = 256;

/// Records of failures that are not added to their groups yet, which a list reads. More come only
/// while hundreds of batches a second fail; the numbers are then a second old.
pub const FAILURE_BATCHES_READ_MAX: usize = 1000;

/// Jobs that are counted to say how many a redrive would find: some hundred milliseconds in an
/// index.
pub const REDRIVE_MATCHED_MAX: usize = 1_000_000;

/// Jobs that the preview of a redrive names.
pub const REDRIVE_SHOWN_MAX: usize = 10;

/// How often nodes tell each other what their callers spent. Told and heard, that is twice as long
/// at worst: within a second limits hold for all nodes. Each time costs a node one query, and a
/// small transaction if there is something to tell.
pub const TALLY_EVERY: Duration = Duration::from_millis(400);

/// For so many rounds what was told is told again: ten seconds, for nodes that could not read
/// meanwhile.
pub const TALLY_ROUNDS_KEPT: u64 = 25;

/// Callers that one tally tells of, some 40 bytes each. Of more, those are told of who have least
/// left.
pub const TALLY_ENTRIES_MAX: usize = 4096;

/// Clients with changed keys that one tally tells of. Of more, other nodes hear when they next ask
/// the store, see [`KEY_FRESH`].
pub const TALLY_KEYS_MAX: usize = 256;

/// Clients whose quotas are added up in one transaction. Of more, those come first who have least
/// left.
pub const QUOTAS_PER_ROUND: usize = 256;

/// How long telling for the last time may hold up the stop.
pub const TALLY_STOP_GRACE: Duration = Duration::from_millis(500);

/// How long ago a worker may have asked for a queue that still counts as alive, at least. Workers
/// that poll do so more often.
pub const ASKED_FOR_MIN: Duration = Duration::from_secs(10);

/// Between two heartbeats of a node, if there is news for the others.
pub const NODE_BEAT_MIN: Duration = Duration::from_secs(1);

/// Webhooks and schedules that the overview looks at for problems.
pub const PROBLEMS_SEARCHED_MAX: usize = 1000;

/// How long a schedule that missed ticks is listed as a problem.
pub const SCHEDULE_MISSED_SHOWN: Duration = Duration::from_secs(24 * 3600);

/// How often a node says that it is there.
pub const NODE_BEAT: Duration = Duration::from_secs(30);

/// How often a list of failures is read again because some were added to their groups meanwhile.
pub const FAILURE_READS_MAX: usize = 4;

/// Jobs that are read to see which of them the workers of a list still hold.
pub const HELD_JOBS_LOOKED_AT_MAX: usize = 2000;

/// Workers that are looked at to find one by its name alone, or to count those of a client.
pub const WORKERS_SEARCHED_MAX: usize = 10_000;

/// Pages of the journal that one page of OJS events looks through.
pub const OJS_EVENT_PAGES_MAX: usize = 32;

/// Bytes of the results that a step of a workflow is handed by those it waited for. What does not
/// fit is fetched by the worker.
pub const PARENT_RESULTS_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a gRPC message: a batch of envelopes, and what protocol buffers need beyond JSON for
/// it.
pub const GRPC_MESSAGE_BYTES_MAX: usize = OJS_BATCH_BYTES_MAX + 1024 * 1024;

/// Bytes of a gRPC message about one job at most: an envelope, and as much again for what protocol
/// buffers need beyond JSON.
pub const GRPC_MESSAGE_OF_ONE_BYTES_MAX: usize = 2 * OJS_ENVELOPE_BYTES_MAX;

/// Fields of a gRPC message with many jobs, looked at before it is decoded: well above the jobs of
/// a batch and the steps of a workflow, so that whoever has a few too many is told the right
/// number. An empty one takes half a kilobyte when it is decoded.
pub const GRPC_ENTRIES_MAX: usize = 10_000;

/// How long a gRPC connection is kept on which no call begins. Then the client is asked to make a
/// new one; calls under way go on.
pub const GRPC_IDLE: Duration = Duration::from_secs(30 * 60);

/// Bytes of the message by which a fetch hands out jobs over gRPC; those that do not fit go back.
/// Clients take 4 MiB unless told otherwise.
pub const GRPC_FETCH_BYTES_MAX: usize = 3584 * 1024;

/// Bytes of the jobs in a page of dead letters; those that do not fit come with the next page.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// gRPC connections at once. Each carries many calls, so clients need few.
pub const GRPC_CONNECTIONS_MAX: usize = 4096;

/// Calls under way on one gRPC connection; further ones wait on the client's side. A call that only
/// waits takes some kilobytes.
pub const GRPC_CALLS_PER_CONNECTION_MAX: u32 = 256;

/// How often a silent gRPC connection is asked whether it is alive, and how long it may take to say
/// so: a worker whose machine is gone must not hold its place for ever.
pub const GRPC_PING_EVERY: Duration = Duration::from_secs(20);
/// See [`GRPC_PING_EVERY`].
pub const GRPC_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of one call that may wait to be written on a gRPC connection, beside what the client's
/// window lets through.
pub const GRPC_SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How long a TLS handshake may take.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Dead letters that one request tries again; `has_more` says that there are others.
pub const BULK_RETRY_JOBS_MAX: usize = 1000;

/// Cron jobs in the answer to `ListCron`, which knows no pages; over HTTP they come in pages.
pub const GRPC_CRONS_MAX: usize = 1000;

/// How long a stream of jobs waits for work before it asks anew; asking costs nothing where there
/// is none.
pub const STREAM_CLAIM_WAIT: Duration = Duration::from_secs(30);

/// How long a claim of a stream that has ended may take: longer than a transaction of a healthy
/// store.
pub const STREAM_CLAIM_GRACE: Duration = Duration::from_millis(250);

/// Jobs that a stream takes at once: more would keep them from other workers.
pub const STREAM_CLAIM_JOBS_MAX: usize = 32;

/// How long a stream with little room waits for more before it takes jobs, an eighth of the time
/// that jobs take within these bounds: a claim for each acknowledged job would cost as much as the
/// job.
pub const STREAM_LINGER_MIN: Duration = Duration::from_millis(2);
/// See [`STREAM_LINGER_MIN`].
pub const STREAM_LINGER_MAX: Duration = Duration::from_millis(50);

/// Jobs that a full stream looks at when it has heard nothing, one by one.
pub const STREAM_HOLDS_CHECKED_MAX: usize = 32;

/// Types of events that one stream may name; there are ten.
pub const STREAM_EVENT_TYPES_MAX: usize = 64;

/// Bytes of the head of a request; more is 431, though a last read may bring it up to twice as
/// many. A connection takes no more of a body either before it has written what it took.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Messages of one bridged queue that are in hand at once: enough to share transactions. The broker
/// counts messages, not bytes, so this times its `max_message_size` is what a queue can take in
/// memory; with the largest envelopes that are taken, 16 MB.
#[cfg(feature = "amqp")]
pub const AMQP_PREFETCH: u16 = 16;

/// Bridged queues that are declared at the same time, each on a channel of its own: about 36 trips
/// to the broker one after the other.
#[cfg(feature = "amqp")]
pub const AMQP_DECLARE_AT_ONCE: usize = 16;

/// Commands of one bridged queue that are in hand at once. Some wait for their job.
#[cfg(feature = "amqp")]
pub const AMQP_CONTROL_PREFETCH: u16 = 32;

/// How long a broker may take to let us in.
#[cfg(feature = "amqp")]
pub const AMQP_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a broker may take to confirm a message. One that has run out of memory or disk stops
/// all who publish.
#[cfg(feature = "amqp")]
pub const AMQP_CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// The wait after a broken connection to the broker; it doubles with each further one (OJS's
/// binding: 1 s, …, 60 s).
#[cfg(feature = "amqp")]
pub const AMQP_WAIT_BASE: Duration = Duration::from_secs(1);

/// The longest of these waits.
#[cfg(feature = "amqp")]
pub const AMQP_WAIT_MAX: Duration = Duration::from_secs(60);

/// The wait after the store did not take a message, at first.
#[cfg(feature = "amqp")]
pub const AMQP_HOLD_PAUSE: Duration = Duration::from_millis(50);

/// How long messages are in hand that the store does not take; then they go back to the broker.
/// Brokers close channels that hold messages for half an hour.
#[cfg(feature = "amqp")]
pub const AMQP_HOLD_MAX: Duration = Duration::from_secs(5 * 60);

/// How long a cancel waits for a job that is not there yet: it may have overtaken it.
#[cfg(feature = "amqp")]
pub const AMQP_CANCEL_WAIT: Duration = Duration::from_secs(10);

/// How long the schemas of a client are believed before the store is asked again: how long what
/// another node registered does not count here.
pub const SCHEMAS_FRESH: Duration = Duration::from_secs(1);

/// Clients whose schemas are kept in memory; most have none.
pub const SCHEMA_CLIENTS_CACHED_MAX: usize = 1024;

/// Bytes of the schemas in the cache, roughly, of one client and in all.
pub const SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX: usize = SCHEMAS_CACHED_BYTES_MAX / 4;
/// See [`SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX`].
pub const SCHEMAS_CACHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Work that is done at once; more goes to a thread of its own. About a millisecond.
pub const SCHEMA_WORK_AT_ONCE: usize = 32 * 1024;

/// Such threads at work. Few, because each takes a processor from everybody else for as long as it
/// works.
pub const SCHEMA_THREADS_MAX: usize = 2;

/// Groups of clients that take turns at these threads, each with one thread at a time.
pub const SCHEMA_TURNS: usize = 256;

/// How long a job waits for such a thread before it is refused with 504, to be sent again.
pub const SCHEMA_WAIT_MAX: Duration = Duration::from_secs(10);

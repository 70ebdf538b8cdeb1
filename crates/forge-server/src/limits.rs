//! Bounds of the server that nobody needs to configure, each with its reason. What an operator may set is in
//! [`crate::config`].

use std::time::Duration;

/// How long open connections may take to end after the request to stop. Supervisors commonly kill after 30 s (Kubernetes)
/// or 10 s (Docker); ours must be done before.
pub const STOP_GRACE: Duration = Duration::from_secs(8);

/// Characters of a bad value that a message repeats.
pub const SHOWN_CHARS_MAX: usize = 80;

/// Bytes of a configuration file. Larger is a mistaken path.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How long a request may take; a store that hangs is then answered for with 504. Longer than any statement of a healthy
/// store, shorter than the patience of most proxies (60 s).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest wait that `Prefer: wait` gets. Half of the minute after which proxies cut idle connections.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long `/ready` waits for the store.
pub const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// What a client is told to wait before it looks at an unfinished job again.
pub const POLL_AFTER_S: u64 = 2;

/// What a client is told to wait after trouble that nobody knows the length of.
pub const TROUBLE_AFTER_S: u64 = 1;

/// What a client is told to wait when its quota is spent: only an operator can change that.
pub const QUOTA_AFTER_S: u64 = 3600;

/// How long a key is believed before the store is asked again: how long a key that another node revoked still works here,
/// for requests and for streams.
pub const KEY_FRESH: Duration = Duration::from_secs(5);

/// How often at most the last use of a key is written down.
pub const KEY_USED_EVERY: Duration = Duration::from_secs(60);

/// Keys kept in memory, some 300 bytes each.
pub const KEYS_CACHED_MAX: usize = 100_000;

/// Clients and addresses whose requests are counted, some 100 bytes each.
pub const CALLERS_COUNTED_MAX: usize = 100_000;

/// Answers 403 and 404 that one caller gets per minute before it is told to stop guessing. Far more than a client with a
/// bug or two needs, far too few to find an id of 74 random bits.
pub const MISSES_PER_MINUTE: u32 = 120;

/// Wrong tokens that one address may send per minute where only the operator's is good. Whoever mistypes it needs fewer.
pub const WRONG_TOKENS_PER_MINUTE: u32 = 10;

/// Wrong keys that one address may send per minute before it is no longer looked whether one is the operator's token by chance.
/// Far more than a client with an old key sends, since its address may be the operator's too.
pub const WRONG_KEYS_PER_MINUTE: u32 = 120;

/// Clients that one address may register per minute: enough for a simulator that makes one per scenario.
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

/// Waiting jobs that are counted to tell one of them its place; whoever has more before it is content with an estimate. Each is
/// an entry of an index to step over with every poll: a thousand of them took more than half of a poll's time.
pub const QUEUE_PLACES_COUNTED: usize = 100;

/// Jobs and events in one page, unless the request says otherwise, and at most.
pub const PAGE_DEFAULT: usize = 50;
/// See [`PAGE_DEFAULT`].
pub const PAGE_MAX: usize = 200;

/// Dead letters that are counted for a scrape, which costs a walk over as many entries of an index. More need no number.
pub const DEAD_LETTERS_COUNTED_MAX: usize = 10_000;

/// Rows set aside that are counted for a scrape. The first is reason enough to look.
pub const SET_ASIDE_COUNTED_MAX: usize = 1_000;

/// Rows that one page of jobs or deliveries looks at for a filter, about a millisecond's work. A page that has found less by then
/// ends there, with a cursor.
pub const LIST_ROWS_MAX: usize = 1_000;

/// Pages of jobs that one request looks through for a type, which no index knows.
pub const PAGES_SCANNED_MAX: usize = 10;

/// Journal rows that a waiting request reads at once.
pub const JOURNAL_ROWS_MAX: usize = 256;

/// Journal rows that streams read at once. A row is a transaction and may hold a thousand events.
pub const STREAM_ROWS_MAX: usize = 64;

/// Pages of the journal that are searched for the event a listener was told last. It stands in the first, unless clocks
/// were set back.
pub const JOURNAL_PAGES_SEARCHED_MAX: usize = 64;

/// Events of the past that are sent in one piece, some 40 KB.
pub const STREAM_PIECE_EVENTS: usize = 64;

/// Events that may wait for one stream, beside what the kernel holds for its connection. A reader that is further behind is
/// better served by coming back than by a longer queue.
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

/// Bytes of a result that are read at once. Two such chunks are in memory per download; larger ones are no faster.
pub const DOWNLOAD_CHUNK_BYTES: usize = 128 * 1024;

/// Results beside the rows that are downloaded at once: with what the connection itself holds, some 200 MB at worst. One more
/// is told to come back.
pub const DOWNLOADS_MAX: usize = 256;

/// Of these, downloads of one client: more than a browser or a download manager opens, and an eighth of all.
pub const DOWNLOADS_PER_CLIENT_MAX: usize = 32;

/// Spans that wait to be sent, some 500 bytes each. A collector that is slower than the work loses the rest.
pub const TRACE_SPANS_WAITING_MAX: usize = 16 * 1024;

/// Spans in one request to the collector: some 300 KB of JSON, well below the limits that collectors set.
pub const TRACE_BATCH_MAX: usize = 512;

/// How long a batch waits for more spans, and the first pause after trouble.
pub const TRACE_LINGER: Duration = Duration::from_millis(250);

/// How long the collector may take to answer.
pub const TRACE_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the collector's answer that are read, so that the connection can be used again. It says `{}` or what is wrong.
pub const TRACE_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How often a batch is tried. Longer trouble is better met by dropping: newer spans are worth more.
pub const TRACE_TRIES: u32 = 3;

/// How long sending the last spans may hold up the stop. With [`STOP_GRACE`] still within ten seconds.
pub const TRACE_STOP_GRACE: Duration = Duration::from_millis(1500);

/// Bytes of a new secret of a webhook: as many as the digest it keys.
pub const WEBHOOK_SECRET_BYTES: usize = 32;

/// Bytes of a webhook's secret, as Standard Webhooks has it.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 24;
/// See [`WEBHOOK_SECRET_BYTES_MIN`].
pub const WEBHOOK_SECRET_BYTES_MAX: usize = 64;

/// How long the signing keys before a new one still sign: long enough for receivers to have seen the new one.
pub const WEBHOOK_KEY_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// How long a node believes what it knows of the signing keys, and receivers may.
pub const WEBHOOK_KEYS_FRESH: Duration = Duration::from_secs(60);

/// Keys in the published set.
pub const WEBHOOK_KEYS_MAX: usize = 16;

/// How long making a connection to a receiver may take; part of `webhooks.timeout_ms`.
pub const WEBHOOK_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Addresses of one name that are tried.
pub const WEBHOOK_ADDRESSES_TRIED_MAX: usize = 4;

/// Names that are looked up at the same time. Each look-up has a thread to itself, of which there are 512 for everything.
pub const WEBHOOK_LOOKUPS_MAX: usize = 128;

/// Bytes of status line and headers of a receiver's answer.
pub const ANSWER_HEAD_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a receiver's answer that are read so that its connection can be used again. Their content is of no interest.
pub const WEBHOOK_ANSWER_BODY_BYTES_MAX: usize = 4 * 1024;

/// How long the rest of an answer may take before its connection is given up instead.
pub const WEBHOOK_DRAIN: Duration = Duration::from_millis(250);

/// Connections that wait for a next delivery, and how many of them to one receiver.
pub const WEBHOOK_IDLE_MAX: usize = 512;
/// See [`WEBHOOK_IDLE_MAX`].
pub const WEBHOOK_IDLE_PER_RECEIVER_MAX: usize = 64;

/// How long such a connection is kept: less than the shortest keep-alive that is common (Apache's 5 s).
pub const WEBHOOK_IDLE: Duration = Duration::from_secs(4);

/// The longest wait that a receiver may ask for.
pub const WEBHOOK_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Bytes of a set of public keys that `forgerun webhook` fetches or reads.
pub const WEBHOOK_KEYS_BYTES_MAX: usize = 64 * 1024;

/// How old or how far ahead a signature may be before `forgerun webhook` calls it stale, as Standard Webhooks libraries have it.
pub const WEBHOOK_TOLERANCE: Duration = Duration::from_secs(300);

/// Bytes of a delivery that `forgerun webhook listen` takes; a delivery has at most a payload and what is told of a job.
pub const LISTEN_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Characters of a body that `forgerun webhook listen` shows.
pub const LISTEN_SHOWN_CHARS_MAX: usize = 4096;

/// Deliveries that `forgerun webhook listen` remembers, to tell repetitions.
pub const LISTEN_IDS_MAX: usize = 1000;

/// Characters of a delivery's id that name the files it is kept in.
pub const LISTEN_NAME_CHARS_MAX: usize = 100;

/// How much longer a node holds a delivery than a receiver may take: for signing, and for writing down how it went.
pub const WEBHOOK_LEASE_MARGIN: Duration = Duration::from_secs(20);

/// How long deliveries are signed with the secret before the current one too, unless the owner says otherwise.
pub const WEBHOOK_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// The longest that an owner may ask for: a secret that leaked should not be good for ever.
pub const WEBHOOK_SECRET_OVERLAP_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Connections at once. Further ones wait to be accepted; a stream or a waiting request holds its connection for long.
pub const CONNECTIONS_MAX: usize = 32_768;

/// How long a connection may take to send the head of a request, the wait for its first byte included: what has nothing to say for
/// so long is closed.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a write may make no progress, unless the operator says otherwise: longer than a train is in a tunnel, and what is cut off
/// can be asked for again.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// Bytes of an answer that are copied together so that they are written at once.
pub const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a piece of an answer that may wait to be written whatever else waits; with [`CONNECTIONS_MAX`] readers that do not read, half a
/// gigabyte.
pub const UNWRITTEN_FREE_BYTES: usize = 16 * 1024;

/// Bytes of larger pieces that may wait to be written, in all. A client within its rate cannot fill it before [`WRITE_STALL`] is over.
pub const UNWRITTEN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of an OJS job envelope (C-101).
pub const OJS_ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a batch of OJS envelopes: as many of a common size as a batch may have.
pub const OJS_BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an OJS worker holds a job where nobody says (worker protocol: 1800 s).
pub const OJS_LEASE: Duration = Duration::from_secs(1800);

/// A fetch may wait for half of it; the rest is the time that any request has.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the upload of a result may take as a whole; pieces of it have a bound of their own.
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// Shelves that a fetch of the operator looks at.
pub const SHELVES_SEARCHED_MAX: usize = 256;

/// Pages of the journal that one page of OJS events looks through.
pub const OJS_EVENT_PAGES_MAX: usize = 32;

/// Bytes of the head of a request; more is 431, though a last read may bring it up to twice as many. A connection
/// takes no more of a body either before it has written what it took.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

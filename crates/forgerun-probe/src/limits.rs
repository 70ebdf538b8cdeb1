//! Bounds that nobody needs to configure, each with its reason.

use std::time::Duration;

/// How long an answer may take to arrive whole. Servers of the async-operations pattern answer at once; a result may be large.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer that are read. Results of test jobs are small.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Characters of a request or an answer that a finding shows.
pub const SHOWN_CHARS_MAX: usize = 600;

/// How often one job is asked for at most, however quickly it is polled.
pub const POLLS_MAX: usize = 10_000;

/// Phases of a scenario.
pub const PHASES_MAX: usize = 100;

/// Clients with keys of their own. Each is made by two requests before a run begins.
pub const CLIENTS_MAX: usize = 1000;

/// Journeys that begin per second. More than one process can send.
pub const RATE_MAX: f64 = 100_000.0;

/// Journeys under way at once. Each costs about 10 KB.
pub const CONCURRENCY_MAX: usize = 100_000;

/// Journeys of a run. The id of each job is kept for the audit, 200 bytes each.
pub const JOBS_MAX: u64 = 2_000_000;

/// How long a run may take.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long jobs that have not ended are waited for after the last phase, unless the command line says otherwise.
pub const DRAIN_DEFAULT: Duration = Duration::from_secs(60);

/// Latencies above this are counted as this.
pub const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Different violations that are kept; the same one is counted.
pub const VIOLATIONS_MAX: usize = 200;

/// Connections to the server for requests, unless the command line says otherwise.
pub const CONNECTIONS_DEFAULT: usize = 64;

/// Streams that are read at once. A server allows 100 per client.
pub const STREAMS_MAX: usize = 64;

/// Connections for misbehaviour at once, so that it does not use up the descriptors of this process.
pub const RAW_MAX: usize = 128;

/// How long a piece of nonsense is waited for. A server may wait for the rest of it.
pub const ABUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How slowly a head trickles in.
pub const TRICKLE_STEP: Duration = Duration::from_millis(100);

/// How long a stream is open that nobody reads.
pub const UNREAD_STREAM: Duration = Duration::from_secs(3);

/// How long a client waits before it asks again where the server does not say.
pub const POLL_DEFAULT: Duration = Duration::from_secs(1);

/// How long a client tries to reach a server that is away.
pub const BROKEN_PATIENCE: Duration = Duration::from_secs(30);

/// How long it waits in between.
pub const BROKEN_PAUSE: Duration = Duration::from_millis(100);

/// A cancellation comes within this after the acceptance.
pub const CANCEL_WITHIN: Duration = Duration::from_millis(500);

/// How often a job is submitted at once with one key.
pub const REPEATS: std::ops::RangeInclusive<usize> = 2..=8;

/// How many items a batch has.
pub const BATCH_ITEMS: std::ops::RangeInclusive<usize> = 2..=20;

/// Deliveries of one job that a receiver tells apart; those of a batch with progress are far fewer.
pub const DELIVERIES_PER_JOB_MAX: usize = 1000;

/// How long a worker's lease is: short, so that those who vanish are noticed within a run.
pub const WORKER_LEASE: Duration = Duration::from_secs(1);

/// How long a worker waits where there was no work.
pub const WORKER_PAUSE: Duration = Duration::from_millis(50);

/// How many jobs are looked at at once in the end.
pub const AUDITORS: usize = 32;

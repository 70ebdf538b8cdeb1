//! Bounds that are not configurable, each with its reason.

use std::time::Duration;

/// Timeout of a complete answer. Servers of the async-operations pattern answer at once; a result
/// may be large.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer that are read. Results of test jobs are small.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Characters of a request or answer that a finding shows.
pub const SHOWN_CHARS_MAX: usize = 600;

/// Maximum number of polls for one job.
pub const POLLS_MAX: usize = 10_000;

pub const PHASES_MAX: usize = 100;

/// Clients with keys of their own. Each is made by two requests before a run begins.
pub const CLIENTS_MAX: usize = 1000;

/// Journeys that begin per second. More than one process can send.
pub const RATE_MAX: f64 = 100_000.0;

/// Journeys under way at once. Each costs about 10 KB.
pub const CONCURRENCY_MAX: usize = 100_000;

/// Journeys of a run. The id of each job is kept for the audit, 200 bytes each.
pub const JOBS_MAX: u64 = 2_000_000;

pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// Default wait for open jobs after the last phase.
pub const DRAIN_DEFAULT: Duration = Duration::from_secs(60);

/// Longer latencies are counted as this.
pub const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Distinct violations to keep; repetitions are counted.
pub const VIOLATIONS_MAX: usize = 200;

/// Default number of connections.
pub const CONNECTIONS_DEFAULT: usize = 64;

/// Streams that are read at once. A server allows 100 per client.
pub const STREAMS_MAX: usize = 64;

/// Concurrent connections for misbehaviour, so that it does not use up this process's descriptors.
pub const RAW_MAX: usize = 128;

/// Timeout of an abusive request. A server may wait for the rest of it.
pub const ABUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of bytes of a slow head.
pub const TRICKLE_STEP: Duration = Duration::from_millis(100);

/// How long an unread stream is open.
pub const UNREAD_STREAM: Duration = Duration::from_secs(3);

/// Default poll interval if the server does not set one.
pub const POLL_DEFAULT: Duration = Duration::from_secs(1);

/// How long a client tries to reach a server that is down.
pub const BROKEN_PATIENCE: Duration = Duration::from_secs(30);

pub const BROKEN_PAUSE: Duration = Duration::from_millis(100);

/// Latest cancel after the acceptance.
pub const CANCEL_WITHIN: Duration = Duration::from_millis(500);

/// Concurrent submissions with one key.
pub const REPEATS: std::ops::RangeInclusive<usize> = 2..=8;

pub const BATCH_ITEMS: std::ops::RangeInclusive<usize> = 2..=20;

/// Deliveries of one job that a receiver tells apart; those of a batch with progress are far fewer.
pub const DELIVERIES_PER_JOB_MAX: usize = 1000;

/// Lease of a worker: short, so that lost workers are noticed within a run.
pub const WORKER_LEASE: Duration = Duration::from_secs(1);

/// Wait of a worker after an empty fetch.
pub const WORKER_PAUSE: Duration = Duration::from_millis(50);

/// Jobs audited in parallel.
pub const AUDITORS: usize = 32;

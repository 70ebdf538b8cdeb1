//! The grammar of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const AFTER_HELP: &str = "\
The server is compiled into this program. FORGERUN_BIN names a binary of ForgeRun to measure instead, such as that of a release.";

/// Measure ForgeRun on this machine. Server, load generator and what they are compared with share it, so ratios within
/// one run count.
#[derive(Debug, Parser)]
#[command(name = "forgerun-bench", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) bench: Bench,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Submissions, reads and whole jobs over HTTP, compared with a bare handler; takes about two
    /// minutes
    Http(BenchHttp),
    /// External workers: submissions compared with /api/v1, fetch and ack, waiting workers; takes
    /// about a minute
    Ojs(BenchHttp),
    /// External workers over gRPC compared with HTTP: submissions, jobs streamed and acknowledged,
    /// memory of streams; takes about a minute
    Grpc(BenchHttp),
    /// Submissions, polls, external workers, streams and webhooks at once: the maximal rate, and
    /// latencies at half of it; takes about a minute
    Mixed(BenchMixed),
    /// Many open event streams: latency of events, and memory per stream; takes about a minute
    Sse(BenchSse),
    /// Deliveries to a fast receiver, and submissions while a thousand receivers hang; takes about
    /// a minute
    Webhooks(BenchWebhooks),
    /// Events to brokers that you started: live and from a backlog; and submissions while the
    /// broker is down
    Sinks(BenchSinks),
    /// A large result: upload, download, resume, compared with a plain read of its file; needs its
    /// size on the disk
    Result(BenchResult),
    /// The measured server
    #[command(hide = true)]
    Serve(ServeFlags),
    /// The handlers that the server is compared with
    #[command(hide = true)]
    Bare(BareFlags),
}

#[derive(Debug, Args)]
pub(crate) struct BenchHttp {
    /// Length of one round in seconds
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Rounds of each kind; the median is reported
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Whole jobs to run
    #[arg(long, default_value_t = 100_000)]
    pub(crate) jobs: u64,
    /// Use a database on this PostgreSQL server instead of a SQLite file; each part creates an
    /// empty one of its own beside it
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchMixed {
    /// Length of one round in seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Rounds at half the maximal rate
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Use a database on this PostgreSQL server instead of a SQLite file; an empty one is created
    /// beside it
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSse {
    /// Streams open at once
    #[arg(long, default_value_t = 10_000)]
    pub(crate) streams: usize,
    /// Deliveries per second, over all streams
    #[arg(long, default_value_t = 1000)]
    pub(crate) events_per_second: u64,
    /// Duration of the events in seconds
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// The limit on open files is raised already
    #[arg(long, hide = true)]
    pub(crate) raised: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchWebhooks {
    /// Length of one round in seconds
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Rounds of each kind; the median is reported
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Deliveries to the fast receiver
    #[arg(long, default_value_t = 40_000)]
    pub(crate) deliveries: u64,
    /// Receivers that do not answer
    #[arg(long, default_value_t = 1000)]
    pub(crate) hanging: usize,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSinks {
    /// Kafka brokers, such as 127.0.0.1:9092
    #[arg(long, value_name = "BROKERS")]
    pub(crate) kafka: Option<String>,
    /// A NATS server with JetStream, such as nats://127.0.0.1:4222
    #[arg(long, value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// A RabbitMQ broker, such as amqp://guest:guest@127.0.0.1
    #[arg(long, value_name = "URL")]
    pub(crate) amqp: Option<String>,
    /// Events sent live
    #[arg(long, default_value_t = 200_000)]
    pub(crate) events: u64,
    /// Events in the backlog when the broker comes back
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) behind: u64,
    /// Length of one round of submissions in seconds
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Rounds of submissions; the median is reported
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
}

#[derive(Debug, Args)]
pub(crate) struct BenchResult {
    /// The size of the result in MiB
    #[arg(long, default_value_t = 1024)]
    pub(crate) mb: u64,
    /// Downloads; the median is reported
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
}

/// Flags of `forgerun serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeFlags {
    #[arg(long)]
    pub(crate) listen: Option<String>,
    #[arg(long)]
    pub(crate) data: Option<String>,
    #[arg(long)]
    pub(crate) database_url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BareFlags {
    /// Folder for the SQLite file
    pub(crate) data: PathBuf,
    /// Store in this empty PostgreSQL database instead
    pub(crate) database_url: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }
}

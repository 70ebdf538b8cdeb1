//! `forgerun-bench`: measures ForgeRun on the machine where it runs. Never shipped.
//!
//! Server, load generator and the handlers it is compared with are processes of this program, and
//! share the machine. So only ratios within one run mean much.
//!
//! | module | what it measures |
//! |---|---|
//! | `http` | submissions, status reads and whole jobs over HTTP, beside a bare axum handler |
//! | `ojs` | external workers: submissions beside `/api/v1`, fetch and ack, waiting workers |
//! | `grpc` | the same workers over gRPC, beside HTTP |
//! | `mixed` | all of it at once, and latencies at half the maximal rate |
//! | `result` | a large result, beside a plain read of its file |
//! | `sinks` | events to brokers, and submissions while the broker is down |
//! | `sse` | many streams of events |
//! | `webhooks` | deliveries to a fast receiver, and submissions while receivers hang |
//!
//! `load` and `http2` generate load; `processes` starts the children; `serve` and `bare` are the
//! children; `baseline` is the least that stores a job durably; `usage` reads what a server spent.

mod bare;
mod baseline;
mod cli;
mod grpc;
mod http;
mod http2;
mod load;
mod mixed;
mod ojs;
mod processes;
mod result;
mod scratch;
mod serve;
mod sinks;
mod sse;
mod usage;
mod webhooks;

use std::env;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Runtime;

use cli::{Bench, BenchHttp, BenchMixed, BenchSinks, BenchSse, BenchWebhooks, Cli};
use http::HttpOptions;
use result::ResultOptions;
use sinks::SinkBenchOptions;
use sse::SseOptions;
use webhooks::WebhookOptions;

/// The allocator of the shipped binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let data = env::temp_dir().join(format!("forgerun-bench-{}", std::process::id()));
    let measured = run(&Cli::parse().bench, &data);
    // The remaining data are worthless.
    let _ = std::fs::remove_dir_all(data);
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(bench: &Bench, data: &Path) -> io::Result<()> {
    let runtime = Runtime::new()?;
    match bench {
        Bench::Http(flags) => runtime.block_on(http::run(&flags.options(data))),
        Bench::Ojs(flags) => runtime.block_on(ojs::run(&flags.options(data))),
        Bench::Grpc(flags) => runtime.block_on(grpc::run(&flags.options(data))),
        Bench::Mixed(flags) => runtime.block_on(mixed::run(&flags.options(data))),
        Bench::Sse(flags) if !flags.raised => sse::run_raised(flags.streams, &flags.raised_arguments()),
        Bench::Sse(flags) => runtime.block_on(sse::run(&flags.options(data))),
        Bench::Webhooks(flags) => runtime.block_on(webhooks::run(&flags.options(data))),
        Bench::Sinks(flags) => runtime.block_on(sinks::run(&flags.options(data))),
        Bench::Result(flags) => {
            let options =
                ResultOptions { size_mib: flags.mb.max(1), n_rounds: flags.rounds, data: data.to_owned() };
            runtime.block_on(result::run(&options))
        }
        Bench::Serve(flags) => runtime.block_on(serve::run(flags)),
        Bench::Bare(flags) => runtime.block_on(bare::run(&flags.data, flags.database_url.as_deref())),
    }
}

impl BenchHttp {
    fn options(&self, data: &Path) -> HttpOptions {
        HttpOptions {
            span: Duration::from_secs(self.seconds),
            n_rounds: self.rounds.max(1),
            data: data.to_owned(),
            database_url: self.database_url.clone(),
            n_whole_jobs: self.jobs,
        }
    }
}

impl BenchMixed {
    fn options(&self, data: &Path) -> HttpOptions {
        HttpOptions {
            span: Duration::from_secs(self.seconds),
            n_rounds: self.rounds,
            data: data.to_owned(),
            database_url: self.database_url.clone(),
            n_whole_jobs: 0,
        }
    }
}

impl BenchSse {
    fn options(&self, data: &Path) -> SseOptions {
        SseOptions {
            n_streams: self.streams.max(1),
            events_per_second: self.events_per_second.max(1),
            span: Duration::from_secs(self.seconds),
            data: data.to_owned(),
        }
    }

    /// The arguments of the same run with more open files.
    fn raised_arguments(&self) -> [String; 5] {
        [
            "sse".to_owned(),
            format!("--streams={}", self.streams),
            format!("--events-per-second={}", self.events_per_second),
            format!("--seconds={}", self.seconds),
            "--raised".to_owned(),
        ]
    }
}

impl BenchWebhooks {
    fn options(&self, data: &Path) -> WebhookOptions {
        WebhookOptions {
            span: Duration::from_secs(self.seconds),
            n_rounds: self.rounds.max(1),
            data: data.to_owned(),
            n_deliveries: self.deliveries,
            n_hanging: self.hanging,
        }
    }
}

impl BenchSinks {
    fn options(&self, data: &Path) -> SinkBenchOptions {
        let brokers =
            [("KAFKA", "BROKERS", &self.kafka), ("NATS", "URL", &self.nats), ("AMQP", "URL", &self.amqp)];
        let brokers =
            brokers.into_iter().filter_map(|(section, key, url)| Some((section, key, url.clone()?)));
        SinkBenchOptions {
            brokers: brokers.collect(),
            n_events: self.events,
            n_behind: self.behind,
            span: Duration::from_secs(self.seconds),
            n_rounds: self.rounds.max(1),
            data: data.to_owned(),
        }
    }
}

//! How fast the spine is: rules and store, without engine and network; always beside a bare loop that writes the same rows
//! with prepared statements and decides nothing. Rounds alternate, so that both meet the same machine.
//!
//! ```text
//! cargo bench -p forgerun-store --features sqlite,postgres,testing --bench spine -- [sqlite|postgres] [--jobs N] [--rounds N]
//!     [--grown [--ended N] [--waiting N] [--store FILE]]
//! ```
//!
//! `--grown` compares a store with many jobs (1,000,000 ended and 100,000 waiting) to a new one instead, and looks at memory and
//! opening. With `--store` an SQLite file that is there is used as it is, and a new one is kept. `lists` measures what a list costs others (SQLite). `--store-only` leaves the first column out, for a profiler. Everything is on the disk before it is answered.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[cfg(feature = "sqlite")]
mod grown;
#[cfg(feature = "sqlite")]
mod lists;
#[cfg(all(feature = "postgres", feature = "testing"))]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod work;

use std::path::PathBuf;
use std::time::Duration;

/// That of the server, for both sides.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What was asked for on the command line.
struct Options {
    /// `None` runs all databases.
    database: Option<String>,
    jobs: usize,
    rounds: usize,
    grown: bool,
    /// Jobs that have ended in a grown store.
    ended: usize,
    /// Jobs that wait in a grown store.
    waiting: usize,
    /// The file of a grown store; `None` for one that is filled and removed again.
    store: Option<PathBuf>,
    store_only: bool,
}

impl Options {
    fn parse() -> Options {
        let mut options = Options {
            database: None,
            jobs: 51_200,
            rounds: 5,
            grown: false,
            ended: 1_000_000,
            waiting: 100_000,
            store: None,
            store_only: false,
        };
        let mut arguments = std::env::args().skip(1);
        let number =
            |text: Option<String>| text.and_then(|text| text.parse().ok()).expect("a number after the flag");
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--jobs" => options.jobs = number(arguments.next()),
                "--rounds" => options.rounds = number(arguments.next()),
                "--grown" => options.grown = true,
                "--ended" => options.ended = number(arguments.next()),
                "--waiting" => options.waiting = number(arguments.next()),
                "--store" => options.store = arguments.next().map(PathBuf::from),
                "--store-only" => options.store_only = true,
                // Cargo says this to every benchmark.
                "--bench" => {}
                name => options.database = Some(name.into()),
            }
        }
        options
    }

    fn wants(&self, database: &str) -> bool {
        self.database.as_deref().is_none_or(|wanted| wanted == database)
    }
}

fn main() {
    let options = Options::parse();
    #[cfg(feature = "sqlite")]
    if options.database.as_deref() == Some("lists") {
        return lists::run();
    }
    #[cfg(feature = "sqlite")]
    if options.wants("sqlite") {
        sqlite::run(&options);
    }
    #[cfg(all(feature = "postgres", feature = "testing"))]
    if options.wants("postgres") {
        postgres::run(&options);
    }
}

/// What a run took.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    /// Of all threads together: on a busy machine the steadier measure.
    cpu: Duration,
}

/// How long `run` takes.
#[cfg(feature = "sqlite")]
fn timed(run: impl FnOnce()) -> Took {
    let (begin, cpu) = (std::time::Instant::now(), cpu_time());
    run();
    Took { wall: begin.elapsed(), cpu: cpu_time().saturating_sub(cpu) }
}

/// What the threads of this process that are alive have used so far.
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(|thread| nanos(thread.path().join("schedstat"))).sum())
}

/// Rounds of the one and the other, in turn, and a line of the table with their medians.
fn compare(title: &str, options: &Options, jobs: usize, one: impl Fn() -> Took, other: impl Fn() -> Took) {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        if !options.store_only {
            ones.push(one());
        }
        others.push(other());
    }
    let rate = |took: &Took| jobs as f64 / took.wall.as_secs_f64();
    let cpu = |took: &Took| took.cpu.as_secs_f64() * 1e6 / jobs as f64;
    let ratios = ones.iter().zip(&others).map(|(one, other)| rate(other) / rate(one));
    println!(
        "| {title} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} |",
        median(ones.iter().map(rate)),
        median(others.iter().map(rate)),
        median(ratios),
        median(ones.iter().map(cpu)),
        median(others.iter().map(cpu)),
    );
}

fn head(one: &str, other: &str) {
    println!(
        "| medians | {one}, jobs/s | {other}, jobs/s | ratio | {one}, CPU µs/job | {other}, CPU µs/job |"
    );
    println!("|---|---|---|---|---|---|");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

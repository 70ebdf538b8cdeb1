//! The real clock: load is measured in real time. All random choices come from the seed, none from
//! here.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "latencies are those of the real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "clients wait in real time")]
pub(crate) async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}

pub(crate) async fn sleep(span: Duration) {
    sleep_until(now() + span).await;
}

/// Processor time of this process in seconds.
pub(crate) fn cpu_s() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Peak memory of this process in MB; `None` if the system does not report it.
pub(crate) fn memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1.024 / 1e3)
}

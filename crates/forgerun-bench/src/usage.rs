//! What a server spends, as Linux counts it for its process. On other systems nothing is known of it.

use std::fs;

use crate::processes::ServerProcess;

/// What `/proc` counts processor time in: a hundredth of a second, whatever the kernel ticks in.
const TICK_US: u64 = 10_000;

/// What a process has spent since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    cpu_us: u64,
    /// Bytes of files that it caused to be written to the disk.
    written: u64,
}

impl Usage {
    /// `None` where it cannot be read.
    pub(crate) fn of(server: &ServerProcess) -> Option<Usage> {
        let process = format!("/proc/{}", server.child.id());
        let stat = fs::read_to_string(format!("{process}/stat")).ok()?;
        let io = fs::read_to_string(format!("{process}/io")).ok()?;
        Usage::parse(&stat, &io)
    }

    fn parse(stat: &str, io: &str) -> Option<Usage> {
        // The name of the program, in brackets, may hold anything.
        let (_, numbers) = stat.rsplit_once(')')?;
        let mut ticks = numbers.split_whitespace().skip(11).map_while(|number| number.parse::<u64>().ok());
        let cpu_us = (ticks.next()? + ticks.next()?) * TICK_US;
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()?;
        Some(Usage { cpu_us, written })
    }

    /// What was spent since `before` on each of so many jobs, as the end of a sentence.
    pub(crate) fn per_job(before: Option<Usage>, now: Option<Usage>, n_jobs: u64) -> String {
        let (Some(before), Some(now)) = (before, now) else { return String::new() };
        let n_jobs = n_jobs.max(1) as f64;
        let cpu_us = now.cpu_us.saturating_sub(before.cpu_us) as f64 / n_jobs;
        let written_kb = now.written.saturating_sub(before.written) as f64 / n_jobs / 1000.0;
        format!("; the server took {cpu_us:.1} µs of the processors and wrote {written_kb:.1} kB per job")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_spent_is_read_whatever_it_is_called() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 150 0 0 20 0 9 0 100 1 2";
        let io = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 8000000\ncancelled_write_bytes: 0\n";
        let spent = Usage::parse(stat, io);
        assert_eq!(
            Usage::per_job(Some(Usage::default()), spent, 1000),
            "; the server took 4000.0 µs of the processors and wrote 8.0 kB per job"
        );
        assert!(Usage::parse("", io).is_none() && Usage::parse(stat, "").is_none());
        assert_eq!(Usage::per_job(None, spent, 1), "");
    }
}

//! The summary of a run: as text, JSON, and (in `html`) as a page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use forgerun_problem::Timestamp;
use serde_json::{Value, json};

use super::scenario::Expect;
use super::tally::{JobCounts, Latencies, PhaseCounts, Tally, Tick};
use super::violation::{Violation, Violations};
use crate::clock::memory_mb;

/// Percentiles in milliseconds; `None` without values.
#[derive(Clone, Copy, Debug, Default)]
pub struct LatencySummary {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<f64>,
}

pub(super) struct About {
    pub(super) scenario: String,
    pub(super) target: String,
    pub(super) seed: u64,
    pub(super) started_at: SystemTime,
    pub(super) duration: Duration,
    pub(super) n_kills: u32,
    pub(super) n_webhooks: u64,
    pub(super) own_cpu_s: f64,
    pub(super) server_cpu_s: Option<f64>,
}

pub struct Summary {
    pub(super) about: About,
    pub jobs: JobCounts,
    pub requests: u64,
    /// Requests without an answer, and answers of 500 and above.
    pub errors: u64,
    /// Requests without an answer because the server was killed.
    pub interrupted: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub submit: LatencySummary,
    /// Latency of polls.
    pub poll: LatencySummary,
    /// Time until clients knew of the end.
    pub end_to_end: LatencySummary,
    pub phases: Vec<PhaseCounts>,
    pub ticks: Vec<Tick>,
    pub violations: Vec<Violation>,
    /// Violated expectations, as sentences.
    pub unmet: Vec<String>,
    memory_mb: Option<f64>,
}

impl From<&Latencies> for LatencySummary {
    fn from(latencies: &Latencies) -> LatencySummary {
        LatencySummary {
            p50: latencies.quantile_ms(0.5),
            p90: latencies.quantile_ms(0.9),
            p99: latencies.quantile_ms(0.99),
            p999: latencies.quantile_ms(0.999),
            max: latencies.max_ms(),
        }
    }
}

impl LatencySummary {
    fn to_json(self) -> Value {
        let LatencySummary { p50, p90, p99, p999, max } = self;
        json!({"p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": max})
    }

    pub(super) fn cells(self) -> [String; 5] {
        [self.p50, self.p90, self.p99, self.p999, self.max]
            .map(|ms| ms.map_or("–".to_owned(), |ms| format!("{ms:.1}")))
    }
}

impl Summary {
    pub(super) fn new(about: About, tally: Tally, violations: Violations, expect: &Expect) -> Summary {
        let mut summary = Summary {
            about,
            jobs: tally.jobs,
            requests: tally.requests,
            errors: tally.errors,
            interrupted: tally.interrupted,
            submit: (&tally.latencies.submit).into(),
            poll: (&tally.latencies.poll).into(),
            end_to_end: (&tally.latencies.end_to_end).into(),
            statuses: tally.statuses,
            phases: tally.phases,
            ticks: tally.ticks,
            violations: violations.into_list(),
            unmet: Vec::new(),
            memory_mb: memory_mb(),
        };
        summary.unmet = summary.unmet(expect);
        summary
    }

    /// Whether no guarantee is broken, no job lost or doubled, and every expectation met.
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty() && self.unmet.is_empty() && self.jobs.lost == 0 && self.jobs.doubled == 0
    }

    fn unmet(&self, expect: &Expect) -> Vec<String> {
        let JobCounts { succeeded, failed, canceled, .. } = self.jobs;
        let ended = (succeeded + failed + canceled).max(1) as f64;
        let requests = (self.requests + self.errors).max(1) as f64;
        let mut unmet = Vec::new();
        let mut at_most = |name: &str, found: Option<f64>, bound: Option<f64>| {
            if let (Some(found), Some(bound)) = (found, bound)
                && found > bound
            {
                unmet.push(format!("{name} is {found:.4}, expected at most {bound}"));
            }
        };
        at_most("submit_p99_ms", self.submit.p99, expect.submit_p99_ms);
        at_most("poll_p99_ms", self.poll.p99, expect.poll_p99_ms);
        at_most("end_to_end_p99_ms", self.end_to_end.p99, expect.end_to_end_p99_ms);
        at_most("the share of failed jobs", Some(failed as f64 / ended), expect.failed_share_max);
        at_most("the share of errors", Some(self.errors as f64 / requests), expect.error_share_max);
        let succeeded = succeeded as f64 / ended;
        if let Some(bound) = expect.succeeded_share_min.filter(|bound| succeeded < *bound) {
            unmet.push(format!(
                "the share of jobs that succeeded is {succeeded:.4}, expected at least {bound}"
            ));
        }
        unmet
    }

    fn started_at(&self) -> String {
        let since = self.about.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_unix_micros(since.as_micros() as i64).map(|time| time.to_string()).unwrap_or_default()
    }

    pub(super) fn per_second(&self) -> f64 {
        let in_phases: Duration = self.phases.iter().map(|phase| phase.duration).sum();
        let requests: u64 = self.phases.iter().map(|phase| phase.requests).sum();
        requests as f64 / in_phases.as_secs_f64().max(f64::EPSILON)
    }

    /// Resources used by the tool itself.
    pub(super) fn overhead(&self) -> String {
        let About { own_cpu_s, server_cpu_s, duration, .. } = &self.about;
        let cores = own_cpu_s / duration.as_secs_f64().max(f64::EPSILON);
        let per_request = own_cpu_s * 1e6 / (self.requests.max(1) as f64);
        let memory = self.memory_mb.map(|mb| format!(", {mb:.0} MB")).unwrap_or_default();
        let server =
            server_cpu_s.map(|s| format!("; the server {s:.1} s since its last start")).unwrap_or_default();
        format!(
            "{own_cpu_s:.1} s of processor time ({cores:.2} cores, {per_request:.0} µs per request){memory}{server}"
        )
    }

    pub fn to_json(&self) -> Value {
        let JobCounts {
            submitted,
            accepted,
            refused,
            succeeded,
            failed,
            canceled,
            lost,
            doubled,
            unfinished,
        } = self.jobs;
        let phases: Vec<Value> = self.phases.iter().map(|phase| {
            let PhaseCounts { name, duration, journeys, requests } = phase;
            json!({"name": name, "duration_s": duration.as_secs_f64(), "journeys": journeys, "requests": requests})
        }).collect();
        let violations: Vec<Value> = self.violations.iter().map(|found| {
            let Violation { id, what, request, response, curl, count } = found;
            json!({"id": id, "what": what, "request": request, "response": response, "curl": curl, "count": count})
        }).collect();
        json!({
            "scenario": self.about.scenario,
            "seed": self.about.seed,
            "target": self.about.target,
            "started_at": self.started_at(),
            "duration_s": self.about.duration.as_secs_f64(),
            "requests": self.requests,
            "requests_per_s": self.per_second(),
            "errors": self.errors,
            "interrupted": self.interrupted,
            "statuses": self.statuses.iter().map(|(status, n)| (status.to_string(), *n)).collect::<BTreeMap<_, _>>(),
            "kills": self.about.n_kills,
            "webhooks": self.about.n_webhooks,
            "jobs": {
                "submitted": submitted, "accepted": accepted, "refused": refused, "succeeded": succeeded, "failed": failed,
                "canceled": canceled, "lost": lost, "doubled": doubled, "unfinished": unfinished,
            },
            "latency_ms": {
                "submit": self.submit.to_json(), "poll": self.poll.to_json(), "end_to_end": self.end_to_end.to_json(),
            },
            "phases": phases,
            "violations": violations,
            "unmet": self.unmet,
            "tool": {"cpu_s": self.about.own_cpu_s, "memory_mb": self.memory_mb},
            "ok": self.is_ok(),
        })
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let About { scenario, target, seed, duration, n_kills, n_webhooks, .. } = &self.about;
        writeln!(text, "{scenario} on {target}, seed {seed}, {:.1} s", duration.as_secs_f64())?;
        writeln!(
            text,
            "requests   {} ({:.0} per second), {} errors, {} interrupted",
            self.requests,
            self.per_second(),
            self.errors,
            self.interrupted
        )?;
        let jobs = &self.jobs;
        writeln!(
            text,
            "jobs       {} submitted, {} accepted, {} refused; {} succeeded, {} failed, {} canceled, {} unfinished; {} lost, {} doubled",
            jobs.submitted,
            jobs.accepted,
            jobs.refused,
            jobs.succeeded,
            jobs.failed,
            jobs.canceled,
            jobs.unfinished,
            jobs.lost,
            jobs.doubled
        )?;
        if *n_kills > 0 || *n_webhooks > 0 {
            writeln!(text, "besides    {n_kills} kills, {n_webhooks} webhooks")?;
        }
        writeln!(
            text,
            "\nlatency ms         p50       p90       p99      p999       max   (from the moment at which it was meant to begin)"
        )?;
        for (name, latency) in [("submit", self.submit), ("poll", self.poll), ("end to end", self.end_to_end)]
        {
            let [p50, p90, p99, p999, max] = latency.cells();
            writeln!(text, "{name:12}{p50:>10}{p90:>10}{p99:>10}{p999:>10}{max:>10}")?;
        }
        writeln!(text, "\nthe tool   {}", self.overhead())?;
        for violation in &self.violations {
            let Violation { id, what, response, curl, count, .. } = violation;
            writeln!(
                text,
                "\nVIOLATION {id}: {what} ({count} times)\n  {curl}\n  {}",
                response.replace('\n', "\n  ")
            )?;
        }
        for unmet in &self.unmet {
            writeln!(text, "\nUNMET {unmet}")?;
        }
        writeln!(text, "\n{}", if self.is_ok() { "clean" } else { "not clean" })
    }
}

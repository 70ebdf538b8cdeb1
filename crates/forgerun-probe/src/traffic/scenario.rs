//! Scenarios: behaviours of clients, durations, rates, and expectations. TOML; the built-in ones
//! have the same form.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::duration;
use crate::limits::{CLIENTS_MAX, CONCURRENCY_MAX, DURATION_MAX, JOBS_MAX, PHASES_MAX, RATE_MAX};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    /// A paragraph about its purpose.
    #[serde(default)]
    pub about: String,
    /// Determines all random choices, unless the command line sets a seed.
    #[serde(default)]
    pub seed: u64,
    /// Number of clients with keys of their own.
    #[serde(default = "one")]
    pub clients: usize,
    /// Number of workers for jobs of the behaviours `work` and `flow`.
    #[serde(default = "four")]
    pub workers: usize,
    /// Configuration keys for a started server, such as `"sim.time_scale" = 0.01`.
    #[serde(default)]
    pub server: BTreeMap<String, toml::Value>,
    /// Phases in order.
    pub phase: Vec<Phase>,
    #[serde(default)]
    pub expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub name: String,
    #[serde(deserialize_with = "duration::deserialize")]
    pub duration: Duration,
    /// Journeys that begin per second, whatever the server does.
    pub rate: Option<f64>,
    /// Concurrent journeys; when one ends, the next begins.
    pub concurrency: Option<usize>,
    /// Poll interval, instead of what the server asks for.
    #[serde(default, deserialize_with = "some_duration")]
    pub poll_every: Option<Duration>,
    /// Kinds of simulated work, with weights.
    #[serde(default = "fast")]
    pub kinds: BTreeMap<String, f64>,
    /// Shares of behaviours.
    #[serde(default)]
    pub behaviour: Behaviour,
}

/// Shares from 0 to 1. The first four say how a client learns of the end, and the rest of those
/// poll; the others are independent.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// Polls, as often as the server asks for.
    pub poll: f64,
    /// Follows the stream of events.
    pub stream: f64,
    /// Gets a webhook.
    pub webhook: f64,
    /// Stops after submitting. The audit checks the job.
    pub abandon: f64,
    /// Cancels the job at some moment.
    pub cancel: f64,
    pub retry: f64,
    /// Submits several times concurrently, with one idempotency key.
    pub repeat: f64,
    /// Sends an abusive request instead of a job.
    pub nonsense: f64,
    /// Submits a batch instead of a single job.
    pub batch: f64,
    /// Opens a stream that it never reads.
    pub slow: f64,
    /// Its webhook receiver fails at first.
    pub flaky: f64,
    /// Creates a client, and rotates its key while its job runs.
    pub rotate: f64,
    /// Submits work for external workers, which this tool runs too.
    pub work: f64,
    /// Submits a workflow with waits and a list for these workers, and sends its signal.
    pub flow: f64,
}

impl Behaviour {
    fn shares(&self) -> [(&'static str, f64); 14] {
        [
            ("poll", self.poll),
            ("stream", self.stream),
            ("webhook", self.webhook),
            ("abandon", self.abandon),
            ("cancel", self.cancel),
            ("retry", self.retry),
            ("repeat", self.repeat),
            ("nonsense", self.nonsense),
            ("batch", self.batch),
            ("slow", self.slow),
            ("flaky", self.flaky),
            ("rotate", self.rotate),
            ("work", self.work),
            ("flow", self.flow),
        ]
    }
}

/// Expectations; missing ones are not checked.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// p99 of answers to submissions.
    pub submit_p99_ms: Option<f64>,
    /// p99 of answers to polls.
    pub poll_p99_ms: Option<f64>,
    /// p99 of the time until clients know of the end.
    pub end_to_end_p99_ms: Option<f64>,
    /// Maximum share of failed jobs.
    pub failed_share_max: Option<f64>,
    /// Minimum share of successful jobs.
    pub succeeded_share_min: Option<f64>,
    /// Maximum share of requests without an answer, or with 500 and above.
    pub error_share_max: Option<f64>,
}

/// Why a scenario is invalid: position, and what is accepted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

/// In the order in which they are listed.
const BUILT_IN: [&str; 13] = [
    include_str!("scenarios/steady.toml"),
    include_str!("scenarios/burst.toml"),
    include_str!("scenarios/mixed.toml"),
    include_str!("scenarios/failures.toml"),
    include_str!("scenarios/idempotency-storm.toml"),
    include_str!("scenarios/cancel-race.toml"),
    include_str!("scenarios/webhook-storm.toml"),
    include_str!("scenarios/slow-consumers.toml"),
    include_str!("scenarios/batches.toml"),
    include_str!("scenarios/abuse.toml"),
    include_str!("scenarios/key-rotation.toml"),
    include_str!("scenarios/workers.toml"),
    include_str!("scenarios/flows.toml"),
];

impl Scenario {
    pub fn built_in() -> impl Iterator<Item = Scenario> {
        BUILT_IN.into_iter().map(|text| Scenario::parse(text).expect("a test reads them all"))
    }

    /// The text of a built-in scenario: a template for new ones.
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        BUILT_IN.into_iter().find(|text| text.starts_with(&format!("name = \"{name}\"\n")))
    }

    /// Parses a scenario.
    ///
    /// # Errors
    /// With line and column if it is invalid TOML, or has unknown keys or values.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let read: Scenario =
            toml::from_str(text).map_err(|error| ScenarioError(error.to_string().trim_end().to_owned()))?;
        read.check().map_err(|invalid| ScenarioError(located(text, &invalid)))?;
        Ok(read)
    }

    pub fn duration(&self) -> Duration {
        self.phase.iter().map(|phase| phase.duration).sum()
    }

    /// Scales all phases to this total duration.
    pub fn stretch(&mut self, duration: Duration) {
        let factor = duration.as_secs_f64() / self.duration().as_secs_f64().max(f64::EPSILON);
        for phase in &mut self.phase {
            phase.duration = phase.duration.mul_f64(factor);
        }
    }

    /// Scales all rates so that this is the highest.
    pub fn scale_rate(&mut self, rate: f64) {
        let highest = self.phase.iter().filter_map(|phase| phase.rate).fold(0.0, f64::max);
        for phase in &mut self.phase {
            phase.rate = match phase.rate {
                Some(before) if highest > 0.0 => Some(before / highest * rate),
                _ => Some(rate),
            };
            phase.concurrency = None;
        }
    }

    /// Checks what the types do not. The error has the key, to be found in the text.
    ///
    /// # Errors
    /// If a value is out of its bounds.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let n_phases = self.phase.len();
        within((1..=PHASES_MAX).contains(&n_phases), None, "phase", || {
            format!("there are 1 to {PHASES_MAX} phases")
        })?;
        let clients = 1..=CLIENTS_MAX;
        within(clients.contains(&self.clients), None, "clients", || {
            format!("there are 1 to {CLIENTS_MAX} clients")
        })?;
        let hours_max = DURATION_MAX.as_secs() / 3600;
        let fits = self.duration() <= DURATION_MAX;
        within(fits, Some(0), "duration", || format!("all phases take at most {hours_max} h together"))?;
        for (n, phase) in self.phase.iter().enumerate() {
            phase.check(n)?;
        }
        let journeys = |phase: &Phase| phase.rate.unwrap_or(0.0) * phase.duration.as_secs_f64();
        let n_journeys: f64 = self.phase.iter().map(journeys).sum();
        within(n_journeys <= JOBS_MAX as f64, Some(0), "rate", || {
            format!("a run has at most {JOBS_MAX} journeys")
        })
    }
}

impl Phase {
    fn check(&self, n: usize) -> Result<(), InvalidValue> {
        match (self.rate, self.concurrency) {
            (Some(rate), None) => within(rate > 0.0 && rate <= RATE_MAX, Some(n), "rate", || {
                format!("a rate is more than 0 and at most {RATE_MAX} per second")
            })?,
            (None, Some(at_once)) => {
                within((1..=CONCURRENCY_MAX).contains(&at_once), Some(n), "concurrency", || {
                    format!("1 to {CONCURRENCY_MAX} journeys are under way at once")
                })?
            }
            _ => within(false, Some(n), "name", || "a phase has either `rate` or `concurrency`".to_owned())?,
        }
        for (kind, weight) in &self.kinds {
            let fits = *weight >= 0.0 && weight.is_finite();
            within(fits, Some(n), kind, || "a weight is 0 or more".to_owned())?;
        }
        let weighs = self.kinds.values().sum::<f64>() > 0.0;
        within(weighs, Some(n), "[phase.kinds]", || "at least one kind has a weight".to_owned())?;
        for (name, share) in self.behaviour.shares() {
            within((0.0..=1.0).contains(&share), Some(n), name, || "a share is from 0 to 1".to_owned())?;
        }
        Ok(())
    }
}

fn within(
    fits: bool,
    phase: Option<usize>,
    key: &str,
    text: impl FnOnce() -> String,
) -> Result<(), InvalidValue> {
    if fits { Ok(()) } else { Err(InvalidValue { phase, key: key.to_owned(), text: text() }) }
}

/// A value out of its bounds.
#[derive(Debug)]
pub struct InvalidValue {
    /// Phase, from 0; `None` for a key of the scenario.
    phase: Option<usize>,
    key: String,
    text: String,
}

impl std::fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}", self.key, self.text)
    }
}

/// The sentence with line and column of the key, in the format of the parser.
fn located(text: &str, invalid: &InvalidValue) -> String {
    let mut phase = 0;
    for (n, line) in text.lines().enumerate() {
        phase += usize::from(line.trim() == "[[phase]]");
        let indent = line.len() - line.trim_start().len();
        let key = line.split('=').next().unwrap_or_default().trim().trim_matches('"');
        if phase == invalid.phase.map_or(0, |n| n + 1) && key == invalid.key {
            let (line_number, column) = (n + 1, indent + 1);
            return format!(
                "TOML error at line {line_number}, column {column}\n  |\n{line_number} | {line}\n  |\n{invalid}"
            );
        }
    }
    invalid.to_string()
}

fn one() -> usize {
    1
}

fn four() -> usize {
    4
}

fn fast() -> BTreeMap<String, f64> {
    BTreeMap::from([("SUCCESS_FAST".to_owned(), 1.0)])
}

fn some_duration<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(source).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_can_be_read_and_says_what_it_is_for() {
        let names: Vec<String> = Scenario::built_in().map(|scenario| scenario.name).collect();
        assert_eq!(
            names,
            [
                "steady",
                "burst",
                "mixed",
                "failures",
                "idempotency-storm",
                "cancel-race",
                "webhook-storm",
                "slow-consumers",
                "batches",
                "abuse",
                "key-rotation",
                "workers",
                "flows"
            ]
        );
        for scenario in Scenario::built_in() {
            assert!(scenario.about.len() > 100 && scenario.check().is_ok(), "{}", scenario.name);
        }
    }

    #[track_caller]
    fn refused(text: &str, expected: &[&str]) {
        let error = Scenario::parse(text).unwrap_err().to_string();
        assert!(expected.iter().all(|words| error.contains(words)), "{error}");
    }

    #[test]
    fn a_mistake_is_shown_with_its_line_and_column() {
        let head = "name = \"x\"\n[[phase]]\nname = \"a\"\nduration = \"1s\"\n";
        refused(&format!("{head}rat = 5\n"), &["line 5, column 1", "rat"]);
        refused(&format!("{head}rate = \"fast\"\n"), &["line 5, column 8"]);
        refused(&format!("{head}rate = -1\n"), &["line 5, column 1", "more than 0"]);
        refused(&format!("{head}rate = 1\nconcurrency = 2\n"), &["line 3", "either `rate` or `concurrency`"]);
        refused(
            &format!("{head}rate = 1\n[phase.behaviour]\n  cancel = 1.5\n"),
            &["line 7, column 3", "from 0 to 1"],
        );
        refused(
            &format!("{head}rate = 1\n[phase.kinds]\nSUCCESS_FAST = 0\n"),
            &["line 6", "at least one kind"],
        );
        refused("name = \"x\"\nphase = []\n", &["line 2", "phases"]);
        refused(
            "name = \"x\"\n[[phase]]\nname = \"a\"\nduration = \"soon\"\nrate = 1\n",
            &["line 4", "500ms"],
        );
    }

    #[test]
    fn a_run_can_be_made_shorter_and_faster_in_proportion() {
        let mut scenario = Scenario::built_in().find(|scenario| scenario.name == "burst").unwrap();
        let before: Vec<f64> = scenario.phase.iter().filter_map(|phase| phase.rate).collect();
        scenario.stretch(Duration::from_secs(1));
        scenario.scale_rate(1000.0);
        assert_eq!(scenario.duration().as_millis(), 1000);
        let after: Vec<f64> = scenario.phase.iter().filter_map(|phase| phase.rate).collect();
        let highest = before.iter().copied().fold(0.0, f64::max);
        assert_eq!(after, before.iter().map(|rate| rate / highest * 1000.0).collect::<Vec<_>>());
    }
}

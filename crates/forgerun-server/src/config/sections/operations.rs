//! `[operations."RESOURCE/ACTION"]`: operations of `/api/v1` with a route of their own. Any number,
//! all with the same keys; `reports/generate` is declared by default, as the example of the manual.

use std::collections::BTreeMap;
use std::time::Duration;

use forgerun_core::job::Name;
use forgerun_core::limits::EXECUTIONS_MAX;
use forgerun_core::retry::Mode;
use forgerun_core::work::{Behaviour, WorkKind};

use super::{DAY_S, DAYS_MAX, KIB};
use crate::config::reader::SettingsReader;
use crate::config::settings::EXAMPLE;

/// The declared operations, by name.
#[derive(Clone, Debug, Default)]
pub struct Operations(BTreeMap<String, Operation>);

#[derive(Clone, Debug)]
pub struct Operation {
    /// Usual duration.
    pub expected: Option<Duration>,
    /// Simulated work; `None` for real work.
    pub work_kind: Option<WorkKind>,
    /// Queue of its jobs, unless they name one.
    pub queue: Option<Name>,
    /// Retries after the first attempt; `None` for the default.
    pub max_retries: Option<u32>,
    /// `None` for the default.
    pub retry_mode: Option<Mode>,
    /// Retention of its ended jobs; `None` for the default.
    pub retention: Option<Duration>,
    /// Size of a simulated result; 0 for the small document.
    pub result_kb: u16,
}

impl Operations {
    pub fn get(&self, name: &str) -> Option<&Operation> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Operation)> {
        self.0.iter().map(|(name, operation)| (name.as_str(), operation))
    }

    /// Without simulation the operation of the manual is not declared, because it is simulated.
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, simulation: bool) -> Operations {
        let mut operations = BTreeMap::new();
        for name in from.operations() {
            let enabled = from.truth(&key(&name, "enabled"));
            let operation = Operation::read(from, &name);
            if !is_good(&name) {
                let accepts = "a name like reports/generate: two words of small letters, digits and dashes, the first not \
                               jobs or results";
                from.complain_of_operation(&name, accepts);
            } else if enabled && !simulation && operation.work_kind.is_some() {
                if name != EXAMPLE {
                    from.complain_of_operation(
                        &name,
                        "an operation without work_kind, because sim.enabled is false",
                    );
                }
            } else if enabled {
                operations.insert(name, operation);
            }
        }
        Operations(operations)
    }
}

impl Operation {
    fn read(from: &mut SettingsReader<'_>, name: &str) -> Operation {
        let modes = [("", None), ("manual", Some(Mode::Manual)), ("auto", Some(Mode::Auto))];
        let expected = from.seconds(&key(name, "expected_duration_s"), 0..=DAY_S);
        Operation {
            expected: Some(expected).filter(|expected| !expected.is_zero()),
            work_kind: from.text_or_unset(
                &key(name, "work_kind"),
                "a kind of work such as SUCCESS_NORMAL, or nothing for real work",
                |word| WorkKind::parse(word).filter(|kind| kind.behaviour() != Behaviour::Refused),
            ),
            queue: from.text_or_unset(
                &key(name, "queue"),
                "the name of a queue (lower-case letters, digits, hyphens and dots), or nothing",
                |text| Name::queue(text).ok(),
            ),
            max_retries: from.whole_or_inherited(
                &key(name, "max_retries"),
                EXECUTIONS_MAX as i64 - 1,
                "retry.max",
            ),
            retry_mode: from.one_of(&key(name, "retry_mode"), &modes),
            retention: from
                .whole_or_inherited(&key(name, "retention_days"), DAYS_MAX, "retention.jobs_days")
                .map(|days: u64| Duration::from_secs(days * DAY_S as u64)),
            result_kb: from.whole(&key(name, "result_kb"), 0..=16 * KIB),
        }
    }
}

/// The full key of an operation's member.
pub(in crate::config) fn key(name: &str, member: &str) -> String {
    format!("operations.{name}.{member}")
}

/// Whether the name makes a route that is free.
fn is_good(name: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match name.split_once('/') {
        Some((resource, action)) => {
            word(resource) && word(action) && !matches!(resource, "jobs" | "results") && name.len() <= 100
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_good;

    #[test]
    fn a_name_makes_a_route_that_is_nobody_elses() {
        for (name, good) in [
            ("reports/generate", true),
            ("images-2/resize", true),
            ("reports", false),
            ("reports/", false),
            ("/generate", false),
            ("a/b/c", false),
            ("Reports/generate", false),
            ("jobs/batch", false),
            ("results/x", false),
            ("a.b/c", false),
            ("a/b c", false),
        ] {
            assert_eq!(is_good(name), good, "{name}");
        }
    }
}

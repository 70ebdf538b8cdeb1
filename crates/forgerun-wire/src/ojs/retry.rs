//! Retry policies: what a client may say, with the spellings of all documents (C-95, C-103), and the policy shown in full.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::retry::{Exhaustion, Jitter, Mode, RetryPolicy, Strategy};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::duration;
use super::members::{Members, ViolationList};
use crate::readable;

/// Growth beyond this reaches any longest wait at once.
const COEFFICIENT_MAX: f64 = 1000.0;

/// Entries of `non_retryable_errors`, each looked at with every failure.
const LISTED_MAX: usize = 256;

/// OJS's defaults: three attempts, waits that double from a second to five minutes, with jitter, and no dead letter.
pub fn defaults() -> RetryPolicy {
    RetryPolicy {
        mode: Mode::Auto,
        attempts_max: 3,
        strategy: Strategy::Exponential,
        initial: Duration::from_secs(1),
        coefficient_milli: 2000,
        max: Duration::from_secs(300),
        jitter: Jitter::Around,
        non_retryable: Vec::new(),
        on_exhaustion: Exhaustion::Discard,
    }
}

/// The policy that `value` describes; what it does not say is as in [`defaults`]. `at` is where it stands in the body.
pub fn read(at: &str, value: &RawValue, violations: &mut ViolationList) -> RetryPolicy {
    let mut policy = defaults();
    let Some(members) = Members::of_value(value) else {
        violations.add_value(Kind::InvalidRetryPolicy, at, value, "must be an object", "type");
        return policy;
    };
    let mut reader = RetryReader { at, members, violations };
    reader.attempts(&mut policy);
    reader.waits(&mut policy);
    reader.growth(&mut policy);
    reader.lists(&mut policy);
    policy
}

/// Whether a policy says how often to try.
pub fn says_attempts(given: &RawValue) -> bool {
    Members::of_value(given).is_some_and(|members| ATTEMPTS.iter().any(|name| members.get(name).is_some()))
}

/// Spellings of how often to try.
const ATTEMPTS: [&str; 2] = ["max_attempts", "maxAttempts"];

/// All that a policy may say, in every spelling.
pub(super) const MEMBERS: [&str; 20] = [
    "max_attempts",
    "maxAttempts",
    "initial_interval",
    "initialInterval",
    "initial_interval_ms",
    "max_interval",
    "maxInterval",
    "max_interval_ms",
    "backoff_coefficient",
    "backoffCoefficient",
    "multiplier",
    "backoff_strategy",
    "backoffStrategy",
    "strategy",
    "backoff",
    "jitter",
    "non_retryable_errors",
    "nonRetryableErrors",
    "on_exhaustion",
    "onExhaustion",
];

struct RetryReader<'a, 'w> {
    at: &'a str,
    members: Members<'a>,
    violations: &'w mut ViolationList,
}

impl<'a> RetryReader<'a, '_> {
    /// The member by the first of its spellings that is there.
    fn get(&self, names: &[&'static str]) -> Option<(&'static str, &'a RawValue)> {
        names.iter().find_map(|name| Some((*name, self.members.get(name)?)))
    }

    fn refuse(&mut self, name: &str, value: &RawValue, detail: &str, constraint: &'static str) {
        let path = format!("{}.{name}", self.at);
        self.violations.add_value(Kind::InvalidRetryPolicy, &path, value, detail, constraint);
    }

    fn attempts(&mut self, policy: &mut RetryPolicy) {
        let Some((name, value)) = self.get(&ATTEMPTS) else { return };
        match serde_json::from_str::<u32>(value.get()) {
            // None at all means no retry, like one: what was accepted is tried once.
            Ok(attempts) => policy.attempts_max = attempts.max(1),
            Err(_) => self.refuse(name, value, "must be an integer of at least 0", "minimum"),
        }
    }

    fn waits(&mut self, policy: &mut RetryPolicy) {
        let initial = self.span(&["initial_interval", "initialInterval", "initial_interval_ms"]);
        let max = self.span(&["max_interval", "maxInterval", "max_interval_ms"]);
        policy.initial = initial.unwrap_or(policy.initial);
        policy.max = max.unwrap_or(policy.max);
    }

    fn span(&mut self, names: &[&'static str]) -> Option<Duration> {
        let (name, value) = self.get(names)?;
        let span = match name.ends_with("_ms") {
            true => serde_json::from_str(value.get()).ok().map(Duration::from_millis),
            false => serde_json::from_str::<String>(value.get()).ok().and_then(|text| duration::parse(&text)),
        };
        let span = span.filter(|span| !span.is_zero() && *span <= duration::LONGEST);
        if span.is_none() {
            self.refuse(name, value, "must be a duration above zero, such as PT1S", "format");
        }
        span
    }

    fn growth(&mut self, policy: &mut RetryPolicy) {
        if let Some((name, value)) = self.get(&["backoff_coefficient", "backoffCoefficient", "multiplier"]) {
            match serde_json::from_str::<f64>(value.get()) {
                Ok(growth) if (1.0..=COEFFICIENT_MAX).contains(&growth) => {
                    policy.coefficient_milli = (growth * 1000.0).round() as u32;
                }
                _ => self.refuse(name, value, "must be a number from 1.0 to 1000", "minimum"),
            }
        }
        if let Some((name, value)) = self.get(&["backoff_strategy", "backoffStrategy", "strategy", "backoff"])
        {
            match serde_json::from_str::<String>(value.get()).ok().as_deref().and_then(strategy) {
                Some(strategy) => policy.strategy = strategy,
                None => {
                    let detail = "must be exponential, linear, polynomial, constant or none";
                    self.refuse(name, value, detail, "enum");
                }
            }
        }
        if let Some((name, value)) = self.get(&["jitter"]) {
            match serde_json::from_str(value.get()) {
                Ok(true) => policy.jitter = Jitter::Around,
                Ok(false) => policy.jitter = Jitter::None,
                Err(_) => self.refuse(name, value, "must be true or false", "type"),
            }
        }
    }

    fn lists(&mut self, policy: &mut RetryPolicy) {
        if let Some((name, value)) = self.get(&["non_retryable_errors", "nonRetryableErrors"]) {
            match serde_json::from_str::<Vec<String>>(value.get()) {
                Ok(listed) if listed.len() <= LISTED_MAX => policy.non_retryable = listed,
                _ => self.refuse(name, value, "must be a list of at most 256 strings", "type"),
            }
        }
        if let Some((name, value)) = self.get(&["on_exhaustion", "onExhaustion"]) {
            match serde_json::from_str::<String>(value.get()).as_deref() {
                Ok("discard") => policy.on_exhaustion = Exhaustion::Discard,
                Ok("dead_letter") => policy.on_exhaustion = Exhaustion::DeadLetter,
                _ => self.refuse(name, value, "must be discard or dead_letter", "enum"),
            }
        }
    }
}

fn strategy(word: &str) -> Option<Strategy> {
    match word {
        "exponential" => Some(Strategy::Exponential),
        "linear" => Some(Strategy::Linear),
        "polynomial" => Some(Strategy::Polynomial),
        "constant" | "none" => Some(Strategy::Constant),
        _ => None,
    }
}

const fn strategy_word(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Exponential => "exponential",
        Strategy::Linear => "linear",
        Strategy::Polynomial => "polynomial",
        Strategy::Constant => "constant",
    }
}

/// A policy as it is shown: what the client gave as it gave it, and the rest of the policy behind it.
pub struct RetryView<'a> {
    /// What counts.
    pub policy: &'a RetryPolicy,
    /// What the client gave.
    pub given: Option<&'a RawValue>,
}

impl Serialize for RetryView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let given = self.given.map(|given| readable::mended(given.get().as_bytes()));
        let given: Map<String, Value> =
            given.and_then(|given| serde_json::from_slice(&given).ok()).unwrap_or_default();
        let mut map = to.serialize_map(None)?;
        given.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        let policy = self.policy;
        let mut rest = RestOfPolicy { map: &mut map, given: &given };
        rest.say("max_attempts", &policy.attempts_max)?;
        rest.say("initial_interval", &duration::write(policy.initial))?;
        rest.say("backoff_coefficient", &(f64::from(policy.coefficient_milli) / 1000.0))?;
        rest.say("max_interval", &duration::write(policy.max))?;
        rest.say("jitter", &(policy.jitter != Jitter::None))?;
        rest.say("non_retryable_errors", &policy.non_retryable)?;
        let on_exhaustion = match policy.on_exhaustion {
            Exhaustion::Discard => "discard",
            Exhaustion::DeadLetterIfExhausted | Exhaustion::DeadLetter => "dead_letter",
        };
        rest.say("on_exhaustion", on_exhaustion)?;
        if policy.strategy != Strategy::Exponential {
            rest.say("backoff_strategy", strategy_word(policy.strategy))?;
        }
        map.end()
    }
}

/// Writes what of a policy the client did not give.
struct RestOfPolicy<'m, M> {
    map: &'m mut M,
    given: &'m Map<String, Value>,
}

impl<M: SerializeMap> RestOfPolicy<'_, M> {
    fn say<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), M::Error> {
        match self.given.contains_key(name) {
            true => Ok(()),
            false => self.map.serialize_entry(name, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (RetryPolicy, ViolationList) {
        let value = RawValue::from_string(text.into()).unwrap();
        let mut violations = ViolationList::default();
        (read("options.retry", &value, &mut violations), violations)
    }

    #[test]
    fn every_spelling_means_the_same() {
        let spellings = [
            r#"{"max_attempts":5,"initial_interval":"PT2S","backoff_coefficient":3.0,"max_interval":"PT1M","jitter":false,
                "non_retryable_errors":["A.*"],"on_exhaustion":"dead_letter"}"#,
            r#"{"maxAttempts":5,"initialInterval":"PT2S","backoffCoefficient":3,"maxInterval":"PT1M","jitter":false,
                "nonRetryableErrors":["A.*"],"onExhaustion":"dead_letter"}"#,
            r#"{"max_attempts":5,"initial_interval":"2s","multiplier":3,"max_interval":"60s","jitter":false,
                "non_retryable_errors":["A.*"],"on_exhaustion":"dead_letter","backoff":"exponential"}"#,
            r#"{"max_attempts":5,"initial_interval_ms":2000,"backoff_coefficient":3,"max_interval_ms":60000,"jitter":false,
                "non_retryable_errors":["A.*"],"on_exhaustion":"dead_letter","strategy":"exponential"}"#,
        ];
        let expected = RetryPolicy {
            attempts_max: 5,
            initial: Duration::from_secs(2),
            coefficient_milli: 3000,
            max: Duration::from_secs(60),
            jitter: Jitter::None,
            non_retryable: vec!["A.*".into()],
            on_exhaustion: Exhaustion::DeadLetter,
            ..defaults()
        };
        for text in spellings {
            let (policy, violations) = read_text(text);
            assert!(violations.is_empty(), "{text}");
            assert_eq!(policy, expected, "{text}");
        }
        assert_eq!(read_text("{}").0, defaults());
        assert_eq!(read_text(r#"{"max_attempts":0}"#).0.attempts_max, 1);
    }

    #[test]
    fn a_bad_policy_names_the_member() {
        let cases = [
            ("[]", "retry"),
            (r#"{"max_attempts":-1}"#, "max_attempts"),
            (r#"{"max_attempts":1.5}"#, "max_attempts"),
            (r#"{"max_attempts":"3"}"#, "max_attempts"),
            (r#"{"max_attempts":99999999999}"#, "max_attempts"),
            (r#"{"backoff_coefficient":0.5}"#, "backoff_coefficient"),
            (r#"{"backoff_coefficient":"2"}"#, "backoff_coefficient"),
            (r#"{"backoff_coefficient":1e9}"#, "backoff_coefficient"),
            (r#"{"initial_interval":"soon"}"#, "initial_interval"),
            (r#"{"initial_interval":"PT0S"}"#, "initial_interval"),
            (r#"{"initial_interval":5}"#, "initial_interval"),
            (r#"{"max_interval":"-PT1S"}"#, "max_interval"),
            (r#"{"max_interval_ms":0}"#, "max_interval_ms"),
            (r#"{"jitter":"yes"}"#, "jitter"),
            (r#"{"backoff_strategy":"wild"}"#, "backoff_strategy"),
            (r#"{"non_retryable_errors":"A"}"#, "non_retryable_errors"),
            (r#"{"on_exhaustion":"explode"}"#, "on_exhaustion"),
        ];
        for (text, member) in cases {
            let refused = read_text(text).1.settle(Some(())).unwrap_err();
            assert_eq!(refused.kind, Kind::InvalidRetryPolicy, "{text}");
            assert!(refused.detail.contains(member), "{text}: {}", refused.detail);
        }
    }

    fn view(policy: &RetryPolicy, given: Option<&RawValue>) -> Value {
        serde_json::to_value(RetryView { policy, given }).unwrap()
    }

    #[test]
    fn a_policy_is_shown_in_full_with_the_clients_own_words() {
        let given =
            RawValue::from_string(r#"{"max_attempts":5,"initial_interval":"1s","multiplier":2}"#.into())
                .unwrap();
        let policy = read("retry", &given, &mut ViolationList::default());
        let shown = view(&policy, Some(&given));
        assert_eq!(shown["initial_interval"], "1s");
        assert_eq!(shown["multiplier"], 2);
        assert_eq!(shown["max_interval"], "PT5M");
        assert_eq!(shown["on_exhaustion"], "discard");
        assert_eq!(view(&defaults(), None)["backoff_coefficient"], 2.0);
    }
}

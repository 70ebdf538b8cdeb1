//! Verifies the signatures of a delivery step by step, and explains what would have to change for
//! them to match.

use std::fmt;
use std::time::Duration;

use axum::http::HeaderMap;
use forgerun_core::time::Time;

use super::keys::PublicKey;
use super::standard::{SignedContent, WebhookSecret};

mod http;
#[cfg(test)]
mod tests;

/// A received delivery.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedDelivery<'a> {
    pub method: &'a str,
    /// The URL as the sender knows it.
    pub url: &'a str,
    pub headers: &'a HeaderMap,
    /// The body as received.
    pub body: &'a [u8],
}

/// Secrets, keys and time to verify with.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions<'a> {
    /// Secrets of the webhook; if empty, Standard Webhooks is not checked.
    pub secrets: &'a [WebhookSecret],
    /// Public keys of the server; if empty, RFC 9421 is not checked.
    pub keys: &'a [PublicKey],
    /// The current time; `None` accepts any age.
    pub now: Option<Time>,
    /// Maximum age or advance of a signature.
    pub tolerance: Duration,
}

/// One step of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckStep {
    /// What it means for the signature.
    pub mark: StepMark,
    pub text: String,
}

/// What a step means for the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepMark {
    Good,
    /// The signature does not match.
    Bad,
    /// Advice, or further information.
    Hint,
}

/// The check of one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureReport {
    /// In order.
    pub steps: Vec<CheckStep>,
}

impl SignatureReport {
    pub fn holds(&self) -> bool {
        self.steps.iter().all(|step| step.mark != StepMark::Bad)
    }

    pub fn objection(&self) -> Option<&str> {
        self.steps.iter().find(|step| step.mark == StepMark::Bad).map(|step| step.text.as_str())
    }

    fn good(&mut self, text: impl Into<String>) {
        self.steps.push(CheckStep { mark: StepMark::Good, text: text.into() });
    }

    fn bad(&mut self, text: impl Into<String>) {
        self.steps.push(CheckStep { mark: StepMark::Bad, text: text.into() });
    }

    fn hint(&mut self, text: impl Into<String>) {
        self.steps.push(CheckStep { mark: StepMark::Hint, text: text.into() });
    }

    /// Checks the age of a signature made at this second.
    fn age(&mut self, means: &VerifyOptions<'_>, what: &str, seconds: i64) {
        let Some(now) = means.now else { return };
        let age = now.as_micros().div_euclid(1_000_000).saturating_sub(seconds);
        let tolerance = i64::try_from(means.tolerance.as_secs()).unwrap_or(i64::MAX);
        if age > tolerance {
            self.bad(format!("{what} is {age} s old; more than {tolerance} s may be a replay"));
        } else if age < -tolerance {
            self.bad(format!("{what} lies {} s in the future: one of the two clocks is wrong", -age));
        } else {
            self.good(format!("{what} is recent: {} s", age.max(0)));
        }
    }
}

impl fmt::Display for SignatureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CheckStep { mark, text } in &self.steps {
            let mark = match mark {
                StepMark::Good => "ok  ",
                StepMark::Bad => "BAD ",
                StepMark::Hint => "hint",
            };
            writeln!(f, "  {mark}  {text}")?;
        }
        Ok(())
    }
}

/// Checks the HTTP message signature (RFC 9421) and the digest it covers.
pub fn message_signature(delivery: &ReceivedDelivery<'_>, means: &VerifyOptions<'_>) -> SignatureReport {
    http::check(delivery, means)
}

/// The key id in the message signature.
pub fn key_id(headers: &HeaderMap) -> Option<String> {
    http::key_id(headers)
}

/// Checks the signature of Standard Webhooks.
pub fn standard_signature(delivery: &ReceivedDelivery<'_>, means: &VerifyOptions<'_>) -> SignatureReport {
    let mut report = SignatureReport::default();
    let header = |name: &str| delivery.headers.get(name).and_then(|value| value.to_str().ok());
    let parts = (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let (Some(id), Some(timestamp), Some(signatures)) = parts else {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            if header(name).is_none() {
                report.bad(format!("there is no {name} header"));
            }
        }
        if header("webhook-signature").is_none() {
            report.hint(
                "the callback of a job has no secret, and so no such signature: verify the one of RFC 9421",
            );
        }
        return report;
    };
    report.good("webhook-id, webhook-timestamp and webhook-signature are there");
    let Ok(timestamp) = timestamp.parse::<i64>() else {
        report.bad("webhook-timestamp is no number of seconds since 1970");
        return report;
    };
    report.age(means, "webhook-timestamp", timestamp);
    let signed = SignedContent { id, timestamp, body: delivery.body };
    let n_signatures = signatures.split(' ').filter(|signature| signature.starts_with("v1,")).count();
    if n_signatures == 0 {
        report.bad("webhook-signature holds no signature that begins with v1,");
    } else if means.secrets.iter().any(|secret| signed.is_signed_by(secret, signatures)) {
        report.good(format!(
            "one of {n_signatures} signatures was made with the secret, over id.timestamp.body"
        ));
    } else {
        report.bad(format!(
            "none of {n_signatures} signatures was made with the secret over this id, timestamp and body"
        ));
        report.hint(standard_hint(&signed, means.secrets, signatures));
    }
    report
}

fn standard_hint(signed: &SignedContent<'_>, secrets: &[WebhookSecret], signatures: &str) -> String {
    let holds = |body: &[u8]| {
        let changed = SignedContent { body, ..*signed };
        secrets.iter().any(|secret| changed.is_signed_by(secret, signatures))
    };
    match changed_body(signed.body, holds) {
        Some(how) => how.to_owned(),
        None => "is it the secret of this webhook, and is the body byte for byte as it came, before any JSON parser?".into(),
    }
}

/// A slight change of the body that makes a check succeed: what files, shells and frameworks do to
/// bodies.
fn changed_body(body: &[u8], holds: impl Fn(&[u8]) -> bool) -> Option<&'static str> {
    if body.ends_with(b"\n") && holds(body.trim_ascii_end()) {
        return Some("it holds without the line break at the end of the body");
    }
    let compact: Vec<u8> =
        serde_json::from_slice::<serde_json::Value>(body).ok().map(|json| json.to_string().into_bytes())?;
    (compact != body && holds(&compact))
        .then_some("it holds for the same JSON without blanks: the body was parsed and written again")
}

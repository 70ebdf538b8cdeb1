//! Prints a verdict: as text, JSON and JUnit.

use std::fmt::Write;

use quick_xml::escape::escape;
use serde_json::{Value, json};

use super::finding::{CheckResult, Evidence, Outcome, Verdict};
use super::rule::Severity;
use super::{Contract, level_word};

impl Verdict {
    /// Violations first, then the sums.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (check, evidence) in self.findings() {
            finding(&mut text, check, evidence);
        }
        for contract in Contract::ALL {
            let _ = sum(&mut text, self, contract);
        }
        if let Some(level) = self.level {
            let _ = writeln!(text, "level of the async-job members: {}", level_word(level));
        }
        let end = if self.is_ok() { "conforms" } else { "does not conform" };
        let _ = writeln!(text, "{} {end}", self.target);
        text
    }

    pub fn to_json(&self) -> Value {
        let findings: Vec<Value> = self
            .findings()
            .map(|(check, evidence)| {
                json!({
                    "id": check.id,
                    "severity": check.severity.as_str(),
                    "contract": check.contract.as_str(),
                    "title": check.title,
                    "sent": evidence.sent,
                    "got": evidence.got,
                    "mend": evidence.mend,
                })
            })
            .collect();
        json!({
            "target": self.target,
            "contract": self.contract,
            "level": self.level.map(level_word),
            "passed": self.n_passed(),
            "failed": findings.len(),
            "skipped": self.n_skipped(),
            "ok": self.is_ok(),
            "findings": findings,
        })
    }

    /// For continuous integration. A violated SHOULD is not a failure there either; it is in the
    /// test's output.
    pub fn to_junit(&self) -> String {
        let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
        for contract in Contract::ALL {
            let checks: Vec<_> = self.checks.iter().filter(|check| check.contract == contract).collect();
            if checks.is_empty() {
                continue;
            }
            let n_failed = checks.iter().filter(|check| is_failure(check)).count();
            let n_skipped =
                checks.iter().filter(|check| matches!(check.outcome, Outcome::Skipped(_))).count();
            let _ = writeln!(
                xml,
                "  <testsuite name=\"conformance.{contract}\" tests=\"{}\" failures=\"{n_failed}\" skipped=\"{n_skipped}\">",
                checks.len()
            );
            for check in checks {
                case(&mut xml, check);
            }
            xml += "  </testsuite>\n";
        }
        xml + "</testsuites>\n"
    }
}

fn finding(text: &mut String, check: &CheckResult, evidence: &Evidence) {
    let Evidence { sent, got, mend } = evidence;
    let strength = check.severity.as_str().to_uppercase();
    let _ = writeln!(text, "{strength:6} {}: {}", check.id, check.title);
    let _ = writeln!(text, "  sent  {}", sent.replace('\n', "\n        "));
    let _ = writeln!(text, "  got   {}", got.replace('\n', "\n        "));
    let _ = writeln!(text, "  mend  {mend}\n");
}

fn sum(text: &mut String, verdict: &Verdict, contract: Contract) -> std::fmt::Result {
    let of = |wanted: fn(&CheckResult) -> bool| {
        verdict.checks.iter().filter(|check| check.contract == contract && wanted(check)).count()
    };
    let n_passed = of(|check| matches!(check.outcome, Outcome::Passed));
    let n_musts = of(is_failure);
    let n_shoulds = of(|check| matches!(check.outcome, Outcome::Failed(_)) && !is_failure(check));
    let n_skipped = of(|check| matches!(check.outcome, Outcome::Skipped(_)));
    if n_passed + n_musts + n_shoulds + n_skipped == 0 {
        return Ok(());
    }
    writeln!(
        text,
        "{contract:14} {n_passed} passed, {n_musts} MUST and {n_shoulds} SHOULD broken, {n_skipped} skipped"
    )
}

fn is_failure(check: &CheckResult) -> bool {
    check.severity == Severity::Must && matches!(check.outcome, Outcome::Failed(_))
}

fn case(xml: &mut String, check: &CheckResult) {
    let name = format!("{} {}", check.id, check.title);
    let _ =
        write!(xml, "    <testcase classname=\"conformance.{}\" name=\"{}\"", check.contract, escape(&name));
    let _ = match &check.outcome {
        Outcome::Passed => writeln!(xml, "/>"),
        Outcome::Skipped(reason) => {
            writeln!(xml, ">\n      <skipped message=\"{}\"/>\n    </testcase>", escape(reason))
        }
        Outcome::Failed(evidence) => {
            let what = format!("sent\n{}\n\ngot\n{}\n", evidence.sent, evidence.got);
            let what = printable(&what);
            let (what, mend) = (escape(&what), escape(&evidence.mend));
            match check.severity {
                Severity::Must => {
                    writeln!(xml, ">\n      <failure message=\"{mend}\">{what}</failure>\n    </testcase>")
                }
                Severity::Should => {
                    writeln!(xml, ">\n      <system-out>should: {mend}\n{what}</system-out>\n    </testcase>")
                }
            }
        }
    };
}

/// Without characters that XML forbids.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

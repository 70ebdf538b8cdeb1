//! Rules: id of the requirement, severity, and how to fix a violation.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// MUST, or plain words of a contract: a violation fails the verdict.
    Must,
    /// SHOULD, or an example: reported only.
    Should,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Must => "must",
            Severity::Should => "should",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The requirement's id, as in the ledger.
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// The expected behaviour.
    pub(super) title: Cow<'static, str>,
    /// How to fix a violation.
    pub(super) mend: Cow<'static, str>,
}

pub(super) const fn must(id: &'static str, title: &'static str, mend: &'static str) -> Rule {
    Rule { id, severity: Severity::Must, title: Cow::Borrowed(title), mend: Cow::Borrowed(mend) }
}

pub(super) const fn should(id: &'static str, title: &'static str, mend: &'static str) -> Rule {
    Rule { id, severity: Severity::Should, title: Cow::Borrowed(title), mend: Cow::Borrowed(mend) }
}
